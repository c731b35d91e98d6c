"""PyTorch's modules over the places of a text or a sequence, batch x places x channels, as the layers that they are
made of."""
from __future__ import annotations

import inspect
import operator
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

from . import _torch_checks as _checks
from ._torch_checks import inputs as _inputs
from ._torch_checks import is_tensor as _is_tensor
from ._torch_checks import only as _only
from ._torch_checks import refuse as _refuse
from ._torch_checks import shape as _shape

Step = tuple[str, str, dict[str, Any]]  # a module's name, an operation and its settings


def reads_tokens(traced: torch.fx.GraphModule) -> bool:
    """Whether the input is whole numbers, which an embedding reads."""
    inputs = [node for node in traced.graph.nodes if node.op == "placeholder"]
    return len(inputs) == 1 and any(user.op == "call_module" and
                                    type(traced.get_submodule(user.target)) is nn.Embedding
                                    for user in inputs[0].users)


def reads_sequences(traced: torch.fx.GraphModule) -> bool:
    """Whether the input is places x channels: a recurrent layer follows them, and no convolution has them otherwise."""
    called = {type(traced.get_submodule(node.target)) for node in traced.graph.nodes if node.op == "call_module"}
    return bool(called & {nn.LSTM, nn.GRU}) and not called & {nn.Conv1d, nn.ConvTranspose1d, nn.Conv2d} and \
        not reads_tokens(traced)


_ACTIVATIONS = {F.relu: ("relu", {}), torch.relu: ("relu", {}), F.gelu: ("gelu", {}), F.silu: ("swish", {}),
                torch.tanh: ("tanh", {})}
# Operations of each element, which are the same over places.
_ELEMENTS = {"relu", "gelu", "swish", "tanh", "sigmoid", "leaky_relu", "elu", "selu", "mish", "softplus", "relu6",
             "hardswish", "hardsigmoid", "clip", "scale", "dropout"}


