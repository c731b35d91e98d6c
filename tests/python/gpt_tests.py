"""Weights of GPTs as nanoGPT and Hugging Face's GPT-2 name them, against PyTorch in float64."""
import json
import math
from collections import OrderedDict

import numpy as np
import torch
import torch.nn.functional as F
from tap import path, refuses
from torch import nn

import heddle
from heddle.run import write_weights

PLACES, WIDTH, HEADS, BLOCKS, TEXT = 16, 24, 3, 2, "it is a truth universally acknowledged, that\n" * 40


class Conv1D(nn.Module):
    """Hugging Face's: a linear layer whose weight is inputs x outputs."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) * 0.2), nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Block(nn.Module):
    def __init__(self, linear, norm, approximate):
        super().__init__()
        self.ln_1, self.ln_2, self.approximate = norm(), norm(), approximate
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.c_attn, self.attn.c_proj = linear(3 * WIDTH, WIDTH), linear(WIDTH, WIDTH)
        self.mlp.c_fc, self.mlp.c_proj = linear(4 * WIDTH, WIDTH), linear(WIDTH, 4 * WIDTH)

    def forward(self, x):
        heads = [each.view(*x.shape[:2], HEADS, -1).transpose(1, 2)
                 for each in self.attn.c_attn(self.ln_1(x)).split(WIDTH, 2)]
        scores = heads[0] @ heads[1].transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -math.inf)
        x = x + self.attn.c_proj((scores.softmax(3) @ heads[2]).transpose(1, 2).reshape(x.shape))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate=self.approximate))


class GPT(nn.Module):
    def __init__(self, tokens, linear, norm, approximate="none"):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(tokens, WIDTH), "wpe": nn.Embedding(PLACES, WIDTH),
            "h": nn.ModuleList([Block(linear, norm, approximate) for _ in range(BLOCKS)]), "ln_f": norm()})
        self.lm_head = nn.Linear(WIDTH, tokens, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, x):
        t = self.transformer
        x = t["wte"](x) + t["wpe"].weight
        for block in t["h"]:
            x = block(x)
        return self.lm_head(t["ln_f"](x))


def _norm():
    norm = nn.LayerNorm(WIDTH)
    nn.init.normal_(norm.weight, 1, 0.3)
    nn.init.normal_(norm.bias, 0, 0.3)
    return norm


def _model(bias, approximate="none"):
    linear = f"op: linear, bias: {str(bias).lower()}"
    return f"""model: gpt
input: [{PLACES}]
layers:
  - wte: {{op: embedding, tokens: classes, out: {WIDTH}}}
  - wpe: {{op: position}}
  - h:
      repeat: {BLOCKS}
      layers:
        - ln_1: {{op: layer_norm2d}}
        - attn_c_attn: {{{linear}, out: {3 * WIDTH}}}
        - attn: {{op: attention, heads: {HEADS}}}
        - attn_c_proj: {{{linear}, out: {WIDTH}}}
        - sum_1: {{op: add, from: [attn_c_proj, above]}}
        - ln_2: {{op: layer_norm2d}}
        - mlp_c_fc: {{{linear}, out: {4 * WIDTH}}}
        - mlp_gelu: {{op: gelu, approximate: {approximate}}}
        - mlp_c_proj: {{{linear}, out: {WIDTH}}}
        - sum_2: {{op: add, from: [mlp_c_proj, sum_1]}}
  - ln_f: {{op: layer_norm2d}}
  - lm_head: {{op: linear, out: classes, bias: false, share: wte}}
"""


def _data():
    with open(path("gpt.txt"), "w", encoding="utf-8") as file:
        file.write(TEXT)
    number = {c: i for i, c in enumerate(sorted(set(TEXT)))}
    return path("gpt.txt"), np.array([number[c] for c in TEXT]), len(number)


def _state(module):
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}


def _add_masks(kind):
    """Masks of attention of a byte for each number, as some files keep them, behind the tensors of a file"""
    with open(path("gpt.safetensors"), "rb") as file:
        header, data = json.loads(file.read(int.from_bytes(file.read(8), "little"))), file.read()
    mask = np.tril(np.ones((1, 1, PLACES, PLACES), np.uint8)).tobytes()
    for block in range(BLOCKS):
        header[f"h.{block}.attn.bias"] = {"dtype": kind, "shape": [1, 1, PLACES, PLACES],
                                          "data_offsets": [len(data), len(data) + len(mask)]}
        data += mask
    text = json.dumps(header).encode()
    with open(path("gpt.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def _start(weights, model, data, masks=None, **more):
    """A run whose weights are a file's."""
    write_weights(path("gpt.safetensors"), weights)
    if masks:
        _add_masks(masks)
    return heddle.train(model, data, init=path("gpt.safetensors"), batch=4, max_steps=1, lr=0, optimizer="sgd",
                        **more)


