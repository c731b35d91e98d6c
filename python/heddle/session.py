"""Training: a session, the events that it reports, and train(), which runs one to its end.

A session belongs to one thread at a time; stop() may be called from any. Ctrl-C ends a run after the step, with its
state saved, where Python's own handler of SIGINT is installed and the main thread trains.
"""
from __future__ import annotations

import contextlib
import numbers
import os
import threading
import weakref
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Sequence, Union

from . import _losses
from . import data as _data
from ._interrupt import stopped_by_ctrl_c
from ._library import Calls, Config, Context, StoppedError, UsageError, ffi, lib, text
from ._options import add_model, check_names, in_python, plain_name, takes_options
from .run import Run

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._option_types import Options

_KINDS = ("step", "log", "epoch", "eval", "saved", "note")  # of hd_event_kind, in its order


@dataclass(frozen=True)
class Event:
    """What a callback receives: `kind` is step, log, epoch, eval, saved or note. Numbers that do not apply are 0 or
    NaN."""

    kind: str
    step: int  # done so far, counted from 1
    epoch: int  # counted from 0
    loss: float  # step, log: of that step, before its update; epoch: the mean
    lr: float  # log
    samples_per_s: float  # log
    val_loss: float  # epoch, eval: of a validation split
    val_accuracy: float
    test_loss: float  # epoch, eval
    test_accuracy: float
    text: str  # of a note
    session: Session = field(repr=False, compare=False)  # that trains


_NUMBERS = tuple(field.name for field in fields(Event) if field.name not in ("kind", "text", "session"))

Callback = Callable[[Event], Any]
Callbacks = Union[Callback, Sequence[Callback], None]


def _functions(callback: Callbacks) -> list[Callback]:
    if callback is None or callable(callback):
        return [] if callback is None else [callback]
    several = list(callback) if isinstance(callback, Iterable) else [callback]
    if not all(map(callable, several)):
        raise UsageError(f"callback expects a function or several, found {callback!r}")
    return several


def _event_of(e: Any, session: Session) -> Event:
    said = in_python(text(e.text)) if e.kind in (lib.HD_EVENT_NOTE, lib.HD_EVENT_SAMPLE) else ""
    return Event(session=session, kind=_KINDS[e.kind], text=said,
                 **{name: getattr(e, name) for name in _NUMBERS})


