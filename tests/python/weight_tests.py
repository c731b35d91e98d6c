"""Weights of samples: part of the data, in losses and scores, by the numbers of NumPy and of PyTorch in float64."""
import json
import os
import pickle
import tempfile

import numpy as np
from tap import Skipped, path, refuses

import heddle

rng = np.random.default_rng(3)
x = rng.normal(size=(96, 5)).astype(np.float32)
labels = (np.arange(96) * 7 % 3).astype(np.int32)
targets = np.stack([x[:, 0] * 2, x[:, 1] - x[:, 2]], 1).astype(np.float32)
chances = (targets > 0).astype(np.float32)
w = rng.integers(0, 5, 96) / 2
test = (x[:32], labels[:32])
PLAIN = {"batch": 96, "optimizer": "sgd", "lr": 0.2, "no_shuffle": True, "normalize": "none", "epochs": 30,
         "target_scale": "none"}


def network(outputs, loss, **settings):
    return (heddle.Model("net", (1, 1, 5)).add("flat", "flatten").add("fc1", "linear", out=8).add("t", "tanh")
            .add("out", "linear", out=outputs).loss(loss, **settings))


def train(model, y, weights, **options):
    data = (x, y, x[:32], y[:32])
    return heddle.train(model, data, sample_weight=weights, progress=False,
                        out=tempfile.mkdtemp() + "/run", **{**PLAIN, **options})


CASES = [("cross_entropy", {}, labels, 3),
         ("cross_entropy", {"label_smoothing": 0.2, "weight": [1, 2, 0.5]}, labels, 3),
         ("mse", {}, targets, 2), ("l1", {}, targets, 2), ("huber", {"delta": 0.5}, targets, 2),
         ("bce_with_logits", {"pos_weight": [2, 0.5]}, chances, 2)]


def test_torch():
    """losses and weights are those of PyTorch in float64, for every loss"""
    try:
        import torch
    except ImportError as error:
        raise Skipped(str(error)) from None
    from torch.nn import functional as f
    t = lambda array: torch.tensor(np.asarray(array), dtype=torch.float64)
    for name, settings, y, outputs in CASES:
        start = train(network(outputs, name, **settings), y, w, max_steps=1, lr=1e-30)
        run = train(network(outputs, name, **settings), y, w, init=str(start.checkpoint / "model.safetensors"))
        p = {key: t(value).requires_grad_() for key, value in start.weights.items()}
        losses = []
        for _ in range(30):
            h = torch.tanh(t(x) @ p["fc1.weight"].T + p["fc1.bias"]) @ p["out.weight"].T + p["out.bias"]
            share = t(w)
            if name == "cross_entropy":
                of = t(settings.get("weight", [1, 1, 1]))
                each = f.cross_entropy(h, torch.tensor(labels, dtype=torch.long), weight=of, reduction="none",
                                       label_smoothing=settings.get("label_smoothing", 0))
                share = share * of[torch.tensor(labels, dtype=torch.long)]
                loss = (t(w) * each).sum() / share.sum()
            else:
                call = {"mse": f.mse_loss, "l1": f.l1_loss, "huber": f.huber_loss,
                        "bce_with_logits": f.binary_cross_entropy_with_logits}[name]
                more = {"delta": 0.5} if name == "huber" else {}
                if name == "bce_with_logits":
                    more = {"pos_weight": t(settings["pos_weight"])}
                loss = (t(w) * call(h, t(y), reduction="none", **more).mean(1)).sum() / share.sum()
            losses.append(loss.item())
            for key, gradient in zip(p, torch.autograd.grad(loss, list(p.values()))):
                p[key] = (p[key] - 0.2 * gradient).detach().requires_grad_()
        assert np.allclose(run.losses, losses, rtol=2e-5), (name, run.losses[-1], losses[-1])
        for key, value in run.weights.items():
            assert np.abs(value - p[key].detach().numpy()).max() < 2e-5, (name, key)


