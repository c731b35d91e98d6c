"""The program: found, started, and of the library's version."""
import os
import pathlib
import subprocess
import sys

import numpy as np
from tap import Skipped, path, refuses

import heddle
from heddle import _program


def need():
    if _program.find() is None:
        raise Skipped("expected the program heddle, found none")


def heddle_m(*words):
    return subprocess.run([sys.executable, "-m", "heddle", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)


def test_module():
    """python -m heddle is the program: its output, its errors, its exit codes"""
    need()
    assert heddle_m("--version").stdout.startswith(f"heddle {heddle.__version__}\nbuilt with ")
    wrong = heddle_m("train", "--bacth", "3")
    assert wrong.returncode == 2 and wrong.stderr.startswith("heddle: "), wrong
    assert heddle_m("train", "--model", "simplenet", "--max-steps", "3", "--out", path("m")).returncode == 0
    assert heddle.load(path("m")).digest == heddle.train("simplenet", "digits", max_steps=3, out=path("p")).digest


def test_info():
    """build_info says what the program says"""
    info = heddle.build_info()
    assert info["version"] == heddle.version() and info["library"]
    need()
    said = subprocess.run([info["program"], "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for key, words in (("built_with", "built with  "), ("left_out", "left out    ")):
        line = next((line for line in said.splitlines() if line.startswith(words)), words)
        assert ", ".join(info[key]) == line[len(words):].strip(), (info, said)


def test_page():
    """a run's page is written by the program"""
    need()
    x, y = np.zeros((20, 28, 28), np.uint8), np.arange(20) % 10
    run = heddle.train("simplenet", (x, y), max_steps=2, out=path("page"))
    page = run.report(path("page.html"))
    assert page == pathlib.Path(path("page.html")) and "<html" in page.read_text()
    refuses(heddle.Error, "none/page.html", lambda: run.report(path("none/page.html")))


def test_others():
    """a program of another version, or none, is refused in one line"""
    other = path("other-program")
    pathlib.Path(other).write_text("#!/bin/sh\necho heddle 0.0.1\n")
    os.chmod(other, 0o755)
    before = os.environ.get("HEDDLE_PROGRAM")
    try:
        for program, says in ((other, "found 0.0.1"), (path("nothing"), "found No such file")):
            os.environ["HEDDLE_PROGRAM"] = program
            _program.path.cache_clear()
            refuses(heddle.UnsupportedError, says, lambda: _program.run("topo"))
        done = heddle_m("--version")
        assert done.returncode == 1 and "found No such file" in done.stderr and done.stderr.count("\n") == 1, done
    finally:
        os.environ.pop("HEDDLE_PROGRAM")
        if before:
            os.environ["HEDDLE_PROGRAM"] = before
        _program.path.cache_clear()
