"""Three small nets whose layers say what they gave: a transformer, convolutions with BatchNorm, and an LSTM.

A net returns its loss and the outputs of its layers in the order of execution. Each output passes `seen`, which adds a
probe of zeros, whose gradient is that of the output, and can scale the gradient on its way back.
"""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype

CLASSES = 10


def seen(y, probe, scale):
    """The output of a layer as it was; its gradient times `scale` (1 in a correct run), and visible as the probe's."""
    return y + (scale - 1.0) * (y - ops.stop_gradient(y)) + probe


def rounded(x):
    """As bfloat16 has it: MindSpore on the CPU lacks most of its kernels for it, so values are rounded between them."""
    return ops.cast(ops.cast(x, mstype.bfloat16), mstype.float32)


class Half(nn.Cell):
    """A layer whose inputs, weight and output are bfloat16 where it is asked to."""

    def __init__(self, layer, half):
        super().__init__()
        self.layer, self.half = layer, half

    def construct(self, x):
        if self.half:
            y = ops.matmul(rounded(x), ops.transpose(rounded(self.layer.weight), (1, 0)))
            return rounded(y) + self.layer.bias
        return self.layer(x)


def dense(inputs, outputs, rng, half=False):
    bound = 1 / np.sqrt(inputs)
    weight = Tensor(rng.uniform(-bound, bound, (outputs, inputs)).astype(np.float32))
    bias = Tensor(rng.uniform(-bound, bound, outputs).astype(np.float32))
    return Half(nn.Dense(inputs, outputs, weight_init=weight, bias_init=bias), half)


class Transformer(nn.Cell):
    """Two blocks of attention and feed-forward on sequences of 8 vectors."""

    layers = ("enter", *(f"blocks.{n}.{part}" for n in range(2) for part in ("attn", "fc1", "fc2")), "head")
    shapes = ((8, 24), *(((8, 24), (8, 48), (8, 24)) * 2), (CLASSES,))
    inputs = (8, 12)

    def __init__(self, rng, half=False):
        super().__init__()
        width = 24
        self.enter = dense(12, width, rng)
        self.norm1 = nn.CellList([nn.LayerNorm((width,), epsilon=1e-5) for _ in range(2)])
        self.qkv = nn.CellList([dense(width, 3 * width, rng, half) for _ in range(2)])
        self.out = nn.CellList([dense(width, width, rng, half) for _ in range(2)])
        self.norm2 = nn.CellList([nn.LayerNorm((width,), epsilon=1e-5) for _ in range(2)])
        self.fc1 = nn.CellList([dense(width, 2 * width, rng, half) for _ in range(2)])
        self.fc2 = nn.CellList([dense(2 * width, width, rng, half) for _ in range(2)])
        self.head = dense(width, CLASSES, rng)
        self.loss = nn.CrossEntropyLoss()

    def construct(self, x, labels, probes, scales):
        h = seen(self.enter(x), probes[0], scales[0])
        given = (h,)
        for n in range(2):
            q, k, v = ops.split(self.qkv[n](self.norm1[n](h)), 24, -1)
            weights = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 2, 1))) / 4.9, -1)
            a = seen(self.out[n](ops.matmul(weights, v)), probes[3 * n + 1], scales[3 * n + 1])
            h = h + a
            up = seen(self.fc1[n](self.norm2[n](h)), probes[3 * n + 2], scales[3 * n + 2])
            down = seen(self.fc2[n](ops.gelu(up)), probes[3 * n + 3], scales[3 * n + 3])
            h = h + down
            given = (*given, a, up, down)
        logits = seen(self.head(h.mean(1)), probes[7], scales[7])
        return self.loss(logits, labels), (*given, logits)

    @staticmethod
    def layer_of(name):
        """The layer whose output a parameter serves."""
        part, _, rest = name.partition(".")
        if part in ("enter", "head"):
            return part
        number = rest.split(".")[0]
        part = {"norm1": "attn", "qkv": "attn", "out": "attn", "norm2": "fc1"}.get(part, part)
        return f"blocks.{number}.{part}"


