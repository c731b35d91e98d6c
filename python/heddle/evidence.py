"""Runs as evidence: repeating one and comparing it with what it claims, and finding where two runs part."""
from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import Any

from . import data as _data
from ._interrupt import stopped_by_ctrl_c
from ._library import Config, Context, UnsupportedError, UsageError, ffi, lib, record_of, text
from ._options import check_names, in_python, takes_options
from .run import Run

_LAYOUT = ("threads", "stages", "schedule_stages", "cpus", "placement", "accumulate", "workers", "device", "cache",
           "data_dir")
_VERDICTS = {lib.HD_VERIFIED: "verified", lib.HD_REFUTED: "refuted", lib.HD_NOT_COMPARABLE: "not comparable"}
_BISECTED = {lib.HD_RUNS_EQUAL: "equal", lib.HD_RUNS_DIFFER: "differ", lib.HD_RUN_NOT_REPEATED: "not repeated",
             lib.HD_RUNS_NOT_COMPARABLE: "not comparable"}


@dataclass(frozen=True)
class Verification:
    """What repeating a run has shown."""

    verdict: str  # "verified", "refuted" or "not comparable"
    steps: int  # repeated
    step: int  # refuted: the first step that differs, from 1; 0: none does, or something else differs
    seed: int  # of the drawn segments; -1: the whole run was repeated
    why: str  # of another verdict than "verified"
    weights_sha256: str  # that the run claims


@dataclass(frozen=True)
class Bisection:
    """Where two runs part."""

    verdict: str  # "equal", "differ", "not repeated" or "not comparable"
    loss_step: int  # the first step whose losses differ; 0: none
    step: int  # of the first result that differs, from 1; 0: the weights before the first step
    result: int  # its number in that step
    what: str  # what computed it: "conv1 forward", "conv1.weight, update"
    index: str  # its first element that differs, "[3, 12, 5, 7]"; the first is the sample
    a: float  # that element in both runs,
    b: float
    ulps: int  # and their distance in units in the last place; -1: they are no floats
    replays: int  # how often a run was repeated, from the step `from_step` on
    from_step: int
    planted: str  # the fault of `inject`
    settings: str  # the first setting that differs
    why: str


class _Repeat:
    """A call that repeats runs, with its context, its settings and Ctrl-C."""

    def __init__(self, runs: tuple[Any, ...], data: Any, options: dict[str, Any], *, files: bool = True) -> None:
        self.context, self.stopped, self.folder = Context(), False, None
        known = [run._context.data for run in runs if isinstance(run, Run)]
        data = _data.join_heads(data, next((run for run in runs if isinstance(run, Run)), None))
        data = data if data is not None else next((each for each in known if each is not None), None)
        if not files and _data.is_set(data):
            data = _data.add(self.context, data)
        elif data is not None and not isinstance(data, (str, os.PathLike)):  # repeated from files
            self.folder = tempfile.TemporaryDirectory(prefix="heddle-")
            _data.write(data, self.folder.name)
            _data.add(self.context, data)  # what reads the run's record finds it by its name there
            data = self.folder.name
        for run in runs:
            _check_record(run, data)
        self.config = Config(self.context, {"data": data, **options})
        self.step_done = ffi.callback("int(void *, int64_t, int64_t)", lambda *_: int(self.stopped))

    def stop(self) -> None:
        self.stopped = True

    def call(self, function: Any, out: Any, request: Any) -> None:
        try:
            with stopped_by_ctrl_c(self.stop):
                status = function(out, self.context.pointer, self.config.pointer, request)
        finally:
            if self.folder is not None:
                self.folder.cleanup()
        if self.stopped and status == lib.HD_E_INTERRUPTED:
            raise KeyboardInterrupt
        self.context.check(status)


def _check_record(run: Any, data: Any) -> None:
    """Arrays and functions of the program are in no folder."""
    folder = run.folder if isinstance(run, Run) else run
    try:
        record = Run(folder)._record() if folder is not None and os.path.isdir(folder) else None
        settings = record["settings"] if record else {}
    except (OSError, ValueError, KeyError):
        return  # the library says what is wrong with it
    if record and data is None and record["data"]["name"] == _data.NAME:
        raise UsageError(f"{folder}: expected data=, since that run was trained on arrays or on a data set in Python, "
                         "found none; give the same data")
    for name in ("transforms", "eval_transforms", "eval-transforms"):
        if "python_" in str(settings.get(name, "")):
            raise UnsupportedError(f"{folder}: expected a run without transforms in Python, found some, which its "
                                   "files do not have; train it again to compare digests")


