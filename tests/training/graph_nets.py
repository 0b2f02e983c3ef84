"""Networks that train in graph mode and in PyNative alike, and the training itself.

`train(case, folder, ...)` gives the losses and weights of a training that is collected into a folder, or into none.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger
from msprobe.store.writer import Writer


class Block(nn.Cell):
    """A block of a transformer with the norms before attention and feed-forward; the mask may be given by keyword."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.q, self.k, self.v, self.o = (nn.Dense(width, width) for _ in range(4))
        self.up, self.act, self.down = (
            nn.Dense(width, 4 * width),
            nn.GELU(approximate=False),
            nn.Dense(4 * width, width),
        )
        self.heads = heads

    def construct(self, x, mask=None):
        rows, length, width = x.shape
        y = self.n1(x)

        def split(t):
            return t.reshape((rows, length, self.heads, width // self.heads)).transpose((0, 2, 1, 3))

        q, k, v = split(self.q(y)), split(self.k(y)), split(self.v(y))
        scores = ops.matmul(q, k.transpose((0, 1, 3, 2))) / 2.0
        if mask is not None:
            scores = scores + mask
        y = ops.matmul(ops.softmax(scores, -1), v).transpose((0, 2, 1, 3)).reshape((rows, length, width))
        x = x + self.o(y)
        return x + self.down(self.act(self.up(self.n2(x))))


class Transformer(nn.Cell):
    """Embedding, two blocks, head; 11 words."""

    def __init__(self):
        super().__init__()
        self.emb, self.b1, self.b2, self.head = nn.Embedding(11, 8), Block(), Block(), nn.Dense(8, 11)

    def construct(self, ids):
        mask = ops.zeros((1, 1, 4, 4), ms.float32)
        return self.head(self.b2(self.b1(ids_to(self.emb, ids), mask=mask))).reshape((-1, 11))


def ids_to(embedding, ids):
    """A helper function between cells."""
    return embedding(ids)


class Convolution(nn.Cell):
    """Convolution, batch norm in training mode, pooling, head."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.relu = nn.Conv2d(1, 4, 3, has_bias=True), nn.BatchNorm2d(4), nn.ReLU()
        self.pool, self.flat, self.fc = nn.MaxPool2d(2, 2), nn.Flatten(), nn.Dense(64, 3)

    def construct(self, x):
        return self.fc(self.flat(self.pool(self.relu(self.bn(self.conv(x))))))


class Flow(nn.Cell):
    """A loop that the data controls, a branch that they control, an unrolled loop, and a cell in both of the last."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Dense(4, 4), nn.Dense(4, 4), nn.Dense(4, 3)
        self.c = nn.SequentialCell(nn.Dense(4, 4), nn.Tanh())

    def construct(self, x, times):
        turn = 0
        while turn < times:
            x = self.a(x)
            turn = turn + 1
        if x.sum() > 0:  # noqa: SIM108  # a branch of the graph, as people write it
            x = self.b(x)
        else:
            x = self.c(x)
        for _ in range(2):
            x = self.c(x)
        return self.head(x)


class Doubled(nn.Cell):
    """Has its own backward, which gives half of what would be right."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Tanh()

    def construct(self, x):
        return self.inner(x) * 2.0

    def bprop(self, x, out, gradient):
        return (gradient * (1.0 - ops.tanh(x) * ops.tanh(x)),)


class Pair(nn.Cell):
    """Takes tensors in containers and by keyword, a number, a text; gives a tuple with a dict inside, partly unused."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(np.full(4, 0.5, np.float32)), name="weight")

    def construct(self, pair, many, how="sum", times=2, scale=None):
        left = (pair[0] * self.weight + pair[1]) * times
        if how == "sum":
            left = left + many["a"]
        return left * scale, {"b": many["b"] * left, "unused": left * 3.0}, 7


class Named(nn.Cell):
    """Gives a dict."""

    def construct(self, x, count):
        return {"x": ops.sin(x), "count": count + 1}


class Kinds(nn.Cell):
    """Tensors of several dtypes, of no dimension and of no element."""

    def construct(self, half, brain, whole, truth, alone, empty):
        small = half.astype(ms.float32) + brain.astype(ms.float32)
        kept = whole.astype(ms.float32) * truth.astype(ms.float32)
        return small * alone + kept, ops.concat((empty, small), 0), alone * 2


class Odd(nn.Cell):
    """What is less usual: containers, keywords, dtypes, names with dashes, lists of cells, recompute, own backward."""

    def __init__(self):
        super().__init__()
        self.insert_child_to_cell("first-layer", nn.Dense(4, 4))
        self.pair, self.named, self.kinds = Pair(), Named(), Kinds()
        self.listed = nn.CellList([nn.Dense(4, 4), nn.Tanh()])
        self.again = nn.SequentialCell(nn.Dense(4, 4), nn.Sigmoid())
        self.again.recompute()
        self.own = Doubled()
        self.idle = nn.Dense(4, 4)
        self.head = nn.Dense(4, 3)

    def construct(self, x, whole):
        x = self._cells["first-layer"](x)
        left, more, seven = self.pair((x, x * 0.5), {"a": x, "b": x + 1.0}, times=3, scale=ops.ones((4,), ms.float32))
        x = self.named(left + more["b"], whole)["x"] * seven
        for cell in self.listed:
            x = cell(x)
        empty = ops.zeros((0, 4), ms.float32)
        x, joined, _ = self.kinds(x.astype(ms.float16), x.astype(ms.bfloat16), whole, whole > 1, x.mean(), empty)
        x = self.own(self.again(x + joined))
        ops.stop_gradient(self.idle(x))
        return self.head(x)


class Loss(nn.Cell):
    """Cross entropy of a network's rows; the labels come last."""

    def __init__(self, net):
        super().__init__()
        self.net, self.entropy = net, nn.CrossEntropyLoss()

    def construct(self, *data):
        return self.entropy(self.net(*data[:-1]), data[-1].reshape((-1,)))


def words(rng, step):
    """Two sequences of four words, and their successors."""
    return Tensor(rng.integers(0, 11, (2, 4)), ms.int32), Tensor(rng.integers(0, 11, (2, 4)), ms.int32)


def pictures(rng, step):
    """Two pictures of 8 x 8 with their classes."""
    return Tensor(rng.standard_normal((2, 1, 8, 8)), ms.float32), Tensor(rng.integers(0, 3, (2,)), ms.int32)


def turns(rng, step):
    """Two rows, how often the loop turns, classes."""
    rows = Tensor(rng.standard_normal((2, 4)), ms.float32)
    return rows, Tensor(1 + step % 3, ms.int32), Tensor(rng.integers(0, 3, (2,)), ms.int32)


def counted(rng, step):
    """Two rows, whole numbers, classes."""
    rows = Tensor(rng.standard_normal((2, 4)), ms.float32)
    return rows, Tensor(rng.integers(0, 4, (2, 4)), ms.int32), Tensor(rng.integers(0, 3, (2,)), ms.int32)


@dataclass(frozen=True)
class Case:
    """A network and the data of a step."""

    net: type[nn.Cell]
    data: Callable[..., tuple[Tensor, ...]]


CASES = {
    "transformer": Case(Transformer, words),
    "convolution": Case(Convolution, pictures),
    "flow": Case(Flow, turns),
    "odd": Case(Odd, counted),
}


def made(case):
    """A network of a case, always with the same weights."""
    net = CASES[case].net()
    for number, parameter in enumerate(net.get_parameters()):
        if parameter.requires_grad:
            drawn = np.random.default_rng(number).standard_normal(parameter.shape) * 0.3
            parameter.set_data(Tensor(drawn, parameter.dtype))
    return net.set_train()


def stepping(net, how, optimizer, loss_of=Loss):
    """What makes one step with a batch and gives the loss, in one of the ways in which people train."""
    loss = loss_of(net)
    if how == "cell":
        return nn.TrainOneStepCell(loss, optimizer).set_train()
    gradients = ms.value_and_grad(loss, None, optimizer.parameters)

    def step(*batch):
        value, found = gradients(*batch)
        optimizer(found)
        return value

    return step


def train(
    case, folder=None, graph=True, level="O0", steps=3, how="cell", net=None, each=None, loss_of=Loss, **settings
):
    """The losses and the weights, as bytes, of a training that is collected into `folder`; None: it is not collected.

    `each(number)` is called before every step. The debugger is ended also where the training raises.
    """
    ms.set_context(mode=ms.GRAPH_MODE if graph else ms.PYNATIVE_MODE, jit_config={"jit_level": level})
    net = net or made(case)
    step = stepping(net, how, nn.Momentum(net.trainable_params(), 0.05, 0.9), loss_of)
    debugger = folder and PrecisionDebugger(**{"level": "L0", "dump_path": str(folder), **settings})
    rng = np.random.default_rng(7)
    losses = []
    try:
        for number in range(steps):
            if each is not None:
                each(number)
            batch = CASES[case].data(rng, number)
            if debugger:
                debugger.start(net)
            losses.append(step(*batch).asnumpy().tobytes())
            if debugger:
                debugger.stop()
                debugger.step()
    finally:
        if debugger:
            debugger._end_step()
            PrecisionDebugger._known.pop(debugger._settings, None)
            PrecisionDebugger._latest = None
        ms.set_context(mode=ms.PYNATIVE_MODE)
    return losses, [parameter.asnumpy().tobytes() for parameter in net.get_parameters()]


def main():
    """`python graph_nets.py FOLDER COUNT`: dies by SIGKILL when so many lines of calls were written in step 1."""
    folder, count = sys.argv[1], int(sys.argv[2])
    written, steps = Writer.call, []

    def call(self, *line):
        written(self, *line)
        steps.append(self._folder.parent.name)
        if steps.count("step1") == count:
            os.kill(os.getpid(), signal.SIGKILL)

    Writer.call = call
    train("convolution", folder, task="tensor")


if __name__ == "__main__":
    main()
