"""Heddle's optimizers, schedules and averages in PyTorch, from a run's options: groups of parameters by rules, Muon,
lookahead. What PyTorch has is PyTorch's; Muon is written for any precision here, as torch.optim.Muon computes in
bfloat16 and takes no convolutions.
"""
import fnmatch

import torch
import torch.nn as nn
import yaml

OPS = {"conv2d": nn.Conv2d, "conv_transpose2d": nn.ConvTranspose2d, "linear": nn.Linear,
       "batch_norm": (nn.BatchNorm1d, nn.BatchNorm2d), "layer_norm": nn.LayerNorm, "group_norm": nn.GroupNorm}


def orthogonal(g, rounds):
    """The direction of a matrix made nearly orthogonal: Newton-Schulz rounds with Muon's polynomial of degree 5."""
    x = g / (g.norm() + 1e-7)
    x = x.T if len(g) > g[0].numel() else x
    for _ in range(rounds):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if len(g) > g[0].numel() else x


class Muon(torch.optim.Optimizer):
    """Jordan et al., 2024; with normalize_weight as airbench94_muon normalises filters before each update."""

    def __init__(self, params, lr, momentum, nesterov, weight_decay, ns_steps, normalize_weight, adjust_lr):
        super().__init__(params, dict(lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay,
                                      ns_steps=ns_steps, normalize_weight=normalize_weight, adjust_lr=adjust_lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, group)

    def update(self, p, group):
        m = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
        m.mul_(group["momentum"]).add_(p.grad)
        d = p.grad + group["momentum"] * m if group["nesterov"] else m
        rows, columns = len(p), p[0].numel()
        factor = {"none": 1, "original": max(1, rows / columns) ** 0.5,
                  "match_rms_adamw": 0.2 * max(rows, columns) ** 0.5}[group["adjust_lr"]]
        if group["normalize_weight"]:
            p.mul_(rows ** 0.5 / p.norm())
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(orthogonal(d.reshape(rows, -1), group["ns_steps"]).view_as(p), alpha=-group["lr"] * factor)


def make_optimizer(params, s):
    lr, decay = float(s["lr"]), float(s.get("weight_decay", 0.01 if s["optimizer"] == "adamw" else 0))
    momentum = dict(momentum=float(s.get("momentum", 0)), nesterov=str(s.get("nesterov")).lower() == "true")
    moments = dict(betas=tuple(s.get("betas", (0.9, 0.999))), eps=float(s.get("eps", 1e-8)))
    if s["optimizer"] == "sgd":
        return torch.optim.SGD(params, lr=lr, weight_decay=decay, **momentum)
    if s["optimizer"] == "muon":
        return Muon(params, lr=lr, weight_decay=decay, ns_steps=int(s.get("ns_steps", 5)),
                    normalize_weight=str(s.get("normalize_weight")).lower() == "true",
                    adjust_lr=s.get("adjust_lr", "none"), **momentum)
    if s["optimizer"] == "rmsprop":
        return torch.optim.RMSprop(params, lr=lr, weight_decay=decay, alpha=float(s.get("alpha", 0.99)),
                                   eps=moments["eps"], momentum=momentum["momentum"],
                                   centered=str(s.get("centered")).lower() == "true")
    if s["optimizer"] == "nadam":
        return torch.optim.NAdam(params, lr=lr, weight_decay=decay, **moments,
                                 momentum_decay=float(s.get("momentum_decay", 0.004)),
                                 decoupled_weight_decay=str(s.get("decoupled_weight_decay")).lower() == "true")
    kind = torch.optim.AdamW if s["optimizer"] == "adamw" else torch.optim.Adam
    return kind(params, lr=lr, weight_decay=decay, **moments)


def make_schedule(opt, s, steps):
    """By the schedulers of PyTorch; triangular is two LinearLR, one after the other."""
    kind = s.get("schedule", "const")
    start, end = float(s.get("start_factor", 0)), float(s.get("end_factor", 0))
    line = torch.optim.lr_scheduler.LinearLR
    if kind == "const":
        return torch.optim.lr_scheduler.ConstantLR(opt, factor=1)
    if kind == "linear":
        return line(opt, start_factor=1, end_factor=end, total_iters=steps)
    top = int(float(s.get("peak", 0.5)) * steps)
    return torch.optim.lr_scheduler.SequentialLR(
        opt, [line(opt, start_factor=start, end_factor=1, total_iters=top),
              line(opt, start_factor=1, end_factor=end, total_iters=steps - top)], milestones=[top])


class Updates:
    """The optimizers and schedules of a run's groups, and its lookahead: step() after each backward pass."""

    OF_OPTIMIZER = ("momentum", "nesterov", "betas", "eps", "ns_steps", "normalize_weight", "adjust_lr", "alpha",
                    "centered", "momentum_decay", "decoupled_weight_decay")

    def __init__(self, net, options, steps):
        self.net, self.steps, self.done, self.parts = net, steps, 0, []
        self.options = {key.replace("-", "_"): value for key, value in options.items()}
        rules = yaml.safe_load(self.options.get("parameters", "[]"))
        groups = {}
        for name, p in net.named_parameters():
            own = self.own_settings(name, rules)
            p.requires_grad = own.pop("requires_grad", True)
            if p.requires_grad:
                groups.setdefault(repr(sorted(own.items())), (own, []))[1].append(p)
        for own, params in groups.values():
            s = {**self.options, **own}
            length = round(float(own["epochs"]) * steps) if "epochs" in own else steps
            opt = make_optimizer(params, s)
            self.parts.append((opt, make_schedule(opt, s, length), length if "epochs" in own else None))
        self.slow = {key: value.clone() for key, value in net.state_dict().items()}

    def own_settings(self, name, rules):
        own, layer = {}, self.net.get_submodule(name.rsplit(".", 1)[0])
        for rule in rules:
            s = dict(rule)
            pattern, op = s.pop("match", "*"), s.pop("op", None)
            if fnmatch.fnmatchcase(name, pattern) and (op is None or isinstance(layer, OPS[op])):
                if "optimizer" in s:
                    own = {key: value for key, value in own.items() if key not in self.OF_OPTIMIZER}
                own.update(s)
        return own

    def lr(self):
        """The run's: of the parameters without settings of their own, else as if there were some."""
        if not hasattr(self, "like"):
            opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=float(self.options["lr"]))
            self.like = opt, make_schedule(opt, self.options, self.steps)
        return self.like[0].param_groups[0]["lr"]

    def step(self):
        self.lr()
        for opt, schedule, end in self.parts:
            if end is None or self.done < end:
                opt.step()
                schedule.step()
        self.like[0].step()
        self.like[1].step()
        self.done += 1
        if "lookahead" in self.options:
            self.look_ahead(int(self.options["lookahead"]))

    @torch.no_grad()
    def look_ahead(self, every):
        share = float(self.options.get("lookahead_decay", 0.5))
        decay = share * (self.done / self.steps) ** int(self.options.get("lookahead_power", 0))
        due = self.done % every == 0
        if not due and self.done < self.steps:
            return
        for key, value in self.net.state_dict().items():
            if value.is_floating_point():
                self.slow[key].lerp_(value, 1 - decay if due else 0)
                value.copy_(self.slow[key])
