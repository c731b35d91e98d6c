"""Children by fork of a program that has trained: a server's workers, multiprocessing, joblib."""
import os
import signal
import sys
import warnings

import numpy as np
from tap import Skipped, path

import heddle

try:
    import joblib
except ImportError:
    joblib = None

ALARM_S = 60
x = np.random.default_rng(0).integers(0, 256, (200, 28, 28), dtype=np.uint8)
y = np.arange(200) % 10


def train(name, threads):
    return heddle.train("mlp", (x, y), max_steps=10, batch=32, threads=threads, out=path(name)).digest


def work(threads):
    """What a child does; a hang ends by an alarm."""
    signal.alarm(ALARM_S)
    return train(f"child-{os.getpid()}-{threads}", threads)


def in_child(task):
    """What `task` returns, from a child by os.fork."""
    come, go = os.pipe()
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(ALARM_S)
            os.write(go, str(task()).encode())
        except BaseException as error:  # the tests go on in the parent alone
            os.write(go, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(go)
    with os.fdopen(come) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_fork():
    """a child by os.fork trains to its parent's digest, on one thread and on two"""
    digest = train("parent", 2)
    for threads in 1, 2:
        found = in_child(lambda threads=threads: work(threads))
        assert found == digest, found
    assert train("parent-again", 2) == digest


def test_run_of_the_parent():
    """a child predicts with its parent's run, and is refused its parent's session"""
    run = heddle.train("mlp", (x, y), max_steps=10, batch=32, threads=2, out=path("run"))
    wanted = run.predict(x).tobytes().hex()[:64]
    found = in_child(lambda: run.predict(x).tobytes().hex()[:64])
    assert found == wanted, found
    with heddle.Session("mlp", (x, y), max_steps=10, batch=32, threads=2, workers=1, out=path("session")) as session:
        session.step(2)
        found = in_child(lambda: session.step(2))
        assert found.startswith("UsageError") and "a child of it" in found, found
        session.step(8)
        assert session.save().digest == run.digest


def test_multiprocessing():
    """so do the workers of multiprocessing, started by fork"""
    import multiprocessing

    digest = train("before-multiprocessing", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.map_async(work, [1, 2]).get(2 * ALARM_S)
    assert found == [digest, digest], found


def test_estimator():
    """a fitted estimator predicts in a child whose parent has fitted it again"""
    try:
        from heddle.sklearn import HeddleClassifier
    except ImportError as error:
        raise Skipped(str(error)) from error
    rows = x.reshape(200, -1)[:, :20]
    est = HeddleClassifier(epochs=1, threads=1).fit(rows, y)
    fitted, parts = est.run_, [os.pipe(), os.pipe()]
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(ALARM_S)
            os.read(parts[0][0], 1)  # the parent's run is gone
            est.run_ = fitted
            os.write(parts[1][1], est.predict(rows).astype(np.uint8).tobytes())
        finally:
            os._exit(0)
    del fitted
    os.close(parts[1][1])
    first = est.run_
    assert first.folder.exists()
    est.fit(rows, y)
    del first
    os.write(parts[0][1], b"x")
    found = os.read(parts[1][0], 1000)
    os.waitpid(child, 0)
    assert found == est.predict(rows).astype(np.uint8).tobytes()


def test_joblib():
    """so do the workers of joblib"""
    if not joblib:
        raise Skipped("no joblib")
    digest = train("before-joblib", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = joblib.Parallel(n_jobs=2, backend="multiprocessing", timeout=2 * ALARM_S)(
            joblib.delayed(work)(threads) for threads in (1, 2))
    assert found == [digest, digest], found
