"""PyTorch's modules: in, trained as PyTorch does, and out again; both libraries in one process."""
import copy
import functools
import gc
import os
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import torch
import torch.nn.functional as F
import torch.nn.utils.prune
from tap import path, refuses
from torch import nn

import heddle

STEPS, BATCH = 20, 32
torch.manual_seed(0)
rng = np.random.default_rng(1)
x = rng.normal(size=(STEPS * BATCH, 1, 28, 28)).astype(np.float32)
y = rng.integers(0, 10, len(x))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 10)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(x + self.norm2(self.conv2(x)))
        return self.fc(torch.flatten(self.pool(x), 1))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        return self.fc3(F.gelu(self.fc2(F.silu(self.fc1(x.view(x.size(0), -1))))))


class Concat(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.fc = nn.Conv2d(1, 4, 3, stride=2), nn.Conv2d(1, 4, 3, stride=2), nn.Linear(1352, 10)

    def forward(self, x):
        return self.fc(torch.cat((self.a(x).relu(), F.leaky_relu(self.b(x), 0.1)), 1).flatten(1))


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(784, 32), nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = torch.relu(self.first(x.reshape(-1, 784)))
        return self.last(torch.relu(self.again(torch.relu(self.again(x)))))


class Squared(nn.Module):
    def forward(self, x):
        return x ** 2


class Gated(nn.Module):
    """Squeeze and excitation, maps for all channels, and functions that are no modules."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 8, 5, stride=3), nn.BatchNorm2d(8)
        self.squeeze, self.excite, self.fc = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1), nn.Linear(8, 10)

    def forward(self, x):
        x = F.hardswish(self.norm(self.conv(x)))
        gate = F.hardsigmoid(self.excite(F.relu6(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        x = x * gate - x.mean(1, keepdim=True)
        x = torch.cat((F.pad(x[:, :3], (1, 0, 1, 2), mode="reflect"), F.pad(x[:, 3:], (1, 0, 1, 2))), 1)
        x = F.mish(F.interpolate(x, scale_factor=2)) / (1.5 * F.softplus(x.amax((2, 3), keepdim=True)))
        return self.fc(torch.flatten(torch.clamp(x, -2, 3).mean((2, 3), keepdim=True), 1))


class Composed(nn.Module):
    """Calls that become several layers, and a sum of which one value is spread."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc, self.sign = nn.Conv2d(1, 8, 5, stride=4), nn.Linear(8, 10), nn.Softsign()

    def forward(self, x):
        x = self.conv(x)
        x = x.amin((2, 3), keepdim=True) + F.softsign(x)
        x = torch.amin(x, 1, keepdim=True) + torch.abs(x) + x.mean((2, 3), keepdim=True)
        x = torch.repeat_interleave(self.sign(x).repeat_interleave(2, 3), 3, dim=-2)
        return self.fc(torch.flatten(x.abs().mean((2, 3), keepdim=True), 1))


class Scaled(nn.Module):
    """Products and quotients of a value and a number."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(784, 32)
        self.last = nn.Linear(32, 10)

    def forward(self, x):
        x = torch.tanh(0.5 * self.first(torch.flatten(x, 1)))
        return torch.mul(self.last(x) / 3, 1.5)


MODULES = {
    "mlp": nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)),
    "lenet": LeNet(),
    "residual": Residual(),
    "depthwise": nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8, padding="same"),
                               nn.Conv2d(8, 16, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                               nn.Linear(16, 10)),
    "norms": nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(),
                           nn.Linear(1152, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10)),
    "transposed": nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.ReLU(),
                                nn.ConvTranspose2d(6, 4, 3, stride=2, output_padding=1), nn.Tanh(), nn.MaxPool2d(4),
                                nn.Flatten(), nn.Linear(196, 10)),
    "concat": Concat(),
    "scaled": Scaled(),
    "shared": Shared(),
    "norm1d": nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.BatchNorm1d(32), nn.LeakyReLU(0.2),
                            nn.Linear(32, 10)),
    "nested": nn.Sequential(nn.Sequential(nn.Conv2d(1, 4, 3, dilation=2), nn.Sigmoid()), nn.AdaptiveAvgPool2d(6),
                            nn.Identity(), nn.Flatten(), nn.Dropout(0.0), nn.Linear(144, 10)),
}


def torch_losses(module, optimizer=None, dtype=torch.float32, samples=x):
    module.train()
    optimizer, losses = optimizer or torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9), []
    for at in range(0, len(x), BATCH):
        loss = F.cross_entropy(module(torch.from_numpy(samples[at:at + BATCH]).to(dtype)),
                               torch.from_numpy(y[at:at + BATCH]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def test_modules():
    """thirteen modules follow PyTorch's losses for 20 steps, and come back with the scores of the run"""
    for name, module in MODULES.items():
        run = heddle.train(heddle.from_torch(module, (1, 28, 28)), (x, y, x[:64], y[:64]), batch=BATCH, epochs=1,
                           optimizer="sgd", lr=0.02, momentum=0.9, no_shuffle=True, out=path("torch-" + name))
        apart = abs(torch_losses(module) - run.losses).max()
        assert apart < 1e-4, f"{name}: losses {apart} apart"
        with torch.no_grad():
            scores = run.to_torch()(torch.from_numpy(x[:64])).double().softmax(1).numpy()
        apart = abs(scores - run.predict(x[:64])).max()
        assert apart < 1e-6, f"{name}: scores {apart} apart"


def _behind(layers, elems):
    """A network that ends with these layers and a linear one."""
    return nn.Sequential(nn.Conv2d(1, 4, 5, stride=4), *layers, nn.Flatten(), nn.Linear(elems, 10))


def _rows(*layers):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 12), *layers, nn.Linear(12, 10))


