"""Data sets and transforms: arrays in every layout, and objects and functions in Python."""
import array
import functools
import pathlib
import warnings

import numpy as np
from tap import Skipped, path, refuses

import heddle
from heddle import _arrays

rng = np.random.default_rng(0)
x = rng.integers(0, 256, (120, 3, 8, 8), dtype=np.uint8)
y = np.arange(120) % 4
MODEL = "model: m\ninput: [3, 8, 8]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 4}\n"
count = 0


def train(data, **options):
    global count
    count += 1
    return heddle.train(MODEL, data, epochs=2, batch=16, out=path(f"data-{count}"), **options)


class Samples:
    """A data set as PyTorch's are."""

    classes = 4

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Batches(Samples):
    """The same, read a batch at a time."""

    def __getitem__(self, i):
        raise AssertionError("expected __getitems__")

    def __getitems__(self, indices):
        return self.x[indices], self.y[indices]


def test_layouts():
    """channels first or last, one digest; a fifth or a test set"""
    wanted = train((x, y)).digest
    assert train((np.moveaxis(x, 1, 3), y)).digest == wanted
    assert train((x, y.astype(np.uint8)[:, None])).digest == wanted
    assert train((x, y, x[:9], y[:9])).digest == train(((x, y), (x[:9], y[:9]))).digest != wanted


def test_arrays_that_change():
    """arrays that are changed while a run reads them end it with an error; copies, and changes between runs, do not"""
    def changes(array, value):
        def callback(event):
            if event.kind == "step":
                array[...] = value
        return callback

    for fields in ((x, y), (x.astype(np.float32), y), (x, y.astype(np.float32))):
        for which in range(2):
            data = [fields[0].copy(), np.ascontiguousarray(fields[1], np.int32 if fields[1].dtype != np.float32 else
                                                           np.float32).copy()]
            model = MODEL if data[1].dtype == np.int32 else MODEL.replace("out: 4", "out: 1") + "loss: mse\n"
            whole = (*data, fields[0][:9].copy(), data[1][:9].copy())
            refuses(heddle.UsageError, "the training arrays changed", lambda: heddle.train(
                model, whole, epochs=1, batch=16, target_scale="none", out=path(f"changed-{id(data)}-{which}"),
                callback=changes(data[which], 1)))
    copied = x.copy()
    wanted = train((x, y)).digest  # a fifth becomes the test set, so that both parts are copies
    assert train((copied, y), callback=changes(copied, 1)).digest == wanted
    run = train((x, y.astype(np.int32), x[:9], y[:9]), class_weight="balanced")
    assert run.digest


def test_no_copy():
    """arrays that the library reads as they are are not copied"""
    for array in (x, x.astype(np.float32), x[:, 0].copy(), x.reshape(120, -1)):
        assert np.shares_memory(_arrays.samples(array), array)
    labels = y.astype(np.int32)
    assert np.shares_memory(_arrays.labels(labels, 120), labels)


def test_kinds():
    """float64, booleans and targets of a regression"""
    assert train((x / 255, y)).digest == train(((x / 255).astype(np.float32), y)).digest
    assert train((x > 127, y > 1)).evaluate().samples == 24
    run = heddle.train("model: r\ninput: [3, 8, 8]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 2}\n"
                       "loss: mse\n", (x, np.stack([y, -y], 1).astype(float)), epochs=1, out=path("targets"))
    assert run.predict(x).shape == (120, 2) and run.evaluate().mean_absolute_error > 0