def _loss(module, tokens):
    """The mean loss of windows that follow each other, and of the token behind them."""
    x = torch.from_numpy(tokens)
    with torch.no_grad():
        scores = module.double()(x[:-1].view(-1, PLACES))
    return F.cross_entropy(scores.transpose(1, 2), x[1:].view(-1, PLACES)).item()


def _check(module, weights, model, masks=None):
    data, tokens, _ = _data()
    run = _start(weights, model, data, masks)
    end = len(tokens) // 10 // PLACES * PLACES + 1  # whole windows, and the token behind them
    part = tokens[len(tokens) - len(tokens) // 10:][:end]
    with open(path("part.txt"), "w", encoding="utf-8") as file:
        file.write(TEXT[len(tokens) - len(tokens) // 10:][:end])
    found, wanted = run.evaluate(path("part.txt")).loss, _loss(module, part)
    assert abs(found - wanted) < 1e-5 * max(1, wanted), f"loss {found}, PyTorch's {wanted}"


def test_layers_called_embedding():
    """a module of numbers reads them as they are, also where a layer is called embedding"""
    layers = OrderedDict(embedding=nn.Linear(4, 8), act=nn.ReLU(), out=nn.Linear(8, 3))
    assert heddle.from_torch(nn.Sequential(layers), (4,)).options()["transforms"] == "[to_float]"


def test_nanogpt():
    """nanoGPT's names, with its prefixes, its norms without bias, its tied head under both names"""
    torch.manual_seed(1)
    data, _, tokens = _data()
    module = GPT(tokens, lambda outputs, inputs: nn.Linear(inputs, outputs, bias=False), _norm)
    for name, parameter in module.named_parameters():
        if ".ln_" in name and name.endswith("bias"):
            nn.init.zeros_(parameter)
    state = {name: value for name, value in _state(module).items() if ".ln_" not in name or "bias" not in name}
    _check(module, state, _model(False))
    _check(module.float(), {"_orig_mod." + name: value for name, value in state.items()}, _model(False))
    state["lm_head.weight"] = state["lm_head.weight"] + 1
    refuses(heddle.FormatError, "lm_head.weight", lambda: _start(state, _model(False), data))


def test_hugging_face():
    """Hugging Face's GPT-2: weights as inputs x outputs, the square ones too; masks are left out"""
    torch.manual_seed(2)
    data, _, tokens = _data()
    module = GPT(tokens, Conv1D, _norm, "tanh")
    state = {name.replace("transformer.", ""): value for name, value in _state(module).items()
             if name != "lm_head.weight"}
    _check(module, state, _model(True, "tanh"), "BOOL")
    _check(module, state, _model(True, "tanh"), "U8")
    for block in range(BLOCKS):
        state[f"h.{block}.attn.bias"] = np.tril(np.ones((1, 1, PLACES, PLACES), np.float32))
    _check(module, state, _model(True, "tanh"))
    turned = {**state, "h.1.mlp.c_fc.weight": state["h.1.mlp.c_fc.weight"].T.copy()}
    refuses(heddle.FormatError, "unlike", lambda: _start(turned, _model(True), data))
    other = {**state, "h.1.mlp.c_fc.weight": state["h.1.mlp.c_fc.weight"][:, 1:].copy()}
    refuses(heddle.FormatError, "h2.mlp_c_fc.weight", lambda: _start(other, _model(True), data))
    square = {name: value for name, value in state.items() if "c_fc" not in name and "mlp.c_proj" not in name}
    square = {name: value[:, :WIDTH].copy() if "c_attn.weight" in name else value for name, value in square.items()}
    refuses(heddle.FormatError, "not square", lambda: _start(square, _model(True), data))
