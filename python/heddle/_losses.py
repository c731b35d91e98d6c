"""Losses and metrics that are Python functions over arrays: loss(outputs, targets) and metric(outputs, targets), or
metric(y_true, y_pred).

The library calls them on the thread that trains, with the interpreter's lock, for a whole batch or a whole evaluation.
"""
from __future__ import annotations

import inspect
import re
from typing import Any, Callable

import numpy as np

from . import _arrays
from ._library import Context, ShapeError, UsageError, ffi, lib, write_why


def is_function(value: Any) -> bool:
    """Whether an option is a function, or a pair of them: a loss and its gradient."""
    return callable(value) or (isinstance(value, (tuple, list)) and len(value) == 2 and all(map(callable, value)))


def take(options: dict[str, Any]) -> dict[str, Any]:
    """Removes the functions from options, whose values of these names are texts otherwise."""
    found = {name: options.pop(name) for name in ("loss", "metric") if is_function(options.get(name))}
    if isinstance(found.get("metric"), (tuple, list)):
        raise UsageError("metric= expects a function or the name of a metric, found two functions; give one")
    return found


def name_of(function: Any) -> str:
    """The function's name, as a run's record has it."""
    function = function[0] if isinstance(function, (tuple, list)) else function
    name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"\W", "_", name, flags=re.ASCII)[:32] or "function"


def set_functions(context: Context, config: Any, functions: dict[str, Any]) -> None:
    """Gives a configuration a loss and a metric, and keeps them there: it outlives what is made of it."""
    for what, function in functions.items():
        if function is None:
            continue
        call = _loss_of(context, function) if what == "loss" else _metric_of(context, function)
        name = ffi.new("char[]", name_of(function).encode())
        custom = ffi.new("hd_custom_loss *", {"struct_bytes": ffi.sizeof("hd_custom_loss"), "name": name, "loss": call})
        config.kept += [call, name]
        setter = lib.hd_config_set_loss if what == "loss" else lib.hd_config_set_metric
        context.check(setter(config.pointer, context.pointer, custom))


def _array(pointer: Any, shape: tuple[int, ...], kind: Any) -> np.ndarray:
    """A copy that the function may keep."""
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.zeros(shape, kind)
    return np.frombuffer(ffi.buffer(pointer, count * np.dtype(kind).itemsize), kind).reshape(shape).copy()


def _given(call: Any) -> tuple[np.ndarray, np.ndarray]:
    n, k = call.samples, call.width
    outputs = _array(call.outputs, (n, k), np.float32)
    if call.labels:
        return outputs, _array(call.labels, (n,), np.int32)
    return outputs, _array(call.targets, (n, k), np.float32)


def _numbers(value: Any, shape: tuple[int, ...], what: str, kind: Any) -> np.ndarray:
    found = _arrays.as_numpy(value, what)
    if found.dtype.kind not in "fiub":
        raise UsageError(f"expected real numbers as {what}, found {found.dtype}; convert them")
    if found.shape != shape:
        raise ShapeError(f"expected {what} of the shape {shape}, found {found.shape}; return a number for each"
                         + (" sample" if len(shape) == 1 else " output of each sample"))
    return np.ascontiguousarray(found, kind)


def _guarded(context: Context, body: Callable[[Any], None]) -> Any:
    calls = context.calls

    @ffi.callback("int(hd_custom_loss_call const *, char *)", error=1, onerror=calls.escaped)
    def call(c: Any, why: Any) -> int:
        try:
            body(c)
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            calls.caught(error)
            write_why(why, lib.HD_CUSTOM_WHY_BYTES, error)
            return 1

    return call


def _loss_of(context: Context, loss: Any) -> Any:
    value, gradient = loss if isinstance(loss, (tuple, list)) else (loss, None)

    def body(c: Any) -> None:
        outputs, targets = _given(c)
        n, k = outputs.shape
        losses = value(outputs, targets)
        slope = None
        if gradient is not None:
            slope = gradient(outputs, targets) if c.gradient else None
        elif isinstance(losses, tuple):
            if len(losses) != 2:
                raise UsageError(f"expected (losses, gradient) of the loss, found {len(losses)} results; return two")
            losses, slope = losses
        if slope is None and c.gradient:
            raise UsageError("expected (losses, gradient) of the loss, found losses alone; return both, or give two "
                             "functions, loss=(loss, gradient)")
        ffi.memmove(c.loss, _numbers(losses, (n,), "the losses", np.float64), 8 * n)
        if c.gradient:
            ffi.memmove(c.gradient, _numbers(slope, (n, k), "the gradient", np.float32), 4 * n * k)

    return _guarded(context, body)


def _targets_first(metric: Any) -> bool:
    """Whether a metric has its parameters in the order of scikit-learn's: metric(y_true, y_pred)."""
    try:
        return next(iter(inspect.signature(metric).parameters), "") == "y_true"
    except (TypeError, ValueError):  # of a function in C
        return False


def _metric_of(context: Context, metric: Any) -> Any:
    order = slice(None, None, -1 if _targets_first(metric) else 1)

    def body(c: Any) -> None:
        c.loss[0] = _numbers(metric(*_given(c)[order]), (), "the metric", np.float64).item()

    return _guarded(context, body)
