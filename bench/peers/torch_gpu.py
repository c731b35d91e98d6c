#!/usr/bin/env python3
"""What PyTorch trains a second on a GPU, data resident, plain SGD: eager as most write it; and channels last, with
fused updates, eager, compiled, and its whole step as a CUDA graph.

usage: torch_gpu.py MODEL BATCH SECONDS FOLDER_OF_MNIST|random [DEVICE]

Each way runs for 30 epochs, or SECONDS. Prints a line "WAY SAMPLES_PER_SECOND" for each way that works, "WAY WHY" on
standard error for the others; compilation, capture and first steps are never in a time. DEVICE other than cuda is for
trying the script; there is no graph there.
"""
import sys
import time

import torch
from torch import nn

from peer_work import MODELS, images

MODEL, BATCH, SECONDS, FOLDER = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
DEVICE = torch.device(sys.argv[5] if len(sys.argv) > 5 else "cuda")
EPOCHS = 30


def data():
    if FOLDER == "random":
        generator = torch.Generator().manual_seed(0)
        return torch.randn(60000, 1, 28, 28, generator=generator), torch.randint(10, (60000,), generator=generator)
    x, y = images(FOLDER, "train")
    return torch.from_numpy(x).unsqueeze(1), torch.from_numpy(y)


def network():
    make = {"conv": lambda i, o, k: nn.Conv2d(i, o, k), "pool": nn.MaxPool2d, "relu": nn.ReLU, "flatten": nn.Flatten,
            "linear": nn.Linear}
    torch.manual_seed(0)
    return nn.Sequential(*(make[kind](*sizes) for kind, *sizes in MODELS[MODEL])).to(DEVICE)


def wait():
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


class Step:
    """A step of training on the samples that `chosen` names."""

    def __init__(self, x, y, tuned, compiled):
        layout = torch.channels_last if tuned else torch.contiguous_format
        self.x, self.y, self.net = x.to(memory_format=layout), y, network().to(memory_format=layout)
        self.chosen = torch.zeros(BATCH, dtype=torch.int64, device=DEVICE)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, **{"fused" if tuned else "foreach": True})
        self.loss = self.plain_loss
        if compiled:
            torch._dynamo.reset()
            self.loss = torch.compile(self.plain_loss, dynamic=False)

    def plain_loss(self, x, y):
        return nn.functional.cross_entropy(self.net(x), y)

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.x.index_select(0, self.chosen), self.y.index_select(0, self.chosen)).backward()
        self.optimizer.step()


def captured(step):
    """The step as one graph; the steps before it are on a separate stream, as capturing requires."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step.run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.run()
    return graph.replay


def rate(x, y, tuned, compiled, graph):
    step = Step(x, y, tuned, compiled)
    run = captured(step) if graph else step.run
    order = torch.randperm(len(y) // BATCH * BATCH, device=DEVICE).split(BATCH)
    done = 0
    start = None
    while True:
        for chosen in order[:50]:
            step.chosen.copy_(chosen)
            run()
            done += BATCH
        wait()
        now = time.perf_counter()
        if start is None:  # the first round was for warming up
            start, done = now, 0
        elif now > start + SECONDS or done >= EPOCHS * len(y):
            return done / (now - start)


def main():
    if DEVICE.type == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_gpu: PyTorch %s sees no GPU" % torch.__version__)
    x, y = (part.to(DEVICE) for part in data())
    ways = {"eager": (False, False, False), "tuned": (True, False, False), "compiled": (True, True, False)}
    if DEVICE.type == "cuda":
        ways.update({"graph": (True, False, True), "compiled-graph": (True, True, True)})
    for way, setting in ways.items():
        try:
            print(way, round(rate(x, y, *setting)), flush=True)
        except Exception as why:  # whatever a library throws: this way is left out and reported
            print(way, type(why).__name__, str(why).split("\n")[0][:200], file=sys.stderr)


main()