def test_repeated():
    """weights that are whole numbers are repeated samples, to rounding, with the same normalisation"""
    whole = np.arange(96) % 4
    again = np.repeat(np.arange(96), whole)
    for y, name, outputs in ((labels, "cross_entropy", 3), (targets, "mse", 2)):
        model = network(outputs, name)
        start = train(model, y, None, max_steps=1, lr=1e-30)
        options = {"batch": 200, "normalize": "column", "init": str(start.checkpoint / "model.safetensors")}
        weighed = train(model, y, (whole, np.ones(32)), **options)
        repeated = heddle.train(model, (x[again], y[again], x[:32], y[:32]), progress=False,
                                out=tempfile.mkdtemp() + "/run", **{**PLAIN, **options})
        assert np.allclose(weighed.losses, repeated.losses, rtol=2e-5)
        for key, value in weighed.weights.items():
            assert np.abs(value - repeated.weights[key]).max() < 5e-6, key
        assert np.isclose(weighed.evaluate().loss, repeated.evaluate().loss, rtol=1e-5)


def test_bits():
    """the weights are the same for any layout, and those of weights of 1 are those without"""
    for name, settings, y, outputs in CASES:
        options = {"batch": 24, "epochs": 3, "optimizer": "adam", "lr": 0.01, "no_shuffle": False}
        model = network(outputs, name, **settings)
        digest = train(model, y, w, threads=1, **options).digest
        for layout in ({"threads": 3}, {"workers": 1}, {"accumulate": 2}, {"threads": 2, "stages": 2}):
            assert train(model, y, w, **layout, **options).digest == digest, (name, layout)
        plain = train(model, y, None, **options).digest
        assert train(model, y, np.ones(96), **options).digest == plain != digest
        assert train(model, y, np.full(96, 8), **options).digest == plain


def test_losses_of_steps():
    """run.losses are the means of their steps, also of batches whose weights and ignored labels differ"""
    ignored = np.where(np.arange(96) % 5 == 0, 2, labels)
    cases = [(*case, w) for case in CASES] + [
        ("cross_entropy", {"weight": [1, 2, 0.5]}, labels, 3, None),
        ("cross_entropy", {"ignore_index": 2}, ignored, 2, None), ("cross_entropy", {}, labels, 3, None),
        ("mse", {}, targets, 2, None)]
    for name, settings, y, outputs, of in cases:
        options = {"batch": 20, "epochs": 3, "log_every": 1, "sampler": "random", "no_shuffle": None}
        run = train(network(outputs, name, **settings), y, of, **options)
        logged = [json.loads(line) for line in open(run.folder / "metrics.jsonl")]
        means = [line["loss"] for line in logged if line["type"] == "step"]
        assert np.allclose(run.losses, means, rtol=1e-6, atol=0), (name, settings, run.losses, means)
        varies = of is not None or "weight" in settings or "ignore_index" in settings
        assert (run.folder / "divisors.bin").exists() == varies, (name, settings)
        part = train(network(outputs, name, **settings), y, of, max_steps=7, threads=2, **{**options, "log_every": 100})
        part = heddle.train(resume=part.folder, data=(x, y, x[:32], y[:32]), sample_weight=of, progress=False,
                            max_steps=15)
        assert np.array_equal(part.losses, run.losses), (name, settings)
        assert np.array_equal(pickle.loads(pickle.dumps(part)).losses, run.losses)
    run = train(network(3, "cross_entropy"), labels, w, batch=20, log_every=1)
    (run.folder / "divisors.bin").unlink()  # as runs of earlier versions
    means = [json.loads(line)["loss"] for line in open(run.folder / "metrics.jsonl") if '"type":"step"' in line]
    assert np.array_equal(heddle.load(run.folder).losses, means)


