"""The networks of texts of peer_work.TEXTS in PyTorch, as its users write them."""
import torch
from torch import nn

from peer_work import CHARACTERS, TEXTS


class Attention(nn.Module):
    def __init__(self, channels, heads, dropout):
        super().__init__()
        self.joint, self.out = nn.Linear(channels, 3 * channels, bias=False), nn.Linear(channels, channels, bias=False)
        self.heads, self.dropout = heads, dropout

    def forward(self, x):
        n, places, channels = x.shape
        q, k, v = (part.view(n, places, self.heads, -1).transpose(1, 2) for part in self.joint(x).chunk(3, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, places, channels))


class Block(nn.Module):
    def __init__(self, channels, heads, dropout):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(channels), nn.LayerNorm(channels)])
        self.attention, self.drop = Attention(channels, heads, dropout), nn.Dropout(dropout)
        self.hidden = nn.Sequential(nn.Linear(channels, 4 * channels, bias=False), nn.GELU(),
                                    nn.Linear(4 * channels, channels, bias=False), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.drop(self.attention(self.norms[0](x)))
        return x + self.hidden(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, window, channels, heads, blocks, dropout=0.0):
        super().__init__()
        self.tokens, self.places = nn.Embedding(CHARACTERS, channels), nn.Embedding(window, channels)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(channels, heads, dropout) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(channels), nn.Linear(channels, CHARACTERS, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        x = self.drop(self.tokens(x) + self.places(torch.arange(x.shape[1])))
        return self.head(self.norm(self.blocks(x)))


class LSTM(nn.Module):
    def __init__(self, channels, layers):
        super().__init__()
        self.tokens = nn.Embedding(CHARACTERS, channels)
        self.states, self.head = nn.LSTM(channels, channels, layers, batch_first=True), nn.Linear(channels, CHARACTERS)

    def forward(self, x):
        return self.head(self.states(self.tokens(x))[0])


def draw(module):
    """The first weights of nanoGPT."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)


def network(model):
    settings = {key: value for key, value in TEXTS[model].items() if key != "batch"}
    return GPT(**settings).apply(draw) if "heads" in settings else LSTM(settings["channels"], settings["layers"])


def windows(model, count):
    """Random characters, and those that follow."""
    text = torch.randint(CHARACTERS, (count, TEXTS[model]["window"] + 1))
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()
