"""The notebooks' cells, the lines of the pages for those who come from elsewhere, and the search by Optuna."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys

from tap import Skipped, depth, path

SOURCE = pathlib.Path(os.environ["SRCDIR"])


@contextlib.contextmanager
def in_folder(name):
    before = os.getcwd()
    os.makedirs(path(name), exist_ok=True)
    os.chdir(path(name))
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            yield said
    finally:
        os.chdir(before)


def run_notebook(name):
    book = json.loads((SOURCE / "docs" / "notebooks" / f"{name}.ipynb").read_text())
    assert book["nbformat"] == 4 and book["cells"][0]["source"][0].startswith("# ")
    names = {}
    with in_folder(name):
        for number, cell in enumerate(book["cells"]):
            if cell["cell_type"] != "code":
                continue
            assert not cell["outputs"] and cell["execution_count"] is None, "a notebook has no outputs"
            exec(compile("".join(cell["source"]), f"{name}.ipynb, cell {number}", "exec"), names)
    return names


def run_lines(page):
    """The lines of the right columns, after the page's block; returns how many."""
    text, names, ran = (SOURCE / "docs" / page).read_text(), {}, 0
    with in_folder(page):
        exec(re.search("```python\n(.*?)```", text, re.S)[1], names)
        for row in re.findall(r"^\| .* \| (`.*`) \|$", text, re.M):
            for code in re.findall("`([^`]*)`", row):
                try:
                    exec(compile(code, page, "exec"), names)
                except Exception as error:
                    raise AssertionError(f"{page}: {code}") from error
                ran += 1
    return ran


def test_digits():
    """the notebook of digits runs"""
    assert run_notebook("digits")["mine"].evaluate().accuracy > 0.5


def test_threads():
    """the notebook of threads runs"""
    if depth < 2:
        raise Skipped("make check-all runs it")
    assert run_notebook("threads")["runs"]


def test_table():
    """the notebook of tables runs"""
    if depth < 2:
        raise Skipped("make check-all runs it")
    assert run_notebook("table")["run"].history["test_accuracy"][-1] > 0.8


def test_from_keras():
    """each line of docs/from-keras.md runs"""
    assert run_lines("from-keras.md") > 30


def test_from_sklearn():
    """each line of docs/from-sklearn.md runs"""
    if importlib.util.find_spec("sklearn") is None:
        raise Skipped("expected scikit-learn, found none")
    assert run_lines("from-sklearn.md") > 20


def test_optuna():
    """the search by Optuna runs, and a trial that is pruned ends its run"""
    if importlib.util.find_spec("optuna") is None:
        raise Skipped("expected Optuna, found none")
    os.makedirs(path("optuna"), exist_ok=True)
    done = subprocess.run([sys.executable, SOURCE / "examples" / "optuna_search.py", "6"], cwd=path("optuna"),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("best: loss "), done.stdout