# Of each class of layers: networks that have it, with settings that are not the default ones. 4 x 6 x 6 is before it.
CLASSES = {
    nn.Conv2d: (_behind([nn.Conv2d(4, 6, (3, 1), stride=(2, 1), padding=(1, 0), bias=False)], 108),
                _behind([nn.Conv2d(4, 4, 3, groups=2, dilation=2, padding="same")], 144),
                _behind([nn.Conv2d(4, 4, 3, padding="valid")], 64)),
    nn.ConvTranspose2d: (_behind([nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2)], 288),),
    nn.Linear: (_rows(nn.Linear(12, 12, bias=False)),),
    nn.BatchNorm1d: (_rows(nn.BatchNorm1d(12, eps=1e-3, momentum=0.3)),),
    nn.BatchNorm2d: (_behind([nn.BatchNorm2d(4, eps=1e-3, momentum=0.3)], 144),),
    nn.LayerNorm: (_behind([nn.LayerNorm((4, 6, 6), eps=1e-3)], 144), _rows(nn.LayerNorm(12))),
    nn.GroupNorm: (_behind([nn.GroupNorm(2, 4, eps=1e-3)], 144),),
    nn.MaxPool2d: (_behind([nn.MaxPool2d(3, stride=2, padding=1)], 36), _behind([nn.MaxPool2d((2, 3))], 24)),
    nn.AvgPool2d: (_behind([nn.AvgPool2d(3, stride=2, padding=1)], 36),
                   _behind([nn.AvgPool2d(2, padding=1, count_include_pad=False)], 64)),
    nn.AdaptiveAvgPool2d: (_behind([nn.AdaptiveAvgPool2d(1)], 4), _behind([nn.AdaptiveAvgPool2d((3, None))], 72)),
    nn.Flatten: (_rows(),), nn.Identity: (_rows(nn.Identity()),), nn.Dropout: (_rows(nn.Dropout(0.0)),),
    nn.Softmax: (_rows(nn.Softmax(1)),), nn.ReLU: (_rows(nn.ReLU(inplace=True)),), nn.Sigmoid: (_rows(nn.Sigmoid()),),
    nn.Tanh: (_rows(nn.Tanh()),), nn.SiLU: (_rows(nn.SiLU()),),
    nn.GELU: (_rows(nn.GELU()), _rows(nn.GELU(approximate="tanh"))), nn.LeakyReLU: (_rows(nn.LeakyReLU(0.3)),),
}


def _signal(layers, elems):
    return nn.Sequential(nn.Conv1d(1, 4, 9, stride=7), *layers, nn.Flatten(), nn.Linear(elems, 10))


with torch.random.fork_rng():  # the random numbers of what follows are those without these
    MODULES["gated"] = Gated()
    MODULES["composed"] = Composed()
    MORE = {
        nn.ReLU6: (_rows(nn.ReLU6()),), nn.Hardswish: (_rows(nn.Hardswish()),),
        nn.Hardsigmoid: (_rows(nn.Hardsigmoid()),), nn.ELU: (_rows(nn.ELU(0.7)),),
        nn.SELU: (_rows(nn.SELU()),), nn.Mish: (_rows(nn.Mish()),),
        nn.Softplus: (_rows(nn.Softplus(2, 3)),), nn.Hardtanh: (_rows(nn.Hardtanh(-0.4, 0.7)),),
        nn.PReLU: (_rows(nn.PReLU()), _behind([nn.PReLU(4)], 144)),
        nn.LogSoftmax: (_rows(nn.LogSoftmax(1)), _behind([nn.LogSoftmax(1)], 144)),
        nn.AdaptiveMaxPool2d: (_behind([nn.AdaptiveMaxPool2d((4, 5))], 80),),
        nn.Upsample: (_behind([nn.Upsample(scale_factor=2)], 576),
                      _behind([nn.Upsample((5, 9), mode="bilinear")], 180)),
        nn.UpsamplingNearest2d: (_behind([nn.UpsamplingNearest2d((8, 7))], 224),),
        nn.UpsamplingBilinear2d: (_behind([nn.UpsamplingBilinear2d(scale_factor=2)], 576),),
        nn.ZeroPad2d: (_behind([nn.ZeroPad2d((1, 2, 0, 1))], 252),),
        nn.ReflectionPad2d: (_behind([nn.ReflectionPad2d((1, 2, 0, 1))], 252),),
        nn.ReplicationPad2d: (_behind([nn.ReplicationPad2d(1)], 256),),
        nn.Dropout2d: (_behind([nn.Dropout2d(0.0)], 144),),
        nn.InstanceNorm2d: (_behind([nn.ReLU(), nn.InstanceNorm2d(4, eps=1e-3, affine=True)], 144),),
        nn.RMSNorm: (_rows(nn.RMSNorm(12)), _rows(nn.RMSNorm(12, eps=1e-3))),
        nn.MaxPool2d: (_behind([nn.MaxPool2d(3, stride=2, ceil_mode=True)], 36),),
        nn.AvgPool2d: (_behind([nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True)], 64),),
        nn.AdaptiveAvgPool2d: (_behind([nn.AdaptiveAvgPool2d((4, 5))], 80),),
    }
    # The same of signals; 4 x 111 is before them.
    SIGNALS = {
        nn.Conv1d: (_signal([nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False)], 330),),
        nn.ConvTranspose1d: (_signal([nn.ConvTranspose1d(4, 2, 3, stride=2, padding=1)], 442),),
        nn.MaxPool1d: (_signal([nn.MaxPool1d(4, padding=1)], 112),),
        nn.AvgPool1d: (_signal([nn.AvgPool1d(3, stride=2, ceil_mode=True)], 220),),
        nn.LayerNorm: (_signal([nn.LayerNorm((4, 111), eps=1e-3)], 444),),
        nn.AdaptiveAvgPool1d: (_signal([nn.ReLU(), nn.BatchNorm1d(4), nn.AdaptiveAvgPool1d(1)], 4),),
    }


