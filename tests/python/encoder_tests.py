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


class Twice(nn.Module):
    """Two attentions, and positions, a weight or an embedding's, that are added again at the end."""

    def __init__(self, where=None, again=True):
        super().__init__()
        self.embed, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, 5)
        self.a, self.b = (nn.MultiheadAttention(WIDTH, 2, batch_first=True) for _ in range(2))
        self.where, self.again = where, again
        if where is None:
            self.pos = nn.Parameter(torch.randn(PLACES, WIDTH))

    def forward(self, x):
        def with_places(x):
            return x + (self.pos if self.where is None else self.where(torch.arange(PLACES)))

        x = with_places(self.embed(x))
        x = x + self.a(x, x, x)[0]
        x = x + self.b(x, x, x)[0]
        return self.head((with_places(x) if self.again else x).mean(1))


def test_tied_weights():
    """a weight of two layers is refused where it is trained, since both would train it apart; frozen it is taken"""
    torch.manual_seed(6)
    tied = Twice(again=False)
    tied.b.in_proj_weight = tied.a.in_proj_weight
    of = "a parameter of two layers, "
    for says, module in ((of + "add and add_3", Twice()), (of + "a_in_proj and b_in_proj", tied),
                         (of, Twice(nn.Embedding(PLACES, WIDTH)))):
        refuses(heddle.UnsupportedError, says, lambda: heddle.from_torch(module, (PLACES,)))
    more = Twice(nn.Embedding(PLACES, WIDTH), again=False)
    more.where.register_buffer("mask", torch.ones(1))
    refuses(heddle.UnsupportedError, "where.mask: ", lambda: heddle.from_torch(more, (PLACES,)))
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, TOKENS, (SAMPLES, PLACES)).astype(np.float32), rng.integers(0, 5, SAMPLES)
    frozen = Twice()
    frozen.b.in_proj_weight = frozen.a.in_proj_weight
    frozen.a.in_proj_weight.requires_grad_(False)
    frozen.pos.requires_grad_(False)
    run = heddle.train(heddle.from_torch(frozen, (PLACES,)), (x, y, x, y), batch=SAMPLES, epochs=3, lr=0.1,
                       optimizer="sgd", momentum=0, no_shuffle=True, normalize="none")
    optimizer, losses = torch.optim.SGD([p for p in frozen.parameters() if p.requires_grad], lr=0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(frozen(torch.from_numpy(x).long()), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert abs(run.losses - losses).max() < 1e-5, (run.losses, losses)
    trained = run.to_torch()
    assert torch.equal(trained.pos, frozen.pos) and trained.b.in_proj_weight is trained.a.in_proj_weight
    assert abs(trained.b.in_proj_bias - frozen.b.in_proj_bias).max() < 1e-5
    with torch.no_grad():
        apart = abs(trained(torch.from_numpy(x).long()).softmax(1).numpy() - run.predict(x)).max()
    assert apart < 1e-5, apart
