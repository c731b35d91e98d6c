"""Networks with several heads, each with a loss and targets of its own."""
import json
import math
import os
import re
import subprocess

import numpy as np
from tap import Skipped, path, refuses

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
    found = [head.get("confusion") for head in last["heads"]]
    assert found == [confusion(kind[:50], s["kind"].argmax(1), 3), None, confusion(y[:50, 3], s["flag"][:, 0] > 0, 2)]


def confusion(labels, guesses, classes):
    """The counts of each label, a row, and guess."""
    return [[int(((labels == row) & (guesses == column)).sum()) for column in range(classes)] for row in range(classes)]


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
    subprocess.run([os.environ["HEDDLE_PROGRAM"], "report", run.folder, "--output", path("heads.html")], check=True)
    with open(path("heads.html"), encoding="utf-8") as page:
        assert "<th>head</th>" in (text := page.read()) and ">huber<" in text
    for name in ("kind", "flag"):
        assert text.count(f">Confusion matrix of the head {name}: rows are") == 1
    assert text.count(">Confusion matrix") == 2
    assert text.count("<th>most often taken for</th>") == 2


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
    refuses(heddle.UsageError, "head", lambda: train(head="auto", init=train().folder))
    refuses(heddle.FormatError, "2 to 7 heads", lambda: train(model(kind="cross_entropy")))


# ---- Tables ----

def table(file, columns, rows, header=True):
    with open(file, "w", encoding="utf-8") as to:
        to.writelines([",".join(columns) + "\n"] * header + [",".join(map(str, row)) + "\n" for row in rows])


def in_file(part, kinds=("cat", "dog", "eel"), flags=("0", "1")):
    """Rows of a table, whose numbers float32 has; the classes are texts, in the order of their numbers."""
    return [[kinds[int(t[0])], *row, t[1], t[2], flags[int(t[3])]] for row, t in part]


COLUMNS = ["animal", *"abcdef", "u", "v", "is"]
coarse, rough = np.round(x * 64) / 64, np.round(y * 64) / 64
RUN = {"label": "animal,u,v,is", "normalize": "column"}


def folder_of_tables(name, **texts):
    os.makedirs(path(name), exist_ok=True)
    table(path(f"{name}/train.csv"), COLUMNS, in_file(zip(coarse, rough), **texts))
    table(path(f"{name}/test.csv"), COLUMNS, in_file(zip(coarse[:50], rough[:50]), **texts))
    return path(name)


def test_columns():
    """columns of a table are targets as an array has them, texts as classes; the digest is the same"""
    by_array = train(with_data=(coarse, rough, coarse[:50], rough[:50]), normalize="column")
    names = ["cat", "dog", "eel"]
    for texts, wanted in (({}, {"kind": names}), ({"kinds": "012"}, {}), ({"flags": ("no", "yes")}, {"kind": names})):
        run = train(with_data=folder_of_tables(f"tables-{len(wanted)}{len(texts)}", **texts), **RUN)
        assert run.digest == by_array.digest and run.class_names == wanted, (texts, run.class_names)
    assert run.heads == list(HEADS) and heddle.verify(run.certify()).verdict == "verified"
    found, first = run.evaluate(), by_array.evaluate()
    assert str(found.heads) == str(first.heads) and found.loss == first.loss  # some are NaN


def test_confusion_of_names():
    """the page of a run on tables has the confusion matrix of each head with the names of its classes"""
    run = train(with_data=folder_of_tables("tables-report"), **RUN)
    run.report(path("tables.html"))
    with open(path("tables.html"), encoding="utf-8") as page:
        text = page.read()
    assert ">1 dog</td>" in text and re.search(">1 dog taken for [012] (cat|dog|eel): ", text)


