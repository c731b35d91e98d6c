#!/usr/bin/env python3
"""heddle's recipes for CIFAR-10 in PyTorch, on the same pictures.

    bench/peers/cifar.py cifar-94|cifar-fast|cifar-resnet FOLDER [--seed N] [--threads N] [--channels-last] [--compile]

FOLDER holds train/CLASS/*.jpg and test/CLASS/*.jpg. A line for each epoch goes to standard error, with the accuracy of
single images; the last line, on standard output, is a JSON object: accuracy by the recipe's test-time augmentation,
accuracy of each epoch, seconds of training and of evaluation. Decoding, compilation and a first step that warms up are
in no time. Needs torch, numpy and Pillow.

cifar-94 and cifar-fast follow K. Jordan, "94 % on CIFAR-10 in 3.29 seconds on a single GPU" (arXiv 2404.00498), and
K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024): 2 x 2 patches whitened by a layer
whose bias alone is trained, for three epochs; groups of two 3 x 3 convolutions that begin as copies of their inputs,
with batch norm and GELU; SGD with Nesterov's momentum, filters by Muon; rates that fall linearly; smoothed labels;
shifts by up to two pixels with reflection, and flips that alternate. cifar-resnet is the network of 20 layers of K. He
et al. (arXiv 1512.03385), with random crops and flips.
"""
import argparse
import json
import math
import os
import sys
import time

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image

SIDE = 32
JORDAN = dict(batch=2000, epochs=8, widths=(64, 256, 256), bias_lr=0.053, head_lr=0.67 * (9 / 256) ** 2, muon_lr=0.24,
              decay=2e-6, smoothing=0.2, pad=2, tta=True)
RECIPES = {
    "cifar-94": JORDAN,
    "cifar-fast": {**JORDAN, "batch": 1000, "epochs": 4, "widths": (32, 128, 128)},
    "cifar-resnet": dict(batch=128, epochs=20, lr=0.1, momentum=0.9, decay=5e-4, warmup=391, smoothing=0, pad=4,
                         tta=False),
}


# ---- Data ----

def read_pictures(folder, limit):
    """Bytes [N, 3, 32, 32], and the classes, which are numbered by name."""
    images, labels = [], []
    for label, name in enumerate(sorted(os.listdir(folder))):
        for file in sorted(os.listdir(os.path.join(folder, name)))[:limit]:
            with Image.open(os.path.join(folder, name, file)) as picture:
                images.append(numpy.asarray(picture.convert("RGB")))
            labels.append(label)
    return torch.from_numpy(numpy.stack(images)).permute(0, 3, 1, 2).contiguous(), torch.tensor(labels)


class Pictures:
    """Normalised images of a set, as they are or by random shifts: views of the images with their padding."""

    def __init__(self, images, labels, mean, std, pad, layout, reflects):
        self.labels, self.layout = labels, layout
        self.mean, self.std = mean.view(3, 1, 1), std.view(3, 1, 1)
        self.shifts = 2 * pad + 1
        padded = torch.zeros(len(images), 3, SIDE + 2 * pad, SIDE + 2 * pad, dtype=torch.uint8)
        padded[:, :, pad:pad + SIDE, pad:pad + SIDE] = images
        if reflects:
            place = torch.arange(-pad, SIDE + pad).abs()
            place = SIDE - 1 - (SIDE - 1 - place).abs()
            padded = images[:, :, place][:, :, :, place]
        self.views = padded.unfold(2, SIDE, 1).unfold(3, SIDE, 1)
        self.flips = torch.rand(len(images)) < 0.5

    def __len__(self):
        return len(self.labels)

    def take(self, chosen, down, right, flipped):
        pixels = self.views[chosen, :, down, right]
        pixels = torch.where(flipped.view(-1, 1, 1, 1), pixels.flip(3), pixels)
        return pixels.float().div_(255).sub_(self.mean).div_(self.std).contiguous(memory_format=self.layout)

    def shifted(self, chosen, flipped):
        down, right = torch.randint(self.shifts, (2, len(chosen)))
        return self.take(chosen, down, right, flipped)

    def plain(self, chosen):
        middle = torch.full_like(chosen, self.shifts // 2)
        return self.take(chosen, middle, middle, torch.zeros(len(chosen), dtype=torch.bool))


# ---- Networks ----

class Scaled(nn.Sequential):
    """Scores over 9."""

    def forward(self, x):
        return super().forward(x) / 9


def copying_conv(inputs, outputs):
    """The first outputs begin as copies of the inputs."""
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    nn.init.dirac_(conv.weight.data[:inputs])
    return conv


def norm(channels):
    layer = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad = False
    return layer


def group(inputs, outputs):
    return [copying_conv(inputs, outputs), nn.MaxPool2d(2), norm(outputs), nn.GELU(),
            copying_conv(outputs, outputs), norm(outputs), nn.GELU()]


def whitened(images):
    """Of 2 x 2 patches: the eigenvectors of their second moments over sqrt(eigenvalue + 5e-4), and the negatives."""
    patches = images.double().unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / (values + 5e-4).sqrt()).T.flip(0).reshape(12, 3, 2, 2)
    return torch.cat((filters, -filters)).float()


