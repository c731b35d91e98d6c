"""The museum's rows of networks, settings, machines and runs."""

import ctypes
import os
import platform
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

from museum_files import grey, node, onnx, put, safetensors, some, table
from museum_heddle import Skip, equal
from museum_table import Array, check, checks

ROWS = [[i * 0.5, i * 7 % 11, i * i % 7 % 2] for i in range(45)]


def data(h):
    """A table in t.csv, and a model of it in net.yaml."""
    put(h.path("t.csv"), table(["a", "b", "label"], ROWS))
    h.model((1, 1, 2), 2, layers=("in: {op: flatten}", "fc1: {op: linear, out: 8}", "act: {op: tanh}"))
    return ("--model", "net.yaml", "--data", "t.csv")


# ---- Weights and networks ----

FIRST = {"fc.weight": Array((2, 3), [0.5, -0.25, 1.5, 2.0, -1.0, 0.125]), "fc.bias": Array((2,), [0.25, -0.75])}
PLAIN = [[i, i * 5 % 7, i * 3 % 5, i * i % 7 % 2] for i in range(20)]


def three(h):
    put(h.path("t.csv"), table(["a", "b", "c", "label"], PLAIN))
    h.model((1, 1, 3), 2)
    return "--model", "net.yaml", "--data", "t.csv", "--max-steps", "1"


def from_weights(h, content, says):
    put(h.path("w.safetensors"), content)
    return h.refused(h("train", *three(h), "--init", "w.safetensors"), says)


def same_weights(h, content):
    put(h.path("w.safetensors"), content)
    put(h.path("plain.safetensors"), safetensors(FIRST))
    common = three(h)
    one, other = (h.train(*common, "--init", name + ".safetensors", "--out", name) for name in ("w", "plain"))
    equal(one.digest, other.digest, "digest from the same weights in float32")
    assert one.digest != h.train(*common, "--out", "own").digest, "the weights were not taken"
    return "right"


checks(
    weights_prefix=lambda h: from_weights(
        h, safetensors({"encoder." + name: array for name, array in FIRST.items()}), r"fc\.|encoder\."
    ),
    weights_missing=lambda h: from_weights(
        h, safetensors({"fc.weight": FIRST["fc.weight"]}), r"expected 2 tensors, found 1"
    ),
    weights_extra=lambda h: from_weights(
        h, safetensors({**FIRST, "other.weight": FIRST["fc.bias"]}), r"expected 2 tensors, found 3"
    ),
    weights_bfloat=lambda h: same_weights(h, safetensors(FIRST, "BF16")),
)


@check
def weights_shape(h):
    turned = Array((3, 2), FIRST["fc.weight"].values)
    return from_weights(h, safetensors({**FIRST, "fc.weight": turned}), r"fc\.weight.*3.*2")


def network(h, nodes, tensors, name="net.onnx", output="y"):
    put(h.path(name), onnx([*nodes], tensors, (1, 1, 1, 3), output, 2))
    put(h.path("t.csv"), table(["a", "b", "c", "label"], PLAIN))
    return h("train", "--model", name, "--data", "t.csv", "--max-steps", "1", "--threads", "1", "--out", name[:-5])


FLAT = node("Flatten", ["x"], "f", axis=1)
W, B = FIRST["fc.weight"], FIRST["fc.bias"]
TURNED = Array((3, 2), [W.values[k * 3 + i] for i in range(3) for k in range(2)])


def same_network(h, nodes, tensors):
    """As one linear layer with these weights."""
    plain = network(h, [FLAT, node("Gemm", ["f", "w", "b"], "y", transB=1)], {"w": W, "b": B}, "plain.onnx")
    one = network(h, nodes, tensors)
    equal(one.code, 0, one.err)
    scores = [h("eval", name, "--data", "t.csv", "--json").json["loss"] for name in ("plain", "net")]
    assert abs(scores[0] - scores[1]) < 1e-5, scores
    digests = [re.findall("[0-9a-f]{64}", h("digest", name).out)[0] for name in ("plain", "net")]
    equal(plain.digest, digests[0], "digest of the run")
    return "right"


