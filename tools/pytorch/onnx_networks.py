"""Usual networks, small, with random weights, exported to ONNX in several ways: what heddle reads of the files
must give the scores of PyTorch.

    onnx_networks.py READ_SCORES [--markdown] [NAME ...]     build/tests/onnx/read_scores; exit code 1: some differ

With --markdown it prints a table for docs/export.md: of each network and way how far the scores are apart, by the
largest of PyTorch's, and why files are refused. `make onnx-tables` puts it there.
What PyTorch cannot export in a way is left out. Needs torch, onnx and, for the way "dynamo", onnxscript.
"""

import contextlib
import io
import logging
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def cbr(i, o, k=3, s=1, g=1, act=nn.ReLU):
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o), act())


class Basic(nn.Module):
    def __init__(self, i, o, st=1):
        super().__init__()
        self.c1 = nn.Conv2d(i, o, 3, st, 1, bias=False)
        self.b1 = nn.BatchNorm2d(o)
        self.c2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(o)
        self.d = nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o)) if st > 1 or i != o else None

    def forward(self, x):
        return F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))) + (self.d(x) if self.d else x))


class Bottle(nn.Module):
    def __init__(self, i, m, o, st=1):
        super().__init__()
        self.a = cbr(i, m, 1)
        self.b = cbr(m, m, 3, st)
        self.c = nn.Sequential(nn.Conv2d(m, o, 1, bias=False), nn.BatchNorm2d(o))
        self.d = nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.c(self.b(self.a(x))) + self.d(x))


class PreAct(nn.Module):
    def __init__(self, i, o, st=1):
        super().__init__()
        self.b1 = nn.BatchNorm2d(i)
        self.c1 = nn.Conv2d(i, o, 3, st, 1, bias=False)
        self.b2 = nn.BatchNorm2d(o)
        self.c2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.sc = nn.Conv2d(i, o, 1, st, bias=False) if st > 1 or i != o else None

    def forward(self, x):
        o = F.relu(self.b1(x))
        sc = self.sc(o) if self.sc is not None else x
        return self.c2(F.relu(self.b2(self.c1(o)))) + sc


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.l = nn.Sequential(Basic(8, 8), Basic(8, 16, 2), Basic(16, 16))
        self.p = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.p(self.l(self.stem(x))), 1))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = cbr(3, 8)
        self.l = nn.Sequential(Bottle(8, 4, 16), Bottle(16, 8, 32, 2))
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.l(self.stem(x)).mean((2, 3)))


class PreActNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.l = nn.Sequential(PreAct(8, 8), PreAct(8, 16, 2))
        self.b = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        o = F.relu(self.b(self.l(self.c(x))))
        o = F.avg_pool2d(o, o.size()[3])
        return self.fc(o.view(o.size(0), -1))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 5, padding=2)
        self.c2 = nn.Conv2d(6, 16, 5)
        self.f1 = nn.Linear(400, 120)
        self.f2 = nn.Linear(120, 84)
        self.f3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.c1(x)), 2)
        x = F.max_pool2d(torch.relu(self.c2(x)), (2, 2))
        x = x.view(x.size(0), -1)
        return F.log_softmax(self.f3(F.relu(self.f2(F.relu(self.f1(x))))), dim=1)


class InvRes(nn.Module):
    def __init__(self, i, o, st, t, act=nn.ReLU6, se=False, k=3, gate=nn.Hardsigmoid):
        super().__init__()
        h = i * t
        self.use = st == 1 and i == o
        self.a = cbr(i, h, 1, act=act)
        self.b = cbr(h, h, k, st, h, act=act)
        self.c = nn.Sequential(nn.Conv2d(h, o, 1, bias=False), nn.BatchNorm2d(o))
        self.se = SE(h, gate) if se else nn.Identity()

    def forward(self, x):
        y = self.c(self.se(self.b(self.a(x))))
        return x + y if self.use else y


