"""Calls of PyTorch that become several layers, as the same operators of an ONNX file do."""
from __future__ import annotations

import inspect
import operator
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

from ._torch_checks import axes as _axes
from ._torch_checks import refuse as _refuse
from ._torch_checks import shape as _shape


class _Steps:
    """The layers of a call: each reads values by their names, and has the call's name with a suffix."""

    def __init__(self, network: Any, node: Any) -> None:
        self.network, self.node = network, node

    def add(self, suffix: str, op: str, *inputs: str, **settings: Any) -> str:
        name = self.node.name + suffix
        self.network.layer(self.node, op, settings, name, list(inputs))
        return name

    def minus(self, suffix: str, x: str) -> str:
        return self.add(suffix, "scale", x, factor=-1)

    def abs(self, suffix: str, x: str) -> str:
        """relu(x) + relu(-x)"""
        return self.add(suffix, "add", self.add("_above", "relu", x),
                        self.add("_below", "relu", self.minus("_minus", x)))


def _abs(steps: _Steps, x: Any) -> None:
    steps.abs("", steps.network.value[x])


def _softsign(steps: _Steps, x: Any) -> None:
    """x / (|x| + 1)"""
    value = steps.network.value[x]
    one = steps.add("_one", "clip", value, min=1.0, max=1.0)
    steps.add("", "div", value, steps.add("_size", "add", steps.abs("_abs", value), one))


def _amin(steps: _Steps, x: Any, dim: Any = (), keepdim: bool = False) -> None:
    dims, rank = _axes(x, dim), len(_shape(x))
    if dims not in ([1], list(range(2, rank))) or not keepdim or rank < 3:
        raise _refuse(steps.node, f"amin(dim={dim!r}, keepdim={keepdim})", "write x.amin((2, 3), keepdim=True)")
    largest = steps.add("_max", "max", steps.minus("_minus", steps.network.value[x]),
                        over="channels" if dims == [1] else "pixels")
    steps.minus("", largest)


def _repeat(steps: _Steps, x: Any, repeats: Any, dim: Any = None, *, output_size: Any = None) -> None:
    side = None if dim is None else dim % 4 - 2
    if type(repeats) is not int or repeats < 1 or len(_shape(x)) != 4 or side not in (0, 1):
        raise _refuse(steps.node, f"repeat_interleave({repeats!r}, dim={dim!r})", "repeat rows or columns of images")
    factor = [repeats, 1] if side == 0 else [1, repeats]
    steps.add("", "upsample", steps.network.value[x], scale_factor=factor)


_CALLS: dict[Any, Callable[..., None]] = {
    torch.abs: _abs, "abs": _abs, operator.abs: _abs, F.softsign: _softsign, torch.amin: _amin, "amin": _amin,
    torch.repeat_interleave: _repeat, "repeat_interleave": _repeat,
}
_SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")


def _spread_sum(steps: _Steps) -> bool:
    """A sum of which one value is spread: large - -small, since heddle's `add` spreads none."""
    node = steps.node
    inputs = [each for each in node.args if isinstance(each, torch.fx.Node) and each in steps.network.value]
    if len(inputs) != 2 or len(node.args) != 2 or node.kwargs or _shape(inputs[0]) == _shape(inputs[1]):
        return False
    large, small = inputs if _shape(inputs[0]) == _shape(node) else inputs[::-1]
    if _shape(large) != _shape(node) or len(_shape(small)) != len(_shape(large)) or len(_shape(large)) != 4:
        return False
    values = steps.network.value
    steps.add("", "sub", values[large], steps.minus("_minus", values[small]))
    return True


def take(network: Any, node: Any) -> bool:
    """Adds the layers of a call; False: it is another one."""
    steps = _Steps(network, node)
    if node.op == "call_module" and type(network.traced.get_submodule(node.target)) is nn.Softsign:
        _softsign(steps, node.args[0])
        return True
    if node.op not in ("call_function", "call_method"):
        return False
    if node.target in _SUMS:
        return _spread_sum(steps)
    call = _CALLS.get(node.target)
    if call is None:
        return False
    try:
        inspect.signature(call).bind(steps, *node.args, **node.kwargs)
    except TypeError as error:
        raise _refuse(node, f"arguments of {node.target} that it does not know ({error})") from error
    call(steps, *node.args, **node.kwargs)
    return True
