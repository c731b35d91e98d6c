"""PyTorch modules as models: in by torch.fx, and out again with trained weights.

A module is traced, and each call becomes a layer of a model file; what heddle does not have is refused by name. Layers
are named as modules are, with _ for the dots, functions as torch.fx names them. PyTorch sees samples as they are, so
such a model is trained without normalising them (transforms=["to_float"]) unless `transforms` says otherwise.
"""
from __future__ import annotations

import copy
import hashlib
import json
import math
import operator
import os
import pathlib
import tempfile
import weakref
from typing import Any, Callable, Sequence

import numpy as np
import torch
import torch.fx
import torch.nn.functional as F
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp

from . import _torch_checks as _checks
from . import _torch_composed as _composed
from . import _torch_places as _places
from ._library import Error, ShapeError, UnsupportedError, UsageError
from ._summary import summary
from ._torch_checks import axes as _axes
from ._torch_checks import inputs as _inputs
from ._torch_checks import is_tensor as _is_tensor
from ._torch_checks import only as _only
from ._torch_checks import refuse as _refuse
from ._torch_checks import shape as _shape
from .model import Model
from .run import remove_folder, weights_bytes

Layer = tuple[str, dict[str, Any]]  # an operation and its settings
_BATCH = 2  # of the samples that a module is traced with


class TorchModel:
    """A module as heddle trains it: `text` is the model file, `names` the module's name of each layer's, `weights` that
    of each weight that is called otherwise; `heads` are those that have losses, of several; with `tokens` samples are
    whole numbers, which nothing scales."""

    def __init__(self, module: nn.Module, text: str, names: dict[str, str], weights: dict[str, str],
                 heads: Sequence[str] = (), tokens: bool = False) -> None:
        self.module, self.text, self.names, self.weights, self.heads = module, text, names, weights, heads
        self.tokens = tokens
        self._files: dict[str, pathlib.Path] = {}  # of first weights, by their digests

    def options(self) -> dict[str, Any]:
        """The options of a run that starts from the module's weights."""
        init = str(self._first_weights())
        return {"model": self.text, "init": init, **({} if self.tokens else {"transforms": "[to_float]"})}

    def _first_weights(self) -> pathlib.Path:
        """A file of the module's weights as they are, one for the same weights. It stays as long as the object, which
        runs keep: what repeats a run reads it."""
        state = self.module.state_dict()
        contents = weights_bytes({ours: self._as_file(its, state[its]) for ours, its in self._tensors().items()})
        digest = hashlib.sha256(contents).hexdigest()
        path = self._files.get(digest)
        if path is None or not path.exists():
            folder = pathlib.Path(tempfile.mkdtemp(prefix="heddle-"))
            weakref.finalize(self, remove_folder, folder, os.getpid())
            path = folder / "init.safetensors"
            path.write_bytes(contents)
            self._files[digest] = path
        return path

    def _as_file(self, name: str, tensor: torch.Tensor) -> np.ndarray:
        """A weight as files have it: of signals those of images of one row."""
        owner = self.module.get_submodule(name.rpartition(".")[0])
        is_kernel = isinstance(owner, (nn.Conv1d, nn.ConvTranspose1d)) and tensor.dim() == 3
        if isinstance(owner, nn.LayerNorm) and tensor.dim() == 2:
            return tensor.unsqueeze(1).detach().cpu().numpy()
        if name in self.weights.values() and tensor.dim() == 3:  # of positions, with an axis for the batch
            return tensor[0].detach().cpu().numpy()
        return (tensor.unsqueeze(2) if is_kernel else tensor).detach().cpu().numpy()

    def _tensors(self) -> dict[str, str]:
        """The names of the weights in files of heddle's, with those of the module's state_dict."""
        state = self.module.state_dict()
        named = {f"{ours}.{name.rpartition('.')[2]}": name for ours, its in self.names.items() for name in state
                 if name.rpartition(".")[0] == its}
        return {**named, **self.weights}

    def with_weights(self, weights: dict[str, np.ndarray]) -> nn.Module:
        """A copy of the module with these weights, on the CPU, in its mode of evaluation."""
        module = copy.deepcopy(self.module).cpu()
        state, trained = module.state_dict(), {}
        for ours, its in self._tensors().items():
            trained[its] = torch.from_numpy(np.array(weights[ours])).reshape(state[its].shape).to(state[its].dtype)
        module.load_state_dict(trained, strict=False)  # other names of tied parameters follow
        return module.eval()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}}