def losses_apart(module, name, samples=x):
    """How far heddle's losses are from PyTorch's."""
    model = heddle.from_torch(module, samples.shape[1:])
    run = heddle.train(model, (samples, y, samples[:64], y[:64]), batch=BATCH, epochs=1,
                       optimizer="sgd", lr=0.02, momentum=0.9, no_shuffle=True, out=path("attribute-" + name))
    before = {key: value.clone() for key, value in module.state_dict().items()}
    apart = abs(torch_losses(module, samples=samples) - run.losses).max()
    for key, value in run.to_torch().state_dict().items():
        if key.endswith(("running_mean", "running_var")) or not torch.equal(module.state_dict()[key], before[key]):
            assert not torch.equal(value, before[key]), f"{name}: {key} is trained by PyTorch alone"
        else:
            assert key.endswith("num_batches_tracked") or torch.equal(value, before[key]), f"{name}: {key} is trained"
    return apart


def test_classes():
    """each class of layers follows PyTorch's losses for 20 steps, with settings of its own"""
    wanted = set(CLASSES) | set(MORE) | set(SIGNALS)
    assert wanted == set(heddle.pytorch._MODULES), wanted ^ set(heddle.pytorch._MODULES)
    signals = x.reshape(len(x), 1, 784)
    follow(CLASSES, x)
    with torch.random.fork_rng():
        follow(MORE, x)
        follow(SIGNALS, signals)


def follow(classes, samples):
    for kind, modules in classes.items():
        for i, module in enumerate(modules):
            apart = losses_apart(module, f"{kind.__name__}-{i}-{len(classes)}", samples)
            assert apart < 1e-4, f"{module}: losses {apart} apart"


def attributes():
    """Modules whose attributes change what is trained: as name, module."""
    def rows():
        return _rows(nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 12))

    frozen = rows()
    frozen[1].requires_grad_(False)
    yield "frozen", frozen
    part = _behind([nn.BatchNorm2d(4)], 144)
    part[1].weight.requires_grad_(False)
    part[0].bias.requires_grad_(False)
    yield "frozen-in-part", part
    tied = rows()
    tied[5].weight, tied[5].bias = tied[3].weight, tied[3].bias
    yield "tied", tied
    same = rows()
    same[5] = same[3]
    yield "same", same


