"""Training, sessions and runs."""
import contextlib
import gc
import io
import json
import os
import pathlib
import pickle
import re
import subprocess
import weakref

import numpy as np
from tap import path, refuses

import heddle

SOURCE = pathlib.Path(os.environ["SRCDIR"])
x = np.random.default_rng(0).integers(0, 256, (200, 28, 28), dtype=np.uint8)
y = (np.arange(200) % 10).astype(np.int64)


def test_defaults():
    """settings that are not given are the command's, and the first steps of the README's network have its bits"""
    run = heddle.train(max_steps=12, out=path("defaults"))
    subprocess.run([os.environ["HEDDLE_PROGRAM"], "train", "--max-steps", "12", "--out", path("by_command")],
                   check=True, capture_output=True)
    settings, wanted = [json.loads((pathlib.Path(path(each)) / "run.json").read_text())["settings"]
                        for each in ("defaults", "by_command")]
    assert settings == wanted, (settings, wanted)
    command = heddle.load(path("by_command"))
    assert run.digest == command.digest and len(run.losses) == 12
    assert run.history["test_accuracy"][-1] == command.history["test_accuracy"][-1]
    assert run.evaluate().confusion.sum() == 10000


def test_layout():
    """threads, accumulation and step-by-step training give one digest"""
    whole = heddle.train("mlp", (x, y), epochs=2, batch=32, threads=1, out=path("whole"))
    with heddle.Session("mlp", (x, y), epochs=2, batch=32, threads=2, accumulate=2, out=path("steps")) as session:
        while not session.done:
            session.step(2)
        assert session.save().digest == whole.digest
    resumed = heddle.train("mlp", (x, y), epochs=2, batch=32, max_steps=4, out=path("resumed"))
    assert resumed.digest != whole.digest
    assert heddle.train(data=(x, y), resume=resumed.folder, max_steps=10).digest == whole.digest


def test_events():
    """callbacks see each step, evaluations and saves"""
    events = []
    heddle.train("simplenet", (x, y), max_steps=4, log_every=2, eval_every=2, out=path("events"),
                 callback=[events.append, lambda event: None])
    kinds = [event.kind for event in events]
    assert [e.step for e in events if e.kind == "step"] == [1, 2, 3, 4], kinds
    assert {"log", "epoch", "eval", "saved"} <= set(kinds), kinds
    assert all(e.loss > 0 for e in events if e.kind == "step")
    assert all(e.lr == 0.001 and e.samples_per_s > 0 for e in events if e.kind == "log")
    with heddle.Session("simplenet", (x, y), max_steps=2, out=path("later")) as session:
        events.clear()
        session.train(lambda event: events.append(event.kind))
        gc.collect()
        seen = len(events)
        session.save()  # the function of train() is gone
        assert len(events) == seen, events[seen:]


def test_predict():
    """predictions are probabilities, of one sample as of many, and of the pixels as floats"""
    run = heddle.train("simplenet", (x, y), max_steps=4, out=path("predict"))
    many = run.predict(x)
    assert many.shape == (200, 10) and np.allclose(many.sum(1), 1)
    assert np.array_equal(run.predict(x[7:8])[0], many[7]) and np.array_equal(run.predict(x.reshape(200, 784)), many)
    assert np.allclose(run.predict(x / 255), many, atol=1e-6)
    result = run.evaluate((x, y))
    assert result.samples == 200 and result.accuracy == np.mean(many.argmax(1) == y)


def test_evaluate():
    """other samples are evaluated as a whole, by a run on a fold too, and a test set by itself"""
    run = heddle.train("simplenet", (x, y), max_steps=4, fold="1/4", out=path("fold"))
    right = run.predict(x).argmax(1) == y
    assert run.evaluate().samples == 50
    result = run.evaluate((x, y))
    assert result.samples == 200 and result.accuracy == np.mean(right)
    for data in ((x, y, x[:60], y[:60]), ((x, y), (x[:60], y[:60]))):
        result = run.evaluate(data)
        assert result.samples == 60 and result.accuracy == np.mean(right[:60])
    assert run.evaluate(((x[:2] / 255).tolist(), y[:2].tolist())).samples == 2
    refuses(heddle.ShapeError, "expected bytes as in training, or floats from 0 to 1",
            lambda: run.evaluate((x[:2].tolist(), y[:2].tolist())))


