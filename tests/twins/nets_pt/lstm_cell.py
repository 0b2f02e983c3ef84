"""A language model by an LSTM written out in gates, as its authors wrote it for PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, EMBED, HIDDEN = 43, 20, 28


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.i2h = nn.Linear(EMBED, 4 * HIDDEN)
        self.h2h = nn.Linear(HIDDEN, 4 * HIDDEN)

    def forward(self, x, state):
        h, c = state
        gates = self.i2h(x) + self.h2h(h)
        i, f, g, o = gates.chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(VOCAB, EMBED)
        self.cell = Cell()
        self.decoder = nn.Linear(HIDDEN, VOCAB)

    def forward(self, tokens):
        emb = self.encoder(tokens)
        h = c = torch.zeros(tokens.size(0), HIDDEN)
        outputs = []
        for step in emb.unbind(1):
            h, c = self.cell(step, (h, c))
            outputs.append(h)
        return self.decoder(torch.stack(outputs, dim=1))


def build():
    return LanguageModel()


def loss_of(model, tokens, targets):
    logits = model(tokens)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
