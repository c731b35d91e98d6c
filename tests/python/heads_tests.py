"""Networks with several heads, each with a loss and targets of its own."""
import json
import math
import os
import subprocess

import numpy as np
from tap import path, refuses

import heddle

rng = np.random.default_rng(0)
x = rng.normal(size=(203, 6)).astype(np.float32)
kind = (x[:, 0] > x[:, 1]).astype(int) + (x[:, 2] > 1)
y = np.stack([kind, x[:, 0] * 2 - x[:, 1], x[:, 2] ** 2, x[:, 3] > 0], 1).astype(np.float32)
data = (x, y, x[:50], y[:50])
HEADS = {"kind": {"op": "cross_entropy", "label_smoothing": 0.1}, "pair": {"op": "huber", "delta": 0.5},
         "flag": {"op": "bce_with_logits", "loss_weight": 2}}
count = 0


def model(**heads):
    net = heddle.Model("m", (1, 1, 6)).add("flat", "flatten").add("body", "linear", out=16).add("act", "tanh")
    net.add("kind", "linear", out=3).add("pair", "linear", out=2, from_="act").add("flag", "linear", out=1, from_="act")
    return net.losses(**(heads or HEADS))


def train(net=None, with_data=data, **more):
    global count
    count += 1
    options = {"epochs": 3, "batch": 32, "optimizer": "adam", "lr": 0.02, "progress": False}
    return heddle.train(net or model(), with_data, out=path(f"heads-{count}"), **{**options, **more})


def scores(run, rows):
    """The outputs of the layers, from the weights."""
    w = {name: value.astype(np.float64) for name, value in run.weights.items()}
    h = np.tanh(rows.astype(np.float64) @ w["body.weight"].T + w["body.bias"])
    return {name: h @ w[f"{name}.weight"].T + w[f"{name}.bias"] for name in HEADS}


def log_softmax(s):
    s = s - s.max(1, keepdims=True)
    return s - np.log(np.exp(s).sum(1, keepdims=True))


def losses(s, targets):
    """The mean loss of each head, by the formulas of PyTorch."""
    log_p, label = log_softmax(s["kind"]), targets[:, 0].astype(int)
    d = np.abs(s["pair"] - targets[:, 1:3])
    f, t = s["flag"][:, 0], targets[:, 3]
    return {"kind": -(0.9 * log_p[np.arange(len(label)), label] + 0.1 * log_p.mean(1)).mean(),
            "pair": np.where(d < 0.5, 0.5 * d * d, 0.5 * (d - 0.25)).mean(),
            "flag": (np.log1p(np.exp(-np.abs(f))) + np.maximum(f, 0) - t * f).mean()}


def test_evaluation():
    """an evaluation has each head's loss and scores, and their weighted sum as the loss"""
    run = train(normalize="none", epochs=60)
    e, s = run.evaluate(), scores(run, x[:50])
    of = losses(s, y[:50])
    assert list(e.heads) == ["kind", "pair", "flag"]
    for name, loss in of.items():
        assert math.isclose(e.heads[name]["loss"], loss, rel_tol=1e-4), (name, e.heads[name], loss)
    assert math.isclose(e.loss, of["kind"] + of["pair"] + 2 * of["flag"], rel_tol=1e-4)
    assert math.isclose(e.heads["kind"]["accuracy"], (s["kind"].argmax(1) == kind[:50]).mean())
    assert math.isclose(e.heads["flag"]["accuracy"], ((s["flag"][:, 0] > 0) == (y[:50, 3] > 0.5)).mean())
    assert math.isclose(e.heads["pair"]["mean_absolute_error"], np.abs(s["pair"] - y[:50, 1:3]).mean(), rel_tol=1e-4)
    assert e.heads["kind"]["accuracy"] > 0.8 and e.heads["pair"]["r2"] > 0.8 and e.heads["flag"]["accuracy"] > 0.8
    assert math.isnan(e.accuracy) and math.isnan(e.heads["kind"]["r2"]) and math.isnan(e.heads["pair"]["accuracy"])
    last = json.loads((run.folder / "history.jsonl").read_text().splitlines()[-1])
    assert [head["name"] for head in last["heads"]] == list(HEADS), last


def test_gradient():
    """a step goes down the weighted sum of the losses: its gradient is that of differences"""
    for weights in (None, np.linspace(0.5, 2, 203)):
        more = {"normalize": "none", "max_steps": 1, "batch": 203, "optimizer": "sgd",
                "sample_weight": None if weights is None else (weights, weights[:50])}
        before, after = train(lr=1e-12, **more), train(lr=0.5, **more)
        w = {name: value.astype(np.float64) for name, value in before.weights.items()}
        share = np.ones(203) if weights is None else weights

        def total(changed):
            h = np.tanh(x.astype(np.float64) @ changed["body.weight"].T + changed["body.bias"])
            s = {name: h @ changed[f"{name}.weight"].T + changed[f"{name}.bias"] for name in HEADS}
            of = [losses({name: v[i:i + 1] for name, v in s.items()}, y[i:i + 1]) for i in range(203)]
            return sum(share[i] * (o["kind"] + o["pair"] + 2 * o["flag"]) for i, o in enumerate(of)) / share.sum()

        places = {"kind.weight": (2, 3), "pair.bias": (1,), "flag.weight": (0, 5), "body.weight": (4, 1)}
        for name, at in places.items():
            found = (w[name][at] - after.weights[name][at]) / 0.5
            sides = []
            for step in (1e-4, -1e-4):
                changed = {key: value.copy() for key, value in w.items()}
                changed[name][at] += step
                sides.append(total(changed))
            slope = (sides[0] - sides[1]) / 2e-4
            assert math.isclose(found, slope, rel_tol=2e-3, abs_tol=2e-5), (name, found, slope)