# By the names of both libraries; {} is what each has by itself.
OPTIMIZERS = [
    ("sgd", torch.optim.SGD, {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("adam", torch.optim.Adam, {}), ("adam", torch.optim.Adam, {"betas": (0.8, 0.95), "weight_decay": 0.1}),
    ("adamw", torch.optim.AdamW, {}), ("adamw", torch.optim.AdamW, {"eps": 1e-4, "weight_decay": 0.2}),
    ("rmsprop", torch.optim.RMSprop, {}),
    ("rmsprop", torch.optim.RMSprop, {"lr": 1e-3, "alpha": 0.9, "momentum": 0.9, "weight_decay": 0.1}),
    ("rmsprop", torch.optim.RMSprop, {"lr": 1e-3, "centered": True, "eps": 1e-3}),
    ("nadam", torch.optim.NAdam, {}),
    ("nadam", torch.optim.NAdam, {"betas": (0.8, 0.95), "momentum_decay": 0.04, "weight_decay": 0.1}),
    ("nadam", torch.optim.NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True, "eps": 1e-4})]


def test_optimizers():
    """optimizers of PyTorch's names, settings and defaults follow it in float64 for 20 steps"""
    for number, (name, kind, settings) in enumerate(OPTIMIZERS):
        module = _rows(nn.Tanh(), nn.Linear(12, 12), nn.Tanh())
        run = heddle.train(heddle.from_torch(module, (1, 28, 28)), (x, y, x[:64], y[:64]), batch=BATCH, epochs=1,
                           optimizer=name, no_shuffle=True, out=path(f"optimizer-{number}"), **settings)
        module = module.double()
        optimizer = kind(module.parameters(), **settings)
        apart = abs(torch_losses(module, optimizer, torch.float64) - run.losses).max()
        assert apart < 1e-4, f"{name} {settings}: losses {apart} apart"
        assert re.fullmatch("[a-z]+", name) and name == kind.__name__.lower()


def test_attributes():
    """frozen and tied parameters are frozen and tied"""
    for name, module in attributes():
        apart = losses_apart(module, name)
        assert apart < 1e-4, f"{name}: losses {apart} apart"
    *_, (_, tied), _ = attributes()
    trained = heddle.train(heddle.from_torch(tied, (1, 28, 28)), (x, y), max_steps=3, out=path("tied-again")).to_torch()
    assert trained[3].weight is trained[5].weight and not torch.equal(trained[3].weight, tied[3].weight)


class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(784, 12), nn.Linear(12, 10)

    def forward(self, x):
        with torch.no_grad():
            x = self.first(x.flatten(1))
        return self.last(x)


class Autocast(NoGrad):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.last(self.first(x.flatten(1)))


class Overwritten(NoGrad):
    def forward(self, x):
        x = self.first(x.flatten(1))
        return self.last(F.relu(x, inplace=True) + x)


class OverwrittenView(NoGrad):
    def forward(self, x):
        x = self.first(x.flatten(1))
        rows = x.view(-1, 12)
        return self.last(rows.relu_() + x)


class OverwrittenSlice(nn.Module):
    """Writes into a slice, or into what it was cut from."""

    def __init__(self, write):
        super().__init__()
        self.conv, self.fc, self.write = nn.Conv2d(1, 8, 5, stride=4), nn.Linear(8, 10), write

    def forward(self, x):
        x = self.write(self.conv(x))
        return self.fc(x.mean((2, 3), keepdim=True).flatten(1))


def write_to_slice(h):
    a = F.relu(h[:, :4], inplace=True)
    return h * torch.cat((a, a), 1)


def write_to_whole(h):
    a = h[:, :4]
    return F.relu(h, inplace=True) + torch.cat((a, a), 1)


def write_to_chunk(h):
    a, b = torch.chunk(h, 2, 1)
    return h - torch.cat((F.hardtanh(a, -1, 1, True), b), 1)


def write_by_position(h):
    return F.relu6(h, True) + h


def spoiled():
    """Modules that are more than their classes and settings: as what the refusal says, module."""
    def changed(change, says, module=None):
        module = _rows(nn.ReLU(), nn.Linear(12, 12)) if module is None else module
        change(module)
        return says, module

    yield changed(lambda m: m[1].register_forward_hook(lambda *_: None), "1: .* a forward hook")
    yield changed(lambda m: m.register_forward_pre_hook(lambda *_: None), "the module: .* a forward pre-hook")
    yield changed(lambda m: m[2].register_full_backward_hook(lambda *_: None), "2: .* a backward hook")
    yield changed(lambda m: m[2].register_full_backward_pre_hook(lambda *_: None), "2: .* a backward pre-hook")
    yield changed(lambda m: m[1].weight.register_hook(lambda g: g * 2), "1.weight: .* a hook of its gradient")
    yield changed(lambda m: m[1].bias.register_post_accumulate_grad_hook(lambda _: None), "1.bias: .* a hook of its")
    yield changed(lambda m: setattr(m[2], "forward", torch.tanh), "2: .* a forward() of this object")
    yield changed(lambda m: setattr(m[3], "weight", nn.Parameter(m[3].weight.data[:1].clone().expand(12, 12))),
                  "3.weight: .* elements that share memory")
    yield changed(lambda m: setattr(m[4], "bias", m[3].bias), "3.bias: .* a parameter that 4 has too", _rows(
        nn.ReLU(), nn.Linear(12, 12), nn.Linear(12, 12)))
    yield changed(lambda m: setattr(m[4], "weight", nn.Parameter(m[3].weight.data)), "4.weight: .* that is 3.weight's",
                  _rows(nn.ReLU(), nn.Linear(12, 12), nn.Linear(12, 12)))
    yield changed(lambda m: m[2].eval(), "2: .* nn.BatchNorm1d in eval()", _rows(nn.BatchNorm1d(12)))
    yield changed(lambda m: m.eval(), "2: .* nn.Dropout in eval()", _rows(nn.Dropout(0.5)))
    yield changed(lambda m: m.double(), "1.weight: .* numbers of torch.float64")
    yield changed(lambda m: m[4].half(), "4.weight: .* numbers of torch.float16")
    yield changed(lambda m: m.to("meta"), "1.weight: .* on the device 'meta'")
    yield changed(lambda m: m[2].register_parameter("slope", nn.Parameter(torch.ones(1))), "2.slope: .* that its")
    yield changed(lambda m: m[1].register_buffer("mask", torch.ones(1)), "1.mask: .* a buffer that its class")
    yield changed(lambda m: (m[1].__delattr__("weight"), setattr(m[1], "weight", torch.ones(12, 784))),
                  "1.weight: .* no parameter")
    yield changed(lambda m: nn.utils.parametrizations.weight_norm(m[1]), "found nn.ParametrizedLinear")
    yield changed(lambda m: nn.utils.prune.random_unstructured(m[1], "weight", 0.5), "1: .* a forward pre-hook")
    yield "flatten: .* without gradients", NoGrad()
    yield "under autocast", Autocast()
    yield "inplace, and add that reads its input later", Overwritten()
    yield "inplace, and add that reads its input later", OverwrittenView()
    yield "inplace, and mul that reads its input later", OverwrittenSlice(write_to_slice)
    yield "inplace, and cat that reads its input later", OverwrittenSlice(write_to_whole)
    yield "inplace, and sub that reads its input later", OverwrittenSlice(write_to_chunk)
    yield "inplace, and add that reads its input later", OverwrittenSlice(write_by_position)
    yield changed(lambda m: m.eval(), "1: .* nn.Dropout2d in eval()", _behind([nn.Dropout2d(0.5)], 144))


def test_refused_attributes():
    """a module that is more than its classes and settings is refused by name"""
    for says, module in spoiled():
        try:
            heddle.from_torch(module, (1, 28, 28))
        except heddle.UnsupportedError as error:
            assert re.search(says.replace("()", r"\(\)"), str(error)), f"expected {says!r}, found {error}"
        else:
            raise AssertionError(f"expected a refusal, {says!r}")
    criterion = nn.MSELoss()
    criterion.register_forward_hook(lambda *_: None)
    refuses(heddle.UnsupportedError, "MSELoss: ", lambda: heddle.from_torch(_rows(), (1, 28, 28), criterion))


def test_losses():
    """criteria become the model's loss; rows of numbers are samples too"""
    module = nn.Sequential(nn.Linear(784, 10))
    for criterion in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.MSELoss(), nn.HuberLoss(delta=0.5), nn.L1Loss(),
                      nn.BCEWithLogitsLoss(pos_weight=torch.full((10,), 2.0))):
        model = heddle.from_torch(module, (784,), criterion)
        target = rng.random((len(x), 10)).astype(np.float32)
        is_class = isinstance(criterion, nn.CrossEntropyLoss)
        rows = x.reshape(len(x), 784)
        with heddle.Session(model, (rows, y if is_class else target, rows[:9], y[:9] if is_class else target[:9]),
                            batch=BATCH, no_shuffle=True, out=path(f"loss-{type(criterion).__name__}")) as session:
            loss = session.step()
        wanted = criterion(module(torch.from_numpy(rows[:BATCH])),
                           torch.from_numpy((y if is_class else target)[:BATCH])).item()
        assert abs(loss - wanted) < 1e-5, (criterion, loss, wanted)


