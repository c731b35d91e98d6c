"""Options as Python shows them: signatures, help, messages and what objects print."""
import copy
import inspect
import pickle
import pydoc
import re
from typing import Optional, get_args

import numpy as np
from tap import path, refuses

import heddle
from heddle import _options

x = np.zeros((40, 28, 28), np.uint8)
y = np.arange(40) % 10


def test_signature():
    """signatures have every option with its default, and help its bounds and words"""
    wanted = set(_options.table()) - {"json"} | {"config"}
    for function in (heddle.train, heddle.Session, heddle.tune, heddle.sweep):
        found = inspect.signature(function).parameters
        assert wanted <= set(found), (function, wanted - set(found))
        assert not any(p.kind == p.VAR_KEYWORD for p in found.values()), function
    found = inspect.signature(heddle.train).parameters
    assert found["lr"].default == 0.001 and found["lr"].annotation is float
    assert found["max_steps"].annotation == Optional[int] and "sgd" in get_args(found["optimizer"].annotation)
    assert "lr: float = 0.001" in str(inspect.signature(heddle.train))
    assert found["batch"].default == 64 and found["betas"].default == (0.9, 0.999)
    assert found["max_steps"].default is None and found["nesterov"].default is False
    shown = pydoc.render_doc(heddle.train, renderer=pydoc.plaintext)
    for line in ("lr: float = 0.001, 0 to 1e+06", "learning rate", "batch: int = 64, 1 to 1.04858e+06",
                 "schedule: str = 'const', 'const' or 'step'", "these never change the"):
        assert line in shown, line
    assert "--" not in shown.replace("---", ""), re.findall(".*--.*", shown)[:3]


def test_some():
    """functions that take some options refuse the others by name"""
    assert {"threads", "device", "tta"} <= set(inspect.signature(heddle.Run.evaluate).parameters)
    run = heddle.train("simplenet", (x, y), max_steps=2, out=path("some"))
    refuses(heddle.UsageError, "an option of evaluate, found 'batch'", lambda: run.evaluate((x, y), batch=3))
    refuses(heddle.UsageError, "did you mean 'threads'?", lambda: run.evaluate((x, y), thread=3))
    refuses(heddle.UsageError, "an option of heddle.verify, found 'lr'", lambda: heddle.verify(run, lr=3))
    refuses(heddle.UsageError, "an option of heddle.summary, found 'lr'", lambda: heddle.summary("mlp", lr=3))
    refuses(heddle.UsageError, "an option of heddle.topo, found 'lr'", lambda: heddle.topo(lr=3))
    refuses(heddle.UsageError, "found 'json', which only the command has",
            lambda: heddle.train("simplenet", (x, y), json=True))
    refuses(heddle.UsageError, "each option once, found 'batch' and 'batch_size'",
            lambda: heddle.train("simplenet", (x, y), batch=8, batch_size=8))