class Convolutions(nn.Cell):
    """Three convolutions with BatchNorm, and a head."""

    layers = ("conv1", "bn1", "conv2", "bn2", "conv3", "bn3", "head")
    shapes = ((8, 8, 8), (8, 8, 8), (12, 4, 4), (12, 4, 4), (16, 2, 2), (16, 2, 2), (CLASSES,))
    inputs = (3, 8, 8)

    def __init__(self, rng, half=False):
        super().__init__()
        self.half = half
        channels = (3, 8, 12, 16)
        for n in range(3):
            bound = 1 / np.sqrt(9 * channels[n])
            weight = rng.uniform(-bound, bound, (channels[n + 1], channels[n], 3, 3)).astype(np.float32)
            setattr(self, f"conv{n + 1}", Conv(weight, 1 if n == 0 else 2, half))
            setattr(self, f"bn{n + 1}", Norm(channels[n + 1]))
        self.head = dense(16, CLASSES, rng, half)
        self.loss = nn.CrossEntropyLoss()

    def construct(self, x, labels, probes, scales):
        y1 = seen(self.conv1(x), probes[0], scales[0])
        z1 = seen(self.bn1(y1), probes[1], scales[1])
        y2 = seen(self.conv2(ops.relu(z1)), probes[2], scales[2])
        z2 = seen(self.bn2(y2), probes[3], scales[3])
        y3 = seen(self.conv3(ops.relu(z2)), probes[4], scales[4])
        z3 = seen(self.bn3(y3), probes[5], scales[5])
        logits = seen(self.head(ops.relu(z3).mean((2, 3))), probes[6], scales[6])
        return self.loss(logits, labels), (y1, z1, y2, z2, y3, z3, logits)

    @staticmethod
    def layer_of(name):
        return name.partition(".")[0]


class Conv(nn.Cell):
    def __init__(self, weight, stride, half):
        super().__init__()
        self.weight = Parameter(Tensor(weight))
        self.convolve = ops.Conv2D(weight.shape[0], 3, pad_mode="pad", pad=1, stride=stride)
        self.half = half

    def construct(self, x):
        if self.half:
            return rounded(self.convolve(rounded(x), rounded(self.weight)))
        return self.convolve(x, self.weight)


class Norm(nn.Cell):
    """BatchNorm by the statistics of the batch."""

    def __init__(self, channels):
        super().__init__()
        self.gamma = Parameter(Tensor(np.ones(channels, np.float32)))
        self.beta = Parameter(Tensor(np.zeros(channels, np.float32)))

    def construct(self, x):
        mean = x.mean((0, 2, 3), keep_dims=True)
        centred = x - mean
        variance = (centred * centred).mean((0, 2, 3), keep_dims=True)
        shape = (1, -1, 1, 1)
        return centred * ops.rsqrt(variance + 1e-5) * self.gamma.reshape(shape) + self.beta.reshape(shape)


class Lstm(nn.Cell):
    """An LSTM written out over 6 positions, between two dense layers."""

    layers = ("enter", *(f"cell_{n}" for n in range(6)), "middle", "head")
    shapes = ((6, 16), *((20,),) * 6, (16,), (CLASSES,))
    inputs = (6, 10)

    def __init__(self, rng, half=False):
        super().__init__()
        self.enter = dense(10, 16, rng, half)
        self.of_input = dense(16, 80, rng, half)
        self.of_state = dense(20, 80, rng, half)
        self.middle = dense(20, 16, rng, half)
        self.head = dense(16, CLASSES, rng)
        self.loss = nn.CrossEntropyLoss()

    def construct(self, x, labels, probes, scales):
        e = seen(self.enter(x), probes[0], scales[0])
        given = (e,)
        h, c = ops.zeros_like(e[:, 0, :1]).broadcast_to((x.shape[0], 20)), 0.0
        for n in range(6):
            gates = self.of_input(ops.tanh(e[:, n])) + self.of_state(h)
            i, f, o, g = ops.split(gates, 20, -1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            h = seen(ops.sigmoid(o) * ops.tanh(c), probes[n + 1], scales[n + 1])
            given = (*given, h)
        m = seen(self.middle(h), probes[7], scales[7])
        logits = seen(self.head(ops.tanh(m)), probes[8], scales[8])
        return self.loss(logits, labels), (*given, m, logits)

    @staticmethod
    def layer_of(name):
        part = name.partition(".")[0]
        return "cell" if part in ("of_input", "of_state") else part


NETS = {"transformer": Transformer, "convolutions": Convolutions, "lstm": Lstm}
