"""The options of a run as Python shows them: in signatures, in help and in messages. The library's own table is their
only source.
"""
from __future__ import annotations

import functools
import inspect
import os
import re
import textwrap
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Literal, Optional, Sequence, Tuple, TypeVar, Union

from ._binding import UsageError, ffi, lib, text

ALIASES = {"batch_size": "batch"}  # other names of options
NOT_HERE = {"json": "a run's result is its attribute `result`"}  # options of the command alone, with what is instead
WIDTH = 100
HUGE = 1e9  # an upper bound that no one meets is not shown


@dataclass(frozen=True)
class Option:
    """A row of the table."""

    name: str  # with _ for -
    kind: str  # which results it may change
    annotation: str
    default: Any  # None: not given
    low: float  # bounds of numbers, both included; equal: none
    high: float
    choices: tuple[str, ...]
    help: str

    @property
    def values(self) -> str:
        """What it accepts beside its type: bounds, or a choice."""
        if self.choices:
            return " or ".join(map(repr, self.choices))
        if self.low == self.high:
            return ""
        return f"{self.low:g} to {self.high:g}" if self.high < HUGE else f"{self.low:g} or more"

    @property
    def type(self) -> Any:
        """As an annotation."""
        kind = Literal[self.choices] if self.choices else _TYPES[self.annotation]
        return Optional[kind] if self.default is None else kind

    @property
    def line(self) -> str:
        return f"{self.name}: {self.annotation} = {self.default!r}" + (f", {self.values}" if self.values else "")


_TYPES = {"int": int, "float": float, "bool": bool, "str": str, "int | str": Union[int, str],
          "str | list": Union[str, list], "str | os.PathLike[str]": Union[str, os.PathLike],
          "tuple[float, float]": Tuple[float, float]}
_KINDS = {"EXPERIMENT": "experiment", "LAYOUT": "layout", "FILES": "files"}
_HEADS = {"experiment": "Of the experiment: these define the result.",
          "layout": "Of the layout: these never change the result.", "files": "Of files:"}
_LISTS = ("parameters", "transforms", "eval_transforms")
_PATHS = ("DIR", "FILE", "PATH")


def _annotation(row: Any, name: str, choices: Sequence[str]) -> str:
    if choices:
        return "str"
    if row.type == lib.HD_OPTION_TEXT:
        if name in _LISTS:
            return "str | list"
        if row.max > 0:
            return "int | str"
        return "str | os.PathLike[str]" if any(word in text(row.arg) for word in _PATHS) else "str"
    return {lib.HD_OPTION_INT: "int", lib.HD_OPTION_REAL: "float", lib.HD_OPTION_FLAG: "bool",
            lib.HD_OPTION_PAIR: "tuple[float, float]"}[row.type]


def _default(row: Any) -> Any:
    """The default as a value of its type; None for an option that is not given."""
    shown = text(row.fallback)
    if row.type == lib.HD_OPTION_FLAG:
        return False
    if not shown:
        return None
    if row.type == lib.HD_OPTION_PAIR:
        return tuple(float(part) for part in shown.split(","))
    if row.type == lib.HD_OPTION_INT:
        return int(float(shown))
    return float(shown) if row.type == lib.HD_OPTION_REAL else shown


@functools.lru_cache(maxsize=None)
def table() -> dict[str, Option]:
    """All options by their names in Python, in the library's order."""
    kinds = {getattr(lib, "HD_OPTION_" + kind): name for kind, name in _KINDS.items()}
    result = {}
    for row in _rows():
        name, choices = text(row.name).replace("-", "_"), _choices(row)
        result[name] = Option(name, kinds[row.kind], _annotation(row, name, choices), _default(row), row.min, row.max,
                              choices, in_python(text(row.help)))
    return result


@functools.lru_cache(maxsize=None)
def _rows() -> list[Any]:
    rows: list[Any] = []
    while lib.hd_option_at(len(rows)) != ffi.NULL:
        rows.append(lib.hd_option_at(len(rows)))
    return rows