def from_torch(module: nn.Module, input_shape: Sequence[int], loss: Any = "cross_entropy",
               losses: Any = None) -> TorchModel:
    """The model of a module for samples of `input_shape`, (C, H, W), (C, L), (F), (T) tokens that an nn.Embedding
    reads, or (T, F) that an nn.LSTM or nn.GRU reads; its weights are the first ones.

    `loss`: a name, or a criterion such as nn.CrossEntropyLoss(label_smoothing=0.1). `losses`, of a module that returns
    several tensors: one for each, or a pair (loss, weight); a list for a tuple, a dictionary for a dictionary, by the
    same names. Their weighted sum is trained; y has its columns in their order.

    >>> import heddle, torch
    >>> model = heddle.from_torch(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)), (1, 28, 28))
    >>> heddle.train(model, "digits", max_steps=3, out=folder).to_torch()[1].weight.shape
    torch.Size([10, 784])
    """
    _checks.check_module(module)
    module = copy.deepcopy(module)
    shape = _shape_of(input_shape)
    traced = _checks.trace(module)
    _checks.check_writes(traced)
    parameter = next(module.parameters(), torch.zeros(1))
    training = {part: part.training for part in traced.modules()}
    tokens, sequences = _places.reads_tokens(traced), _places.reads_sequences(traced)
    if tokens and len(shape) != 1:
        raise ShapeError(f"expected the number of tokens, (T,), as input_shape, found {input_shape!r}; leave the batch "
                         "and channels out")
    if sequences and len(shape) != 2:
        raise ShapeError(f"expected places and their features, (T, F), as input_shape, found {input_shape!r}; leave "
                         "the batch out")
    x = torch.zeros(_BATCH, *shape, dtype=torch.long if tokens else parameter.dtype, device=parameter.device)
    _checks.check_run(traced.eval(), x)
    ShapeProp(traced).propagate(x)
    for part, mode in training.items():
        part.training = mode
    network = _Network(module, traced, shape, tokens, sequences)
    for node in traced.graph.nodes:
        network.add(node)
    values = dict(network.value)
    model = network.with_loss(loss) if losses is None else network.with_losses(losses)
    text = model.text + network.frozen()
    if tokens:
        text = text.replace(f"input: [1, 1, {shape[0]}]", f"input: [{shape[0]}]", 1)
    result = TorchModel(module, text, network.names, network.weights, model.heads, tokens)
    _checks.check_single(module, result._tensors())
    network.check_shapes(values, text)
    return result


def _shape_of(input_shape: Any) -> tuple[int, ...]:
    try:
        shape = tuple(operator.index(size) for size in input_shape)
    except TypeError:
        shape = ()
    if len(shape) not in (1, 2, 3):
        raise ShapeError(f"expected (C, H, W), (C, L) or (F,) as input_shape, found {input_shape!r}; leave the batch "
                         "out")
    return shape


# A last layer that a loss includes: trained with both, a network computes it twice.
_INCLUDED = {"cross_entropy": ("softmax", "log_softmax"), "bce_with_logits": ("sigmoid",)}