class SE(nn.Module):
    def __init__(self, c, gate):
        super().__init__()
        self.p = nn.AdaptiveAvgPool2d(1)
        self.f1 = nn.Conv2d(c, max(c // 4, 1), 1)
        self.f2 = nn.Conv2d(max(c // 4, 1), c, 1)
        self.g = gate()

    def forward(self, x):
        return x * self.g(self.f2(F.relu(self.f1(self.p(x)))))


class SELin(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.p = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(
            nn.Linear(c, c // 4, bias=False), nn.ReLU(), nn.Linear(c // 4, c, bias=False), nn.Sigmoid()
        )

    def forward(self, x):
        b, c, _, _ = x.size()
        y = self.p(x).view(b, c)
        y = self.fc(y).view(b, c, 1, 1)
        return x * y.expand_as(x)


class SENet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = cbr(3, 8)
        self.se = SELin(8)
        self.b = cbr(8, 16, 3, 2)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(self.b(self.se(self.a(x))), 1).flatten(1))


class MB(nn.Module):
    def __init__(self, act, se, gate=nn.Hardsigmoid):
        super().__init__()
        self.f = nn.Sequential(
            cbr(3, 8, 3, 2, act=act),
            InvRes(8, 8, 1, 2, act, se, gate=gate),
            InvRes(8, 12, 2, 3, act, se, 5, gate),
            cbr(12, 24, 1, act=act),
        )
        self.d = nn.Dropout(0.2)
        self.fc = nn.Linear(24, 10)

    def forward(self, x):
        return self.fc(self.d(self.f(x).mean([2, 3])))


class MBv1(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            cbr(3, 8, 3, 2), cbr(8, 8, 3, 1, 8), cbr(8, 16, 1), cbr(16, 16, 3, 2, 16), cbr(16, 16, 1), nn.AvgPool2d(8)
        )
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.f(x)
        return self.fc(x.view(-1, 16))


class Fire(nn.Module):
    def __init__(self, i, q, e):
        super().__init__()
        self.s = nn.Conv2d(i, q, 1)
        self.e1 = nn.Conv2d(q, e, 1)
        self.e3 = nn.Conv2d(q, e, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.s(x))
        return torch.cat([F.relu(self.e1(x)), F.relu(self.e3(x))], 1)


class Squeeze(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(8, 4, 8), Fire(16, 4, 8)
        )
        self.c = nn.Sequential(nn.Dropout(0.5), nn.Conv2d(16, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)))

    def forward(self, x):
        return torch.flatten(self.c(self.f(x)), 1)


class DenseL(nn.Module):
    def __init__(self, i, g):
        super().__init__()
        self.n1 = nn.BatchNorm2d(i)
        self.c1 = nn.Conv2d(i, 4 * g, 1, bias=False)
        self.n2 = nn.BatchNorm2d(4 * g)
        self.c2 = nn.Conv2d(4 * g, g, 3, padding=1, bias=False)

    def forward(self, xs):
        x = torch.cat(xs, 1)
        return self.c2(F.relu(self.n2(self.c1(F.relu(self.n1(x))))))


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.ls = nn.ModuleList([DenseL(8 + 4 * i, 4) for i in range(9)])
        self.t = nn.Sequential(nn.BatchNorm2d(44), nn.ReLU(), nn.Conv2d(44, 16, 1, bias=False), nn.AvgPool2d(2, 2))
        self.n = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        fs = [self.c(x)]
        for l in self.ls:
            fs.append(l(fs))
        x = F.relu(self.n(self.t(torch.cat(fs, 1))), inplace=True)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


def shuffle(x, g):
    b, c, h, w = x.size()
    return x.view(b, g, c // g, h, w).transpose(1, 2).contiguous().view(b, -1, h, w)


class Shuf(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c // 2
        self.b = nn.Sequential(
            cbr(h, h, 1), nn.Conv2d(h, h, 3, 1, 1, groups=h, bias=False), nn.BatchNorm2d(h), cbr(h, h, 1)
        )

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        return shuffle(torch.cat((a, self.b(b)), 1), 2)


class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.s = cbr(3, 8, 3, 2)
        self.m = nn.MaxPool2d(3, 2, 1)
        self.b = nn.Sequential(Shuf(8), Shuf(8))
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        return self.fc(self.b(self.m(self.s(x))).mean([2, 3]))


class LN2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.dw = nn.Conv2d(d, d, 7, padding=3, groups=d)
        self.n = nn.LayerNorm(d, eps=1e-6)
        self.p1 = nn.Linear(d, 4 * d)
        self.p2 = nn.Linear(4 * d, d)
        self.g = nn.Parameter(torch.rand(d) + 0.5)

    def forward(self, x):
        y = self.dw(x).permute(0, 2, 3, 1)
        y = self.p2(F.gelu(self.p1(self.n(y))))
        y = (self.g * y).permute(0, 3, 1, 2)
        return x + y


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), LN2d(8, eps=1e-6))
        self.b = nn.Sequential(CNBlock(8), LN2d(8), nn.Conv2d(8, 16, 2, 2), CNBlock(16))
        self.n = nn.LayerNorm(16, eps=1e-6)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(self.n(self.b(self.stem(x)).mean([-2, -1])))


class Rep(nn.Module):
    def __init__(self, i, o, st):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(i, o, 3, st, 1, bias=False), nn.BatchNorm2d(o))
        self.b = nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o))
        self.i = nn.BatchNorm2d(i) if i == o and st == 1 else None

    def forward(self, x):
        return F.relu(self.a(x) + self.b(x) + (self.i(x) if self.i is not None else 0))


class RepVGG(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Sequential(Rep(3, 8, 2), Rep(8, 8, 1), Rep(8, 16, 2))
        self.g = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.g(self.b(x))
        return self.fc(x.view(x.size(0), -1))


class UNet(nn.Module):
    def __init__(self, up):
        super().__init__()
        self.a = cbr(1, 8)
        self.b = cbr(8, 16)
        self.c = cbr(16, 32)
        self.p = nn.MaxPool2d(2)
        self.u2 = (
            nn.ConvTranspose2d(32, 16, 2, 2)
            if up == "t"
            else nn.Sequential(
                nn.Upsample(scale_factor=2, mode=up, align_corners=(True if up == "bilinear" else None)),
                nn.Conv2d(32, 16, 1),
            )
        )
        self.d2 = cbr(32, 16)
        self.u1 = (
            nn.ConvTranspose2d(16, 8, 2, 2)
            if up == "t"
            else nn.Sequential(
                nn.Upsample(scale_factor=2, mode=up, align_corners=(True if up == "bilinear" else None)),
                nn.Conv2d(16, 8, 1),
            )
        )
        self.d1 = cbr(16, 8)
        self.o = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(self.p(a))
        c = self.c(self.p(b))
        y = self.d2(torch.cat([b, self.u2(c)], 1))
        return self.o(self.d1(torch.cat([a, self.u1(y)], 1)))


class UNetPad(UNet):
    def forward(self, x):
        def join(u, v):
            dy = v.size()[2] - u.size()[2]
            dx = v.size()[3] - u.size()[3]
            return torch.cat([v, F.pad(u, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])], 1)

        a = self.a(x)
        b = self.b(self.p(a))
        c = self.c(self.p(b))
        y = self.d2(join(self.u2(c), b))
        return self.o(self.d1(join(self.u1(y), a)))


class M5(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(1, 8, 80, 16)
        self.b1 = nn.BatchNorm1d(8)
        self.c2 = nn.Conv1d(8, 16, 3)
        self.b2 = nn.BatchNorm1d(16)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.b1(self.c1(x))), 4)
        x = F.max_pool1d(F.relu(self.b2(self.c2(x))), 4)
        x = F.avg_pool1d(x, x.shape[-1])
        x = x.permute(0, 2, 1)
        return self.fc(x).squeeze(1)


