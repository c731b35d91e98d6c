#!/usr/bin/env python3
"""Writes tests/golden/networks.json: PyTorch's first 100 losses (or max-steps) for some of heddle's models.

    tools/pytorch/torch_golden.py --build BUILD --out tests/golden/networks.json

Both start from the weights that heddle draws with seed 0, so no weights need to be kept, and see the first samples of
the built-in digits or, as `data` says, of coloured noise, in file order. `losses` are mean cross-entropies before each
update, computed in float64: the truth. Training amplifies rounding, so that float32 cannot follow it for ever: `steps`
says for how many steps five float32 runs of PyTorch (1 and 2 threads, three orders of the samples inside a batch) stay
within 1e-4 of it, relative; the test wants heddle within 1e-3 for those. `settings` are heddle's options; `lr` are the
learning rates; `test_loss` is the loss on the test set after the last step, in float64: it is compared where `steps`
are all, as are `weights`, those after the last step. `file` is a model file below the source folder; its `settings`
name no model. `data` is coloured noise ("planes") or the arguments of tests/bits/make_data for rows ("2x4x3 3
classes"); without it, the built-in digits.

BUILD is heddle's build folder after `make check` or `make tests/bits/make_idx tests/bits/make_data`. Needs torch,
numpy, pyyaml and safetensors.
"""
import argparse
import json
import os
import subprocess
import tempfile

import torch
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file

from torch_net import Model, colours, rows, samples
from torch_updates import Updates

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STEPS = 100  # where the settings have no max-steps
CASES = {
    "resnet-momentum": {"model": "resnet", "batch": "64", "optimizer": "sgd", "lr": "0.005", "momentum": "0.9",
                        "nesterov": "true", "weight-decay": "1e-4"},
    "resnet-adamw": {"model": "resnet", "batch": "64", "optimizer": "adamw", "lr": "0.0003", "weight-decay": "0.01"},
    "allconv-momentum": {"model": "allconv", "batch": "64", "optimizer": "sgd", "lr": "0.02", "momentum": "0.9",
                         "nesterov": "true", "weight-decay": "1e-4"},
    "allconv-adamw": {"model": "allconv", "batch": "64", "optimizer": "adamw", "lr": "0.001", "weight-decay": "0.01"},
    # As airbench94_muon trains: filters by Muon, the rest by SGD, norms without their weights, one group for a while.
    "resnet-muon": {"model": "resnet", "batch": "64", "optimizer": "sgd", "lr": "0.01", "momentum": "0.85",
                    "nesterov": "true", "schedule": "linear", "epochs": "1", "parameters":
                    "[{op: conv2d, match: '*.weight', optimizer: muon, lr: 0.01, momentum: 0.6, nesterov: true, "
                    "ns_steps: 3, normalize_weight: true}, {op: batch_norm, match: '*.weight', requires_grad: false}, "
                    "{match: stem_norm.bias, lr: 0.02, epochs: 0.05}]"},
    # As torch.optim.Muon, on linear layers too.
    "cnn-muon": {"model": "cnn", "batch": "64", "optimizer": "adamw", "lr": "0.0005", "epochs": "1", "parameters":
                 "[{match: '*.weight', optimizer: muon, lr: 0.001, momentum: 0.95, weight_decay: 0.1, "
                 "adjust_lr: original}]"},
    # As airbench94 trains.
    "simplenet-lookahead": {"model": "simplenet", "batch": "64", "optimizer": "sgd", "lr": "0.05", "momentum": "0.9",
                            "nesterov": "true", "schedule": "triangular", "start-factor": "0.2", "peak": "0.23",
                            "end-factor": "0.07", "epochs": "1", "lookahead": "5", "lookahead-decay": "0.7737809375",
                            "lookahead-power": "3"},
    "simplenet-ema": {"model": "simplenet", "batch": "64", "optimizer": "sgd", "lr": "0.05", "ema": "0.95",
                      "epochs": "1"},
    # The whole network, without moved images; the rate of biases is for a small batch.
    "cifar-94": {"recipe": "cifar-94", "batch": "32", "lr": "2", "epochs": "1", "transforms": "[to_float, normalise]",
                 "tta": "none", "max-steps": "10"},
    # Norms and elementwise layers one after the other, whose values are computed again for gradients; a norm of a
    # flattened image.
    "preact": {"batch": "64", "optimizer": "sgd", "lr": "0.01"},
    "bn3": {"batch": "64", "optimizer": "sgd", "lr": "0.01"},
    "conv_swish_norm": {"batch": "8", "optimizer": "sgd", "lr": "0.05", "transforms": "[to_float]"},
    "norm_after_flatten": {"batch": "8", "optimizer": "sgd", "lr": "0.05", "transforms": "[to_float]"},
    "two_norms_swish": {"batch": "8", "optimizer": "sgd", "lr": "0.05", "transforms": "[to_float]"},
    # Two recurrent layers over a signal.
    "two_lstm": {"batch": "8", "optimizer": "sgd", "lr": "0.2", "momentum": "0.9", "transforms": "[to_float]"},
    "two_gru": {"batch": "8", "optimizer": "adamw", "lr": "0.01", "weight-decay": "0.01", "transforms": "[to_float]"},
}
DATA = {"cifar-94": "planes", "conv_swish_norm": "2x4x3 3 classes", "norm_after_flatten": "2x2x3 3 targets",
        "two_norms_swish": "1x1x11 3 targets", "two_lstm": "4x1x9 3 classes", "two_gru": "4x1x9 3 classes"}
FILES = {name: "tests/bits/%s.yaml" % name
         for name in ("preact", "bn3", "conv_swish_norm", "norm_after_flatten", "two_norms_swish", "two_lstm",
                      "two_gru")}