def _choices(row: Any) -> tuple[str, ...]:
    found: list[str] = []
    while row.choices and row.choices[len(found)] != ffi.NULL:
        found.append(text(row.choices[len(found)]))
    return tuple(found)


# ---- Signatures and help ----

def check_names(options: Iterable[str], allowed: Iterable[str] | None = None, of: str = "heddle.train") -> None:
    """Each option is given once, and is one of those allowed, with None of all. Unknown names are the library's to
    refuse, unless only some are allowed."""
    some = None if allowed is None else set(allowed)
    seen: dict[str, str] = {}
    for name in options:
        plain = plain_name(name)
        first = seen.setdefault(plain, name)
        if first != name:
            raise UsageError(f"expected each option once, found {first!r} and {name!r}; leave one out")
        if plain in NOT_HERE:
            raise UsageError(f"expected the name of an option, found {plain!r}, which only the command has; leave it "
                             f"out: {NOT_HERE[plain]}")
        if some is not None and plain not in some:
            near = nearest(plain, some)
            raise UsageError(f"expected an option of {of}, found {plain!r}; "
                             + (f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(some))}"))


def plain_name(name: str) -> str:
    """The name of an option as this module's table has it: with _ for -, and one for all."""
    plain = name.replace("-", "_")
    return ALIASES.get(plain, plain)


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that a word was meant to be."""
    import difflib

    return next(iter(difflib.get_close_matches(word, list(names), 1, 0.75)), None)


def signature(function: Callable[..., Any], names: Iterable[str] | None = None) -> inspect.Signature:
    """The function's, with the options in place of its **options; all of them, or those named."""
    found = inspect.signature(function)
    own = [p for p in found.parameters.values() if p.kind != p.VAR_KEYWORD]
    taken = {p.name for p in own}
    wanted = [o for o in table().values() if o.name not in taken and o.name not in NOT_HERE
              and (names is None or o.name in set(names))]
    further = [inspect.Parameter(o.name, inspect.Parameter.KEYWORD_ONLY, default=o.default, annotation=o.type)
               for o in wanted]
    own = [p.replace(annotation=_evaluated(p.annotation, function)) for p in own]
    return found.replace(parameters=own + further,
                         return_annotation=_evaluated(found.return_annotation, function))


def _evaluated(annotation: Any, function: Any) -> Any:
    """What a text says as an annotation; the text itself, where this Python cannot tell."""
    try:
        return eval(annotation, function.__globals__) if isinstance(annotation, str) else annotation
    except (NameError, TypeError):
        return annotation


def described(wanted: inspect.Signature) -> str:
    """The options of a signature with their bounds and their help, by kind."""
    lines = []
    options = [table()[name] for name in wanted.parameters if name in table()]
    for kind, head in _HEADS.items():
        of_kind = [o for o in options if o.kind == kind]
        lines += ["", head] * bool(of_kind)
        lines += [_entry(option) for option in of_kind]
    return "\n".join(lines)


@functools.lru_cache(maxsize=None)
def _entry(option: Option) -> str:
    return "\n".join([textwrap.fill(option.line, WIDTH, initial_indent="  ", subsequent_indent="      "),
                      textwrap.fill(option.help, WIDTH, initial_indent="      ", subsequent_indent="      ")])


_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes_options(*names: str) -> Callable[[_Function], _Function]:
    """Gives a function with **options its real signature, and the options' help behind its own; without names all."""
    def decorate(function: Any) -> Any:
        function.__signature__ = signature(function, names or None)
        if function.__doc__:
            function.__doc__ = inspect.cleandoc(function.__doc__) + "\n" + described(function.__signature__)
        return function
    return decorate


