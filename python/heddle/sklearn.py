"""Estimators for scikit-learn: networks that heddle trains, in pipelines, searches and cross-validation.

    from heddle.sklearn import HeddleClassifier
    HeddleClassifier(epochs=20).fit(x_train, y_train).score(x_test, y_test)

They take rows of numbers (N, F). Without `model` the network is a perceptron with hidden layers of `hidden` units; with
a built-in name, a model file or a heddle.Model it is that one. Every row is trained on; nothing is held out, unless
`early_stopping` asks for it. The arguments of scikit-learn's MLPClassifier and MLPRegressor are taken too: they mean
what they mean there, or are refused by name.
"""
from __future__ import annotations

import functools
import inspect
import numbers
import operator
import re
import warnings
from typing import Any, Callable, Sequence

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ._arrays import check_mask, warn_of_rounding
from ._arrays import weights as as_float32
from .data import Weighed
from ._library import Error, FormatError, ShapeError, UsageError, lib
from ._options import nearest
from .model import Model
from .run import folder_of_run, in_memory
from .session import Session
from ._summary import summary

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # scikit-learn before 1.6
    def validate_data(estimator: Any, *arguments: Any, **settings: Any) -> Any:
        return estimator._validate_data(*arguments, **settings)


_SMALL = 300_000  # multiply-adds of a batch, forward
_MOST_IN_MEMORY = 1 << 28  # bytes of checkpoints

_OWN = ("data", "keep", "out", "progress", "callback", "config", "target_scale")  # options that a fit sets itself
_ITS_END = ("patience", "metric")
_EVALUATIONS = ("eval_epochs", "eval_every", "save_every", "save_epochs")
_PRIMARY = ("model", "hidden", "epochs", "batch", "optimizer", "lr", "weight_decay", "seed", "threads")

# Another name of an argument, in MLPClassifier's words.
_ALIASES = {"hidden_layer_sizes": "hidden", "max_iter": "epochs", "batch_size": "batch", "solver": "optimizer",
            "learning_rate_init": "lr", "random_state": "seed"}

# Arguments that are options of other names.
_RENAMED = {"momentum": "momentum", "nesterovs_momentum": "nesterov", "epsilon": "eps"}

_ACTIVATIONS = {"identity": None, "logistic": "sigmoid", "sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu",
                "leaky_relu": "leaky_relu", "gelu": "gelu", "swish": "swish"}

_RATES = ("constant", "invscaling", "adaptive")  # the last two with sgd alone, as in MLPClassifier
_LEAST_RATE = 1e-6  # at which "adaptive" ends

_FLAGS = ("shuffle", "warm_start", "early_stopping", "nesterovs_momentum")


@functools.lru_cache(maxsize=None)
def _defaults_of(function: Any) -> dict[str, Any]:
    return {name: p.default for name, p in list(inspect.signature(function).parameters.items())[1:]}  # without self


def _refuse(where: str, names: dict[str, Any], known: Sequence[str]) -> None:
    """Raises for arguments that heddle does not have."""
    for name in names:
        near = nearest(name, known)
        raise TypeError(f"{where} got an unexpected keyword argument {name!r}"
                        + (f"; did you mean {near!r}?" if near else ""))


def _rows(x: Any) -> np.ndarray | None:
    """Rows of numbers that are wider than float32, before they are rounded; None for others."""
    if not hasattr(x, "dtype") and not hasattr(x, "dtypes"):
        return None
    try:
        return np.asarray(x, np.float64) if getattr(x, "dtype", None) != np.float32 else None
    except (TypeError, ValueError):
        return None  # validate_data says what is wrong


def _warn(x: Any, std: Any = None) -> None:
    rows = None if sparse.issparse(x) else _rows(x)
    if rows is not None:
        warn_of_rounding(rows, std, stacklevel=5, names=getattr(x, "columns", None))


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _weights(sample_weight: Any, count: int) -> np.ndarray | None:
    """Weights of rows as float64; None where all count once."""
    if sample_weight is None:
        return None
    if _is_number(sample_weight):
        sample_weight = np.full(count, float(sample_weight))
    as_float32(sample_weight, count)
    return np.asarray(sample_weight, np.float64)


def _counted(x: np.ndarray, y: np.ndarray,
             weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, float]:
    """Without the rows of weight 0, which are as good as none, and without weights that are all the same; and the mean
    weight."""
    if weights is None:
        return x, y, None, 1.0
    if not weights.all():
        x, y, weights = x[weights > 0], y[weights > 0], weights[weights > 0]
    return x, y, None if (weights == weights[0]).all() else weights, float(weights.mean())


