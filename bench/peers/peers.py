#!/usr/bin/env python3
"""heddle and its peers on the same work, in turns: how heddle bench peers measures.

Each library of each interpreter is searched for its best setting first: ways to run (eager, compiled), memory layouts,
numbers of threads up to the CPUs that this process may use. All get a C heap that keeps its pages, an OpenBLAS without
threads of its own, and kernels of OpenBLAS for this CPU where old versions do not know it: each of these is worth up to
a factor of two to PyTorch. Then heddle and the best setting of each peer take turns, and medians are compared; a peer
that is over three times slower than the fastest one takes one turn.

--isa limits heddle and its peers to an instruction set, by the variables that each has for it. A peer that says that it
uses another one all the same is left out. --precision bf16 has products of bfloat16 on both sides, PyTorch's by
autocast, and no JAX, for which it has no such network, and no ddp.

heddle runs as anybody runs it: `heddle train` on MNIST. Peers have the data in memory, normalised; but with `ddp`,
where both read and normalise samples as they train, an epoch of SimpleNet in 4 ranks of one thread. --work also takes
gpt-nano, gpt-baby and char-lstm, whose samples are windows of random characters, and a model file of heddle's; PyTorch
trains them, too, and the samples of a file are noise.
"""
import argparse
import atexit
import datetime
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from math import prod

from model_file import classes_of, read_model
from peer_work import CHARACTERS, TEXTS

