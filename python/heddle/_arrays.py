"""Arrays of the caller in the form in which the library reads them, without a copy where they have it already.

Samples are uint8 or float32, C-contiguous, (N, C, H, W); labels int32 (N); targets float32 (N, K). Whatever has
__array__ or __dlpack__ (NumPy, PyTorch on the CPU, JAX) is taken.
"""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ._library import FormatError, ShapeError, UsageError, ffi

FEW_CHANNELS, MAX_CHANNELS = 4, 64
MAX_LABEL = 65535
WEIGHTS = (1e-18, 1e18)  # the least and the largest, beside 0


def check_mask(array: Any, what: str) -> None:
    """Refuses masked numbers: what is behind the mask is not meant to be read."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise FormatError(f"expected numbers as {what}, found a masked array; give {what}.filled(VALUE), or leave "
                          "these samples out")


def as_numpy(array: Any, what: str) -> np.ndarray:
    """Any array as NumPy's, sharing memory where it can."""
    if isinstance(array, np.ndarray):
        check_mask(array, what)
        return np.asarray(array)  # a matrix has no other shapes
    if hasattr(array, "detach"):  # PyTorch refuses tensors that need gradients
        array = array.detach()
    try:
        result = np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise UsageError(f"expected an array of numbers as {what}, found {type(array).__name__} ({error}); "
                         "convert it with numpy.asarray") from error
    return result


def _numbers(array: Any, what: str) -> np.ndarray:
    result = as_numpy(array, what)
    if result.dtype.kind not in "buif":
        raise UsageError(f"expected numbers as {what}, found dtype {result.dtype}; convert it with astype")
    return result


def _channel_axis(shape: tuple[int, ...], what: str) -> int:
    """The first of the axes before and behind the sides that has 1 to 4 elements; or of more channels the one beside
    equal sides, or that which is smaller than both."""
    first, middle, last = shape[1:]
    axis = 0
    if min(first, last) <= FEW_CHANNELS:
        axis = 1 if first <= FEW_CHANNELS else 3
    elif middle in (1, last):  # a signal, or a square
        axis = 1
    elif first == middle:
        axis = 3
    elif min(first, last) < middle and first != last:
        axis = 1 if first < last else 3
    if axis == 0 or shape[axis] > MAX_CHANNELS:
        raise ShapeError(f"expected 1 to {MAX_CHANNELS} channels in {what}, first or last, fewer than rows and "
                         f"columns, found {shape}; reshape it")
    return axis


def samples(x: Any, what: str = "x") -> np.ndarray:
    """Samples as (N, C, H, W), from (N, C, H, W), (N, H, W, C), (N, H, W), (N, F) or (N).

    >>> samples(np.zeros((5, 28, 28), np.uint8)).shape
    (5, 1, 28, 28)
    >>> samples(np.zeros((5, 8, 8, 3))).shape
    (5, 3, 8, 8)
    """
    x = _numbers(x, what)
    if not 1 <= x.ndim <= 4 or 0 in x.shape:
        raise ShapeError(f"expected {what} of the shape (N, C, H, W), (N, H, W) or (N, F) and not empty, "
                         f"found {x.shape}; reshape it")
    if x.ndim == 4:
        x = np.moveaxis(x, _channel_axis(x.shape, what), 1)
    x = x.reshape({1: (-1, 1, 1, 1), 2: (len(x), 1, 1, -1), 3: (len(x), 1, *x.shape[1:])}.get(x.ndim, x.shape))
    return _as_float32(x)


def _as_float32(array: np.ndarray) -> np.ndarray:
    """Bytes as they are; what float32 cannot hold becomes infinity, which the library refuses by name."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.uint8 if array.dtype == np.uint8 else np.float32)


def warn_of_rounding(x: Any, std: Any = None, stacklevel: int = 3, names: Any = None) -> None:
    """Warns of columns of rows (N, F) that lose more as float32 than a thousandth of their standard deviation, which is
    that of x unless `std` has it. `names`: of the columns, where they have some.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warn_of_rounding(np.array([[1.7e9, 1], [1.7e9 + 60, 2]]))
    >>> print(caught[0].message)
    expected numbers that float32 can tell apart in column 0 of x, found some that change by up to 60, of a standard \
