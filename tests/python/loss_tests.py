"""Losses and metrics that are Python functions over arrays."""
import pickle

import numpy as np
from tap import path, refuses

import heddle

rng = np.random.default_rng(0)
x = rng.normal(size=(203, 6)).astype(np.float32)
numbers = np.stack([x[:, 0] * 2 - x[:, 1], x[:, 2] ** 2], 1).astype(np.float32)
labels = (x[:, 0] > x[:, 1]).astype(np.int32) + (x[:, 2] > 1)
data, of_classes = (x, numbers, x[:50], numbers[:50]), (x, labels, x[:50], labels[:50])
count = 0


def model(loss, outputs):
    result = heddle.Model("m", (1, 1, 6)).add("flat", "flatten").add("fc", "linear", out=8).add("act", "tanh")
    return result.add("out", "linear", out=outputs).loss(loss)


def train(loss, data=data, net=None, **more):
    global count
    count += 1
    options = {"epochs": 3, "batch": 32, "optimizer": "adam", "lr": 0.02, "target_scale": "none", "progress": False}
    return heddle.train(net or model("mse", 2), data, loss=loss, out=path(f"loss-{count}"), **{**options, **more})


def squares(outputs, targets):
    d = outputs - targets
    return (d * d).mean(1), d  # the mean over two outputs


