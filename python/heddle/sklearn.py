"""Estimators for scikit-learn: networks that heddle trains, in pipelines, searches and cross-validation.

    from heddle.sklearn import HeddleClassifier
    HeddleClassifier(epochs=20).fit(x_train, y_train).score(x_test, y_test)

They take rows of numbers (N, F). Without `model` the network is a perceptron with hidden layers of `hidden` units; with
a built-in name, a model file or a heddle.Model it is that one. Every row is trained on; nothing is held out.
"""
from __future__ import annotations

import operator
import os
import tempfile
from typing import Any, Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ._arrays import warn_of_rounding
from ._library import UsageError
from .model import Model
from .session import train

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # scikit-learn before 1.6
    def validate_data(estimator: Any, *arguments: Any, **settings: Any) -> Any:
        return estimator._validate_data(*arguments, **settings)


# Checkpoints are synced to the disk, which takes longer than training on few rows; in memory it takes no time.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


_OWN = ("data", "keep", "out", "progress")  # options that a fit sets itself


def _rows(x: Any) -> np.ndarray | None:
    """Rows of numbers that are wider than float32, before they are rounded; None for others."""
    if not hasattr(x, "dtype") and not hasattr(x, "dtypes"):
        return None
    try:
        return np.asarray(x, np.float64) if getattr(x, "dtype", None) != np.float32 else None
    except (TypeError, ValueError):
        return None  # validate_data says what is wrong


def _warn(x: Any, std: Any = None) -> None:
    rows = _rows(x)
    if rows is not None:
        warn_of_rounding(rows, std, stacklevel=5)


class _Network(BaseEstimator):
    """What both estimators share: parameters, the network, the run. An lr or a weight_decay of None is the default of
    the optimizer, any that `heddle train` has."""

    def __init__(self, model: Any = None, hidden: Sequence[int] = (100,), epochs: float = 200, batch: int = 32,
                 optimizer: str = "adam", lr: float | None = 0.003, weight_decay: float | None = None, seed: int = 0,
                 threads: Any = "auto", options: dict[str, Any] | None = None) -> None:
        self.model = model
        self.hidden = hidden
        self.epochs = epochs
        self.batch = batch
        self.optimizer = optimizer
        self.lr = lr
        self.weight_decay = weight_decay
        self.seed = seed
        self.threads = threads
        self.options = options

    def _network(self, features: int, outputs: int, loss: str) -> Any:
        if self.model is not None:
            return self.model
        model = Model("perceptron", (1, 1, features)).add("flat", "flatten")
        for number, units in enumerate(self._hidden(), 1):
            model.add(f"fc{number}", "linear", out=units).add(f"relu{number}", "relu")
        return model.add("out", "linear", out=outputs).loss(loss)

    def _hidden(self) -> list[int]:
        try:
            if not isinstance(self.hidden, str):
                return [operator.index(units) for units in self.hidden]
        except TypeError:
            pass
        raise UsageError(f"expected the sizes of the hidden layers as hidden, found {self.hidden!r}; write (32,) for "
                         "one layer of 32 units")

    def _further(self) -> dict[str, Any]:
        """The options, none of which repeats an argument."""
        if not isinstance(self.options, (dict, type(None))):
            raise UsageError(f"expected a dictionary as options, found {type(self.options).__name__}; write "
                             "{'momentum': 0.9}")
        options = {name.replace("-", "_"): value for name, value in (self.options or {}).items()}
        for name in options:
            if name in self.get_params(deep=False):
                raise UsageError(f"expected further options, found the argument {name!r} among them; give it as "
                                 f"{name}=...")
            if name in _OWN:
                raise UsageError(f"expected further options, found {name!r}, which the estimator sets itself; leave it "
                                 "out")
        return options

    def _train(self, x: np.ndarray, y: np.ndarray, outputs: int, loss: str) -> None:
        """Trains on all rows; the first stands for the test set that a run has."""
        options = self._further()
        with tempfile.TemporaryDirectory(prefix="heddle-", dir=_MEMORY) as folder:
            run = train(self._network(x.shape[1], outputs, loss), (x, y, x[:1], y[:1]), epochs=self.epochs,
                        batch=self.batch, optimizer=self.optimizer, lr=self.lr, weight_decay=self.weight_decay,
                        seed=self.seed, threads=self.threads, keep=1, out=folder + "/run", progress=False,
                        **options)
            if run.stopped:
                raise KeyboardInterrupt
            self.loss_curve_ = run.losses
            self.run_ = run.detached()
        self.n_iter_ = len(self.loss_curve_)

    def _keep_spread(self, rows: Any, x: np.ndarray) -> None:
        """The standard deviation of each column, as predict needs it to tell what float32 loses."""
        wide = _rows(rows)
        self._spread = (x if wide is None or wide.shape != x.shape else wide).std(0, dtype=np.float64)

    def _values(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        _warn(x, self._spread)
        x = validate_data(self, x, dtype=np.float32, reset=False)
        return self.run_.predict(x)


class HeddleClassifier(ClassifierMixin, _Network):
    """A classifier; classes may be of any type.

    >>> import numpy as np
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    >>> HeddleClassifier(epochs=300).fit(x, ["off", "on", "on", "off"]).predict(x).tolist()
    ['off', 'on', 'on', 'off']
    """

    def fit(self, X: Any, y: Any) -> HeddleClassifier:
        """Trains on X (N, F) and labels y (N)."""
        _warn(X)
        rows = X
        X, y = validate_data(self, X, y, dtype=np.float32)
        self._keep_spread(rows, X)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"expected two classes or more in y, found 1 class, {self.classes_[0]!r}; add samples of "
                             "another")
        self._train(X, labels, len(self.classes_), "cross_entropy")
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class: (N, classes)."""
        return self._values(X)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class: (N)."""
        values = self._values(X)
        return self.classes_[values.argmax(1)]


class HeddleRegressor(RegressorMixin, _Network):
    """A regressor of one number or several; targets are standardised for training.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 50, dtype=np.float32)[:, None]
    >>> bool(HeddleRegressor(epochs=200).fit(x, 3 * x[:, 0] + 7).score(x, 3 * x[:, 0] + 7) > 0.99)
    True
    """

    def fit(self, X: Any, y: Any) -> HeddleRegressor:
        """Trains on X (N, F) and targets y (N) or (N, K)."""
        _warn(X)
        rows = X
        X, y = validate_data(self, X, y, dtype=np.float32, multi_output=True, y_numeric=True)
        self._keep_spread(rows, X)
        y = np.asarray(y, np.float64)
        self._is_flat = y.ndim == 1
        y = y.reshape(len(y), -1)
        self._mean, self._std = y.mean(0), y.std(0)
        self._std[self._std == 0] = 1
        self._train(X, ((y - self._mean) / self._std).astype(np.float32), y.shape[1], "mse")
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The targets: (N) or (N, K) as in fit."""
        values = self._values(X) * self._std + self._mean
        return values[:, 0] if self._is_flat else values

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn before 1.6
        return {"multioutput": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
