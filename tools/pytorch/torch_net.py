"""A model file of heddle as a PyTorch module, for the comparisons beside this file.

Layers are modules under their own names, so that state_dict() has the names that checkpoints have: `block1.conv.weight`
is the weight of the layer conv in the first round of the repeat block. Shapes are found by taking two samples of zeros
through the layers while they are made.
"""
import fnmatch
import struct

import numpy
import torch
import torch.nn as nn
import yaml


class Add(nn.Module):
    def forward(self, *values):
        return sum(values[1:], values[0])


class Binary(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, a, b):
        return self.function(a, b)


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


class Clip(nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.low, self.high = low, high

    def forward(self, x):
        return torch.clamp(x, self.low, self.high)


class Concat(nn.Module):
    def forward(self, *values):
        return torch.cat(values, dim=1)


def on_places(run):
    """Of texts, places by channels, and of images, whose pixels are the places."""

    def forward(self, x):
        if x.dim() == 3:
            return run(self, x)
        return run(self, x.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, x.shape[2:])

    return forward


class Position(nn.Module):

    def __init__(self, places, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(places, channels))

    @on_places
    def forward(self, x):
        return x + self.weight


class Attention(nn.Module):
    def __init__(self, heads, key_heads, causal, dropout):
        super().__init__()
        self.heads, self.key_heads, self.causal, self.dropout = heads, key_heads or heads, causal, dropout

    @on_places
    def forward(self, x):
        width = x.shape[-1] // (self.heads + 2 * self.key_heads)
        by_head = x.unflatten(-1, (-1, width)).transpose(1, 2)
        q, k, v = by_head.split([self.heads, self.key_heads, self.key_heads], dim=1)
        k, v = (t.repeat_interleave(self.heads // self.key_heads, dim=1) for t in (k, v))
        y = nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal, dropout_p=self.dropout if self.training else 0
        )
        return y.transpose(1, 2).flatten(2)


class Rotary(nn.Module):
    """Queries and keys are turned as Llama's are; values pass."""

    def __init__(self, heads, key_heads, base):
        super().__init__()
        self.heads, self.key_heads, self.base = heads, key_heads or heads, float(base)

    @on_places
    def forward(self, x):
        width = x.shape[-1] // (self.heads + 2 * self.key_heads)
        turned, values = x.split([(self.heads + self.key_heads) * width, self.key_heads * width], dim=-1)
        turned = turned.unflatten(-1, (-1, width))
        frequency = self.base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
        angle = torch.outer(torch.arange(x.shape[1], dtype=torch.float64), frequency)
        angle = torch.cat([angle, angle], dim=-1)[:, None].to(x.device)
        low, high = turned.chunk(2, dim=-1)
        turned = turned * angle.cos().to(x.dtype) + torch.cat([-high, low], dim=-1) * angle.sin().to(x.dtype)
        return torch.cat([turned.flatten(2), values], dim=-1)


def embedding(s, x):
    module = nn.Embedding(s["tokens"], s["out"])
    module.register_forward_pre_hook(lambda _, inputs: (inputs[0].long(),))
    return module


class PixelLinear(nn.Linear):
    """A linear layer over the channels of each pixel."""

    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


def linear(s, x):
    kind = PixelLinear if x.dim() == 4 else nn.Linear
    return kind(x.shape[1 if x.dim() == 4 else -1], s["out"], bias=s.get("bias", True))


def sides(value):
    return tuple(value) if isinstance(value, list) else value


def conv2d(s, x):
    return nn.Conv2d(x.shape[1], s["out"], sides(s["kernel"]), stride=sides(s.get("stride", 1)),
                     padding=sides(s.get("padding", 0)), dilation=sides(s.get("dilation", 1)),
                     groups=s.get("groups", 1), bias=s.get("bias", True))


def conv_transpose2d(s, x):
    return nn.ConvTranspose2d(x.shape[1], s["out"], sides(s["kernel"]), stride=sides(s.get("stride", 1)),
                              padding=sides(s.get("padding", 0)), output_padding=sides(s.get("output_padding", 0)),
                              dilation=sides(s.get("dilation", 1)), groups=s.get("groups", 1),
                              bias=s.get("bias", True))


def max_pool2d(s, x):
    return nn.MaxPool2d(sides(s["kernel"]), stride=sides(s.get("stride", s["kernel"])),
                        padding=sides(s.get("padding", 0)), ceil_mode=s.get("ceil_mode", False))


def avg_pool2d(s, x):
    return nn.AvgPool2d(sides(s["kernel"]), stride=sides(s.get("stride", s["kernel"])),
                        padding=sides(s.get("padding", 0)), count_include_pad=s.get("count_include_pad", True),
                        ceil_mode=s.get("ceil_mode", False))


def batch_norm(s, x):
    kind = nn.BatchNorm2d if x.dim() == 4 else nn.BatchNorm1d
    return kind(x.shape[1], eps=float(s.get("eps", 1e-5)), momentum=float(s.get("momentum", 0.1)))


def pair(value):
    return value if isinstance(value, list) else [value, value]


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def upsample(s, x):
    mode = s.get("mode", "nearest")
    size = pair(s["size"]) if "size" in s else [f * n for f, n in zip(pair(s["scale_factor"]), x.shape[2:])]
    return nn.Upsample(size, mode=mode, align_corners=s.get("align_corners", False) if mode == "bilinear" else None)


def pad(s, x):
    before, end = pair(s["padding"]), pair(s.get("end", -1))
    end = [b if e < 0 else e for b, e in zip(before, end)]
    sides = (before[1], end[1], before[0], end[0])
    mode = {"zero": "constant"}.get(s.get("mode", "zero"), s.get("mode"))
    return Function(lambda v: nn.functional.pad(v, sides, mode=mode))


def over(s):
    return (1,) if s.get("over", "pixels") == "channels" else (2, 3)


class ChannelNorm(nn.Module):
    """A norm of the channels of each pixel."""

    def __init__(self, channels, eps, centred):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(channels)), eps
        self.bias = nn.Parameter(torch.zeros(channels)) if centred else None

    def forward(self, x):
        last, shape = x.movedim(1, -1), self.weight.shape
        if self.bias is None:
            return nn.functional.rms_norm(last, shape, self.weight, self.eps).movedim(-1, 1)
        return nn.functional.layer_norm(last, shape, self.weight, self.bias, self.eps).movedim(-1, 1)


def layer_norm2d(s, x):
    """Of a text the channels are last."""
    eps = float(s.get("eps", 1e-5))
    return nn.LayerNorm(x.shape[-1], eps=eps) if x.dim() == 3 else ChannelNorm(x.shape[1], eps, True)


class Recurrent:
    """The states of all places; of a signal, channels x 1 x length, the channels come first."""

    def forward(self, x):
        if x.dim() == 3:
            return super().forward(x)[0]
        return super().forward(x.squeeze(2).transpose(1, 2))[0].transpose(1, 2).unsqueeze(2)


class LSTM(Recurrent, nn.LSTM):
    pass


class GRU(Recurrent, nn.GRU):
    pass


def recurrent(kind, s, x):
    return kind(x.shape[-1] if x.dim() == 3 else x.shape[1], s["hidden_size"], s.get("num_layers", 1),
                bias=s.get("bias", True), batch_first=True)


def largest(s, x):
    """The first of equal ones has the gradient."""
    if over(s) == (1,):
        return Function(lambda v: v.max(1, keepdim=True)[0])
    return Function(lambda v: v.flatten(2).max(2)[0][:, :, None, None])


def reshape(s, x):
    (a, b), inner, (height, width) = pair(s.get("swap", 1)), s.get("inner", 1), pair(s.get("size", 1))
    return Function(lambda v: v.reshape(len(v), -1, a, b, inner).transpose(2, 3).reshape(len(v), -1, height, width))


MAKERS = {
    "reshape": reshape,
    "upsample": upsample,
    "pad": pad,
    "slice": lambda s, x: Function(lambda v: v[:, s.get("start", 0):s.get("end", 0) or None]),
    "mean": lambda s, x: Function(lambda v: v.mean(over(s), keepdim=True)),
    "max": largest,
    "adaptive_avg_pool2d": lambda s, x: nn.AdaptiveAvgPool2d(tuple(pair(s["size"]))),
    "adaptive_max_pool2d": lambda s, x: nn.AdaptiveMaxPool2d(tuple(pair(s["size"]))),
    "dropout2d": lambda s, x: nn.Dropout2d(float(s.get("p", 0.5))),
    "instance_norm": lambda s, x: nn.InstanceNorm2d(x.shape[1], eps=float(s.get("eps", 1e-5)), affine=True),
    "layer_norm2d": layer_norm2d,
    "rms_norm": lambda s, x: ChannelNorm(x.shape[1], float(s.get("eps", 1.1920929e-7)), False),
    "conv2d": conv2d,
    "conv_transpose2d": conv_transpose2d,
    "max_pool2d": max_pool2d,
    "avg_pool2d": avg_pool2d,
    "global_avg_pool2d": lambda s, x: nn.AdaptiveAvgPool2d(1),
    "batch_norm": batch_norm,
    "layer_norm": lambda s, x: nn.LayerNorm(x.shape[1:], eps=float(s.get("eps", 1e-5))),
    "group_norm": lambda s, x: nn.GroupNorm(int(s["groups"]), x.shape[1], eps=float(s.get("eps", 1e-5))),
    "embedding": embedding,
    "position": lambda s, x: Position(*x.shape[1:]) if x.dim() == 3 else Position(x[0, 0].numel(), x.shape[1]),
    "attention": lambda s, x: Attention(s["heads"], s.get("key_heads"), s.get("causal", True), s.get("dropout", 0)),
    "rotary": lambda s, x: Rotary(s["heads"], s.get("key_heads"), s.get("base", 10000)),
    "lstm": lambda s, x: recurrent(LSTM, s, x),
    "gru": lambda s, x: recurrent(GRU, s, x),
    "dropout": lambda s, x: nn.Dropout(float(s.get("p", 0.5))),
    "linear": linear,
    "relu": lambda s, x: nn.ReLU(),
    "sigmoid": lambda s, x: nn.Sigmoid(),
    "tanh": lambda s, x: nn.Tanh(),
    "leaky_relu": lambda s, x: nn.LeakyReLU(float(s.get("negative_slope", 0.01))),
    "swish": lambda s, x: nn.SiLU(),
    "relu6": lambda s, x: nn.ReLU6(),
    "hardswish": lambda s, x: nn.Hardswish(),
    "hardsigmoid": lambda s, x: nn.Hardsigmoid(),
    "elu": lambda s, x: nn.ELU(float(s.get("alpha", 1))),
    "selu": lambda s, x: nn.SELU(),
    "softplus": lambda s, x: nn.Softplus(float(s.get("beta", 1)), float(s.get("threshold", 20))),
    "mish": lambda s, x: nn.Mish(),
    "clip": lambda s, x: Clip(float(s.get("min", "-inf")), float(s.get("max", "inf"))),
    "prelu": lambda s, x: nn.PReLU(s.get("num_parameters", 1)),
    "log_softmax": lambda s, x: nn.LogSoftmax(dim=1),
    "scale": lambda s, x: Scale(float(s["factor"])),
    "gelu": lambda s, x: nn.GELU(approximate=s.get("approximate", "none")),
    "flatten": lambda s, x: nn.Flatten(),
    "softmax": lambda s, x: nn.Softmax(dim=1),
    "add": lambda s, x: Add(),
    "mul": lambda s, x: Binary(torch.mul),
    "sub": lambda s, x: Binary(torch.sub),
    "div": lambda s, x: Binary(torch.div),
    "concat": lambda s, x: Concat(),
}


class Net(nn.Module):
    """The layers as modules; its only other field cannot be the name of a layer."""

    def __init__(self, model):
        super().__init__()
        self.__dict__["*model"] = model

    def put(self, name, module):
        *path, leaf = name.split(".")
        at = self
        for part in path:
            if part not in at._modules:
                at.add_module(part, nn.Module())
            at = at._modules[part]
        at.add_module(leaf, module)

    def forward(self, x):
        model, values = self.__dict__["*model"], {"input": x}
        for name, _, inputs in model.layers:
            values[name] = self.get_submodule(name)(*[values[i] for i in inputs])
        return values[model.scores]


class Model:
    """A model file: its name, its input's shape, its layers as (name, op, names of inputs), and the module, net."""

    def __init__(self, path):
        with open(path) as file:
            text = yaml.safe_load(file)
        self.name, self.input, self.layers, self.net = text["model"], tuple(text["input"]), [], Net(self)
        self.values = {"input": torch.zeros(2, *self.input)}
        self.scores = self.make(text["layers"], [""], "input")
        self.rules, ops = text.get("parameters", []), {name: op for name, op, _ in self.layers}
        for rule in self.rules:
            for name, parameter in self.net.named_parameters():
                fits = rule.get("op") in (None, ops[name.rsplit(".", 1)[0]])
                if fits and "requires_grad" in rule and fnmatch.fnmatchcase(name, rule.get("match", "*")):
                    parameter.requires_grad = rule["requires_grad"]

    def make(self, entries, scopes, above):
        """Makes the layers of a list; scopes: the prefixes under which names are looked up, the innermost first."""
        start = above
        for entry in entries:
            (name, s), = entry.items()
            if "repeat" in s:
                for round in range(1, s["repeat"] + 1):
                    above = self.make(s["layers"], ["%s%s%d." % (scopes[0], name, round)] + scopes, above)
            else:
                above = self.make_layer(name, s, scopes, self.inputs_of(s, scopes, start, above))
        return above

    def inputs_of(self, s, scopes, start, above):
        if "from" not in s:
            return [above]
        names = s["from"] if isinstance(s["from"], list) else [s["from"]]
        return [start if name == "above" and len(scopes) > 1 else self.find(name, scopes) for name in names]

    def find(self, name, scopes):
        return next(scope + name for scope in scopes if scope + name in self.values)

    def make_layer(self, name, s, scopes, inputs):
        name = scopes[0] + name
        module = MAKERS[s["op"]](s, self.values[inputs[0]])
        if "share" in s:
            other = self.net.get_submodule(self.find(s["share"], scopes))
            module.weight, module.bias = other.weight, getattr(other, "bias", None)
        self.net.put(name, module)
        self.layers.append((name, s["op"], inputs))
        self.values[name] = module(*[self.values[i] for i in inputs])
        return name


def read_idx(path):
    """The array of an IDX file of bytes."""
    with open(path, "rb") as file:
        raw = file.read()
    dims = struct.unpack(">%dI" % raw[3], raw[4:4 + 4 * raw[3]])
    return torch.frombuffer(bytearray(raw[4 + 4 * raw[3]:]), dtype=torch.uint8).reshape(dims)


def colours(folder, part, mean, std):
    """Images of a folder of .npy files, [N, 3, H, W], as heddle feeds them, and labels."""
    x, y = (torch.from_numpy(numpy.load("%s/%s_%s.npy" % (folder, name, part))) for name in "xy")
    mean, std = (torch.tensor(numbers).view(3, 1, 1) for numbers in (mean, std))
    return x.float().div_(255).sub_(mean).div_(std), y.long()


def rows(folder, part, mean, std):
    """Samples of a folder of .npy files as they are, and classes or targets."""
    return tuple(torch.from_numpy(numpy.load("%s/%s_%s.npy" % (folder, name, part))) for name in "xy")


def samples(folder, part, mean, std):
    """Images as heddle feeds them, [N, 1, H, W], and labels."""
    x = read_idx("%s/%s-images-idx3-ubyte" % (folder, part)).float().div_(255).sub_(mean).div_(std).unsqueeze(1)
    return x, read_idx("%s/%s-labels-idx1-ubyte" % (folder, part)).long()