def entropy(outputs, targets):
    e = np.exp(outputs - outputs.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    slope = p.copy()
    slope[np.arange(len(p)), targets] -= 1
    return -np.log(p[np.arange(len(p)), targets]), slope


def hinge(outputs, targets):
    """It bends, and has no gradient of its own at the bend."""
    sign = np.where(np.arange(outputs.shape[1]) == targets[:, None], 1, -1)
    inside = np.maximum(0, 1 - sign * outputs)
    return inside.sum(1), np.where(inside > 0, -sign, 0)


def test_equal():
    """a function that computes what mse and cross_entropy do trains as they do, but for rounding"""
    for name, function, with_data, net in (("mse", squares, data, model("mse", 2)),
                                           ("cross_entropy", entropy, of_classes, model("cross_entropy", 3))):
        own, theirs = train(function, with_data, net), train(None, with_data, net)
        assert np.allclose(own.losses, theirs.losses, rtol=1e-4), name
        assert abs(own.evaluate().loss - theirs.evaluate().loss) < 1e-3 * theirs.evaluate().loss, name
        assert np.allclose(own.history["test_loss"], theirs.history["test_loss"], rtol=1e-3), name
        assert np.allclose(own.predict(x), theirs.predict(x), atol=1e-2), name


def test_layouts():
    """the bits are the same for any number of threads and again, with weights of samples too"""
    for function, with_data, net in ((squares, data, None), (hinge, of_classes, model("cross_entropy", 3))):
        w = (np.arange(203) % 3).astype(np.float32)
        for more in ({}, {"sample_weight": (w, w[:50] + 1)}):
            found = {train(function, with_data, net, threads=threads, **more).digest for threads in (1, 2, 3, 3)}
            assert len(found) == 1, more
    falling = train(squares, epochs=15).history["test_loss"]
    assert falling[-1] < falling[0] / 2
    plain = train(squares, sample_weight=np.ones(203, np.float32))
    assert plain.digest == train(squares).digest


def test_batches():
    """it is called for whole batches in their order, and for a test set at once, on the thread that trains"""
    import threading
    seen = []

    def watched(outputs, targets):
        seen.append((threading.get_ident(), targets.copy()))
        return squares(outputs, targets)

    train(watched, epochs=1, no_shuffle=True, threads=2)
    assert {thread for thread, _ in seen} == {threading.get_ident()}
    steps = [targets for _, targets in seen if len(targets) in (32, 11)]
    last = [targets for targets in steps if len(targets) == 11][-1]
    assert np.array_equal(last, numbers[192:])
    assert np.array_equal(steps[-2], numbers[160:192]) and np.array_equal(seen[-1][1], numbers[:50])


def test_wrong_gradient():
    """a wrong gradient, and losses that depend on other samples, are refused with the place and both numbers"""
    def with_slope(change):
        def loss(outputs, targets):
            losses, slope = squares(outputs, targets)
            return losses, change(slope, len(targets))
        return loss

    for change in (lambda s, n: 2 * s, lambda s, n: -s, lambda s, n: s / n, lambda s, n: np.zeros_like(s),
                   lambda s, n: np.concatenate([s[:, :1], 1.5 * s[:, 1:]], 1)):
        refuses(heddle.UsageError, "as the gradient of sample", lambda change=change: train(with_slope(change)))
    refuses(heddle.UsageError, "by its output 1, by differences of its losses, found",
            lambda: train(with_slope(lambda s, n: np.concatenate([s[:, :1], -s[:, 1:]], 1))))

    def over_all(outputs, targets):
        d = outputs - outputs.mean(0) - targets
        return (d * d).mean(1), d

    refuses(heddle.UsageError, "", lambda: train(over_all))


def test_refused():
    """wrong shapes, numbers that are not finite, exceptions and what does not fit are one exception each"""
    def raises(outputs, targets):
        raise KeyError("at the first batch")

    def later(outputs, targets, calls=[]):  # pylint: disable=dangerous-default-value
        calls.append(1)
        if len(calls) > 15:
            raise KeyError("late")
        return squares(outputs, targets)

    for function in (raises, later):
        try:
            train(function)
        except heddle.UsageError as error:
            assert isinstance(error.__cause__, KeyError) and f"the loss '{function.__name__}' failed" in str(error)
        else:
            raise AssertionError("expected an exception")
    refuses(heddle.UsageError, "losses alone", lambda: train(lambda o, t: ((o - t) ** 2).mean(1)))
    refuses(heddle.UsageError, "expected the losses of the shape (32,)", lambda: train(lambda o, t: (0.0, o - t)))
    refuses(heddle.UsageError, "expected the gradient of the shape (32, 2)",
            lambda: train(lambda o, t: ((o - t).sum(1), np.ones(len(o)))))
    refuses(heddle.UsageError, "expected real numbers", lambda: train(lambda o, t: (["a"] * len(o), o)))
    refuses(heddle.UsageError, "3 results", lambda: train(lambda o, t: (o, o, o)))
    refuses(heddle.NotFiniteError, "found nan for sample 0 of 32", lambda: train(lambda o, t: (o[:, 0] * np.nan, o)))
    refuses(heddle.NotFiniteError, "expected a finite gradient",
            lambda: train(lambda o, t: (squares(o, t)[0], (o - t) * np.inf)))
    refuses(heddle.UnsupportedError, "found accumulate=", lambda: train(squares, accumulate=2))
    refuses(heddle.UnsupportedError, "leave stages= out", lambda: train(squares, stages=2, threads=2))
    refuses(heddle.UnsupportedError, "found precision='bf16'", lambda: train(squares, precision="bf16"))
    refuses(heddle.UnsupportedError, "found label smoothing",
            lambda: train(entropy, of_classes, model("cross_entropy", 3), label_smoothing=0.1))
    with heddle.Session(model("mse", 2), data, loss=squares, out=path("loss-alive")) as session:
        session.step(3)  # what was refused has left nothing behind


def test_pair():
    """a loss and its gradient may be two functions"""
    pair = (lambda o, t: squares(o, t)[0], lambda o, t: squares(o, t)[1])
    assert train(pair).digest == train(squares).digest


def test_folder():
    """the run's record has the name: resuming and evaluating take the function, predictions do not, others refuse"""
    whole = train(squares, epochs=4)
    run = train(squares, epochs=4, max_steps=9)
    again = heddle.train(resume=run.folder, data=data, loss=squares, max_steps=28, progress=False)
    assert again.digest == whole.digest
    refuses(heddle.UsageError, "expected the loss squares of the program as in that run, found none",
            lambda: heddle.train(resume=run.folder, data=data))
    loaded = heddle.load(whole.folder)
    assert np.array_equal(loaded.predict(x), whole.predict(x))
    refuses(heddle.UsageError, "expected the loss squares", lambda: loaded.evaluate(data))
    assert heddle.load(whole.folder, loss=squares).evaluate(data).loss == whole.evaluate().loss
    assert pickle.loads(pickle.dumps(whole)).evaluate(data).loss == whole.evaluate().loss
    for call in (whole.certify, lambda: heddle.verify(whole)):
        refuses(heddle.UsageError, "with a loss or a metric of its program", call)
    parted = heddle.bisect(whole, train(squares, lr=0.01))
    assert parted.verdict == "not comparable" and "expected the loss squares" in parted.why
    plain = train(None)
    refuses(heddle.UsageError, "expected no loss of the program as in that run, found 'squares'",
            lambda: heddle.train(resume=plain.folder, data=data, loss=squares))


def test_metric():
    """a metric is a number of an evaluation, chooses the best checkpoint, and ends a run"""
    def minus_worst(outputs, targets):
        return -np.abs(outputs - targets).max()

    run = train(None, metric=minus_worst, epochs=5)
    assert run.result["metric"] == "minus_worst"
    worst = -np.abs(run.predict(x[:50]) - numbers[:50]).max()
    assert np.isclose(run.result["test_metric"], worst, rtol=1e-5)
    assert len(run.numbers("test_metric")[1]) == 5
    means = [train(None, metric=metric, epochs=1).result["test_metric"] for metric in (
        lambda outputs, targets: (outputs - targets).mean(), lambda y_true, y_pred: (y_pred - y_true).mean())]
    assert means[0] == means[1] != 0
    values = iter([3.0, 9.0, 1.0, 2.0, 0.0, 0.0])
    chosen = train(None, metric=lambda o, t: next(values), epochs=5)
    assert chosen.folder.joinpath("best").resolve().name == "step-14"
    values = iter([3.0, 2.0, 1.0, 0.5])
    assert len(train(None, metric=lambda o, t: next(values), epochs=9, patience=2).losses) == 21
    refuses(heddle.UsageError, "expected the metric of the shape ()", lambda: train(None, metric=lambda o, t: o))
    refuses(heddle.NotFiniteError, "the metric", lambda: train(None, metric=lambda o, t: np.nan))
    refuses(heddle.UsageError, "the metric 'fails' failed: ZeroDivisionError", lambda: train(None, metric=fails))


def fails(outputs, targets):
    return 1 / 0


def test_estimators():
    """estimators take a loss among their options"""
    try:
        from heddle.sklearn import HeddleClassifier, HeddleRegressor
    except ImportError:
        return
    estimator = HeddleClassifier(hidden=(8,), epochs=30, options={"loss": hinge}).fit(x, labels)
    assert estimator.score(x, labels) > 0.8
    again = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(again.predict_proba(x), estimator.predict_proba(x))
    regressor = HeddleRegressor(hidden=(8,), epochs=60, lr=0.01, options={"loss": squares}).fit(x, numbers)
    assert regressor.score(x, numbers) > 0.5
    parts = HeddleClassifier(hidden=(8,), options={"loss": hinge})
    for _ in range(2):
        parts.partial_fit(x, labels)
    one = HeddleClassifier(hidden=(8,), epochs=2, options={"loss": hinge}).fit(x, labels)
    assert parts.run_.digest == one.run_.digest


def test_memory_of_evaluations():
    """evaluations with a function keep nothing once they are done"""
    run = train(squares)
    run.evaluate(data)
    kept = len(run._context.kept)
    wanted = run.evaluate().loss
    assert [run.evaluate().loss for _ in range(3)] == [wanted] * 3 and len(run._context.kept) == kept
