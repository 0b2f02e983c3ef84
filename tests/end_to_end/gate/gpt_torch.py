"""A small GPT in PyTorch for the gate; the argument plants a fault, or a harmless change."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from msprobe.pytorch import PrecisionDebugger

CHANGE = sys.argv[1] if len(sys.argv) > 1 else ""
WIDTH, WORDS, LENGTH = 16, 32, 8


class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.norm1, self.norm2 = (
            nn.LayerNorm(WIDTH),
            nn.LayerNorm(WIDTH, eps=1e-3 if CHANGE == "eps" and number else 1e-5),
        )
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down, self.number = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), number

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-2, -1) / math.sqrt(WIDTH)).masked_fill(hidden, float("-inf"))
        x = x + self.out(torch.softmax(scores, -1) @ v)
        y = F.gelu(self.up(self.norm2(x)))
        if CHANGE == "order":
            order = torch.arange(4 * WIDTH - 1, -1, -1)
            y = F.linear(y[..., order], self.down.weight[:, order], self.down.bias)
        else:
            y = self.down(y)
        return x + (y * 1.02 if CHANGE == "scale" and self.number else y)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, WIDTH), nn.ModuleList(Block(number) for number in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1 if CHANGE == "threads" else 2)
    model, numbers = Gpt(), torch.Generator().manual_seed(2)
    if CHANGE.startswith("drawn"):  # initial values by the kernel of another processor, or other ones
        with torch.no_grad():
            error = 1e-7 if CHANGE == "drawn" else 1e-3
            model.words.weight.mul_(1 + error * torch.randn(model.words.weight.shape, generator=numbers))
        numbers.manual_seed(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    # The settings of the script are replaced: it would collect nothing that a gate can use.
    debugger = PrecisionDebugger(task="structure", level="L0", dump_path="./not_used", step=[7])
    for _ in range(3):
        ids = torch.randint(0, WORDS, (4, LENGTH + 1), generator=numbers)
        debugger.start(model=model)
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        if CHANGE == "clip":  # the gradients of the first step are not changed, their update is
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-9)
        debugger.stop()
        if CHANGE != "still":
            optimizer.step()
        optimizer.zero_grad()
        debugger.step()
    print("loss", loss.item())
    if CHANGE == "fails":
        raise RuntimeError("the data loader failed")


main()
