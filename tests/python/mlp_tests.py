"""The estimators beside MLPClassifier and MLPRegressor: each of their arguments works, or is refused by name."""
import contextlib
import copy
import inspect
import io
import pickle
import signal
import tempfile
import threading
import warnings

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from tap import Skipped, path, refuses

import heddle
from heddle.sklearn import HeddleClassifier, HeddleRegressor

rng = np.random.default_rng(0)
x = rng.normal(size=(120, 4)).astype(np.float32)
y = np.where(x[:, 0] * x[:, 1] > 0, "same", "other")
target = x[:, 0] * 3 - x[:, 1] ** 2 + 40
both = {HeddleClassifier: y, HeddleRegressor: target}


def short(**arguments):
    return HeddleClassifier(**{"epochs": 3, "hidden": (8,), **arguments})


def digest(estimator):
    return estimator.run_.digest


def test_signature():
    """every argument of MLPClassifier and MLPRegressor is one of ours, and works or says why not"""
    for ours, theirs in ((HeddleClassifier, MLPClassifier), (HeddleRegressor, MLPRegressor)):
        mine = ours().get_params()
        for name, p in inspect.signature(theirs.__init__).parameters.items():
            if name in ("self", "loss"):
                continue
            assert name in mine, name
            if name in ("solver", "learning_rate") or p.default is None:
                continue
            default = {"nesterovs_momentum": False, "momentum": 0.9}.get(name, p.default)
            extra = {"optimizer": "sgd"} if name == "momentum" else {}
            alias = {"hidden_layer_sizes": "hidden", "max_iter": "epochs"}.get(name)
            arguments = {"epochs": 2, "hidden": (8,), name: default, **extra}
            arguments.pop(alias, None)
            if name == "max_iter":
                arguments["max_iter"] = 2
            ours(**arguments).fit(x, both[ours])
    for arguments, says in (({"solver": "lbfgs"}, "solver expects an optimizer that takes batches, found 'lbfgs'"),
                            ({"learning_rate": "fast"}, "learning_rate expects 'constant', 'invscaling', 'adaptive'"),
                            ({"power_t": -1}, "power_t expects a number from 0"),
                            ({"max_fun": 3}, "max_fun expects 15000"),
                            ({"activation": "cos"}, "activation expects identity"),
                            ({"hidden_layer_sizes": 3, "hidden": 8}, "expected hidden or hidden_layer_sizes"),
                            ({"validation_fraction": 1.5}, "validation_fraction expects a number between 0 and 1"),
                            ({"n_iter_no_change": 0}, "n_iter_no_change expects a number of epochs from 1"),
                            ({"tol": -1}, "tol expects a number from 0"),
                            ({"learning_rate_init": -1, "epochs": 200}, "learning_rate_init= expects"),
                            ({"alpha": 1, "weight_decay": 1}, "expected alpha without weight_decay"),
                            ({"alpha": -1}, "alpha expects a number from 0"),
                            ({"momentum": 0.5, "optimizer": "sgd", "options": {"momentum": 0.9}},
                             "give it as momentum"),
                            ({"model": "linear", "activation": "tanh"}, "expected model or activation"),
                            ({"model": "linear", "hidden": 3}, "expected model or hidden"),
                            ({"options": {"fold": "1/2"}}, "not all rows"),
                            ({"options": {"patience": 3}}, "use early_stopping=True"),
                            ({"options": {"metric": "f1"}}, "use early_stopping=True"),
                            ({"options": {"eval_epochs": 2}, "early_stopping": True}, "after each epoch")):
        refuses(heddle.UsageError, says, lambda: HeddleClassifier(**{"epochs": 2, **arguments} if "epochs" not in
                                                                  arguments else arguments).fit(x, y))
    refuses(TypeError, "class_weight", lambda: HeddleRegressor(class_weight="balanced"))
    refuses(TypeError, "did you mean 'hidden_layer_sizes'?", lambda: HeddleClassifier(hidden_layer_size=3))


