"""The PyTorch twin of `nets_mindspore/recurrent.py`."""

import torch
from torch import nn
from torch.nn import functional

SIZES = {"small": (12, 1), "large": (16, 2)}
FEATURES, TARGETS = 12, 3


class Gates(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.given = nn.Linear(width, 3 * width)
        self.kept = nn.Linear(width, 3 * width)
        self.width = width

    def forward(self, x, state):
        of_input, of_state = self.given(x), self.kept(state)
        reset_x, update_x, new_x = torch.split(of_input, self.width, 1)
        reset_h, update_h, new_h = torch.split(of_state, self.width, 1)
        reset = torch.sigmoid(torch.add(reset_x, reset_h))
        update = torch.sigmoid(torch.add(update_x, update_h))
        new = torch.tanh(torch.add(new_x, torch.mul(reset, new_h)))
        return torch.add(torch.mul(torch.sub(1.0, update), new), torch.mul(update, state))


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.width, layers = SIZES[size]
        self.enter = nn.Linear(FEATURES, self.width)
        self.layers = nn.ModuleList([Gates(self.width) for _ in range(layers)])
        self.norm = nn.LayerNorm((self.width,), eps=1e-5)
        self.head = nn.Linear(self.width, TARGETS)

    def forward(self, series, wanted):
        x = functional.leaky_relu(self.enter(series), 0.1)
        steps = torch.unbind(x)
        for layer in self.layers:
            state, states = torch.zeros(series.shape[1], self.width), []
            for step in steps:
                state = layer(step, state)
                states.append(state)
            steps = states
        pooled = torch.mean(torch.stack(steps), 0)
        given = self.head(self.norm(pooled))
        return torch.mean(torch.square(torch.sub(given, wanted)))


def arguments(series, wanted):
    return torch.from_numpy(series), torch.from_numpy(wanted)


def optimizer(parameters):
    return torch.optim.RMSprop(parameters, lr=0.01, alpha=0.99, eps=1e-8)