def test_other_tables():
    """another table's columns are found by their names and its classes by theirs; labels may be left out of rows"""
    run = train(with_data=folder_of_tables("tables-other"), **RUN, epochs=40)
    few = [(row, t) for row, t in zip(coarse, rough) if t[0] != 0][:30]  # without the first class
    order = [9, 3, 1, 0, 2, 4, 5, 8, 6, 7]
    table(path("few.csv"), [COLUMNS[i] for i in order], [[row[i] for i in order] for row in in_file(few)])
    found, rows, targets = run.evaluate(path("few.csv")), np.array([r for r, _ in few]), np.array([t for _, t in few])
    guessed = run.predict(path("few.csv"))
    assert np.array_equal(guessed["kind"], run.predict(rows)["kind"])
    assert math.isclose(found.heads["kind"]["accuracy"], (guessed["kind"].argmax(1) == targets[:, 0]).mean())
    assert math.isclose(found.heads["pair"]["mean_absolute_error"], np.abs(guessed["pair"] - targets[:, 1:3]).mean(),
                        rel_tol=1e-5)
    table(path("plain.csv"), COLUMNS[1:7], rows)
    out = subprocess.run([os.environ["HEDDLE_PROGRAM"], "predict", run.folder, path("plain.csv"), "--json", "--csv",
                          path("guessed.csv")], check=True, capture_output=True, text=True).stdout
    said = [each["heads"][0]["class_name"] for each in json.loads(out)["predictions"]]
    assert said == [run.class_names["kind"][c] for c in guessed["kind"].argmax(1)]
    with open(path("guessed.csv"), encoding="utf-8") as written:
        assert written.readline() == "file,kind.cat,kind.dog,kind.eel,pair.0,pair.1,flag.0\n"


def test_columns_by_number():
    """columns without names are labels by their numbers, and may be left out of rows to predict"""
    run = train(with_data=folder_of_tables("tables-named"), **RUN)
    os.makedirs(path("tables-plain"))
    for part, count in (("train", 203), ("test", 50)):
        table(path(f"tables-plain/{part}.csv"), COLUMNS, in_file(zip(coarse[:count], rough[:count])), header=False)
    plain = train(with_data=path("tables-plain"), **{**RUN, "label": "1,8,9,10"}, header="no")
    assert plain.digest == run.digest
    table(path("rows-plain.csv"), [], coarse[:9], header=False)
    assert np.array_equal(plain.predict(path("rows-plain.csv"))["pair"], run.predict(coarse[:9])["pair"])


def test_several_numbers():
    """one loss on several numbers reads as many columns of a table"""
    net = heddle.Model("m", (1, 1, 6)).add("flat", "flatten").add("out", "linear", out=2).loss("mse")
    table(path("numbers.csv"), COLUMNS[1:9], [[*row, t[1], t[2]] for row, t in zip(coarse, rough)])
    options = {"normalize": "column", "val_split": 0}
    of_table = train(net, path("numbers.csv"), label="u,v", **options)
    assert of_table.digest == train(net, (coarse, rough[:, 1:3]), **options).digest


def test_refused_columns():
    """columns that are not what a loss reads are refused by name"""
    texts = folder_of_tables("tables-refused")
    for label, kind, says in (("animal,u,v", heddle.ShapeError, "1 for kind, 2 for pair, 1 for flag"),
                              ("animal", heddle.ShapeError, "name those of a table with label="),
                              ("u,animal,v,is", heddle.FormatError, "the number of a class"),
                              ("is,animal,v,u", heddle.FormatError, "'pair' and its loss huber, found 3 texts"),
                              ("is,u,v,animal", heddle.FormatError, "the head 'flag' and its loss bce_with_logits")):
        refuses(kind, says, lambda of=label: train(with_data=table_of("refused", *of.split(",")),
                                                   **{**RUN, "label": of}))
    for label, kind, says in (("animal,u,v,w", heddle.FormatError, "the label's column 'w'"),
                              ("animal,u,u,is", heddle.UsageError, "'u' twice"),
                              ("animal,,v,is", heddle.UsageError, "names of columns with commas between them"),
                              ("animal,u,v,is,", heddle.UsageError, "names of columns with commas between them")):
        refuses(kind, says, lambda of=label: train(with_data=texts, **{**RUN, "label": of}))
    narrow = heddle.Model("m", (1, 1, 6)).add("flat", "flatten").add("kind", "linear", out=2)
    narrow.add("size", "linear", out=1, from_="flat").losses(kind="cross_entropy", size="mse")
    refuses(heddle.FormatError, "numbers or up to 2 texts in label column 1",
            lambda: train(narrow, table_of("narrow", "animal", "u"), label="animal,u"))
    one = heddle.Model("m", (1, 1, 6)).add("flat", "flatten").add("out", "linear", out=2).loss("mse")
    refuses(heddle.FormatError, "found texts such as 'cat'",
            lambda: train(one, table_of("one", "animal", "u"), label="animal,u"))
    run = train(with_data=texts, **RUN)
    table(path("new.csv"), COLUMNS, in_file(zip(coarse, rough), kinds=("cat", "dog", "emu")))
    refuses(heddle.FormatError, "found 'emu'", lambda: run.evaluate(path("new.csv")))
    table(path("typo.csv"), COLUMNS, [[*row[:7], "x" if i == 4 else row[7], *row[8:]]
                                      for i, row in enumerate(in_file(zip(coarse, rough)))])
    refuses(heddle.FormatError, "typo.csv:6: expected a finite number in column 'u'",
            lambda: train(with_data=path("typo.csv"), **RUN))
    table(path("gap.csv"), COLUMNS, [[*row[:9], "" if i == 2 else row[9]]
                                     for i, row in enumerate(in_file(zip(coarse, rough)))])
    refuses(heddle.FormatError, "gap.csv:4: expected a label", lambda: train(with_data=path("gap.csv"), **RUN))


