"""The program heddle, the real one: where it is, what it was built with, and its pages."""
from __future__ import annotations

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any, NoReturn

from ._library import Error, UnsupportedError, library_path, version


def find() -> str | None:
    """The program of $HEDDLE_PROGRAM, else the one inside of the package, else that of PATH."""
    own = pathlib.Path(__file__).parent / "bin" / "heddle"
    return os.environ.get("HEDDLE_PROGRAM") or (str(own) if own.exists() else shutil.which("heddle"))


@functools.lru_cache(maxsize=None)
def path() -> str:
    """The same; it must be of the library's version."""
    program = find()
    if program is None:
        raise UnsupportedError("expected the program heddle in the package or in PATH, found none; install heddle's "
                               "wheel, or set HEDDLE_PROGRAM to its path")
    found = _version_text(program).partition("\n")[0].rpartition(" ")[2]
    if found != version():
        raise UnsupportedError(f"expected heddle {version()} as the library's, found {found or 'no version'} of "
                               f"{program}; set HEDDLE_PROGRAM to that of the library")
    return program


def _version_text(program: str) -> str:
    try:
        return subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=False, text=True).stdout
    except OSError as error:
        raise UnsupportedError(f"expected the program {program}, found {error.strerror}; install heddle's wheel "
                               "again") from error


def run(*words: Any) -> str:
    """Runs a command; returns what it prints. A failure is the exception, with the command's line."""
    done = subprocess.run([path(), *map(os.fspath, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Error(re.sub("^heddle: ", "", lines[-1]))
    return done.stdout


def main() -> NoReturn:
    """Becomes the program, with this process's arguments."""
    program = find()
    try:
        if program is None:
            raise FileNotFoundError(2, "none in the package or in PATH")
        sys.stdout.flush()
        os.execv(program, ["heddle", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"heddle: expected the program {program or 'heddle'}, found {error.strerror}; install heddle's wheel")


def build_info() -> dict[str, Any]:
    """What this heddle is: its version, the paths of the library and the program, and what they were built with and
    without, such as "JPEG pictures" and "ONNX files". `program` is None, and so are the lists, where only the library
    is installed.

    >>> import heddle
    >>> heddle.build_info()["version"] == heddle.__version__
    True
    """
    info: dict[str, Any] = {"version": version(), "library": library_path, "program": None, "built_with": None,
                            "left_out": None}
    if find() is None:
        return info
    info["program"] = path()
    lines = dict(re.findall(r"^(built with|left out) +(.*)$", _version_text(path()), re.M))
    for key, name in (("built_with", "built with"), ("left_out", "left out")):
        info[key] = [part for part in re.split(r", (?![^(]*\))", lines.get(name, "")) if part]
    return info
