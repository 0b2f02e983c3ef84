"""A residual perceptron with LayerNorm that classifies rows; trained by Adam."""

from mindspore import Tensor, nn, ops
from mindspore.experimental import optim

SIZES = {"small": (16, 2), "large": (24, 3)}
FEATURES, CLASSES = 12, 7


class Residual(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm((width,), epsilon=1e-5)
        self.up = nn.Dense(width, 2 * width)
        self.down = nn.Dense(2 * width, width)

    def construct(self, x):
        y = self.up(self.norm(x))
        y = ops.gelu(y, approximate="tanh")
        return x + self.down(y)


class Net(nn.Cell):
    def __init__(self, size):
        super().__init__()
        width, depth = SIZES[size]
        self.enter = nn.Dense(FEATURES, width)
        self.blocks = nn.CellList([Residual(width) for _ in range(depth)])
        self.norm = nn.LayerNorm((width,), epsilon=1e-5)
        self.head = nn.Dense(width, CLASSES)

    def construct(self, x, labels):
        x = ops.mul(ops.sub(x, 0.1), 1.25)
        x = ops.tanh(self.enter(x))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return ops.cross_entropy(logits, labels)


def arguments(rows, labels):
    return Tensor(rows), Tensor(labels)


def optimizer(parameters):
    return optim.Adam(parameters, lr=0.01, betas=(0.9, 0.999), eps=1e-8)
