#!/usr/bin/env python3
"""Holds the scores of trained checkpoints against PyTorch's, for every model file named.

    tools/pytorch/torch_logits.py [--build BUILD] data/models/*.yaml

Trains each on the built-in digits for some steps, loads model.safetensors as PyTorch's state_dict, and compares the
scores of 1,000 test samples. None may be off by more than 1e-5 of the largest score (of 1 if that is smaller), which is
the order in which float32 itself rounds: the last columns say how far each is from float64. Needs torch, pyyaml and
safetensors; without them it says so and ends with 77. BUILD is heddle's build folder after `make check`.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file

    from torch_net import Model, samples
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

TOLERANCE = 1e-5


def train(args, path, data, out):
    subprocess.run([os.path.join(args.build, "heddle"), "train", "--model", path, "--data", data, "--out", out,
                    "--max-steps", str(args.steps)], check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "run.json")) as file:
        return json.load(file)["data"]


def scores_of_heddle(args, out, data):
    program = os.path.join(args.build, "tests", "golden", "print_scores")
    raw = subprocess.run([program, out, data], check=True, stdout=subprocess.PIPE).stdout
    return torch.frombuffer(bytearray(raw), dtype=torch.float32)


def compare(args, path, data, folder):
    model = Model(path)
    out = os.path.join(folder, model.name)
    stats = train(args, path, data, out)
    x, _ = samples(data, "t10k", stats["mean"], stats["std"])
    model.net.load_state_dict(load_file(os.path.join(out, "last", "model.safetensors")))
    with torch.no_grad():
        net = model.net.eval()
        torch_scores, truth = net(x), net.double()(x.double())
    heddle_scores = scores_of_heddle(args, out, data).reshape(torch_scores.shape)
    off = (heddle_scores - torch_scores).abs().max().item()
    largest = torch_scores.abs().max().item()
    print("%-10s largest score %5.2f; off PyTorch by %.1e, off its float64 by %.1e (PyTorch itself %.1e)" % (
        model.name, largest, off, (heddle_scores - truth).abs().max().item(),
        (torch_scores - truth).abs().max().item()))
    return off <= TOLERANCE * max(1, largest)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=".")
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data)
        subprocess.run([os.path.join(args.build, "tests", "bits", "make_idx"), data, "6400", "1000"], check=True)
        good = [compare(args, path, data, folder) for path in args.models]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