def test_aliases():
    """other names of arguments mean the same, to the bit"""
    plain = digest(HeddleClassifier(hidden=(9, 5), epochs=4, batch=16, optimizer="adam", lr=0.01, seed=3).fit(x, y))
    assert plain == digest(HeddleClassifier(hidden_layer_sizes=(9, 5), max_iter=4, batch_size=16, solver="adam",
                                            learning_rate_init=0.01, random_state=3).fit(x, y))
    assert plain == digest(HeddleClassifier(hidden_layer_sizes=[9, 5], max_iter=4, batch_size=16, solver="adam",
                                            learning_rate_init=0.01, random_state=3, beta_1=0.9, epsilon=1e-8,
                                            activation="relu", shuffle=True).fit(x, y))
    assert digest(short(hidden=8).fit(x, y)) == digest(short(hidden=(8,)).fit(x, y))
    assert digest(short(batch_size="auto").fit(x, y)) == digest(short(batch=120).fit(x, y))
    a, b = (digest(short(random_state=np.random.RandomState(5)).fit(x, y)) for _ in range(2))
    assert a == b != digest(short(random_state=np.random.RandomState(6)).fit(x, y))
    generator = np.random.RandomState(5)
    estimator = short(random_state=generator)
    assert digest(estimator.fit(x, y)) != digest(estimator.fit(x, y))
    different = [digest(short(**changed).fit(x, y)) for changed in ({}, {"activation": "tanh"}, {"alpha": 1.0},
                                                                   {"activation": "identity"}, {"shuffle": False},
                                                                   {"activation": "logistic"}, {"beta_1": 0.5},
                                                                   {"epsilon": 0.1}, {"seed": 1})]
    assert len(set(different)) == len(different)


def test_alpha():
    """alpha is the penalty of MLPClassifier and MLPRegressor: networks without hidden layers come to their weights"""
    rows = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    alpha = 30.0
    several = np.stack([target, x[:, 1] ** 2, x[:, 2] - target], 1)
    for wanted in (target, several):
        scaled = (wanted - wanted.mean(0)) / wanted.std(0)
        ridge = np.linalg.solve(rows.T @ rows + alpha * np.eye(4), rows.T @ scaled).reshape(4, -1)
        for batch in (120, 200):
            ours = HeddleRegressor(hidden=(), epochs=2000, batch=batch, lr=0.02, alpha=alpha).fit(rows, wanted)
            assert np.allclose(ours.coefs_[0] / wanted.std(0), ridge, atol=2e-3), (ours.coefs_[0], ridge)
    labels = np.stack([x[:, 0] > 0, x[:, 1] > 0.3], 1).astype(int)
    for wanted in (np.arange(120) % 3, y, labels):
        ours = HeddleClassifier(hidden=(), epochs=2000, batch=200, lr=0.02, alpha=alpha).fit(rows, wanted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = MLPClassifier((), solver="lbfgs", max_iter=5000, alpha=alpha, tol=1e-9).fit(rows, wanted)
        found = ours.coefs_[0]
        found = found[:, 1:] - found[:, :1] if wanted is y else found
        assert np.allclose(found, theirs.coefs_[0], atol=2e-3), (found, theirs.coefs_[0])
    held = {"early_stopping": True, "validation_fraction": 0.5, "n_iter_no_change": 1000, "hidden": (), "alpha": alpha}
    some, other = (HeddleRegressor(batch=batch, epochs=2, **held).fit(x, target) for batch in (60, 120))
    assert digest(some) == digest(other)


def test_epochs():
    """n_iter_ and loss_curve_ count epochs"""
    estimator = short(epochs=7).fit(x, y)
    assert estimator.n_iter_ == len(estimator.loss_curve_) == 7 and estimator.t_ == 7 * 120
    steps = estimator.run_.losses
    assert len(steps) == 7 * 4 and np.isclose(estimator.loss_curve_[0], np.average(steps[:4], weights=[32] * 3 + [24]))
    assert estimator.loss_ == estimator.loss_curve_[-1] and estimator.best_loss_ == min(estimator.loss_curve_)
    run = heddle.train(estimator._network(4, 2, "cross_entropy"),
                       (x, np.unique(y, return_inverse=True)[1], x[:1], np.unique(y, return_inverse=True)[1][:1]),
                       epochs=7, batch=32, optimizer="adam", lr=0.003)
    assert run.digest == digest(estimator)


def test_early_stopping():
    """early stopping holds rows out, ends, and keeps the best epoch"""
    noise = rng.normal(size=(200, 10)).astype(np.float32)
    labels = rng.integers(0, 2, 200)
    estimator = HeddleClassifier(early_stopping=True, n_iter_no_change=4, lr=0.01, batch=16).fit(noise, labels)
    assert 5 <= estimator.n_iter_ < 200 and estimator.best_loss_ is None
    scores = estimator.validation_scores_
    assert len(scores) == estimator.n_iter_ and estimator.best_validation_score_ == max(scores)
    held_x, held_y = train_test_split(noise, labels, test_size=0.1, random_state=0, stratify=labels)[1::2]
    assert np.isclose(estimator.score(held_x, held_y), max(scores))
    tail = scores[int(np.argmax(scores)) + 1:]
    assert len(tail) >= 4
    regressor = HeddleRegressor(early_stopping=True, n_iter_no_change=3, validation_fraction=0.2, lr=0.01,
                                batch=16).fit(noise, noise[:, 0] + rng.normal(size=200))
    assert regressor.n_iter_ < 200 and np.isfinite(regressor.best_validation_score_)
    refuses(heddle.UsageError, "targets are all equal",
            lambda: HeddleRegressor(early_stopping=True, epochs=3).fit(noise, np.zeros(200)))
    flat = HeddleClassifier(tol=1e9, n_iter_no_change=2, epochs=50).fit(x, y)
    assert flat.n_iter_ == 4 and flat.validation_scores_ is None
    assert digest(flat) == digest(HeddleClassifier(epochs=4).fit(x, y))


def test_metric_of_early_stopping():
    """early_stopping goes by a metric, by name or a function in the units of y; without rows held out it is refused"""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, 5)).astype(np.float32)
    labels = (rows[:, 0] + 0.5 * rng.normal(size=200) > 0.8).astype(int)
    held = {"early_stopping": True, "validation_fraction": 0.3, "epochs": 12, "n_iter_no_change": 12, "lr": 0.01}
    plain = HeddleClassifier(**held).fit(rows, labels)
    assert HeddleClassifier(metric="accuracy", **held).fit(rows, labels).validation_scores_ == plain.validation_scores_
    f1 = HeddleClassifier(metric="f1", **held).fit(rows, labels)
    assert f1.validation_scores_ != plain.validation_scores_ and 0 <= f1.best_validation_score_ <= 1
    losses = HeddleClassifier(metric="loss", **held).fit(rows, labels).validation_scores_
    assert all(loss < 0 for loss in losses)

    def right(outputs, targets):
        assert outputs.shape == (60, 2) and set(targets) <= {0, 1}
        return (outputs.argmax(1) == targets).mean()

    assert np.allclose(HeddleClassifier(metric=right, **held).fit(rows, labels).validation_scores_,
                       plain.validation_scores_)
    targets = 1000 * rows[:, 0] + 5000

    def nearness(outputs, wanted):
        assert wanted.shape == (60, 1) and 1000 < wanted.mean() < 9000
        return -abs(outputs - wanted).mean()

    regressor = HeddleRegressor(metric=nearness, **held).fit(rows, targets)
    assert regressor.best_validation_score_ == max(regressor.validation_scores_) < -1
    for estimator in (HeddleClassifier, HeddleRegressor):
        refuses(heddle.UsageError, "metric expects early_stopping=True",
                lambda: estimator(metric="loss", epochs=1).fit(rows, labels))
        refuses(heddle.UsageError, "metric expects a name or a function",
                lambda: estimator(metric=3, early_stopping=True).fit(rows, labels))
        refuses(heddle.UsageError, "metric", lambda: estimator(metric="f2", early_stopping=True).fit(rows, labels))
        copy = clone(estimator(metric=right, early_stopping=True))
        assert copy.metric is right


