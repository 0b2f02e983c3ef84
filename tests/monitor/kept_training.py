"""Small trainings with PyTorch that keep, as numpy, what the training itself had at each point."""

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    """Two dense layers with an odd bias and a norm between them."""

    def __init__(self, seed=0):
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3, bias=False)
        filled(self, seed)

    def forward(self, x):
        return self.fc2(torch.relu(self.norm(self.fc1(x))))


def filled(net, seed=0):
    """Give every parameter numbers from numpy."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.from_numpy(rng.standard_normal(parameter.shape).astype(np.float32)))
    return net


def batch(number, shape=(5, 4)):
    return torch.from_numpy(np.random.default_rng(100 + number).standard_normal(shape).astype(np.float32))


def copied(tensors):
    """Names and tensors as names and arrays of their own."""
    return {name: tensor.detach().float().numpy().copy() for name, tensor in tensors}


class Training:
    """Trains `net` by `optimizer`; `kept` has a dictionary of kinds for each step, found without any monitor."""

    def __init__(self, optimizer, net=None, clip=None, loss=lambda y: y.square().mean()):
        self.net = net if net is not None else Net()
        self.optimizer, self.clip, self.loss = optimizer(self.net.parameters()), clip, loss
        self.kept, self.losses = [], []

    def backward(self, number):
        loss = self.loss(self.net(batch(number)))
        loss.backward()
        self.losses.append(loss.item())

    def gradients(self):
        return copied((n, p.grad) for n, p in self.net.named_parameters() if p.grad is not None)

    def moments(self, name):
        state = getattr(self.optimizer, "state", {})
        return copied((n, state[p][name]) for n, p in self.net.named_parameters() if name in state.get(p, {}))

    def update(self):
        """Clip, if that is wanted, and update; keeps what there was."""
        kept = {"grad_unreduced": self.gradients()}
        if self.clip:
            nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        kept |= {"grad_reduced": self.gradients(), "param_origin": copied(self.net.named_parameters())}
        kept |= {kind: self.moments(kind) for kind in ("exp_avg", "exp_avg_sq")}
        self.optimizer.step()
        self.kept.append({**kept, "param_updated": copied(self.net.named_parameters())})
        for parameter in self.net.parameters():
            parameter.grad = None

    def step(self, number):
        self.backward(number)
        self.update()