class Several(nn.Module):
    """Heads by a seed: some begin at another head, some return (N); as a tuple or as a dictionary."""

    def __init__(self, seed):
        super().__init__()
        draw = np.random.default_rng(seed)
        self.named, count = bool(seed % 2), int(draw.integers(2, 6))
        self.body, self.act = nn.Linear(12, 9), nn.Tanh()
        self.kinds = [str(draw.choice(["classes", "smooth", "mse", "l1", "huber", "bce"])) for _ in range(count)]
        self.outputs = [int(draw.integers(2, 5)) if kind in ("classes", "smooth") else int(draw.integers(1, 4))
                        for kind in self.kinds]
        self.behind = [int(draw.integers(-1, k)) for k in range(count)]  # a head, or -1: the body
        self.heads = nn.ModuleList(nn.Linear(9 if b < 0 else self.outputs[b], of)
                                   for b, of in zip(self.behind, self.outputs))
        self.weights = [float(w) for w in draw.choice([0.25, 1.0, 3.0, 0.7], count)]
        self.order = [int(k) for k in draw.permutation(count)]  # in which the losses are given

    def forward(self, x):
        h, found = self.act(self.body(x)), []
        for head, behind in zip(self.heads, self.behind):
            found.append(head(h if behind < 0 else torch.relu(found[behind])))
        found = [each.squeeze(1) if of == 1 else each for each, of in zip(found, self.outputs)]
        return {f"out{k}": each for k, each in enumerate(found)} if self.named else tuple(found)

    def losses(self):
        of = {"classes": nn.CrossEntropyLoss, "smooth": lambda: nn.CrossEntropyLoss(label_smoothing=0.2),
              "mse": nn.MSELoss, "l1": nn.L1Loss, "huber": lambda: nn.HuberLoss(delta=0.3), "bce": nn.BCEWithLogitsLoss}
        pairs = [(of[kind](), weight) for kind, weight in zip(self.kinds, self.weights)]
        return {f"out{k}": pairs[k] for k in self.order} if self.named else pairs

    def targets(self, count, seed):
        draw = np.random.default_rng(seed)
        found = [draw.integers(0, of, count) if kind in ("classes", "smooth") else
                 draw.random((count, of)) if kind == "bce" else draw.normal(size=(count, of))
                 for kind, of in zip(self.kinds, self.outputs)]
        return [each if each.ndim == 1 else each.astype(np.float32) for each in found]


def torch_step(module, rows, targets, weights):
    """The module after a step of SGD in float64, and its loss: weighted samples, by the losses of single ones."""
    module = copy.deepcopy(module).double()
    outputs = module(torch.from_numpy(rows).double())
    outputs = list(outputs.values() if module.named else outputs)
    total = 0
    criteria = module.losses()
    for k, (score, target) in enumerate(zip(outputs, targets)):
        criterion, weight = criteria[f"out{k}" if module.named else k]
        criterion.reduction = "none"
        is_class = module.kinds[k] in ("classes", "smooth")
        t = torch.from_numpy(target) if is_class else torch.from_numpy(target).double().reshape(score.shape)
        each = criterion(score, t).reshape(len(rows), -1).mean(1)
        total = total + weight * (each * torch.from_numpy(weights)).sum() / weights.sum()
    total.backward()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.5 * parameter.grad
    return module, total.item()


def test_heads():
    """modules of several outputs train as in float64: gradients, losses, the scores that come back"""
    with torch.random.fork_rng():
        for seed in range(12):
            torch.manual_seed(seed)
            module, rows = Several(seed), np.random.default_rng(seed).normal(size=(40, 12)).astype(np.float32)
            targets = module.targets(40, seed)
            by_name = {f"out{k}": each for k, each in enumerate(targets)}
            weights = np.linspace(0.5, 2, 40) if seed % 3 else np.ones(40)
            data = (rows, by_name if module.named else tuple(targets))
            model = heddle.from_torch(module, (12,), losses=module.losses())
            run = heddle.train(model, (*data, *data), batch=40, max_steps=1, optimizer="sgd", lr=0.5, progress=False,
                               sample_weight=(weights, weights) if seed % 3 else None, out=path(f"several-{seed}"))
            wanted, loss = torch_step(module, rows, targets, weights)
            assert abs(run.losses[0] - loss) < 1e-5 * max(1, loss), (seed, run.losses[0], loss)
            trained = run.to_torch()
            for (name, ours), theirs in zip(trained.named_parameters(), wanted.parameters()):
                apart = (ours.double() - theirs).abs().max().item()
                assert apart < 2e-6, f"{seed}: {name} is {apart} apart"
            shown = trained(torch.from_numpy(rows))
            shown = list(shown.values() if module.named else shown)
            predicted = run.predict(rows)
            assert not module.named or list(predicted) == [f"out{k}" for k in module.order]
            for k, kind in enumerate(module.kinds):
                value = list(predicted.values())[k] if not module.named else predicted[f"out{k}"]
                score = shown[k].detach().double().reshape(value.shape)
                score = score.sigmoid() if kind == "bce" else score
                score = score.softmax(1) if kind in ("classes", "smooth") else score
                assert np.allclose(value, score.numpy(), atol=1e-6), (seed, k, kind)