def test_scores():
    """accuracy, loss and the scores of a regression are weighed; predictions are not"""
    run = train(network(3, "cross_entropy"), labels, (w, w[:32]))
    chance = run.predict(x[:32])
    of = w[:32]
    right = chance.argmax(1) == labels[:32]
    found = run.evaluate()
    assert np.isclose(found.accuracy, of @ right / of.sum())
    loss = -np.log(chance[np.arange(32), labels[:32]])
    assert np.isclose(found.loss, of @ loss / of.sum(), rtol=1e-5)
    assert np.isclose(found.accuracy, run.history["test_accuracy"][-1])
    assert np.isclose(run.evaluate((x, labels), sample_weight=w).accuracy,
                      w @ (run.predict(x).argmax(1) == labels) / w.sum())
    run = train(network(2, "mse"), targets, (w, w[:32]))
    found, off = run.evaluate(), run.predict(x[:32]) - targets[:32]
    assert np.isclose(found.mean_absolute_error, np.average(np.abs(off), 0, of).mean(), rtol=1e-5)
    assert np.isclose(found.loss, np.average((off ** 2).mean(1), weights=of), rtol=1e-5)
    mean = np.average(targets[:32], 0, of)
    r2 = 1 - np.average(off ** 2, 0, of) / np.average((targets[:32] - mean) ** 2, 0, of)
    assert np.isclose(found.r2, r2.mean(), rtol=1e-4)


def test_files():
    """the same weights as arrays, in NPY files and in a column train to the same bits; a run of them is verified"""
    folder = tempfile.mkdtemp()
    rows = np.round(x * 64) / 64
    model = network(3, "cross_entropy")
    options = {**PLAIN, "batch": 24, "epochs": 2, "progress": False, "normalize": "column"}
    run = heddle.train(model, (rows, labels), sample_weight=w, out=folder + "/a", **options)
    for name, array in (("x", rows), ("y", labels), ("sample_weight", w)):
        np.save(f"{folder}/{name}.npy", array)
    assert heddle.train(model, folder, out=folder + "/b", **options).digest == run.digest
    np.savez(folder + "/all.npz", x=rows, y=labels, sample_weight=w)
    try:
        assert heddle.train(model, folder + "/all.npz", out=folder + "/c", **options).digest == run.digest
    except heddle.UnsupportedError:
        pass  # a build without NPZ
    with open(folder + "/t.csv", "w", encoding="ascii") as table:
        print("a,b,c,d,e,weight,label", file=table)
        for row, weight, label in zip(rows, w, labels):
            print(*row, weight, label, sep=",", file=table)
    table = heddle.train(model, folder + "/t.csv", weights="weight", out=folder + "/d", **options)
    assert table.digest == run.digest
    assert heddle.verify(run, threads=1).verdict == "verified"
    np.save(f"{folder}/sample_weight.npy", w[:-1])
    refuses(heddle.FormatError, "expected 96 weights, one for each sample, found 95",
            lambda: heddle.train(model, folder, out=folder + "/e", **options))
    os.rename(f"{folder}/sample_weight.npy", f"{folder}/sample_weight_train.npy")
    refuses(heddle.FormatError, "expected weights as sample_weight, found sample_weight_train; rename it",
            lambda: heddle.train(model, folder, out=folder + "/e", **options))


def test_empty_batch():
    """a batch whose weights are all 0 has the loss 0 and no gradient; the others go on"""
    some = np.r_[np.zeros(48), np.ones(48)]
    run = train(network(3, "cross_entropy"), labels, some, batch=48, epochs=2)
    assert run.losses[0] == 0 and run.losses[2] == 0 and run.losses[3] < run.losses[1]


def test_one_of_two():
    """of a pair of weights one may be None: those samples count equally"""
    net = network(3, "cross_entropy")
    one = train(net, labels, w)
    assert one.digest == train(net, labels, (w, None)).digest == train(net, labels, [w.tolist(), None]).digest
    plain, test = train(net, labels, None), train(net, labels, (None, w[:32]))
    assert plain.digest == test.digest == train(net, labels, (None, None)).digest
    loss = -np.log(test.predict(x[:32])[np.arange(32), labels[:32]])
    assert np.isclose(test.evaluate().loss, w[:32] @ loss / w[:32].sum(), rtol=1e-5)
    assert np.isclose(plain.evaluate().loss, loss.mean(), rtol=1e-5)
    refuses(heddle.UsageError, "for the samples that are evaluated, found two",
            lambda: plain.evaluate((x, labels), sample_weight=(w, w)))


