"""Models built in Python, layer by layer, as model files state them."""
from __future__ import annotations

import json
from typing import Any

from ._library import Context, ShapeError, UsageError, ffi, lib, text
from ._summary import summary


def models() -> dict[str, str]:
    """The built-in models: their names, which `model=` takes, and their files.

    >>> import heddle
    >>> print(heddle.models()["simplenet"].splitlines()[-1])
      - fc: {op: linear, out: 10}
    """
    found, files = ffi.new("hd_built_in_model *"), {}
    while lib.hd_built_in_model_at(found, len(files)):
        files[text(found.name)] = text(found.text)
    return files


class Model:
    """A network for samples of channels, height, width; docs/model-files.md has the layers and their settings.

    >>> import heddle
    >>> model = heddle.Model("tiny", (1, 28, 28))
    >>> model = model.add("flat", "flatten").add("fc", "linear", out=10)
    >>> model.parameters
    7850
    """

    def __init__(self, name: str, input: tuple[int, int, int]) -> None:
        if not isinstance(input, (tuple, list)) or len(input) != 3:
            raise ShapeError(f"expected channels, height and width as a model's input, found {input}; "
                             "rows of n numbers are (1, 1, n)")
        self._name, self._input = name, tuple(input)
        self._layers: list[tuple[str, str]] = []  # names and descriptions
        self._loss = ""
        self._create()

    def _create(self) -> None:
        self._context = context = Context()
        self._pointer = ffi.gc(context.make("hd_model", lib.hd_model_create, self._name.encode(), *self._input),
                               lib.hd_model_destroy)

    def _add(self, name: str, description: str) -> None:
        self._context.check(lib.hd_model_add(self._pointer, self._context.pointer, name.encode(), b"%s",
                                             ffi.new("char[]", description.encode())))
        self._layers.append((name, description))

    def add(self, name: str, op: str, **settings: Any) -> Model:
        """Adds a layer, which reads the one above or those that `from_` names; returns the model."""
        settings = {("from" if key == "from_" else key): value for key, value in settings.items()}
        self._add(name, json.dumps({"op": op, **settings})[1:-1])
        return self

    def loss(self, op: str, **settings: Any) -> Model:
        """The loss in place of cross_entropy; returns the model."""
        self._loss = f"loss: {json.dumps({'op': op, **settings})}\n"
        return self

    def losses(self, **heads: Any) -> Model:
        """A loss for each of several layers, the network's heads, whose weighted sum is trained; returns the model.
        They read the columns of y in this order: cross_entropy one, the number of a class, others one for each output.

        >>> model = Model("two", (1, 1, 4)).add("body", "linear", out=8).add("kind", "linear", out=3)
        >>> model = model.add("size", "linear", out=1, from_="body")
        >>> model = model.losses(kind="cross_entropy", size={"op": "mse", "loss_weight": 0.5})
        >>> print(model.text.splitlines()[-1])
        loss: [{"kind": "cross_entropy"}, {"size": {"op": "mse", "loss_weight": 0.5}}]
        """
        self._loss = f"loss: {json.dumps([{name: loss} for name, loss in heads.items()])}\n"
        return self

    @property
    def heads(self) -> list[str]:
        """The names of the heads that have losses, in the order of the columns of y; none with a single loss."""
        loss = json.loads(self._loss.partition(" ")[2] or "{}")
        return [name for head in loss for name in head] if isinstance(loss, list) else []

    @property
    def parameters(self) -> int:
        """How many numbers it learns; checks the whole network."""
        self._check_layers()
        out = ffi.new("int64_t *")
        self._context.check(lib.hd_model_check(out, self._pointer, self._context.pointer))
        return out[0]

    def _check_layers(self) -> None:
        if not self._layers:
            raise UsageError(f"expected layers in the model {self._name!r}, found none; add them with add")

    def _described(self) -> str:
        """Its text, for a run."""
        self._check_layers()
        return self.text

    @property
    def text(self) -> str:
        """The description as a model file has it."""
        return text(lib.hd_model_text(self._pointer)) + self._loss

    def summary(self, **options: Any) -> Any:
        """Its layers, parameters and costs, and the memory of a training run: see heddle.summary.

        >>> print(Model("tiny", (1, 28, 28)).add("flat", "flatten").add("fc", "linear", out=10).summary().params)
        7850
        """
        return summary(self, **options)

    def __repr__(self) -> str:
        layers = ", ".join(name for name, _ in self._layers)
        return f"Model({self._name!r}, {self._input}: {layers or 'no layers'})"

    def __str__(self) -> str:
        return self.text

    # ---- Copies and pickles carry the layers ----

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self._name, "input": self._input, "layers": self._layers, "loss": self._loss}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._name, self._input, self._loss = state["name"], state["input"], state["loss"]
        self._layers = []
        self._create()
        for name, description in state["layers"]:
            self._add(name, description)
