"""Sweeps: many runs that differ in some settings, side by side."""
from __future__ import annotations

import filecmp
import os
import pathlib
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from . import data as _data
from ._interrupt import stopped_by_ctrl_c
from ._library import Config, Context, UnsupportedError, UsageError, ffi, lib, record_of, text, tools
from ._options import add_model, check_names, takes_options
from .run import Run

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._option_types import Options


@dataclass(frozen=True)
class SweepRun:
    """A run of a sweep."""

    folder: pathlib.Path
    settings: dict[str, str]  # what varies, as text
    state: str  # "done", "dropped" (by halving), "failed" (a value was not finite) or "pending"
    metric: float  # NaN: none


@dataclass(frozen=True)
class SweepGroup:
    """Runs that differ in seed and fold alone."""

    settings: dict[str, str]
    n: int  # those that are done
    mean: float  # of the metric
    deviation: float  # NaN for one run, as are the bounds of the mean's 95 % confidence interval
    low: float
    high: float


@dataclass(frozen=True)
class SweepResult:
    """The results of heddle.sweep, the best first."""

    folder: pathlib.Path  # also holds table.csv and summary.csv
    metric: str
    runs: list[SweepRun] = field(repr=False)
    groups: list[SweepGroup]
    table_sha256: str  # the same for any number of jobs, processes and interruptions

    @property
    def best(self) -> Run:
        """The run with the best metric, to predict with."""
        done = [run for run in self.runs if run.state == "done"]
        if not done:
            raise UsageError(f"expected a run of {self.folder} that is done, found none; see their states")
        return Run(done[0].folder)


def _values(key: str, values: Any) -> str:
    """What is swept as the command has it: "lr=0.1,0.01", "seed=0..9", "lr=log(1e-4,1e-1)"."""
    if isinstance(values, str):
        return f"{key}={values}"
    if isinstance(values, range) and values.step == 1 and len(values) > 1:
        return f"{key}={values.start}..{values.stop - 1}"
    if not hasattr(values, "__iter__"):
        raise UsageError(f"expected the values of {key}, a list or a text, found {values!r}; write [{values!r}]")
    texts = [str(value).lower() if type(value).__name__ in ("bool", "bool_") else str(value) for value in values]
    if not texts:
        raise UsageError(f"expected the values of {key}, found none; write [{key.upper()}]")
    if any("," in each for each in texts):
        raise UsageError(f"expected values of {key} without commas, found {texts!r}; run these by themselves")
    return f"{key}={','.join(texts)}"


def _vary(vary: Any) -> list[str]:
    if vary is None:
        return []
    if isinstance(vary, Mapping):
        return [_values(key.replace("_", "-"), values) for key, values in vary.items()]
    return [os.fspath(each) for each in ([vary] if isinstance(vary, (str, os.PathLike)) else vary)]


