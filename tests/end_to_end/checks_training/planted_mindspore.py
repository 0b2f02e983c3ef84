"""One rank of trainings in which one call makes NaN or infinities: `planted_mindspore.py FOLDER TASK/CASE ...`, by
`msrun` or alone.

Each case is collected by its task into FOLDER/TASK/CASE, blanks as _. `CASES` says what is named; the wrong rank is
the last.
"""

import os
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, jit, mint, nn, ops
from mindspore.communication import create_group, get_group_size, get_rank, init
from mindspore.mint import distributed

from msprobe.mindspore import PrecisionDebugger

# case: (call, cell, kind); by hand, from the code below
CASES = {
    "clean": None,
    "forward log": ("Mint.log.0.forward", "first", "made"),
    "forward division": ("Mint.div.0.forward", "first", "made"),
    "forward overflow": ("Mint.exp.0.forward", "second", "made"),
    "functional": ("Functional.sqrt.0.forward", "second", "made"),
    "primitive": ("Primitive.divide.Div.0.forward", "first", "made"),
    "jit": ("Jit.compiled.0.forward", "second", "made"),
    "unrecorded in a cell": ("Cell.first.Block.forward.0", "the root", "made"),
    "literal": ("Mint.mul.0.forward", "first", "argument"),
    "loss": ("Mint.log.0.forward", "the root", "made"),
    "backward sqrt": ("Mint.sqrt.0.backward", "first", "made"),
    "batch": ("Primitive.matmul.MatMul.0.forward", "first.fc", "leaf"),
    "loaded weight": ("Primitive.matmul.MatMul.1.forward", "second.fc", "parameter"),
    "optimizer": ("Primitive.matmul.MatMul.1.forward", "second.fc", "parameter"),
    "collective": ("MintDistributed.all_reduce.{last}.forward", "the root", "exchange"),
    "handle": ("Mint.log.0.forward", "first", "made"),
}


@jit
def compiled(x):
    return x / (x * 0.0)


class Block(nn.Cell):
    """A layer, behind which a fault may be; of ranks in two groups the activations are summed up in between."""

    def __init__(self, seed, fault, group):
        super().__init__()
        numbers = np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32)
        self.fc = nn.Dense(4, 4, weight_init=Tensor(numbers), bias_init="zeros")
        self.divide = ops.Div()
        self.fault, self.group = fault, group

    def construct(self, x):
        x = mint.tanh(self.fc(x))
        x = getattr(self, self.fault or "none")(x)
        if self.group:
            got = ops.stop_gradient(x) + 0.0
            distributed.all_reduce(got, group=self.group)
            x = mint.add(x, got)
        return x

    def none(self, x):
        return x

    def log(self, x):
        return mint.log(mint.sub(-1.5, x))

    def division(self, x):
        return mint.div(x, mint.zeros((4,)))

    def exp(self, x):
        return mint.exp(mint.add(x, 1000.0))

    def functional(self, x):
        return ops.sqrt(ops.sub(x, 100.0))

    def primitive(self, x):
        return self.divide(x, ops.zeros(4, ms.float32))

    def jit(self, x):
        return compiled(x)

    def unrecorded(self, x):
        return Tensor(x.asnumpy() / np.float32(0))

    def literal(self, x):
        return mint.mul(x, float("nan"))

    def sqrt(self, x):
        return mint.sqrt(mint.mul(x, 0.0))


FAULTS = {
    "forward log": ("first", "log"),
    "handle": ("first", "log"),
    "forward division": ("first", "division"),
    "forward overflow": ("second", "exp"),
    "functional": ("second", "functional"),
    "primitive": ("first", "primitive"),
    "jit": ("second", "jit"),
    "unrecorded in a cell": ("first", "unrecorded"),
    "literal": ("first", "literal"),
    "backward sqrt": ("first", "sqrt"),
}


class Net(nn.Cell):
    """Two blocks."""

    def __init__(self, case, is_wrong, group):
        super().__init__()
        place, fault = FAULTS.get(case, ("", "")) if is_wrong else ("", "")
        self.first = Block(1, fault if place == "first" else "", group)
        self.second = Block(2, fault if place == "second" else "", group)

    def construct(self, x):
        return self.second(self.first(x))


def train(case, rank, ranks, folder, group, task):
    is_wrong = rank == ranks - 1
    net = Net(case, is_wrong, group)
    weight = net.second.fc.weight
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    if case == "loaded weight" and is_wrong:
        weight.set_data(Tensor(np.where(np.eye(4) > 0, np.nan, weight.asnumpy()).astype(np.float32)))

    def loss(x):
        found = net(x)
        if case == "loss" and is_wrong:
            return mint.log(mint.mul(mint.mean(found), 0.0))
        return mint.mean(mint.square(found))

    gradient = ms.value_and_grad(loss, None, net.trainable_params())
    debugger = PrecisionDebugger(dump_path=str(folder / case.replace(" ", "_")), task=task, level="mix")
    for step in range(2):
        batch = np.random.default_rng([step, rank]).standard_normal((3, 4)).astype(np.float32)
        if case == "batch" and is_wrong and step:
            batch[0, 0] = np.nan
        debugger.start(net)
        _, gradients = gradient(Tensor(batch))
        if ranks > 1:
            reduce_all(case, gradients)
        debugger.stop()
        optimizer(gradients)
        if case == "optimizer" and is_wrong:
            weight.set_data(Tensor(weight.asnumpy() * np.float32(np.inf)))
        debugger.step()


def reduce_all(case, gradients):
    if case == "handle":  # waited for in another order by each rank
        handles = [distributed.all_reduce(each, async_op=True) for each in gradients]
        for handle in handles if get_rank() % 2 else handles[::-1]:
            handle.wait()
        return
    for each in gradients:
        distributed.all_reduce(each)
    if case == "collective":
        distributed.all_reduce(Tensor(np.full(3, 3e38, np.float32)))


def main():
    folder = Path(sys.argv[1])
    ms.set_context(mode=ms.PYNATIVE_MODE)
    rank, ranks, group = 0, 1, ""
    if "MS_ROLE" in os.environ:
        init()
        rank, ranks = get_rank(), get_group_size()
    if ranks == 4:
        for first in (0, 2):
            if rank in (first, first + 1):
                create_group(f"pair{first}", [first, first + 1])
                group = f"pair{first}"
    for task, case in (each.split("/") for each in sys.argv[2:]):
        train(case, rank, ranks, folder / task, group, task)


if __name__ == "__main__":
    main()