# Layers that may have another's weights.
_SHARE = ("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "linear")


class _Network:
    """The layers so far: `value` is the name of each node's."""

    def __init__(self, module: nn.Module, traced: torch.fx.GraphModule, shape: tuple[int, ...], tokens: bool,
                 sequences: bool) -> None:
        self.value: dict[Any, str] = {}
        self.names: dict[str, str] = {}
        self.weights: dict[str, str] = {}
        self.module, self.traced, self.last = module, traced, "input"
        is_signal = len(shape) == 2 and not sequences
        channels, height, width = (shape[0], 1, shape[1]) if is_signal else (1, 1, *shape)[-3:]
        self.model = Model("torch", (channels, height, width))
        self.is_flat_input = len(shape) == 1 and not tokens
        self.sequence = shape if sequences else None
        self.places = _places.Places(self) if tokens or sequences else None
        self.made: dict[str, tuple[Any, str]] = {}  # what changes the numbers of a value last: its node, its operation
        self.output: Any = None

    def add(self, node: Any) -> None:
        if node.op == "placeholder":
            if self.value:
                raise _refuse(node, "a second input")
            self.value[node] = "input"
            if self.is_flat_input:
                self.layer(node, "flatten", {}, "input_flat", ["input"])
            if self.places and self.sequence:
                self.places.begin(node, self.sequence)
        elif node.op == "output":
            self.output = node
        elif "tensor_meta" not in node.meta:  # a size, which a view reads
            pass
        elif self.places and node.op == "get_attr":
            self.places.keep(node)
        elif self.places.take(node) if self.places else _composed.take(self, node):
            pass
        elif node.op == "call_module":
            module = self.traced.get_submodule(node.target)
            layer = _of_module(node, module)
            _checks.check_layer(node.target, module)
            has_parameters = any(True for _ in module.parameters())
            self.call(node, layer, _checks.owner_of(self.module, node.target) if has_parameters else None)
        elif node.op in ("call_function", "call_method"):
            self.call(node, _of_function(node), None)
        else:
            is_layer = type(self.module) in _MODULES
            raise _refuse(node, f"a parameter that is used outside of a module, {node.target}",
                          "wrap it: nn.Sequential(module)" if is_layer else "use a module of torch.nn")

    def convert(self, node: Any) -> Layer | None:
        """The layer of a call without parameters."""
        is_module = node.op == "call_module"
        return _of_module(node, self.traced.get_submodule(node.target)) if is_module else _of_function(node)

    def call(self, node: Any, layer: Layer | None, module: str | None) -> None:
        inputs = self._read(node)
        if layer is None:  # nothing to compute
            self.value[node] = inputs[0]
            return
        op, settings = layer
        name = (module or (node.target if node.op == "call_module" else node.name)).replace(".", "_")
        if module in self.names.values():
            if op not in _SHARE:
                raise _refuse(node, f"a second call of {module}", "make another module with weights of its own")
            settings = {**settings, "share": name}
            name = node.name
        elif module:
            self.names[name] = module
        elif name in self.value.values():
            name = node.name
        self.layer(node, op, settings, name, inputs)

    def _read(self, node: Any) -> list[str]:
        """The layers whose outputs a call reads: all of as many dimensions, the first of which is the samples'."""
        values = _inputs(node)
        if not all(isinstance(each, torch.fx.Node) and each in self.value for each in values):
            raise _refuse(node, "an input that is no layer's output")
        if len({len(_shape(each)) for each in values}) > 1:
            raise _refuse(node, f"values of the shapes {', '.join(str(_shape(each)) for each in values)}",
                          "give them as many dimensions")
        return [self.value[each] for each in values]

    def check_shapes(self, values: dict[Any, str], text: str) -> None:
        """Each layer has the output of PyTorch's call, so that both mean the same dimensions."""
        shapes = _shapes_of(text)
        for node, name in values.items():
            if _is_tensor(node) and name in shapes and shapes[name] != self._as_layer(_shape(node)):
                raise _refuse(node, f"an output of {_shape(node)} for {_BATCH} samples, but "
                              f"{'x'.join(map(str, shapes[name]))} for each of the layer {name}")

    def _as_layer(self, found: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a call as channels, height, width: signals and places are rows of pixels."""
        if found[:1] != (_BATCH,) or len(found) > 3:
            return found[1:] if found[:1] == (_BATCH,) else ()
        if len(found) == 3:
            return (found[2], 1, found[1]) if self.places else (found[1], 1, found[2])
        return math.prod(found[1:]), 1, 1

    def with_loss(self, loss: Any) -> Model:
        """The model, whose loss reads the only output."""
        result = self.output.args[0]
        if isinstance(result, (tuple, list, dict)):
            raise _refuse(self.output, f"{len(result)} outputs", "give losses=, one for each")
        if self.value.get(result) != self.last:
            raise _refuse(self.output, "an output that is not the last layer's")
        name, settings = _loss_of(loss)
        self._check_last(self.last, name)
        return self.model.loss(name, **settings)

    def with_losses(self, losses: Any) -> Model:
        """The model, with a loss for each of several outputs."""
        result = self.output.args[0]
        outputs = _by_name(result) if isinstance(result, (tuple, list, dict)) else {}
        if not isinstance(losses, (tuple, list, dict)) or _by_name(losses).keys() != outputs.keys():
            raise UsageError(f"expected losses for the outputs of the module, {_listed(result)}, found "
                             f"{_listed(losses)}; give one for each")
        heads = {}
        for key, loss in _by_name(losses).items():
            if outputs[key] not in self.value:
                raise _refuse(self.output, f"the output {key!r}, which is no layer's")
            loss, weight = loss if isinstance(loss, (tuple, list)) and len(loss) == 2 else (loss, 1)
            op, settings = _loss_of(loss)
            if settings.get("ignore_index") == _IGNORED:  # other labels than classes are refused
                del settings["ignore_index"]
            self._check_last(self.value[outputs[key]], op)
            heads[self._head(outputs[key], key)] = {"op": op, **settings, "loss_weight": float(weight)}
        return self.model.losses(**heads)

    def _head(self, node: Any, key: Any) -> str:
        """The layer of an output, which is called as the module's dictionary calls it."""
        if isinstance(key, str) and self.value[node] != key:
            self.layer(node, "flatten", {}, key, [self.value[node]])
        return self.value[node]

    def _check_last(self, value: str, loss: str) -> None:
        """The last layer is none that the loss includes."""
        node, op = self.made.get(value, (None, ""))
        if op in _INCLUDED.get(loss, ()):
            raise _refuse(node, f"a final {op} before {loss}", f"leave it out; {loss} includes it")

    def frozen(self) -> str:
        """Rules for parameters that are not to be trained."""
        rules = [{"match": f"{ours}.{key}", "requires_grad": False} for ours, its in self.names.items()
                 for key, parameter in self.module.get_submodule(its).named_parameters() if not parameter.requires_grad]
        trained = {name for name, parameter in self.module.named_parameters(remove_duplicate=False)
                   if parameter.requires_grad}
        rules += [{"match": ours, "requires_grad": False} for ours, its in self.weights.items() if its not in trained]
        return f"parameters: {json.dumps(rules)}\n" if rules else ""

    def layer(self, node: Any, op: str, settings: dict[str, Any], name: str, inputs: list[str]) -> None:
        source = inputs if len(inputs) > 1 else inputs[0]
        self.model.add(name, op, from_=source, **settings)
        self.made[name] = self.made.get(inputs[0], (None, "")) if op == "flatten" else (node, op)
        self.value[node] = self.last = name


def _shapes_of(text: str) -> dict[str, tuple[int, ...]]:
    """The output of each layer as channels, height, width; none of a network that no run takes, which says why."""
    try:
        layers = summary(text).layers
    except Error:
        return {}
    return {layer.name: (*layer.shape, 1, 1)[:3] for layer in layers}


def _by_name(several: Any) -> dict[Any, Any]:
    """The values of a dictionary, or those of a list by their places."""
    return dict(several) if isinstance(several, dict) else dict(enumerate(several))


def _listed(several: Any) -> str:
    if isinstance(several, dict):
        return f"a dictionary of {', '.join(map(str, several))}"
    return f"a list of {len(several)}" if isinstance(several, (tuple, list)) else "a single one"


# ---- Modules ----

def _pair(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, list)) else value


def _conv(node: Any, m: Any) -> Layer:
    _only(node, padding_mode=(m.padding_mode, "zeros"))
    settings = {"out": m.out_channels, "kernel": _pair(m.kernel_size), "stride": _pair(m.stride),
                "dilation": _pair(m.dilation), "groups": m.groups, "bias": m.bias is not None}
    if isinstance(m, (nn.ConvTranspose1d, nn.ConvTranspose2d)):
        return "conv_transpose2d", {**settings, "padding": _pair(m.padding),
                                    "output_padding": _pair(m.output_padding)}
    padding = m.padding
    if padding == "same":
        if any((k - 1) * d % 2 for k, d in zip(m.kernel_size, m.dilation)):
            raise _refuse(node, "padding='same' with an even kernel")
        padding = [(k - 1) * d // 2 for k, d in zip(m.kernel_size, m.dilation)]
    return "conv2d", {**settings, "padding": 0 if padding == "valid" else _pair(padding)}


def _images(convert: Callable[..., Layer | None], rank: int = 4) -> Callable[..., Layer | None]:
    """A layer over images, or over signals: PyTorch takes values of fewer dimensions for one sample without a batch."""
    def of(node: Any, *args: Any, **named: Any) -> Layer | None:
        found = _shape(_inputs(node)[0])
        if len(found) != rank:
            raise _refuse(node, f"a layer over {'(N, C, H, W)' if rank == 4 else '(N, C, L)'}, which reads {found}",
                          "use the layer of as many dimensions, such as nn.MaxPool1d for signals")
        return convert(node, *args, **named)
    return of


def _line(convert: Callable[..., Layer | None]) -> Callable[..., Layer | None]:
    """A layer over signals from that over images: numbers in place of lists."""
    def of(*args: Any) -> Layer | None:
        layer = _images(convert, 3)(*args)
        if layer is None:
            return None
        settings = {key: value[0] if isinstance(value, list) else value for key, value in layer[1].items()}
        return layer[0].replace("2d", "1d"), settings
    return of


def _linear(node: Any, m: Any) -> Layer:
    if len(_shape(_inputs(node)[0])) != 2:
        raise _refuse(node, "a linear layer over images; flatten them first")
    return "linear", {"out": m.out_features, "bias": m.bias is not None}


def _batch_norm(node: Any, m: Any) -> Layer:
    _only(node, affine=(m.affine, True), track_running_stats=(m.track_running_stats, True))
    _checks.with_bias(node, m)
    if m.momentum is None:
        raise _refuse(node, "momentum=None")
    return "batch_norm", {"eps": m.eps, "momentum": m.momentum}


def _layer_norm(node: Any, m: Any) -> Layer:
    _only(node, elementwise_affine=(m.elementwise_affine, True),
          normalized_shape=(tuple(m.normalized_shape), _shape(node)[1:]))
    _checks.with_bias(node, m)
    return "layer_norm", {"eps": m.eps}


def _group_norm(node: Any, m: Any) -> Layer:
    _only(node, affine=(m.affine, True))
    _checks.with_bias(node, m)
    return "group_norm", {"groups": m.num_groups, "eps": m.eps}


def _max_pool(node: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
              return_indices: bool = False) -> Layer:
    _only(node, dilation=(dilation, 1), return_indices=(return_indices, False))
    return "max_pool2d", {"kernel": _pair(kernel), "stride": _pair(stride or kernel), "padding": _pair(padding),
                          "ceil_mode": ceil_mode}


def _avg_pool(node: Any, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
              count_include_pad: bool = True, divisor_override: Any = None) -> Layer:
    _only(node, divisor_override=(divisor_override, None))
    return "avg_pool2d", {"kernel": _pair(kernel), "stride": _pair(stride or kernel), "padding": _pair(padding),
                          "count_include_pad": count_include_pad, "ceil_mode": ceil_mode}


def _pair_of(size: Any) -> tuple[Any, ...]:
    return tuple(size) if isinstance(size, (tuple, list)) else (size,)


def _adaptive_pool(node: Any, size: Any) -> Layer | None:
    """A mean over windows of one size, where the sides divide."""
    sides = (1, 1, *_shape(_inputs(node)[0])[2:])[-2:]  # a signal is an image of one row
    size = tuple(size if isinstance(size, (tuple, list)) else (size, size))
    size = tuple(side if wanted is None else wanted for side, wanted in zip(sides, size))
    if size == (1, 1):
        return "global_avg_pool2d", {}
    if any(side % wanted for side, wanted in zip(sides, size)):
        return "adaptive_avg_pool2d", {"size": list(size)}
    kernel = [side // wanted for side, wanted in zip(sides, size)]
    return None if kernel == [1, 1] else ("avg_pool2d", {"kernel": kernel})


def _adaptive_max_pool(node: Any, size: Any, return_indices: bool = False) -> Layer:
    _only(node, return_indices=(return_indices, False))
    sides = _shape(_inputs(node)[0])[2:]
    size = size if isinstance(size, (tuple, list)) else (size, size)
    return "adaptive_max_pool2d", {"size": [side if wanted is None else wanted for side, wanted in zip(sides, size)]}


def _upsample(node: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
              align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False) -> Layer:
    _only(node, antialias=(antialias, False))
    if mode not in ("nearest", "bilinear"):
        raise _refuse(node, f"mode={mode!r}")
    settings = {"mode": mode, "align_corners": bool(align_corners)}
    sides = len(_shape(_inputs(node)[0])) - 2
    height = [1] * (2 - sides)  # of a signal
    if scale_factor is None:
        return "upsample", {**settings, "size": height + list(_pair_of(size)) if height else _pair(size)}
    factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * sides
    if any(factor != int(factor) for factor in factors):
        raise _refuse(node, f"scale_factor={scale_factor!r}, no whole number")
    return "upsample", {**settings, "scale_factor": height + [int(factor) for factor in factors]}


def _pad(node: Any, pad: Any, mode: str = "constant", value: Any = None) -> Layer:
    modes = {"constant": "zero", "reflect": "reflect", "replicate": "replicate"}
    left, right, top, bottom = (*pad, *(0,) * 4)[:4]
    sides = len(_shape(_inputs(node)[0])) - 2
    if mode not in modes or len(pad) > 2 * sides or value or any(each < 0 for each in pad):
        raise _refuse(node, f"padding by {tuple(pad)}, mode={mode!r}, value={value!r}")
    return "pad", {"padding": [top, left], "end": [bottom, right], "mode": modes[mode]}


def _chunk(node: Any, sizes: Any = None, dim: int = 0, **named: Any) -> None:
    """Chunks of channels: each one is a slice of what is cut."""
    _only(node, dim=(dim, 1))


def _slice(node: Any, index: Any = None) -> Layer:
    """x[:, start:end], or a chunk of channels."""
    x = _inputs(node)[0]
    if isinstance(index, int) and not _is_tensor(x):
        widths = [each.shape[1] for each in x.meta["tensor_meta"]]
        first = sum(widths[:index % len(widths)])
        return "slice", {"start": first, "end": first + widths[index]}
    wanted = index if isinstance(index, tuple) else (index,)
    if Ellipsis in wanted:  # all dimensions that are not named
        at = wanted.index(Ellipsis)
        wanted = wanted[:at] + (slice(None),) * (len(_shape(x)) - len(wanted) + 1) + wanted[at + 1:]
    others = any(each != slice(None) for each in wanted[:1] + wanted[2:])
    if others or len(wanted) < 2 or not isinstance(wanted[1], slice) or wanted[1].step not in (None, 1):
        raise _refuse(node, f"elements {index!r} of {_shape(x)}; only x[:, start:end] is a layer")
    start, end, _ = wanted[1].indices(_shape(x)[1])
    return "slice", {"start": start, "end": end}


def _dropped(node: Any, op: str, p: float, training: bool) -> Layer | None:
    if p > 0 and not training:
        raise _refuse(node, f"F.{op} with training=False", "call train() first, or leave it out")
    return (op, {"p": p}) if p > 0 else None


def _dropout2d(node: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Layer | None:
    return _dropped(node, "dropout2d", p, training)


def _instance_norm(node: Any, m: Any) -> Layer:
    _only(node, affine=(m.affine, True), track_running_stats=(m.track_running_stats, False))
    _checks.with_bias(node, m)
    return "instance_norm", {"eps": m.eps}


def _rms_norm(node: Any, m: Any) -> Layer:
    _only(node, elementwise_affine=(m.elementwise_affine, True),
          normalized_shape=(tuple(m.normalized_shape), _shape(node)[1:]))
    if len(m.normalized_shape) > 1:
        raise _refuse(node, f"normalized_shape={tuple(m.normalized_shape)}", "flatten its input first")
    return "rms_norm", {} if m.eps is None else {"eps": m.eps}


def _dropout(node: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Layer | None:
    return _dropped(node, "dropout", p, training)


def _flatten(node: Any, *_: Any, **__: Any) -> Layer | None:
    """Whatever makes rows of samples: flatten, view, reshape, squeeze."""
    before, after = _shape(_inputs(node)[0]), _shape(node)
    is_last = all(user.op == "output" for user in node.users)
    if before == after or (is_last and before == (*after, 1)):  # (N, 1) as (N)
        return None
    if len(after) != 2 or after[0] != before[0]:
        raise _refuse(node, f"a change of shape from {before} to {after}; only flatten(1) is one")
    return "flatten", {}


def _softmax(node: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Layer:
    _only(node, dim=(dim, 1), dtype=(dtype, None))
    return "softmax", {}


def _log_softmax(node: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Layer:
    return "log_softmax", _softmax(node, dim, _stacklevel, dtype)[1]


def _mean(node: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Layer:
    x = _inputs(node)[0]
    dims, pixels = None if dim is None else _axes(x, dim), list(range(2, len(_shape(x))))
    _only(node, dtype=(dtype, None))
    if dims == [1] and keepdim:
        return "mean", {"over": "channels"}
    _only(node, dim=(dims, pixels))
    if not keepdim:
        raise _refuse(node, "keepdim=False", f"write x.mean({tuple(pixels)}, keepdim=True).flatten(1)")
    return "global_avg_pool2d", {}


def _amax(node: Any, dim: Any = (), keepdim: bool = False) -> Layer:
    x = _inputs(node)[0]
    dims, pixels = _axes(x, dim), list(range(2, len(_shape(x))))
    if dims not in ([1], pixels) or not dims or not keepdim:
        raise _refuse(node, f"amax(dim={dim!r}, keepdim={keepdim})",
                      f"write x.amax({tuple(pixels) or 1}, keepdim=True)")
    return "max", {"over": "channels" if dims == [1] else "pixels"}


_MODULES: dict[type, Callable[[Any, Any], Layer | None]] = {
    nn.Conv2d: _images(_conv), nn.ConvTranspose2d: _images(_conv), nn.Linear: _linear, nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm, nn.LayerNorm: _layer_norm, nn.GroupNorm: _group_norm,
    nn.MaxPool2d: lambda n, m: _images(_max_pool)(n, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode,
                                                  m.return_indices),
    nn.AvgPool2d: lambda n, m: _images(_avg_pool)(n, m.kernel_size, m.stride, m.padding, m.ceil_mode,
                                                  m.count_include_pad, m.divisor_override),
    nn.AdaptiveAvgPool2d: lambda n, m: _images(_adaptive_pool)(n, m.output_size),
    nn.Flatten: _flatten, nn.Identity: lambda n, m: None,
    nn.Dropout: lambda n, m: _dropout(n, m.p), nn.Softmax: lambda n, m: _softmax(n, m.dim),
    nn.ReLU: lambda n, m: ("relu", {}), nn.Sigmoid: lambda n, m: ("sigmoid", {}), nn.Tanh: lambda n, m: ("tanh", {}),
    nn.SiLU: lambda n, m: ("swish", {}), nn.GELU: lambda n, m: ("gelu", {"approximate": m.approximate}),
    nn.LeakyReLU: lambda n, m: ("leaky_relu", {"negative_slope": m.negative_slope}),
    nn.ReLU6: lambda n, m: ("relu6", {}), nn.Hardswish: lambda n, m: ("hardswish", {}),
    nn.Hardsigmoid: lambda n, m: ("hardsigmoid", {}), nn.ELU: lambda n, m: ("elu", {"alpha": m.alpha}),
    nn.SELU: lambda n, m: ("selu", {}), nn.Mish: lambda n, m: ("mish", {}),
    nn.Softplus: lambda n, m: _softplus(n, m.beta, m.threshold),
    nn.Hardtanh: lambda n, m: _hardtanh(n, m.min_val, m.max_val),
    nn.PReLU: lambda n, m: ("prelu", {"num_parameters": m.num_parameters}),
    nn.Conv1d: _line(_conv), nn.ConvTranspose1d: _line(_conv),
    nn.MaxPool1d: lambda n, m: _line(_max_pool)(n, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode,
                                                m.return_indices),
    nn.AvgPool1d: lambda n, m: _line(_avg_pool)(n, m.kernel_size, m.stride, m.padding, m.ceil_mode,
                                                m.count_include_pad),
    nn.AdaptiveAvgPool1d: lambda n, m: _images(_adaptive_pool, 3)(n, (1, *_pair_of(m.output_size))),
    nn.AdaptiveMaxPool2d: lambda n, m: _images(_adaptive_max_pool)(n, m.output_size, m.return_indices),
    nn.Upsample: lambda n, m: _upsample(n, m.size, m.scale_factor, m.mode, m.align_corners),
    nn.UpsamplingNearest2d: lambda n, m: _upsample(n, m.size, m.scale_factor),
    nn.UpsamplingBilinear2d: lambda n, m: _upsample(n, m.size, m.scale_factor, "bilinear", True),
    nn.ZeroPad2d: lambda n, m: _pad(n, m.padding), nn.ReflectionPad2d: lambda n, m: _pad(n, m.padding, "reflect"),
    nn.ReplicationPad2d: lambda n, m: _pad(n, m.padding, "replicate"),
    nn.Dropout2d: lambda n, m: _dropout2d(n, m.p), nn.InstanceNorm2d: _images(_instance_norm), nn.RMSNorm: _rms_norm,
    nn.LogSoftmax: lambda n, m: _log_softmax(n, m.dim),
}


def _of_module(node: Any, module: nn.Module) -> Layer | None:
    convert = _MODULES.get(type(module))
    if convert is None:
        raise _refuse(node, f"nn.{type(module).__name__}")
    return convert(node, module)


# ---- Functions and methods ----

def _add(node: Any, other: Any = None, *, alpha: float = 1) -> Layer:
    _only(node, alpha=(alpha, 1))
    if len(_inputs(node)) != 2:
        raise _refuse(node, f"a sum or a difference with {other!r}")
    return "add", {}


def _sub(node: Any, other: Any = None, *, alpha: float = 1) -> Layer:
    return "sub", _add(node, other, alpha=alpha)[1]


def _cat(node: Any, dim: int = 0) -> Layer | None:
    _only(node, dim=(dim, 1))
    return ("concat", {}) if len(_inputs(node)) > 1 else None  # of one value, or of all chunks of one


def _times(node: Any, *numbers: Any, invert: bool = False) -> Layer:
    """x * c, c * x or x / c; x * y or x / y."""
    if len(_inputs(node)) == 2:
        return ("div" if invert else "mul"), {}
    constants = [each for each in node.args if isinstance(each, (int, float))]
    if len(_inputs(node)) != 1 or len(constants) != 1 or (invert and node.args[0] is constants[0]):
        raise _refuse(node, "a product or a quotient other than of a value and a number")
    return "scale", {"factor": 1 / constants[0] if invert else constants[0]}


def _gelu(node: Any, approximate: str = "none") -> Layer:
    return "gelu", {"approximate": approximate}


def _leaky_relu(node: Any, negative_slope: float = 0.01, inplace: bool = False) -> Layer:
    return "leaky_relu", {"negative_slope": negative_slope}


def _elu(node: Any, alpha: float = 1, inplace: bool = False) -> Layer:
    return "elu", {"alpha": alpha}


def _softplus(node: Any, beta: float = 1, threshold: float = 20) -> Layer:
    return "softplus", {"beta": beta, "threshold": threshold}


def _clip(node: Any, min: Any = None, max: Any = None) -> Layer:
    if any(isinstance(each, torch.fx.Node) for each in (*node.args[1:], *node.kwargs.values())):
        raise _refuse(node, "limits that are computed")
    limits = ("min", min, -math.inf), ("max", max, math.inf)
    return "clip", {name: float(value) for name, value, none in limits if value not in (None, none)}


def _hardtanh(node: Any, low: Any, high: Any) -> Layer:
    """relu6's gradient is 0 at both limits, as hardtanh's; clip's passes there, as clamp's does."""
    return ("relu6", {}) if (low, high) == (0, 6) else _clip(node, low, high)


def _simple(op: str) -> Callable[..., Layer]:
    return lambda node, inplace=False: (op, {})


_FUNCTIONS: dict[Any, Callable[..., Layer | None]] = {}
for _names, _convert in (
        ((F.relu, torch.relu, "relu", F.relu_, "relu_"), _simple("relu")), ((F.silu,), _simple("swish")),
        ((torch.sigmoid, F.sigmoid, "sigmoid"), _simple("sigmoid")), ((torch.tanh, F.tanh, "tanh"), _simple("tanh")),
        ((F.gelu,), _gelu), ((F.leaky_relu,), _leaky_relu), ((F.dropout,), _dropout), ((F.relu6,), _simple("relu6")),
        ((F.hardswish,), _simple("hardswish")), ((F.hardsigmoid,), _simple("hardsigmoid")), ((F.elu,), _elu),
        ((F.selu, torch.selu), _simple("selu")), ((F.mish,), _simple("mish")), ((F.softplus,), _softplus),
        ((torch.clamp, torch.clip, "clamp", "clip"), _clip),
        ((F.hardtanh,), lambda node, min_val=-1, max_val=1, inplace=False: _hardtanh(node, min_val, max_val)),
        ((F.max_pool2d, torch.max_pool2d), _images(_max_pool)), ((F.avg_pool2d,), _images(_avg_pool)),
        ((F.adaptive_avg_pool2d,), _images(_adaptive_pool)), ((F.softmax, torch.softmax, "softmax"), _softmax),
        ((F.log_softmax, torch.log_softmax, "log_softmax"), _log_softmax),
        ((torch.flatten, "flatten", "view", "reshape", "squeeze", torch.reshape, torch.squeeze), _flatten),
        ((operator.mul, operator.imul, torch.mul, "mul", "mul_"), _times),
        ((operator.truediv, operator.itruediv, torch.div, "div", "div_"),
         lambda node, *numbers: _times(node, *numbers, invert=True)),
        ((operator.sub, operator.isub, torch.sub, "sub", "sub_"), _sub),
        ((operator.add, operator.iadd, torch.add, "add", "add_"), _add), ((torch.cat, torch.concat), _cat),
        ((F.interpolate,), _upsample), ((F.pad,), _pad), ((operator.getitem,), _slice),
        ((torch.chunk, "chunk", torch.split, "split"), _chunk), ((F.dropout2d,), _dropout2d),
        ((F.adaptive_max_pool2d,), _images(_adaptive_max_pool)), ((torch.amax, "amax"), _amax),
        ((torch.mean, "mean"), _mean)):
    _FUNCTIONS.update({name: _convert for name in _names})


def _of_function(node: Any) -> Layer | None:
    convert = _FUNCTIONS.get(node.target)
    if convert is None:
        raise _refuse(node, getattr(node.target, "__name__", str(node.target)))
    if convert is _flatten:
        return _flatten(node)
    others = {name: value for name, value in node.kwargs.items() if not isinstance(value, torch.fx.Node)}
    try:
        return convert(node, *[each for each in node.args[1:] if not isinstance(each, torch.fx.Node)], **others)
    except TypeError as error:
        raise _refuse(node, f"arguments of {node.target} that it does not know ({error})") from error


# ---- Losses ----

_IGNORED = nn.CrossEntropyLoss().ignore_index  # by default


def _loss_of(loss: Any) -> Layer:
    if isinstance(loss, str):
        return loss, {}
    if isinstance(loss, nn.Module):
        _checks.check_hooks(type(loss).__name__, loss)
    if getattr(loss, "reduction", "mean") != "mean":
        raise UnsupportedError(f"expected a criterion with reduction='mean', found {loss.reduction!r}; use the mean")
    if type(loss) is nn.CrossEntropyLoss:
        settings = {"ignore_index": loss.ignore_index, "label_smoothing": loss.label_smoothing}
        return "cross_entropy", settings if loss.weight is None else {**settings, "weight": loss.weight.tolist()}
    if type(loss) is nn.BCEWithLogitsLoss and loss.weight is None:
        return "bce_with_logits", {} if loss.pos_weight is None else {"pos_weight": loss.pos_weight.tolist()}
    if type(loss) is nn.HuberLoss:
        return "huber", {"delta": loss.delta}
    if type(loss) in (nn.MSELoss, nn.L1Loss):
        return ("mse" if type(loss) is nn.MSELoss else "l1"), {}
    if type(loss) is nn.NLLLoss:
        raise UnsupportedError("expected a loss that heddle has, found NLLLoss; leave out the log_softmax before it "
                               "and use nn.CrossEntropyLoss()")
    raise UnsupportedError(f"expected a loss that heddle has, found {type(loss).__name__}; see docs/model-files.md")