def test_refused_heads():
    """losses that do not fit the outputs of a module are refused by name"""
    two, one = Several(3), _rows()
    refuses(heddle.UnsupportedError, "give losses=, one for each", lambda: heddle.from_torch(two, (12,)))
    refuses(heddle.UsageError, "a single one, found a list of 2",
            lambda: heddle.from_torch(one, (1, 28, 28), losses=["mse", "l1"]))
    losses = two.losses()
    refuses(heddle.UsageError, "found a list of 2", lambda: heddle.from_torch(two, (12,), losses=["mse", "l1"]))
    losses.popitem()
    refuses(heddle.UsageError, "give one for each", lambda: heddle.from_torch(two, (12,), losses=losses))
    ignored = {name: nn.CrossEntropyLoss(ignore_index=1) for name in two.losses()}
    refuses(heddle.FormatError, "without 'ignore_index'",
            lambda: heddle.train(heddle.from_torch(two, (12,), losses=ignored), "digits"))

    class Final(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x):
            return self.a(x), torch.softmax(self.b(x), 1)

    refuses(heddle.UnsupportedError, "leave it out; cross_entropy includes it",
            lambda: heddle.from_torch(Final(), (4,), losses=["mse", nn.CrossEntropyLoss()]))
    heddle.from_torch(Final(), (4,), losses=[nn.CrossEntropyLoss(), "mse"])


class Meaned(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


class Branching(nn.Module):
    def forward(self, x):
        return x.relu() if x.sum() > 0 else x


def test_bad():
    """what heddle does not have is refused by name; the module is not changed"""
    def refused(module, says, shape=(1, 28, 28)):
        refuses(heddle.UnsupportedError, says, lambda: heddle.from_torch(module, shape))

    refused(nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4)), "affine=False")
    refused(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect")), "padding_mode='reflect'")
    refused(nn.Sequential(nn.Linear(28, 10)), "a linear layer over images")
    refused(nn.Sequential(nn.MaxPool2d(3, dilation=2)), "dilation=2")
    refused(nn.Sequential(nn.Upsample(scale_factor=1.5)), "scale_factor=1.5, no whole number")
    refused(Squared(), "found pow")
    refused(_behind([nn.RMSNorm((4, 6, 6))], 144), "normalized_shape=(4, 6, 6)")
    norm = nn.LayerNorm(12)
    refused(_rows(norm, nn.Tanh(), norm), "found a second call of 2; make another module")
    rows, row = nn.Sequential(nn.Linear(4, 2)), (4,)
    for last in (nn.Softmax(1), nn.LogSoftmax(1), nn.Sequential(nn.Softmax(1), nn.Flatten())):
        refused(nn.Sequential(rows, last), "leave it out; cross_entropy includes it", row)
    refuses(heddle.UnsupportedError, "leave it out; bce_with_logits includes it",
            lambda: heddle.from_torch(nn.Sequential(rows, nn.Sigmoid()), row, nn.BCEWithLogitsLoss()))
    refuses(heddle.UnsupportedError, "use nn.CrossEntropyLoss()", lambda: heddle.from_torch(rows, row, nn.NLLLoss()))
    heddle.from_torch(nn.Sequential(rows, nn.Softmax(1)), row, "mse")
    refused(Meaned(), "write x.mean((2, 3), keepdim=True).flatten(1)")
    refused(Branching(), "torch.fx can trace")
    with torch.random.fork_rng():
        refused(Call(lambda h: F.dropout(h, training=False), 288), "found F.dropout with training=False; call train()")
        refused(Call(lambda h: F.dropout2d(h, training=False), 288), "found F.dropout2d with training=False")
        heddle.from_torch(Call(lambda h: F.dropout(h, 0.0, False), 288), (1, 28, 28))
    refused(nn.Linear(4, 2), "wrap it: nn.Sequential(module)", row)
    refuses(heddle.UsageError, "make one: Meaned()", lambda: heddle.from_torch(Meaned, row))
    refuses(heddle.UsageError, "found str", lambda: heddle.from_torch("rows", row))
    refuses(heddle.ShapeError, "for samples of (5,), found RuntimeError", lambda: heddle.from_torch(rows, (5,)))
    for shape in ((1, 1, 28, 28), 4, ("4",)):
        refuses(heddle.ShapeError, "leave the batch out", lambda: heddle.from_torch(nn.Flatten(), shape))
    refuses(heddle.UsageError, "use heddle.from_torch(model, ", lambda: heddle.train(rows, (x, y)))
    model = heddle.from_torch(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), (1, 28, 28))
    refuses(heddle.ShapeError, "are floats; give integers", lambda: heddle.train(model, (x, y.astype(float))))
    run = heddle.train("simplenet", (x, y), max_steps=1, out=path("torch-none"))
    refuses(heddle.UsageError, "a run of a model by heddle.from_torch", run.to_torch)


class Call(nn.Module):
    """A convolution, or a linear layer, a function of its output, and a linear layer of so many elements."""

    def __init__(self, function, elems, first=None):
        super().__init__()
        self.first, self.function = first or nn.Conv2d(1, 8, 5, stride=4), function
        self.fc = nn.Linear(elems, 10)

    def forward(self, x):
        return self.fc(self.function(self.first(x)).flatten(1))


