"""What the tests in Python share: functions test_... as TAP, a folder that goes at the end, and refuses()."""
from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import traceback

folder = tempfile.mkdtemp(prefix="heddle-python-")
count = 0


depth = int(os.environ.get("HD_DEPTH") or 1)  # 1: make check, 2: make check-all


class Skipped(Exception):
    """Raised by a test that says why it does not run."""


def path(name: str) -> str:
    """A path in the folder of the tests."""
    return os.path.join(folder, name)


def refuses(kind: type, says: str, call) -> None:
    """The call raises this exception, with a line that has `says`."""
    try:
        call()
    except kind as error:
        assert says in str(error), f"expected '{says}', found '{error}'"
        ours = type(error).__module__.startswith("heddle")
        assert not ours or "\n" not in str(error), f"expected one line, found {str(error)!r}"
        return
    raise AssertionError(f"expected {kind.__name__} with '{says}', found no exception")


def line(good: bool, what: str, detail: str = "") -> None:
    global count
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {what}")
    for each in detail.splitlines():
        print(f"# {each}")
    sys.stdout.flush()


def skip(why: str) -> None:
    global count
    count += 1
    print(f"ok {count} # SKIP {why}")


def run(name: str) -> None:
    """Each test_... of a module, by its docstring. A module raises ImportError where it lacks a package."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if (error.name or "heddle").split(".")[0] in ("heddle", "tap", name):
            line(False, f"{name} is imported", traceback.format_exc())
        else:
            skip(f"{name}: {error}")
        return
    for test in [getattr(module, each) for each in vars(module) if each.startswith("test_")]:
        try:
            test()
        except Skipped as why:
            skip(f"{test.__doc__}: {why}")
        except Exception:  # pylint: disable=broad-except
            line(False, test.__doc__, traceback.format_exc())
        else:
            line(True, test.__doc__)


if __name__ == "__main__":
    sys.modules["tap"] = sys.modules["__main__"]
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored
    for each in sys.argv[1:]:
        run(each)
    print(f"1..{count}")