def _folder(run: Any) -> Any:
    return ffi.new("char[]", os.fsencode(run.folder if isinstance(run, Run) else run))


@takes_options(*_LAYOUT)
def verify(run: Any, data: Any = None, *, spot: int | None = None, seed: int | None = None,
           **options: Any) -> Verification:
    """Repeats a run, a Run, its folder or its certificate, on any layout, and compares losses, checkpoints and results.

    `spot`: repeats so many segments between checkpoints, drawn with `seed`, in place of the whole run. `data`: the
    run's data, where they are not where they were; arrays for a run on arrays.

    >>> import heddle
    >>> run = heddle.train("simplenet", "digits", max_steps=3, out=folder)
    >>> heddle.verify(run, threads=1).verdict
    'verified'
    """
    check_names(options, _LAYOUT, "heddle.verify")
    if spot is not None and not (isinstance(spot, int) and 1 <= spot <= 1000):
        raise UsageError(f"spot= expects 1 to 1000 segments, found {spot!r}; leave it out for the whole run")
    if seed is not None and (spot is None or not 0 <= seed <= 2**53):
        raise UsageError(f"seed= expects a whole number from 0, with spot=, found {seed} "
                         + ("without; give both" if spot is None else "with it"))
    repeat, what = _Repeat((run,), data, options, files=False), _folder(run)
    request = ffi.new("hd_verify_request *", {"what": what, "spot": spot or 0, "seed": -1 if seed is None else seed,
                                              "progress": repeat.step_done})
    out = ffi.new("hd_verification *", {"struct_bytes": ffi.sizeof("hd_verification")})
    request.struct_bytes = ffi.sizeof("hd_verify_request")
    repeat.call(lib.hd_verify, out, request)
    return Verification(**{**record_of(out), "verdict": _VERDICTS[out.verdict], "why": in_python(text(out.why))})


def bisect(a: Any, b: Any = None, data: Any = None, *, data_dir: Any = None, tolerance: float | None = None,
           inject: tuple[int, ...] | None = None) -> Bisection:
    """Finds the first result of any step in which two runs, or their folders, differ.

    `b` may be a file of another program's results, equal up to `tolerance`, 0.001 by default. With
    `inject=(step, result, element)` in place of `b`, run `a` is compared with itself, with one element changed by one
    unit in the last place.

    >>> import heddle
    >>> run = heddle.train("simplenet", "digits", max_steps=3, out=folder)
    >>> found = heddle.bisect(run, inject=(2, 1, 5))
    >>> found.verdict, found.step, found.ulps
    ('differ', 2, 1)
    """
    if (b is None) == (inject is None):
        raise UsageError("expected two runs, or one and inject=, found " + ("one" if b is None else "both")
                         + "; give one of them")
    if tolerance is not None and not 0 < tolerance < float("inf"):
        raise UsageError(f"tolerance= expects a number above 0, found {tolerance}; leave it out for 0.001")
    if inject is not None:
        place = list(inject) if isinstance(inject, (tuple, list)) else []
        if not 1 <= len(place) <= 3 or not all(isinstance(n, int) for n in place) or place[0] < 1 or min(place) < 0:
            raise UsageError(f"inject= expects (STEP, RESULT, ELEMENT), whole numbers, found {inject!r}; the first "
                             "step is 1, the first result and its first element 0")
        place += [0] * (3 - len(place))
    repeat = _Repeat((a, b), data, {"data_dir": data_dir})
    if inject is not None and repeat.folder is not None:
        repeat.folder.cleanup()
        raise UnsupportedError("inject= expects a run on a data set with a name, found one on arrays or on a data set "
                               "in Python; plant the fault in a run on 'digits'")
    names = [_folder(a), ffi.NULL if b is None else _folder(b)]
    request = ffi.new("hd_bisect_request *", {"a": names[0], "b": names[1], "progress": repeat.step_done,
                                              "tolerance": tolerance or 0})
    request.struct_bytes = ffi.sizeof("hd_bisect_request")
    if inject is not None:
        request.fault.step, request.fault.result, request.fault.element = place
    out = ffi.new("hd_bisection *", {"struct_bytes": ffi.sizeof("hd_bisection")})
    repeat.call(lib.hd_bisect, out, request)
    found = record_of(out)
    del found["results"]
    found.update(why=in_python(found["why"]), verdict=_BISECTED[out.verdict], from_step=found.pop("from"),
                 a=out.value[0], b=out.value[1])
    return Bisection(**found)
