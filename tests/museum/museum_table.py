"""The museum's table: each row is a public bug report, remade as a small input, with the right answer.

A row is a function that makes its input in a folder and returns what is right: Values (the input holds these numbers),
Refuse (nothing can be made of it) or Check (a program is to be tried in some other way). Its texts are in
reports.txt. tests/museum/museum.sh tries heddle, bench/museum other programs as well, and prints docs/museum.md.
"""

import dataclasses
import functools
import os
import typing

MADE = {}  # by the names of functions


@dataclasses.dataclass
class Row:
    name: str
    area: str
    thread: str  # OWNER/REPOSITORY#NUMBER
    did: str  # what its user did
    wrong: str  # what went wrong there
    right: str  # the right answer
    make: typing.Callable


def row(make):
    assert make.__name__ not in MADE, make.__name__
    MADE[make.__name__] = make
    return make


def inputs(**made):
    """Rows of one expression each."""
    assert not MADE.keys() & made.keys()
    MADE.update(made)


def check(try_heddle):
    """A row that is a check of a program alone."""
    inputs(**{try_heddle.__name__: lambda: Check(try_heddle)})
    return try_heddle


def checks(**tried):
    inputs(**{name: lambda each=each: Check(each) for name, each in tried.items()})


class Array:
    """Numbers in C's order, with a shape."""

    def __init__(self, shape, values):
        self.shape, self.values = tuple(shape), list(values)
        count = 1
        for side in self.shape:
            count *= side
        assert count == len(self.values), (shape, len(self.values))

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, some):
        """Samples, by a slice."""
        each, chosen = len(self.values) // len(self), range(len(self))[some]
        return Array(
            (len(chosen),) + self.shape[1:], [v for i in chosen for v in self.values[i * each : i * each + each]]
        )


@dataclasses.dataclass
class Values:
    """The data at `path` are x and y, and tx and ty to test: rows of numbers, or Arrays of bytes or floats.

    Labels are whole numbers, or texts: then they are names of classes, numbered in the order of their bytes. `reader`
    says how other programs read it: csv, csv_texts, npy, npz, idx, folder. `options` are heddle's. If `classes` is
    given, the model has so many scores. `says` is what heddle must say beside.
    """

    path: str
    x: object
    y: list
    tx: object = None
    ty: list = None
    reader: str = None
    options: tuple = ()
    names: list = None
    says: str = None
    label: str = "label"  # the column's name, for programs that must be told
    header: object = 0  # pandas' word for where the header is
    classes: int = None
    near: float = 0  # other programs' numbers may differ by so much
    also: list = ()  # more forms of x that are right in another program
    floats: bool = False  # x are floats, even if all are whole


@dataclasses.dataclass
class Refuse:
    """The data at `path` are to be refused, in one line that matches `says`."""

    path: str
    says: str
    reader: str = None
    options: tuple = ()
    label: str = "label"
    header: object = 0
    right: object = None  # Values that another program may find instead
    trains: bool = False  # only programs that go on to train are asked: what is read is what the file says
    asked: bool = True  # other programs are
    shape: tuple = (1, 1, 2)


@dataclasses.dataclass
class Check:
    """try_heddle(h) returns right or refused, and raises an AssertionError if neither is true."""

    try_heddle: typing.Callable


def page_line(row):
    """What docs/museum.md says of a row, before the verdicts."""
    repository, number = row.thread.split("#")
    return "| [%s](https://github.com/%s/issues/%s) | %s | %s | %s |" % (
        row.thread,
        repository,
        number,
        row.did,
        row.wrong,
        row.right,
    )


@functools.cache
def rows():
    """All rows, in the order of reports.txt."""
    import rows_csv, rows_arrays, rows_pictures, rows_runs  # noqa: F401, E401

    found, area = [], None
    with open(os.path.join(os.path.dirname(__file__), "reports.txt"), encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("## "):
                area = line[3:]
            elif not line.startswith("#"):
                name, *texts = line.split("\t")
                found.append(Row(name, area, *texts, MADE[name]))
    names = [each.name for each in found]
    assert len(names) == len(set(names)) == len(MADE), MADE.keys() - set(names)
    return found
