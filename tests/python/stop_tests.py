"""Ctrl-C, stop(), and the interpreter's lock, which is free while the library trains."""
import itertools
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

import numpy as np
from tap import depth, path

import heddle

x = np.zeros((64, 28, 28), np.uint8)
y = np.arange(64) % 10
MANY = {"epochs": 1000000, "batch": 32}


def test_ctrl_c():
    """Ctrl-C ends a run after the step, and keeps everything"""
    def at_three(event):
        if event.kind == "step" and event.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    run = heddle.train("simplenet", (x, y), callback=at_three, out=path("ctrl-c"), **MANY)
    assert run.stopped and 3 <= run.result["steps"] < 1000000
    assert len(run.losses) == run.result["steps"] and run.predict(x).shape == (64, 10)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_child():
    """Ctrl-C ends each of several runs, and that of a forked child, too"""
    def at_three(event):
        if event.kind == "step" and event.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    def trained(name):
        run = heddle.train("simplenet", (x, y), callback=at_three, threads=1, out=path(name), **MANY)
        return run.stopped and 3 <= run.result["steps"] < 1000000

    assert trained("ctrl-c-1") and trained("ctrl-c-2")
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if trained("ctrl-c-child") else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert trained("ctrl-c-3")


class Interrupting:
    """A data set that is interrupted when it is read for the at-th time; None: never."""

    classes = 10

    def __init__(self, at):
        self.read, self.at = itertools.count(1), at  # a session that opens reads ahead, on several threads

    def __len__(self):
        return 64

    def __getitem__(self, i):
        if next(self.read) == self.at:
            os.kill(os.getpid(), signal.SIGINT)
        return x[i], y[i]


def test_ctrl_c_in_steps():
    """Ctrl-C ends a call of many steps, too"""
    data = Interrupting(None)
    with heddle.Session("simplenet", data, cache="none", out=path("ctrl-c-steps"), **MANY) as session:
        data.at = next(data.read) + 1000  # opening reads as often as it finds the best number of threads
        session.step(1000000)
        assert session.report["stopped"] and session.done and 1 < session.report["steps"] < 1000000


def test_ctrl_c_at_start():
    """Ctrl-C while a data set is opened is a KeyboardInterrupt"""
    data = Interrupting(10)
    try:
        heddle.Session("simplenet", data, out=path("start"), **MANY)
    except KeyboardInterrupt:
        return
    raise AssertionError("expected a KeyboardInterrupt")


def interrupted(call, begins):
    """The call is a KeyboardInterrupt, by Ctrl-C when begins() holds."""
    def wait():
        while not begins():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=wait)
    sender.start()
    try:
        call()
    except KeyboardInterrupt:
        return
    finally:
        sender.join()
    raise AssertionError("expected a KeyboardInterrupt")


def test_ctrl_c_in_sweep():
    """Ctrl-C ends a sweep, whose runs are saved and go on; and the search for the number of threads"""
    out = pathlib.Path(path("swept"))
    interrupted(lambda: heddle.sweep({"seed": range(2)}, "simplenet", (x, y), epochs=1000000, jobs=1, out=out),
                (out / "run-0001" / "losses.bin").exists)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    interrupted(lambda: heddle.tune("simplenet", (x, y), seconds=86400),
                lambda: signal.getsignal(signal.SIGINT) is not signal.default_int_handler)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_lock():
    """other threads run while a session trains, and stop it"""
    session = heddle.Session("simplenet", (x, y), out=path("lock"), **MANY)
    trains = threading.Event()
    thread = threading.Thread(target=session.train, args=(lambda event: trains.set(),))
    thread.start()
    trains.wait()
    try:
        session.step()
        raise AssertionError("expected an exception")
    except heddle.UsageError:
        pass
    session.stop()
    thread.join()
    assert session.report["stopped"]
    session.close()


def test_two():
    """two sessions train at once in two threads, with the digests of one after the other"""
    def run(name):
        digest[name] = heddle.train("simplenet", (x, y), epochs=3, batch=16, seed=len(name), out=path(name)).digest

    digest = {}
    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "bb")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("a", "bb"):
        assert heddle.train("simplenet", (x, y), epochs=3, batch=16, seed=len(name),
                            out=path(name + "-alone")).digest == digest[name]


def test_early():
    """Ctrl-C at the moment when its handler is changed leaves the wake-up file of signals as it was"""
    own, calls = signal.set_wakeup_fd, []

    def interrupted(*arguments, **named):
        calls.append(arguments)
        result = own(*arguments, **named)
        signal.raise_signal(signal.SIGINT)
        return result

    for _ in range(2):
        signal.set_wakeup_fd = interrupted
        try:
            heddle.train("simplenet", "digits", max_steps=2, out=tempfile.mkdtemp() + "/run")
        except KeyboardInterrupt:
            pass
        finally:
            signal.set_wakeup_fd = own
        assert calls
        assert signal.set_wakeup_fd(-1) == -1
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def at_line(number, call):
    """The call, with Ctrl-C at the number-th line that the package executes; whether it has so many."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if f"{os.sep}heddle{os.sep}" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines == number:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return lines >= number


def test_any_line():
    """Ctrl-C at any line of the package is a KeyboardInterrupt or ends the run, and leaves nothing held"""
    def call():
        with heddle.Session("simplenet", (x, y, x, y), epochs=2, batch=32, threads=1,
                            out=tempfile.mkdtemp() + "/run") as session:
            session.step(2)
            session.step()
            session.train()
            session.evaluate()
            session.save()

    number = 1
    while at_line(number, call):
        number += 7 if depth > 1 else 43
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, number
        assert signal.set_wakeup_fd(-1) == -1, number
    assert number > 1000