IMAGES = {  # of 8 x 6 x 6
    "mean-of-sides": (lambda h: h * h.mean((-2, -1), keepdim=True), 288),
    "amax-of-sides": (lambda h: h * h.amax((-1, -2), keepdim=True), 288),
    "mean-of-channels": (lambda h: h - h.mean(-3, keepdim=True), 288),
    "amin-of-sides": (lambda h: h - h.amin((-2, -1), keepdim=True), 288),
    "slices": (lambda h: torch.cat((h[:, 2:5], h[:, :3, ...], h[:, -1:, :]), 1), 252),
    "chunks": (lambda h: torch.chunk(h, 2, 1)[1] * torch.split(h, [4, 4], 1)[-2], 144),
    "whole": (lambda h: torch.cat(torch.chunk(h, 2, 1), 1) + torch.cat([h], 1), 288),
    "inplace": (lambda h: F.relu(h[:, :4], inplace=True), 144),
    "padded": (lambda h: F.pad(F.pad(h, (1, 2)), (0, 0, 2, 1)), 648)}
SIGNAL = {  # of 8 x 111
    "mean-of-length": (lambda h: h * h.mean(-1, keepdim=True), 888),
    "amax-of-length": (lambda h: h * h.amax(2, keepdim=True), 888),
    "amin-of-length": (lambda h: h - h.amin(-1, keepdim=True), 888),
    "mean-of-channels": (lambda h: h - h.mean(-2, keepdim=True), 888),
    "slices": (lambda h: torch.cat((h[:, 2:5], h[:, :1, ...]), 1), 444),
    "chunks": (lambda h: torch.chunk(h, 2, 1)[1], 444), "padded": (lambda h: F.pad(h, (2, 3)), 928),
    "doubled": (lambda h: F.interpolate(h, scale_factor=2), 1776),
    "resized": (lambda h: F.interpolate(h, 50), 400)}
ROWS = {  # of 8
    "slices": (lambda h: torch.cat((h[..., 1:4], h[:, :2]), 1), 5), "chunks": (lambda h: torch.chunk(h, 4, 1)[2], 2),
    "squeezed": (lambda h: h.view(h.size(0), -1), 8)}


def test_dimensions():
    """calls that count dimensions, of images, signals and rows, train as in PyTorch or are refused"""
    with torch.random.fork_rng():
        signals, rows = x.reshape(len(x), 1, 784), x.reshape(len(x), 784)
        for name, calls, samples, first in (("images", IMAGES, x, lambda: nn.Conv2d(1, 8, 5, stride=4)),
                                            ("signals", SIGNAL, signals, lambda: nn.Conv1d(1, 8, 9, stride=7)),
                                            ("rows", ROWS, rows, lambda: nn.Linear(784, 8))):
            for each, (function, elems) in calls.items():
                apart = losses_apart(Call(function, elems, first()), f"{name}-{each}", samples)
                assert apart < 1e-4, f"{each} of {name}: losses {apart} apart"

        image, signal, row = nn.Conv2d(1, 16, 13), nn.Conv1d(1, 4, 5), nn.Linear(784, 8)  # of 16 x 16 x 16, 4 x 36, 8
        picture, line = (1, 28, 28), (1, 40)
        slices = "only x[:, start:end] is a layer"
        for says, function, first, shape in (
                (slices, lambda h: h[..., :8], image, picture), (slices, lambda h: h[..., :8, :], image, picture),
                (slices, lambda h: h[:, ::2], image, picture), (slices, lambda h: h[..., :2], signal, line),
                (slices, lambda h: h[0].view(1, -1), row, (784,)),
                ("dim=[1, 2]", lambda h: h * h.mean((-2, -1), keepdim=True), signal, line),
                ("amax(dim=(-2, -1)", lambda h: h * h.amax((-2, -1), keepdim=True), signal, line),
                ("amin(dim=(1, 2)", lambda h: h * h.amin((1, 2), keepdim=True), signal, line),
                ("over (N, C, H, W), which reads (2, 4, 36)", nn.AdaptiveAvgPool2d(1), signal, line),
                ("over (N, C, H, W)", lambda h: F.max_pool2d(h, (1, 2)), signal, line),
                ("over (N, C, L), which reads (2, 8)", nn.AdaptiveAvgPool1d(6), row, (784,)),
                ("padding by (1, 1, 0, 0)", lambda h: F.pad(h, (1, 1, 0, 0)), signal, line),
                ("padding by (1, 1, 1, 1)", nn.ZeroPad2d(1), signal, line),
                ("padding by (1, 1)", lambda h: F.pad(h, (1, 1)), row, (784,)),
                ("values of the shapes (2, 5, 2, 5), (2, 5)",  # as many rows as samples in the trace
                 lambda h: h * h.mean((2, 3), keepdim=True).flatten(1), nn.Conv2d(1, 5, (27, 24)), picture)):
            with torch.no_grad():
                elems = function(first(torch.zeros(2, *shape))).flatten(1).shape[1]
            refuses(heddle.UnsupportedError, says,
                    lambda: heddle.from_torch(Call(function, elems, first), shape))


def test_shapes():
    """a layer whose output is not that of PyTorch's call is refused by the call's name"""
    original = heddle.pytorch._FUNCTIONS["mean"]
    heddle.pytorch._FUNCTIONS["mean"] = lambda node, *_, **__: ("global_avg_pool2d", {})
    try:
        module = Call(lambda h: h * h.mean((1, 2, 3), keepdim=True), 288)
        refuses(heddle.UnsupportedError, "mean: expected a layer that heddle has, found an output of (2, 1, 1, 1) for "
                "2 samples, but 8x1x1 for each", lambda: heddle.from_torch(module, (1, 28, 28)))
    finally:
        heddle.pytorch._FUNCTIONS["mean"] = original


