"""Ctrl-C while the library runs."""
from __future__ import annotations

import contextlib
import signal
import socket
import threading
from typing import Callable, Iterator


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
    read, write = socket.socketpair()
    write.setblocking(False)

    def wait() -> None:
        while signal.SIGINT not in (seen := read.recv(64)) and seen:
            pass
        if seen:
            stop()

    watcher = threading.Thread(target=wait, name="heddle-ctrl-c", daemon=True)
    ending: list[bool] = []
    late: list[bool] = []  # those that the watcher sees no more
    signal.signal(signal.SIGINT, lambda *_: late.append(True) if ending else None)  # first and last: nothing is raised
    before = signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)        # between these lines
    try:
        watcher.start()
        yield
    finally:
        ending.append(True)
        signal.set_wakeup_fd(before)
        write.close()
        if watcher.ident is not None:
            watcher.join()
        read.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if late:
            raise KeyboardInterrupt
