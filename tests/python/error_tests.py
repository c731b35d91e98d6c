"""Bad input: one clear exception each, no crash, no hang; the next run works."""
import copy
import tempfile
import warnings

import numpy as np
from tap import path, refuses

import heddle

x = np.zeros((40, 28, 28), np.uint8)
y = np.arange(40) % 10
count = 0


def train(data=(x, y), model="simplenet", **options):
    global count
    count += 1
    return heddle.train(model, data, **{"max_steps": 2, "out": path(f"error-{count}"), **options})


def refused(kind, says, *data, **options):
    refuses(kind, says, lambda: train(*data, **options))


def test_options():
    """options: an unknown name has the nearest one, a value its bounds"""
    refused(heddle.UsageError, "found 'bacth'; did you mean 'batch'?", bacth=3)
    refused(ValueError, "batch= expects a whole number from 1 to", batch=0)
    refused(heddle.UsageError, "optimizer= expects", optimizer="sdg")
    refused(heddle.UsageError, "without NUL characters", lr="1\0")
    refused(heddle.UsageError, "found 'weight_decay' and 'weight-decay'", **{"weight_decay": 1, "weight-decay": 1})
    refused(heddle.Error, "did you mean simplenet?", (x, y), "simplent")
    refused(heddle.FileError, "none/run.yaml", config="none/run.yaml")
    refuses(heddle.Error, "none", lambda: heddle.load(path("none")))


