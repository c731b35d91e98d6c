"""Runs for others: exports, certificates, verification, sweeps, and what the machine does."""
import ctypes
import gc
import json
import os
import shutil
import subprocess
import tempfile

import numpy as np
from tap import Skipped, path, refuses

import heddle

x = np.random.default_rng(0).integers(0, 256, (200, 28, 28), dtype=np.uint8)
y = np.arange(200) % 10


def train(name, **options):
    return heddle.train("simplenet", (x, y), **{"max_steps": 6, "out": path(name), **options})


def test_export():
    """a network is written as C with the same bits, and as ONNX"""
    run = train("export")
    run.export(c=path("net.c"))
    compiler = shutil.which(os.environ.get("CC", "cc").split()[-1])
    if compiler:
        subprocess.run([compiler, "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", path("net.so"), path("net.c"),
                        "-lm"], check=True)
        assert ctypes.CDLL(path("net.so")) is not None
    refuses(heddle.UsageError, "onnx=, c= or both", run.export)
    refuses(heddle.FileError, "none/a.c", lambda: run.export(c=path("none/a.c")))
    try:
        run.export(onnx=path("net.onnx"))
    except heddle.UnsupportedError as error:
        raise Skipped(str(error))
    again = heddle.train(path("net.onnx"), (x, y), max_steps=1, lr=0, weight_decay=0, out=path("from-onnx"))
    assert np.allclose(again.predict(x), run.predict(x), atol=1e-6)


def test_verify():
    """a run is certified and verified, with its data; another one's weights are refuted"""
    run = train("verified")
    where = run.certify()
    assert where == run.folder / "certificate.json"
    assert json.loads(where.read_text())["weights_sha256"] == run.digest
    assert run.certify(path("elsewhere.json")).exists()
    found = heddle.verify(run, threads=1, accumulate=2)
    assert found.verdict == "verified" and found.steps == 6 and found.weights_sha256 == run.digest
    assert heddle.verify(run.folder, data=(x, y)).verdict == "verified"
    assert heddle.verify(where, (x, y)).verdict == "verified"
    refuses(heddle.UsageError, "give the same data", lambda: heddle.verify(run.folder))
    transformed = train("transformed", transforms=["to_float", lambda image: image])
    refuses(heddle.UnsupportedError, "without transforms in Python", lambda: heddle.verify(transformed))
    other = heddle.verify(run.folder, data=(255 - x, y))
    assert other.verdict == "not comparable" and "data" in other.why, other
    weights = run.folder / "last" / "model.safetensors"
    shutil.copyfile(train("other", seed=1).checkpoint / "model.safetensors", weights)
    assert heddle.verify(run).verdict == "refuted"
    refuses(heddle.Error, "none", lambda: heddle.verify(path("none")))
    refuses(heddle.UsageError, "spot= expects 1 to 1000", lambda: heddle.verify(run, spot=0))


def test_verify_elsewhere():
    """data= says where the data of a run on arrays are: files of the same are verified, others are refused"""
    run = train("elsewhere")
    same, other = path("same"), path("others")
    for folder, samples in ((same, x), (other, 255 - x)):
        os.mkdir(folder)
        np.save(folder + "/x.npy", samples)
        np.save(folder + "/y.npy", y)
    for what in (run, run.folder):
        assert heddle.verify(what, data=same).verdict == "verified"
        refuses(heddle.UsageError, "expected training samples with checksum",
                lambda what=what: heddle.verify(what, data=other))
        refuses(heddle.FileError, "none", lambda what=what: heddle.verify(what, data=path("none")))
    run.certify()
    assert heddle.verify(run, data=same).verdict == "verified"
    assert heddle.verify(run, data=other).verdict == "not comparable"
    assert heddle.verify(run, data=path("none")).verdict == "not comparable"


def test_verify_sets():
    """a run on a data set in Python is verified with it"""
    class Set:
        classes = 10

        def __len__(self):
            return 100

        def __getitem__(self, i):
            return x[i], y[i]

    run = heddle.train("simplenet", (Set(), Set()), max_steps=4, out=path("sets"))
    assert heddle.verify(run).verdict == "verified"
    assert heddle.verify(run.folder, (x[:100], y[:100], x[:100], y[:100])).verdict == "verified"


