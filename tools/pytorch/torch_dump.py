#!/usr/bin/env python3
"""Writes what PyTorch computes in the first steps of a run of heddle, for `heddle bisect RUN DUMP.safetensors`.

    tools/pytorch/torch_dump.py --build BUILD RUN DUMP.safetensors --steps 3

RUN is a run on a folder of IDX files with --no-shuffle, so that both see the same samples in the same order; its model,
settings and first weights are taken. The dump has the losses of all steps and, of each step, the outputs of all layers,
the gradients and the updated parameters; compare_dump.h names them. A training loop of your own can write such a file
too: put Recorder around its model. Needs torch, pyyaml and safetensors; without them it says so and ends with 77.
"""
import argparse
import json
import os
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import save_file

    from torch_golden import first_weights, optimizer
    from torch_net import Model, samples
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)


DECAY = {"adamw": "0.01"}
UNKNOWN = {"schedule": ("const",), "clip-grad-norm": ("",), "transforms": ("",), "label-smoothing": ("",),
           "parameters": ("",), "init": ("",), "sampler": ("sequential",), "warmup": ("0",)}


class Recorder:
    """Keeps the outputs of all named layers of a module, and on demand its gradients and parameters."""

    def __init__(self, net):
        self.net, self.tensors, self.losses, self.step = net, {}, [], 1
        for name, module in net.named_modules():
            if name:
                module.register_forward_hook(lambda module, x, y, name=name: self.put(name, y))

    def put(self, name, tensor):
        self.tensors["%d/%s" % (self.step, name)] = tensor.detach().clone().contiguous()

    def end_step(self, loss, count):
        """After optimizer.step(): `loss` is the batch's mean."""
        for name, parameter in self.net.named_parameters():
            self.put(name, parameter)
            if parameter.grad is not None:
                self.put(name + ".grad", parameter.grad)
        self.losses.append(loss.item() * count)
        self.step += 1

    def save(self, path):
        save_file({**self.tensors, "losses": torch.tensor(self.losses, dtype=torch.float64)}, path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=".")
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--data", help="the folder of IDX files, if it is not where the run found it")
    p.add_argument("run")
    p.add_argument("dump")
    args = p.parse_args()
    with open(os.path.join(args.run, "run.json")) as file:
        record = json.load(file)
    s = record["settings"]
    data = args.data or s["data"]
    for name, known in UNKNOWN.items():
        if s.get(name, known[0]) not in known:
            sys.exit("torch_dump.py: expected --%s %s, found %s" % (name, " or ".join(known), s[name]))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.yaml")
        with open(path, "w") as file:
            file.write(record["model_yaml"])
        init, mean, std = first_weights(os.path.join(args.build, "heddle"), path, data, os.path.join(folder, "run"))
        net = Model(path).net
    net.load_state_dict(init)
    net.train()
    opt = optimizer(net.parameters(), {**s, "weight-decay": s.get("weight-decay") or DECAY.get(s["optimizer"], "0")})
    x, y = samples(data, "train", mean, std)
    batch, recorder = int(s["batch"]), Recorder(net)
    for i in range(args.steps):
        opt.zero_grad()
        loss = F.cross_entropy(net(x[i * batch:(i + 1) * batch]), y[i * batch:(i + 1) * batch])
        loss.backward()
        opt.step()
        recorder.end_step(loss, batch)
    recorder.save(args.dump)


if __name__ == "__main__":
    main()
