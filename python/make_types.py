"""Writes heddle/_option_types.pyi into a staged package: the options of a run for type checkers and editors, from the
library's table.

    HEDDLE_LIBRARY=libheddle.so python make_types.py STAGE
"""
import pathlib
import sys
import types

HEAD = '''"""The options of a run by their types; written from the library's table when the package is made."""
import os
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
'''


def annotation(option) -> str:
    if option.choices:
        return f"Literal[{', '.join(map(repr, option.choices))}] | None"
    return option.annotation + " | None"


def main(stage: str) -> None:
    # Without the package's __init__, which imports NumPy.
    package = types.ModuleType("heddle")
    package.__path__ = [str(pathlib.Path(stage, "heddle"))]
    sys.modules["heddle"] = package
    from heddle import _options

    explicit = {"model", "data", "transforms", "eval_transforms", "config", *_options.NOT_HERE}
    rows = [f"    {name}: {annotation(option)}  # {option.help}\n" for name, option in _options.table().items()
            if name not in explicit]
    pathlib.Path(stage, "heddle", "_option_types.pyi").write_text(HEAD + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
