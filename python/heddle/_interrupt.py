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
        self._thread = threading.Thread(target=self._wait, name="heddle-ctrl-c", daemon=True)
        self._thread.start()

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

    def end(self) -> None:
        self._write.close()
        self._thread.join()
        self._read.close()


_watchers: list[_Watcher] = []  # none or one
_lock = threading.RLock()  # on it, and its `stop`


def _taken(stop: Callable[[], None]) -> _Watcher:
    with _lock:
        if not _watchers:
            _watchers.append(_Watcher())
        _watchers[0].stop = stop
        return _watchers[0]


def _before_fork() -> None:
    """Python warns of a fork beside other threads, so an idle watcher leaves none."""
    with _lock:
        if _watchers and _watchers[0].stop is None:
            _watchers.pop().end()


def _in_child() -> None:
    """The thread of a watcher at work stays with the parent."""
    global _lock
    _lock = threading.RLock()
    _watchers.clear()


os.register_at_fork(before=_before_fork, after_in_child=_in_child)


@contextlib.contextmanager
def stopped_by_ctrl_c(stop: Callable[[], None] | None) -> Iterator[None]:
    """Makes Ctrl-C call `stop` while the library runs. Without it, Ctrl-C raises at the end: nothing is left half done.

    Python runs handlers of signals between two of its own instructions, of which there may be none for long. So the
    signal's number also goes to a socket that a thread reads. `stop` may be called twice, on either thread.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    ending: list[bool] = []
    seen: list[bool] = []
    late: list[bool] = []  # those that came too late to stop anything

    def on_signal(*_: object) -> None:
        if ending or stop is None:
            late.append(True)
        else:
            seen.append(True)
            stop()  # the socket does not have it yet, or not any more, at the edges

    watcher = None if stop is None else _taken(stop)
    signal.signal(signal.SIGINT, on_signal)  # first and last: nothing is raised between these lines
    before = signal.set_wakeup_fd(watcher.descriptor(), warn_on_full_buffer=False) if watcher else None
    try:
        yield
    finally:
        ending.append(True)
        if watcher:
            signal.set_wakeup_fd(before)
            signal.signal(signal.SIGINT, on_signal)  # what is pending is handled before that
            if seen or late:
                watcher.settle()
            watcher.stop = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if late:
            raise KeyboardInterrupt