class Places:
    """Adds the layers of calls over places to a network (heddle.pytorch._Network)."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self.constant: dict[Any, tuple[torch.Tensor, str]] = {}  # values that depend on no sample; their parameters
        self.joint: set[Any] = set()  # calls whose first output is the layer's
        self.states: dict[Any, str] = {}  # what recurrent layers give beside it: the layer's value, "" for the cell
        self.made: set[str] = set()

    # ---- What calls read ----

    def keep(self, node: Any) -> None:
        """A parameter or a tensor of the module itself."""
        value: Any = self.network.traced
        for name in node.target.split("."):
            value = getattr(value, name)
        self.constant[node] = value, node.target if node.target in self.network.module.state_dict() else ""

    def _value(self, node: Any) -> str:
        if node in self.constant:
            raise _refuse(node, f"a parameter that is used outside of a module, {node.target}",
                          "use a module of torch.nn")
        if node not in self.network.value:
            raise _refuse(node, "a result that is no layer's output")
        return self.network.value[node]

    def _add(self, node: Any, name: str, op: str, settings: dict[str, Any], inputs: list[str],
             module: str = "") -> str:
        """A layer, whose weights are those of a module that is called once."""
        if name in self.made:
            raise _refuse(node, f"a second call of {module or name}", "make another module with weights of its own")
        if module:
            self._check_own(node, self.network.traced.get_submodule(module), module)
            self.network.names[name] = module
        self.made.add(name)
        self.network.layer(node, op, settings, name, inputs)
        return name

    def _check_own(self, node: Any, part: nn.Module, module: str) -> None:
        """A module becomes a layer, and no other has its weights; an embedding shares them with a head."""
        _checks.check_layer(module, part)
        others = [other for other in self.network.module.modules() if isinstance(part, nn.Embedding) and
                  getattr(other, "weight", None) is self.network.module.get_submodule(module).weight and
                  type(other) is not nn.Linear]
        if len(others) > 1 or (not others and _checks.owner_of(self.network.module, module) != module):
            raise _refuse(node, f"weights of {module} that another module has too", "give it its own")

    # ---- Calls ----

    def take(self, node: Any) -> bool:
        """Adds a call over places; False: it is one of flat values."""
        if node.op == "call_module":
            module = self.network.traced.get_submodule(node.target)
            take = _MODULES.get(type(module))
            if take:
                take(self, node, module)
                return True
        if node.target is operator.getitem and node.args[0] in self.states:
            return self._state(node)
        if any(each in self.states for each in node.all_input_nodes):
            raise _refuse(node, "states of a recurrent layer other than h[-1]", "use its first output")
        if node.target is operator.getitem and node.args[0] in self.joint:
            if node.args[1] != 0 and type(self._called(node.args[0])) in (nn.LSTM, nn.GRU):
                self.states[node] = self.network.value[node.args[0]]
                return True
            if node.args[1] != 0:
                raise _refuse(node, "the weights of attention", "use its first output alone")
            self.network.value[node] = self.network.value[node.args[0]]
            return True
        if any(each in self.constant for each in node.all_input_nodes):
            self._position(node)
            return True
        sides = [each for each in node.all_input_nodes if len(_shape(each)) == 3]
        return bool(sides) and self._of_places(node, sides)

    def _called(self, node: Any) -> nn.Module:
        return self.network.traced.get_submodule(node.target)

    def _of_places(self, node: Any, inputs: list[Any]) -> bool:
        if not _is_tensor(node):
            raise _refuse(node, "several results over places", "use one place, x[:, -1], or flat values")
        if node.target is operator.getitem:
            index = node.args[1]
            if type(index) is not tuple or len(index) < 2 or index[0] != slice(None) or type(index[1]) is not int or \
                    any(each != slice(None) for each in index[2:]):
                raise _refuse(node, f"elements {index!r}", "use one place, x[:, -1]")
            self._take_place(node, self._value(inputs[0]), _shape(inputs[0]), index[1])
            return True
        if node.target in (torch.mean, "mean"):
            arguments = [*node.args[1:], *node.kwargs.values()]
            if arguments not in ([1], [(1,)], [[1]], [1, False]):
                raise _refuse(node, "a mean other than over the places", "write x.mean(1)")
            pooled = self._add(node, node.name + "_pool", "global_avg_pool2d", {}, [self._value(inputs[0])])
            self._add(node, node.name, "flatten", {}, [pooled])
            return True
        layer = self.network.convert(node)
        if layer is None:
            return False
        same = len({_shape(each) for each in node.all_input_nodes}) == 1
        if layer[0] not in _ELEMENTS and not (layer[0] in ("add", "sub", "mul", "div") and same):
            raise _refuse(node, f"{layer[0]} over places", "see docs/python.md, or replace it")
        return False

    def _take_place(self, node: Any, value: str, shape: tuple[int, ...], index: int) -> None:
        """The channels of one place of a value, batch x places x channels."""
        _, places, channels = shape
        index %= places
        turned = self._add(node, node.name + "_turned", "reshape",
                           {"out": places, "size": [1, channels], "swap": [channels, places]}, [value])
        place = self._add(node, node.name + "_place", "slice", {"start": index, "end": index + 1}, [turned])
        self._add(node, node.name, "flatten", {}, [place])

    def _position(self, node: Any) -> None:
        """x + a weight of places x channels."""
        values = [each for each in node.all_input_nodes if each not in self.constant]
        constant = [each for each in node.all_input_nodes if each in self.constant]
        weight, name = self.constant[constant[0]]
        adds = node.target in (operator.add, operator.iadd, torch.add, "add") and not node.kwargs
        fits = adds and len(values) == len(constant) == 1 and name and len(_shape(values[0])) == 3 and \
            tuple(weight.shape) in (_shape(values[0])[1:], (1, *_shape(values[0])[1:]))
        if not fits:
            self._value(constant[0])
        self._add(node, node.name, "position", {}, [self._value(values[0])])
        self.network.weights[f"{node.name}.weight"] = name

    def _embedding(self, node: Any, m: nn.Embedding) -> None:
        _only(node, padding_idx=(m.padding_idx, None), max_norm=(m.max_norm, None), sparse=(m.sparse, False),
              scale_grad_by_freq=(m.scale_grad_by_freq, False))
        index = _inputs(node)[0]
        if index in self.constant:
            _checks.check_layer(node.target, m)
            rows = self.constant[index][0].flatten().tolist()
            if rows != list(range(m.num_embeddings)):
                raise _refuse(node, f"an embedding of constant numbers other than 0 to {m.num_embeddings - 1}",
                              "give it as many rows as there are places, and torch.arange of them")
            self.constant[node] = m.weight, node.target + ".weight"
            return
        if self._value(index) != "input":
            raise _refuse(node, "an embedding of computed numbers", "let it read the input")
        self._add(node, node.target.replace(".", "_"), "embedding",
                  {"tokens": m.num_embeddings, "out": m.embedding_dim}, ["input"], node.target)

    def _linear(self, node: Any, m: nn.Linear, module: str = "", name: str = "", x: str = "") -> str:
        module, x = module or node.target, x or self._value(_inputs(node)[0])
        return self._add(node, name or module.replace(".", "_"), "linear",
                         {"out": m.out_features, "bias": m.bias is not None}, [x], module)

    def _norm(self, node: Any, m: Any, module: str = "", x: str = "") -> str:
        module, channels = module or node.target, tuple(m.normalized_shape)
        _only(node, elementwise_affine=(m.elementwise_affine, True), normalized_shape=(len(channels), 1))
        rms = isinstance(m, nn.RMSNorm)
        if not rms:
            _checks.with_bias(node, m)
        settings = {} if m.eps is None else {"eps": m.eps}
        return self._add(node, module.replace(".", "_"), "rms_norm" if rms else "layer_norm2d", settings,
                         [x or self._value(_inputs(node)[0])], module)

    def _drop(self, node: Any, m: nn.Dropout, module: str, x: str) -> str:
        _checks.check_layer(module, m)
        return x if m.p == 0 else self._add(node, module.replace(".", "_"), "dropout", {"p": m.p}, [x])

    # ---- Recurrent layers ----

    def begin(self, node: Any, shape: tuple[int, ...]) -> None:
        """The input, places x channels, with its channels first."""
        self._add(node, "input_places", "reshape", {"out": shape[1], "size": [1, shape[0]], "swap": list(shape)},
                  ["input"])

    def _recurrent(self, node: Any, m: Any) -> None:
        """A layer; with dropout between the module's layers, a layer for each."""
        of = inspect.signature(m.forward).bind(*node.args, **node.kwargs).arguments
        _only(node, hx=(of.get("hx"), None), batch_first=(m.batch_first, True), bidirectional=(m.bidirectional, False),
              proj_size=(m.proj_size, 0))
        op, name, x = type(m).__name__.lower(), node.target.replace(".", "_"), self._value(of["input"])
        settings = {"hidden_size": m.hidden_size, "bias": m.bias}
        if m.dropout == 0 or m.num_layers == 1:
            self._add(node, name, op, {**settings, "num_layers": m.num_layers}, [x], node.target)
        for i in range(m.num_layers if m.dropout > 0 and m.num_layers > 1 else 0):
            if i == 0:
                self._check_own(node, m, node.target)
            else:
                x = self._add(node, f"{name}_dropout{i}", "dropout", {"p": m.dropout}, [x])
            x = self._add(node, f"{name}_l{i}", op, settings, [x])
            self.network.weights.update({f"{x}.{kind}_l0": f"{node.target}.{kind}_l{i}"
                                         for kind in _checks.recurrent_kinds(m)})
        self.joint.add(node)

    def _state(self, node: Any) -> bool:
        """Of nn.GRU h[-1], of nn.LSTM the same of h of (h, c): the last place of the last layer."""
        source, index = node.args
        value, shape = self.states[source], source.meta["tensor_meta"]
        if isinstance(shape, tuple) and not isinstance(shape, torch.fx.passes.shape_prop.TensorMetadata):  # (h, c)
            self.states[node] = value if index == 0 else ""
        elif not value or index not in (-1, shape.shape[0] - 1):
            raise _refuse(node, "the cell of a recurrent layer" if not value else f"the state of layer {index!r}",
                          "use the last layer's states")
        else:
            first = next(each for each, name in self.network.value.items() if name == value)
            self._take_place(node, value, first.meta["tensor_meta"][0].shape, -1)
        return True

    # ---- Attention ----

    def _is_causal(self, node: Any, mask: Any, hint: Any, places: int) -> bool:
        if mask is None:
            if hint:
                raise _refuse(node, "is_causal=True without a mask", "give the mask too")
            return False
        if mask not in self.constant:
            raise _refuse(node, "a mask that is computed", "make it in __init__, or of a constant size")
        tensor = self.constant[mask][0]
        sees = tensor == 0 if tensor.is_floating_point() else ~tensor.bool()
        hides = sees | (tensor == -torch.inf) if tensor.is_floating_point() else torch.ones(())
        if tuple(tensor.shape) == (places, places) and hides.all():
            if sees.all():
                return False
            if torch.equal(sees, torch.ones(places, places).tril().bool()):
                return True
        raise _refuse(node, "a mask other than a causal one", "leave it out")

    def _attend(self, node: Any, m: nn.MultiheadAttention, module: str, x: str, causal: bool) -> str:
        _only(node, batch_first=(m.batch_first, True), add_zero_attn=(m.add_zero_attn, False),
              add_bias_kv=(m.bias_k is not None, False), kdim=(m._qkv_same_embed_dim, True))
        if m.dropout > 0 and not m.training:
            raise _refuse(node, "nn.MultiheadAttention in eval()", "call train() first")
        name, width = module.replace(".", "_"), m.embed_dim
        joint = self._add(node, name + "_in_proj", "linear", {"out": 3 * width, "bias": m.in_proj_bias is not None},
                          [x])
        for kind in ("weight", "bias")[:1 + (m.in_proj_bias is not None)]:
            self.network.weights[f"{joint}.{kind}"] = f"{module}.in_proj_{kind}"
        y = self._add(node, name, "attention", {"heads": m.num_heads, "causal": causal, "dropout": m.dropout}, [joint])
        return self._linear(node, m.out_proj, module + ".out_proj", name + "_out_proj", y)

    def _multihead(self, node: Any, m: nn.MultiheadAttention) -> None:
        of = inspect.signature(m.forward).bind(*node.args, **node.kwargs).arguments
        if not of["query"] is of["key"] is of["value"]:
            raise _refuse(node, "keys and values of other places than the queries", "use self-attention")
        _only(node, key_padding_mask=(of.get("key_padding_mask"), None))
        causal = self._is_causal(node, of.get("attn_mask"), of.get("is_causal"), _shape(of["query"])[1])
        self._attend(node, m, node.target, self._value(of["query"]), causal)
        self.joint.add(node)

    def _activation(self, node: Any, m: nn.TransformerEncoderLayer) -> tuple[str, dict[str, Any]]:
        if isinstance(m.activation, nn.Module):
            kinds = {nn.ReLU: ("relu", {}), nn.SiLU: ("swish", {}), nn.Tanh: ("tanh", {})}
            if type(m.activation) is nn.GELU:
                return "gelu", {"approximate": m.activation.approximate}
            found = kinds.get(type(m.activation))
        else:
            found = _ACTIVATIONS.get(m.activation)
        if found is None:
            raise _refuse(node, f"the activation {m.activation!r}", "use F.relu or F.gelu")
        return found

    def _block(self, node: Any, m: nn.TransformerEncoderLayer, module: str, x: str, causal: bool) -> str:
        name = module.replace(".", "_")

        def attention(x: str) -> str:
            y = self._attend(node, m.self_attn, module + ".self_attn", x, causal)
            return self._drop(node, m.dropout1, module + ".dropout1", y)

        def hidden(x: str) -> str:
            op, settings = self._activation(node, m)
            y = self._linear(node, m.linear1, module + ".linear1", name + "_linear1", x)
            y = self._drop(node, m.dropout, module + ".dropout", self._add(node, name + "_" + op, op, settings, [y]))
            y = self._linear(node, m.linear2, module + ".linear2", name + "_linear2", y)
            return self._drop(node, m.dropout2, module + ".dropout2", y)

        parts: list[tuple[int, Any, Callable[[str], str]]] = [(1, m.norm1, attention), (2, m.norm2, hidden)]
        for number, norm, part in parts:
            if m.norm_first:
                y = part(self._norm(node, norm, f"{module}.norm{number}", x))
                x = self._add(node, f"{name}_sum{number}", "add", {}, [x, y])
            else:
                x = self._add(node, f"{name}_sum{number}", "add", {}, [x, part(x)])
                x = self._norm(node, norm, f"{module}.norm{number}", x)
        return x

    def _encoder(self, node: Any, m: Any) -> None:
        of = inspect.signature(m.forward).bind(*node.args, **node.kwargs).arguments
        _only(node, src_key_padding_mask=(of.get("src_key_padding_mask"), None))
        mask, x = of.get("src_mask", of.get("mask")), self._value(of["src"])
        causal = self._is_causal(node, mask, of.get("is_causal"), _shape(of["src"])[1])
        if isinstance(m, nn.TransformerEncoderLayer):
            self._block(node, m, node.target, x, causal)
            return
        for i, layer in enumerate(m.layers):
            if type(layer) is not nn.TransformerEncoderLayer:
                raise _refuse(node, f"nn.{type(layer).__name__} in an encoder")
            x = self._block(node, layer, f"{node.target}.layers.{i}", x, causal)
        if m.norm is not None:
            self._norm(node, m.norm, node.target + ".norm", x)

    def _maybe_linear(self, node: Any, m: nn.Linear) -> None:
        """Over places, or over flat values; a head may have the weight of an embedding."""
        owner = _checks.tied_embedding(self.network.module, node.target)
        if owner in self.network.names.values():
            self.network.layer(node, "linear", {"out": m.out_features, "bias": False, "share": owner.replace(".", "_")},
                               node.target.replace(".", "_"), [self._value(_inputs(node)[0])])
        else:
            self._linear(node, m)

    def _maybe_norm(self, node: Any, m: Any) -> None:
        if len(_shape(node)) == 3:
            self._norm(node, m)
            return
        op = "rms_norm" if isinstance(m, nn.RMSNorm) else "layer_norm"
        _only(node, elementwise_affine=(m.elementwise_affine, True),
              normalized_shape=(tuple(m.normalized_shape), _shape(node)[1:]))
        if op == "layer_norm":
            _checks.with_bias(node, m)
        self._add(node, node.target.replace(".", "_"), op, {} if m.eps is None else {"eps": m.eps},
                  [self._value(_inputs(node)[0])], node.target)


_MODULES: dict[type, Callable[[Places, Any, Any], Any]] = {
    nn.Embedding: Places._embedding, nn.Linear: Places._maybe_linear, nn.LayerNorm: Places._maybe_norm,
    nn.RMSNorm: Places._maybe_norm, nn.MultiheadAttention: Places._multihead,
    nn.TransformerEncoderLayer: Places._encoder, nn.TransformerEncoder: Places._encoder, nn.LSTM: Places._recurrent,
    nn.GRU: Places._recurrent,
}
