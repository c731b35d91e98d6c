"""Layers and costs of a network, without training it."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import data as _data
from ._library import Config, Context, ShapeError, ffi, lib, record_of, text
from ._options import add_model, check_names, takes_options

_USED = ("recipe", "batch", "shards", "optimizer", "momentum", "clip_grad_norm", "parameters", "precision", "threads",
         "stages", "schedule_stages", "accumulate", "centered", "data_dir", "label", "header", "loss")


@dataclass(frozen=True)
class Layer:
    """A layer, with the costs of one sample."""

    name: str
    op: str
    shape: tuple[int, ...]  # of its output, without the samples
    params: int
    trainable: int
    macs: int
    flops_fwd: int
    flops_bwd: int


@dataclass(frozen=True)
class Summary:
    """A network's layers, and what training it takes. MACs and FLOPs are those of one sample."""

    model: str
    input: tuple[int, int, int]
    layers: list[Layer] = field(repr=False)
    params: int
    trainable: int
    macs: int
    flops_fwd: int
    flops_bwd: int
    batch: int
    threads: int
    memory_bytes: int  # of a training run, without the data and the program
    memory: dict[str, int] = field(repr=False)  # its parts
    plan: str = field(repr=False)  # what a step does, for people

    def __str__(self) -> str:
        head = ("layer", "operation", "output", "parameters", "MACs", "FLOPs fwd", "FLOPs bwd")
        rows = [head] + [(l.name, l.op, "x".join(map(str, l.shape)), *(f"{n:,}" if n else "-" for n in (
            l.params, l.macs, l.flops_fwd, l.flops_bwd))) for l in self.layers]
        rows.append(("total", "", "", *(f"{n:,}" for n in (self.params, self.macs, self.flops_fwd, self.flops_bwd))))
        width = [max(len(row[c]) for row in rows) for c in range(len(head))]
        lines = ["  ".join(cell.ljust(w) if c < 3 else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, width)))
                 for row in rows]
        rule = "-" * (sum(width) + 2 * len(width) - 2)
        shape = "x".join(map(str, self.input))
        return "\n".join([f"{self.model}, input {shape}; multiply-adds (MACs) and FLOPs of one sample", "", lines[0],
                          rule, *lines[1:-1], rule, lines[-1], "",
                          f"parameters: {self.params:,}, trainable: {self.trainable:,}",
                          f"memory to train with batch {self.batch}: {self.memory_bytes / 1e6:.2f} MB, without the "
                          "program and the data"])

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


@takes_options(*_USED)
def summary(model: Any = None, data: Any = None, *, input: Any = None, transforms: Any = None,
            eval_transforms: Any = None, **options: Any) -> Summary:
    """The layers of a model, their shapes, parameters and costs, and the memory of a training run; str() is a table.

    `model`: as for heddle.train, or a Run. `input`: (C, H, W) in place of the model's. `data` is opened where the model
    leaves its input or outputs to it.

    >>> import heddle
    >>> heddle.summary("mlp").params
    101770
    """
    check_names(options, _USED, "heddle.summary")
    context = Context()
    if hasattr(model, "model_text"):
        model = model.model_text
    options = add_model(model, options)
    for name, value in (("transforms", transforms), ("eval_transforms", eval_transforms)):
        if value is not None:
            options[name] = _data.add_transforms(context, value)
    config = Config(context, {**options, "data": _data.add(context, _data.join_heads(data, model))})
    shape = ffi.NULL
    if input is not None:
        if not isinstance(input, (tuple, list)) or len(input) != 3:
            raise ShapeError(f"expected channels, height and width as input, found {input}; rows of n numbers are "
                             "(1, 1, n)")
        shape = ffi.new("int32_t[3]", list(input))
    found = context.make("hd_summary", lib.hd_summary_create, config.pointer, shape)
    try:
        layers = [Layer(**{**{k: v for k, v in record_of(l).items() if k != "rank"}, "name": text(l.name),
                           "op": text(l.op), "shape": tuple(l.shape[0:l.rank])})
                  for l in found.layers[0:found.layer_count]]
        numbers = {name: getattr(found, name) for name in ("params", "trainable", "macs", "flops_fwd", "flops_bwd",
                                                           "batch", "threads")}
        memory = record_of(found.memory)
        return Summary(model=text(found.model), input=tuple(found.input[0:3]), layers=layers, **numbers,
                       memory_bytes=memory.pop("total_bytes"), memory=memory, plan=text(found.plan))
    finally:
        lib.hd_summary_destroy(found)
