"""timm's smallest networks of pictures, with random weights, exported by PyTorch: what heddle reads of the files must
give the scores of PyTorch.

    onnx_timm.py READ_SCORES [--markdown] [NAME ...]     build/tests/onnx/read_scores; exit code 1: some differ
    onnx_timm.py --list COUNT                            those with the fewest parameters, for SMALLEST

With --markdown it prints a table for docs/export.md, which `make onnx-tables` puts there. Needs timm, torch and onnx.
"""

import os
import re
import sys
import tempfile
import warnings

import numpy as np
import timm
import torch

import onnx_networks
from onnx_networks import apart, exported, kind

# One of each family and size: the smallest by parameters, without those for tests alone and copies of other weights.
SMALLEST = """
    starnet_s050 starnet_s100 dla46x_c mobilevit_xxs dla46_c dla60x_c edgenext_xx_small mobilevitv2_050
    starnet_s150 mobilenetv3_small_050 lcnet_035 mobilenetv2_035 lcnet_050 mobilenetv4_conv_small_035
    mobilenetv2_050 mnasnet_small mobilenetv3_small_075 tinynet_e semnasnet_050 convnext_zepto_rms
""".split()
WAYS = {"op17": onnx_networks.WAYS["op17"]}  # "dynamo" takes a minute for each


def smallest(count):
    """The names of the networks with the fewest parameters."""
    found = []
    for name in timm.list_models():
        if re.match(r"tf_|test_", name):
            continue
        try:
            with torch.device("meta"):
                net = timm.create_model(name)
        except Exception:  # it needs numbers while it is made
            continue
        found.append((sum(p.numel() for p in net.parameters()), name))
    return sorted(found)[:count]


def network(name):
    """In evaluation mode, the statistics of its norms drawn, too."""
    torch.manual_seed(0)
    net = timm.create_model(name).eval()
    for part in net.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
            part.running_mean.uniform_(-0.2, 0.2)
            part.running_var.uniform_(0.5, 1.5)
    return net


def cells(program, folder, name):
    """Of each way that PyTorch exports a network in what `apart` says, and its parameters."""
    net, found = network(name), {}
    x = np.random.default_rng(1).normal(size=(2, *net.default_cfg["input_size"])).astype(np.float32)
    with torch.no_grad():
        y = net(torch.from_numpy(x)).numpy().astype(float)
    for way, settings in WAYS.items():
        path = os.path.join(folder, "net.onnx")
        if exported(net, torch.from_numpy(x), path, settings):
            found[way] = apart(program, path, x, y, folder, False)
    return sum(p.numel() for p in net.parameters()), found


def main(program, *words):
    if program == "--list":
        for parameters, name in smallest(int(words[0])):
            print(f"{parameters:,} {name}")
        return 0
    warnings.filterwarnings("ignore")
    markdown, names = "--markdown" in words, [word for word in words if word != "--markdown"]
    tally, notes, networks = {"equal": 0, "refused": 0, "wrong": 0}, [], 0
    if markdown:
        print("| network | parameters | " + " | ".join(WAYS) + " |\n|" + "---|" * (2 + len(WAYS)))
    with tempfile.TemporaryDirectory() as folder:
        for name in names or SMALLEST:
            parameters, found = cells(program, folder, name)
            texts = ["not exported" if way not in found else "refused" if isinstance(found[way], str) else
                     f"{found[way]:.0e}" for way in WAYS]
            print("| " + " | ".join([name, f"{parameters:,}", *texts]) + " |", flush=True)
            networks += any(kind(cell) == "equal" for cell in found.values())
            for way, cell in found.items():
                tally[kind(cell)] += 1
                if kind(cell) != "equal":
                    notes.append(f"- {name}, {way}: {cell}" + ("" if isinstance(cell, str) else " apart"))
    counts = ", ".join(f"{count} {what}" for what, count in tally.items())
    print("\n".join(["", *notes, "", f"timm {timm.__version__}: {networks} of {len(names or SMALLEST)} networks are "
                     f"read; {counts}."]))
    return 1 if tally["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