def add_model(model: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options with the model among them, and what it brings: first weights, transforms."""
    if model is None:
        return options
    if hasattr(model, "named_parameters"):  # a PyTorch module, or its class
        raise UsageError("expected a model, found a module of PyTorch; use heddle.from_torch(model, (C, H, W)), which "
                         "returns a model")
    if hasattr(model, "options"):
        return {**model.options(), **{key: value for key, value in options.items() if value is not None}}
    described = model._described() if hasattr(model, "_described") else getattr(model, "text", model)
    return {**options, "model": described}


# ---- Messages ----

# Words that follow the name of an option that takes a text, and are not its value.
_WORDS = set("a above and are as asked at below but cannot chose expected expects for found from given has have holds "
             "if in instead is itself must of on or out reads says so takes than that the there to together twice "
             "unless was when where which while with".split())
_OF_COMMANDS = ("draws", "folds", "halving", "jobs", "rank-by", "seconds", "spot", "tolerance")
_COMMAND = re.compile(r"heddle ([a-z]+)((?: --[a-z-]+(?: [^\s;,)`']+)?)*)")
_NAME = re.compile(r"(?<![\w/.'\"-])--([a-z][a-z-]*[a-z])(?![\w/.-])(?: ('[^']*'|[^\s;,:)`']+(?::[^\s;,:)`']+)*))?")


def _is_value(row: Any, word: str) -> bool:
    """Whether the word behind an option's name is its value, or stands for it."""
    if word.isupper() or "|" in word or re.fullmatch(r"[-+0-9.e,]+", word):
        return True
    if row is None or row.type not in (lib.HD_OPTION_TEXT, lib.HD_OPTION_CHOICE):
        return False
    choices = _choices(row)
    return word.rstrip(".") in choices if choices else word not in _WORDS and not word.startswith(("(", "--"))


@functools.lru_cache(maxsize=None)
def _named_rows() -> dict[str, Any]:
    rows: dict[str, Any] = {text(row.name): row for row in _rows()}
    rows.update({name: None for name in _OF_COMMANDS}, **{"batch-size": rows["batch"]})
    return rows


def _named(message: str) -> str:
    """A text of the library's with the names of options as arguments: threads=2 for --threads 2, lr= for --lr."""
    rows = _named_rows()

    def argument(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if name not in rows:
            return match[0]
        shown = name.replace("-", "_")
        if value is None or not _is_value(rows[name], value):
            return f"{shown}=" + ("" if value is None else f" {value}")
        dot = "." * value.endswith(".")
        value = value[:len(value) - len(dot)]
        plain = value[0] in "'[" or value.isupper() or "|" in value or re.fullmatch(r"[-+0-9.e]+", value)
        return f"{shown}={value if plain else repr(value)}{dot}"

    return _NAME.sub(argument, message)


def in_python(message: str) -> str:
    """A message of the library's as Python says it.

    >>> in_python("--lr expects 0 to 1e6, found '-1'; see heddle train --help")
    "lr= expects 0 to 1e6, found '-1'; see help(heddle.train)"
    >>> in_python("use --threads 2, or --device cpu; continue with: heddle train --resume runs/a")
    "use threads=2, or device='cpu'; continue with: heddle.train(resume='runs/a')"
    """
    if not message:
        return message
    parts, at = [], 0
    for match in _COMMAND.finditer(message):
        command, options = match[1], match[2].split()
        said = match[0]
        if options == ["--help"]:
            said = f"help(heddle.{command})"
        elif command == "train" and len(options) == 2 and options[0] == "--resume":
            said = f"heddle.train(resume={options[1]!r})"
        elif command in ("train", "sweep") and len(options) == 1:
            said = f"heddle.{command}({options[0][2:].replace('-', '_')}=)"
        parts += [_named(message[at:match.start()]), said]
        at = match.end()
    result = "".join(parts) + _named(message[at:])
    return re.sub(r"did you mean '([a-z-]+)'", lambda m: f"did you mean '{m[1].replace('-', '_')}'", result)
