"""The estimators, by scikit-learn's own checks and in its tools."""
import inspect
import pickle
import tempfile
import warnings

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from tap import Skipped, depth, refuses

import heddle
from heddle.run import in_memory
from heddle.sklearn import HeddleClassifier, HeddleRegressor

rng = np.random.default_rng(0)
x = rng.normal(size=(120, 4))
y = np.where(x[:, 0] * x[:, 1] > 0, "same", "other")


# As of MLPClassifier: a row of weight 2 is not a row given twice, since batches have other rows.
DIFFERS = {f"check_sample_weight_equivalence_on_{kind}_data": "weights are not repeated rows in batches"
           for kind in ("dense", "sparse")}


def check(estimator):
    if depth < 2:
        raise Skipped("make check-all runs it")
    takes = "expected_failed_checks" in inspect.signature(check_estimator).parameters  # scikit-learn 1.6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(estimator, **({"expected_failed_checks": DIFFERS} if takes else {}))


def test_classifier():
    """check_estimator passes HeddleClassifier"""
    check(HeddleClassifier())


def test_regressor():
    """check_estimator passes HeddleRegressor"""
    check(HeddleRegressor())


def test_tools():
    """pipelines, searches, cross-validation and pickles take them"""
    pipeline = make_pipeline(StandardScaler(), HeddleClassifier(epochs=100))
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.8
    search = GridSearchCV(HeddleClassifier(epochs=20), {"lr": [1e-4, 1e-2]}, cv=2).fit(x, y)
    assert search.best_params_ == {"lr": 1e-2}
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(again.predict_proba(x), search.best_estimator_.predict_proba(x))


def test_folds():
    """cross_val_score with the folds of `heddle sweep --folds` gives what runs with --fold give"""
    rows = x.astype(np.float32)
    splits = heddle.folds(y, 4)
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(120))
    counts = [np.unique(y[test], return_counts=True)[1] for _, test in splits]
    assert np.ptp(counts, axis=0).max() <= 1
    estimator = HeddleClassifier(epochs=5)
    scores = cross_val_score(estimator, rows, y, cv=splits)
    network = estimator._network(4, 2, "cross_entropy")
    numbers = np.unique(y, return_inverse=True)[1]
    for number, score in enumerate(scores, 1):
        run = heddle.train(network, (rows, numbers), fold=f"{number}/4", epochs=5, batch=estimator.batch,
                           optimizer=estimator.optimizer, lr=estimator.lr, weight_decay=estimator.weight_decay,
                           seed=estimator.seed, progress=False, out=tempfile.mkdtemp() + "/run")
        assert run.evaluate().accuracy == score
    refuses(heddle.UsageError, "folds", lambda: heddle.folds(y, 1))
    refuses(heddle.UsageError, "folds", lambda: heddle.folds(y, 121))


def test_models():
    """models of the program, several targets, options of the command"""
    model = heddle.Model("m", (1, 1, 4)).add("flat", "flatten").add("fc", "linear", out=2)
    estimator = HeddleClassifier(model, epochs=2, options={"schedule": "cosine"}).fit(x, y)
    assert set(estimator.predict(x)) <= {"same", "other"}
    target = np.stack([x[:, 0], 100 + x[:, 1]], 1)
    assert HeddleRegressor(epochs=100).fit(x, target).score(x, target) > 0.95


def test_partial_fit():
    """learning_rate="adaptive" goes on between calls of partial_fit; weights in the place of classes are refused"""
    options = {"solver": "sgd", "learning_rate_init": 1e-5, "learning_rate": "adaptive", "n_iter_no_change": 2}
    parts = HeddleClassifier(**options)
    for _ in range(9):
        parts.partial_fit(x, y)
    whole = HeddleClassifier(max_iter=9, **options).fit(x, y)
    assert parts.learning_rate_ == whole.learning_rate_ < 1e-6 and np.array_equal(parts.coefs_[0], whole.coefs_[0])
    for estimator in (parts, HeddleClassifier()):
        refuses(ValueError, "found 2.0 120 times; give weights as sample_weight=",
                lambda: estimator.partial_fit(x, y, np.full(120, 2.0)))


def test_metrics():
    """a metric of scikit-learn gets the targets first"""
    target, weights = x[:, 0] * 3 + 40, 1 + np.arange(120) % 3
    for of in (None, weights):
        scores = [HeddleRegressor(epochs=4, early_stopping=True, validation_fraction=0.3, metric=metric).fit(
            x, target, sample_weight=of).validation_scores_ for metric in (r2_score, None)]
        assert np.allclose(*scores, rtol=1e-4), scores


def test_room_in_memory():
    """checkpoints are kept in memory where they have room there"""
    assert in_memory(2, 1) is None and in_memory(1 << 60, 1 << 60) is None
    asked, heddle.sklearn.in_memory = [], lambda size, most: asked.append(size)
    try:
        for model in (None, heddle.Model("m", (1, 1, 4)).add("flat", "flatten").add("fc", "linear", out=2), "mlp"):
            HeddleClassifier(model, **{} if model else {"hidden": (8,)}, epochs=1).fit(x, y)
    finally:
        heddle.sklearn.in_memory = in_memory
    assert asked == [64 * (5 * 8 + 9 * 2), 64 * 5 * 2, 64 * (5 * 128 + 129 * 2)], asked
    for hidden in ((8,), (1000, 90)):  # a small run stays in its folder, a large one gets one when it is asked for
        estimator = HeddleClassifier(hidden=hidden, early_stopping=True, epochs=2).fit(x, y).set_params(
            early_stopping=False).partial_fit(x, y)
        folder, again = estimator.run_.folder, pickle.loads(pickle.dumps(estimator))
        assert np.array_equal(estimator.predict_proba(x), again.predict_proba(x)) and folder.exists()
        del estimator
        assert not folder.exists() and again.run_.digest


def test_rounding():
    """time stamps that float32 cannot tell apart are warned of, and other columns are not"""
    times = np.c_[x[:, :3], 1.7e9 + 60 * np.arange(120)]
    for fit in (lambda: HeddleClassifier(epochs=1).fit(times, y),
                lambda: HeddleClassifier(epochs=1).fit(times - [0, 0, 0, 1.7e9], y).predict(times[1:2])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit()
        assert any("column 3 of x" in str(one.message) for one in caught), caught
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HeddleClassifier(epochs=1).fit(1000 + x, y).predict(1000 + x)


def test_bad():
    """bad input is one exception"""
    refuses(NotFittedError, "not fitted", lambda: HeddleClassifier().predict(x))
    refuses(ValueError, "1 class", lambda: HeddleClassifier().fit(x, ["a"] * 120))
    refuses(ValueError, "NaN", lambda: HeddleClassifier().fit(np.full((120, 4), np.nan), y))
    refuses(heddle.UsageError, "lr= expects", lambda: HeddleClassifier(lr=-1).fit(x, y))
    for hidden in (1.5, "32", (1.5,)):
        refuses(heddle.UsageError, "write (32,) for one layer", lambda: HeddleClassifier(hidden=hidden).fit(x, y))
    for options, says in (({"lr": 1}, "give it as lr="), ({"weight-decay": 1}, "give it as weight_decay="),
                          ({"out": "r"}, "leave it out"), (["lr"], "expected a dictionary"),
                          ({"class_weight": {1: 2}}, "give it as class_weight=")):
        refuses(heddle.UsageError, says, lambda: HeddleClassifier(options=options).fit(x, y))
    refuses(heddle.UsageError, "found 'bacth'", lambda: HeddleClassifier(options={"bacth": 1}).fit(x, y))
