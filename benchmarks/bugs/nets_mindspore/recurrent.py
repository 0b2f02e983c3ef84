"""A recurrent net of gates, written out, that reads a series and gives three numbers; trained by RMSprop."""

import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.experimental import optim

SIZES = {"small": (12, 1), "large": (16, 2)}
FEATURES, TARGETS = 12, 3


class Gates(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.given = nn.Dense(width, 3 * width)
        self.kept = nn.Dense(width, 3 * width)
        self.width = width

    def construct(self, x, state):
        of_input, of_state = self.given(x), self.kept(state)
        reset_x, update_x, new_x = ops.split(of_input, self.width, 1)
        reset_h, update_h, new_h = ops.split(of_state, self.width, 1)
        reset = ops.sigmoid(ops.add(reset_x, reset_h))
        update = ops.sigmoid(ops.add(update_x, update_h))
        new = ops.tanh(ops.add(new_x, ops.mul(reset, new_h)))
        return ops.add(ops.mul(ops.sub(1.0, update), new), ops.mul(update, state))


class Net(nn.Cell):
    def __init__(self, size):
        super().__init__()
        self.width, layers = SIZES[size]
        self.enter = nn.Dense(FEATURES, self.width)
        self.layers = nn.CellList([Gates(self.width) for _ in range(layers)])
        self.norm = nn.LayerNorm((self.width,), epsilon=1e-5)
        self.head = nn.Dense(self.width, TARGETS)

    def construct(self, series, wanted):
        x = ops.leaky_relu(self.enter(series), 0.1)
        steps = ops.unbind(x)
        for layer in self.layers:
            state, states = Tensor(np.zeros((series.shape[1], self.width), np.float32)), []
            for step in steps:
                state = layer(step, state)
                states.append(state)
            steps = states
        pooled = ops.mean(ops.stack(steps), 0)
        given = self.head(self.norm(pooled))
        return ops.mean(ops.square(ops.sub(given, wanted)))


def arguments(series, wanted):
    return Tensor(series), Tensor(wanted)


def optimizer(parameters):
    return optim.RMSprop(parameters, lr=0.01, alpha=0.99, eps=1e-8)
