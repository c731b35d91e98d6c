"""Doctests of the package, the examples of docs/python.md, and examples/*.py."""
import contextlib
import doctest
import importlib.util
import io
import os
import pathlib
import re
import runpy

from tap import Skipped, path

import heddle

SOURCE = pathlib.Path(os.environ["SRCDIR"])
count = 0


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def fresh() -> str:
    """A new path for a run."""
    global count
    count += 1
    return path(f"doc-{count}")


def test_doctests():
    """doctests run"""
    names = ["_arrays", "_binding", "_options", "_program", "_summary", "_sweep", "data", "evidence", "machine"]
    names += ["model", "run", "session", "report"]
    names += ["sklearn"] * has("sklearn") + ["pytorch"] * has("torch")
    ran = 0
    for name in names:
        module = importlib.import_module("heddle." + name)
        for test in doctest.DocTestFinder().find(module):
            test.globs.update(folder=fresh())
            result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
            assert result.failed == 0, test.name
            ran += result.attempted
    assert ran > 10, ran


def run_page(name: str) -> dict:
    """Runs the examples of a page, one after the other; returns their names."""
    text = (SOURCE / "docs" / name).read_text()
    names = {}
    for block in re.findall("```python\n(.*?)```", text, re.S):
        if ("torch" in block and not has("torch")) or ("sklearn" in block and not has("sklearn")):
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, "docs/" + name, "exec"), names)  # pylint: disable=exec-used
    return names


def test_page():
    """the examples of docs/python.md run"""
    assert run_page("python.md")["run"].digest


def test_estimators_page():
    """the examples of docs/scikit-learn.md run"""
    if not has("sklearn"):
        raise Skipped("expected scikit-learn, found none")
    assert run_page("scikit-learn.md")["estimator"].run_.digest


def test_examples():
    """the examples run, and are short"""
    examples = sorted((SOURCE / "examples").glob("*.py"))
    examples = [example for example in examples if example.name != "optuna_search.py"]  # notebook_tests runs it
    assert examples
    for example in examples:
        assert len(example.read_text().splitlines()) < 60, example
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(example), run_name="__main__")
        assert printed.getvalue()
