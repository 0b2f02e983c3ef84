"""A training with attention, linear and router layers: mindstudio-probe 26.2.0 wrote `samples/.../features` of it."""

import torch
from torch import nn


class Attention(nn.Module):
    """q, k and v with the axes s, b, h, d."""

    def forward(self, q, k, v):
        q, k, v = (each.permute(1, 2, 0, 3) for each in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
        return (weights @ v).permute(2, 0, 1, 3)


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        return x @ self.weight.t()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.core = nn.Linear(8, 8), nn.Linear(8, 8), Attention()
        self.fc, self.router, self.norm = nn.Linear(8, 5), Router(), nn.LayerNorm(5)

    def forward(self, x):
        q, k = (layer(x).reshape(*x.shape[:2], 2, 4) for layer in (self.q, self.k))
        attended = self.core(q, k, q).reshape(x.shape)
        return self.norm(self.fc(attended)), self.router(attended)


def training():
    torch.manual_seed(0)
    net = Net()
    return net, torch.optim.AdamW(net.parameters(), 1e-2)


def train(net, optimizer, steps=3, update=None, after_backward=None):
    for step in range(steps):
        torch.manual_seed(10 + step)
        y, logits = net(torch.randn(6, 2, 8))
        (y.square().mean() + logits.square().mean()).backward()
        if after_backward is not None:
            after_backward()
        optimizer.step() if update is None else update(optimizer.step)
        optimizer.zero_grad()
