"""Small networks with the shapes that trouble a debugger, their data, and how many calls a forward makes.

`CALLS[net]` is counted by hand from the source below: cell calls (without the root) and API calls of one forward.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

WIDTH = 8


def weight(*shape, seed):
    """A parameter's first value, from a generator of its own."""
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 0.3)


class Linear(nn.Cell):
    """x @ w + b by functional APIs (2 calls)."""

    def __init__(self, seed, inside=WIDTH, outside=WIDTH):
        super().__init__()
        self.w = Parameter(weight(inside, outside, seed=seed), name="w")
        self.b = Parameter(weight(outside, seed=seed + 100), name="b")

    def construct(self, x):
        return ops.matmul(x, self.w) + self.b


class RMSNorm(nn.Cell):
    """Uses its input three times (6 calls)."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.g = Parameter(Tensor(np.linspace(0.5, 1.5, WIDTH, dtype=np.float32)), name="g")
        self.eps = eps

    def construct(self, x):
        variance = ops.mean(ops.square(x), -1, True)
        return x * ops.rsqrt(variance + self.eps) * self.g


class Block(nn.Cell):
    """A residual block: norm (6), linear (2), gelu, sum."""

    def __init__(self, seed):
        super().__init__()
        self.norm = RMSNorm()
        self.linear = Linear(seed)

    def construct(self, x):
        return x + ops.gelu(self.linear(self.norm(x)))


def squared_error(y, target):
    """3 calls."""
    return ops.mean(ops.square(y - target))


class Branching(nn.Cell):
    """Two residual blocks; the stem makes the first block's input need a gradient."""

    def __init__(self):
        super().__init__()
        self.stem = Linear(1)
        self.blocks = nn.CellList([Block(2), Block(3)])

    def construct(self, x, target):
        y = self.stem(x)
        for block in self.blocks:
            y = block(y)
        return squared_error(y, target)


class Shared(nn.Cell):
    """One cell called three times, with a different user in between."""

    def __init__(self):
        super().__init__()
        self.inner = Linear(4)

    def construct(self, x, target):
        y = ops.tanh(self.inner(x))
        y = ops.tanh(self.inner(y)) + y
        return squared_error(self.inner(y), target)


class InPlace(nn.Cell):
    """Results rewritten in place after they were used."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Linear(5), Linear(6)

    def construct(self, x, target):
        y = self.first(x)
        z = ops.tanh(y)
        z *= 0.5
        z += y
        z[0] = 0.25
        return squared_error(self.second(z), target)


class Parts(nn.Cell):
    """Gives a dict with a nested tuple."""

    def __init__(self):
        super().__init__()
        self.linear = Linear(7)

    def construct(self, x, scale=1.0):
        y = self.linear(x)
        return {"main": y * scale, "aux": (ops.tanh(y), {"deep": ops.exp(y * 0.1)}), "note": "text", "none": None}


class DictOutputs(nn.Cell):
    """Uses only some members of a dict, and a keyword argument."""

    def __init__(self):
        super().__init__()
        self.parts, self.last = Parts(), Linear(8)

    def construct(self, x, target):
        out = self.parts(x, scale=0.5)
        return squared_error(self.last(out["main"] + out["aux"][1]["deep"]), target)


class Recomputed(nn.Cell):
    """The middle block is recomputed in backward."""

    def __init__(self):
        super().__init__()
        self.stem, self.block = Linear(9), Block(10)
        self.block.recompute()

    def construct(self, x, target):
        return squared_error(self.block(self.stem(x)), target)


class Tied(nn.Cell):
    """An embedding whose weight is the output projection too."""

    def __init__(self):
        super().__init__()
        self.embed = Embed()
        self.linear = Linear(12)

    def construct(self, ids, target):
        y = ops.gelu(self.linear(self.embed(ids)))
        return squared_error(ops.matmul(y, ops.transpose(self.embed.table, (1, 0))), target)


class Embed(nn.Cell):
    """Rows of a table (1 call)."""

    def __init__(self):
        super().__init__()
        self.table = Parameter(weight(5, WIDTH, seed=11), name="table")

    def construct(self, ids):
        return ops.gather(self.table, ids, 0)


class Doubling(nn.Cell):
    """A cell with its own gradient."""

    def construct(self, x):
        return x * 2

    def bprop(self, x, out, dout):
        return (dout * 2,)


class OwnGradient(nn.Cell):
    """A cell with its own `bprop` between two others, and one that gives back what it was given."""

    def __init__(self):
        super().__init__()
        self.first, self.double, self.same, self.last = Linear(13), Doubling(), nn.Identity(), Linear(14)

    def construct(self, x, target):
        return squared_error(self.last(self.same(self.double(self.first(x)))), target)


NETS = {
    "branching": Branching,
    "shared": Shared,
    "in_place": InPlace,
    "dict_outputs": DictOutputs,
    "recomputed": Recomputed,
    "tied": Tied,
    "own_gradient": OwnGradient,
}

CALLS = {
    # stem 2; a block: norm 6, linear 2, gelu, sum = 10; loss 3
    "branching": {"cells": 7, "apis": 2 + 2 * 10 + 3},
    # three linears 6, two tanh, one sum, loss 3
    "shared": {"cells": 3, "apis": 6 + 2 + 1 + 3},
    # linears 4, tanh, imul, iadd, setitem, loss 3
    "in_place": {"cells": 2, "apis": 4 + 4 + 3},
    # linears 4, mul, tanh, exp, mul, reading nothing, one sum, loss 3
    "dict_outputs": {"cells": 3, "apis": 4 + 4 + 1 + 3},
    # stem 2, block 10, loss 3; the block (10 APIs and 3 cells) runs again in backward
    "recomputed": {"cells": 4, "apis": 2 + 10 + 3},
    # gather, linear 2, gelu, transpose, matmul, loss 3
    "tied": {"cells": 2, "apis": 1 + 2 + 1 + 2 + 3},
    # linears 4, mul, loss 3
    "own_gradient": {"cells": 4, "apis": 4 + 1 + 3},
}


def data(net, step):
    """The batch of a step: input and target."""
    rng = np.random.default_rng(1000 + step)
    if net == "tied":
        ids = Tensor(rng.integers(0, 5, (16,)), ms.int32)
        return ids, Tensor(rng.standard_normal((16, 5)).astype(np.float32))
    x = rng.standard_normal((16, WIDTH)).astype(np.float32)
    return Tensor(x), Tensor(rng.standard_normal((16, WIDTH)).astype(np.float32))