def make_jordan(widths, images):
    first = nn.Conv2d(3, 24, 2)
    first.weight.data.copy_(whitened(images))
    first.weight.requires_grad = False
    inputs, layers = 24, [first, nn.GELU()]
    for outputs in widths:
        layers += group(inputs, outputs)
        inputs = outputs
    return Scaled(*layers, nn.MaxPool2d(3), nn.Flatten(), nn.Linear(inputs, 10, bias=False))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.around = nn.Sequential() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.around(x))


def make_resnet():
    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(inputs, outputs, outputs // inputs) for inputs, outputs in zip(widths, widths[1:])]
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


# ---- Optimizers ----

class Muon(torch.optim.Optimizer):
    """The momentum's direction made nearly orthogonal by three Newton-Schulz rounds; filters of norm sqrt(outputs)."""

    def __init__(self, params, lr, momentum):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for part in self.param_groups:
            for p in part["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.mul_(part["momentum"]).add_(p.grad)
                direction = p.grad + part["momentum"] * momentum
                p.mul_(math.sqrt(len(p)) / p.norm())
                p.sub_(part["lr"] * self.orthogonal(direction.reshape(len(p), -1)).view_as(p))

    @staticmethod
    def orthogonal(g):
        tall = g.shape[0] > g.shape[1]
        x = g / (g.norm() + 1e-7)
        x = x.T if tall else x
        for _ in range(3):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
        return x.T if tall else x


def sgd(params, lr, momentum, decay, nesterov):
    return torch.optim.SGD(params, lr=lr, momentum=momentum, weight_decay=decay, nesterov=nesterov, fused=True)


class Updates:
    """Optimizers, each with its rate as a function of the step, and the step at which it ends."""

    def __init__(self, net, recipe, steps, epoch_steps):
        self.parts, self.done = [], 0
        if "lr" in recipe:
            lr, up, down = recipe["lr"], recipe["warmup"], steps - recipe["warmup"]
            self.add(sgd(net.parameters(), lr, recipe["momentum"], recipe["decay"], False), steps,
                     lambda i: lr * (i + 1) / up if i < up else lr / 2 * (1 + math.cos(math.pi * (i - up) / down)))
            return
        batch, decay = recipe["batch"], recipe["decay"] * recipe["batch"]  # they are for sums over the batch
        bias_lr, head_lr = recipe["bias_lr"] * batch, recipe["head_lr"] * batch
        norms = [module.bias for module in net if isinstance(module, nn.BatchNorm2d)]
        self.add_linear(sgd([net[0].bias], bias_lr, 0.85, decay / bias_lr, True), 3 * epoch_steps)
        self.add_linear(sgd(norms, bias_lr, 0.85, decay / bias_lr, True), steps)
        self.add_linear(sgd([net[-1].weight], head_lr, 0.85, decay / head_lr, True), steps)
        filters = [p for p in net.parameters() if p.dim() == 4 and p.requires_grad]
        self.add_linear(Muon(filters, recipe["muon_lr"], 0.6), steps)

    def add(self, optimizer, length, rate):
        self.parts.append((optimizer, length, rate))

    def add_linear(self, optimizer, length):
        lr = optimizer.param_groups[0]["lr"]
        self.add(optimizer, length, lambda i: lr * (1 - i / length))

    def step(self):
        for optimizer, length, rate in self.parts:
            if self.done < length:
                optimizer.param_groups[0]["lr"] = rate(self.done)
                optimizer.step()
        self.done += 1

    def ask_for_gradients(self):
        """Of the parameters that still train: what others alone need is not computed."""
        for optimizer, length, _ in self.parts:
            for p in optimizer.param_groups[0]["params"]:
                p.requires_grad = self.done < length


# ---- Training ----

class Run:
    def __init__(self, args):
        self.args, self.recipe = args, RECIPES[args.recipe]
        torch.set_num_threads(args.threads)
        torch.manual_seed(args.seed)
        self.layout = torch.channels_last if args.channels_last else torch.contiguous_format
        images, labels = read_pictures(os.path.join(args.folder, "train"), args.limit)
        channels = [images[:, c].float() / 255 for c in range(3)]
        mean, std = (torch.stack([f(c) for c in channels]) for f in (torch.mean, torch.std))
        self.reflects = "widths" in self.recipe
        self.train = Pictures(images, labels, mean, std, self.recipe["pad"], self.layout, self.reflects)
        images, labels = read_pictures(os.path.join(args.folder, "test"), args.limit)
        self.test = Pictures(images, labels, mean, std, 1, self.layout, True)
        self.net = self.make_network().to(memory_format=self.layout)
        self.batch = self.recipe["batch"]
        self.epoch_steps = -(-len(self.train) // self.batch)
        self.steps = round((args.epochs or self.recipe["epochs"]) * self.epoch_steps)
        self.loss = lambda x, y: F.cross_entropy(self.net(x), y, label_smoothing=self.recipe["smoothing"])
        if args.compile:
            self.loss = torch.compile(self.loss, dynamic=False)

    def make_network(self):
        if "widths" not in self.recipe:
            return make_resnet()
        count = min(5000, len(self.train))
        return make_jordan(self.recipe["widths"], self.train.plain(torch.arange(count) * len(self.train) // count))

    def warm_up(self):
        """Steps without an update, for each size of a batch and each set of trained parameters; statistics are put
        back."""
        kept = {name: value.clone() for name, value in self.net.state_dict().items()}
        updates = self.updates()
        for updates.done in {min(length, self.steps - 1) for _, length, _ in updates.parts} | {0}:
            updates.ask_for_gradients()
            for size in {min(self.batch, len(self.train)), len(self.train) % self.batch} - {0}:
                self.loss(self.train.plain(torch.arange(size)), self.train.labels[:size]).backward()
        self.net.load_state_dict(kept)
        self.net.zero_grad(set_to_none=True)

    def updates(self):
        return Updates(self.net, self.recipe, self.steps, self.epoch_steps)

    def flips(self, chosen, epoch):
        if self.reflects:
            return self.train.flips[chosen] ^ bool(epoch % 2)
        return torch.rand(len(chosen)) < 0.5

    def train_epoch(self, updates, epoch):
        self.net.train()
        total = count = 0
        for chosen in torch.randperm(len(self.train)).split(self.batch)[:self.steps - updates.done]:
            self.net.zero_grad(set_to_none=True)
            updates.ask_for_gradients()
            loss = self.loss(self.train.shifted(chosen, self.flips(chosen, epoch)), self.train.labels[chosen])
            loss.backward()
            updates.step()
            total, count = total + loss.item() * len(chosen), count + len(chosen)
        return total / count

    def scores(self, chosen, augmented):
        """With test-time augmentation: half the image and its mirror image, a quarter each two moved by a pixel."""
        x = self.test.plain(chosen)
        if not augmented:
            return self.net(x)
        seen, total = F.pad(x, (1, 1, 1, 1), "reflect"), 0
        for share, moved in ((1 / 4, x), (1 / 8, seen[:, :, :SIDE, :SIDE]), (1 / 8, seen[:, :, 2:, 2:])):
            moved = moved.contiguous(memory_format=self.layout)
            total = total + share * (self.net(moved) + self.net(moved.flip(3)))
        return total

    @torch.no_grad()
    def accuracy(self, augmented):
        self.net.eval()
        right = sum((self.scores(chosen, augmented).argmax(1) == self.test.labels[chosen]).sum().item()
                    for chosen in torch.arange(len(self.test)).split(500))
        return right / len(self.test)

    def report(self):
        updates = self.updates()
        train_s, accuracies, losses = 0, [], []
        while updates.done < self.steps:
            began = time.perf_counter()
            losses.append(self.train_epoch(updates, len(losses)))
            train_s += time.perf_counter() - began
            accuracies.append(self.accuracy(False))
            print("epoch %d: loss %.4f, test accuracy %.2f %%, %.1f s" % (
                len(losses), losses[-1], 100 * accuracies[-1], train_s), file=sys.stderr, flush=True)
        began = time.perf_counter()
        accuracy = self.accuracy(self.recipe["tta"])
        return dict(recipe=self.args.recipe, seed=self.args.seed, accuracy=accuracy, epoch_accuracy=accuracies,
                    epoch_loss=losses, steps=self.steps, train_s=train_s, evaluate_s=time.perf_counter() - began,
                    torch=torch.__version__, threads=self.args.threads, channels_last=self.args.channels_last,
                    compile=self.args.compile)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("recipe", choices=RECIPES)
    p.add_argument("folder")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--epochs", type=float, help="in place of the recipe's")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--limit", type=int, help="so many pictures of each class alone, to try the script")
    run = Run(p.parse_args())
    run.warm_up()
    print(json.dumps(run.report()))


main()
