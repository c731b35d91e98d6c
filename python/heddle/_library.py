"""Contexts of the C library, settings and records.

A context holds what the program adds to the library (data sets, transforms), and keeps those Python objects alive that
the library calls. Calls into the library run without the interpreter's lock.
"""
from __future__ import annotations

import json
import os
import weakref
from typing import Any, Callable

from ._binding import (Error, FileError, FormatError, MachineError, NotFiniteError, OutOfMemoryError, ShapeError,
                       StoppedError, UnsupportedError, UsageError, ffi, lib, library_path, text, tools, version)
from ._options import in_python

_ERRORS = {lib.HD_E_USAGE: UsageError, lib.HD_E_NOMEM: OutOfMemoryError, lib.HD_E_IO: FileError,
           lib.HD_E_FORMAT: FormatError, lib.HD_E_SHAPE: ShapeError, lib.HD_E_NOTFINITE: NotFiniteError,
           lib.HD_E_UNSUPPORTED: UnsupportedError, lib.HD_E_INTERRUPTED: StoppedError,
           lib.HD_E_SYSTEM: MachineError, lib.HD_E_TIMEOUT: MachineError, lib.HD_E_PEER: MachineError}


class Calls:
    """What Python code that the library calls leaves behind: the first exception. `stop` ends the run at hand."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self.stop: Callable[[], None] = lambda: None

    def caught(self, failure: BaseException) -> None:
        self.failure = self.failure or failure

    def interrupt(self) -> None:
        """Ctrl-C: the next call of a data set fails."""
        self.failure = KeyboardInterrupt()

    def escaped(self, _: Any, failure: BaseException, __: Any) -> None:
        """For cffi: an exception that a callback did not catch, of Ctrl-C before its first line."""
        self.caught(failure)


class Context:
    """A context of the library. It ends when nothing made with it is left."""

    def __init__(self) -> None:
        out = ffi.new("hd_ctx **")
        if lib.hd_ctx_create(out) != lib.HD_OK:
            raise OutOfMemoryError("expected memory for a context, found none; close other programs")
        self.pointer = out[0]
        self.calls = Calls()
        self.data: Any = None  # of the program, under the name that run.json has
        self.functions = False  # whether transforms are functions of the program
        self.kept: list[Any] = []  # what the library may call or read as long as the context exists; not the context
        weakref.finalize(self, _end_context, self.pointer, self.kept)

    def check(self, status: int) -> None:
        """Raises a status as an exception, and what Python code raised during the call."""
        cause, self.calls.failure = self.calls.failure, None
        if cause is not None and (status in (lib.HD_OK, lib.HD_E_INTERRUPTED) or not isinstance(cause, Exception)):
            raise cause
        if status != lib.HD_OK:
            raise _ERRORS.get(status, Error)(self.message()) from cause

    def message(self) -> str:
        """That of the last failure, or a note that a call has left."""
        return in_python(text(lib.hd_ctx_message(self.pointer)))

    def make(self, kind: str, create: Any, *arguments: Any) -> Any:
        """A new object by create(out, ctx, ...). What Python code raised while it was made none the less, a data set
        that is read ahead for example, is raised by the call that it fails."""
        out = ffi.new(kind + " **")
        status = create(out, self.pointer, *arguments)
        if status != lib.HD_OK:
            self.check(status)
        return out[0]


def _end_context(pointer: Any, kept: list[Any]) -> None:
    lib.hd_ctx_destroy(pointer)
    kept.clear()


class Config:
    """Settings, by the names of the command's options; it ends with the object."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self.context = context
        self.kept: list[Any] = []  # what the library calls as long as something made of the settings exists
        self.pointer = context.make("hd_config", lib.hd_config_create)
        weakref.finalize(self, lib.hd_config_destroy, self.pointer)
        file = options.pop("config", None)
        for name, value in options.items():
            if value is not None:
                self.set(name, value)
        if file is not None:
            context.check(lib.hd_config_load(self.pointer, context.pointer, os.fsencode(file)))

    def set(self, name: str, value: Any) -> None:
        self.context.check(lib.hd_config_set(self.pointer, self.context.pointer, name.encode(), _as_text(value)))

    def get(self, name: str) -> str:
        return text(lib.hd_config_get(self.pointer, name.encode()))


def _as_text(value: Any) -> bytes:
    """A value as it is typed behind an option: True as "true", (0.9, 0.99) as "0.9,0.99", rules as JSON."""
    if type(value).__name__ in ("bool", "bool_"):  # NumPy's too
        return b"true" if value else b"false"
    if isinstance(value, os.PathLike):
        return os.fsencode(value)
    if isinstance(value, dict) or (isinstance(value, (tuple, list)) and any(isinstance(v, dict) for v in value)):
        return json.dumps(value).encode()
    if isinstance(value, (tuple, list)):
        return b",".join(_as_text(v) for v in value)
    result = str(value).encode()
    if b"\0" in result:
        raise UsageError("expected a text without NUL characters as the value of an option, found one; leave it out")
    return result


def write_why(why: Any, size: int, error: BaseException) -> None:
    """Says in an array of characters of the library's what a function in Python raised."""
    text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:size - 1]
    ffi.memmove(why, text + b"\0", len(text) + 1)


def record_of(struct: Any) -> dict[str, Any]:
    """Numbers and texts of a struct of the library's, by their names there."""
    kind = ffi.typeof(struct)
    fields = (kind.item if kind.kind == "pointer" else kind).fields
    result: dict[str, Any] = {}
    for name, field in fields:
        of = field.type
        if of.kind in ("primitive", "enum") and name != "struct_bytes":
            result[name] = getattr(struct, name)
        elif of.cname in ("const char *", "char *") or (of.kind == "array" and of.item.cname == "char"):
            result[name] = text(getattr(struct, name))
    return result