class Session:
    """A training session, for loops of the program.

    `model`: a built-in name, a model file, its text, a heddle.Model or a module by heddle.from_torch. `data`: a name, a
    path, arrays (x, y) or (x, y, x_test, y_test), or a data set in Python (heddle.data), also behind a DataLoader.
    Options are those of the command `heddle train`, with _ for -; help(heddle.train) lists them. Without test samples a
    fifth of the data becomes the test set. `config` is a YAML file of options; those given here count before its.
    `sample_weight` has a number for each of x, or for each of x and of x_test, (w, w_test): as often samples count in
    losses and scores. `loss` and `metric` may be functions of arrays: loss(outputs, targets) returns the loss of each
    sample (N) and its gradient by the outputs (N, K), or is a pair of functions for the two; metric(outputs, targets),
    or metric(y_true, y_pred) as scikit-learn's, is a number, larger being better.

    >>> import heddle
    >>> with heddle.Session("simplenet", "digits", max_steps=3, out=folder) as session:
    ...     while not session.done:
    ...         loss = session.step()
    ...     accuracy = session.evaluate()["test_accuracy"]
    >>> loss < 3 and 0 <= accuracy <= 1
    True
    """

    @takes_options()
    def __init__(self, model: Any = None, data: Any = None, *, transforms: Any = None, eval_transforms: Any = None,
                 config: Any = None, sample_weight: Any = None, **options: Unpack[Options]) -> None:
        check_names(options)
        given = {plain_name(name): value for name, value in options.items()}
        data = _data.join_heads(_data.of_loaders(data, given), model)
        self._context = context = Context()
        self._model = model
        self._lock = threading.Lock()
        given.update(config=config, transforms=_data.add_transforms(context, transforms),
                     eval_transforms=_data.add_transforms(context, eval_transforms))
        self._functions = _losses.take(given)
        if isinstance(given.get("class_weight"), dict):
            given["class_weight"] = ",".join(f"{name}={weight}" for name, weight in given["class_weight"].items())
        self._options = add_model(model, given)
        self._options["data"] = _data.add(context, _data.weigh(data, sample_weight))
        self._config = Config(context, dict(self._options))
        _losses.set_functions(context, self._config, self._functions)
        with stopped_by_ctrl_c(context.calls.interrupt):
            self._pointer = context.make("hd_session", lib.hd_session_create, self._config.pointer)
            self._end = weakref.finalize(self, _end, self._pointer, context.calls)
        context.calls.stop = _stopper(self._pointer)
        if isinstance(context.calls.failure, KeyboardInterrupt):  # while samples were read ahead
            context.check(lib.HD_OK)

    def __repr__(self) -> str:
        if not self._end.alive:
            return "Session(closed)"
        report = self.report
        end = ", stopped" if report["stopped"] else ""
        return (f"Session({report['model']!r} on {report['data']!r}, step {report['steps']:,} of "
                f"{report['steps_in_all']:,}{end}, out={report['out']!r})")

    def __reduce__(self) -> Any:
        raise TypeError("expected something that can be copied or pickled, found a Session, which belongs to its "
                        "process; use session.save(), which returns a Run")

    # ---- Its end ----

    def close(self) -> None:
        """Ends the session and frees its memory; its run folder may then be resumed. Calling it twice is allowed."""
        if not self._end.alive:
            return
        with self._busy():
            self._end()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    @contextlib.contextmanager
    def _busy(self, stop: Callable[[], None] | None = None) -> Iterator[Any]:
        """The session's pointer, for one thread at a time. Ctrl-C calls `stop`, or is raised afterwards."""
        with stopped_by_ctrl_c(stop):
            if not self._lock.acquire(blocking=False):
                raise UsageError("expected a session that is idle, found one that is training, here or in another "
                                 "thread; call stop(), or wait until it returns")
            try:
                yield self._open()
            finally:
                self._lock.release()

    def _stopped_by_ctrl_c(self) -> contextlib.AbstractContextManager[None]:
        """A context for loops of many short calls: Ctrl-C in it stops the session after its step. Handlers are set once
        and not for each call, which takes longer than a step on few rows."""
        return stopped_by_ctrl_c(self._context.calls.stop)

    def _open(self) -> Any:
        if not self._end.alive:
            raise UsageError("expected an open session, found a closed one; make another")
        return self._pointer

    # ---- Training ----

    def train(self, callback: Callbacks = None) -> dict[str, Any]:
        """Trains to the end, evaluates and saves at each epoch's end; returns the report.

        `callback`, a function or several, is called with each Event on this thread. An exception in one ends the run
        after the step and is raised here, when the state is saved.
        """
        callbacks = _functions(callback)
        calls = self._context.calls

        @ffi.callback("void(void *, const hd_event *)", onerror=calls.escaped)
        def on_event(_: Any, event: Any) -> None:
            try:
                if calls.failure is None:
                    seen = _event_of(event, self)
                    for function in callbacks:
                        function(seen)
            except BaseException as error:  # pylint: disable=broad-except
                calls.caught(error)
                calls.stop()

        with self._busy(calls.stop) as pointer:
            self._check(lib.hd_session_train(pointer, self._context.pointer, on_event if callbacks else ffi.NULL,
                                             ffi.NULL))
        return self.report

    def step(self, steps: int = 1) -> float:
        """Trains `steps` more steps, fewer at the run's end; returns their mean loss, NaN if none was left."""
        if not isinstance(steps, numbers.Integral) or steps < 1:
            raise UsageError(f"step expects a number of steps from 1, found {steps!r}")
        loss = ffi.new("double *")
        with self._busy(self._context.calls.stop if steps > 1 else None) as pointer:
            self._check(lib.hd_session_step(loss, pointer, self._context.pointer, steps))
        return loss[0]

    def _check(self, status: int) -> None:
        """A run that was stopped on request has not failed: report["stopped"]."""
        with contextlib.suppress(StoppedError):
            self._context.check(status)

    @property
    def lr(self) -> float:
        """The learning rate of the next step. Setting it takes effect with that step, and changes later rates of the
        schedule in the same proportion: between calls of step, and in a callback at "epoch" and "eval"."""
        return lib.hd_session_lr(self._open())

    @lr.setter
    def lr(self, value: float) -> None:
        self._context.check(lib.hd_session_set_lr(self._open(), self._context.pointer, float(value)))

    @property
    def done(self) -> bool:
        """Every step has been trained, or the run was stopped."""
        return bool(lib.hd_session_done(self._open())) or self.stopped

    @property
    def steps(self) -> int:
        """Steps trained so far, those before it was resumed included."""
        return lib.hd_session_report(self._open()).steps

    @property
    def stopped(self) -> bool:
        """It was ended by Ctrl-C or stop()."""
        return bool(lib.hd_session_report(self._open()).stopped)

    def stop(self) -> None:
        """Ends a run after its step, with its state saved. From any thread, and from callbacks."""
        if self._end.alive:
            lib.hd_session_stop(self._pointer)

    def go_on(self, run: Run, epochs: int) -> None:
        """Before the first step: takes over the weights of a run's last checkpoint and the state of its optimizer,
        whatever data that was trained on. Samples are shuffled as after `epochs` epochs: sessions of one epoch each on
        the same data train to the bits of one run."""
        with self._busy() as pointer:
            self._context.check(lib.hd_session_go_on(pointer, self._context.pointer, os.fsencode(run.folder), epochs))

    def evaluate(self) -> dict[str, Any]:
        """Evaluates the weights as they are on the test set; returns the report."""
        with self._busy() as pointer:
            self._context.check(lib.hd_session_evaluate(pointer, self._context.pointer))
        return self.report

    def save(self) -> Run:
        """Saves a checkpoint of the weights as they are; returns the run."""
        with self._busy() as pointer:
            self._context.check(lib.hd_session_save(pointer, self._context.pointer))
        return self.run()

    # ---- What it did ----

    @property
    def report(self) -> dict[str, Any]:
        """Settings and results as the last line of `heddle train --json` has them, by the names of hd_report."""
        return _report_of(lib.hd_session_report(self._open()))

    def run(self) -> Run:
        """The run with the checkpoints that have been saved."""
        report = self.report
        return Run(report["out"], context=self._context, model=self._model, report=report,
                   options=self._options, loss=self._functions.get("loss"))