def test_units_of_metrics():
    """a function as metric of a regressor sees the units of y, also with a model that may scale targets itself"""
    rng = np.random.default_rng(0)
    rows, prices, seen = rng.normal(size=(40, 3)), 1000 * np.exp(2 * rng.normal(size=40)), []

    def near(outputs, targets):
        seen.append(targets[:, 0])
        return -abs(outputs - targets).mean()

    for model in ("regression", None):
        estimator = HeddleRegressor(model, epochs=2, early_stopping=True, validation_fraction=0.3, metric=near)
        estimator.fit(rows, prices)
        first = estimator.predict(rows)
        estimator.set_params(warm_start=True, epochs=1, lr=1e-12).fit(rows, prices)
        assert np.allclose(estimator.predict(rows), first, atol=1e-3 * prices.std()), model
    for targets in seen:
        assert len(targets) == 12 and max(min(abs(t - prices)) for t in targets) < 1e-5 * prices.std()


def test_weights_of_metrics():
    """a function as metric with a parameter sample_weight sees the weights of the rows that it judges"""
    targets, calls = np.arange(120.0), []
    weights = 1 + targets % 3

    def near(outputs, wanted, sample_weight=None):
        calls.append(None if sample_weight is None else (sample_weight, 1 + wanted[:, 0].round() % 3))
        return -np.average(abs(outputs - wanted)[:, 0], weights=sample_weight)

    held = {"early_stopping": True, "validation_fraction": 0.3, "epochs": 3}
    weighed = HeddleRegressor(metric=near, **held).fit(x, targets, sample_weight=weights).validation_scores_
    assert all(np.array_equal(*call) for call in calls)
    plain = HeddleRegressor(metric=lambda outputs, wanted: near(outputs, wanted), **held)
    assert plain.fit(x, targets, sample_weight=weights).validation_scores_ != weighed
    calls.clear()
    HeddleRegressor(metric=near, **held).fit(x, targets)
    assert calls and all(call is None for call in calls)


