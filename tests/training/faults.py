"""Three networks with faults that can be planted, each one of those that people really make."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

WIDTH, LENGTH = 8, 6


def weight(*shape, seed):
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 0.4)


class Norm(nn.Cell):
    def __init__(self, fault):
        super().__init__()
        self.g = Parameter(Tensor(np.linspace(0.5, 1.5, WIDTH, dtype=np.float32)), name="g")
        self.eps = 1e-3 if fault == "eps" else 1e-5

    def construct(self, x):
        variance = ops.mean(ops.square(x), -1, True)
        return x * ops.rsqrt(variance + self.eps) * self.g


class Attention(nn.Cell):
    def __init__(self, fault):
        super().__init__()
        self.q = Parameter(weight(WIDTH, WIDTH, seed=1), name="q")
        self.k = Parameter(weight(WIDTH, WIDTH, seed=2), name="k")
        self.v = Parameter(weight(WIDTH, WIDTH, seed=3), name="v")
        self.o = Parameter(weight(WIDTH, WIDTH, seed=4), name="o")
        mask = np.triu(np.ones((LENGTH, LENGTH), bool), 2 if fault == "mask" else 1)
        self.mask, self.fault = Tensor(mask), fault

    def construct(self, x):
        q, k, v = ops.matmul(x, self.q), ops.matmul(x, self.k), ops.matmul(x, self.v)
        scores = ops.matmul(q, ops.transpose(k, (1, 0)))
        if self.fault != "scale":
            scores = ops.mul(scores, WIDTH**-0.5)
        weights = ops.softmax(ops.masked_fill(scores, self.mask, -1e4), -1)
        mixed = ops.matmul(weights, v)
        return ops.matmul(mixed, self.o.T if self.fault == "transposed" else self.o)


class MLP(nn.Cell):
    def __init__(self, fault):
        super().__init__()
        self.w = Parameter(weight(WIDTH, WIDTH, seed=6 if fault == "initial weight" else 5), name="w")
        self.fault = fault

    def construct(self, x):
        y = ops.matmul(x, self.w)
        y = ops.gelu(y.astype(ms.float16)).astype(ms.float32) if self.fault == "half" else ops.gelu(y)
        return ops.sub(x, y) if self.fault == "swapped" else ops.sub(y, x)


class Transformer(nn.Cell):
    """Norm, attention, dropout, norm, MLP."""

    def __init__(self, fault):
        super().__init__()
        self.norm, self.attention = Norm(None), Attention(fault)
        self.drop = nn.Dropout(p=0.5)
        self.norm2, self.mlp = Norm(fault), MLP(fault)
        self.fault = fault
        self.set_train()
        self.drop.set_train(fault == "dropout")

    def construct(self, x):
        y = self.norm(x)
        y = y * (2.5 if self.fault == "root" else 2.0)
        y = x + self.drop(self.attention(y))
        return ops.mean(ops.square(self.mlp(self.norm2(y))))


class Clip(nn.Cell):
    """tanh with a gradient of its own."""

    def __init__(self, fault):
        super().__init__()
        self.factor = 1.1 if fault == "bprop" else 1.0

    def construct(self, x):
        return ops.tanh(x)

    def bprop(self, x, out, dout):
        return (dout * (1 - out * out) * self.factor,)


class Clipped(nn.Cell):
    """Linear, own gradient, the same linear again."""

    def __init__(self, fault):
        super().__init__()
        self.linear, self.clip = MLP(None), Clip(fault)
        self.bias = Parameter(weight(WIDTH, seed=7), name="bias")

    def construct(self, x):
        y = self.clip(self.linear(x) + self.bias)
        return ops.mean(ops.square(self.linear(y)))


class Perceptron(nn.Cell):
    """Two dense layers of the framework on a batch."""

    def __init__(self, fault):
        super().__init__()
        self.first = nn.Dense(WIDTH, WIDTH, weight_init=weight(WIDTH, WIDTH, seed=8))
        seed = 10 if fault == "initial weight" else 9
        self.second = nn.Dense(WIDTH, 2, weight_init=weight(2, WIDTH, seed=seed))

    def construct(self, x):
        return ops.mean(ops.square(self.second(ops.relu(self.first(x)))))


NETS = {"transformer": Transformer, "clipped": Clipped, "perceptron": Perceptron}


def train(net, debugger, fault=None, steps=1):
    """Train a network by plain gradient descent, collecting every step."""
    ms.set_seed(5)
    model = NETS[net](fault)
    gradient = ms.value_and_grad(model, None, model.trainable_params())
    rate = 0.2 if fault == "learning rate" else 0.1
    for step in range(steps):
        x = np.random.default_rng(100 + step + (fault == "batch")).standard_normal((LENGTH, WIDTH))
        debugger.start(model)
        _, grads = gradient(Tensor(x.astype(np.float32)))
        debugger.stop()
        debugger.step()
        for parameter, grad in zip(model.trainable_params(), grads, strict=True):
            parameter.set_data(Tensor(parameter.asnumpy() - rate * grad.asnumpy()))
