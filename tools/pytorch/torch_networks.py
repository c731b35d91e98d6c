#!/usr/bin/env python3
"""Compares random networks with PyTorch in float64: the loss of a step, every gradient, running statistics.

    tools/pytorch/torch_networks.py --build BUILD [--count 500] [--first 0] [--isa scalar]

The networks are those of tests/plan/test_networks: chains and branches of every operation, with every loss. Each trains
one step of SGD with a rate of 1 on both sides, from the same weights: what a weight has moved is its gradient. How far
float32 may be from float64 is measured too, by PyTorch in float32 and by float64 with noise of float32's rounding on
every layer's output and gradient: heddle may be 20 times as far, and 2e-5 of the largest gradient of a tensor. Networks
that PyTorch has in another way are left out: dropout, whose draws differ, and norms of shards. Prints the networks that
differ and a count; exits with 1 if there are any.

BUILD is heddle's build folder with tests/plan/test_networks made. Needs torch, numpy, pyyaml and safetensors.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn as nn
import yaml
from safetensors.torch import load_file, save_file

from torch_net import Model

BATCH, FACTOR, OWN, ROUNDING = 8, 20, 2e-5, 2.0**-23


def loss_of(text):
    """The loss module of a model file, and whether its targets are numbers of classes."""
    entry = text.get("loss", "cross_entropy")
    s = entry if isinstance(entry, dict) else {"op": entry}
    weights = {key: torch.tensor(s[key], dtype=torch.float32) for key in ("weight", "pos_weight") if key in s}
    makers = {"cross_entropy": lambda: nn.CrossEntropyLoss(ignore_index=s.get("ignore_index", -100),
                                                           label_smoothing=s.get("label_smoothing", 0.0), **weights),
              "mse": nn.MSELoss, "l1": nn.L1Loss, "huber": lambda: nn.HuberLoss(delta=s.get("delta", 1.0)),
              "bce_with_logits": lambda: nn.BCEWithLogitsLoss(**weights)}
    return makers[s["op"]](), s["op"] == "cross_entropy"


def is_left_out(text):
    layers = [next(iter(entry.values())) for entry in text["layers"]]
    return any(s["op"] in ("dropout", "dropout2d") or s.get("dropout") or s.get("stats") == "shard" for s in layers)


def data_of(text, labels, seed):
    numbers = numpy.random.default_rng(seed)
    outputs = next(iter(text["layers"][-1].values()))["out"]
    x = numbers.standard_normal((BATCH, *text["input"])).astype(numpy.float32)
    y = numpy.arange(BATCH) * 7 % outputs if labels else numbers.random((BATCH, outputs)).astype(numpy.float32)
    return x, y


def add_noise(net):
    """Every layer's output, and every gradient of an input, is off by what rounding to float32 may change."""
    def noisy(y):
        return y + ROUNDING * y.abs().max() * (2 * torch.rand_like(y) - 1)
    for module in net.modules():
        if not list(module.children()):
            module.register_forward_hook(lambda module, inputs, y: noisy(y))
            module.register_full_backward_hook(
                lambda module, inputs, outputs: tuple(None if g is None else noisy(g) for g in inputs))


def step(path, first, loss, x, y, dtype, noise=False):
    """The loss, and the gradients and running statistics by name."""
    net = Model(path).net
    if noise:
        add_noise(net)
    net.load_state_dict(first)
    net.to(dtype).train()
    target = torch.from_numpy(y)
    value = loss.to(dtype)(net(torch.from_numpy(x).to(dtype)),
                           target if target.dtype == torch.int64 else target.to(dtype))
    value.backward()
    found = {name: p.grad.double() for name, p in net.named_parameters() if p.grad is not None}
    found.update((name, b.double()) for name, b in net.named_buffers() if b.is_floating_point())
    return value.item(), found


