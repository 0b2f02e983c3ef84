"""Train a small convolutional network or an LSTM in PyTorch, with a harmless change or a fault on request.

    python train_others.py {conv,lstm,bfloat16} [--change NAME]

`bfloat16` is an MLP under autocast.
"""

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from msprobe.pytorch import PrecisionDebugger, seed_all

sys.path.append(str(Path(__file__).parent))
from train_torch import OTHER_KERNELS

HARMLESS = {
    "none": "nothing is changed",
    "threads-1": "one thread",
    "threads-4": "four threads",
    "threads-2": "two threads",
    "foreach": "SGD updates all parameters together (foreach)",
    "channels-last": "images and weights with the channels last in memory",
    "flipped": "the classes' products sum up from the last feature",
    "split": "the batch in two micro batches, whose gradients are added",
    **OTHER_KERNELS,
    "compile-eager": "torch.compile, backend eager",
    "compile-inductor": "torch.compile, backend inductor",
}
FAULTS = {
    "scale": "the features are scaled by 1.02",
    "slope": "another activation: leaky_relu instead of relu",
    "lr": "the learning rate is 10 % larger",
}
_ALL = ("none", "threads-1", "threads-2", "threads-4", "foreach", "flipped", *OTHER_KERNELS)
_COMPILED = ("compile-eager", "compile-inductor")
MODELS = {
    "conv": (*_ALL, "channels-last", *_COMPILED, "scale", "slope", "lr"),
    "lstm": (*_ALL, "split", "scale", "lr"),
    "bfloat16": (*_ALL, "split", *_COMPILED, "scale", "slope", "lr"),
}
"""The changes that apply: batch statistics of another batch are not harmless, and torch.compile leaves LSTMs alone."""

TRUTH = {"scale": "__mul__", "slope": "leaky_relu", "lr": "learning rate"}


class Features(nn.Module):
    def __init__(self, model, change):
        super().__init__()
        self.model, self.change = model, change
        if model == "conv":
            self.layers = nn.ModuleList(
                [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32)]
            )
        elif model == "lstm":
            self.words, self.lstm = nn.Embedding(64, 32), nn.LSTM(32, 32, 2, batch_first=True)
        else:
            self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.head = nn.Linear(32 if model != "bfloat16" else 64, 10)

    def activated(self, x):
        return F.leaky_relu(x, 0.01) if self.change == "slope" else F.relu(x)

    def forward(self, x):
        if self.model == "lstm":
            x = self.lstm(self.words(x))[0][:, -1]
        elif self.model == "conv":
            for conv, norm in zip(self.layers[::2], self.layers[1::2], strict=True):
                x = self.activated(norm(conv(x)))
            x = x.mean((2, 3))
        else:
            for layer in self.layers:
                x = self.activated(layer(x))
        if self.change == "flipped":
            return F.linear(x.flip(-1), self.head.weight.flip(-1), self.head.bias)
        return self.head(x * 1.02 if self.change == "scale" else x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--change", default="none", choices=[*HARMLESS, *FAULTS])
    args = parser.parse_args()
    change = args.change
    seed_all(7, mode=False)
    torch.set_num_threads(int(change.partition("threads-")[2] or torch.get_num_threads()))
    model = Features(args.model, change)
    torch.backends.mkldnn.enabled = change != "no-onednn"
    if change == "channels-last":
        model = model.to(memory_format=torch.channels_last)
    rate = 0.1 * (1.1 if change == "lr" else 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, foreach=change == "foreach")
    forward = torch.compile(model, backend=change.partition("-")[2]) if change.startswith("compile") else model
    debugger = PrecisionDebugger(dump_path="./dump", level="mix")
    numbers = torch.Generator().manual_seed(3)
    shape = {"conv": (16, 3, 16, 16), "lstm": (16, 12), "bfloat16": (32, 64)}[args.model]
    for _ in range(3):
        x = (
            torch.randint(0, 64, shape, generator=numbers)
            if args.model == "lstm"
            else torch.randn(shape, generator=numbers)
        )
        if change == "channels-last":
            x = x.contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 10, shape[:1], generator=numbers)
        debugger.start(model=model)
        parts = zip(x.chunk(2), labels.chunk(2), strict=True) if change == "split" else [(x, labels)]
        for part, wanted in parts:
            with torch.autocast("cpu", torch.bfloat16, enabled=args.model == "bfloat16"):
                loss = F.cross_entropy(forward(part), wanted)
            (loss / 2 if change == "split" else loss).backward()
        debugger.stop()
        optimizer.step()
        optimizer.zero_grad()
        debugger.step()


if __name__ == "__main__":
    main()
