"""Learning rates that a program sets between steps, and ReduceOnPlateau."""
import numpy as np
from tap import path, refuses

import heddle

rng = np.random.default_rng(0)
x = rng.normal(size=(320, 6)).astype(np.float32)
y = (x[:, 0] > x[:, 1]).astype(np.int32)
data = (x, y, x[:40], y[:40])
options = {"epochs": 4, "batch": 32, "optimizer": "sgd", "lr": 0.4, "log_every": 1, "progress": False}
model = heddle.Model("m", (1, 1, 6)).add("flat", "flatten").add("fc", "linear", out=2)
count = 0


def train(callback=None, **more):
    global count
    count += 1
    return heddle.train(model, data, callback=callback, **{"out": path(f"lr-{count}"), **options, **more})


def halve(event):
    if event.kind == "epoch":
        event.session.lr /= 2


def test_set():
    """a rate set at an epoch's end, or between steps, holds from the next step, with the same bits on any layout"""
    run = train(halve)
    assert np.array_equal(run.numbers("lr")[1], np.repeat([0.4, 0.2, 0.1, 0.05], 10))
    assert train(halve, threads=3).digest == run.digest != train().digest
    assert run.digest == train(schedule="step", step_size=1, gamma=0.5).digest
    of_session = {name: value for name, value in options.items() if name != "progress"}
    with heddle.Session(model, data, out=path("lr-steps"), **of_session) as s:
        while not s.done:
            s.step(10)
            s.lr /= 2
        assert s.save().digest == run.digest
    cosine = train(lambda e: setattr(e.session, "lr", e.session.lr * 2) if e.kind == "epoch" and e.epoch == 0 else None,
                   schedule="cosine")
    assert np.allclose(cosine.numbers("lr")[1][10:], 2 * train(schedule="cosine").numbers("lr")[1][10:])


def test_resume():
    """a run that is resumed goes on with the rate that was set; it cannot be verified"""
    def stops(event):
        halve(event)
        if event.kind == "epoch" and event.epoch == 1:
            event.session.stop()

    run, stopped = train(halve), train(stops)
    assert stopped.stopped
    assert heddle.train(resume=stopped.folder, data=data, callback=halve, progress=False).digest == run.digest
    refuses(heddle.UsageError, "whose program set it", lambda: heddle.verify(run))
    refuses(heddle.UsageError, "whose program set it", run.certify)


def test_plateau():
    """ReduceOnPlateau lowers the rate as PyTorch's ReduceLROnPlateau does"""
    watched = [1.0, 0.9, 0.95, 0.9, 0.91, 0.5, 0.6, 0.6]

    def rates(**more):
        values = iter(watched)
        run = train(heddle.ReduceOnPlateau(lambda event: next(values), factor=0.5, **more), epochs=8)
        return run.numbers("lr")[1][::10]

    assert np.allclose(rates(patience=1), [0.4, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2])
    assert np.allclose(rates(patience=0), [0.4, 0.4, 0.4, 0.2, 0.1, 0.05, 0.05, 0.025])
    assert np.allclose(rates(patience=0, min_lr=0.15), [0.4, 0.4, 0.4, 0.2, 0.15, 0.15, 0.15, 0.15])
    assert np.allclose(rates(patience=0, min_lr=0.5), [0.4] * 8)
    assert np.allclose(rates(patience=0, cooldown=2), [0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2, 0.1])
    try:
        import torch
    except ImportError:
        return
    for more in ({"patience": 1}, {"patience": 0}, {"patience": 0, "cooldown": 2}):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.4)
        theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, **more)
        expected = []
        for value in watched:
            expected.append(optimizer.param_groups[0]["lr"])
            theirs.step(value)
        assert np.allclose(rates(**more), expected), more
    assert train(heddle.ReduceOnPlateau("test_accuracy", patience=0)).digest


def test_refused():
    """rates at the wrong time, and numbers that are none, are refused by name"""
    def during(event):
        if event.kind == "step":
            event.session.lr = 0.1

    refuses(heddle.UsageError, "between two steps", lambda: train(during))
    for bad in (-1, float("nan"), float("inf")):
        refuses(heddle.UsageError, "from 0 to 1e+06", lambda: train(
            lambda event: setattr(event.session, "lr", bad) if event.kind == "epoch" else None))
    refuses(heddle.UsageError, "found none; watch another", lambda: train(heddle.ReduceOnPlateau("val_loss")))
    refuses(heddle.UsageError, "watch expects", lambda: heddle.ReduceOnPlateau("val"))
    refuses(heddle.UsageError, "factor expects", lambda: heddle.ReduceOnPlateau(factor=2))