def test_early_stopping_is_exact():
    """the kept weights are those of a run of as many epochs on the same rows, whatever the threads"""
    numbers = (rng.normal(size=120) + x[:, 0]).astype(np.float64)
    found = [HeddleRegressor(early_stopping=True, n_iter_no_change=5, lr=0.01, threads=threads).fit(x, numbers)
             for threads in (1, 2, 2)]
    assert len({digest(estimator) for estimator in found}) == 1
    best = int(np.argmax(found[0].validation_scores_)) + 1
    again = HeddleRegressor(early_stopping=True, n_iter_no_change=1000, lr=0.01, epochs=best).fit(x, numbers)
    assert digest(again) == digest(found[0]), best


def test_warm_start():
    """warm_start and partial_fit go on from the weights and the normalisation of the first fit"""
    estimator = HeddleClassifier(hidden=(16,), epochs=20, warm_start=True).fit(x, y)
    first = estimator.predict_proba(x)
    losses = list(estimator.loss_curve_)
    estimator.set_params(epochs=1, lr=1e-12).fit(5 * x[:60] + 3, y[:60])
    assert np.allclose(estimator.predict_proba(x), first, atol=1e-5)
    assert estimator.n_iter_ == 1 and estimator.loss_curve_[:20] == losses and len(estimator.loss_curve_) == 21
    estimator.set_params(epochs=30, lr=0.003).fit(x, y)
    assert estimator.loss_ < losses[-1]
    assert digest(estimator.set_params(warm_start=False, epochs=20).fit(x, y)) == \
        digest(HeddleClassifier(hidden=(16,), epochs=20).fit(x, y))
    refuses(heddle.UsageError, "expected the network of the first fit",
            lambda: short(warm_start=True).fit(x, y).set_params(hidden=(9,)).fit(x, y))
    for normalize in ("none", "channel"):
        plain = short(warm_start=True, options={"normalize": normalize}).fit(x, y)
        first = plain.predict_proba(x)
        plain.set_params(epochs=1, lr=1e-12).fit(4 * x[:50], y[:50])
        assert np.allclose(plain.predict_proba(x), first, atol=1e-5), normalize
    refuses(ValueError, "of the classes of the first fit", lambda: HeddleClassifier(
        epochs=1, warm_start=True).fit(x, y).fit(x, np.where(x[:, 0] > 0, "new", "same")))
    regressor = HeddleRegressor(epochs=100, warm_start=True).fit(x, target)
    first = regressor.predict(x)
    regressor.set_params(epochs=1, lr=1e-12).fit(x + 1, 3 * target + 5)
    assert np.allclose(regressor.predict(x), first, atol=1e-3)
    refuses(ValueError, "1 of each row, found 2", lambda: regressor.fit(x, np.stack([target, target], 1)))


def test_run_of_estimator():
    """the run of an estimator takes rows as predict does, after every kind of fit"""
    far = 100 + 20 * x
    estimator = short(warm_start=True)
    for fit in (estimator.fit, estimator.fit, estimator.partial_fit, estimator.partial_fit):
        fit(far, y)
        for one in (estimator, pickle.loads(pickle.dumps(estimator))):
            assert np.array_equal(one.run_.predict(far.astype(np.float32)), one.predict_proba(far)), fit
    regressor = HeddleRegressor(epochs=3).fit(far, 3 * target + 7).partial_fit(far, target)
    scaled = regressor.run_.predict(far.astype(np.float32)) * regressor.y_std_ + regressor.y_mean_
    assert np.array_equal(scaled[:, 0], regressor.predict(far))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pickle.loads(pickle.dumps(regressor)).run_.export(c=folder + "/network.c")
    assert "standardised targets" in str(caught[-1].message)


def test_partial_fit():
    """partial_fit trains for an epoch, takes classes, and learns in parts"""
    estimator = HeddleClassifier(hidden=(32,), lr=0.03)
    for _ in range(20):
        for part in np.array_split(np.arange(120), 2):
            estimator.partial_fit(x[part], y[part], classes=["same", "other"])
    assert estimator.n_iter_ == 40 and estimator.score(x, y) > 0.9
    assert estimator.classes_.tolist() == ["other", "same"]
    one = HeddleClassifier(hidden=(8,)).partial_fit(x[:3], ["same"] * 3, classes=["other", "same", "third"])
    assert one.predict_proba(x).shape == (120, 3)
    refuses(ValueError, "found 'none'; add it to classes",
            lambda: HeddleClassifier().partial_fit(x, np.where(x[:, 0] > 0, "none", "a"), classes=["a", "b"]))
    refuses(ValueError, "expected classes as in the first call",
            lambda: estimator.partial_fit(x, y, classes=["same", "x"]))
    refuses(heddle.UsageError, "does not support early_stopping=True",
            lambda: HeddleClassifier(early_stopping=True).partial_fit(x, y))
    for model in ("mlp", None):  # of two classes out of three, which a built-in model takes from the data otherwise
        numbers, few = np.arange(120) % 3, np.arange(120) % 3 < 2
        part = HeddleClassifier(model).partial_fit(x[few], numbers[few], classes=[0, 1, 2]).partial_fit(x, numbers)
        assert part.predict_proba(x).shape == (120, 3)
        whole = HeddleClassifier(model, epochs=2).fit(x, numbers, sample_weight=few * 1.0)
        assert whole.predict_proba(x).shape == (120, 3) and whole.classes_.tolist() == [0, 1, 2]
    regressor = HeddleRegressor(lr=0.03)
    for _ in range(25):
        regressor.partial_fit(x[:60], target[:60]).partial_fit(x[60:], target[60:])
    assert regressor.score(x, target) > 0.9, regressor.score(x, target)
    same = [digest(HeddleRegressor().partial_fit(x, target).partial_fit(x, target)) for _ in range(2)]
    assert same[0] == same[1]


