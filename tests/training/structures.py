"""Networks whose structure troubles a debugger: what is used twice, rewritten, repeated, nested, or fails."""

from collections import namedtuple
from functools import partial
from typing import ClassVar

from mindspore import Parameter, Tensor, mint, nn, ops
from parts import WIDTH, Block, Linear, save, squared_error, weight


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


class Config:
    """Holds a function, as the configurations of many models do."""

    def __init__(self):
        self.act = ops.gelu


class Looking(nn.Cell):
    """Its code looks at functions before it calls one: attributes, keys, members, defaults, in closures, partials."""

    ACT = staticmethod(ops.gelu)
    FUSED: ClassVar = {ops.gelu: 2.0, ops.tanh: 3.0}
    SUPPORTED = (ops.relu, ops.gelu)

    def __init__(self):
        super().__init__()
        self.first, self.second, self.config = Linear(16), Linear(17), Config()
        held = ops.gelu
        self.closed = lambda: held is ops.gelu
        self.shifted = partial(ops.leaky_relu, alpha=0.2)

    def construct(self, x, target, default=ops.gelu):
        found = (
            *(self.config.act is ops.gelu, self.ACT is ops.gelu, default is ops.gelu, self.closed()),
            *(ops.gelu in self.FUSED, mint.nn.functional.relu in self.SUPPORTED, ops.gelu in self.SUPPORTED),
            *(self.shifted.func is ops.leaky_relu, mint.exp is ops.exp, Tensor.sum is TOTAL),
        )
        y = self.config.act(self.first(x)) * (1.0 + 0.1 * sum(found))
        if self.config.act in (ops.relu, ops.gelu):
            y = self.shifted(y) * self.FUSED.get(ops.gelu, 1.0)
        return squared_error(self.second(y), target)


TOTAL = Tensor.sum


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
        save(z, "z")
        z *= 0.5
        z += y
        z[0] = 0.25
        save(z, "z")
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
        save({"main": out["main"], "rest": [out["note"], out["aux"][1]]}, "out")
        return squared_error(self.last(out["main"] + out["aux"][1]["deep"]), target)


class Recomputed(nn.Cell):
    """The middle block is recomputed in backward."""

    def __init__(self, **options):
        super().__init__()
        self.stem, self.block = Linear(9), Block(10)
        self.block.recompute(**options)

    def construct(self, x, target):
        return squared_error(self.block(self.stem(x)), target)


class RecomputedEarly(Recomputed):
    """The same by the framework's other way, which leaves the second run by an exception as soon as it has enough."""

    def __init__(self):
        super().__init__(use_reentrant=False)


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


Several = namedtuple("Several", "main skip count nothing")


class Splitting(nn.Cell):
    """Gives a namedtuple: two halves (views of one result), a number and None."""

    def __init__(self):
        super().__init__()
        self.linear = Linear(15, WIDTH, 2 * WIDTH)

    def construct(self, x):
        main, skip = ops.chunk(self.linear(x), 2, -1)
        return Several(main, skip, 2, None)


class NamedOutputs(nn.Cell):
    """Uses one half twice, the other once."""

    def __init__(self):
        super().__init__()
        self.split, self.last = Splitting(), Linear(16)

    def construct(self, x, target):
        out = self.split(x)
        save([out.main, {"skip": out.skip, "count": out.count}], "out")
        return squared_error(self.last(ops.tanh(out.main) * out.skip) + out.main, target)


class Fragile(nn.Cell):
    """Raises in the middle of its work."""

    def construct(self, x):
        y = ops.tanh(x)
        raise ValueError(f"no way on from shape {y.shape}")


class Raising(nn.Cell):
    """A cell fails, and the network goes another way."""

    def __init__(self):
        super().__init__()
        self.first, self.fragile, self.last = Linear(17), Fragile(), Linear(18)

    def construct(self, x, target):
        y = self.first(x)
        try:
            y = self.fragile(y)
        except ValueError:
            y = ops.sigmoid(y)
        return squared_error(self.last(y), target)
