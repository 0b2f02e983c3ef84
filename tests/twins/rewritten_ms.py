"""The decoder of `rewritten.py` in MindSpore, in several ways, each with faults that can be planted in block 1."""

import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from rewritten import BATCH, DEPTH, HEADS, LENGTH, TOKENS, WIDTH, data, weights

REWRITES = ("fused", "formula", "mask", "folded", "loss")
"""One projection for query, key and value; a layer norm as its formula; a mask that is filled, and added instead of
filled in; heads folded into the batch, with the scale before the product; a loss as its formula."""


class Norm(nn.Cell):
    def __init__(self, rewrites, eps):
        super().__init__()
        self.weight, self.bias = Parameter(ops.ones((WIDTH,), ms.float32)), Parameter(ops.zeros((WIDTH,), ms.float32))
        self.rewrites, self.eps, self.function = rewrites, eps, ops.LayerNorm(-1, -1, eps)

    def construct(self, x):
        if "formula" in self.rewrites:
            centered = x - x.mean(-1, keep_dims=True)
            variance = ops.square(centered).mean(-1, keep_dims=True)
            return centered / ops.sqrt(variance + self.eps) * self.weight + self.bias
        return self.function(x, self.weight, self.bias)[0]


class Attention(nn.Cell):
    def __init__(self, rewrites, fault):
        super().__init__()
        self.rewrites, self.factor = rewrites, (1.02 if fault == "scale" else 1.0) / math.sqrt(WIDTH // HEADS)
        if "fused" in rewrites:
            self.qkv = nn.Dense(WIDTH, 3 * WIDTH)
        else:
            self.q, self.k, self.v = nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH)
        self.out = nn.Dense(WIDTH, WIDTH)

    def construct(self, x, mask):
        parts = ops.split(self.qkv(x), WIDTH, -1) if "fused" in self.rewrites else (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3) for part in parts)
        if "folded" in self.rewrites:
            q, k, v = (part.reshape(BATCH * HEADS, LENGTH, -1) for part in (q, k, v))
            scores = ops.bmm(q * self.factor, k.swapaxes(1, 2)).reshape(BATCH, HEADS, LENGTH, LENGTH)
        else:
            scores = ops.matmul(q, k.swapaxes(-1, -2)) * self.factor
        scores = scores + mask if "mask" in self.rewrites else scores.masked_fill(mask, -65504.0)
        shares = ops.softmax(scores, -1)
        if "folded" in self.rewrites:
            shares = shares.reshape(BATCH * HEADS, LENGTH, LENGTH)
        mixed = ops.matmul(shares, v).reshape(BATCH, HEADS, LENGTH, -1)
        return self.out(mixed.transpose(0, 2, 1, 3).reshape(x.shape))


class Block(nn.Cell):
    def __init__(self, rewrites, fault):
        super().__init__()
        self.fault = fault
        self.norm1, self.norm2 = Norm(rewrites, 1e-5), Norm(rewrites, 1e-3 if fault == "eps" else 1e-5)
        self.attention = Attention(rewrites, fault)
        self.up, self.down = nn.Dense(WIDTH, 2 * WIDTH), nn.Dense(2 * WIDTH, WIDTH)

    def construct(self, x, mask):
        mixed = self.attention(self.norm1(x), mask)
        x = mixed if self.fault == "dropped" else x + mixed
        y = self.down(ops.gelu(self.up(self.norm2(x)), "tanh" if self.fault == "gelu" else "none"))
        return x + (y * 1.02 if self.fault == "doubled" else y)


class Decoder(nn.Cell):
    def __init__(self, rewrites=(), fault=""):
        super().__init__()
        self.rewrites, self.fault = rewrites, fault
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.CellList([Block(rewrites, fault if n == 1 else "") for n in range(DEPTH)])
        self.norm, self.head = Norm(rewrites, 1e-5), nn.Dense(WIDTH, TOKENS)

    def construct(self, tokens, labels):
        if "mask" in self.rewrites:
            mask = ops.triu(ops.full((LENGTH, LENGTH), -1e9, dtype=ms.float32), 1)
        else:
            mask = ops.triu(ops.ones((LENGTH, LENGTH), ms.float32), 1).astype(ms.bool_)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(self.norm(x))
        if self.fault == "labels":
            logits, labels = logits[:, :-1], labels[:, 1:]
        logits, labels = logits.reshape(-1, TOKENS), labels.reshape(-1)
        if "loss" in self.rewrites:
            return -ops.gather_elements(ops.log_softmax(logits, -1), 1, labels.reshape(-1, 1)).mean()
        return ops.cross_entropy(logits, labels)


class Adam:
    """PyTorch's, as MindSpore's adds epsilon before the bias correction."""

    def __init__(self, parameters):
        self.parameters, self.count = parameters, 0
        self.means, self.squares = [0.0] * len(parameters), [0.0] * len(parameters)

    def step(self, gradients):
        self.count += 1
        for n, (parameter, gradient) in enumerate(zip(self.parameters, gradients, strict=True)):
            gradient = gradient.asnumpy()
            self.means[n] = 0.9 * self.means[n] + np.float32(0.1) * gradient
            self.squares[n] = 0.999 * self.squares[n] + np.float32(0.001) * gradient * gradient
            size = np.sqrt(self.squares[n] / (1 - 0.999**self.count)) + 1e-8
            update = np.float32(1e-2 / (1 - 0.9**self.count)) * self.means[n] / size
            parameter.set_data(Tensor((parameter.asnumpy() - update).astype(np.float32)))


def train(debugger, rewrites=(), fault="", steps=1):
    """Some steps with Adam, which a debugger collects."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net, values = Decoder(rewrites, fault), weights(rewrites, fault)
    for parameter in net.get_parameters():
        parameter.set_data(Tensor(values[parameter.name.replace("embedding_table", "weight")].numpy()))
    tokens, labels = (Tensor(array.numpy().astype(np.int32)) for array in data())
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    optimizer = Adam(net.trainable_params())
    for _ in range(steps):
        debugger.start(net)
        _, gradients = gradient(tokens, labels)
        debugger.stop()
        debugger.step()
        optimizer.step(gradients)