def test_optimizer_state():
    """n calls of partial_fit on the same rows train to the bits of one fit of n epochs, also after a pickle"""
    for ours, labels in both.items():
        for more in ({}, {"shuffle": False, "solver": "sgd", "momentum": 0.9}, {"batch": 7, "options": {"ema": 0.9}},
                     {"solver": "nadam", "options": {"normalize": "none"}}):
            one = digest(ours(hidden=(8,), epochs=4, **more).fit(x, labels))
            parts = ours(hidden=(8,), **more).partial_fit(x, labels).partial_fit(x, labels)
            parts = pickle.loads(pickle.dumps(parts)).set_params(threads=2).partial_fit(x, labels)
            assert digest(parts.partial_fit(x, labels)) == one, (ours, more)
            fitted = ours(hidden=(8,), epochs=3, **more).fit(x, labels).partial_fit(x, labels)
            assert digest(fitted) == one, (ours, more)
    seen = []
    for lr in (0.003, 0.001):  # the rate may be changed between calls
        estimator = HeddleClassifier(hidden=(8,)).partial_fit(x, y)
        seen.append(digest(estimator.set_params(lr=lr).partial_fit(x, y)))
    assert seen[0] != seen[1]
    refuses(heddle.UsageError, "expected a run with the optimizer sgd, found adam",
            lambda: estimator.set_params(optimizer="sgd").partial_fit(x, y))
    for options in ({"schedule": "cosine"}, {"warmup": 3}, {"lookahead": 5}, {"workers": 1}):
        refuses(heddle.UsageError, f"without {next(iter(options))}",
                lambda options=options: HeddleClassifier(options=options).partial_fit(x, y))
    for before, after in (({"ema": 0.9}, {}), ({}, {"ema": 0.9}), ({"ema": 0.9}, {"ema": 0.5})):
        first = HeddleClassifier(hidden=(8,), options=before).partial_fit(x, y)
        refuses(heddle.UsageError, f"expects ema={before.get('ema', 0)}, as in the call before it",
                lambda: first.set_params(options=after).partial_fit(x, y))
        first.set_params(options=before).partial_fit(x, y)
    for name, solver in (("momentum", "sgd"), ("centered", "rmsprop")):
        first = HeddleClassifier(hidden=(8,), solver=solver).partial_fit(x, y)
        more = {"momentum": 0.9} if name == "momentum" else {"options": {name: True}}
        refuses(heddle.UsageError, f"expects {name}=0, as in the call before it",
                lambda: first.set_params(**more).partial_fit(x, y))
    first = HeddleClassifier(hidden=(8,), solver="sgd", momentum=0.5).partial_fit(x, y)
    first.set_params(momentum=0.9).partial_fit(x, y).set_params(momentum=0).partial_fit(x, y)
    refuses(heddle.UsageError, "found one that goes on from another run", estimator.run_.certify)


def test_go_on():
    """a session goes on from a run, before its first step, and is resumed with its order of samples"""
    model = heddle.Model("m", (1, 1, 4)).add("flat", "flatten").add("fc", "linear", out=2)
    data = (x, (y == "same").astype(np.int32), x[:8], np.zeros(8, np.int32))
    one = heddle.train(model, data, epochs=4, batch=16, optimizer="adam", out=path("go-on-one"))
    first = heddle.train(model, data, epochs=2, batch=16, optimizer="adam", out=path("go-on-first"))
    with heddle.Session(model, data, epochs=2, batch=16, optimizer="adam", save_every=3,
                        out=path("go-on-second")) as session:
        session.go_on(first, 2)
        session.step(11)
        session.save()
        refuses(heddle.UsageError, "before its first step", lambda: session.go_on(first, 2))
    assert heddle.train(resume=path("go-on-second"), data=data).digest == one.digest
    other = heddle.Model("m", (1, 1, 4)).add("flat", "flatten").add("fc", "linear", out=3)
    for what, says in (({"model": other}, "expected a run of the session's network"),
                       ({"lookahead": 4}, "slow weights"), ({"workers": 1}, "loader workers"),
                       ({"schedule": "cosine"}, "a constant learning rate"),
                       ({"optimizer": "sgd"}, "expected a run with the optimizer sgd, found adam")):
        with heddle.Session(**{"model": model, "data": data, "epochs": 2, "batch": 16, "optimizer": "adam",
                               "out": path(f"go-on-{len(says)}"), **what}) as session:
            refuses(heddle.Error, says, lambda session=session: session.go_on(first, 2))