def test_many_channels():
    """pictures of 13 channels, first or last, and signals are trained on, predicted, exported and read back"""
    z = rng.integers(0, 256, (120, 13, 8, 8), dtype=np.uint8)
    options = dict(epochs=2, batch=16, progress=False)
    conv = "layers:\n  - conv: {op: conv2d, out: 5, kernel: 3}\n"
    model = MODEL.replace("[3, 8, 8]", "[13, 8, 8]").replace("layers:\n", conv)
    run = heddle.train(model, (z, y), out=path("many"), **options)
    last = np.moveaxis(z, 1, 3)
    np.savez(path("first.npz"), x=z, y=y)
    np.savez(path("last.npz"), x=last, y=y)
    for i, data in enumerate(((last, y), Samples(z, y), path("first.npz"), path("last.npz"))):
        assert heddle.train(model, data, out=path(f"many-{i}"), **options).digest == run.digest, i
    assert run.evaluate().samples == 24 and run.evaluate((last, y)).loss > 0
    scores = run.predict(z)
    assert np.array_equal(scores, run.predict(last))
    run.export(onnx=path("many.onnx"), c=path("many.c"))
    assert "pixel[832]" in pathlib.Path(path("many.c")).read_text()
    again = heddle.train(path("many.onnx"), (z, y), out=path("many-read"), max_steps=1, lr=1e-30, optimizer="sgd",
                         batch=16, progress=False)
    assert np.abs(again.predict(z) - scores).max() < 1e-6
    signals = rng.normal(size=(60, 9, 1, 32)).astype(np.float32)
    signal = heddle.train("model: s\ninput: [9, 32]\nlayers:\n  - conv: {op: conv1d, out: 4, kernel: 5}\n"
                          "  - flat: {op: flatten}\n  - fc: {op: linear, out: 4}\n", (signals, y[:60]),
                          out=path("signals"), **options)
    assert signal.predict(signals).shape == (60, 4)


def test_sets():
    """data sets in Python give the weights of arrays: by sample and batch, cached or not, on threads and workers"""
    wanted = train((x, y, x[:9], y[:9])).digest
    for kind in (Samples, Batches):
        for options in ({}, {"cache": "none", "threads": 2}, {"cache": "none", "workers": 2}):
            assert train((kind(x, y), kind(x[:9], y[:9])), **options).digest == wanted, (kind, options)
    assert train(Samples(x, y)).digest == train((x, y)).digest


def test_folds_of_sets():
    """a data set in Python is divided into the folds of its arrays, whether samples are kept or not"""
    for fold in ("1/3", "3/3"):
        wanted = train((x, y), fold=fold)
        part = heddle.data.folds(y, 3)[int(fold[0]) - 1][1]
        right = wanted.predict(x).argmax(1) == y
        assert wanted.evaluate().samples == len(part) and wanted.evaluate().accuracy == right[part].mean()
        for kind in (Samples, Batches):
            for options in ({}, {"cache": "none"}):
                run = train(kind(x, y), fold=fold, **options)
                assert run.digest == wanted.digest and run.evaluate().accuracy == right[part].mean()
        other = wanted.evaluate(Samples(x[:50], y[:50]))
        assert (other.samples, other.part, other.accuracy) == (50, "all", right[:50].mean())