# Whose weights are compared too.
SMALL = ("conv_swish_norm", "norm_after_flatten", "two_norms_swish", "two_lstm", "two_gru")


def first_weights(heddle, model, data, out):
    """The weights that heddle draws (a step with lr 0 changes only running statistics), and the data's mean and std."""
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


def options_of(args, settings):
    """With those of a recipe, which others override."""
    recipe = settings.get("recipe")
    if not recipe:
        return settings
    with open(os.path.join(args.models, "..", "recipes", recipe + ".yaml")) as file:
        options = yaml.safe_load(file)
    rules = Model(os.path.join(args.models, options["model"] + ".yaml")).rules + options.get("parameters", [])
    return {**{name: str(value) for name, value in options.items()}, "parameters": yaml.safe_dump(rules), **settings}


def averaged(net, settings):
    """The model whose losses on the test set are reported: its moving average with --ema, as torch.optim has it."""
    if "ema" not in settings:
        return None
    net.__dict__["*model"].values = {}  # of the shapes' search: they have gradients, and are no part of a copy
    average = torch.optim.swa_utils.get_ema_multi_avg_fn(float(settings["ema"]))
    return torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=average, use_buffers=True)


def loss_of(scores, y, settings):
    """Mean squared errors for targets, else the cross-entropy."""
    if y.dtype.is_floating_point:
        return F.mse_loss(scores, y.to(scores.dtype))
    return F.cross_entropy(scores, y, label_smoothing=float(settings.get("label-smoothing", 0)))


def trajectory(path, settings, init, x, y, test, double=False, threads=1, order=None):
    """Losses, learning rates, the loss on the test set at the end, the trained module. `order` permutes the samples
    inside each batch, which changes roundings alone."""
    torch.set_num_threads(threads)
    net, batch, steps = Model(path).net, int(settings["batch"]), int(settings.get("max-steps", STEPS))
    net.load_state_dict(init)
    net.to(torch.float64 if double else torch.float32).train()
    updates, average = Updates(net, settings, len(x) // batch), averaged(net, settings)
    losses, lrs = [], []
    for i in range(steps):
        bx, by = x[i * batch:(i + 1) * batch], y[i * batch:(i + 1) * batch]
        if order is not None:
            p = torch.randperm(batch, generator=torch.Generator().manual_seed(1000 * order + i))
            bx, by = bx[p], by[p]
        lrs.append(updates.lr())
        net.zero_grad()
        loss = loss_of(net(bx.double() if double else bx), by, settings)
        loss.backward()
        updates.step()
        if average:
            average.update_parameters(net)
        losses.append(loss.item())
    last = (average or net).eval()
    with torch.no_grad():
        end = loss_of(last(test[0].double() if double else test[0]), test[1], settings).item()
    return losses, lrs, end, net


def make_case(args, label, data, out):
    settings, kind, file = CASES[label], DATA.get(label), FILES.get(label)
    options = options_of(args, settings)
    path = os.path.join(SOURCE, file) if file else os.path.join(args.models, options["model"] + ".yaml")
    init, mean, std = first_weights(os.path.join(args.build, "heddle"), path if file else options["model"], data, out)
    read, last = {"planes": (colours, "test"), None: (samples, "t10k")}.get(kind, (rows, "test"))
    x, y = read(data, "train", mean, std)
    test = read(data, last, mean, std)
    truth, lrs, end, net = trajectory(path, options, init, x, y, test, double=True)
    variants = [dict(threads=1), dict(threads=2), dict(order=1), dict(order=2), dict(order=3)]
    rounded = [trajectory(path, options, init, x, y, test, **v)[0] for v in variants]
    off = [max(abs(r[i] - truth[i]) / truth[i] for r in rounded) for i in range(len(truth))]
    steps = next((i for i in range(len(truth)) if off[i] > 1e-4), len(truth))
    case = {"settings": settings, "file": file, "data": kind, "test_loss": end, "steps": steps,
            "float32_off": max(off[:steps]), "float32_off_100": max(off), "losses": truth, "lr": lrs}
    if label in SMALL:
        case["weights"] = {name: value.flatten().tolist() for name, value in net.state_dict().items()
                           if value.dtype.is_floating_point}
    return {key: value for key, value in case.items() if value is not None}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=".")
    p.add_argument("--models", default=os.path.join(SOURCE, "data", "models"))
    p.add_argument("--out", default="networks.json")
    p.add_argument("--keep", action="store_true", help="keep the file's other cases")
    p.add_argument("--case", choices=CASES, nargs="+", default=list(CASES))
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make, cases = os.path.join(args.build, "tests", "bits", "make_"), {}
        for label in args.case:
            kind, out = DATA.get(label), os.path.join(folder, label)
            data = os.path.join(folder, (kind or "digits").split()[0])
            if not kind:
                os.makedirs(data, exist_ok=True)
                subprocess.run([make + "idx", data, "6400", "50"], check=True)
            elif kind == "planes":
                subprocess.run([make + "data", "planes", data, "320", "50"], check=True)
            else:
                subprocess.run([make + "data", "rows", data, "800", "50"] + kind.split(), check=True)
            cases[label] = make_case(args, label, data, out)
    if args.keep:
        with open(args.out) as file:
            cases = {**json.load(file)["cases"], **cases}
    with open(args.out, "w") as file:
        each = ['    "%s": {\n%s\n    }' % (label, ",\n".join('      "%s": %s' % (key, json.dumps(value))
                for key, value in case.items())) for label, case in cases.items()]
        file.write('{\n  "torch": "%s",\n  "cases": {\n%s\n  }\n}\n' % (torch.__version__, ",\n".join(each)))
    for label, case in cases.items():
        print(label, case["steps"], "steps within", case["float32_off"], "of 100:", case["float32_off_100"])


if __name__ == "__main__":
    main()