deviation of 30; subtract a constant from it, such as its mean
    """
    if not isinstance(x, np.ndarray) or x.ndim != 2 or x.dtype.kind not in "iuf" or x.dtype.itemsize < 4:
        return
    if x.dtype == np.float32 or 0 in x.shape:
        return
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        lost = np.abs(wide - wide.astype(np.float32)).max(0)
        std = wide.std(0) if std is None else np.asarray(std, np.float64)
        bad = np.flatnonzero(np.isfinite(lost) & (lost > 1e-3 * std)) if std.shape == lost.shape else []
    if len(bad):
        column, named = bad[0], "" if names is None else f" ({names[bad[0]]!r})"
        warnings.warn(f"expected numbers that float32 can tell apart in column {column}{named} of x, found some that "
                      f"change by up to {lost[column]:.6g}, of a standard deviation of {std[column]:.6g}; subtract a "
                      "constant from it, such as its mean", stacklevel=stacklevel)


NO_CLASS = 255  # of a pixel


def _masks(y: np.ndarray, what: str) -> np.ndarray:
    """The class of each pixel as uint8 (N, H, W); 255, and PyTorch's -100, are none.

    >>> _masks(np.array([[[0, 2, -100]]]), "y").tolist()
    [[[0, 2, 255]]]
    """
    if y.dtype.kind == "f":
        raise FormatError(f"expected integers as classes of pixels in {what} (N, H, W), found {y.dtype}; convert it "
                          "with astype")
    bad = y[(y != -100) & ((y < 0) | (y > NO_CLASS))] if y.dtype != np.uint8 else ()
    if len(bad):
        raise FormatError(f"expected classes of pixels from 0 to {NO_CLASS - 1}, or -100 or {NO_CLASS} for none, in "
                          f"{what}, found {bad[0]}; number the classes from 0")
    return np.ascontiguousarray(y if y.dtype == np.uint8 else np.where(y < 0, NO_CLASS, y), np.uint8)


def labels(y: Any, count: int, what: str = "y") -> np.ndarray:
    """Labels as int32 (N), if they are integers, or of pixels as uint8 (N, H, W); else targets as float32 (N, K)."""
    y = _numbers(y, what)
    if y.ndim not in (1, 2, 3) or 0 in y.shape:
        raise ShapeError(f"expected {what} of the shape (N), (N, K) or (N, H, W) and not empty, found {y.shape}; "
                         "reshape it")
    if len(y) != count:
        raise ShapeError(f"expected {count} labels in {what}, one for each sample, found {len(y)}; "
                         "the arrays do not belong together")
    if y.ndim == 3:
        return _masks(y, what)
    if y.dtype.kind != "f" and y.size == count:
        y = y.reshape(count)
        if y.min() < 0 or y.max() > MAX_LABEL:
            raise FormatError(f"expected class labels from 0 to {MAX_LABEL} in {what}, found "
                              f"{y.min() if y.min() < 0 else y.max()}; number the classes from 0, or give numbers to "
                              "predict as floats")
        return np.ascontiguousarray(y, np.int32)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(y.reshape(count, -1), np.float32)


def weights(w: Any, count: int, what: str = "sample_weight") -> np.ndarray:
    """Weights of samples as float32 (N).

    >>> weights([1, 0, 2.5], 3).tolist()
    [1.0, 0.0, 2.5]
    """
    w = _numbers(w, what)
    if w.shape != (count,):
        raise ShapeError(f"expected {count} weights in {what}, one for each sample, found the shape {w.shape}; "
                         "the arrays do not belong together")
    w = w.astype(np.float64)
    bad = np.flatnonzero(~((w == 0) | ((w >= WEIGHTS[0]) & (w <= WEIGHTS[1]))))
    if len(bad):
        raise FormatError(f"expected weights of 0, or from {WEIGHTS[0]:g} to {WEIGHTS[1]:g}, in {what}, found "
                          f"{w[bad[0]]:g} for sample {bad[0]}; correct it")
    if not w.any():
        raise FormatError(f"expected a weight above 0 in {what}, found only zeros; change one")
    return np.ascontiguousarray(w, np.float32)


def pointer(kind: str, array: np.ndarray) -> Any:
    """The array's memory, for a call; the array must outlive it."""
    return ffi.cast(kind + " *", array.ctypes.data)