def test_refused():
    """weights that are none are refused by name"""
    model = network(3, "cross_entropy")
    for bad, says in ((np.r_[w[:-1], -1], "found -1 for sample 95"), (np.r_[np.nan, w[1:]], "found nan for sample 0"),
                      (np.zeros(96), "found only zeros"), (w[:-1], "expected 96 weights in sample_weight"),
                      (w[:, None], "expected 96 weights"), (["a"] * 96, "expected numbers"),
                      (np.r_[1e-40, w[1:]], "from 1e-18 to 1e+18")):
        refuses(heddle.Error, says, lambda: train(model, labels, bad))
    refuses(heddle.UsageError, "found a name or a path", lambda: heddle.train(model, "digits", sample_weight=w))
    for two in ((w, w), (w, None), (None, w)):
        refuses(heddle.UsageError, "expected one array as sample_weight, found two",
                lambda: heddle.train(model, (x, labels), sample_weight=two))
    images = rng.integers(0, 255, (20, 8, 8), dtype=np.uint8)
    net = heddle.Model("n", (1, 8, 8)).add("flat", "flatten").add("out", "linear", out=2)
    refuses(heddle.UsageError, "no mixup where samples",
            lambda: heddle.train(net, (images, np.arange(20) % 2), sample_weight=np.arange(20), progress=False,
                                 transforms=["to_float", "one_hot", {"mixup": {"alpha": 1}}]))


def test_estimators():
    """estimators take sample_weight and class_weight: rows of weight 0 are as good as none"""
    try:
        from sklearn.utils import compute_sample_weight
    except ImportError as error:
        raise Skipped(str(error)) from None
    from heddle.sklearn import HeddleClassifier, HeddleRegressor
    for estimator, y in ((HeddleClassifier(epochs=3), labels), (HeddleRegressor(epochs=3), targets)):
        zero = np.where(np.arange(96) % 4 == 1, 0.0, 1.0)
        some = estimator.fit(x, y, sample_weight=zero).run_.digest
        assert some == estimator.fit(x[zero > 0], y[zero > 0]).run_.digest
        estimator.fit(x, y, sample_weight=w).partial_fit(x, y, sample_weight=w)
        estimator.fit(x, y, sample_weight=2.0)
        refuses(ValueError, "found -1", lambda: estimator.fit(x, y, sample_weight=-np.ones(96)))
        early = type(estimator)(epochs=5, early_stopping=True).fit(x, y, sample_weight=w)
        assert len(early.validation_scores_) == 5
    uneven = np.r_[np.zeros(84), np.ones(12)].astype(int)
    balanced = HeddleClassifier(epochs=3, class_weight="balanced").fit(x, uneven)
    by_hand = HeddleClassifier(epochs=3).fit(x, uneven, sample_weight=compute_sample_weight("balanced", uneven))
    assert balanced.run_.digest == by_hand.run_.digest
    both = HeddleClassifier(epochs=3, class_weight={1: 4}).fit(x, uneven, sample_weight=np.arange(96) + 1)
    by_hand = HeddleClassifier(epochs=3).fit(x, uneven, sample_weight=(np.arange(96) + 1) * np.where(uneven, 4, 1))
    assert both.run_.digest == by_hand.run_.digest
    refuses(ValueError, "expects classes of y", lambda: HeddleClassifier(class_weight={7: 1}).fit(x, uneven))
    refuses(ValueError, "'balanced' or None", lambda: HeddleClassifier(class_weight="even").fit(x, uneven))
    refuses(ValueError, "found partial_fit", lambda: HeddleClassifier(class_weight="balanced").partial_fit(x, uneven))
    for rows, weight in ((uneven == 1, {0: 2.0}), (uneven >= 0, {2: 9, 0: 2.0})):  # without all classes
        given = HeddleClassifier(class_weight=weight).partial_fit(x[rows], uneven[rows], classes=[0, 1, 2])
        by_hand = HeddleClassifier().partial_fit(x[rows], uneven[rows], classes=[0, 1, 2],
                                                 sample_weight=np.where(uneven[rows], 1.0, 2.0))
        assert given.run_.digest == by_hand.run_.digest
    refuses(ValueError, "expects numbers, found 'a'", lambda: HeddleClassifier(class_weight={1: "a"}).fit(x, uneven))
    refuses(heddle.UsageError, "one label a row", lambda: HeddleClassifier(class_weight="balanced").fit(x, chances))


