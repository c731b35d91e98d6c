"""PyTorch as a peer: see peer_work.py. usage: torch_worker.py FOLDER_OF_MNIST THREADS"""
import contextlib
import math
import sys
import time

import torch
from torch import nn

from model_file import classes_of, read_model
import torch_texts
from peer_work import MODELS, RECIPE, TEXTS, images, is_convolutional, is_file, serve

FOLDER, THREADS = sys.argv[1], int(sys.argv[2])
state = {"trainers": {}}
# With bf16 weights, their updates, sums and the loss stay float32, as in heddle.
PRECISION = {"f32": contextlib.nullcontext, "bf16": lambda: torch.autocast("cpu", torch.bfloat16)}


def module(layer, shape):
    """The module of a layer of a model file, for inputs of this shape."""
    op, side = layer["op"], [layer.get(key) for key in ("kernel", "stride", "padding")]
    stride, padding = side[1] or (side[0] if "pool" in op else 1), side[2] or 0
    if op == "conv2d":
        return nn.Conv2d(shape[1], layer["out"], side[0], stride, padding, layer.get("dilation", 1),
                         layer.get("groups", 1), layer.get("bias", True))
    if op == "linear":
        return nn.Linear(shape[1], layer["out"], layer.get("bias", True))
    if op == "batch_norm":
        return (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(shape[1])
    if op in ("max_pool2d", "avg_pool2d"):
        return (nn.MaxPool2d if op == "max_pool2d" else nn.AvgPool2d)(side[0], stride, padding)
    plain = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "swish": nn.SiLU,
             "flatten": nn.Flatten}
    if op in plain:
        return plain[op]()
    if op == "global_avg_pool2d":
        return nn.AdaptiveAvgPool2d(1)
    raise ValueError("no module is known for layers of the kind " + op)


class Network(nn.Module):
    """What a model file describes."""

    def __init__(self, path):
        super().__init__()
        shape, self.layers = read_model(path)
        self.made = nn.ModuleList()
        values = {"input": torch.zeros(2, *shape)}
        for layer in self.layers:
            x = [values[name] for name in layer["from"]]
            self.made.append(nn.Identity() if layer["op"] in ("add", "concat") else module(layer, x[0].shape))
            values[layer["name"]] = self.value(layer, self.made[-1], x)

    def value(self, layer, made, x):
        return x[0] + x[1] if layer["op"] == "add" else torch.cat(x, 1) if layer["op"] == "concat" else made(x[0])

    def forward(self, x):
        values = {"input": x}
        for layer, made in zip(self.layers, self.made):
            x = values[layer["name"]] = self.value(layer, made, [values[name] for name in layer["from"]])
        return x


def network(model):
    if is_file(model):
        return Network(model)
    if model in TEXTS:
        return torch_texts.network(model)
    make = {"conv": lambda i, o, k: nn.Conv2d(i, o, k), "pool": nn.MaxPool2d, "relu": nn.ReLU, "flatten": nn.Flatten,
            "linear": nn.Linear}
    return nn.Sequential(*(make[kind](*sizes) for kind, *sizes in MODELS[model]))


def best_form(kind, parameters, **options):
    """The optimizer in the fastest form that this version has for the CPU."""
    for form in ({"fused": True}, {"foreach": True}, {}):
        try:
            return kind(parameters, **options, **form)
        except (TypeError, RuntimeError, ValueError):
            continue
    raise RuntimeError("no form of %s works" % kind.__name__)


class Trainer:
    def __init__(self, setting, seed=0):
        way, layout = setting.split("/")
        torch.manual_seed(seed)
        self.format = getattr(torch, "channels_last" if layout == "nhwc" else "contiguous_format")
        self.net = network(state["model"]).to(memory_format=self.format)
        self.x = state["x"].contiguous(memory_format=self.format)
        self.optimizer = None
        self.loss = lambda x, y: nn.functional.cross_entropy(self.net(x).flatten(0, -2), y.flatten())
        if way == "compile":
            torch._dynamo.reset()
            self.loss = torch.compile(self.loss, dynamic=False)

    def add_gradients(self, x, y):
        with PRECISION[state["precision"]]():
            loss = self.loss(x, y)
        loss.backward()

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        self.add_gradients(x, y)
        self.optimizer.step()

    def warm_up(self, sizes):
        for size in sizes * 3:
            self.add_gradients(self.x[:size], state["y"][:size])
        self.net.zero_grad(set_to_none=True)


def open_model(model, batch, precision):
    if is_file(model):
        shape, layers = read_model(model)
        x, y = torch.randn(40 * batch, *shape), torch.randint(classes_of(layers), (40 * batch,))
    elif model in TEXTS:
        x, y = torch_texts.windows(model, 40 * batch)
    else:
        x, y = (torch.from_numpy(array) for array in images(FOLDER, "train"))
        x = x.unsqueeze(1)
    state.update(model=model, batch=batch, precision=precision, x=x, y=y, trainers={})
    ways = ["eager"] + ["compile"] * hasattr(torch, "compile")
    layouts = ["nchw"] + ["nhwc"] * is_convolutional(model)
    return {"settings": ["%s/%s" % (way, layout) for way in ways for layout in layouts]}


def rate(setting, seconds):
    if setting not in state["trainers"]:
        trainer = state["trainers"][setting] = Trainer(setting)
        trainer.optimizer = best_form(torch.optim.SGD, list(trainer.net.parameters()), lr=0.01)
        trainer.warm_up([state["batch"]])
    trainer, batch = state["trainers"][setting], state["batch"]
    order = torch.randperm(len(state["y"]) // batch * batch).split(batch)

    def train(steps, seconds):
        start, step = time.perf_counter(), 0
        while step < steps and time.perf_counter() < start + seconds:
            chosen = order[step % len(order)]
            trainer.step(trainer.x[chosen], state["y"][chosen])
            step += 1
        return step * batch / (time.perf_counter() - start)

    train(10, seconds)
    return {"samples_per_s": train(math.inf, seconds)}


def recipe(setting, seed):
    batch, total = RECIPE["batch"], len(state["y"])
    trainer = Trainer(setting, seed)
    trainer.optimizer = best_form(torch.optim.Adam, list(trainer.net.parameters()), lr=RECIPE["lr"], betas=(0.7, 0.9))
    schedule = torch.optim.lr_scheduler.OneCycleLR(trainer.optimizer, max_lr=RECIPE["lr"], total_steps=RECIPE["steps"])
    trainer.warm_up([batch, total % batch])
    start = time.perf_counter()
    for at in range(0, total, batch):
        trainer.step(trainer.x[at:at + batch], state["y"][at:at + batch])
        schedule.step()
    seconds = time.perf_counter() - start
    x, y = images(FOLDER, "t10k")
    with torch.no_grad():
        right = (trainer.net(torch.from_numpy(x).unsqueeze(1)).argmax(1) == torch.from_numpy(y)).float().mean()
    return {"train_s": seconds, "accuracy": right.item()}


torch.set_num_threads(THREADS)
capability = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", lambda: None)
serve("PyTorch " + torch.__version__, {"open": open_model, "rate": rate, "recipe": recipe}, capability())
