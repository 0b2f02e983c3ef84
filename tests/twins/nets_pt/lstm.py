"""A language model of a two-layer LSTM, as its authors wrote it for PyTorch."""

import torch.nn.functional as F
from torch import nn

VOCAB, EMBED, HIDDEN, LAYERS = 43, 20, 28, 2
MICRO_BATCHES = 2


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(VOCAB, EMBED)
        self.rnn = nn.LSTM(EMBED, HIDDEN, num_layers=LAYERS, batch_first=True)
        self.norm = nn.LayerNorm(HIDDEN)
        self.decoder = nn.Linear(HIDDEN, VOCAB)

    def forward(self, tokens):
        emb = self.encoder(tokens)
        output, _ = self.rnn(emb)
        return self.decoder(self.norm(output))


def build():
    return LanguageModel()


def loss_of(model, tokens, targets):
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
    return loss / MICRO_BATCHES
