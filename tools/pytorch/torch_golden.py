#!/usr/bin/env python3
"""Writes tests/golden/networks.json: PyTorch's first 100 losses for some of heddle's models.

    tools/pytorch/torch_golden.py --build BUILD --out tests/golden/networks.json

Both start from the weights that heddle draws with seed 0, so no weights need to be kept, and see the first samples of
the built-in digits in file order. `losses` are mean cross-entropies before each update, computed in float64: the truth.
Training amplifies rounding, so that float32 cannot follow it for ever: `steps` says for how many steps five float32 runs
of PyTorch (1 and 2 threads, three orders of the samples inside a batch) stay within 1e-4 of it, relative; the test wants
heddle within 1e-3 for those. `settings` are heddle's options; `lr` are the learning rates.

BUILD is heddle's build folder after `make check` or `make tests/bits/make_idx`. Needs torch, pyyaml and safetensors.
"""
import argparse
import json
import os
import subprocess
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from torch_net import Model, samples

STEPS = 100
CASES = {
    "resnet-momentum": {"model": "resnet", "batch": "64", "optimizer": "sgd", "lr": "0.005", "momentum": "0.9",
                        "nesterov": "true", "weight-decay": "1e-4"},
    "resnet-adamw": {"model": "resnet", "batch": "64", "optimizer": "adamw", "lr": "0.0003", "weight-decay": "0.01"},
    "allconv-momentum": {"model": "allconv", "batch": "64", "optimizer": "sgd", "lr": "0.02", "momentum": "0.9",
                         "nesterov": "true", "weight-decay": "1e-4"},
    "allconv-adamw": {"model": "allconv", "batch": "64", "optimizer": "adamw", "lr": "0.001", "weight-decay": "0.01"},
}


def optimizer(params, s):
    lr, decay = float(s["lr"]), float(s["weight-decay"])
    if s["optimizer"] == "adamw":
        return torch.optim.AdamW(params, lr=lr, weight_decay=decay)
    if s["optimizer"] == "adam":
        return torch.optim.Adam(params, lr=lr, weight_decay=decay)
    return torch.optim.SGD(params, lr=lr, weight_decay=decay, momentum=float(s["momentum"]),
                           nesterov=s.get("nesterov") == "true")


def first_weights(heddle, model, data, out):
    """What heddle draws: a step with learning rate 0 changes nothing but running statistics. And the data's mean, std."""
    subprocess.run([heddle, "train", "--model", model, "--data", data, "--out", out, "--optimizer", "sgd", "--lr", "0",
                    "--max-steps", "1"], check=True, stdout=subprocess.DEVNULL)
    weights = load_file(os.path.join(out, "last", "model.safetensors"))
    for name, value in weights.items():
        if name.endswith(".running_mean") or name.endswith(".num_batches_tracked"):
            value.zero_()
        elif name.endswith(".running_var"):
            value.fill_(1)
    with open(os.path.join(out, "run.json")) as file:
        stats = json.load(file)["data"]
    return weights, stats["mean"], stats["std"]


def trajectory(path, settings, init, x, y, double=False, threads=1, order=None):
    """Losses and learning rates; `order` permutes the samples inside each batch, which changes roundings alone."""
    torch.set_num_threads(threads)
    net, batch = Model(path).net, int(settings["batch"])
    net.load_state_dict(init)
    net.to(torch.float64 if double else torch.float32).train()
    opt = optimizer(net.parameters(), settings)
    losses, lrs = [], []
    for i in range(STEPS):
        bx, by = x[i * batch:(i + 1) * batch], y[i * batch:(i + 1) * batch]
        if order is not None:
            p = torch.randperm(batch, generator=torch.Generator().manual_seed(1000 * order + i))
            bx, by = bx[p], by[p]
        lrs.append(opt.param_groups[0]["lr"])
        opt.zero_grad()
        loss = F.cross_entropy(net(bx.double() if double else bx), by)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses, lrs


def make_case(args, settings, data, out):
    path = os.path.join(args.models, settings["model"] + ".yaml")
    init, mean, std = first_weights(os.path.join(args.build, "heddle"), settings["model"], data, out)
    x, y = samples(data, "train", mean, std)
    truth, lrs = trajectory(path, settings, init, x, y, double=True)
    variants = [dict(threads=1), dict(threads=2), dict(order=1), dict(order=2), dict(order=3)]
    rounded = [trajectory(path, settings, init, x, y, **v)[0] for v in variants]
    off = [max(abs(r[i] - truth[i]) / truth[i] for r in rounded) for i in range(STEPS)]
    steps = next((i for i in range(STEPS) if off[i] > 1e-4), STEPS)
    return {"settings": settings, "steps": steps, "float32_off": max(off[:steps]), "float32_off_100": max(off),
            "losses": truth, "lr": lrs}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=".")
    p.add_argument("--models", default=os.path.join(here, "..", "..", "data", "models"))
    p.add_argument("--out", default="networks.json")
    p.add_argument("--case", choices=CASES, nargs="+", default=list(CASES))
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data)
        subprocess.run([os.path.join(args.build, "tests", "bits", "make_idx"), data, "6400", "50"], check=True)
        cases = {label: make_case(args, settings, data, os.path.join(folder, label))
                 for label, settings in CASES.items()
                 if label in args.case}
    with open(args.out, "w") as file:
        json.dump({"torch": torch.__version__, "cases": cases}, file, indent=1)
        file.write("\n")
    for label, case in cases.items():
        print(label, case["steps"], "steps within", case["float32_off"], "of 100:", case["float32_off_100"])


if __name__ == "__main__":
    main()