def test_messages():
    """messages name arguments, not options of the command"""
    def train(**options):
        return heddle.train("simplenet", (x, y), **{"max_steps": 2, "out": path("message"), **options})

    for options in ({"lr": -1}, {"batch": 0}, {"optimizer": "sdg"}, {"betas": 3}, {"threads": -1}, {"nesterov": True},
                    {"clip_grad_norm": 0}, {"warmup": 10 ** 6}, {"lookahead_power": 2}, {"shards": 3}, {"procs": 2},
                    {"schedule": "step"}, {"learning_rate": 3}, {"val-spilt": 0.1}, {"label": "a"}, {"metric": "r2"},
                    {"val_split": 1}, {"drop_last": True, "batch": 64}, {"resume": "none"}, {"device": "gpu"},
                    {"cpus": "900"}, {"fold": "3"}, {"target_scale": "standard"}, {"no_shuffle": True,
                                                                                   "sampler": "random"},
                    {"precision": "tf32"}, {"stages": 40}):
        try:
            train(**options)
        except heddle.Error as error:
            assert not re.search(r"--[a-z]|heddle train|\n", str(error)), error
        else:
            raise AssertionError(f"expected a refusal of {options}, found a run")
    refuses(heddle.UsageError, "lr= expects", lambda: train(lr=-1))
    refuses(heddle.UsageError, "did you mean 'val_split'?", lambda: train(val_spilt=0.1))
    refuses(heddle.UsageError, "see help(heddle.train)", lambda: train(zzzzzz=0.1))
    for said, python in (("use --threads 2, or --device cpu", "use threads=2, or device='cpu'"),
                         ("leave --exif out", "leave exif= out"), ("found --procs", "found procs="),
                         ("give --transforms '[to_float]', else", "give transforms='[to_float]', else"),
                         ("continue with --resume runs/a-b.", "continue with resume='runs/a-b'."),
                         ("--lookahead STEPS", "lookahead=STEPS"), ("runs/a--lr/x: no", "runs/a--lr/x: no"),
                         ("found '--lr'; no", "found '--lr'; no"), ("run `heddle tune`", "run `heddle tune`"),
                         ("heddle sweep --out a --jobs 3, or", "heddle sweep --out a --jobs 3, or"),
                         ("train with --loss mse, or", "train with loss='mse', or"), ("--unknown 3", "--unknown 3")):
        assert _options.in_python(said) == python, (said, _options.in_python(said))


def test_repr():
    """models, runs and sessions say what they are"""
    model = heddle.Model("tiny", (1, 28, 28)).add("flat", "flatten").add("fc", "linear", out=10)
    assert repr(model) == "Model('tiny', (1, 28, 28): flat, fc)" and "op: linear" in str(model).replace('"', "")
    with heddle.Session(model, (x, y), max_steps=3, out=path("repr")) as session:
        session.step(2)
        assert re.match(r"Session\('tiny' on 'python', step 2 of 3, out='.*repr'\)", repr(session)), repr(session)
        refuses(TypeError, "use session.save()", lambda: pickle.dumps(session))
        refuses(TypeError, "use session.save()", lambda: copy.copy(session))
        run = session.save()
    assert repr(session) == "Session(closed)"
    assert "'tiny' on 'python'" in repr(run) and f"folder='{run.folder}'" in repr(run), repr(run)
    assert repr(heddle.Run("none")).startswith("Run(folder='")


def test_copies():
    """models and runs are copied and pickled with all that they are"""
    model = heddle.Model("tiny", (1, 28, 28)).add("flat", "flatten").add("a", "linear", out=8).add("r", "relu")
    model.add("b", "linear", out=8).add("sum", "add", from_=["r", "b"]).add("out", "linear", out=10)
    model.loss("cross_entropy", label_smoothing=0.1)
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.text == model.text and other.parameters == model.parameters
        other.add("more", "relu")
        assert other.text != model.text
    run = heddle.train(model, (x, y), epochs=9, max_steps=4, out=path("copied"))
    for other in (copy.copy(run), copy.deepcopy(run), pickle.loads(pickle.dumps(run)), run.detached()):
        assert other.digest == run.digest and np.array_equal(other.losses, run.losses) and other.folder != run.folder
        assert other.history.keys() == run.history.keys() and repr(other.result) == repr(run.result)
        assert np.array_equal(other.predict(x), run.predict(x))
        assert heddle.train(data=(x, y), resume=other.folder, max_steps=6).losses.size == 6


def test_values():
    """values of several kinds become options: NumPy's numbers, rules, lists"""
    rules = [{"match": "*.bias", "weight_decay": 0}]
    run = heddle.train("simplenet", (x, y), max_steps=np.int64(2), lr=np.float32(0.5), drop_last=np.bool_(True),
                       batch=20, parameters=rules, optimizer="sgd", weight_decay=0.1, out=path("values"))
    text = heddle.train("simplenet", (x, y), max_steps=2, lr=0.5, drop_last=True, batch=20, optimizer="sgd",
                        parameters="[{match: '*.bias', weight_decay: 0}]", weight_decay=0.1, out=path("values-2"))
    assert run.digest == text.digest