class Chomp(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x[:, :, : -self.n].contiguous()


class TB(nn.Module):
    def __init__(self, i, o, d):
        super().__init__()
        p = 2 * d
        self.n = nn.Sequential(
            nn.Conv1d(i, o, 3, padding=p, dilation=d),
            Chomp(p),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Conv1d(o, o, 3, padding=p, dilation=d),
            Chomp(p),
            nn.ReLU(),
        )
        self.d = nn.Conv1d(i, o, 1) if i != o else None

    def forward(self, x):
        return F.relu(self.n(x) + (x if self.d is None else self.d(x)))


class TCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Sequential(TB(2, 8, 1), TB(8, 8, 2), TB(8, 12, 4))
        self.l = nn.Linear(12, 10)

    def forward(self, x):
        return self.l(self.t(x)[:, :, -1])


class AE(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(784, 32)
        )
        self.f = nn.Linear(32, 784)
        self.d = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 3, 2, 1, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 3, 2, 1, 1), nn.Sigmoid()
        )

    def forward(self, x):
        return self.d(F.relu(self.f(self.e(x))).view(-1, 16, 7, 7))


class MLPBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.a = nn.Linear(d, h)
        self.b = nn.Linear(h, d)

    def forward(self, x):
        return self.b(F.gelu(self.a(x)))