def test_samples_without_memory():
    """samples of a data set whose y, or whose shape, the library has no memory for are refused before they are read"""
    rows = np.zeros((40, 5), np.float32)

    def train_on(*sets):
        return heddle.train("mlp", sets if len(sets) > 1 else sets[0], max_steps=1, out=path("memory"))

    class Of(Samples):
        def __init__(self, targets, rows=rows):
            super().__init__(rows, targets)

    plain = Of(np.arange(40) % 4)
    for y, shape in ((np.zeros((40, 32, 64), np.int64), "(32, 64)"), (np.zeros((40, 1, 1), int), "(1, 1)"),
                     (np.zeros((40, 1, 3), np.float32), "(1, 3)"), ([(1, np.zeros((8, 8)))] * 40, "(8, 8)")):
        refuses(heddle.ShapeError, f"as a sample's y, found the shape {shape}", lambda: train_on(Of(y)))
    for masked in (np.ma.masked_equal(np.arange(40) % 4, 0), [(1, np.ma.masked)] * 40):
        refuses(heddle.FormatError, "a sample's y, found a masked array", lambda: train_on(Of(masked)))
    late = [0.5] * 39 + [np.zeros((8, 8))]
    refuses(heddle.FileError, "found the shape (8, 8)", lambda: train_on(Of(late)))
    for y, says in (([0.5] * 39 + [[1.0, 2.0]], "expected 1 targets as the first, found 2 targets"),
                    ([0.5] * 39 + [1], "found a class"), ([1] * 39 + [0.5], "found 1 targets")):
        refuses(heddle.Error, says, lambda: train_on(Of(y)))
    for test, says in ((Of(np.arange(40) % 4, np.zeros((40, 9), np.float32)), "found (1, 1, 9) float32"),
                       (Of(np.arange(40) % 4, np.zeros((40, 5), np.uint8)), "found (1, 1, 5) uint8"),
                       (Of(np.zeros((40, 3), np.float32)), "expected a class as the training set's, found 3 targets")):
        refuses(heddle.ShapeError, says, lambda: train_on(plain, test))
    refuses(heddle.ShapeError, "expected 2 targets of each sample in y_test, as in y, found 9", lambda: heddle.train(
        "regression", (rows, np.zeros((40, 2)), rows, np.zeros((40, 9))), max_steps=1, out=path("memory")))


def test_heads_of_sets():
    """y of a sample may be a tuple, of labels and of numbers, whether these have one shape or several"""
    net = heddle.Model("two", (1, 1, 4)).add("flat", "flatten").add("kind", "linear", out=3)
    net = net.add("size", "linear", out=1, from_="flat").losses(kind="cross_entropy", size="mse")
    rows = rng.normal(size=(60, 4)).astype(np.float32)

    class Pairs(Samples):
        def __getitem__(self, i):
            return rows[i], self.y(i)

    wanted = heddle.train(net, (rows, np.stack([np.arange(60) % 3, rows[:, 0]], 1)), epochs=1, normalize="channel",
                          out=path("pairs"))
    for number, of in enumerate((lambda i: (i % 3, rows[i, 0]), lambda i: (np.array([i % 3]), rows[i, :1]),
                                 lambda i: (i % 3, rows[i, :1]))):
        run = heddle.train(net, Pairs(rows, of), epochs=1, normalize="channel", out=path(f"pairs-{number}"))
        assert run.digest == wanted.digest, number


def test_messages_of_sets():
    """what a data set raises is told whatever characters it has"""
    class Torn(Samples):
        def __getitem__(self, i):
            raise OSError("no file \udcff")

    refuses(OSError, "no file", lambda: train(Torn(x, y)))
    late = []

    class Late(Samples):
        def __getitem__(self, i):
            late.append(i)
            if len(late) > 9:
                raise OSError("no file \udcff")
            return super().__getitem__(i)

    refuses(heddle.FileError, "OSError: no file ?", lambda: train(Late(x, y), cache="none"))