@takes_options()
def sweep(vary: Mapping[str, Any] | Sequence[str] | str | os.PathLike[str] | None, model: Any = None, data: Any = None,
          *, draws: int | None = None, folds: int | None = None, halving: int | None = None,
          rank_by: str | None = None, jobs: int | None = None, transforms: Any = None, eval_transforms: Any = None,
          config: Any = None, **options: Unpack[Options]) -> SweepResult:
    """Trains a run for each combination of values, several at a time, in the folder `out`.

    `vary`: {"lr": [0.1, 0.01], "seed": range(10)}; with `draws`, random ones such as {"lr": "log(1e-4,1e-1)"}; a YAML
    file; None: goes on with what the folder holds. Arrays and data sets in Python are written to the folder OUT-data,
    the first weights of a PyTorch module to the file OUT-init.safetensors.
    `folds`: each run once for every one of so many parts of the training set, its test set. `halving`: runs all with
    few steps, the best 1/K with K times as many, and so on. `rank_by`: test_accuracy, test_loss, val_accuracy, val_loss
    or train_loss. `jobs`: runs side by side, by default one for each CPU. Ctrl-C saves the runs; the same call goes on
    with them.

    >>> import heddle
    >>> found = heddle.sweep({"lr": [0.1, 0.001]}, "simplenet", "digits", max_steps=20, jobs=2, out=folder)
    >>> len(found.runs), found.runs[0].state, sorted(group.n for group in found.groups)
    (2, 'done', [1, 1])
    """
    check_names(options, of="heddle.sweep")
    for each in (transforms, eval_transforms):
        if isinstance(each, (list, tuple)) and any(callable(t) for t in each):
            raise UnsupportedError("expected transforms of the library in a sweep, whose runs any process may "
                                   "continue, found a function; train these runs one by one")
    for name, number in (("draws", draws), ("folds", folds), ("halving", halving), ("jobs", jobs)):
        least = 1 if name in ("draws", "jobs") else 2
        if number is not None and not (isinstance(number, (int, np.integer)) and number >= least):
            raise UsageError(f"{name}= expects a whole number from {least}, found {number!r}; give more, or none")
    context = Context()
    given = add_model(model, {**options, "config": config, "transforms": _data.add_transforms(context, transforms),
                               "eval_transforms": _data.add_transforms(context, eval_transforms)})
    keys = _vary(vary)
    settings = Config(context, {**given, "data": _files_of(_data.join_heads(data, model), given.get("out"))})
    if hasattr(model, "options") and options.get("init") is None:
        settings.set("init", _first_weights_of(settings.get("init"), settings.get("out")))
    if _data.is_rows(data) and settings.get("normalize") == "auto" and not settings.get("transforms"):
        if not any(key.startswith(("normalize", "transforms")) for key in keys):
            settings.set("normalize", "channel")  # as heddle.train does it: rows of a file are normalised per column
    texts = [ffi.new("char[]", os.fsencode(each)) for each in keys]
    array = ffi.new("char *[]", [*texts, ffi.NULL])
    folder = ffi.new("char[]", settings.get("out").encode())
    metric = ffi.NULL if rank_by is None else ffi.new("char[]", rank_by.encode())
    request = ffi.new("hd_sweep_request *", {"folder": folder, "vary": array, "draws": draws or 0,
                                             "halving": halving or 0, "metric": metric, "jobs": jobs or 0,
                                             "folds": folds or 0})
    request.struct_bytes = ffi.sizeof("hd_sweep_request")
    pointer = context.make("hd_sweep", tools().hd_sweep_create, settings.pointer, request)
    try:
        with stopped_by_ctrl_c(lambda: tools().hd_sweep_stop(pointer)):
            status = tools().hd_sweep_run(pointer, context.pointer)
        if status == lib.HD_E_INTERRUPTED and context.calls.failure is None:
            raise KeyboardInterrupt
        context.check(status)
        return _result(pointer)
    finally:
        tools().hd_sweep_destroy(pointer)


def _files_of(data: Any, out: Any) -> Any:
    """Data of the program as files beside the runs, which read them in any process; other data as they are."""
    if data is None or isinstance(data, (str, os.PathLike)):
        return data
    if out is None:
        raise UsageError("a sweep expects out=DIR, the folder of its runs, found none; add it")
    folder = pathlib.Path(f"{os.fspath(out)}-data").absolute()
    with tempfile.TemporaryDirectory(prefix=folder.name, dir=_made(folder.parent)) as new:
        _data.write(data, new)
        if not folder.exists():
            os.mkdir(folder)
            for path in pathlib.Path(new).iterdir():
                path.rename(folder / path.name)
        elif {p.name: p.read_bytes() for p in folder.iterdir()} != {p.name: p.read_bytes()
                                                                    for p in pathlib.Path(new).iterdir()}:
            raise UsageError(f"{folder}: expected the data of this sweep, found others; choose another out, or remove "
                             "that folder")
    return folder


def _first_weights_of(file: str, out: str) -> str:
    """The path of a module's first weights: a file beside the runs, from which any process can continue the sweep.
    Without `out` the library refuses the sweep."""
    if not out:
        return file
    kept = pathlib.Path(f"{out}-init.safetensors").absolute()
    if not kept.exists() or not pathlib.Path(out, "sweep.json").exists():  # else: of none, or one that was removed
        with tempfile.TemporaryDirectory(prefix=kept.name, dir=_made(kept.parent)) as new:
            os.rename(shutil.copy(file, new), kept)
    elif not filecmp.cmp(file, kept, shallow=False):
        raise UsageError(f"{kept}: expected the first weights of this sweep, found others; choose another out, or "
                         "remove that file")
    return str(kept)


def _made(folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _result(pointer: Any) -> SweepResult:
    report = tools().hd_sweep_result(pointer)
    keys = [text(lib.hd_option_at(report.key[k]).name).replace("-", "_") for k in range(report.keys)]

    def settings(run: int, repeats: bool) -> dict[str, str]:
        return {key: text(tools().hd_sweep_value(pointer, run, k)) for k, key in enumerate(keys)
                if repeats or not tools().hd_sweep_repeats(report.key[k])}

    folder = pathlib.Path(text(report.folder))
    runs = [SweepRun(folder / f"run-{i + 1:04d}", settings(i, True),
                     text(tools().hd_sweep_state_name(report.run[i].state)), report.run[i].metric)
            for i in report.order[0:report.runs]]
    groups = []
    for g in range(report.groups):
        numbers = record_of(report.group[g])
        groups.append(SweepGroup(settings(numbers.pop("first"), False), **numbers))
    return SweepResult(folder, text(report.metric), runs, groups, text(report.table_sha256))
