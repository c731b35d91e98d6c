"""Whether a module computes what its classes and settings say: everything else about it that could change a training
step, and that a model file does not have, is refused by name.

A trace sees calls alone. Hooks, modes, types, and parameters that are shared or not where they belong, stay outside.
"""
from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch import nn
from torch.fx.passes.shape_prop import TensorMetadata

from ._library import Error, ShapeError, UnsupportedError, UsageError

_HOOKS = {
    "_forward_hooks": "a forward hook", "_forward_pre_hooks": "a forward pre-hook",
    "_backward_hooks": "a backward hook",
    "_backward_pre_hooks": "a backward pre-hook", "_state_dict_hooks": "a hook of its state_dict",
    "_state_dict_pre_hooks": "a hook of its state_dict",
}
_NORM_BUFFERS = {"running_mean", "running_var", "num_batches_tracked"}


def _refuse(name: str, why: str, remedy: str) -> UnsupportedError:
    return UnsupportedError(f"{name or 'the module'}: expected a module that is its classes and settings alone, found "
                            f"{why}; {remedy}")


def first_line(error: BaseException) -> str:
    """What an exception of PyTorch says, in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


# ---- Nodes of a trace ----

def refuse(node: Any, why: str, remedy: str = "see docs/model-files.md, or replace it") -> UnsupportedError:
    return UnsupportedError(f"{node.name}: expected a layer that heddle has, found {why}; {remedy}")


def is_tensor(node: Any) -> bool:
    """Whether its result is one tensor: neither a size nor several."""
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("tensor_meta"), TensorMetadata)


def shape(node: Any) -> tuple[int, ...]:
    """The shape of its result, samples first; () where that is not one tensor."""
    return tuple(node.meta["tensor_meta"].shape) if is_tensor(node) else ()


def inputs(node: Any) -> list[Any]:
    """What a call computes with."""
    first = node.args[0] if node.args else next(iter(node.kwargs.values()))
    if isinstance(first, (tuple, list)):
        return list(first)
    return [each for each in node.args if isinstance(each, torch.fx.Node) and "tensor_meta" in each.meta] or [first]


def axes(x: Any, dim: Any) -> list[int]:
    """Dimensions of a value, in order, those that count from the last too."""
    rank = max(len(shape(x)), 1)
    return sorted(d % rank for d in (dim if isinstance(dim, (tuple, list)) else [dim]))


def only(node: Any, **settings: tuple[Any, Any]) -> None:
    """Refuses settings that heddle does not have: name=(found, the one that it has)."""
    for name, (found, has) in settings.items():
        if found != has:
            raise refuse(node, f"{name}={found!r}")


def with_bias(node: Any, m: Any) -> None:
    """heddle's norms have a bias, but rms_norm."""
    if m.bias is None:
        raise refuse(node, "bias=False", "give the norm a bias of zeros, with requires_grad_(False)")


# ---- Calls ----

def _autocast() -> bool:
    try:
        return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    except TypeError:  # before PyTorch 2.4
        return torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled()