def test_arrays():
    """arrays: shapes, types, lengths, labels"""
    refused(heddle.UsageError, "found dtype <U1", (np.array(["a"] * 4), y[:4]))
    refused(heddle.UsageError, "found dtype complex128", (x * 1j, y))
    refused(heddle.UsageError, "found dtype object", (np.array([[1], [1, 2]], object), y[:2]))
    refused(heddle.ShapeError, "not empty, found (0, 28, 28)", (x[:0], y[:0]))
    refused(heddle.ShapeError, "found (40, 1, 28, 28, 1)", (x[:, None, ..., None], y))
    for shape in ((4, 8, 6, 7), (4, 65, 80, 90), (4, 9, 8, 9)):
        refused(heddle.ShapeError, "expected 1 to 64 channels in x, first or last", (np.zeros(shape), y[:4]))
    refused(heddle.ShapeError, "expected 40 labels in y, one for each sample, found 39", (x, y[:39]))
    refused(heddle.FormatError, "class labels from 0 to 65535 in y, found -1", (x, y - 1))
    refused(heddle.FormatError, "found NaN in sample", (x, np.where(y == 3, np.nan, y)), "regression")
    refused(heddle.FormatError, "found infinity in sample", (np.where(x == 0, np.inf, x), y))
    refused(heddle.ShapeError, "expected x_test and y_test as x and y", (x, y, x[:, :9], y))
    refused(heddle.ShapeError, "expected the input 1x9x9 of the data set", (x[:, :9, :9], y))
    refused(heddle.ShapeError, "at least 11 scores", (x, y + 1))
    refused(heddle.FormatError, "from 2 up to", (x[:1], y[:1]))
    refused(heddle.UsageError, "found dict of 1", {"x": x})
    refused(heddle.UsageError, "found tuple of 3", (x, y, x))
    refused(heddle.UsageError, "callback expects a function or several, found 3", (x, y), callback=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(heddle.FormatError, "found infinity in sample 0", (x * 1e300 + 1e300, y))
        refused(heddle.FormatError, "found infinity in sample 0", (x, (y + 1) * 1e300), "regression")
    refused(heddle.UsageError, "found int", 3)
    run = train()
    refuses(heddle.ShapeError, "expected samples of (1, 28, 28)", lambda: run.predict(x[:, :9]))
    refuses(heddle.ShapeError, "not empty", lambda: run.predict(x[:0]))
    rows = heddle.train("mlp", (x.reshape(40, -1), y), max_steps=1, out=path("one-row"), progress=False)
    refuses(heddle.ShapeError, "one sample is x[None]", lambda: rows.predict(x[0].ravel()))
    refuses(heddle.FileError, "none.png", lambda: run.predict("none.png"))


def test_model():
    """models: layers that do not fit, names that are taken"""
    refused(heddle.Error, "model:", (x, y), heddle.Model("m", (1, 28, 28)).add("a", "conv2d", out=2, kernel=99))
    model = heddle.Model("m", (1, 2, 2)).add("a", "relu")
    refuses(heddle.UsageError, "found 'a' again", lambda: model.add("a", "relu"))
    refuses(heddle.UsageError, "found 'a b'", lambda: heddle.Model("a b", (1, 2, 2)))
    refuses(heddle.UsageError, "expected layers in the model 'm', found none",
            lambda: heddle.Model("m", (1, 2, 2)).parameters)
    refused(heddle.UsageError, "expected layers in the model 'm', found none", (x, y), heddle.Model("m", (1, 28, 28)))
    for shape in (4, (4,), (1, 2, 3, 4)):
        refuses(heddle.ShapeError, f"found {shape}; rows of n", lambda: heddle.Model("m", shape))


def test_names():
    """completion offers what a program may use"""
    assert set(dir(heddle)) >= {"train", "load", "Model", "__version__"} and "Any" not in dir(heddle)
    assert all(hasattr(heddle, name) for name in dir(heddle))


def test_session():
    """sessions: closed ones, and calls from within a callback"""
    session = heddle.Session("simplenet", (x, y), max_steps=3, out=path("closed"))
    for steps in (0, "1", 1.5):
        refuses(heddle.UsageError, f"a number of steps from 1, found {steps!r}", lambda: session.step(steps))
    refuses(heddle.UsageError, "found one that is training", lambda: session.train(lambda event: session.step()))
    refuses(heddle.UsageError, "found one that is training", lambda: session.train(lambda event: session.close()))
    session.close()
    session.close()
    session.stop()
    for call in (session.step, session.train, session.evaluate, session.save, lambda: session.report,
                 lambda: session.done):
        refuses(heddle.UsageError, "found a closed one; make another", call)


def test_callback():
    """an exception in a callback ends the run after its step, with the state saved"""
    def at_two(event):
        if event.kind == "step" and event.step == 2:
            raise KeyError("mine")

    with heddle.Session("simplenet", (x, y), epochs=9, batch=8, out=path("raised")) as session:
        refuses(KeyError, "mine", lambda: session.train(at_two))
        assert session.report["stopped"]
    assert heddle.load(path("raised")).losses.size in (2, 3)
    assert heddle.train(data=(x, y), resume=path("raised")).digest == train(epochs=9, batch=8, max_steps=None).digest


class Set:
    """A data set that is wrong in one way."""

    classes = 10

    def __init__(self, get, count=40):
        self.get, self.count = get, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.get(i)


def test_sets():
    """data sets in Python: what they raise is the exception's cause; samples that differ are refused"""
    def torn(i):
        if i == 17:
            raise OSError("the tape is torn")
        return x[i], y[i]

    try:
        train(Set(torn))
    except heddle.FileError as error:
        assert "sample 17" in str(error) and "OSError: the tape is torn" in str(error), error
        assert isinstance(error.__cause__, OSError), error.__cause__
    else:
        raise AssertionError("expected an exception")
    refused(heddle.FileError, "expected samples of (1, 28, 28) uint8", Set(lambda i: (x[i, :28 if i < 5 else 3], y[i])))
    refused(heddle.FormatError, "found a length of 0", Set(torn, 0))
    refused(heddle.FormatError, "labels from 0 to 9, found 12", Set(lambda i: (x[i], 12)))
    refused(heddle.UsageError, "found dtype", Set(lambda i: ("a", y[i])))
    refused(TypeError, "", Set(lambda i: 3))
    class Batches(Set):
        def __getitems__(self, indices):
            return [self.get(i) for i in indices[1:]]
    refused(heddle.ShapeError, "expected 40 samples of __getitems__, found 39", Batches(lambda i: (x[i], y[i])))


def test_late():
    """a data set that fails in the middle of a run ends it"""
    seen = []

    def get(i):
        seen.append(i)
        if len(seen) > 200:
            raise RuntimeError("late")
        return x[i], y[i]

    refused(heddle.FileError, "late", Set(get), epochs=99, max_steps=None, cache="none", workers=2)


def test_transforms():
    """transforms: exceptions and shapes end the run"""
    def broken(image, rng):
        raise ZeroDivisionError("mine")

    refused(ZeroDivisionError, "mine", transforms=["to_float", broken])
    refused(ZeroDivisionError, "mine", transforms=["to_float", broken], workers=2)
    refused(heddle.ShapeError, "expected (1, 28, 28) from a transform", transforms=["to_float", lambda image: image[0]])
    refused(heddle.UsageError, "expected a transform, found 'rotate'", transforms=["rotate"])
    train()


def test_functions():
    """a copy of a run with a transform in Python says what it lacks; classes are a number or a list"""
    rows, labels = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    run = heddle.train("mlp", (rows, labels), max_steps=2, transforms=["to_float", lambda row: 2 * row],
                       out=tempfile.mkdtemp() + "/run")
    assert run.predict(rows).shape == (60, 3)
    for call in (lambda: copy.copy(run).predict(rows), lambda: heddle.load(run.folder).predict(rows),
                 lambda: run.evaluate((rows, labels))):
        refuses(heddle.UnsupportedError, "found a function in Python", call)

    class Set:
        def __len__(self):
            return 60

        def __getitem__(self, i):
            return rows[i], i % 3

    for classes in ("abc", {"a": 0}, 2.5):
        Set.classes = classes
        refuses(heddle.UsageError, "a list of their names", lambda: heddle.train("mlp", Set(), max_steps=1))
    with heddle.Session("mlp", (rows, labels), max_steps=2, out=tempfile.mkdtemp() + "/run") as session:
        refuses(heddle.UsageError, "from 1, found 0", lambda: session.step(0))
    run = heddle.train("mlp", (np.asmatrix(rows), labels), max_steps=2, out=tempfile.mkdtemp() + "/run")
    assert run.digest == heddle.train("mlp", (rows, labels), max_steps=2, out=tempfile.mkdtemp() + "/run").digest