def _mean_and_std(y: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    if weights is None:
        return y.mean(0), y.std(0)
    mean = np.average(y, 0, weights)
    return mean, np.sqrt(np.average((y - mean) ** 2, 0, weights))


def _wholly(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that fails, or that Ctrl-C ends, leaves the estimator as it was: never classes or a scaling of one fit with
    weights of another."""
    @functools.wraps(fit)
    def whole(self: Any, *arguments: Any, **named: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *arguments, **named)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
    return whole


def _weighing(metric: Any, weights: np.ndarray | None) -> Any:
    """A metric with the weights of the rows that it judges, if it has a parameter sample_weight, as scikit-learn's."""
    try:
        takes = callable(metric) and "sample_weight" in inspect.signature(metric).parameters
    except ValueError:  # of a function in C
        takes = False
    if not takes:
        return metric

    @functools.wraps(metric, updated=())
    def weighed(*both: np.ndarray) -> Any:  # outputs and targets, in the metric's order
        return metric(*both, sample_weight=weights)

    return weighed


class _Stopper:
    """Counts epochs without improvement by more than `tol`, as MLPClassifier does."""

    def __init__(self, patience: int, tol: float) -> None:
        self.patience, self.tol, self.best, self.stale = patience, tol, -np.inf, 0

    def ends(self, score: float) -> bool:
        self.stale = 0 if score >= self.best + self.tol else self.stale + 1
        self.best = max(self.best, score)
        return self.stale > self.patience


class _Network(BaseEstimator):
    """What both estimators share: arguments, the network, the run."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        known = cls._defaults()
        _refuse(cls.__name__, {name: None for name in named if name not in known}, list(known))
        return super().__new__(cls)

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        own = inspect.signature(cls.__init__)
        cls.__signature__ = own.replace(parameters=list(own.parameters.values())[1:])

    # ---- Arguments ----

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return _defaults_of(cls.__init__)

    def _is_default(self, name: str) -> bool:
        value, default = getattr(self, name), self._defaults()[name]
        return value is default or (type(value) is type(default) and value == default)

    def _argument(self, name: str) -> tuple[Any, str]:
        """The value of an argument, and the name by which it was given: its own or its alias."""
        alias = next((alias for alias, of in _ALIASES.items() if of == name), None)
        if alias is None or getattr(self, alias) is None:
            return getattr(self, name), name
        if not self._is_default(name):
            raise UsageError(f"expected {name} or {alias}, found both; leave one out")
        return getattr(self, alias), alias

    def _schedule(self) -> str:
        return self.learning_rate if self._argument("optimizer")[0] == "sgd" else "constant"

    def _seed(self) -> int:
        value, name = self._argument("seed")
        if isinstance(value, (int, np.integer)):
            return int(value)
        try:
            if name != "seed" and not _is_number(value):
                return int(check_random_state(value).randint(np.iinfo(np.int32).max))
        except ValueError:
            pass
        raise UsageError(f"{name} expects a whole number from 0" + (", a RandomState or None" * (name != "seed"))
                         + f", found {value!r}")

    def _hidden(self) -> list[int]:
        value, name = self._argument("hidden")
        try:
            if not isinstance(value, (str, bool)) and not (np.iterable(value) and any(isinstance(units, bool)
                                                                                      for units in value)):
                return [operator.index(units) for units in (value if np.iterable(value) else [value])]
        except TypeError:
            pass
        raise UsageError(f"expected the sizes of the hidden layers as {name}, found {value!r}; write (32,) for "
                         "one layer of 32 units")

    def _check_arguments(self) -> None:
        """What heddle does not have is refused, with the reason."""
        defaults = self._defaults()
        for name in _FLAGS:
            value = getattr(self, name)
            if value is not None or name != "nesterovs_momentum":
                if not isinstance(value, (bool, np.bool_)) and not (isinstance(value, int) and value in (0, 1)):
                    raise UsageError(f"{name} expects True or False, found {value!r}")
        for name in ("epochs", "batch", "optimizer"):
            if self._argument(name)[0] is None:
                raise UsageError(f"{name} expects a value, found None; leave it out for {defaults[name]!r}")
        batch, name = self._argument("batch")
        is_whole = isinstance(batch, numbers.Integral) and not isinstance(batch, bool) and batch >= 1
        if not is_whole and not (isinstance(batch, str) and batch == "auto"):
            raise UsageError(f"{name} expects a whole number from 1, or 'auto', found {batch!r}")
        if not isinstance(self.learning_rate, str) or self.learning_rate not in _RATES:
            raise UsageError(f"learning_rate expects {', '.join(map(repr, _RATES))}, found {self.learning_rate!r}; use "
                             "options={'schedule': 'cosine'} for another schedule, and learning_rate_init for a number")
        if not _is_number(self.power_t) or not 0 <= self.power_t < np.inf:
            raise UsageError(f"power_t expects a number from 0, found {self.power_t!r}")
        if not self._is_default("max_fun"):
            raise UsageError(f"max_fun expects {defaults['max_fun']}, found {self.max_fun!r}; it belongs to "
                             "solver='lbfgs', which heddle does not have: leave it out")
        solver, name = self._argument("optimizer")
        if solver == "lbfgs":
            raise UsageError(f"{name} expects an optimizer that takes batches, found 'lbfgs'; use 'adam' or 'sgd'")
        if not isinstance(self.activation, str) or self.activation not in _ACTIVATIONS:
            raise UsageError(f"activation expects {', '.join(_ACTIVATIONS)}, found {self.activation!r}")
        if not _is_number(self.validation_fraction) or not 0 < self.validation_fraction < 1:
            raise UsageError("validation_fraction expects a number between 0 and 1, found "
                             f"{self.validation_fraction!r}")
        patience = self.n_iter_no_change
        if not isinstance(patience, (int, np.integer)) and patience != np.inf or patience < 1:
            raise UsageError(f"n_iter_no_change expects a number of epochs from 1, found {self.n_iter_no_change!r}")
        if self.tol is not None and not (_is_number(self.tol) and self.tol >= 0):
            raise UsageError(f"tol expects a number from 0, or None, found {self.tol!r}")
        if self.alpha is not None and not (_is_number(self.alpha) and 0 <= self.alpha < np.inf):
            raise UsageError(f"alpha expects a number from 0, found {self.alpha!r}")
        if self.metric is not None and not self.early_stopping:
            raise UsageError("metric expects early_stopping=True, whose rows it judges, found False; to judge a fit, "
                             "use sklearn.metrics")
        if not isinstance(self.metric, (str, type(None))) and not callable(self.metric):
            raise UsageError(f"metric expects a name or a function of outputs and targets, found {self.metric!r}")
        if self.model is not None:
            for name in ("hidden", "hidden_layer_sizes", "activation", "alpha"):
                if not self._is_default(name):
                    raise UsageError(f"expected model or {name}, found both; {name} is of the perceptron that is made "
                                     "without a model")

    def _further(self) -> dict[str, Any]:
        """The options, none of which repeats an argument."""
        if not isinstance(self.options, (dict, type(None))):
            raise UsageError(f"expected a dictionary as options, found {type(self.options).__name__}; write "
                             "{'momentum': 0.9}")
        options = {str(name).replace("-", "_"): value for name, value in (self.options or {}).items()}
        for name in ("transforms", "eval_transforms"):
            if isinstance(options.get(name), (list, tuple)) and any(callable(each) for each in options[name]):
                raise UsageError(f"expected {name} of the library, whose names a copy of the estimator keeps, found a "
                                 "function; change the rows in a step of a pipeline")
        renamed = {option: name for name, option in _RENAMED.items() if getattr(self, name) is not None}
        if self.beta_1 is not None or self.beta_2 is not None:
            renamed["betas"] = "beta_1"
        if not self.shuffle:
            renamed["no_shuffle"] = "shuffle"
        if "class_weight" in self._defaults():  # whose classes are those of y, not their places in classes_
            renamed["class_weight"] = "class_weight"
        if self._schedule() != "constant" and options.get("schedule") not in (None, "const"):
            raise UsageError(f"expected learning_rate={self.learning_rate!r} or the option 'schedule', found both; "
                             "leave one out")
        for name in options:
            if name in _PRIMARY or name in _ALIASES or name in renamed:
                raise UsageError(f"expected further options, found the argument {name!r} among them; give it as "
                                 f"{renamed.get(name, name)}=...")
            if name in _ITS_END:
                raise UsageError(f"expected further options, found {name!r}, which needs rows held out; use "
                                 "early_stopping=True with n_iter_no_change, which chooses by the score")
            if name in _EVALUATIONS and self.early_stopping:
                raise UsageError(f"early_stopping evaluates after each epoch, found the option {name!r}; leave it out")
            if name in _OWN:
                raise UsageError(f"expected further options, found {name!r}, which the estimator sets itself; leave it "
                                 "out")
        return options

    def _run_options(self, rows: int, seed: int) -> dict[str, Any]:
        """The options of a run by all arguments; alpha needs the network too."""
        options = self._further()
        batch, name = self._argument("batch")
        options["batch"] = min(200, rows) if isinstance(batch, str) and batch == "auto" else batch
        options["optimizer"] = self._argument("optimizer")[0]
        for option in ("epochs", "lr"):
            options[option] = self._argument(option)[0]
        options.update(weight_decay=self._decay(rows, options["optimizer"]), threads=self.threads, seed=seed)
        for name, option in _RENAMED.items():
            if getattr(self, name) is not None:
                options[option] = getattr(self, name)
        if self.beta_1 is not None or self.beta_2 is not None:
            options["betas"] = (0.9 if self.beta_1 is None else self.beta_1,
                                0.999 if self.beta_2 is None else self.beta_2)
        if options.get("nesterov") and options.get("momentum") == 0:  # it changes nothing
            del options["nesterov"]
        if not self.shuffle:
            options["no_shuffle"] = True
        return options

    def _decay(self, rows: int, optimizer: Any) -> Any:
        return self.weight_decay

    def _add_alpha(self, options: dict[str, Any], weights: np.ndarray, outputs: int, loss: str) -> None:
        """alpha / batch times each weight is added to its gradient, and to no bias's, as in MLPClassifier: a batch
        counts as many rows as it has on average by their `weights`.

        The losses there are sums over outputs, and half of the squared error; here they are means. Two classes have one
        output there, whose weights are the difference of those of the two here: the least penalty of two such weights
        is half of the difference's.
        """
        if not self._is_default("weight_decay") or "parameters" in options:
            raise UsageError("expected alpha without weight_decay and without parameters among the options, found "
                             "both; leave one out")
        if options["optimizer"] not in ("adam", "sgd"):
            raise UsageError(f"alpha expects the solver adam or sgd, found {options['optimizer']!r}; use weight_decay")
        decay = float(self.alpha) / (min(int(options["batch"]), len(weights)) * float(weights.mean()))
        decay *= {"mse": 2 / outputs, "bce_with_logits": 1 / outputs}.get(loss, 1)
        options["weight_decay"] = decay
        options["parameters"] = [{"match": "*.bias", "weight_decay": 0}]
        if loss == "cross_entropy" and outputs == 2:
            options["parameters"].append({"match": "out.weight", "weight_decay": 2 * decay})

    def _network(self, features: int, outputs: int, loss: str) -> Any:
        if self.model is not None:
            return self.model
        model, activation = Model("perceptron", (1, 1, features)).add("flat", "flatten"), _ACTIVATIONS[self.activation]
        for number, units in enumerate(self._hidden(), 1):
            model.add(f"fc{number}", "linear", out=units)
            if activation:
                model.add(f"{activation}{number}", activation)
        return model.add("out", "linear", out=outputs).loss(loss)

    # ---- Training ----

    def _train(self, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, mean: float, outputs: int, loss: str,
               once: bool = False) -> None:
        """Trains on all rows, or all but those of early_stopping. `weights`: of the rows, None where all have the
        `mean`. `once`: for one epoch, from the weights at hand."""
        self._check_arguments()
        if once and self.early_stopping:
            raise UsageError("partial_fit does not support early_stopping=True: it trains for one epoch; use fit")
        goes_on = (once or self.warm_start) and hasattr(self, "run_")
        seed = self._seed()
        options = self._run_options(len(x), seed)
        averages = {name: str(options.get(name) or 0) for name in ("ema", "momentum", "centered")}
        if once:
            self._check_once(options, averages, getattr(self, "_averages", {}) if goes_on else {})
            options["epochs"] = 1
        if goes_on:
            x = self._normalised(x, options)
            self.loss_curve_ = list(self.loss_curve_)
            self.n_iter_ = self.n_iter_ if once else 0
        else:
            self.loss_curve_, self.n_iter_, self.t_, self._fits, self._epochs = [], 0, 0, 0, 0
        if not once:
            self._fits, self._epochs = self._fits + 1, 0
        options["seed"] = seed + max(self._fits - 1, 0)  # of the order of the rows
        network = self._network(x.shape[1], outputs, loss)
        text = getattr(network, "text", network)
        if goes_on and text != self._text:
            raise UsageError("expected the network of the first fit, whose weights this one starts from, found "
                             "another; change hidden, activation and model with warm_start=False")
        self._averages = averages
        self._text, self._depth = text, len(self._hidden()) + 1 if self.model is None else 0
        w = np.full(len(x), mean) if weights is None else weights
        train, test = self._split(x, y, w, loss, seed) if self.early_stopping else ((x, y, w), (x[:1], y[:1], w[:1]))
        try:
            if self.alpha is not None:
                self._add_alpha(options, train[2], outputs, loss)
            self._fit_run(network, (*train[:2], *test[:2]), (None, None) if weights is None else (train[2], test[2]),
                          options, goes_on, outputs, loss, once)
        except Error as error:
            raise self._renamed(error) from error.__cause__

    def _check_once(self, options: dict[str, Any], averages: dict[str, str], before: dict[str, str]) -> None:
        """What a run of one epoch after the other cannot have: averages that the one before it did not begin."""
        for name, had in before.items():
            if averages[name] != had and (name == "ema" or had == "0"):
                raise UsageError(f"partial_fit expects {name}={had}, as in the call before it, whose averages it goes "
                                 f"on with, found {averages[name]}; use fit")
        for name in ("schedule", "warmup", "lookahead", "workers"):
            if options.get(name) not in (None, 0, "const"):
                raise UsageError(f"partial_fit expects options without {name}, which counts on one run, found "
                                 f"{options[name]!r}; use fit, or change lr between the calls")

    def _split(self, x: np.ndarray, y: np.ndarray, weights: np.ndarray, loss: str, seed: int) -> tuple[Any, Any]:
        """Rows to train on and to validate, with their weights."""
        parts = train_test_split(x, y, weights, test_size=self.validation_fraction, random_state=seed % 2**32,
                                 stratify=y if loss == "cross_entropy" else None)
        if len(parts[1]) < 2:
            raise UsageError(f"The validation set is too small: early_stopping expects two rows or more, found "
                             f"{len(parts[1])} of {len(x)}; give more rows or a larger validation_fraction")
        return parts[::2], parts[1::2]

    def _fit_run(self, network: Any, data: tuple[Any, ...], weights: Any, options: dict[str, Any], goes_on: bool,
                 outputs: int, loss: str, once: bool) -> None:
        metric = self._metric() if self.metric is None else self._in_units(_weighing(self.metric, weights[1]))
        if self.early_stopping and metric:
            options["metric"] = metric
        if options["threads"] == "auto" and self._is_small(data, options, outputs):
            options["threads"] = 1
        if not self.early_stopping:  # nothing is read of the epochs before the last
            for name in ("eval_epochs", "save_epochs"):
                options.setdefault(name, 1000000)
        samples = Weighed(data, *weights, classes=outputs if loss == "cross_entropy" else 0)
        # Checkpoints are synced to the disk, which takes longer than training on few rows; in memory it takes no time.
        checkpoints = 4 * 16 * self._parameters(data, outputs)  # with the optimizer's state, and some at once
        with folder_of_run(in_memory(checkpoints, _MOST_IN_MEMORY)) as folder:
            if goes_on and not once:
                options["init"] = self.run_.checkpoint / "model.safetensors"
            with Session(network, samples, keep=1, out=folder + "/run", **options) as session:
                if self.model is not None and not goes_on:
                    self._check_outputs(session.save(), outputs)
                if goes_on and once:
                    session.go_on(self.run_, self._epochs)
                    if self._schedule() != "constant":
                        session.lr = self.learning_rate_
                with session._stopped_by_ctrl_c():
                    self._follow(session, len(data[0]), options, once)
                if session.stopped:
                    raise KeyboardInterrupt
                if session.done:
                    session.train()
                    run = session.run()
                else:
                    run = session.save()
            run = run._alone(folder, best=self.early_stopping)
            if goes_on:
                run._normalise_as(self.run_)
            run._keep_for_children()
            self.run_ = run
        self.loss_ = self.loss_curve_[-1]

    def _in_units(self, metric: Any) -> Any:
        """A metric for outputs and targets as the network has them."""
        return metric

    def _judged(self, report: dict[str, Any]) -> float:
        """The score of the rows that are held out, by `metric` or else the estimator's own; larger is better."""
        if self.metric is None:
            return self._score(report)
        if self.metric == "loss":
            return -report["test_loss"]
        return report["test_accuracy" if self.metric == "accuracy" else "test_metric"]

    def _multiplied(self, features: int, outputs: int) -> int:
        """The weights of the perceptron without its biases: each is multiplied once a row."""
        sizes = [features, *self._hidden(), outputs]
        return sum(map(operator.mul, sizes, sizes[1:]))

    def _is_small(self, data: tuple[Any, ...], options: dict[str, Any], outputs: int) -> bool:
        """Whether a step of the perceptron takes less time than threads take to meet."""
        return self.model is None and \
            min(int(options["batch"]), len(data[0])) * self._multiplied(data[0].shape[1], outputs) < _SMALL

    def _parameters(self, data: tuple[Any, ...], outputs: int) -> int:
        """How many numbers are trained; of a model that no run takes, which says why, none."""
        if self.model is None:
            return self._multiplied(data[0].shape[1], outputs) + sum(self._hidden()) + outputs
        try:
            return summary(self._text, data[:2]).params
        except Error:
            return 0

    def _check_outputs(self, run: Any, outputs: int) -> None:
        """A model of the user's may compute something else."""
        if run._gives()[0] == lib.HD_PREDICTS_HEADS:
            raise ShapeError("expected a model with one loss, found several; use heddle.train, whose run predicts each "
                             "head")

    def _follow(self, session: Session, rows: int, options: dict[str, Any], once: bool) -> None:
        """Trains epoch by epoch, and ends where nothing improves any more."""
        watches = self.early_stopping or self._schedule() == "adaptive"
        tol = self.tol if self.tol is not None else 1e-4 if watches else None
        stopper = _Stopper(self.n_iter_no_change, tol or 0.0)
        if once and self.loss_curve_ and self.best_loss_ is not None:
            stopper.best, stopper.stale = -self.best_loss_, self._no_improvement_count
        self.validation_scores_: list[float] | None = [] if self.early_stopping else None
        ends = False
        self.learning_rate_ = session.lr
        if self.t_ == 0:
            self._first_rate = session.lr
        steps = self._steps(rows, options)
        while not session.done and not ends:
            before = session.steps
            loss = session.step(steps)
            if session.stopped:
                return
            self.loss_curve_.append(loss)
            self.n_iter_ += 1
            self._epochs += 1
            taken = session.steps - before
            self.t_ += rows if taken == steps and not options.get("drop_last") else taken * int(options["batch"])
            score = self._judged(session.report) if self.early_stopping else -loss
            if self.early_stopping:
                if np.isnan(score):
                    raise UsageError("early_stopping expects rows to validate whose score is a number, found none: "
                                     "their targets are all equal; give more rows or a larger validation_fraction")
                self.validation_scores_.append(score)
            ends = tol is not None and stopper.ends(score)
            if self.verbose:
                print(f"Iteration {self.n_iter_}, loss = {loss:.8f}")
                if self.early_stopping:
                    print(f"Validation score: {score:.6f}")
            ends = self._change_rate(session, stopper, ends)
            self._no_improvement_count = stopper.stale
        if self.verbose and ends:
            print(f"{'Validation score' if self.early_stopping else 'Training loss'} did not improve more than "
                  f"tol={tol} for {self.n_iter_no_change} consecutive epochs. Stopping.")
        if self.tol is not None and not ends and not once:
            watched = "a validation score" if self.early_stopping else "a loss"
            warnings.warn(f"expected {watched} that stops improving by more than tol={tol} within {self.n_iter_} "
                          "epochs, found one that goes on; raise max_iter", ConvergenceWarning, stacklevel=6)
        self.best_loss_ = None if self.early_stopping else min(self.loss_curve_)
        self.best_validation_score_ = max(self.validation_scores_) if self.early_stopping else None

    def _change_rate(self, session: Session, stopper: _Stopper, ends: bool) -> bool:
        """The learning rate of the next epoch, by `learning_rate`; returns whether the fit ends."""
        schedule, rate = self._schedule(), self.learning_rate_
        if schedule == "invscaling":
            first = self._argument("lr")[0]
            rate = (self._first_rate if first is None else float(first)) / (self.t_ + 1) ** self.power_t
        elif schedule == "adaptive" and ends and rate > _LEAST_RATE:
            rate, ends, stopper.stale = rate / 5, False, 0
        if rate != self.learning_rate_ and not session.done and not ends:
            session.lr = rate
        self.learning_rate_ = rate
        return ends

    def _steps(self, rows: int, options: dict[str, Any]) -> int:
        """Steps of an epoch."""
        for name in ("fold", "val_split", "resume"):
            if options.get(name) is not None:
                raise UsageError(f"expected further options, found {name!r}, by which not all rows given to fit would "
                                 "be trained on; leave it out")
        whole, rest = divmod(rows, int(options["batch"]))
        return max(1, whole + (rest > 0 and not options.get("drop_last")))

    def _renamed(self, error: Error) -> Error:
        """The failure in the words of the arguments that were given."""
        message = re.sub(r", from the last good weights: init='[^']*'", "", str(error))  # of a folder that is gone
        for alias, name in _ALIASES.items():
            if getattr(self, alias) is not None:
                message = re.sub(rf"\b{name}=", f"{alias}=", message)
        for name, option in (*_RENAMED.items(), ("beta_1, beta_2", "betas")):
            if option not in (self.options or {}):
                message = re.sub(rf"\b{option}=", f"{name}=", message)
        return type(error)(message)

    # ---- Going on ----

    def _normalised(self, x: np.ndarray, options: dict[str, Any]) -> np.ndarray:
        """Rows for a run that goes on from the weights of the last, which belong to its normalisation: these rows are
        normalised as that run's were, whatever their own means are."""
        for name in ("transforms", "eval_transforms", "init"):
            if options.get(name) is not None:
                raise UsageError(f"expected options without {name} to go on from earlier weights, found it; leave it "
                                 "out")
        mean, std = self.run_._scaling()
        if not hasattr(self.model, "options"):  # a module of PyTorch brings transforms, which normalise nothing
            options["normalize"] = "none"
        return ((x - mean) / std).astype(np.float32)

    def _keep_spread(self, rows: Any, x: np.ndarray) -> None:
        """The standard deviation of each column, as predict needs it to tell what float32 loses."""
        wide = None if sparse.issparse(rows) else _rows(rows)
        self._spread = (x if wide is None or wide.shape != x.shape else wide).std(0, dtype=np.float64)

    def _inputs(self, x: Any, *y: Any, reset: bool = True, **checks: Any) -> Any:
        """Checked rows as float32, with y where it is given; sparse ones are filled with their zeros."""
        for array, what in zip((x, *y), ("X", "y")):
            check_mask(array, what)
        checked = validate_data(self, x, *y, dtype=np.float32, reset=reset, accept_sparse=True, **checks)
        rows = checked[0] if y else checked
        rows = rows.toarray() if sparse.issparse(rows) else rows
        return (rows, checked[1]) if y else rows

    def _values(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        _warn(x, self._spread)
        return self.run_.predict(self._inputs(x, reset=False))

    # ---- What was learned, as MLPClassifier has it ----

    def _layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights (inputs, outputs) and biases of the perceptron, in the units of X."""
        check_is_fitted(self)
        if not self._depth:
            raise AttributeError("expected a perceptron, found a model; its weights are run_.weights")
        weights, names = self.run_.weights, [f"fc{i}" for i in range(1, self._depth)] + ["out"]
        layers = [(np.array(weights[name + ".weight"], np.float64).T, np.array(weights[name + ".bias"], np.float64))
                  for name in names]
        try:
            mean, std = self.run_._scaling()
        except UsageError as error:
            raise AttributeError(f"{error}; its weights are run_.weights") from None
        w, b = layers[0]
        layers[0] = (w / np.reshape(std, (-1, 1)), b - (np.broadcast_to(mean / std, len(w)) @ w))
        return layers

    @property
    def coefs_(self) -> list[np.ndarray]:
        """The weights of each layer, (inputs, outputs), in the units of X."""
        return [w for w, _ in self._layers()]

    @property
    def intercepts_(self) -> list[np.ndarray]:
        """The biases of each layer, in the units of X."""
        return [b for _, b in self._layers()]

    @property
    def n_layers_(self) -> int:
        """Layers of units, inputs and outputs included."""
        return len(self._layers()) + 1

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "run_")


_SHARED = """
    Without `model` a perceptron with the hidden layers `hidden` and the `activation` identity, logistic, tanh, relu,
    leaky_relu, gelu or swish; with one, a built-in name, a model file or a heddle.Model. An lr or a weight_decay of
    None is the optimizer's default. `options` are further options of heddle.train. Columns are normalised by the rows
    of the first fit.

    `early_stopping` holds out `validation_fraction` of the rows, ends when their score, {score}, does not rise by more
    than `tol` for `n_iter_no_change` epochs, and keeps the weights of the best epoch. `metric` takes the
    place of that score: the name of one of `heddle train --metric`, or a function of outputs and targets, whose larger
    values are better ({units}). A function sees the weights of the rows if it has
    a parameter sample_weight. Without `metric` a `tol` ends a fit in the same way by the training loss; None trains all
    epochs. With `warm_start` fit goes on from the weights of the last fit, with a new optimizer; partial_fit goes on
    for one epoch, with the optimizer's state. Rows count as often as `sample_weight` says.

    hidden_layer_sizes, max_iter, batch_size ("auto": 200, or all rows), solver, learning_rate_init and random_state are
    other names of hidden, epochs, batch, optimizer, lr and seed; `alpha` is the L2 penalty of MLPClassifier, on weights
    alone. learning_rate and power_t are MLPClassifier's too, for sgd alone: "invscaling" divides the first rate by
    (rows seen + 1) ** power_t after each epoch, "adaptive" the rate by 5 where a fit would end, until it is 1e-6.
    max_fun belongs to a solver that heddle does not have.

    Attributes: run_ (the heddle.Run{run}), n_iter_ and loss_curve_ (epochs, and the mean loss of each),
    loss_, best_loss_, learning_rate_, validation_scores_, best_validation_score_, t_ (rows seen), coefs_, intercepts_.
"""


class HeddleClassifier(ClassifierMixin, _Network):
    """A classifier; classes may be of any type, and a row may have several (y of zeros and ones, (N, K)).

    >>> import numpy as np
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    >>> HeddleClassifier(epochs=300).fit(x, ["off", "on", "on", "off"]).predict(x).tolist()
    ['off', 'on', 'on', 'off']
    """

    __doc__ = (__doc__ or "") + _SHARED.format(
        score="accuracy (with several labels a row: minus the loss)", run="",
        units="scores before the softmax (N, K) and the numbers of classes_ (N), or scores and zeros and ones (N, K)")

    def __init__(self, model: Any = None, hidden: int | Sequence[int] = (100,), epochs: float = 200, batch: int = 32,
                 optimizer: str = "adam", lr: float | None = 0.003, weight_decay: float | None = None, seed: int = 0,
                 threads: Any = "auto", options: dict[str, Any] | None = None, *, activation: str = "relu",
                 shuffle: bool = True, tol: float | None = None, verbose: bool = False, warm_start: bool = False,
                 early_stopping: bool = False, validation_fraction: float = 0.1, n_iter_no_change: int = 10,
                 momentum: float | None = None, nesterovs_momentum: bool | None = None,
                 beta_1: float | None = None, beta_2: float | None = None, epsilon: float | None = None,
                 alpha: float | None = None, hidden_layer_sizes: int | Sequence[int] | None = None,
                 max_iter: int | None = None, batch_size: int | str | None = None, solver: str | None = None,
                 learning_rate_init: float | None = None, random_state: Any = None, learning_rate: str = "constant",
                 power_t: float = 0.5, max_fun: int = 15000, class_weight: Any = None, metric: Any = None) -> None:
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
        self.activation = activation
        self.shuffle = shuffle
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.momentum = momentum
        self.nesterovs_momentum = nesterovs_momentum
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.alpha = alpha
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.solver = solver
        self.learning_rate_init = learning_rate_init
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.power_t = power_t
        self.max_fun = max_fun
        self.class_weight = class_weight
        self.metric = metric

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HeddleClassifier:
        """Trains on X (N, F), dense or sparse, and labels y: (N), or (N, K) of zeros and ones."""
        return self._fit(X, y, None, sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> HeddleClassifier:
        """Trains for one epoch on X and y, on from the weights at hand; the first call names all `classes`, unless y
        has them."""
        return self._fit(X, y, classes, sample_weight, once=True)

    def _weights_of(self, y: np.ndarray, sample_weight: Any, once: bool) -> np.ndarray | None:
        """The weights of rows times those of their classes."""
        weights = _weights(sample_weight, len(y))
        if self.class_weight is None:
            return weights
        if self._several:
            raise UsageError("class_weight expects one label a row, found several; give sample_weight")
        if not isinstance(self.class_weight, dict) and self.class_weight != "balanced":
            raise ValueError(f"class_weight expects a dictionary, 'balanced' or None, found {self.class_weight!r}")
        if once and self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' expects all rows at once, found partial_fit; give the weights of "
                             "classes as a dictionary")
        if isinstance(self.class_weight, dict):
            unknown = [key for key in self.class_weight if key not in self.classes_.tolist()]
            if unknown:
                raise ValueError(f"class_weight expects classes of y, {self.classes_.tolist()}, found {unknown[0]!r}; "
                                 "leave it out")
            bad = [value for value in self.class_weight.values() if not _is_number(value)]
            if bad:
                raise ValueError(f"class_weight expects numbers, found {bad[0]!r}")
            of = np.array([float(self.class_weight.get(each, 1)) for each in self.classes_.tolist()])
            of_classes = of[np.searchsorted(self.classes_, y)]  # y may lack some classes
        else:
            of_classes = compute_sample_weight("balanced", y)
        return _weights(of_classes if weights is None else weights * of_classes, len(y))

    @_wholly
    def _fit(self, X: Any, y: Any, classes: Any, sample_weight: Any, once: bool = False) -> HeddleClassifier:
        goes_on = (once or self.warm_start) and hasattr(self, "run_")
        _warn(X)
        rows = X
        X, y = self._inputs(X, y, reset=not goes_on, multi_output=True)
        kind = type_of_target(y, input_name="y")
        if kind not in ("binary", "multiclass", "multilabel-indicator"):
            check_classification_targets(y)
        if not goes_on:
            self._keep_spread(rows, X)
        several = kind == "multilabel-indicator"
        if kind == "multiclass-multioutput":
            raise ValueError("expected y (N), or (N, K) of zeros and ones where rows have several labels, found "
                             f"{kind!r}; fit an estimator for each column")
        if several:
            y = y.toarray() if sparse.issparse(y) else np.asarray(y)
            if not np.isin(y, (0, 1)).all():
                raise FormatError("expected y (N, K) of zeros and ones, where rows have several labels, found "
                                  f"{y[~np.isin(y, (0, 1))][0]}; write 1 for each label that a row has")
            found = np.arange(y.shape[1])
        else:
            y = column_or_1d(y, warn=True)
            found = np.unique(y)
        known = self._classes(found, classes, several, once, goes_on)
        if len(known) < 2 and not several:
            raise ValueError(f"expected two classes or more in y, found 1 class, {known.tolist()[0]!r}; add samples of "
                             "another")
        self.classes_, self._several = known, several
        X, y, weights, mean = _counted(X, y, self._weights_of(y, sample_weight, once))
        if several:
            self._train(X, y.astype(np.float32), weights, mean, len(known), "bce_with_logits", once)
        else:
            self._train(X, np.searchsorted(known, y), weights, mean, len(known), "cross_entropy", once)
        self.n_outputs_, self.out_activation_ = len(known), "logistic" if several else "softmax"
        return self

    def _classes(self, found: np.ndarray, named: Any, several: bool, once: bool, goes_on: bool) -> np.ndarray:
        """The classes of the network: those of the first call, which a later one has too."""
        if named is not None:
            named, counts = np.unique(named, return_counts=True)
            if (counts > 1).any():
                raise ValueError(f"expected each class once in classes, found {named[counts > 1].tolist()[0]!r} "
                                 f"{counts[counts > 1][0]} times; give weights as sample_weight=")
        if goes_on:
            new = np.setdiff1d(found, self.classes_)
            if several != self._several or len(new) or (several and len(found) != len(self.classes_)):
                raise ValueError(f"expected labels y of the classes of the first fit, {self.classes_.tolist()}, found "
                                 f"{new.tolist() if len(new) else 'labels of another kind'}; fit another estimator")
            if named is not None and not np.array_equal(named, self.classes_):
                raise ValueError(f"expected classes as in the first call, {self.classes_.tolist()}, found "
                                 f"{named.tolist()}; leave them out")
            return self.classes_
        if named is None:
            return found
        new = np.setdiff1d(found, named)
        if len(new):
            raise ValueError(f"expected labels y among the classes, found {new.tolist()[0]!r}; add it to classes")
        return named

    def _metric(self) -> str | None:
        return None

    def _score(self, report: dict[str, Any]) -> float:
        return -report["test_loss"] if self._several else report["test_accuracy"]

    def _check_outputs(self, run: Any, outputs: int) -> None:
        gives, count = run._gives()
        if gives != (lib.HD_PREDICTS_CHANCES if self._several else lib.HD_PREDICTS_CLASSES):
            raise ShapeError("expected a model that predicts " + ("labels, of the loss bce_with_logits" if self._several
                             else "classes, of the loss cross_entropy") + ", found another; change its loss, or use "
                             "HeddleRegressor")
        if count != outputs:
            raise ShapeError(f"expected a model of {outputs} outputs for the classes {self.classes_.tolist()}, found "
                             f"{count}; give its last layer 'out: {outputs}'")

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class: (N, classes). Of several labels a row each has its own."""
        return self._values(X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of predict_proba."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class, (N); or the labels whose probability is above 1/2, (N, K) of zeros and ones."""
        values = self._values(X)
        return (values > 0.5).astype(int) if self._several else self.classes_[values.argmax(1)]

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn before 1.6
        return {"multilabel": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags.sparse = True
        return tags


class HeddleRegressor(RegressorMixin, _Network):
    """A regressor of one number or several; targets are standardised for training. A weight_decay of "auto" is
    8 / rows, at most 0.03, with adam, and the optimizer's default with others.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 50, dtype=np.float32)[:, None]
    >>> bool(HeddleRegressor(epochs=200).fit(x, 3 * x[:, 0] + 7).score(x, 3 * x[:, 0] + 7) > 0.99)
    True
    """

    __doc__ = (__doc__ or "") + _SHARED.format(
        score="R2", run=", which predicts standardised targets: y = run_.predict(X) * y_std_ + y_mean_",
        units="both (N, K), in the units of y")

    def __init__(self, model: Any = None, hidden: int | Sequence[int] = (100,), epochs: float = 100, batch: int = 32,
                 optimizer: str = "adam", lr: float | None = 0.003, weight_decay: float | str | None = "auto",
                 seed: int = 0, threads: Any = "auto", options: dict[str, Any] | None = None, *,
                 activation: str = "relu", shuffle: bool = True, tol: float | None = None, verbose: bool = False,
                 warm_start: bool = False, early_stopping: bool = False, validation_fraction: float = 0.1,
                 n_iter_no_change: int = 10, momentum: float | None = None, nesterovs_momentum: bool | None = None,
                 beta_1: float | None = None, beta_2: float | None = None, epsilon: float | None = None,
                 alpha: float | None = None, hidden_layer_sizes: int | Sequence[int] | None = None,
                 max_iter: int | None = None, batch_size: int | str | None = None, solver: str | None = None,
                 learning_rate_init: float | None = None, random_state: Any = None, learning_rate: str = "constant",
                 power_t: float = 0.5, max_fun: int = 15000, metric: Any = None) -> None:
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
        self.activation = activation
        self.shuffle = shuffle
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.momentum = momentum
        self.nesterovs_momentum = nesterovs_momentum
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.alpha = alpha
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.solver = solver
        self.learning_rate_init = learning_rate_init
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.power_t = power_t
        self.max_fun = max_fun
        self.metric = metric

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HeddleRegressor:
        """Trains on X (N, F), dense or sparse, and targets y (N) or (N, K)."""
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> HeddleRegressor:
        """Trains for one epoch on X and y, on from the weights at hand; targets are scaled as in the first call."""
        return self._fit(X, y, sample_weight, once=True)

    @_wholly
    def _fit(self, X: Any, y: Any, sample_weight: Any, once: bool = False) -> HeddleRegressor:
        goes_on = (once or self.warm_start) and hasattr(self, "run_")
        _warn(X)
        rows = X
        X, y = self._inputs(X, y, reset=not goes_on, multi_output=True, y_numeric=True)
        if sparse.issparse(y):
            raise FormatError("expected dense targets y, found a sparse array; give y.toarray()")
        y = np.asarray(y, np.float64)
        flat, y = y.ndim == 1, y.reshape(len(y), -1)
        if not goes_on:
            self._keep_spread(rows, X)
        X, y, weights, mean = _counted(X, y, _weights(sample_weight, len(y)))
        if not goes_on:
            with np.errstate(over="ignore", invalid="ignore"):
                self._is_flat, (self.y_mean_, self.y_std_) = flat, _mean_and_std(y, weights)
            if not np.isfinite(self.y_std_).all() or ((self.y_std_ == 0) & (y != y[0]).any(0)).any():
                raise FormatError("expected targets y whose standard deviation is a number above 0, found "
                                  f"{np.abs(y).max():.6g} as the largest; divide them by a constant")
            self.y_std_[self.y_std_ == 0] = 1
        elif flat != self._is_flat or y.shape[1] != len(self.y_mean_):
            raise ValueError(f"expected targets y as in the first fit, {len(self.y_mean_)} of each row, found "
                             f"{y.shape[1]}; fit another estimator")
        self._train(X, ((y - self.y_mean_) / self.y_std_).astype(np.float32), weights, mean, y.shape[1], "mse", once)
        self.run_._targets = self.y_mean_.tolist(), self.y_std_.tolist()
        self.n_outputs_, self.out_activation_ = y.shape[1], "identity"
        return self

    def _decay(self, rows: int, optimizer: Any) -> Any:
        """ "auto": as much for a whole table, whatever its rows, so that few noisy ones are not learned by heart."""
        if not isinstance(self.weight_decay, str) or self.weight_decay != "auto":
            return self.weight_decay
        return min(0.03, 8 / rows) if optimizer == "adam" else None

    def _run_options(self, rows: int, seed: int) -> dict[str, Any]:
        return {**super()._run_options(rows, seed), "target_scale": "none"}  # targets are standardised already

    def _metric(self) -> str | None:
        return "r2"

    def _in_units(self, metric: Any) -> Any:
        """A function sees outputs and targets in the units of y."""
        if not callable(metric):
            return metric
        mean, std = self.y_mean_, self.y_std_

        @functools.wraps(metric, updated=())
        def unscaled(*both: np.ndarray) -> Any:
            return metric(*(values * std + mean for values in both))

        return unscaled

    def _score(self, report: dict[str, Any]) -> float:
        return report["test_r2"]

    def predict(self, X: Any) -> np.ndarray:
        """The targets: (N) or (N, K) as in fit."""
        values = self._values(X) * self.y_std_ + self.y_mean_
        return values[:, 0] if self._is_flat else values

    def _layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        layers = super()._layers()
        w, b = layers[-1]
        layers[-1] = (w * self.y_std_, b * self.y_std_ + self.y_mean_)
        return layers

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn before 1.6
        return {"multioutput": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = True
        return tags