def test_files():
    """a run is saved, loaded and pickled with its weights"""
    run = heddle.train("simplenet", (x, y), max_steps=4, out=path("kept"))
    run.save(path("copy"))
    run.save(path("weights.safetensors"))
    for other in (heddle.load(path("kept")), heddle.load(path("copy")), pickle.loads(pickle.dumps(run))):
        assert other.digest == run.digest and np.array_equal(other.predict(x), run.predict(x))
    assert {name: w.shape for name, w in run.weights.items()} == {"fc.weight": (10, 784), "fc.bias": (10,)}
    again = heddle.train("simplenet", (x, y), max_steps=4, lr=0, weight_decay=0, init=path("weights.safetensors"),
                         out=path("again"))
    assert np.array_equal(again.weights["fc.weight"], run.weights["fc.weight"])


def test_model():
    """a model built in Python trains as the file that states it"""
    model = heddle.Model("tiny", (1, 28, 28)).add("flat", "flatten").add("a", "linear", out=8).add("r", "relu")
    model.add("b", "linear", out=8).add("sum", "add", from_=["r", "b"]).add("out", "linear", out=10)
    model.loss("cross_entropy", label_smoothing=0.1)
    pathlib.Path(path("tiny.yaml")).write_text(model.text)
    built = heddle.train(model, (x, y), max_steps=3, out=path("built"))
    assert built.digest == heddle.train(path("tiny.yaml"), (x, y), max_steps=3, out=path("read")).digest
    assert model.parameters == 785 * 8 + 9 * 8 + 9 * 10


def test_options():
    """options are the command's: flags, pairs, files; the program's values win"""
    pathlib.Path(path("run.yaml")).write_text("model: simplenet\nbatch: 16\nmax_steps: 2\n")
    run = heddle.train(data=(x, y), config=path("run.yaml"), batch=20, optimizer="adam", betas=(0.8, 0.9),
                       drop_last=True, out=path("options"))
    assert run.result["batch"] == 20 and run.result["steps"] == 2 and run.result["optimizer"] == "adam"


def test_nothing_is_left():
    """sessions and contexts end with the last object that uses them"""
    session = heddle.Session("simplenet", (x, y), transforms=[lambda x: None, "to_float"], max_steps=2,
                             out=path("left"))
    session.train(lambda event: None)
    context = weakref.ref(session._context)
    run = session.run()
    del session
    gc.collect()
    assert context() is not None and run.predict(x).shape == (200, 10)
    del run
    gc.collect()
    assert context() is None


def test_failures_after_a_session():
    """a transform that fails in an evaluation stops no session that is gone"""
    failing, stopped, library = [], [], heddle.session.lib

    def transform(image):
        if failing:
            raise ZeroDivisionError("mine")

    class Library:
        def __getattr__(self, name):
            return stopped.append if name == "hd_session_stop" else getattr(library, name)

    session = heddle.Session("simplenet", (x, y), transforms=["to_float", transform], max_steps=2, out=path("gone"))
    run = session.save()
    del session
    gc.collect()
    failing.append(True)
    heddle.session.lib = Library()
    try:
        refuses(ZeroDivisionError, "mine", run.evaluate)
    finally:
        heddle.session.lib = library
    assert not stopped


def test_progress():
    """a bar on a terminal has the step, the loss and the speed"""
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown):
        heddle.train("simplenet", (x, y), max_steps=4, log_every=2, progress=True, out=path("progress"))
    assert re.search(r"step 4 of 4, epoch 2, loss \d\.\d+, [\d,]+ samples/s", shown.getvalue()), shown.getvalue()


def test_report():
    """a run shows itself as HTML and as text"""
    run = heddle.train("simplenet", (x, y), epochs=3, out=path("report"))
    page = run.report()._repr_html_()
    assert page.count("<svg") == 4 and "test accuracy" in page and run.digest in page, page.count("<svg")
    assert "weights_sha256 " + run.digest in repr(run.report())
