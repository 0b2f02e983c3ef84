"""A small GPT in MindSpore for the gate; the argument plants a fault, or a harmless change."""

import math
import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from msprobe.mindspore import PrecisionDebugger

CHANGE = sys.argv[1] if len(sys.argv) > 1 else ""
WIDTH, WORDS, LENGTH = 16, 32, 8


class Block(nn.Cell):
    def __init__(self, number):
        super().__init__()
        eps = 1e-3 if CHANGE == "eps" and number else 1e-5
        self.norm1, self.norm2 = nn.LayerNorm([WIDTH]), nn.LayerNorm([WIDTH], epsilon=eps)
        self.qkv, self.out = nn.Dense(WIDTH, 3 * WIDTH), nn.Dense(WIDTH, WIDTH)
        self.up, self.down, self.number = nn.Dense(WIDTH, 4 * WIDTH), nn.Dense(4 * WIDTH, WIDTH), number
        self.hidden = ms.Tensor(np.triu(np.full((LENGTH, LENGTH), -1e4, np.float32), 1))

    def construct(self, x):
        q, k, v = ops.chunk(self.qkv(self.norm1(x)), 3, -1)
        scores = ops.matmul(q, ops.swapaxes(k, -2, -1)) / math.sqrt(WIDTH) + self.hidden
        x = x + self.out(ops.matmul(ops.softmax(scores, -1), v))
        y = ops.gelu(self.up(self.norm2(x)))
        if CHANGE == "order":  # two halves of the sum, added at the end
            half = 2 * WIDTH
            y = (
                ops.matmul(y[..., half:], ops.swapaxes(self.down.weight[:, half:], 0, 1))
                + ops.matmul(y[..., :half], ops.swapaxes(self.down.weight[:, :half], 0, 1))
                + self.down.bias
            )
        elif CHANGE == "matmul":  # the layer written out
            y = ops.matmul(y, ops.swapaxes(self.down.weight, 0, 1)) + self.down.bias
        else:
            y = self.down(y)
        return x + (y * 1.02 if CHANGE == "scale" and self.number else y)


class Gpt(nn.Cell):
    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, WIDTH), nn.CellList([Block(number) for number in range(2)])
        self.head = nn.Dense(WIDTH, WORDS)

    def construct(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    ms.set_seed(1)
    np.random.seed(1)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    if CHANGE == "synchronous":
        ms.set_context(pynative_synchronize=True)
    if CHANGE == "threads-1":
        ms.set_context(runtime_num_threads=1)
    model = Gpt()
    for parameter in model.trainable_params():
        scale = 0.1 if parameter.ndim > 1 else 0.01
        parameter.set_data(ms.Tensor(np.random.randn(*parameter.shape).astype(np.float32) * scale))
    optimizer = nn.Adam(model.trainable_params(), learning_rate=1e-2)

    def loss_of(ids, labels):
        return ops.cross_entropy(model(ids).reshape(-1, WORDS), labels.reshape(-1))

    both = ms.value_and_grad(loss_of, None, model.trainable_params())
    debugger = PrecisionDebugger(task="structure", level="L0", dump_path="./not_used", step=[7])
    for _ in range(3):
        ids = np.random.randint(0, WORDS, (4, LENGTH + 1))
        debugger.start(model=model)
        if CHANGE == "split":  # two micro batches, whose gradients are added
            halves = [
                both(ms.Tensor(part[:, :-1], ms.int32), ms.Tensor(part[:, 1:], ms.int32)) for part in (ids[:2], ids[2:])
            ]
            loss = (halves[0][0] + halves[1][0]) / 2
            gradients = tuple((a + b) / 2 for a, b in zip(halves[0][1], halves[1][1], strict=True))
        else:
            loss, gradients = both(ms.Tensor(ids[:, :-1], ms.int32), ms.Tensor(ids[:, 1:], ms.int32))
        debugger.stop()
        if CHANGE != "still":
            optimizer(gradients)
        debugger.step()
    print("loss", loss)
    if CHANGE == "fails":
        raise RuntimeError("the data loader failed")


main()