class Mix(nn.Module):
    def __init__(self, t, d):
        super().__init__()
        self.n1 = nn.LayerNorm(d)
        self.t = MLPBlock(t, 8)
        self.n2 = nn.LayerNorm(d)
        self.c = MLPBlock(d, 32)

    def forward(self, x):
        x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.c(self.n2(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(3, 16, 8, 8)
        self.b = nn.Sequential(Mix(16, 16), Mix(16, 16))
        self.n = nn.LayerNorm(16)
        self.h = nn.Linear(16, 10)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        return self.h(self.n(self.b(x)).mean(1))


class Attn(nn.Module):
    def __init__(self, d, h, sdpa=True, causal=False):
        super().__init__()
        self.h = h
        self.q = nn.Linear(d, 3 * d)
        self.p = nn.Linear(d, d)
        self.sdpa = sdpa
        self.causal = causal

    def forward(self, x):
        B, T, C = x.shape
        if self.causal:
            q, k, v = self.q(x).split(C, dim=2)
            k = k.view(B, T, self.h, C // self.h).transpose(1, 2)
            q = q.view(B, T, self.h, C // self.h).transpose(1, 2)
            v = v.view(B, T, self.h, C // self.h).transpose(1, 2)
        else:
            q, k, v = self.q(x).reshape(B, T, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            a = (q @ k.transpose(-2, -1)) * (C // self.h) ** -0.5
            if self.causal:
                a = a.masked_fill(torch.tril(torch.ones(T, T)).view(1, 1, T, T) == 0, float("-inf"))
            y = a.softmax(dim=-1) @ v
        return self.p(y.transpose(1, 2).contiguous().view(B, T, C))


class Blk(nn.Module):
    def __init__(self, d, h, sdpa=True, causal=False):
        super().__init__()
        self.n1 = nn.LayerNorm(d)
        self.a = Attn(d, h, sdpa, causal)
        self.n2 = nn.LayerNorm(d)
        self.m = MLPBlock(d, 2 * d)

    def forward(self, x):
        x = x + self.a(self.n1(x))
        return x + self.m(self.n2(x))


class ViT(nn.Module):
    def __init__(self, sdpa):
        super().__init__()
        self.p = nn.Conv2d(3, 16, 8, 8)
        self.pos = nn.Parameter(torch.randn(1, 16, 16) * 0.1)
        self.b = nn.Sequential(Blk(16, 4, sdpa), Blk(16, 4, sdpa))
        self.n = nn.LayerNorm(16)
        self.h = nn.Linear(16, 10)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2) + self.pos
        return self.h(self.n(self.b(x)).mean(1))


class GPT(nn.Module):
    def __init__(self, sdpa):
        super().__init__()
        self.e = nn.Linear(8, 16)
        self.b = Blk(16, 4, sdpa, True)
        self.n = nn.LayerNorm(16)
        self.h = nn.Linear(16, 10, bias=False)

    def forward(self, x):
        return self.h(self.n(self.b(self.e(x))).mean(1))


class VGG(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(True),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(True),
            nn.MaxPool2d(2, 2),
        )
        self.a = nn.AdaptiveAvgPool2d((4, 4))
        self.c = nn.Sequential(nn.Linear(256, 32), nn.ReLU(True), nn.Dropout(), nn.Linear(32, 10))

    def forward(self, x):
        return self.c(torch.flatten(self.a(self.f(x)), 1))


class Incep(nn.Module):
    def __init__(self):
        super().__init__()
        self.s = nn.Conv2d(3, 8, 3, padding=1)
        self.a = nn.Conv2d(8, 4, 1)
        self.b = nn.Sequential(
            nn.Conv2d(8, 4, 1), nn.Conv2d(4, 4, (1, 7), padding=(0, 3)), nn.Conv2d(4, 4, (7, 1), padding=(3, 0))
        )
        self.p = nn.Conv2d(8, 4, 1)
        self.fc = nn.Linear(12, 10)

    def forward(self, x):
        x = F.relu(self.s(x))
        x = torch.cat([self.a(x), self.b(x), self.p(F.avg_pool2d(x, 3, 1, 1))], 1)
        return self.fc(F.adaptive_avg_pool2d(F.relu(x), 1).reshape(x.shape[0], -1))


class Recurrent(nn.Module):
    """A sequence of features, or tokens, to classes."""

    def __init__(self, part, ends, tokens=0):
        super().__init__()
        self.e = nn.Embedding(tokens, 8) if tokens else nn.Identity()
        self.p, self.h, self.ends = part, nn.Linear(part.hidden_size, 10), ends

    def forward(self, x):
        x = self.e(x)
        return self.h(self.ends(*self.p(x if self.p.batch_first else x.transpose(0, 1))))


nets = {
    "lstm": (Recurrent(nn.LSTM(8, 12, 2, batch_first=True), lambda y, h: y[:, -1]), (9, 8)),
    "gru": (Recurrent(nn.GRU(8, 12, 3, batch_first=True), lambda y, h: y.mean(1)), (9, 8)),
    "lstm-state": (Recurrent(nn.LSTM(8, 12, bias=False, batch_first=True), lambda y, h: h[0][-1]), (9, 8)),
    "gru-batch-last": (Recurrent(nn.GRU(8, 12, 2), lambda y, h: h[-1]), (9, 8)),
    "lstm-tokens": (Recurrent(nn.LSTM(8, 12, 2, batch_first=True), lambda y, h: y.mean(1), 7), (9,)),
    "mlp": (
        nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 10)),
        (1, 28, 28),
    ),
    "lenet": (LeNet(), (1, 28, 28)),
    "vgg": (VGG(), (3, 32, 32)),
    "resnet18": (ResNet(), (3, 64, 64)),
    "resnet50": (ResNet50(), (3, 32, 32)),
    "preact": (PreActNet(), (3, 32, 32)),
    "mobilenet1": (MBv1(), (3, 32, 32)),
    "mobilenet2": (MB(nn.ReLU6, False), (3, 32, 32)),
    "mobilenet3": (MB(nn.Hardswish, True), (3, 32, 32)),
    "efficientnet": (MB(nn.SiLU, True, nn.Sigmoid), (3, 32, 32)),
    "senet": (SENet(), (3, 32, 32)),
    "squeezenet": (Squeeze(), (3, 64, 64)),
    "densenet": (Dense(), (3, 32, 32)),
    "shufflenet": (Shuffle(), (3, 32, 32)),
    "convnext": (ConvNeXt(), (3, 32, 32)),
    "repvgg": (RepVGG(), (3, 32, 32)),
    "unet-t": (UNet("t"), (1, 32, 32)),
    "unet-up": (UNet("bilinear"), (1, 32, 32)),
    "unet-pad": (UNetPad("t"), (1, 32, 32)),
    "m5": (M5(), (1, 4000)),
    "tcn": (TCN(), (2, 64)),
    "autoencoder": (AE(), (1, 28, 28)),
    "mixer": (Mixer(), (3, 32, 32)),
    "vit": (ViT(False), (3, 32, 32)),
    "vit-sdpa": (ViT(True), (3, 32, 32)),
    "gpt": (GPT(False), (12, 8)),
    "inception": (Incep(), (3, 32, 32)),
    "multispectral": (
        nn.Sequential(
            cbr(13, 8),
            nn.GroupNorm(2, 8),
            nn.InstanceNorm2d(8),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 10),
        ),
        (13, 32, 32),
    ),
}
for n, (m, _) in nets.items():
    for p in m.modules():
        if isinstance(p, (nn.BatchNorm1d, nn.BatchNorm2d)):
            p.running_mean.uniform_(-0.2, 0.2)
            p.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(p.weight, 0.5, 1.5)
            nn.init.uniform_(p.bias, -0.3, 0.3)
        elif isinstance(p, nn.LayerNorm):
            nn.init.uniform_(p.weight, 0.5, 1.5)
            nn.init.uniform_(p.bias, -0.3, 0.3)
    m.eval()

MOST = 5e-6  # apart
WAYS = {
    "op11": {"opset_version": 11, "dynamo": False},
    "op13": {"opset_version": 13, "dynamo": False},
    "op17": {"opset_version": 17, "dynamo": False},
    "dynamo": {"dynamo": True, "external_data": False, "verbose": False},
    "any batch": {"opset_version": 17, "dynamo": False, "dynamic_axes": {"x": {0: "n"}}},
    "not folded": {"opset_version": 17, "dynamo": False, "do_constant_folding": False},
}


def scores(program, path, x, folder):
    """The scores that heddle gives samples, or the line that it refuses the file with."""
    samples = os.path.join(folder, "samples")
    x.tofile(samples)
    run = subprocess.run([program, path, samples, str(len(x))], capture_output=True)
    return run.stderr.decode().strip() if run.returncode else np.frombuffer(run.stdout, np.float32)


@contextlib.contextmanager
def silence():
    """Also of what PyTorch's library prints."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def exported(module, x, path, settings):
    try:
        with silence(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            torch.onnx.export(
                module, (x[:2],), path, input_names=["x"], output_names=["y"], **settings
            )
    except Exception:  # of many kinds
        return False
    return True


def apart(program, path, x, y, folder, logs):
    """How far the scores of a file are from y, by the largest; or the line that it is refused with. `logs`: y are
    logarithms of probabilities, whose last layer is part of heddle's loss."""
    found = scores(program, path, x, folder)
    if isinstance(found, str):
        return found.replace(path + ": ", "").replace("heddle: ", "")
    found = found.astype(float).reshape(y.shape)
    if logs:
        found = found - np.log(np.exp(found).sum(1, keepdims=True))
    return abs(found - y).max() / max(1, abs(y).max())


def cells(program, folder, name):
    """Of each way that PyTorch exports a network in what `apart` says."""
    (module, shape), found = nets[name], {}
    x = np.random.default_rng(1).normal(size=(4, *shape)).astype(np.float32)
    tokens = getattr(getattr(module, "e", None), "num_embeddings", 0)
    if tokens:
        x = np.random.default_rng(1).integers(0, tokens, (4, *shape)).astype(np.float32)
    samples = torch.from_numpy(x).long() if tokens else torch.from_numpy(x)
    with torch.no_grad():
        y = module(samples).numpy().astype(float)
    for way, settings in WAYS.items():
        path = os.path.join(folder, "net.onnx")
        if exported(module, samples, path, settings):
            found[way] = apart(program, path, x, y, folder, name == "lenet")
    return found


def kind(cell):
    return "refused" if isinstance(cell, str) else "equal" if cell < MOST else "wrong"


def row(name, found):
    def text(way):
        if way not in found:
            return "not exported"
        return "refused" if isinstance(found[way], str) else f"{found[way]:.0e}"

    return " | ".join(["", name, *map(text, WAYS), ""]).strip()


def main(program, *words):
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    markdown, names = "--markdown" in words, [word for word in words if word != "--markdown"]
    tally, notes = {"equal": 0, "refused": 0, "wrong": 0}, []
    if markdown:
        print("| network | " + " | ".join(WAYS) + " |\n|" + "---|" * (1 + len(WAYS)))
    with tempfile.TemporaryDirectory() as folder:
        for name in nets:
            found = cells(program, folder, name) if not names or name in names else {}
            if markdown and found:
                print(row(name, found))
            for way, cell in found.items():
                tally[kind(cell)] += 1
                if kind(cell) != "equal":
                    notes.append(f"{name}, {way}: {cell}" + ("" if isinstance(cell, str) else " apart"))
    print("\n".join(["", *(f"- {note}" for note in notes)] if markdown else notes))
    counts = ", ".join(f"{count} {what}" for what, count in tally.items())
    print(f"\nPyTorch {torch.__version__.split('+')[0]}: {counts}." if markdown else counts)
    return 1 if tally["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
