"""The C library: finding and opening it; its texts, and errors as exceptions."""
from __future__ import annotations

import functools
import os
import pathlib
from typing import Any

from ._ffi import ffi


class Error(Exception):
    """A failure that the library reports: one line with what was expected, what was found and what to do."""


class UsageError(Error, ValueError):
    """A setting or an argument is out of range or contradicts another."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed."""


class FileError(Error, OSError):
    """A file or a sample could not be read or written."""


class FormatError(Error, ValueError):
    """The content of a file or an array violates its format."""


class ShapeError(Error, ValueError):
    """Shapes do not fit each other."""


class NotFiniteError(Error, ArithmeticError):
    """A loss, a gradient or a weight is not finite; the last good checkpoint is untouched."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but this build or this machine cannot do it."""


class StoppedError(Error):
    """Stopped on request, state saved."""


class MachineError(Error, RuntimeError):
    """Threads, memory mapping or another service of the system failed, or a time limit was exceeded."""


_SONAME = "libheddle.so.0"  # what these declarations fit


def _library_path() -> str:
    """The library of $HEDDLE_LIBRARY, else the one inside of the package, else the system's."""
    here = pathlib.Path(__file__).parent
    return os.environ.get("HEDDLE_LIBRARY") or next(map(str, here.glob("libheddle.so*")), _SONAME)


def _open_library(path: str) -> Any:
    try:
        return ffi.dlopen(path, os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise ImportError(f"expected {os.path.basename(path)} in {pathlib.Path(__file__).parent} or among the "
                          f"system's libraries, found {error}; install heddle, or set HEDDLE_LIBRARY to the path of "
                          "libheddle.so") from None


library_path = _library_path()
lib = _open_library(library_path)


@functools.lru_cache(maxsize=None)
def tools() -> Any:
    """The library that measures and sweeps, beside the other; opened when it is needed."""
    folder, name = os.path.split(library_path)
    return _open_library(os.path.join(folder, name.replace("libheddle", "libheddle-tools", 1)))


def text(pointer: Any) -> str:
    """A C string, "" for NULL."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""


def version() -> str:
    """The version of the library that runs.

    >>> import heddle
    >>> heddle.version().count(".")
    2
    """
    return text(lib.hd_version())