def test_layouts():
    """the weights are the same for threads, micro-batches, workers, ranks and a run that is resumed"""
    first = train().digest
    for more in ({"threads": 3}, {"accumulate": 4, "threads": 2}, {"workers": 2}, {"procs": 2}):
        if "procs" in more:
            net, file, out = path("heads.yaml"), path("heads-data"), path("heads-procs")
            with open(net, "w", encoding="utf-8") as to:
                to.write(model().text)
            os.mkdir(file)
            for name, array in zip(("x_train", "y_train", "x_test", "y_test"), data):
                np.save(f"{file}/{name}.npy", array)
            subprocess.run([os.environ["HEDDLE_PROGRAM"], "train", "--model", net, "--data", file, "--epochs", "3",
                            "--batch", "32", "--optimizer", "adam", "--lr", "0.02", "--procs", "2", "--out", out],
                           check=True, capture_output=True)
            assert heddle.load(out).digest == first
        else:
            assert train(**more).digest == first, more
    half = train(epochs=1)
    assert heddle.train(resume=half.folder, data=data, epochs=3, progress=False).digest == first
    assert train(model(**{**HEADS, "flag": "bce_with_logits"})).digest != first


def test_predictions():
    """a prediction has the values of each head: probabilities, or its outputs"""
    run = train(normalize="none")
    found, s = run.predict(x[:7]), scores(run, x[:7])
    assert np.allclose(found["kind"], np.exp(log_softmax(s["kind"])), atol=1e-5)
    assert np.allclose(found["pair"], s["pair"], atol=1e-5)
    assert np.allclose(found["flag"], 1 / (1 + np.exp(-s["flag"])), atol=1e-5)
    np.save(path("rows.npy"), x[:2])
    from_file = run.predict(path("rows.npy"))
    assert all(np.array_equal(from_file[name], found[name][:2]) for name in found) and not run.class_names
    out = subprocess.run([os.environ["HEDDLE_PROGRAM"], "predict", run.folder, path("rows.npy"), "--json"], check=True,
                         capture_output=True, text=True).stdout
    heads = json.loads(out)["predictions"][1]["heads"]
    assert [head["name"] for head in heads] == list(HEADS) and math.isclose(sum(heads[0]["probabilities"]), 1)
    assert np.allclose(heads[1]["outputs"], found["pair"][1], rtol=1e-4)


def test_verified():
    """a run is verified by its certificate, and its text is that of its files"""
    run = train(with_data=path("heads-data"))
    assert heddle.verify(run.certify()).verdict == "verified"


def test_refused():
    """targets that are not those of the heads, and what is for one loss, are refused by name"""
    wrong = y.copy()
    wrong[5, 0] = 3
    refuses(heddle.FormatError, "the head 'kind' and its loss cross_entropy, found 3 at index 5",
            lambda: train(with_data=(x, wrong, x[:50], y[:50])))
    wrong[5, 0] = 0.5
    refuses(heddle.FormatError, "found 0.5 at index 5", lambda: train(with_data=(x, wrong, x[:50], y[:50])))
    refuses(heddle.FormatError, "found 0.5 at index 5", lambda: train(with_data=(x, y, x[:50], wrong[:50])))
    refuses(heddle.ShapeError, "1 for kind, 2 for pair, 1 for flag", lambda: train(with_data=(x, y[:, :3])))
    refuses(heddle.ShapeError, "expected 4 targets", lambda: train(with_data=(x, kind)))
    refuses(heddle.UsageError, "a model with one loss", lambda: train(loss="mse"))
    refuses(heddle.UnsupportedError, "one loss", lambda: train(loss=lambda outputs, targets: (targets, outputs)))
    refuses(heddle.UnsupportedError, "one loss", lambda: train(metric=lambda outputs, targets: 0))
    refuses(heddle.UsageError, "label", lambda: train(label_smoothing=0.1))
    refuses(heddle.UsageError, "target", lambda: train(target_scale="standard"))
    refuses(heddle.UsageError, "no mixup", lambda: train(transforms=["to_float", {"mixup": 0.5}]))
    run = train()
    run.export(onnx=path("heads.onnx"))
    refuses(heddle.UnsupportedError, "one loss", lambda: heddle.train(path("heads.onnx"), "digits"))
    refuses(heddle.UsageError, "head", lambda: train(head="auto", init=train().folder))
    refuses(heddle.FormatError, "2 to 7 heads", lambda: train(model(kind="cross_entropy")))