def test_failed_fits():
    """a fit that fails or is stopped leaves the estimator as it was"""
    few = np.where(y == "same", "p", "q")
    three = np.array(["a", "b", "c"] * 40)
    bad = [{"lr": -1}, {"optimizer": "sgd", "lr": 1e6, "momentum": 0.99}]
    for estimator, old, new in ((short(), three, few), (HeddleRegressor(epochs=3), target, 100 * target)):
        first, coefs = estimator.fit(x, old).predict(x), estimator.coefs_[0]
        for arguments in [*bad, {"lr": -1, "warm_start": True}]:
            other = copy.deepcopy(estimator).set_params(**arguments)
            try:
                other.fit(7 * x[:, :3] + 3 if "warm_start" not in arguments else x, new)
            except (heddle.Error, ValueError):
                pass
            else:
                assert new is not few and "momentum" in arguments, arguments
                continue
            assert np.array_equal(other.predict(x), first), arguments
            assert np.array_equal(other.coefs_[0], coefs) and other.n_iter_ == len(other.loss_curve_) == 3
    estimator = HeddleRegressor(epochs=3).fit(x, target)
    first = estimator.predict(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        timer.start()
        try:
            estimator.set_params(epochs=1000000).fit(7 * x, 100 * target)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("expected KeyboardInterrupt, found none")
    assert np.array_equal(estimator.predict(x), first) and estimator.n_iter_ == len(estimator.loss_curve_) == 3


def test_verbose():
    """verbose prints a line an epoch"""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        HeddleClassifier(epochs=3, verbose=True).fit(x, y)
    assert [line.split(",")[0] for line in printed.getvalue().splitlines()] == [f"Iteration {i}" for i in (1, 2, 3)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        HeddleClassifier(epochs=30, verbose=True, early_stopping=True, n_iter_no_change=1).fit(x, y)
    assert "Validation score: " in printed.getvalue() and "Stopping." in printed.getvalue()


def test_learning_rates():
    """invscaling and adaptive change the rate of sgd after an epoch, and partial_fit goes on with it"""
    slow = {"solver": "sgd", "learning_rate_init": 0.1, "batch_size": len(x)}
    scaled = HeddleClassifier(epochs=3, learning_rate="invscaling", power_t=0.5, **slow).fit(x, y)
    rates = [0.1 / (i * len(x) + 1) ** 0.5 for i in range(4)]
    assert scaled.learning_rate_ == rates[3]
    once = HeddleClassifier(learning_rate="invscaling", power_t=0.5, **slow)
    for i in (1, 2, 3):
        assert once.partial_fit(x, y).learning_rate_ == rates[i]
    assert all(np.array_equal(a, b) for a, b in zip(once.coefs_, scaled.coefs_))
    constant = HeddleClassifier(epochs=3, **slow).fit(x, y)
    assert constant.learning_rate_ == 0.1 and not np.array_equal(constant.coefs_[0], scaled.coefs_[0])
    adaptive = HeddleClassifier(epochs=500, learning_rate="adaptive", tol=1.0, n_iter_no_change=2, **slow).fit(x, y)
    assert adaptive.learning_rate_ < 1e-6 and adaptive.n_iter_ < 50
    adam = [HeddleClassifier(epochs=2, learning_rate=rate).fit(x, y).coefs_[0] for rate in ("constant", "adaptive")]
    assert np.array_equal(*adam)  # as there
    refuses(heddle.UsageError, "learning_rate='adaptive' or the option 'schedule'",
            lambda: HeddleClassifier(learning_rate="adaptive", solver="sgd", options={"schedule": "cosine"}).fit(x, y))


def test_probabilities():
    """predict_log_proba is the logarithm of predict_proba"""
    estimator = short().fit(x, y)
    assert np.allclose(np.exp(estimator.predict_log_proba(x)), estimator.predict_proba(x))


def test_sparse():
    """sparse rows are rows"""
    few = np.where(x > 0.5, x, 0)
    dense = short().fit(few, y)
    for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array):
        estimator = short().fit(kind(few), y)
        assert digest(estimator) == digest(dense)
        assert np.array_equal(estimator.predict_proba(kind(few)), dense.predict_proba(few))


def test_multilabel():
    """rows with several labels"""
    labels = np.stack([x[:, 0] > 0, x[:, 1] > 0, x[:, 2] + x[:, 3] > 0], 1).astype(int)
    estimator = HeddleClassifier(epochs=100).fit(x, labels)
    assert estimator.predict(x).shape == (120, 3) and estimator.score(x, labels) > 0.9
    chances = estimator.predict_proba(x)
    assert chances.shape == (120, 3) and np.array_equal(estimator.predict(x), chances > 0.5)
    assert digest(HeddleClassifier(epochs=100).fit(x, sparse.csr_matrix(labels))) == digest(estimator)
    stopped = HeddleClassifier(early_stopping=True, n_iter_no_change=2).fit(x, labels)
    assert stopped.best_validation_score_ == max(stopped.validation_scores_) <= 0
    refuses(ValueError, "found 'multiclass-multioutput'", lambda: HeddleClassifier().fit(x, labels + [0, 0, 2]))


def test_names():
    """names of columns are kept, and other columns are refused"""
    try:
        import pandas
    except ImportError as error:
        raise Skipped(str(error))
    table = pandas.DataFrame(x, columns=["a", "b", "c", "time"])
    estimator = short().fit(table, y)
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c", "time"]
    refuses(ValueError, "feature names", lambda: estimator.predict(table[["b", "a", "c", "time"]]))
    times = table.astype(float).assign(time=1.7e9 + 60 * np.arange(120))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        short(epochs=1).fit(times, y)
    assert any("column 3 ('time')" in str(one.message) for one in caught), [str(one.message) for one in caught]


def test_coefficients():
    """coefs_ and intercepts_ compute what predict does, in the units of X and y"""
    rows = x * [1, 10, 100, 0.01] + [5, 0, -3, 7]

    def forward(estimator, values):
        layers = list(zip(estimator.coefs_, estimator.intercepts_))
        for number, (w, b) in enumerate(layers):
            values = values @ w + b
            if number + 1 < len(layers):
                values = np.maximum(values, 0)
        return values

    for estimator, wanted in ((HeddleRegressor(epochs=20), target), (HeddleClassifier(epochs=20), y)):
        estimator.fit(rows, wanted)
        again = copy.deepcopy(estimator).set_params(warm_start=True, epochs=1).fit(rows[:50], wanted[:50])
        for each in (estimator, again):
            found = forward(each, rows.astype(np.float32).astype(np.float64))
            if wanted is target:
                assert np.allclose(found[:, 0], each.predict(rows), rtol=1e-4, atol=1e-3)
            else:
                chances = np.exp(found - found.max(1, keepdims=True))
                assert np.allclose(chances / chances.sum(1, keepdims=True), each.predict_proba(rows), atol=1e-4)
    estimator.set_params(hidden=(3, 3), model="linear")
    assert estimator.n_layers_ == 3 and [w.shape for w in estimator.coefs_] == [(4, 100), (100, 2)]
    changed = short(options={"transforms": [{"normalise": {"mean": [5], "std": [3]}}]}).fit(x, y)
    refuses(AttributeError, "found one with transforms", lambda: changed.coefs_)
    refuses(heddle.UsageError, "found one with transforms",
            lambda: changed.set_params(options=None, warm_start=True).fit(x, y))


def test_copies():
    """clones and pickles, with a model of the program too"""
    model = heddle.Model("m", (1, 1, 4)).add("flat", "flatten").add("fc", "linear", out=2)
    estimator = HeddleClassifier(model, epochs=2).fit(x, y)
    again = clone(estimator)
    assert again.model.text == model.text and digest(again.fit(x, y)) == digest(estimator)
    refuses(NotFittedError, "not fitted", lambda: clone(estimator).predict(x))
    for other in (pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator)):
        assert np.array_equal(other.predict_proba(x), estimator.predict_proba(x))
        other.set_params(warm_start=True).fit(x, y)
    refuses(AttributeError, "expected a perceptron", lambda: estimator.coefs_)
    search = GridSearchCV(HeddleClassifier(), {"hidden_layer_sizes": [4, (8, 8)], "max_iter": [2, 5]}, cv=2)
    assert search.fit(x, y).best_estimator_.n_iter_ in (2, 5)