class _Tracer(torch.fx.Tracer):
    """Refuses calls whose gradients, or whose types, the code around them changes."""

    def create_node(self, kind: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(target, "__name__", str(target))
        if kind not in ("placeholder", "output") and not torch.is_grad_enabled():
            raise _refuse(name, "a call without gradients (no_grad)",
                          "use requires_grad_(False) on what is not to be trained")
        if kind not in ("placeholder", "output") and _autocast():
            raise _refuse(name, "a call under autocast", "call it in float32, or train with precision='bf16'")
        return super().create_node(kind, target, *args, **kwargs)


def trace(module: nn.Module) -> torch.fx.GraphModule:
    """The module's calls, in a graph."""
    tracer = _Tracer()
    try:
        with torch.enable_grad():
            graph = tracer.trace(module)
    except Error:
        raise
    except Exception as error:  # of forward(), which sees a proxy in place of numbers
        raise UnsupportedError("expected a forward() that torch.fx can trace, the same calls for every sample, found "
                               f"{first_line(error)}; take out what depends on values") from error
    return torch.fx.GraphModule(tracer.root, graph)


def check_run(traced: torch.fx.GraphModule, x: torch.Tensor) -> None:
    """The calls fit samples of this shape."""
    try:
        torch.fx.Interpreter(traced).run(x, enable_io_processing=False)
    except Exception as error:
        raise ShapeError(f"expected a module for samples of {tuple(x.shape[1:])}, found {first_line(error)}; give the "
                         "input_shape of its samples, or change its layers") from error


# ---- Modules ----

def check_hooks(name: str, module: nn.Module) -> None:
    for attribute, what in _HOOKS.items():
        if getattr(module, attribute, None):
            raise _refuse(name, what, "remove it, or do its work in a forward()")
    if "forward" in vars(module):
        raise _refuse(name, "a forward() of this object in place of its class's", "derive a class")


def _check_parameters(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise _refuse(name, "a parameter without a shape", "call the module once first")
        if parameter.dtype != torch.float32:
            raise _refuse(name, f"numbers of {parameter.dtype}", "call float() first")
        if parameter.is_meta or parameter.layout != torch.strided:
            raise _refuse(name, "a parameter on the device 'meta'" if parameter.is_meta else f"{parameter.layout}",
                          "give it dense numbers")
        if getattr(parameter, "_backward_hooks", None) or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise _refuse(name, "a hook of its gradient", "remove it")


def _extent(tensor: torch.Tensor) -> tuple[Any, int, int]:
    """Its device, and the bytes from its first element to its last."""
    first = tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else -1
    return tensor.device, first, first + (last + 1) * tensor.element_size()


def _check_memory(module: nn.Module) -> None:
    """Different parameters and buffers have different memory, and different elements of one too."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    spans = sorted((str(device), first, last, name) for name, (device, first, last) in
                   ((name, _extent(tensor)) for name, tensor in tensors) if last > first)
    for before, after in zip(spans, spans[1:]):
        if before[0] == after[0] and after[1] < before[2]:
            raise _refuse(after[3], f"memory that is {before[3]}'s too", "make it the same parameter, or clone() it")
    for name, tensor in tensors:
        if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
            raise _refuse(name, "elements that share memory", "make it contiguous()")


def check_module(module: nn.Module) -> None:
    """What holds for every module, whichever layers it has."""
    if isinstance(module, type) and issubclass(module, nn.Module):
        raise UsageError(f"expected a module, found the class {module.__name__}; make one: {module.__name__}()")
    if not isinstance(module, nn.Module):
        raise UsageError(f"expected a PyTorch module, found {type(module).__name__}; give a torch.nn.Module")
    if any(getattr(nn.modules.module, f"_global{kind}", None) for kind in _HOOKS):
        raise _refuse("torch", "a hook of all modules", "remove it")
    _check_parameters(module)
    _check_memory(module)
    for name, part in module.named_modules():
        check_hooks(name, part)


def recurrent_kinds(module: nn.RNNBase) -> list[str]:
    """The parameters of each layer of a recurrent module, without the layer's number."""
    return [f"{kind}_{part}" for kind in ("weight", "bias")[:1 + module.bias] for part in ("ih", "hh")]


def check_layer(name: str, module: nn.Module) -> None:
    """A module that becomes a layer has the parameters and buffers of its class, and is in the mode of training."""
    is_recurrent = isinstance(module, nn.RNNBase)
    expected = {f"{kind}_l{i}" for i in range(module.num_layers) for kind in recurrent_kinds(module)} \
        if is_recurrent else {kind for kind in ("weight", "bias") if getattr(module, kind, None) is not None}
    found = set(dict(module.named_parameters(recurse=False)))
    if expected != found:
        what = min(expected ^ found)
        raise _refuse(f"{name}.{what}", *(("no parameter", "make it an nn.Parameter") if what in expected else
                                          ("a parameter that its class does not have", "remove it")))
    is_norm = isinstance(module, nn.modules.batchnorm._NormBase)
    buffers = set(dict(module.named_buffers(recurse=False))) - (_NORM_BUFFERS if is_norm else set())
    if buffers:
        raise _refuse(f"{name}.{min(buffers)}", "a buffer that its class does not have", "remove it")
    drops = isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0 or is_recurrent and module.dropout > 0
    if not module.training and (is_norm or drops):
        raise _refuse(name, f"nn.{type(module).__name__} in eval()", "call train() first, or leave it out")


# ---- What is shared ----

def owner_of(module: nn.Module, name: str) -> str:
    """The first module that has the parameters of the one called `name`: mostly itself, else they are tied."""
    part = module.get_submodule(name)
    ours = dict(part.named_parameters(recurse=False))
    owners = []
    for other, owner in module.named_modules():
        theirs = dict(owner.named_parameters(recurse=False))
        tied = [key for key in ours if any(ours[key] is each for each in theirs.values())]
        whole = type(owner) is type(part) and set(theirs) == set(ours) and all(theirs[key] is ours[key] for key in ours)
        if tied and owner is not part and (not whole or isinstance(part, nn.modules.batchnorm._NormBase)):
            raise _refuse(f"{name}.{tied[0]}", f"a parameter that {other or 'the module'} has too",
                          "share all parameters of both, or call one module twice")
        owners += [other] if tied else []
    return owners[0] if owners else name


def tied_embedding(module: nn.Module, name: str) -> str:
    """The embedding whose weight the linear layer of this name has too; "" for none."""
    part = module.get_submodule(name)
    owners = [other for other, owner in module.named_modules()
              if type(owner) is nn.Embedding and owner.weight is part.weight]
    if owners and part.bias is not None:
        raise _refuse(f"{name}.weight", f"a parameter that {owners[0]} has too, and a bias", "leave the bias out")
    return owners[0] if owners else ""


def check_single(module: nn.Module, tensors: dict[str, str]) -> None:
    """Each trained parameter is the weight of one layer: two layers would train it apart. `tensors`: the names in the
    module's state_dict of those of the layers' weights."""
    state = module.state_dict()
    parameters = dict(module.named_parameters(remove_duplicate=False))
    first: dict[int, str] = {}
    for ours, its in tensors.items():
        if its not in state:
            raise _refuse(its, "no parameter", "make it an nn.Parameter")
        parameter = parameters.get(its)
        if parameter is None or not parameter.requires_grad:
            continue
        other = first.setdefault(id(parameter), ours)
        if other != ours:
            raise _refuse(its, f"a parameter of two layers, {other.rpartition('.')[0]} and {ours.rpartition('.')[0]}",
                          "use it once, or make another parameter")


# ---- Calls that write into their input ----

def _writes(node: torch.fx.Node, traced: torch.fx.GraphModule) -> bool:
    if node.op == "call_module":
        return bool(getattr(traced.get_submodule(node.target), "inplace", False))
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    positional = node.args[1:] if node.target in _INPLACE_SECOND else ()
    if node.target is nn.functional.dropout:
        positional = node.args[3:]
    return (bool(node.kwargs.get("inplace")) or any(each is True for each in positional) or
            (target.endswith("_") and not target.endswith("__")) or target in ("iadd", "imul", "itruediv", "isub"))


_INPLACE_SECOND = (nn.functional.relu, nn.functional.silu, nn.functional.leaky_relu)
_VIEWS = ("flatten", "view", "reshape", "squeeze", "Flatten", "Identity", "Dropout", "dropout", "Dropout2d",
          "dropout2d", "getitem", "chunk", "split")


def _is_view(node: torch.fx.Node, traced: torch.fx.GraphModule) -> bool:
    """Whether its output may be the memory of its input."""
    target = type(traced.get_submodule(node.target)).__name__ if node.op == "call_module" else \
        node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return target in _VIEWS


def check_writes(traced: torch.fx.GraphModule) -> None:
    """Nothing reads a value after a call with inplace has written into its memory, but what reads the result."""
    place = {node: i for i, node in enumerate(traced.graph.nodes)}
    memory: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for node in traced.graph.nodes:
        source = node.all_input_nodes[0] if node.all_input_nodes else None
        writes = node.op.startswith("call_") and _writes(node, traced)
        if writes and source is not None:
            late = [user for alias in memory[source] for user in alias.users
                    if user is not node and place[user] > place[node]]
            if late:
                raise _refuse(node.name, f"inplace, and {late[0].name} that reads its input later",
                              "leave inplace out")
        views = source is not None and node.op.startswith("call_") and not writes and _is_view(node, traced)
        memory[node] = memory[source] if views else []
        memory[node].append(node)