def test_alpha_of_estimators():
    """the penalty alpha of weighed rows is that of repeated ones"""
    try:
        from heddle.sklearn import HeddleClassifier, HeddleRegressor
    except ImportError as error:
        raise Skipped(str(error)) from None
    options = {"hidden": (), "epochs": 200, "batch": 1000, "lr": 0.05, "alpha": 30.0, "options": {"normalize": "none"}}
    for estimator, y in ((HeddleClassifier, targets[:, 0] > 0), (HeddleRegressor, targets)):
        for whole in (np.arange(96) % 4, np.full(96, 2)):
            again = np.repeat(np.arange(96), whole)
            found, wanted = (estimator(**options).fit(x[rows], y[rows], sample_weight=of).coefs_[0]
                             for rows, of in ((np.arange(96), whole), (again, None)))
            assert np.allclose(found, wanted, atol=1e-4), (estimator, found, wanted)


def test_class_weight_option():
    """class_weight of train weighs training samples by their label, as weights of samples do"""
    images = np.random.default_rng(3).integers(0, 256, (90, 28, 28), dtype=np.uint8)
    of = (np.arange(90) % 7 % 3).astype(np.int32)
    data = (images, of, images[:30], of[:30])
    w = np.array([1, 3, 0.5], np.float32)[of]

    def digest(name, **more):
        return heddle.train("simplenet", data, max_steps=6, batch=16, out=path(f"class-{name}"), **more).digest

    assert digest("given", class_weight={1: 3, 2: 0.5}) == digest("samples", sample_weight=(w, np.ones(30)))
    assert digest("both", class_weight={1: 3}, sample_weight=w / np.array([1, 3, 1], np.float32)[of]) == digest(
        "once", sample_weight=w)
    balanced = (90 / 3 / np.bincount(of))[of]
    assert digest("balanced", class_weight="balanced") == digest("counted", sample_weight=balanced)
    refuses(heddle.UsageError, "found '7'", lambda: digest("none", class_weight={7: 1}))


def test_ignored_labels():
    """classes are weighed and counted without the labels that the loss ignores, of which one_hot makes nothing"""
    net = network(3, "cross_entropy", ignore_index=9)
    some = np.where(np.arange(96) % 5 == 0, 9, labels)
    counted = 96 - (some == 9).sum()
    balanced = np.append(counted / 3 / np.bincount(some[some < 9]), [1] * 7)[some]
    runs = [train(net, some, None, class_weight="balanced"), train(net, some, (balanced, None))]
    assert runs[0].digest == runs[1].digest
    transforms = ["to_float", "one_hot", "normalise"]
    images = np.random.default_rng(4).integers(0, 256, (96, 4, 4), dtype=np.uint8)
    net = (heddle.Model("net", (1, 4, 4)).add("flat", "flatten").add("out", "linear", out=3)
           .loss("cross_entropy", ignore_index=9))
    options = {"transforms": transforms, "progress": False, "epochs": 1}
    heddle.train(net, (images, labels), out=path("made"), **options)
    for part in ((images, some, images, labels), (images, labels, images, some)):
        refuses(heddle.UsageError, "found 9, which the loss ignores, at index 0",
                lambda: heddle.train(net, part, out=path("ignored"), **options))