def test_models():
    """a model that computes something else than the estimator predicts is refused"""
    def of(outputs, loss):
        return heddle.Model("m", (1, 1, 4)).add("flat", "flatten").add("fc", "linear", out=outputs).loss(loss)

    for model, labels, says in ((of(1, "mse"), y, "predicts classes"), (of(1, "l1"), np.arange(120) % 3, "classes"),
                                (of(5, "cross_entropy"), y, "a model of 2 outputs for the classes ['other', 'same']"),
                                (of(2, "mse"), (x[:, :2] > 0).astype(int), "predicts labels")):
        refuses(heddle.ShapeError, says, lambda: HeddleClassifier(model, epochs=1).fit(x, labels))
    assert HeddleClassifier(of(1, "bce_with_logits"), epochs=40).fit(x, x[:, 0] > 0).score(x, x[:, 0] > 0) > 0.7
    step, heddle.Session.step = heddle.Session.step, None  # a refusal comes before the first one
    try:
        refuses(heddle.ShapeError, "a model of 2 outputs", lambda: HeddleClassifier(of(5, "cross_entropy")).fit(x, y))
    finally:
        heddle.Session.step = step


def test_refused_values():
    """values of arguments and arrays that mean nothing are refused in one line"""
    masked = np.ma.masked_greater(x, 1)
    for arguments, says in (({"validation_fraction": "a"}, "between 0 and 1, found 'a'"), ({"tol": "x"}, "found 'x'"),
                            ({"alpha": "x"}, "found 'x'"), ({"activation": ["relu"]}, "found ['relu']"),
                            ({"hidden": True}, "found True"), ({"hidden": (4, True)}, "found (4, True)"),
                            ({"batch": None}, "batch expects a value"), ({"batch": "x"}, "or 'auto', found 'x'"),
                            ({"batch_size": 0.5}, "batch_size expects a whole number from 1"),
                            ({"options": {"target_scale": "none"}}, "found 'target_scale', which the estimator sets"),
                            ({"epochs": None}, "epochs expects a value"),
                            ({"seed": None}, "seed expects a whole number"), ({"seed": "3"}, "found '3'"),
                            ({"random_state": 1.5}, "random_state expects"), ({"options": {1: 2}}, "found '1'"),
                            ({"early_stopping": "no"}, "True or False, found 'no'"),
                            ({"shuffle": None}, "True or False, found None"),
                            ({"nesterovs_momentum": True}, "nesterovs_momentum= expects"),
                            ({"beta_1": 2}, "beta_1, beta_2= expects"), ({"epsilon": -1}, "epsilon= expects"),
                            ({"options": {"transforms": [lambda rows: rows]}}, "found a function")):
        refuses(heddle.UsageError, says, lambda: HeddleClassifier(**arguments).fit(x, y))
    refuses(heddle.FormatError, "masked array", lambda: short().fit(masked, y))
    refuses(heddle.FormatError, "masked array", lambda: short().fit(x, y).predict(masked))
    refuses(heddle.FormatError, "masked array", lambda: heddle.train("mlp", (masked, np.arange(120)), max_steps=1))
    refuses(heddle.FormatError, "zeros and ones", lambda: short().fit(x, 2 * (x[:, :2] > 0) - 1))
    wide = target.astype(np.float64)
    for wrong, says in ((wide * 1e300, "divide them"), (wide * 1e-300, "divide them"),
                        (sparse.csr_matrix(target[:, None]), "y.toarray()")):
        refuses(heddle.FormatError, says, lambda: HeddleRegressor(epochs=1).fit(x, wrong))
    try:
        HeddleRegressor(hidden=(), optimizer="sgd", lr=3, epochs=100).fit(x, target)  # some epochs are saved
    except heddle.NotFiniteError as error:
        assert "lower lr=" in str(error) and "init=" not in str(error), error
    else:
        raise AssertionError("expected NotFiniteError, found none")
    assert short(early_stopping=True, seed=2**40).fit(x, y).n_iter_ == 3
    assert short(options={"max_steps": 5}).fit(x, y).t_ == 120 + 32
    assert short(options={"drop_last": True}).fit(x, y).t_ == 3 * 96


def test_torch():
    """a module of PyTorch as the model: cloned, and trained on"""
    try:
        from torch import nn
    except ImportError as error:
        raise Skipped(str(error))
    model = heddle.from_torch(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)), (4,))
    estimator = HeddleClassifier(model, epochs=20, warm_start=True).fit(x, y)
    assert digest(clone(estimator).fit(x, y)) == digest(estimator)
    first = estimator.predict_proba(x)
    estimator.set_params(epochs=1, lr=1e-12).fit(x[:50] * 3 + 1, y[:50])
    assert np.allclose(estimator.predict_proba(x), first, atol=1e-6)


def test_regressor_defaults():
    """the defaults of the regressor suit small tables: no worse than MLPRegressor's on scaled columns"""
    for rows, wanted, least in ((*load_diabetes(return_X_y=True), 0.35),
                                (*make_friedman1(400, noise=1, random_state=0), 0.85)):
        scores = []
        for seed in range(3):
            a, b, c, d = train_test_split(rows, wanted, random_state=seed)
            scores.append(HeddleRegressor().fit(a, c).score(b, d))
        assert np.mean(scores) > least, scores
