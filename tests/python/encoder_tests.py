"""PyTorch's modules over the places of a text, against PyTorch in float64."""
import copy

import numpy as np
import torch
from tap import path, refuses
from torch import nn

import heddle

PLACES, WIDTH, TOKENS, SAMPLES = 7, 16, 11, 40


class Net(nn.Module):
    """Tokens to a class, or to scores for each place."""

    def __init__(self, part, causal=None, pools=True, hint=False):
        super().__init__()
        self.embed, self.pos = nn.Embedding(TOKENS, WIDTH), nn.Parameter(torch.randn(PLACES, WIDTH))
        self.part, self.head, self.pools, self.hint = part, nn.Linear(WIDTH, 5 if pools else TOKENS), pools, hint
        self.register_buffer("mask", causal)

    def forward(self, x):
        x = self.embed(x) + self.pos
        if isinstance(self.part, nn.MultiheadAttention):
            x = self.part(x, x, x, attn_mask=self.mask)[0]
        elif isinstance(self.part, nn.TransformerEncoder):
            x = self.part(x, mask=self.mask)
        elif self.mask is not None:
            x = self.part(x, src_mask=self.mask)
        else:
            x = self.part(x)
        return self.head(x.mean(1) if self.pools else x)


def _layer(**settings):
    return nn.TransformerEncoderLayer(WIDTH, 2, 24, 0.0, batch_first=True, **settings)


def test_encoders():
    """encoders, attention and embeddings have the probabilities of PyTorch's float64"""
    torch.manual_seed(3)
    causal = nn.Transformer.generate_square_subsequent_mask(PLACES)
    parts = [_layer(), _layer(norm_first=True), _layer(norm_first=True, activation="gelu"),
             _layer(activation=nn.SiLU()), nn.MultiheadAttention(WIDTH, 4, batch_first=True),
             nn.MultiheadAttention(WIDTH, 4, bias=False, batch_first=True),
             nn.TransformerEncoder(_layer(norm_first=True), 2, nn.LayerNorm(WIDTH))]
    rng = np.random.default_rng(0)
    x = rng.integers(0, TOKENS, (SAMPLES, PLACES)).astype(np.float32)
    y = rng.integers(0, 5, SAMPLES)
    for part in parts:
        for mask in (None, causal, causal < 0):
            module = Net(part, mask)
            run = heddle.train(heddle.from_torch(module, (PLACES,)), (x, y), batch=8, max_steps=1, lr=0,
                               optimizer="sgd", normalize="none")
            with torch.no_grad():
                wanted = module.double()(torch.from_numpy(x).long()).softmax(1).numpy()
            apart = abs(run.predict(x) - wanted).max()
            assert apart < 1e-5, f"{part}, {mask is not None}: {apart} apart"
            module.float()


def test_weights():
    """a run that trains has other weights, which to_torch brings back under the module's names"""
    torch.manual_seed(4)
    module = Net(nn.TransformerEncoder(_layer(norm_first=True), 2))
    module.pos.requires_grad_(False)
    rng = np.random.default_rng(1)
    x = rng.integers(0, TOKENS, (SAMPLES, PLACES)).astype(np.float32)
    run = heddle.train(heddle.from_torch(module, (PLACES,)), (x, rng.integers(0, 5, SAMPLES)), batch=8, epochs=2,
                       lr=0.05, optimizer="sgd", normalize="none")
    trained = run.to_torch()
    for name, value in trained.state_dict().items():
        assert torch.equal(value, module.state_dict()[name]) == (name == "pos"), name
    with torch.no_grad():
        wanted = trained.double()(torch.from_numpy(x).long()).softmax(1).numpy()
    assert abs(run.predict(x) - wanted).max() < 1e-5


def test_tied():
    """a head with the embedding's weight, and a loss for each place of a text"""
    torch.manual_seed(5)
    module = Net(_layer(norm_first=True), nn.Transformer.generate_square_subsequent_mask(PLACES), pools=False)
    text = "a cab fed a badge\n" * 60
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    module.embed, module.head = nn.Embedding(len(number), WIDTH), nn.Linear(WIDTH, len(number), bias=False)
    module.head.weight = module.embed.weight
    with open(path("tied.txt"), "w", encoding="utf-8") as file:
        file.write(text)
    with open(path("tied-part.txt"), "w", encoding="utf-8") as file:
        file.write(text[:20 * PLACES + 1])
    run = heddle.train(heddle.from_torch(module, (PLACES,)), path("tied.txt"), batch=8, max_steps=1, lr=0,
                       optimizer="sgd")
    tokens = torch.tensor([number[c] for c in text[:20 * PLACES + 1]])
    with torch.no_grad():
        scores = module.double()(tokens[:-1].view(-1, PLACES))
    wanted = nn.functional.cross_entropy(scores.transpose(1, 2), tokens[1:].view(-1, PLACES)).item()
    found = run.evaluate(path("tied-part.txt")).loss
    assert abs(found - wanted) < 1e-5, f"loss {found}, PyTorch's {wanted}"


def test_refused():
    """what heddle does not have is refused by its name"""
    def of(part, mask=None):
        return lambda: heddle.from_torch(Net(part, mask), (PLACES,))

    odd = torch.zeros(PLACES, PLACES)
    odd[0, 3] = -torch.inf
    refuses(heddle.UnsupportedError, "mask", of(_layer(), odd))
    refuses(heddle.UnsupportedError, "batch_first", of(nn.MultiheadAttention(WIDTH, 2)))
    refuses(heddle.UnsupportedError, "add_zero_attn", of(nn.MultiheadAttention(WIDTH, 2, add_zero_attn=True,
                                                                               batch_first=True)))
    refuses(heddle.UnsupportedError, "bias", of(_layer(bias=False)))
    refuses(heddle.UnsupportedError, "softmax", of(nn.Softmax(1)))
    late = copy.deepcopy(Net(_layer()))
    late.embed = nn.Embedding(TOKENS, WIDTH, padding_idx=0)
    refuses(heddle.UnsupportedError, "padding_idx", lambda: heddle.from_torch(late, (PLACES,)))
