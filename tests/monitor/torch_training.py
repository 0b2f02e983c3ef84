"""A small training with PyTorch whose numbers are known at every point."""

import numpy as np
import torch


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.LayerNorm(6), torch.nn.ReLU(), torch.nn.Linear(6, 3))


def batch(step):
    return torch.from_numpy(np.random.default_rng(100 + step).standard_normal((5, 4)).astype(np.float32))


def train(net, optimizer, steps=1, *, start=0, micro=1, clip=None, after_backward=None):
    """Plain steps; returns the losses."""
    losses = []
    for step in range(start, start + steps):
        for number in range(micro):
            loss = net(batch(10 * step + number)).square().mean()
            loss.backward()
            losses.append(loss.item())
        if after_backward is not None:
            after_backward(step)
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
    return losses