def heddle_step(args, path, folder, first):
    run = os.path.join(folder, "run")
    environment = dict(os.environ, **({"HEDDLE_ISA": args.isa} if args.isa else {}))
    done = subprocess.run(
        [os.path.join(args.build, "heddle"), "train", "--model", path, "--data", os.path.join(folder, "d.npz"),
         "--init",
         os.path.join(folder, "w.safetensors"), "--no-shuffle", "--batch", str(BATCH), "--epochs", "1", "--optimizer",
         "sgd", "--lr", "1", "--transforms", "[to_float]", "--threads", "1", "--log-every", "1", "--out", run],
        capture_output=True, text=True, env=environment)
    if done.returncode:
        return None, done.stderr.strip()
    after = load_file(os.path.join(run, "last", "model.safetensors"))
    moved = {name: (value if "running" in name else first[name] - value).double()
             for name, value in after.items() if name in first and value.is_floating_point()}
    with open(os.path.join(run, "metrics.jsonl")) as file:
        loss = next(line["loss"] for line in map(json.loads, file) if line["type"] == "step")
    shutil.rmtree(run)
    return loss, moved


def distance(a, b):
    """The largest difference, of the largest of b."""
    return ((a - b).abs().max() / max(b.abs().max().item(), 1e-6)).item()


def differences(args, path, folder, text, seed):
    """Lines that say what differs; None for a network that neither side trains."""
    torch.manual_seed(seed)
    loss, labels = loss_of(text)
    x, y = data_of(text, labels, seed)
    first = Model(path).net.state_dict()
    for name, value in first.items():
        if name.endswith(("running_mean", "num_batches_tracked")):
            value.zero_()
        elif name.endswith("running_var"):
            value.fill_(1)
    first = {name: value.clone() for name, value in first.items()}
    exact, gradients = step(path, first, loss, x, y, torch.float64)
    others = [step(path, first, loss, x, y, torch.float32)]
    others += [step(path, first, loss, x, y, torch.float64, noise=True) for _ in range(3)]
    numpy.savez(os.path.join(folder, "d.npz"), x_train=x, y_train=y, x_test=x, y_test=y)
    save_file({name: value.contiguous() for name, value in first.items() if value.is_floating_point()},
              os.path.join(folder, "w.safetensors"))
    ours, moved = heddle_step(args, path, folder, first)
    finite = all(torch.isfinite(value).all() for _, found in others for value in found.values())
    if ours is None and "expected finite numbers" in moved and not finite:  # a quotient by zero
        return None
    if ours is None:
        return ["heddle: %s" % moved]
    lines = []
    if abs(ours - exact) > FACTOR * max(abs(loss - exact) for loss, _ in others) + OWN * max(abs(exact), 1e-3):
        lines.append("loss %.9g, expected %.9g" % (ours, exact))
    for name, want in gradients.items():
        if name not in moved:
            continue
        off, theirs = distance(moved[name], want), max(distance(found[name], want) for _, found in others)
        rounding = ROUNDING * first[name].abs().max().item() / max(want.abs().max().item(), 1e-6)
        if not off <= FACTOR * theirs + OWN + rounding:
            lines.append("%s is off by %.1e of its largest, rounding by %.1e" % (name, off, theirs))
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--isa")
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    torch.set_num_threads(1)
    compared = wrong = left_out = 0
    seed = args.first
    with tempfile.TemporaryDirectory() as folder:
        while compared < args.count:
            subprocess.run([os.path.join(args.build, "tests/plan/test_networks"), "--write", folder, "1", str(seed)],
                           check=True)
            path = os.path.join(folder, "%d.yaml" % seed)
            with open(path) as file:
                text = yaml.safe_load(file)
            try:
                lines = None if is_left_out(text) else differences(args, path, folder, text, seed)
            except ValueError as why:  # a batch norm of one number
                lines = None if "more than 1 value per channel" in str(why) else [str(why)]
            if lines is None:
                left_out += 1
            else:
                compared += 1
                wrong += bool(lines)
                for line in lines:
                    print("seed %d: %s" % (seed, line), flush=True)
            os.remove(path)
            seed += 1
    print("%d networks compared with PyTorch %s in float64, %d differ (%d left out)" %
          (compared, torch.__version__.split("+")[0], wrong, left_out))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