@check
def onnx_gemm_turned(h):
    done = network(h, [FLAT, node("Gemm", ["f", "w", "b"], "fc", transB=1)], {"w": W, "b": B}, output="fc")
    put(h.path("w.safetensors"), safetensors(FIRST))
    equal(done.code, 0, done.err)
    common = three(h)
    equal(done.digest, h.train(*common, "--init", "w.safetensors", "--out", "plain").digest, "digest")
    return "right"


@check
def onnx_gemm_plain(h):
    return same_network(h, [FLAT, node("Gemm", ["f", "w", "b"], "y")], {"w": TURNED, "b": B})


@check
def onnx_gemm_factors(h):
    return same_network(
        h,
        [FLAT, node("Gemm", ["f", "w", "b"], "y", transB=1, alpha=0.5, beta=3.0)],
        {"w": Array(W.shape, [2 * v for v in W.values]), "b": Array(B.shape, [v / 3 for v in B.values])},
    )


@check
def onnx_gemm_bias(h):
    return same_network(h, [FLAT, node("Gemm", ["f", "w", "b"], "y", transB=1)], {"w": W, "b": Array((1, 2), B.values)})


@check
def onnx_gemm_no_bias(h):
    zero = network(h, [FLAT, node("Gemm", ["f", "w"], "y", transB=1)], {"w": W}, "bare.onnx")
    equal(zero.code, 0, zero.err)
    found = h("summary", "--model", "bare.onnx", "--json").json
    equal(found["params"], 6, "parameters")
    return "right"


@check
def onnx_matmul_add(h):
    return same_network(h, [FLAT, node("MatMul", ["f", "w"], "m"), node("Add", ["m", "b"], "y")], {"w": TURNED, "b": B})


@check
def onnx_uneven_pads(h):
    put(
        h.path("c.onnx"),
        onnx(
            [node("Conv", ["x", "k"], "c", pads=[1, 0, 0, 1]), node("Flatten", ["c"], "y", axis=1)],
            {"k": Array((1, 1, 2, 2), [1.0, 2.0, 3.0, 4.0])},
            (1, 1, 4, 4),
            "y",
            16,
        ),
    )
    done = h("summary", "--model", "c.onnx")
    equal(done.code, 0, done.err)
    assert re.search(r"\bpad +1x5x5\b", done.out) and re.search(r"\bflatten +16\b", done.out), done.out
    return "right"


@check
def onnx_cast(h):
    done = network(
        h,
        [
            node("Cast", ["x"], "i", to=6),
            node("Cast", ["i"], "z", to=1),
            node("Flatten", ["z"], "f", axis=1),
            node("Gemm", ["f", "w", "b"], "y", transB=1),
        ],
        {"w": W, "b": B},
    )
    return h.refused(done, r"Cast")


# ---- Batch norm ----


def norm_model(h):
    put(h.path("t.csv"), table(["a", "b", "label"], ROWS))
    return h.model((1, 1, 2), 2, layers=("in: {op: flatten}", "fc1: {op: linear, out: 4}", "norm: {op: batch_norm}"))


@check
def norm_of_one(h):
    done = h.train("--model", norm_model(h), "--data", "t.csv", "--batch", "1", "--max-steps", "3")
    assert re.search(r"'norm' .*becomes 0.*larger --batch", done.out), done.out
    return "right"


@check
def norm_last_of_one(h):
    put(h.path("d/train.csv"), table(["a", "b", "label"], ROWS[:33]))
    put(h.path("d/test.csv"), table(["a", "b", "label"], ROWS[33:]))
    model = norm_model(h)
    done = h.train("--model", model, "--data", "d", "--batch", "8", "--epochs", "1")
    assert re.search(r"'norm' .*last batch.*--drop-last", done.out), done.out
    dropped = h.train("--model", model, "--data", "d", "--batch", "8", "--epochs", "1", "--drop-last", "--out", "b")
    assert "becomes 0" not in dropped.out, dropped.out
    return "right"