def test_norms_without_bias():
    """a norm without the bias that heddle's has is refused where it is"""
    norms = [lambda **more: nn.GroupNorm(2, 4, **more), lambda **more: nn.LayerNorm((4, 6, 6), **more),
             lambda **more: nn.InstanceNorm2d(4, affine=True, **more), lambda **more: nn.BatchNorm2d(4, **more)]
    for norm in norms:
        try:
            module = _behind([norm(bias=False)], 144)
        except TypeError:  # before PyTorch 2.15
            module = _behind([norm()], 144)
            module[1].bias = None
        refuses(heddle.UnsupportedError, "found bias=False; give the norm a bias of zeros",
                lambda: heddle.from_torch(module, (1, 28, 28)))


def test_first_weights():
    """a run is repeated from the first weights that it had, whatever its model does afterwards, here or in a child"""
    model = heddle.from_torch(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), (1, 28, 28))

    def train(seed):
        return heddle.train(model, "digits", max_steps=2, seed=seed, progress=False, out=path(f"first-{seed}"))

    runs = [train(1), train(2)]
    assert len(model._files) == 1
    with torch.no_grad():
        model.module[1].weight += 1
    runs.append(train(3))
    heddle.summary(model)
    threads = [threading.Thread(target=lambda seed=seed: runs.append(train(seed))) for seed in (4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    copied = copy.deepcopy(model)
    files = list(model._files.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            del model, runs
            gc.collect()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert len(runs) == 5 and all(file.exists() for file in files)
    for run in runs:
        assert heddle.verify(run).verdict == "verified", run
    assert heddle.train(copied, "digits", max_steps=2, seed=3, out=path("first-copy")).digest == runs[2].digest
    del model, runs, run
    gc.collect()
    assert not any(file.parent.exists() for file in files)


def test_loaders():
    """a DataLoader is its data set, with its batch, workers and order; one that does more is refused"""
    from torch.utils.data import (DataLoader, RandomSampler, SequentialSampler, SubsetRandomSampler, TensorDataset,
                                  WeightedRandomSampler)
    data = TensorDataset(torch.tensor(x), torch.tensor(y))
    model = heddle.from_torch(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), (1, 28, 28))
    run = heddle.train(model, (DataLoader(data, 32, shuffle=True, num_workers=1), DataLoader(data, 100)), epochs=1,
                       progress=False, out=path("torch-loader"))
    assert run.digest == heddle.train(model, (data, data), batch=32, epochs=1, out=path("torch-loader-2")).digest
    assert run.result["batch"] == 32 and run.result["workers"] == 1
    run = heddle.train(model, DataLoader(data, 32, drop_last=True), epochs=1, batch=64, out=path("torch-loader-3"))
    assert run.digest == heddle.train(model, data, batch=64, epochs=1, no_shuffle=True, drop_last=True,
                                      out=path("torch-loader-4")).digest
    for name in ("batch", "batch_size", "batch-size"):
        given = {name: 64, "drop-last": False, "max-steps": 2}
        run = heddle.train(model, DataLoader(data, 32, drop_last=True), **given, out=path("torch-loader-" + name))
        assert run.result["batch"] == 64
    assert heddle.train(model, DataLoader(data, 600, drop_last=True), epochs=1, **{"drop-last": False},
                        out=path("torch-loader-5")).result["steps"] == 1
    some = DataLoader(data, 32, sampler=SubsetRandomSampler(range(64)))
    few = RandomSampler(data, num_samples=64)
    for bad, says in ((DataLoader(data, 32, sampler=few), "RandomSampler of 64 samples"),
                      (DataLoader(data, 32, sampler=SequentialSampler(range(64))), "SequentialSampler of 64 samples"),
                      ((DataLoader(data, 32), some), "a SubsetRandomSampler"), (some, "a SubsetRandomSampler")):
        refuses(heddle.UsageError, says, lambda: heddle.train(model, bad, epochs=1))
    for bad, says in ((DataLoader(data, 32, collate_fn=lambda samples: samples), "without a collate_fn"),
                      (DataLoader(data, 32, collate_fn=functools.partial(list)), "without a collate_fn"),
                      (DataLoader(data, None), "a batch_sampler"),
                      (DataLoader(data, 32, sampler=WeightedRandomSampler([1.0] * len(data), 5)), "found one with a "
                       "WeightedRandomSampler"), ((DataLoader(data, 32), 3), "found something else")):
        refuses(heddle.UsageError, says, lambda: heddle.train(model, bad, epochs=1))


BOTH = """
import sys, numpy as np
def ours():
    import heddle
    return heddle.train("simplenet", "digits", max_steps=5, threads=2, out=sys.argv[2] + str(len(found))).digest
def theirs():
    import torch
    torch.manual_seed(0)
    a = torch.randn(300, 300, requires_grad=True)
    (a @ a).tanh().sum().backward()
    return a.grad.sum().item()
found = []
for who in sys.argv[1] * 2:
    found.append((ours if who == "h" else theirs)())
assert found[0] == found[2] and found[1] == found[3], found
print(found[0] if sys.argv[1] == "ht" else found[1])
"""


def test_both():
    """both libraries train in one process, whichever is imported first, with one digest"""
    digests = [subprocess.run([sys.executable, "-c", BOTH, order, path("both-" + order)], check=True, text=True,
                              stdout=subprocess.PIPE).stdout for order in ("ht", "th")]
    assert digests[0] == digests[1], digests


def test_hardtanh():
    """hardtanh from 0 to 6 is relu6, whose gradient at its limits is 0, too; others are clip"""
    for limits, op in (((0, 6), "relu6"), ((-1, 1), "clip")):
        text = heddle.from_torch(nn.Sequential(nn.Hardtanh(*limits), nn.Flatten()), (1, 2, 2)).text
        assert f'"{op}"' in text or f"op: {op}" in text, text
