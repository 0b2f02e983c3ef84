"""Networks of the framework's own layers and mechanisms: primitives held by cells, views, chance, halves, graphs."""

import mindspore as ms
from mindspore import nn, ops
from parts import WIDTH, Linear, save, squared_error, weight


class Convolution(nn.Cell):
    """Convolution, batch norm, dense: layers that call Primitive objects; the norm's statistics change in forward."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, weight_init=weight(4, 2, 3, 3, seed=20), has_bias=True, bias_init="zeros")
        self.norm = nn.BatchNorm2d(4)
        self.dense = nn.Dense(64, WIDTH, weight_init=weight(WIDTH, 64, seed=21))

    def construct(self, x, target):
        y = ops.relu(self.norm(self.conv(x)))
        return squared_error(self.dense(ops.flatten(y)), target)


class Attention(nn.Cell):
    """Two heads over views: chunks, reshapes and transpositions of one result; a primitive of its own."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm((WIDTH,))
        self.qkv, self.out = Linear(22, WIDTH, 3 * WIDTH), Linear(23)
        self.scale = ops.Mul()

    def construct(self, x):
        q, k, v = (self.heads(part) for part in ops.chunk(self.qkv(self.norm(x)), 3, -1))
        weights = ops.softmax(self.scale(ops.matmul(q, k.swapaxes(-1, -2)), 0.5), -1)
        save(weights, "weights")
        mixed = ops.matmul(weights, v)
        return x + self.out(mixed.transpose(0, 2, 1, 3).reshape(x.shape))

    def heads(self, part):
        """(sequences, length, width) as (sequences, heads, length, width of a head): 2 calls."""
        return part.reshape((*part.shape[:2], 2, WIDTH // 2)).transpose(0, 2, 1, 3)


class Attending(nn.Cell):
    """Attention between a linear layer and the loss."""

    def __init__(self):
        super().__init__()
        self.stem, self.attention = Linear(24), Attention()

    def construct(self, x, target):
        return squared_error(self.attention(self.stem(x)), target)


class Chance(nn.Cell):
    """Dropout as a layer and as a function, and noise: the generators must go on as without the debugger."""

    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = Linear(25), nn.Dropout(p=0.25), Linear(26)

    def construct(self, x, target):
        y = self.drop(self.first(x))
        y = ops.dropout(ops.tanh(y), 0.5)
        y = y + ops.standard_normal((WIDTH,)) * 0.01
        return squared_error(self.last(y), target)


class Halves(nn.Cell):
    """One layer computes in float16, one in bfloat16; the training scales the loss."""

    def __init__(self):
        super().__init__()
        self.first, self.last = Linear(27), Linear(28)
        self.first.to_float(ms.float16)

    def construct(self, x, target):
        y = self.first(x).astype(ms.float32)
        short = ops.tanh(y).astype(ms.bfloat16)
        save(short, "short")
        short = short * short
        return squared_error(self.last(short.astype(ms.float32)), target)


class Gathered(nn.Cell):
    """Integer inputs all the way: arithmetic on ids, a table, and a lookup by computed positions."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, WIDTH, embedding_table=weight(11, WIDTH, seed=29))
        self.linear = Linear(30)

    def construct(self, ids, target):
        shifted = (ids + 3) % 11
        y = self.linear(self.embedding(shifted))
        best = ops.argmax(y, -1)
        save({"ids": shifted, "best": best}, "ids")
        picked = ops.gather(self.embedding.embedding_table, best, 0)
        return squared_error(y + picked, target)


@ms.jit
def polynomial(x):
    """Compiled: its inside is not seen."""
    return x * x * 0.5 + x


class Compiled(nn.Cell):
    """A compiled function, called twice: the first call compiles, the second runs what is there."""

    def __init__(self):
        super().__init__()
        self.first, self.last = Linear(31), Linear(32)

    def construct(self, x, target):
        y = ops.tanh(polynomial(self.first(x)))
        return squared_error(self.last(polynomial(y)), target)