def test_rows():
    """a run on rows with numbers to predict is verified with them"""
    rows = np.random.default_rng(1).normal(size=(90, 5))
    model = heddle.Model("rows", (1, 1, 5)).add("flat", "flatten").add("fc", "linear", out=2).loss("mse")
    run = heddle.train(model, (rows, rows[:, :2] * 3 + 100), max_steps=6, batch=16, out=path("rows"))
    assert heddle.verify(run).verdict == "verified"


def test_bisect():
    """bisect finds the step and the layer where two runs part"""
    a, b = train("bisect-a"), train("bisect-b", threads=1)
    assert heddle.bisect(a, b).verdict == "equal"
    found = heddle.bisect(a, train("bisect-c", lr=0.002), (x, y))
    assert found.verdict == "differ" and found.what == "fc.weight, update" and "lr" in found.settings, found
    assert heddle.bisect(a.folder, train("bisect-d", lr=0.002).folder, (x, y)).step == found.step
    long = heddle.train("simplenet", "random:1x28x28", max_steps=6, out=path("long"))
    planted = heddle.bisect(long, inject=(3, 1))
    assert planted.verdict == "differ" and planted.step == 3 and planted.ulps == 1 and planted.planted, planted
    refuses(heddle.UsageError, "expected two runs, or one and inject=, found one", lambda: heddle.bisect(a))
    refuses(heddle.UnsupportedError, "inject= expects a run on a data set with a name",
            lambda: heddle.bisect(a, inject=(3, 1)))


def test_sweep():
    """a sweep trains all combinations, whatever runs side by side, and gives the best run"""
    found = heddle.sweep({"lr": [0.1, 0.0001], "seed": range(2)}, "simplenet", "random:1x28x28", max_steps=20, jobs=2,
                         out=path("sweep"))
    assert len(found.runs) == 4 and {run.state for run in found.runs} == {"done"} and len(found.groups) == 2
    assert found.metric == "test_accuracy" and found.runs[0].metric == max(run.metric for run in found.runs)
    assert found.groups[0].n == 2 and set(found.groups[0].settings) == {"lr"}
    assert set(found.runs[0].settings) == {"lr", "seed"}
    best = found.best
    assert round(best.evaluate().accuracy, 6) == round(found.runs[0].metric, 6)
    again = heddle.sweep(["lr=0.1,0.0001", "seed=0..1"], "simplenet", "random:1x28x28", max_steps=20, jobs=1,
                         out=path("sweep-2"))
    assert again.table_sha256 == found.table_sha256
    on_arrays = heddle.sweep({"lr": [0.1, 0.01]}, "simplenet", (x, y), max_steps=2, out=path("sweep-3"))
    assert [run.state for run in on_arrays.runs] == ["done"] * 2
    assert np.isfinite(on_arrays.best.evaluate((x, y)).loss) and on_arrays.best.folder.parent == on_arrays.folder
    refuses(heddle.UsageError, "found others; choose another out",
            lambda: heddle.sweep({"lr": [0.1]}, "simplenet", (255 - x, y), max_steps=2, out=path("sweep-3")))
    refuses(heddle.UnsupportedError, "found a function",
            lambda: heddle.sweep({"lr": [0.1]}, transforms=["to_float", lambda image: image], out=path("no")))
    for data in ("digits", (x, y)):
        refuses(heddle.UsageError, "out=DIR", lambda: heddle.sweep({"lr": [1]}, "simplenet", data))
    refuses(heddle.UsageError, "write [0.1]", lambda: heddle.sweep({"lr": 0.1}, out=path("no")))
    refuses(heddle.UsageError, "without commas", lambda: heddle.sweep({"betas": [(0.1, 0.2)]}, out=path("no")))


