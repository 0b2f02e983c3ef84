"""A mixture of experts with two of four chosen by a gate, and a term that balances them; trained by AdamW."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.experimental import optim

SIZES = {"small": (16, 1), "large": (24, 2)}
FEATURES, CLASSES, EXPERTS = 12, 7, 4


class Expert(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Dense(width, width), nn.Dense(width, width)

    def construct(self, x):
        return self.down(ops.silu(self.up(x)))


class Mixture(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm((width,), epsilon=1e-5)
        self.router = nn.Dense(width, EXPERTS, has_bias=False)
        self.experts = nn.CellList([Expert(width) for _ in range(EXPERTS)])
        self.gate = nn.Dense(width, width)

    def construct(self, x):
        y = self.norm(x)
        shares = ops.softmax(self.router(y), -1)
        best, _ = ops.topk(shares, 2)
        chosen = ops.ge(shares, ops.narrow(best, 1, 1, 1))
        kept = ops.where(chosen, shares, ops.zeros_like(shares))
        kept = ops.div(kept, ops.sum(kept, 1, True))
        results = ops.stack([expert(y) for expert in self.experts], 1)
        mixed = ops.sum(ops.mul(results, ops.unsqueeze(kept, -1)), 1)
        gate = ops.sigmoid(self.gate(y))
        balance = ops.mul(ops.sum(ops.square(ops.mean(shares, 0))), float(EXPERTS))
        return ops.add(x, ops.mul(gate, mixed)), balance


class Net(nn.Cell):
    def __init__(self, size):
        super().__init__()
        width, depth = SIZES[size]
        self.enter = nn.Dense(FEATURES, width)
        self.mixtures = nn.CellList([Mixture(width) for _ in range(depth)])
        self.scale = Parameter(Tensor(np.ones(CLASSES, np.float32)), name="scale")
        self.head = nn.Dense(width, CLASSES)

    def construct(self, x, labels):
        x = ops.relu(self.enter(x))
        losses = []
        for mixture in self.mixtures:
            x, balance = mixture(x)
            losses.append(balance)
        logits = ops.mul(self.head(x), self.scale)
        return ops.add(ops.cross_entropy(logits, labels), ops.mul(ops.mean(ops.stack(losses)), 0.01))


def arguments(rows, labels):
    return Tensor(rows), Tensor(labels)


def optimizer(parameters):
    return optim.AdamW(parameters, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
