"""nn.LSTM and nn.GRU over texts and sequences, against PyTorch in float64."""
import numpy as np
import torch
from tap import refuses
from torch import nn

import heddle

PLACES, WIDTH, TOKENS, SAMPLES = 7, 12, 11, 40


class Net(nn.Module):
    """Tokens, or features, to a class, from what `ends` makes of the states."""

    def __init__(self, part, ends, tokens):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTH) if tokens else nn.Identity()
        self.part, self.head, self.ends = part, nn.Linear(part.hidden_size, 5), ends

    def forward(self, x):
        y, h = self.part(self.embed(x))
        return self.head(self.ends(y, h))


def last(y, h):
    return y[:, -1]


def third(y, h):
    return y[:, 2, :]


def state(y, h):
    return h[-1]


def state_of_two(y, h):
    a, c = h
    return a[-1]


def mean(y, h):
    return y.mean(1)


def viewed(y, h):
    return y[:, -1].view(y.size(0), -1)


def turned(y, h):
    """Chunks of flat values, in another order."""
    a, b = torch.chunk(y[:, -1], 2, 1)
    return torch.cat((b, a), 1)


def _samples(tokens):
    rng = np.random.default_rng(0)
    x = rng.integers(0, TOKENS, (SAMPLES, PLACES)) if tokens else rng.normal(size=(SAMPLES, PLACES, WIDTH))
    return x.astype(np.float32), rng.integers(0, 5, SAMPLES)


def _scores(module, x, tokens):
    x = torch.from_numpy(x)
    with torch.no_grad():
        return module.double()(x.long() if tokens else x.double()).softmax(1).numpy()


def test_recurrent():
    """recurrent layers of texts and sequences have the probabilities of PyTorch's float64"""
    torch.manual_seed(3)
    parts = [(nn.LSTM(WIDTH, 9, batch_first=True), last), (nn.LSTM(WIDTH, 9, 2, batch_first=True), state_of_two),
             (nn.GRU(WIDTH, 17, 3, batch_first=True), state), (nn.GRU(WIDTH, 8, bias=False, batch_first=True), mean),
             (nn.LSTM(WIDTH, 16, 2, bias=False, batch_first=True), third)]
    _compare(parts)


def test_flat_states():
    """what calls make of flat values, the states at a place, has the probabilities of PyTorch's float64"""
    torch.manual_seed(7)
    _compare([(nn.GRU(WIDTH, 8, batch_first=True), viewed), (nn.LSTM(WIDTH, 8, batch_first=True), turned)])


def _compare(parts):
    for tokens in (True, False):
        x, y = _samples(tokens)
        for part, ends in parts:
            module = Net(part, ends, tokens)
            given = {"normalize": "none"} if tokens else {}
            run = heddle.train(heddle.from_torch(module, x.shape[1:]), (x, y), batch=8, max_steps=1, lr=0,
                               optimizer="sgd", **given)
            wanted = _scores(module, x, tokens)
            apart = abs(run.predict(x) - wanted).max()
            assert apart < 1e-5 and np.ptp(wanted) > 0.05, f"{part}, {ends.__name__}, {tokens}: {apart} apart"
            module.float()


def test_trained():
    """trained on, losses are PyTorch's, and to_torch brings the weights back under the module's names"""
    torch.manual_seed(4)
    for kind in (nn.LSTM, nn.GRU):
        module = Net(kind(WIDTH, 9, 2, batch_first=True), last, False)
        x, y = _samples(False)
        run = heddle.train(heddle.from_torch(module, (PLACES, WIDTH)), (x, y, x[:8], y[:8]), batch=SAMPLES,
                           epochs=30, lr=0.5, optimizer="sgd", momentum=0.9, no_shuffle=True)
        module.double()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)
        losses = []
        for _ in range(30):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(torch.from_numpy(x).double()), torch.from_numpy(y))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] - losses[-1] > 0.1, losses
        apart = abs(run.losses - losses).max()
        assert apart < 1e-4, f"losses {apart} apart"
        for name, value in run.to_torch().state_dict().items():
            apart = abs(value - module.state_dict()[name]).max()
            assert apart < 1e-4, f"{name}: {apart} apart"


def test_dropout():
    """dropout between layers is a layer between two"""
    torch.manual_seed(5)
    module = Net(nn.LSTM(WIDTH, 9, 2, dropout=0.5, batch_first=True), last, True)
    x, y = _samples(True)
    model = heddle.from_torch(module, (PLACES,))
    assert '"p": 0.5' in model.text or "p: 0.5" in model.text, model.text
    run = heddle.train(model, (x, y), batch=8, max_steps=2, lr=0.1, optimizer="sgd", normalize="none")
    trained = run.to_torch()
    for name, value in trained.state_dict().items():
        assert not torch.equal(value, module.state_dict()[name]), name
    assert abs(run.predict(x) - _scores(trained, x, True)).max() < 1e-5


def test_refused():
    """what heddle does not have is refused by its name"""
    def of(part, ends=last, shape=(PLACES, WIDTH)):
        return lambda: heddle.from_torch(Net(part, ends, False), shape)

    def cell(y, h):
        return h[1][-1]

    def first(y, h):
        return h[0]

    class Started(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.start = nn.GRU(WIDTH, 9, batch_first=True), nn.Parameter(torch.zeros(1, 2, 9))

        def forward(self, x):
            return self.part(x, self.start)[0][:, -1]

    refuses(heddle.UnsupportedError, "batch_first", of(nn.LSTM(WIDTH, 9)))
    refuses(heddle.UnsupportedError, "bidirectional", of(nn.GRU(WIDTH, 5, bidirectional=True, batch_first=True),
                                                         lambda y, h: y[:, -1, :5]))
    refuses(heddle.UnsupportedError, "proj_size", of(nn.LSTM(WIDTH, 9, proj_size=4, batch_first=True),
                                                     lambda y, h: nn.functional.pad(y[:, -1], (0, 5))))
    refuses(heddle.UnsupportedError, "the cell", of(nn.LSTM(WIDTH, 9, batch_first=True), cell))
    refuses(heddle.UnsupportedError, "state of layer 0", of(nn.GRU(WIDTH, 9, 2, batch_first=True), first))
    refuses(heddle.UnsupportedError, "nn.RNN", of(nn.RNN(WIDTH, 9, batch_first=True)))
    refuses(heddle.UnsupportedError, "hx", lambda: heddle.from_torch(Started(), (PLACES, WIDTH)))
    refuses(heddle.UnsupportedError, "eval()", of(nn.GRU(WIDTH, 9, 2, dropout=0.5, batch_first=True).eval()))
    chunks = [lambda y, h: torch.chunk(y, 2, 1)[0].mean(1), lambda y, h: torch.split(y, 3, 1)[1].mean(1)]
    for chunk in chunks:
        refuses(heddle.UnsupportedError, "several results over places", of(nn.GRU(WIDTH, 9, batch_first=True), chunk))
    normed = nn.Sequential()
    normed.part, normed.head = Net(nn.GRU(WIDTH, 9, batch_first=True), last, False), nn.LayerNorm(5)
    normed.head.bias = None
    refuses(heddle.UnsupportedError, "found bias=False", lambda: heddle.from_torch(normed, (PLACES, WIDTH)))
    refuses(heddle.ShapeError, "(T, F)", of(nn.LSTM(WIDTH, 9, batch_first=True), shape=(WIDTH,)))
