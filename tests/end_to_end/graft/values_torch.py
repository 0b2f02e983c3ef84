"""A small training in PyTorch; the argument changes a value that no recorded call computes: data, mask or buffer."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

from msprobe.pytorch import PrecisionDebugger

CHANGE = sys.argv[1] if len(sys.argv) > 1 else ""
WIDTH = 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norm, self.dropout = nn.BatchNorm1d(WIDTH), nn.Dropout(0.5)
        angles = torch.arange(WIDTH, dtype=torch.float32) / (WIDTH - 1 if CHANGE == "table" else WIDTH)
        self.register_buffer("cosines", torch.cos(angles))
        self.register_buffer("sines", torch.sin(angles))
        self.register_buffer("hidden", torch.arange(WIDTH) >= WIDTH - (2 if CHANGE == "mask" else 1))

    def forward(self, x):
        x = self.dropout(torch.tanh(self.norm(self.first(x)))).masked_fill(self.hidden, 0.0)
        return self.head(self.dropout(torch.tanh(self.rotated(self.second(self.rotated(x))))))

    def rotated(self, x):
        return x * self.cosines + x.roll(WIDTH // 2, -1) * self.sines


def main():
    torch.manual_seed(1)
    model, numbers = Net(), torch.Generator().manual_seed(2)
    model.norm.running_mean.fill_(0.1 if CHANGE == "running" else 0.0)
    model.norm.eval()  # a frozen normalization, which uses its running statistics
    torch.manual_seed(4 if CHANGE == "dropout" else 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = PrecisionDebugger(task="structure", level="L0", dump_path="./not_used", step=[7])
    for _ in range(3):
        inputs, targets = torch.randn(4, WIDTH, generator=numbers), torch.randn(4, WIDTH, generator=numbers)
        if CHANGE == "data":
            inputs = inputs * 1.01
        debugger.start(model=model)
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        debugger.stop()
        optimizer.step()
        optimizer.zero_grad()
        debugger.step()
    print("loss", loss.item())


main()
