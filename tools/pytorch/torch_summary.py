#!/usr/bin/env python3
"""Holds `heddle summary` against torchinfo and ptflops, for every model file named.

    tools/pytorch/torch_summary.py [--heddle PATH] data/models/*.yaml

Parameters must equal torchinfo's, of each layer and in all (it counts those of shared layers again); multiply-adds of
convolutions and linear layers must equal ptflops', which would count a bias as one more and therefore gets the layers
without. Needs torch, pyyaml, torchinfo and ptflops; without them it says so and ends with 77.
"""
import argparse
import copy
import json
import subprocess
import sys

try:
    import ptflops
    import torch
    import torchinfo

    from torch_net import Model
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)


def macs(module, shape):
    module = copy.deepcopy(module)
    module.bias = None
    count, _ = ptflops.get_model_complexity_info(module, shape, as_strings=False, print_per_layer_stat=False,
                                                 backend="aten")
    return count


def of_torch(model):
    """Parameters and multiply-adds by layer."""
    net, shapes, params, costs = model.net, {}, {}, {}
    hooks = [net.get_submodule(name).register_forward_hook(
        lambda module, x, y, name=name: shapes.update({name: tuple(x[0].shape[1:])})) for name, _, _ in model.layers]
    info = torchinfo.summary(net, input_size=(2, *model.input), verbose=0, depth=99)
    for hook in hooks:
        hook.remove()
    by_module = {id(layer.module): layer.num_params for layer in info.summary_list}
    for name, op, _ in model.layers:
        params[name] = by_module[id(net.get_submodule(name))]
        costs[name] = macs(net.get_submodule(name), shapes[name]) if op in ("conv2d", "linear") else 0
    return info, params, costs


def compare(path, heddle):
    model = Model(path)
    text = subprocess.run([heddle, "summary", "--model", path, "--json"], check=True, capture_output=True, text=True)
    heddle_model = json.loads(text.stdout)
    info, params, costs = of_torch(model)
    wrong = [(layer["name"], layer["params"], params[layer["name"]], layer["macs"], costs[layer["name"]])
             for layer in heddle_model["layers"]
             if (layer["params"], layer["macs"]) != (params[layer["name"]], costs[layer["name"]])]
    for name, *numbers in wrong:
        print("%s, layer %s: parameters %d, torchinfo %d; MACs %d, ptflops %d" % (model.name, name, *numbers))
    same = not wrong and (heddle_model["params"], heddle_model["trainable"], heddle_model["macs"]) == (
        info.total_params, info.trainable_params, sum(costs.values()))
    print("%-10s parameters %7d, torchinfo %7d; MACs %9d, ptflops %9d%s" % (
        model.name, heddle_model["params"], info.total_params, heddle_model["macs"], sum(costs.values()),
        "" if same else "  DIFFERENT"))
    return same


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--heddle", default="heddle")
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    sys.exit(0 if all([compare(path, args.heddle) for path in args.models]) else 1)


if __name__ == "__main__":
    main()
