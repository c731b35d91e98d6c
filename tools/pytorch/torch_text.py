#!/usr/bin/env python3
"""Follows a step of --recipe shakespeare after the other in PyTorch, in float64, from the same weights.

    tools/pytorch/torch_text.py [--build BUILD] [--steps N] TEXT

gpt-nano trains on TEXT with the recipe's AdamW, decay, clipping, warm-up and cosine: the rate of each step is the one
that metrics.jsonl has. Windows are in the order of the text. Prints both losses at some steps and the largest relative
distance of all, which may not exceed 1e-5. Needs torch, pyyaml and safetensors; without them it says so and ends with
77. BUILD is heddle's build folder.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    from safetensors.torch import save_file

    from torch_net import Model
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

TOLERANCE, BATCH, PLACES = 1e-5, 12, 64
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "models", "gpt-nano.yaml")


def draw(net):
    """Weights of the size that GPT-2's have, in float32."""
    for p in net.parameters():
        with torch.no_grad():
            if p.dim() > 1:
                p.normal_(std=0.02)
    return {name: p.clone().contiguous() for name, p in net.state_dict().items() if name != "lm_head.weight"}


def train(args, net, text, characters, folder):
    """The losses of heddle's steps and their rates."""
    path, out = os.path.join(folder, "init.safetensors"), os.path.join(folder, "run")
    save_file(draw(net), path)
    for part, letters in (("train", text), ("test", characters * PLACES)):
        with open(os.path.join(folder, part + ".txt"), "w", encoding="utf-8") as file:
            file.write(letters)
    subprocess.run([os.path.join(args.build, "heddle"), "train", "--recipe", "shakespeare", "--data", folder, "--init",
                    path, "--no-shuffle", "--max-steps", str(args.steps), "--log-every", "1", "--out", out],
                   check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    sums = numpy.fromfile(os.path.join(out, "losses.bin"), dtype="<f4" if
                          os.path.getsize(os.path.join(out, "losses.bin")) == 4 * args.steps else "<f8")
    return sums / (BATCH * PLACES), {line["step"]: line["lr"] for line in lines if "lr" in line}


def follow(net, tokens, losses, rates):
    """The largest relative distance of heddle's losses from those of PyTorch."""
    matrices = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}],
                                  betas=(0.9, 0.99))
    worst, windows = 0, len(tokens) // PLACES - 1
    for step, loss in enumerate(losses, 1):
        at = [((step - 1) * BATCH + i) % windows * PLACES for i in range(BATCH)]
        x, y = (torch.stack([tokens[a + k:a + k + PLACES] for a in at]) for k in (0, 1))
        for group in optimizer.param_groups:
            group["lr"] = rates[step]
        optimizer.zero_grad()
        exact = torch.nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
        exact.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1)
        optimizer.step()
        worst = max(worst, abs(loss / exact.item() - 1))
        if step in (1, 2, 10) or step % 50 == 0:
            print("step %d: PyTorch %.9f, heddle %.9f" % (step, exact.item(), loss), flush=True)
    return worst


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build")
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("text", metavar="TEXT")
    args = p.parse_args()
    with open(args.text, encoding="utf-8") as file:
        text = file.read()
    if len(text) < (args.steps * BATCH + 2) * PLACES:
        p.error("expected %d characters for %d steps in TEXT, found %d" % ((args.steps * BATCH + 2) * PLACES,
                                                                            args.steps, len(text)))
    characters = "".join(sorted(set(text)))
    tokens = torch.tensor([characters.index(letter) for letter in text])
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.yaml")
        with open(MODEL, encoding="utf-8") as model, open(path, "w", encoding="utf-8") as file:
            file.write(model.read().replace("classes", str(len(characters))))
        net = Model(path).net
        losses, rates = train(args, net, text, characters, folder)
    worst = follow(net.double().train(), tokens, losses, rates)
    print("largest relative distance of %d losses: %.2g" % (args.steps, worst))
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