class ReduceOnPlateau:
    """A callback that multiplies the learning rate by `factor` when the watched number of an epoch has not fallen by
    more than `threshold`, a fraction of the best, for more than `patience` epochs, as PyTorch's ReduceLROnPlateau does;
    for accuracies: has not risen.

    `watch`: test_loss, val_loss, test_accuracy or val_accuracy of an event, loss, or a function of it.

    >>> import heddle
    >>> slower = heddle.ReduceOnPlateau("test_loss", patience=0, factor=0.5)
    >>> run = heddle.train("simplenet", "digits", max_steps=3, out=folder, callback=slower)
    """

    def __init__(self, watch: str | Callable[[Event], float] = "val_loss", *, factor: float = 0.1, patience: int = 10,
                 threshold: float = 1e-4, cooldown: int = 0, min_lr: float = 0.0) -> None:
        if not 0 < factor < 1:
            raise UsageError(f"factor expects a number between 0 and 1, found {factor!r}")
        if not callable(watch) and watch not in ("loss", *(f"{part}_{what}" for part in ("test", "val")
                                                           for what in ("loss", "accuracy"))):
            raise UsageError(f"watch expects the name of a number of an epoch, such as 'test_loss', or a function, "
                             f"found {watch!r}")
        self.watch, self.factor, self.patience = watch, factor, patience
        self.threshold, self.cooldown, self.min_lr = threshold, cooldown, min_lr
        self.best, self.stale, self.rests = float("inf"), 0, 0

    def __call__(self, event: Event) -> None:
        if event.kind != "epoch" or event.session.done:
            return
        value = self.watch(event) if callable(self.watch) else getattr(event, self.watch)
        if value != value:
            raise UsageError(f"expected a number as {self.watch} at the end of epoch {event.epoch + 1}, found none; "
                             "watch another, or give val_split")
        if not callable(self.watch) and self.watch.endswith("accuracy"):
            value = -value
        better = value < self.best - self.threshold * abs(self.best) if self.best < float("inf") else True
        self.best, self.stale = (value, 0) if better else (self.best, self.stale + 1)
        if self.rests > 0:
            self.rests, self.stale = self.rests - 1, 0
        if self.stale > self.patience:
            rate = event.session.lr
            lower = max(rate * self.factor, self.min_lr)
            if rate - lower > _LEAST_CHANGE:
                event.session.lr = lower
            self.rests, self.stale = self.cooldown, 0


_LEAST_CHANGE = 1e-8  # of a rate, as PyTorch's eps


def _stopper(pointer: Any) -> Callable[[], None]:
    return lambda: lib.hd_session_stop(pointer)


def _end(pointer: Any, calls: Calls) -> None:
    """Ends a session. Its runs have its context: what fails there later has nothing to stop."""
    calls.stop = lambda: None
    lib.hd_session_destroy(pointer)


_TEXTS = ("const char *", "char *")


def _report_of(report: Any) -> dict[str, Any]:
    """Numbers and texts of hd_report; texts of choices in place of their numbers."""
    result: dict[str, Any] = {}
    for name, field in ffi.typeof("hd_report").fields:
        value = getattr(report, name)
        kind = field.type.kind
        if kind == "primitive":
            result[name] = value
        elif kind == "array" or field.type.cname in _TEXTS:
            result[name] = in_python(text(value)) if name.endswith("_note") else text(value)
    for name, option in (("optimizer", lib.HD_OPT_OPTIMIZER), ("arithmetic", lib.HD_OPT_ARITHMETIC),
                         ("precision", lib.HD_OPT_PRECISION)):
        result[name] = text(lib.hd_choice_name(option, int(getattr(report, name))))
    result["stopped"] = bool(report.stopped)
    return result


@takes_options()
def train(model: Any = None, data: Any = None, *, transforms: Any = None, eval_transforms: Any = None,
          config: Any = None, sample_weight: Any = None, callback: Callbacks = None, progress: bool | None = None,
          **options: Unpack[Options]) -> Run:
    """Trains a model to its end, as the command `heddle train` does with these options; returns the run.

    Arguments are those of heddle.Session, `callback` that of Session.train. `progress` shows a bar; None: in a
    notebook. Ctrl-C ends the run after the step: the run's `stopped` is then true, and its checkpoint is complete.

    >>> import heddle
    >>> run = heddle.train("simplenet", "digits", max_steps=5, out=folder)
    >>> len(run.losses), len(run.digest)
    (5, 64)
    """
    from . import report as _report

    callbacks = _functions(callback)
    with Session(model, data, transforms=transforms, eval_transforms=eval_transforms, config=config,
                 sample_weight=sample_weight, **options) as session:
        with _report.progress(session, progress) as bar:
            session.train(callbacks + bar)
        return session.run()