@check
def norm_accumulated(h):
    common = ("--model", norm_model(h), "--data", "t.csv", "--batch", "16", "--max-steps", "4")
    equal(h.train(*common, "--accumulate", "4", "--out", "a").digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


# ---- Settings ----


def config(h, text):
    put(h.path("c.yaml"), text)
    return (*data(h), "--config", "c.yaml", "--max-steps", "2")


def rate(h, text, number):
    common = data(h)
    one = h.train(*config(h, text), "--out", "a")
    other = h.train(*common, "--max-steps", "2", "--lr", number, "--out", "b")
    equal(one.digest, other.digest, "digest with --lr " + number)
    return "right"


checks(
    yaml_no_point=lambda h: rate(h, "lr: 2e-5\n", "0.00002"),
    yaml_text_number=lambda h: rate(h, "lr: 5E-4\n", "0.0005"),
    yaml_quoted=lambda h: rate(h, "lr: '1e-4'\n", "0.0001"),
)


@check
def yaml_used(h):
    common = data(h)
    plain = h.train(*common, "--max-steps", "2", "--out", "a").digest
    put(h.path("c.yaml"), "lr: 0.5\n")
    filed = h.train(*common, "--max-steps", "2", "--config", "c.yaml", "--out", "b").digest
    both = h.train(*common, "--max-steps", "2", "--config", "c.yaml", "--lr", "0.001", "--out", "c").digest
    assert filed != plain, "the file was not used"
    equal(both, plain, "digest with the command line's rate")
    return "right"


@check
def yaml_twice(h):
    return h.refused(h("train", *config(h, "lr: 0.1\nbatch: 8\nlr: 0.2\n")), r"c\.yaml:3: .*'lr'.*line 1")


@check
def yaml_layer_twice(h):
    data(h)
    put(
        h.path("net.yaml"),
        "model: m\ninput: [1, 1, 2]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 2, out: 3}\n",
    )
    return h.refused(h("train", "--model", "net.yaml", "--data", "t.csv"), r"net\.yaml:5:.*'out'")


@check
def yaml_misspelt(h):
    return h.refused(
        h("train", *config(h, "batch: 8\nwieght-decay: 0.1\n")), r"c\.yaml:2: .*'wieght-decay'.*'weight-decay'"
    )


@check
def yaml_norway(h):
    common = data(h)
    os.rename(h.path("t.csv"), h.path("no"))
    os.makedirs(h.path("yes"))
    os.rename(h.path("no"), h.path("yes/train.csv"))
    shutil.copy(h.path("yes/train.csv"), h.path("yes/test.csv"))
    put(h.path("c.yaml"), "data: yes\nout: no\n")
    h.train(*common[:2], "--config", "c.yaml", "--max-steps", "1")
    assert os.path.isdir(h.path("no")), "the run is not in the folder 'no'"
    put(h.path("c.yaml"), "drop-last: no\n")
    return h.refused(h("train", *common[:2], "--data", "yes", "--config", "c.yaml"), r"c\.yaml:1: .*'no'") and "right"


def comma_locale(h):
    """The environment of a locale that writes 1,5."""
    made = h.path("locales")
    os.makedirs(made)
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout if shutil.which("locale") else ""
    for name in re.findall(r"^(?:de|fr|es|it|pl|nl|sv|da|ru)_.*$", known, re.M):
        return {"LC_ALL": name}
    if shutil.which("localedef"):
        source = os.path.join(os.environ.get("SRCDIR", "."), "tests/comma.locale")
        subprocess.run(["localedef", "-c", "-i", source, "-f", "ANSI_X3.4-1968", made + "/comma"], capture_output=True)
    if not os.path.isdir(made + "/comma"):
        raise Skip("no locale with a decimal comma")
    return {"LC_ALL": "comma", "LOCPATH": made}


@check
def locale_table(h):
    locale, common = comma_locale(h), (*data(h), "--max-steps", "2")
    equal(h.train(*common, "--out", "a", env=locale).digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


@check
def locale_settings(h):
    locale = comma_locale(h)
    common = config(h, "lr: 0.0125\nbetas: [0.85, 0.995]\n")
    one, other = h.train(*common, "--out", "a", env=locale), h.train(*common, "--out", "b")
    equal(one.digest, other.digest, "digest")
    with open(h.path("a/last/run.json")) as file, open(h.path("b/last/run.json")) as right:
        equal(file.read(), right.read(), "the run's record")
    return "right"


@check
def locale_written(h):
    locale, common = comma_locale(h), data(h)
    h.train(*common, "--max-steps", "2", "--log-every", "1", "--out", "r", env=locale)
    one, other = h("eval", "r", "--data", "t.csv", "--json", env=locale), h("eval", "r", "--data", "t.csv", "--json")
    equal(one.json, other.json, "what eval writes")
    return "right"


# ---- Machine ----


def unbound(h):
    found = h("topo", "--json").json
    if found["budget"] < 2:
        raise Skip("one CPU")
    return found


def bound(h, **variables):
    """Variables that make the OpenMP runtime bind this thread: neither the budget nor the weights change."""
    plain, common = unbound(h), (*data(h), "--max-steps", "3", "--threads", "2")
    found = h("topo", "--json", env=variables).json
    equal(found["budget"], plain["budget"], "CPUs that may be used")
    equal(h.train(*common, "--out", "a", env=variables).digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


@check
def omp_bind(h):
    return bound(h, OMP_PROC_BIND="close")


@check
def omp_affinity(h):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise Skip("one CPU")
    return bound(h, GOMP_CPU_AFFINITY="%d %d" % (cpus[0], cpus[1]))


@check
def omp_places(h):
    return bound(h, OMP_PROC_BIND="true", OMP_PLACES="cores")


@check
def affinity_threads(h):
    cpu, common = {min(os.sched_getaffinity(0))}, (*data(h), "--max-steps", "3")
    done = h.train(*common, "--threads", "2", "--out", "a", cpus=cpu)
    assert re.search(r"2 threads share 1 CPU", done.err + done.out), done.err + done.out
    equal(done.digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


@check
def affinity_mask(h):
    cpu = {min(os.sched_getaffinity(0))}
    found = h("topo", "--json", cpus=cpu).json
    equal([found["budget"], len(found["threads"])], [1, 1], "CPUs and threads")
    return "right"


def quota(h, version, text):
    """topo on this machine, under a made-up quota."""
    member = "0::/job\n" if version == 2 else "4:cpu,cpuacct:/job\n"
    put(h.path("root/proc/self/cgroup"), member)
    if version == 2:
        put(h.path("root/sys/fs/cgroup/job/cpu.max"), text)
    else:
        for name, value in zip(("quota", "period"), text.split()):
            put(h.path("root/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_%s_us" % name), value + "\n")
    return h("topo", "--json", env={"HEDDLE_SYSROOT": h.path("root"), "HWLOC_SYNTHETIC": "core:8 pu:1"}).json


@check
def quota_two(h):
    equal(quota(h, 2, "200000 100000\n")["budget"] <= 2, True, "budget of at most 2")
    equal(quota(h, 2, "100000 100000\n")["budget"], 1, "budget")
    return "right"


@check
def quota_version_one(h):
    equal(quota(h, 1, "100000 100000")["budget"], 1, "budget")
    return "right"


@check
def quota_fraction(h):
    equal(quota(h, 2, "190000 100000\n")["budget"], 1, "budget")
    return "right"


@check
def quota_reason(h):
    found = quota(h, 2, "100000 100000\n")
    assert "quota" in found["why"] and found["quota"] == 1, found
    return "right"


@check
def threads_weights(h):
    common = (*data(h), "--max-steps", "6", "--batch", "16")
    digests = [h.train(*common, "--threads", str(n), "--out", "r%d" % n).digest for n in (1, 2, 3)]
    equal(digests, digests[:1] * 3, "digests")
    return "right"


@check
def threads_scores(h):
    common = data(h)
    h.train(*common, "--max-steps", "3", "--out", "r")
    found = [h("eval", "r", "--data", "t.csv", "--json", "--threads", n).json for n in ("1", "2", "3")]
    equal(found, found[:1] * 3, "evaluations")
    return "right"


@check
def threads_variables(h):
    common = (*data(h), "--max-steps", "3")
    plain = h.train(*common, "--out", "r").digest
    for i, name in enumerate(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")):
        equal(
            h.train(*common, "--out", "r%d" % i, "--threads", "2", env={name: "2"}).digest, plain, "digest with " + name
        )
    return "right"


def forbid(calls):
    """Lets no system call of these numbers through: each fails with EPERM, as under a container's profile."""
    LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
    ALLOW, ERROR, NO_NEW_PRIVILEGES, SECCOMP, FILTER = 0x7FFF0000, 0x00050001, 38, 22, 2
    code = struct.pack("HBBI", LOAD, 0, 0, 0)
    for i, call in enumerate(calls):
        code += struct.pack("HBBI", EQUAL, len(calls) - i, 0, call)
    code += struct.pack("HBBI", RETURN, 0, 0, ALLOW) + struct.pack("HBBI", RETURN, 0, 0, ERROR)
    kept = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept)), 16)
    libc = ctypes.CDLL(None)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, program, 0, 0):
        raise OSError("seccomp")


CALLS = {
    "x86_64": {"mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239, "sched_setaffinity": 203},
    "aarch64": {"mbind": 235, "get_mempolicy": 236, "set_mempolicy": 237, "sched_setaffinity": 122},
}


def without(h, *names):
    if platform.machine() not in CALLS:
        raise Skip("numbers of system calls are not known for this machine")
    numbers, common = [CALLS[platform.machine()][name] for name in names], (
        *data(h),
        "--max-steps",
        "3",
        "--threads",
        "2",
    )
    try:
        done = h.train(*common, "--out", "a", prepare=lambda: forbid(numbers))
    except subprocess.SubprocessError:
        raise Skip("seccomp is not to be had")
    assert "not permitted" not in done.err, done.err
    equal(done.digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


checks(
    seccomp_get=lambda h: without(h, "get_mempolicy"),
    seccomp_numa=lambda h: without(h, "mbind", "set_mempolicy", "get_mempolicy"),
    seccomp_bind=lambda h: without(h, "mbind", "set_mempolicy", "get_mempolicy", "sched_setaffinity"),
)


# ---- Runs ----


def step_of(h, run="r"):
    return int(os.readlink(h.path(run + "/last")).split("-")[1])


def started(h, *words, until):
    """A run in the background that has come to `until`."""
    process = subprocess.Popen(
        [h.program, "train", *words, "--threads", "1"],
        cwd=h.folder,
        env=h.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(12000):
        if until() or process.poll() is not None:
            break
        time.sleep(0.01)
    assert process.poll() is None, "the run ended by itself: %s" % process.stderr.read()
    return process


def endless(h):
    return (*data(h), "--epochs", "1000000", "--eval-epochs", "1000000", "--save-every", "50", "--batch", "8")


def goes_on(h, run="r"):
    """Three steps beyond what was saved, the weights are those of a run that nothing disturbed."""
    last = str(step_of(h, run) + 3)
    resumed = h.train("--resume", run, "--max-steps", last)
    plain = h.train(*endless(h), "--max-steps", last, "--out", "undisturbed")
    equal(resumed.digest, plain.digest, "digest after step " + last)
    return "right"


def stopped(h, number, code):
    process = started(h, *endless(h), "--out", "r", until=lambda: os.path.exists(h.path("r/last")))
    process.send_signal(number)
    _, text = process.communicate(timeout=60)
    equal(process.returncode, code, "exit code")
    if number != signal.SIGKILL:
        assert "saved in r" in text and "--resume r" in text, text
    return goes_on(h)


checks(
    run_killed=lambda h: stopped(h, signal.SIGKILL, -signal.SIGKILL),
    run_interrupted=lambda h: stopped(h, signal.SIGINT, 130),
    run_terminated=lambda h: stopped(h, signal.SIGTERM, 143),
)


@check
def run_disk_full(h):
    common = (*data(h), "--max-steps", "2", "--out", "r", "--threads", "1")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))

    verdict = h.refused(h("train", *common, prepare=limit), r"write|limit|large|space")
    assert not os.path.exists(h.path("r/last")), os.listdir(h.path("r"))
    return verdict


@check
def run_output_full(h):
    with open("/dev/full", "w") as full:
        return h.refused(h("train", *data(h), "--max-steps", "1", "--out", "r", stdout=full), r"full|space")


def damaged(h, change, says):
    h.train(*data(h), "--max-steps", "2", "--out", "r")
    path = os.path.realpath(h.path("r/last")) + "/model.safetensors"
    with open(path, "rb") as file:
        content = file.read()
    os.chmod(path, 0o644)
    put(path, change(content))
    return h.refused(h("train", "--resume", "r", "--max-steps", "4"), says)


checks(
    run_cut_checkpoint=lambda h: damaged(h, lambda content: content[:-9], r"model\.safetensors"),
    run_empty_checkpoint=lambda h: damaged(h, lambda content: b"", r"model\.safetensors"),
    run_damaged_checkpoint=lambda h: damaged(
        h, lambda content: content[:-5] + bytes([content[-5] ^ 1]) + content[-4:], r"model\.safetensors"
    ),
)


def in_two(h, at, end, *more):
    common = (*data(h), "--batch", "8", *more)
    h.train(*common, "--max-steps", str(at), "--out", "r")
    resumed = h.train("--resume", "r", "--max-steps", str(end))
    equal(resumed.digest, h.train(*common, "--max-steps", str(end), "--out", "whole").digest, "digest")
    return "right"


checks(
    run_resumed_middle=lambda h: in_two(h, 3, 7),
    run_resumed_second=lambda h: in_two(h, 7, 12),
    run_resumed_end=lambda h: in_two(h, 5, 10),
)


@check
def run_resumed_random(h):
    put(h.path("p.txt"), "")
    for i in range(30):
        put(h.path("pics/%s/%02d.png" % ("ab"[i % 2], i)), grey(some(8, 8, step=31 + i).values, 8))
    model = h.model((1, 8, 8), 2)
    common = (
        "--model",
        model,
        "--data",
        "pics",
        "--batch",
        "8",
        "--transforms",
        "[{random_crop: {size: 8, padding: 2}}, horizontal_flip, to_float, normalise]",
    )
    h.train(*common, "--max-steps", "2", "--out", "r")
    equal(
        h.train("--resume", "r", "--max-steps", "6").digest,
        h.train(*common, "--max-steps", "6", "--out", "w").digest,
        "digest",
    )
    return "right"


@check
def run_other_rate(h):
    h.train(*data(h), "--max-steps", "2", "--lr", "0.05", "--out", "r")
    return h.refused(h("train", "--resume", "r", "--lr", "0.1"), r"0\.05.*0\.1")


@check
def run_twice(h):
    common = (*data(h), "--max-steps", "1")
    first = re.findall(r"^saved +(\S+)$", h.train(*common).out, re.M)[0]
    second = re.findall(r"^saved +(\S+)$", h.train(*common, "--seed", "1").out, re.M)[0]
    assert first != second, first
    return "right"


@check
def run_folder_taken(h):
    common = (*data(h), "--max-steps", "1", "--out", "r")
    h.train(*common)
    return h.refused(h("train", *common), r"--out r")


@check
def run_two_writers(h):
    process = started(h, *endless(h), "--out", "r", until=lambda: os.path.exists(h.path("r/last")))
    try:
        return h.refused(h("train", "--resume", "r", "--max-steps", "1000000"), str(process.pid))
    finally:
        process.kill()
        process.communicate()


@check
def run_to_file(h):
    done = h.train(*data(h), "--epochs", "3", "--batch", "4")
    assert not re.search(r"[\r\x1b]", done.out + done.err), repr(done.out + done.err)
    return "right"


# ---- Sums over batches and ranks ----


def ranks(h, count):
    """The evaluation of a test set that the ranks cannot share evenly."""
    put(h.path("d/train.csv"), table(["a", "b", "label"], ROWS[:24]))
    put(h.path("d/test.csv"), table(["a", "b", "label"], ROWS[24:]))
    h.model((1, 1, 2), 2)
    common = ("--model", "net.yaml", "--data", "d", "--max-steps", "2", "--batch", "8", "--json")
    found = [h.train(*common, "--procs", str(n), "--out", "r%d" % n).json for n in (1, count)]
    for key in ("test_loss", "test_accuracy", "weights_sha256"):
        equal(found[1][key], found[0][key], key)
    return "right"


checks(
    ranks_two=lambda h: ranks(h, 2),
    ranks_four=lambda h: ranks(h, 4),
)


@check
def accumulate_last(h):
    common = (*data(h), "--batch", "16", "--epochs", "1")
    equal(h.train(*common, "--accumulate", "4", "--out", "a").digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


@check
def accumulate_epochs(h):
    common = (*data(h), "--batch", "32", "--epochs", "3", "--drop-last")
    other = (*data(h), "--batch", "32", "--epochs", "3")
    for i, each in enumerate((common, other)):
        equal(
            h.train(*each, "--accumulate", "8", "--out", "a%d" % i).digest,
            h.train(*each, "--out", "b%d" % i).digest,
            "digest",
        )
    return "right"


@check
def accumulate_loss(h):
    common = (*data(h), "--batch", "16", "--epochs", "1", "--json")
    one, other = h.train(*common, "--accumulate", "2", "--out", "a").json, h.train(*common, "--out", "b").json
    equal([one["train_loss"], one["weights_sha256"]], [other["train_loss"], other["weights_sha256"]], "loss and digest")
    return "right"


def unmoved(h, key, *batches):
    """The loss of weights that do not move, in batches of several sizes."""
    common = (*data(h), "--lr", "0", "--optimizer", "sgd", "--epochs", "1", "--json")
    found = [h.train(*common, "--batch", str(n), "--out", "r%d" % n).json[key] for n in batches]
    assert all(abs(each - found[0]) < 1e-5 for each in found), found
    return "right"


checks(
    loss_evaluated=lambda h: unmoved(h, "test_loss", 36, 7, 2),
    loss_trained=lambda h: unmoved(h, "train_loss", 36, 17, 5),
)


@check
def workers_random(h):
    for i in range(30):
        put(h.path("pics/%s/%02d.png" % ("ab"[i % 2], i)), grey(some(8, 8, step=31 + i).values, 8))
    common = (
        "--model",
        h.model((1, 8, 8), 2),
        "--data",
        "pics",
        "--batch",
        "8",
        "--epochs",
        "2",
        "--transforms",
        "[{random_crop: {size: 8, padding: 2}}, horizontal_flip, to_float, normalise]",
    )
    digests = [h.train(*common, "--workers", n, "--out", "r" + n).digest for n in ("0", "1", "3")]
    equal(digests, digests[:1] * 3, "digests")
    plain = h.train(*common[:-2], "--out", "plain").digest
    assert plain != digests[0], "nothing was changed at random"
    return "right"
