"""Seven small networks in PyTorch: `NETS[name]()` is (network, batch(generator), loss(network, batch))."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Causal attention written out; `fault` changes its mask."""

    def __init__(self, width, heads, fault=""):
        super().__init__()
        self.qkv, self.out, self.heads, self.fault = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, fault

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(w // self.heads)
        ones = torch.ones(t, t, dtype=torch.bool)
        mask = torch.triu(ones, 1)
        if self.fault == "mask side":
            mask = torch.tril(ones, -1)
        elif self.fault == "mask off by one":
            mask = torch.triu(ones, 0)
        weights = torch.softmax(scores.masked_fill(mask, -1e9), -1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(b, t, w))


class RMSNorm(nn.Module):
    """Written out, as language models have it."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self, width, norm, fault="", dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = norm(width), norm(width)
        self.attention = Attention(width, 2, fault)
        self.up, self.down, self.dropout = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Language(nn.Module):
    """A language model; `fault` as its attention's, or of its own."""

    def __init__(self, norm=nn.LayerNorm, fault="", dropout=0.0):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList([Block(8, norm, fault, dropout) for _ in range(2)])
        self.norm, self.head, self.fault = norm(8), nn.Linear(8, 11), fault

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for n, block in enumerate(self.blocks):
            x = block(x.detach() if self.fault == "detached" and n == 1 else x)
        return self.head(self.norm(x))


class Residual(nn.Module):
    """Convolutions with a normalisation."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm1, self.norm2, self.head = norm(8), norm(8), nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm1(self.first(x)))
        x = F.relu(x + self.norm2(self.second(x)))
        return self.head(x.mean((2, 3)))


class Recurrent(nn.Module):
    """An LSTM over tokens."""

    def __init__(self):
        super().__init__()
        self.tokens, self.lstm, self.head = nn.Embedding(11, 8), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 11)

    def forward(self, tokens):
        return self.head(self.lstm(self.tokens(tokens))[0])


class Perceptron(nn.Module):
    """Three layers; with a buffer that is added to the first, for one of the faults."""

    def __init__(self, fault=""):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 5)
        self.fault = fault

    def forward(self, x):
        x = torch.tanh(self.first(x))
        if self.fault == "uninitialised buffer":
            x = x + torch.empty_like(x)
        return self.last(torch.relu(self.second(x)))


class Encoder(nn.Module):
    """Attention of the library, with its own mask."""

    def __init__(self):
        super().__init__()
        self.inside, self.norm, self.head = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x):
        h = self.inside(x)
        return self.head(self.norm(h + F.scaled_dot_product_attention(h, h, h, is_causal=True)).mean(1))


def _tokens(generator):
    found = torch.randint(0, 11, (3, 7), generator=generator)
    return found[:, :-1], found[:, 1:]


def _images(generator):
    return torch.randn(4, 3, 6, 6, generator=generator), torch.randint(0, 5, (4,), generator=generator)


def _rows(generator):
    return torch.randn(6, 6, generator=generator), torch.randint(0, 5, (6,), generator=generator)


def _sequences(generator):
    return torch.randn(4, 5, 6, generator=generator), torch.randint(0, 5, (4,), generator=generator)


NETS = {
    "perceptron": (Perceptron, _rows),
    "gpt": (lambda fault="": Language(nn.LayerNorm, fault), _tokens),
    "llama": (lambda fault="": Language(RMSNorm, fault, 0.1), _tokens),
    "resnet": (lambda fault="": Residual(nn.BatchNorm2d), _images),
    "groupnet": (lambda fault="": Residual(lambda width: nn.GroupNorm(2, width)), _images),
    "lstm": (lambda fault="": Recurrent(), _tokens),
    "encoder": (lambda fault="": Encoder(), _sequences),
}


def loss(net, batch):
    found = net(batch[0])
    return F.cross_entropy(found.flatten(0, -2), batch[1].flatten())
