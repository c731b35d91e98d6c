"""Ctrl-C while the library runs."""
from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from typing import Callable, Iterator


class _Watcher:
    """A thread that waits for numbers of signals in a socket: one for the process, since starting a thread takes longer
    than training on few rows."""

    _SETTLED = 255  # no signal's number

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._settled = threading.Event()
        self.stop: Callable[[], None] | None = None  # of the call at hand
        threading.Thread(target=self._wait, name="heddle-ctrl-c", daemon=True).start()

    def _wait(self) -> None:
        while seen := self._read.recv(64):
            if signal.SIGINT in seen and self.stop is not None:
                self.stop()
            if self._SETTLED in seen:
                self._settled.set()

    def descriptor(self) -> int:
        return self._write.fileno()

    def settle(self) -> None:
        """Returns when all signals so far have been read."""
        self._settled.clear()
        self._write.send(bytes([self._SETTLED]))
        self._settled.wait()


_watchers: list[_Watcher] = []  # none or one
os.register_at_fork(after_in_child=_watchers.clear)  # its thread stays with the parent


def _watcher() -> _Watcher:
    if not _watchers:
        _watchers.append(_Watcher())
    return _watchers[0]


@contextlib.contextmanager
def stopped_by_ctrl_c(stop: Callable[[], None], watch: bool = True) -> Iterator[None]:
    """Makes Ctrl-C call `stop` while the library runs.

    Python runs handlers of signals between two of its own instructions, of which there may be none for long. So the
    signal's number also goes to a socket that a thread reads.
    """
    main = threading.current_thread() is threading.main_thread()
    if not watch or not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    watcher = _watcher()
    ending: list[bool] = []
    seen: list[bool] = []
    late: list[bool] = []  # those that came too late to stop anything

    def on_signal(*_: object) -> None:
        (late if ending else seen).append(True)

    watcher.stop = stop
    signal.signal(signal.SIGINT, on_signal)  # first and last: nothing is raised between these lines
    before = signal.set_wakeup_fd(watcher.descriptor(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        ending.append(True)
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, on_signal)  # what is pending is handled before that
        if seen or late:
            watcher.settle()
        watcher.stop = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if late:
            raise KeyboardInterrupt
