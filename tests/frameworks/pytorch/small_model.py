"""A model and a training step of it, for the tests of what a session records."""

from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2, bias=False)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


def step(debugger, net, *args, loss=lambda out: (out * 2).sum(), **kwargs):
    debugger.start(net)
    out = net(*args, **kwargs)
    if loss is not None:
        loss(out).backward()
    debugger.stop()
    debugger.step()
    return out