def table_of(name, *labels):
    """A table of the six numbers and these columns."""
    places = [COLUMNS.index(each) for each in labels]
    table(path(f"{name}.csv"), [*labels, *COLUMNS[1:7]],
          [[*(row[i] for i in places), *row[1:7]] for row in in_file(zip(coarse, rough))])
    return path(f"{name}.csv")


# ---- Several arrays ----

def test_arrays():
    """y may be several arrays, in the order of the losses or by the names of heads"""
    first = train()
    parts = {"flag": y[:, 3], "kind": kind, "pair": y[:, 1:3]}
    in_order = tuple(parts[name] for name in HEADS)

    def some(several):
        return {name: part[:50] for name, part in several.items()} if isinstance(several, dict) else \
            tuple(part[:50] for part in several)

    for several in (parts, in_order):
        assert train(with_data=(x, several, x[:50], some(several))).digest == first.digest
        assert train(with_data=((x, several), (x[:50], some(several)))).digest == first.digest
        assert first.evaluate((x, several)).loss == first.evaluate((x, y)).loss
    few = tuple(part[:3] for part in in_order)  # as many samples as heads
    assert first.evaluate((x[:3], few)).loss == first.evaluate((x[:3], y[:3])).loss

    class Rows:
        def __len__(self):
            return len(x)

        def __getitem__(self, i):
            return x[i], (int(kind[i]), y[i, 1:3], y[i, 3])

    assert train(with_data=(Rows(), Rows())).evaluate((x, y)).samples == 203
    refuses(heddle.UsageError, "kind, pair, flag, found kind, pair", lambda: train(with_data=(x, {
        "kind": kind, "pair": y[:, 1:3]})))
    refuses(heddle.UsageError, "no model whose heads have its names", lambda: heddle.train("mlp", (x, parts)))
    refuses(heddle.ShapeError, "y['pair']", lambda: train(with_data=(x, {**parts, "pair": y[:9, 1:3]})))


# ---- ONNX ----

def test_onnx():
    """an ONNX file has an output for each head, and is read back with its losses"""
    run = train(normalize="none")
    try:
        run.export(onnx=path("read.onnx"))
    except heddle.UnsupportedError as error:
        raise Skipped(str(error)) from error
    again = heddle.train(path("read.onnx"), data, out=path("heads-read"), lr=0, optimizer="sgd", max_steps=1, batch=32,
                         normalize="none", progress=False)
    assert again.heads == list(HEADS) and again.digest == run.digest
    assert str(again.evaluate().heads) == str(run.evaluate().heads)
    further = [heddle.train(net, data, out=path(f"further-{i}"), init=run.folder / "last" / "model.safetensors",
                            max_steps=9, batch=32, normalize="none", progress=False, lr=0.1, optimizer="sgd")
               for i, net in enumerate((model(), path("read.onnx")))]
    assert further[0].digest == further[1].digest
    try:
        import onnxruntime
    except ImportError:
        return
    session = onnxruntime.InferenceSession(path("read.onnx"), providers=["CPUExecutionProvider"])
    outputs = session.run(None, {"pixels": x[:9].reshape(9, 1, 1, 6)})
    found = dict(zip([out.name for out in session.get_outputs()], outputs))
    s = scores(run, x[:9])
    assert list(found) == list(HEADS) and all(np.allclose(found[name], s[name], atol=1e-5) for name in HEADS)