HERE = os.path.dirname(os.path.abspath(__file__))
WORKERS = {"torch": "torch_worker.py", "jax": "jax_worker.py"}
# What limits each library to an instruction set: heddle, PyTorch and the libraries that it calls, JAX.
ISAS = {"avx2": {"HEDDLE_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
                 "MKL_ENABLE_INSTRUCTIONS": "AVX2", "OPENBLAS_CORETYPE": "Haswell",
                 "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}}
SPOILERS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "HEDDLE_ISA",
            "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
limits = {}  # those of --isa
stopped_by = []  # the signal that ends the script
processes = []  # all that the script has started
SEARCH_S, TIMEOUT_S = 0.7, 600
NOISE_BATCHES = 400  # an epoch, after which heddle saves, takes as long as with a data set
DDP_RANKS = 4
WORKS = ["cnn", "mlp", "simplenet", "fastmnist", "ddp"]
PRECISIONS = {"f32": "float32", "bf16": "bfloat16"}
TEXT_CHARACTERS = 1 << 20  # of noise


def say(text):
    print(text, file=sys.stderr, flush=True)


def give_up(text):
    say("heddle: " + text)
    sys.exit(1)


class Process(subprocess.Popen):
    """One that ends with the script, whatever a signal has interrupted."""

    def __init__(self, *args, **options):
        self.is_starting = True
        processes.append(self)
        try:
            super().__init__(*args, **options)
        finally:
            self.is_starting = False
            if stopped_by:
                sys.exit(128 + stopped_by[0])


def end_processes():
    for process in processes:
        if getattr(process, "pid", None) and process.returncode is None:
            process.kill()
            process.wait()


def end_by_signals():
    """From now on signals end the script as an exit does: folders are removed and workers ended."""
    def end(number, _):
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a second one must not end the end
            signal.signal(each, signal.SIG_IGN)
        stopped_by.append(number)
        if not any(process.is_starting for process in processes):
            sys.exit(128 + number)
    subprocess.Popen = Process  # subprocess.run's, too
    atexit.register(end_processes)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


def cpu_info(key):
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    return ""


def environment():
    """Settings that are best for the peers, and slow none down."""
    env = {k: v for k, v in os.environ.items() if k not in SPOILERS}
    env.update(OPENBLAS_NUM_THREADS="1", MALLOC_MMAP_THRESHOLD_=str(32 << 20), MALLOC_TRIM_THRESHOLD_=str(1 << 30),
               MALLOC_TOP_PAD_=str(64 << 20), TF_CPP_MIN_LOG_LEVEL="3", PYTHONDONTWRITEBYTECODE="1")
    if "AMD" in cpu_info("vendor_id") and " avx512f " in cpu_info("flags"):
        env["OPENBLAS_CORETYPE"] = "SkylakeX"
    return {**env, **limits}


class Worker:
    """A process of one library: requests and answers are JSON, one a line."""

    def __init__(self, python, script, folder, threads):
        self.threads = threads
        self.buffer = b""
        self.errors = tempfile.TemporaryFile()
        python = os.path.abspath(python) if os.sep in python else python
        self.process = subprocess.Popen([python, os.path.join(HERE, script), folder, str(threads)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=environment(), cwd=HERE)
        try:
            started = self.answer()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        self.version, self.isa = started.get("peer"), started.get("isa")

    def answer(self):
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_S)
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not chunk:
                self.errors.seek(0)
                last = self.errors.read().decode(errors="replace").strip().split("\n")[-1]
                return {"error": last or "it ended" if ready else "no answer in %d s" % TIMEOUT_S}
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def ask(self, do, **what):
        try:
            self.process.stdin.write((json.dumps(dict(what, do=do)) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self.answer()

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(0 if stopped_by else 20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Peer:
    """A library of an interpreter, one worker for each number of threads."""

    def __init__(self, python, library, folder, counts):
        self.python, self.library = python, library
        self.workers = []
        try:
            for n in counts:
                self.workers.append(Worker(python, WORKERS[library], folder, n))
        except BaseException:
            self.close()
            raise
        self.name, self.isa = self.workers[0].version, self.workers[0].isa

    def open(self, model, batch, eager, precision):
        """Searches the best setting: what is measured from now on. With fewer than all threads only the two that were
        best with all of them are tried; compiled ones, which take minutes, with the number that is best for the
        others."""
        self.tried, self.best = {}, 0
        answers = [(worker, worker.ask("open", model=model, batch=batch, precision=precision))
                   for worker in self.workers]
        for why in {answer["error"] for _, answer in answers if "error" in answer}:
            say("%s, %s: left out: %s" % (self.name, model, why))
        opened = [(worker, answer.get("settings", [])) for worker, answer in answers]
        best = []
        for worker, settings in opened[::-1]:
            plain = [s for s in settings if not s.startswith("compile/")]
            best = self.search(worker, [s for s in best if s in plain] or plain)[:2] or best
        if not eager:
            for worker, settings in opened:
                if not self.best or worker is self.worker:
                    self.search(worker, [s for s in settings if s.startswith("compile/")])
        self.label = "%s, %d threads" % (self.setting, self.worker.threads) if self.best else None
        return self.best > 0

    def search(self, worker, settings):
        """The settings that work, fastest first. One that is far from the best is not measured twice."""
        rates = {}
        for setting in settings:
            rate = self.rate_of(worker, setting, SEARCH_S)
            if rate > 0.7 * self.best:
                rate = max(rate, self.rate_of(worker, setting, SEARCH_S))
            self.tried["%s, %d threads" % (setting, worker.threads)] = round(rate)
            rates[setting] = rate
            if rate > self.best:
                self.best, self.worker, self.setting = rate, worker, setting
        return sorted(filter(rates.get, rates), key=rates.get, reverse=True)

    def rate_of(self, worker, setting, seconds):
        answer = worker.ask("rate", setting=setting, seconds=seconds)
        if "error" in answer:
            say("%s, %s, %d threads: left out: %s" % (self.name, setting, worker.threads, answer["error"]))
        return answer.get("samples_per_s", 0)

    def rate(self, seconds):
        return self.rate_of(self.worker, self.setting, seconds)

    def recipe(self, seed):
        answer = self.worker.ask("recipe", setting=self.setting, seed=seed)
        if "error" in answer:
            give_up("%s failed in the recipe: %s; leave it out with --python" % (self.name, answer["error"]))
        return answer["train_s"], answer["accuracy"]

    def close(self):
        for worker in self.workers:
            worker.close()


def version_of(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]


def run_heddle(command, spoilers):
    """What it prints as JSON in its last line; its failure ends the comparison."""
    env = {**{k: v for k, v in os.environ.items() if k not in spoilers}, **limits}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        give_up(done.stderr.strip().split("\n")[-1].removeprefix("heddle: "))
    return json.loads(done.stdout.strip().split("\n")[-1])


def is_file(work):
    return work not in WORKS and work not in TEXTS


def write_npy(path, shape, data):
    """Bytes as unsigned numbers."""
    head = "{'descr': '|u1', 'fortran_order': False, 'shape': (%s,), }" % ", ".join(map(str, shape))
    head = head.ljust(-(10 + len(head) + 1) % 64 + len(head)) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


class Heddle:
    def __init__(self, program, folder, threads, scratch, precision):
        self.program, self.folder, self.threads, self.scratch = program, folder, threads, scratch
        self.precision, self.steps = precision, {}
        self.name = version_of(program)

    def train(self, *options):
        out = os.path.join(self.scratch, "run")
        shutil.rmtree(out, ignore_errors=True)
        data = [] if "--data" in options else ["--data", self.folder]
        run = run_heddle([self.program, "train", *data, "--threads", str(self.threads), "--out", out, "--json",
                          "--precision", self.precision, *options], SPOILERS[:2])
        self.isa = run["isa"]
        return run

    def rate(self, model, batch, seconds):
        """Of a number of steps that takes so long, twenty at least, since the first is slower, or those of ten seconds;
        two and then twenty tell how many these are."""
        options = ["--model", model, "--batch", str(batch), "--optimizer", "sgd", "--lr", "0.01", "--epochs", "1000"]
        if is_file(model):
            options += ["--data", self.noise(model, batch)]
        if model in TEXTS:
            options += ["--data", self.text()]
        if (model, batch) not in self.steps:
            for probe in (2, 20):
                first = self.train(*options, "--max-steps", str(probe))["samples_per_s"]
                fewest = min(20, max(5, round(10 * first / batch)))
                self.steps[model, batch] = max(fewest, round(seconds * first / batch))
                if fewest < 20:
                    break
        return self.train(*options, "--max-steps", str(self.steps[model, batch]))["samples_per_s"]

    def noise(self, model, batch):
        """A folder of samples for a model file."""
        folder = os.path.join(self.scratch, "noise-%s-%d" % (os.path.basename(model), batch))
        if not os.path.isdir(folder):
            shape, layers = read_model(model)
            if isinstance(shape, str) or isinstance(classes_of(layers), str):
                sys.exit("heddle: %s: expected numbers as 'input' and as outputs of the last layer, found those of "
                         "the data; write numbers into a copy" % model)
            os.mkdir(folder)
            for part, count in (("train", NOISE_BATCHES * batch), ("test", 64)):
                write_npy(os.path.join(folder, "x_%s.npy" % part), [count, *shape], os.urandom(count * prod(shape)))
                write_npy(os.path.join(folder, "y_%s.npy" % part), [count],
                          bytes(n % min(256, classes_of(layers)) for n in range(count)))
        return folder

    def text(self):
        """A folder of random characters, few of them to validate with."""
        folder = os.path.join(self.scratch, "noise-text")
        if not os.path.isdir(folder):
            os.mkdir(folder)
            letters = bytes(ord("0") + n for n in range(CHARACTERS))
            for part, count in (("train", TEXT_CHARACTERS), ("val", 1024)):
                with open(os.path.join(folder, part + ".txt"), "wb") as file:
                    file.write(letters + bytes(letters[n % CHARACTERS] for n in os.urandom(count)))
        return folder

    def recipe(self, seed):
        run = self.train("--recipe", "fastmnist", "--seed", str(seed))
        return run["train_s"], run["test_accuracy"]


def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def find_mnist(given):
    """Where heddle looks for it, too."""
    places = [given, os.environ.get("HEDDLE_DATA"), os.path.expanduser("~/.cache/heddle")]
    for place in filter(None, places):
        for below in ("", "mnist", "MNIST", "MNIST/raw", "mnist/MNIST/raw"):
            folder = os.path.join(place, below)
            name = os.path.join(folder, "train-images-idx3-ubyte")
            if os.path.exists(name) or os.path.exists(name + ".gz"):
                return folder
    give_up("expected MNIST's IDX files in --data-dir, $HEDDLE_DATA or ~/.cache/heddle, found none; "
            "run heddle get mnist, or name their folder with --data-dir")


def libraries_of(python):
    ask = "import importlib.util as u; print(*[m for m in ('torch', 'jax') if u.find_spec(m) and u.find_spec('numpy')])"
    try:
        done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None


def add_peer(peers, peer, what, isa=None):
    """One that started, reports no other instruction set, and is none of those that are there."""
    ignores = isa and peer.isa and peer.isa.lower() != isa
    if peer.name and not ignores and peer.name not in [p.name for p in peers]:
        peers.append(peer)
        return
    if ignores:
        say("%s: left out: it uses %s in spite of --isa %s" % (what, peer.isa, isa))
    elif not peer.name:
        say("%s: left out: it does not start%s" % (what, " with --isa %s" % isa if isa else ""))
    peer.close()


def report_of(args, heddle, peers, rows):
    return {"cpu": cpu_info("model name"), "cpus": args.threads, "heddle": heddle.name,
            "date": datetime.date.today().isoformat(), "rounds": args.rounds, "peers": [p.name for p in peers],
            "works": rows}


def find_peers(peers, args, folder):
    """Adds them one by one: those that are there are ended if another one fails."""
    counts = sorted({1, args.threads})
    pythons = args.python or [p for p in ("python3", "/usr/bin/python3") if shutil.which(p)]
    for python in pythons:
        found = libraries_of(python)
        if found is None:
            say("%s: left out: it does not run" % python)
        for library in WORKERS:
            if found is not None and library not in found:
                say("%s: left out: %s has none (with numpy)" % ("PyTorch" if library == "torch" else "JAX", python))
        for library in found or []:
            add_peer(peers, Peer(python, library, folder, counts), "%s of %s" % (library, python), args.isa)
    if not peers:
        say("no peer was found, so these are heddle's figures alone; to compare, install PyTorch or JAX, with numpy, "
            "for "
            "%s, or name a Python that has them with --python" % (" or ".join(pythons) or "python3"))


def is_far(values, peers, who, better):
    """Whether a peer was over three times slower than the fastest one, in the search and in the first round."""
    first, best = values[id(who)][0], better(values[id(p)][0] for p in peers)
    return (first > 3 * best if better is min else 3 * first < best) and 3 * who.best < max(p.best for p in peers)


def measure(work, args, heddle, peers):
    """One row: medians over rounds, heddle and every peer once in each, but peers that are far only in the first."""
    recipe = work == "fastmnist"
    batch = 256 if recipe else TEXTS[work]["batch"] if work in TEXTS else args.batch
    if peers:
        say("%s: searching the peers' best settings" % work)
    here = [p for p in peers if (p.library == "torch" or not (is_file(work) or work in TEXTS)) and
            p.open(work, batch, args.eager, args.precision)]
    values = {id(p): [] for p in here + [heddle]}
    accuracy = {id(p): [] for p in here + [heddle]}
    better = min if recipe else max
    for turn in range(args.rounds):
        say("%s: round %d of %d" % (work, turn + 1, args.rounds))
        for who in [heddle] + here:
            if turn and who is not heddle and is_far(values, here, who, better):
                continue
            if recipe:
                value, right = who.recipe(turn)
                accuracy[id(who)].append(right)
            else:
                value = heddle.rate(work, batch, args.seconds) if who is heddle else who.rate(args.seconds)
            values[id(who)].append(value)

    def told(who):
        one = {"name": who.name, "median": median(values[id(who)]), "low": min(values[id(who)]),
               "high": max(values[id(who)]), "turns": len(values[id(who)])}
        if recipe:
            one["accuracy"] = sum(accuracy[id(who)]) / len(accuracy[id(who)])
        if who is not heddle:
            one.update(setting=who.label, python=who.python, tried=who.tried)
        return one
    row = {"work": work, "batch": batch, "unit": "training seconds" if recipe else "samples/s", "heddle": told(heddle),
           "peers": [told(p) for p in here]}
    if here:
        fastest = better(row["peers"], key=lambda p: p["median"])
        heddle_median, peer_median = row["heddle"]["median"], fastest["median"]
        if peer_median:
            ratio = peer_median / heddle_median if recipe else heddle_median / peer_median
            row.update(fastest=fastest["name"], ratio=ratio)
    return row


def ddp_epoch(peer, folder, scratch, turn):
    """Training seconds of an epoch of PyTorch's DistributedDataParallel; None where it fails."""
    path = os.path.join(scratch, "ddp-%d-%d" % (id(peer), turn))
    python = os.path.abspath(peer.python) if os.sep in peer.python else peer.python
    ranks = [subprocess.Popen([python, os.path.join(HERE, "ddp_rank.py"), folder, str(r), str(DDP_RANKS), path],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(), cwd=HERE)
             for r in range(DDP_RANKS)]
    said = [process.communicate(timeout=TIMEOUT_S)[0] for process in ranks]
    if any(process.returncode for process in ranks):
        say("%s, ddp: left out: a rank failed" % peer.name)
        return None
    return json.loads(said[0])["train_s"]


def measure_ddp(args, heddle, peers, folder, scratch):
    """A row like those of measure, of processes that share each step."""
    options = ["--model", "simplenet", "--batch", str(64 * DDP_RANKS), "--epochs", "1", "--optimizer", "sgd", "--lr",
               "0.01", "--procs", str(DDP_RANKS), "--threads", "1"]
    heddle_s, peer_s = [], {p.name: [] for p in peers if p.library == "torch"}
    for turn in range(args.rounds):
        say("ddp: round %d of %d" % (turn + 1, args.rounds))
        heddle_s.append(heddle.train(*options)["train_s"])
        for peer in peers:
            if peer.name in peer_s:
                peer_s[peer.name].append(ddp_epoch(peer, folder, scratch, turn))

    def told(name, values):
        return {"name": name, "median": median(values), "low": min(values), "high": max(values)}
    row = {"work": "ddp", "batch": 64 * DDP_RANKS, "unit": "training seconds", "heddle": told(heddle.name, heddle_s),
           "peers": [dict(told(name, values), setting="gloo, %d ranks of 1 thread" % DDP_RANKS)
                     for name, values in peer_s.items() if None not in values]}
    if row["peers"]:
        fastest = min(row["peers"], key=lambda p: p["median"])
        row.update(fastest=fastest["name"], ratio=fastest["median"] / row["heddle"]["median"])
    return row


def number(row, value):
    """As text; 0 is the speed of a peer that ended in the middle of a turn."""
    if value == 0:
        return "failed"
    return "%.3g" % value if row["unit"].endswith("seconds") else "{:,.0f}".format(value)


def title(row):
    if row["work"] == "ddp":
        return "`simplenet`, %d ranks, an epoch with its loader, training seconds" % DDP_RANKS
    return "`fastmnist` recipe, training seconds" if row["work"] == "fastmnist" else \
        "`%s`, batch %d, samples/s" % (os.path.basename(row["work"]), row["batch"])


def caption(report):
    once = any(p.get("turns", report["rounds"]) < report["rounds"] for row in report["works"] for p in row["peers"])
    return "%s, %s, %d CPU%s, %s, MNIST; %s; medians of %d, taken in turns%s; %s." % (
        report["cpu"], report["isa"], report["cpus"], "s" * (report["cpus"] != 1), PRECISIONS[report["precision"]],
        report["heddle"], report["rounds"], ", a single one of peers over three times slower" * once,
        report["date"])


def print_markdown(report):
    """The works that some peer has done, and the peers that have done some."""
    done = {row["work"]: {p["name"]: number(row, p["median"]) for p in row["peers"] if p["median"]}
            for row in report["works"]}
    names = [name for name in report["peers"] if any(name in cells for cells in done.values())]
    print(caption(report) + " Ratio: heddle against the fastest peer.\n")
    print("| | heddle | " + " | ".join(names) + " | ratio |")
    print("|---" * (len(names) + 3) + "|")
    for row in report["works"]:
        cells = done[row["work"]]
        if names and not cells:
            continue
        print("| %s | %s |" % (" | ".join([title(row), number(row, row["heddle"]["median"])] +
                                          [cells.get(name, "–") for name in names]),
                               "%.1f" % row["ratio"] if "ratio" in row else ""))


def print_text(report):
    print(caption(report))
    for row in report["works"]:
        print("\n%s, batch %d: %s" % (row["work"], row["batch"], row["unit"]))
        for one in [row["heddle"]] + row["peers"]:
            accuracy = ", accuracy %.4f" % one["accuracy"] if "accuracy" in one else ""
            ours, theirs = row["heddle"]["median"], one["median"]
            ratio = theirs / ours if row["unit"].endswith("seconds") else ours / theirs if theirs else float("inf")
            print("  %-24s %12s  (%s to %s)  %6.2f  %s%s" % (
                one["name"], number(row, one["median"]), number(row, one["low"]), number(row, one["high"]), ratio,
                one.get("setting", ""), accuracy))


def main():
    p = argparse.ArgumentParser(prog="heddle bench peers", description=__doc__.split("\n")[0])
    p.add_argument("--heddle", default="heddle")
    p.add_argument("--python", action="append")
    p.add_argument("--data-dir")
    p.add_argument("--work", action="append", metavar="NAME|FILE")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--eager", action="store_true")
    p.add_argument("--isa", choices=ISAS)
    p.add_argument("--precision", choices=PRECISIONS, default="f32")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", action="store_true")
    p.add_argument("--markdown", action="store_true")
    args = p.parse_args()
    end_by_signals()
    limits.update(ISAS.get(args.isa, {}))
    works = [os.path.abspath(work) if is_file(work) else work for work in args.work or []]
    works = works or [work for work in WORKS if args.precision == "f32" or work != "ddp"]
    if args.precision != "f32" and "ddp" in works:
        give_up("--work ddp is float32 alone; leave out --precision %s" % args.precision)
    folder = find_mnist(args.data_dir) if set(works) & set(WORKS) else ""
    with tempfile.TemporaryDirectory() as scratch:
        heddle = Heddle(args.heddle, folder, args.threads, scratch, args.precision)
        peers = []
        try:
            find_peers(peers, args, folder)
            rows = [measure_ddp(args, heddle, peers, folder, scratch) if work == "ddp" else
                    measure(work, args, heddle, peers) for work in works]
        finally:
            for peer in peers:
                peer.close()
    report = dict(report_of(args, heddle, peers, rows), isa=heddle.isa, precision=args.precision)
    if args.json:
        print(json.dumps(report))
    else:
        (print_markdown if args.markdown else print_text)(report)


if __name__ == "__main__":
    main()