def test_sweep_of_a_module():
    """a sweep of a PyTorch module goes on in another process, from the first weights that it keeps beside its runs"""
    try:
        import torch
    except ImportError as error:
        raise Skipped(str(error)) from None

    def sweep(seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
        return heddle.sweep({"lr": [0.1, 0.01]}, heddle.from_torch(module, (1, 28, 28)), "random:1x28x28", max_steps=2,
                            jobs=1, out=path("sweep-torch"))

    first = sweep(0)
    shutil.rmtree(first.runs[0].folder)
    gc.collect()
    assert sweep(0).table_sha256 == first.table_sha256 and heddle.verify(first.best).verdict == "verified"
    refuses(heddle.UsageError, "expected the first weights of this sweep, found others", lambda: sweep(1))


def test_summary():
    """summaries count what models learn"""
    found = heddle.summary("mlp", batch=32)
    assert found.params == 101770 and found.layers[1].name == "fc1" and found.layers[1].shape == (128,)
    assert sum(layer.params for layer in found.layers) == found.params and found.memory_bytes > 4 * found.params
    assert "101,770" in str(found) and found.batch == 32
    model = heddle.Model("tiny", (1, 28, 28)).add("flat", "flatten").add("fc", "linear", out=10)
    assert model.summary().params == 7850 == train("summary").summary().params
    assert heddle.summary("mlp", input=(1, 8, 8)).params == 65 * 128 + 129 * 10
    refuses(heddle.ShapeError, "(1, 1, n)", lambda: heddle.summary("mlp", input=(8, 8)))


def test_machine():
    """the machine, its threads, and what slows it down"""
    found = heddle.topo(threads=2)
    assert len(found.threads) == 2 and found.cpus >= len(found.usable) >= 1 and found.budget >= 1
    assert heddle.topo(threads=1, cpus=str(found.usable[0])).threads == [found.usable[0]]
    findings = heddle.doctor(threads=1)
    assert len(findings.checks) > 5 and (repr(findings).count("remedy:") == len(findings))
    tuned = heddle.tune("simplenet", (x, y), seconds=0.2, sweep="threads", batch=32)
    assert tuned.best in tuned.settings and tuned.settings[0].threads == 1 and tuned.batch == 32
    assert len(tuned.weights_sha256) == 64
    refuses(heddle.UsageError, "sweep= expects threads", lambda: heddle.tune("simplenet", (x, y), sweep="seed"))


def test_class_names():
    """a run knows the names of its classes"""
    assert train("names").class_names == [""] * 10 or len(train("names-2").class_names) == 10


class Rows:
    """Rows of a data set in Python, whose labels do not reach its last class."""

    def __init__(self, count, classes=None):
        self.count = count
        if classes is not None:
            self.classes = classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return np.array([i % 7, i % 5 * 100, i % 3], np.float32), i % 3


def test_sets():
    """a run on a data set in Python is verified as it was; a sweep on it trains what heddle.train trains, or refuses"""
    for data in (Rows(60, 5), Rows(60, list("abcd")), (Rows(60, 5), Rows(20, 5)), Rows(60)):
        run = heddle.train("mlp", data, max_steps=3, out=tempfile.mkdtemp() + "/run")
        found = heddle.verify(run)
        assert found.verdict == "verified", found.why
        assert heddle.verify(run, spot=1).verdict == "verified"
        out = tempfile.mkdtemp() + "/sweep"
        if isinstance(data, Rows) and not hasattr(data, "classes"):
            swept = heddle.sweep({"seed": [0]}, "mlp", data, max_steps=3, out=out).best
            assert swept.digest == run.digest
            assert heddle.bisect(run, swept).verdict == "equal"
        else:
            refuses(heddle.UnsupportedError, "found labels up to 2",
                    lambda: heddle.sweep({"seed": [0]}, "mlp", data, max_steps=3, out=out))


def test_numbers():
    """numbers that say nothing are refused, and none stands for another"""
    for call, says in ((lambda: heddle.verify("r", seed=3), "with spot="),
                       (lambda: heddle.verify("r", spot=1, seed=-5), "found -5"),
                       (lambda: heddle.verify("r", spot="1"), "found '1'"),
                       (lambda: heddle.bisect("r", "s", tolerance=0), "above 0, found 0"),
                       (lambda: heddle.bisect("r", inject=(2, 1, 5, 7)), "found (2, 1, 5, 7)"),
                       (lambda: heddle.bisect("r", inject=(2, -1)), "found (2, -1)"),
                       (lambda: heddle.bisect("r", inject=5), "found 5")):
        refuses(heddle.UsageError, says, call)
    for name in ("draws", "folds", "halving", "jobs"):
        for number in (0, -1, 1.5, "2"):
            refuses(heddle.UsageError, f"{name}= expects a whole number",
                    lambda: heddle.sweep({"seed": [0, 1]}, "mlp", "digits", max_steps=1, out="s", **{name: number}))
    refuses(heddle.UsageError, "expected the values of lr, found none",
            lambda: heddle.sweep({"lr": []}, "mlp", "digits", max_steps=1, out="s"))
    flags = heddle.sweep({"no_shuffle": np.array([True, False])}, "mlp", "random:1x28x28", max_steps=1,
                         out=tempfile.mkdtemp() + "/s")
    assert sorted(run.settings["no_shuffle"] for run in flags.runs) == ["false", "true"]