def test_frames():
    """tables of pandas, and Python's own arrays, are arrays: neither data sets nor lists of parts"""
    rows, price = rng.normal(size=(60, 2)), rng.normal(size=60)
    wanted = heddle.train("regression", (rows, price), epochs=1, out=path("frame-arrays"))
    assert not heddle.data.is_set((array.array("f", [1, 2]), memoryview(b"ab")))
    try:
        import pandas as pd
    except ImportError as error:
        raise Skipped(str(error)) from None
    for number, names in enumerate((["a", "b"], [0, 1])):
        frame, column = pd.DataFrame(rows, columns=names), pd.DataFrame({"price": price})
        for i, target in enumerate((column, column["price"])):
            run = heddle.train("regression", (frame, target), epochs=1, out=path(f"frame-{number}-{i}"))
            assert run.digest == wanted.digest
    times = pd.DataFrame({"a": rows[:, 0], "time": 1.7e9 + 60 * np.arange(60)})
    for table, name in ((times, " ('time')"), (times.values.tolist(), "")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run.predict(table)
        assert f"in column 1{name} of x" in str(caught[-1].message), caught
    net = heddle.Model("two", (1, 1, 2)).add("flat", "flatten").add("a", "linear", out=1)
    net = net.add("b", "linear", out=1, from_="flat").losses(a="mse", b="mse")
    both = heddle.train(net, (frame, {"b": price, "a": 2 * price}), epochs=1, out=path("frame-heads"))
    assert both.digest == heddle.train(net, (rows, np.stack([2 * price, price], 1)), epochs=1,
                                       out=path("frame-stacked")).digest


def test_tables():
    """rows of files are predicted as arrays are, and a file of one's own is evaluated whole"""
    rows = rng.integers(0, 90, (60, 2)).astype(np.float32)
    price = 30 * rows[:, 0] + 2 * rows[:, 1]

    def table(name, rows, price):
        text = "".join(f"{a:g},{b:g},{p:g}\n" for (a, b), p in zip(rows, price))
        pathlib.Path(path(name)).write_text("a,b,price\n" + text)
        return path(name)

    run = heddle.train("regression", table("prices.csv", rows, price), epochs=20, out=path("prices"))
    wanted = run.predict(rows)
    np.save(path("rows.npy"), rows)
    for file in (path("prices.csv"), path("rows.npy"), pathlib.Path(path("rows.npy"))):
        assert np.array_equal(run.predict(file), wanted)
    assert np.array_equal(run.predict(table("own.csv", rows[5:8], price[5:8])), wanted[5:8])
    own = run.evaluate(path("own.csv"))
    assert (own.samples, own.part) == (3, "all")
    assert np.isclose(own.mean_absolute_error, abs(wanted[5:8, 0] - price[5:8]).mean(), rtol=1e-5)
    assert run.evaluate().samples == run.evaluate(path("prices.csv")).samples == 12
    refuses(heddle.FileError, "none.csv", lambda: run.predict("none.csv"))
    assert np.isclose(run.result["test_r2"], run.evaluate().r2)


def test_ignored_label():
    """a label that the loss ignores may lie above the classes, in arrays and in data sets alike"""
    rows, of = np.random.default_rng(6).normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    of[::7] = 255
    net = (heddle.Model("net", (1, 1, 4)).add("flat", "flatten").add("out", "linear", out=3)
           .loss("cross_entropy", ignore_index=255))

    class Set:
        def __init__(self, count):
            self.count = count

        def __len__(self):
            return self.count

        def __getitem__(self, i):
            return rows[i], of[i]

    class Named(Set):
        classes = ["a", "b", "c"]

    options = {"epochs": 2, "batch": 16, "normalize": "none", "progress": False}
    run = heddle.train(net, (rows, of, rows[:20], of[:20]), out=path("ignored-a"), **options)
    for name, kind in (("b", Set), ("c", Named)):
        other = heddle.train(net, (kind(60), kind(20)), out=path("ignored-" + name), **options)
        assert other.digest == run.digest and np.array_equal(other.losses, run.losses)
        assert other.evaluate().accuracy == run.evaluate().accuracy
    assert heddle.train(net, Set(60), out=path("ignored-d"), **options).evaluate().samples == 12
    of[5] = 254
    refuses(heddle.Error, "found 254", lambda: heddle.train(net, Named(60), out=path("ignored-e"), **options))
    refuses(heddle.Error, "255 scores", lambda: heddle.train(net, Set(60), out=path("ignored-f"), **options))


def test_text():
    """text is written as the command writes it, alone or several at once, of texts and bytes"""
    pathlib.Path(path("text.txt")).write_text("ab\u00e4 cab bac\n" * 60, encoding="utf-8")
    model = ("model: t\ninput: [8]\nlayers:\n  - e: {op: embedding, tokens: classes, out: 8}\n  - p: {op: position}\n"
             "  - l: {op: linear, out: classes}\n")
    run = heddle.train(model, path("text.txt"), epochs=1, batch=16, out=path("text-run"))
    one = run.generate("ab", length=30, seed=4)
    assert one.startswith("ab") and len(one) == 32
    several = run.generate("ab", length=30, seed=4, count=3)
    assert several[0] == one and len(set(several)) == 3
    assert run.generate(b"ab", length=30, seed=4) == one.encode()
    assert run.generate(length=9, temperature=0) == run.generate(length=9, top_k=1, seed=8)
    assert run.generate(length=9, temperature=0) == run.generate(length=9, top_p=1e-9, seed=8)
    refuses(heddle.UsageError, "the prompt", lambda: run.generate("Q"))
    refuses(heddle.UsageError, "found length -1", lambda: run.generate(length=-1))
    refuses(heddle.UsageError, "top_p", lambda: run.generate(top_p=1.5))
    refuses(heddle.UnsupportedError, "use heddle predict", lambda: train((x, y)).generate())


def test_transforms():
    """transforms in Python run on threads and workers with one result; random ones stay out of evaluation"""
    def noise(image, rng):
        image += rng.normal(size=image.shape).astype(np.float32)

    lists = ["to_float", noise, lambda image: image * 2, {"centre_crop": 8}]
    one = train((x, y), transforms=lists, threads=1)
    assert train((x, y), transforms=lists, threads=2).digest == one.digest
    assert train((x, y), transforms=lists, workers=2).digest == one.digest
    assert train((x, y), transforms=["to_float", noise]).digest != train((x, y), transforms=["to_float"]).digest
    doubled = train((x, y), transforms=["to_float", lambda image: image * 2])
    scaled = train((x * 2.0 / 255, y), transforms=["to_float"])
    assert np.allclose(doubled.losses, scaled.losses, atol=1e-5)
    assert np.allclose(doubled.predict(x), scaled.predict(x * 2.0 / 255), atol=1e-4)
    assert train((x, y), transforms=["to_float", noise], lr=0, weight_decay=0).evaluate().loss == train(
        (x, y), transforms=["to_float"], lr=0, weight_decay=0).evaluate().loss


def test_transforms_with_parameters():
    """a transform is random if it has the parameter rng, or needs a second one; other parameters keep their defaults"""
    def invert(image, verbose=False):
        assert verbose is False
        return 1 - image

    class Module:
        def __call__(self, *arguments, **named):
            assert len(arguments) == 1 and not named
            return 1 - arguments[0]

    def times(image, k):
        return k * image

    def noise(image, generator):
        image += generator.normal(size=image.shape).astype(np.float32)

    def scaled(image, scale=1, *, rng):
        image += scale * rng.normal(size=image.shape).astype(np.float32)

    def of(function, **options):
        run = train((x, y), transforms=["to_float", function], **options)
        return run.digest, run.evaluate().loss

    wanted = of(lambda image: 1 - image)
    assert of(invert) == of(Module()) == wanted
    assert of(functools.partial(times, k=3)) == of(lambda image: 3 * image)
    random = of(noise)
    assert random == of(scaled) == of(functools.partial(scaled, scale=1)) != of(functools.partial(scaled, scale=2))
    assert of(noise, lr=0, weight_decay=0)[1] == of(np.positive, lr=0, weight_decay=0)[1] != random[1]
    refuses(heddle.UsageError, "of x and rng, as a transform, found (x, a, b)",
            lambda: train((x, y), transforms=["to_float", lambda x, a, b: x]))


def test_dlpack():
    """whatever speaks DLPack is read without a copy"""
    foreign = type("Foreign", (), {"__dlpack__": lambda self, **k: x.__dlpack__(**k),
                                   "__dlpack_device__": lambda self: x.__dlpack_device__()})()
    assert np.shares_memory(_arrays.samples(foreign), x)
