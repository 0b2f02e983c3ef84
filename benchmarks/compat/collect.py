"""Collect one step of a small training: `python collect.py NET LEVEL TASK FAULT DIR`.

NET `transformer` is the one of the tests, FAULT one of its faults or `clean`. NET `values` computes nothing sensible:
it gives the dump one of every kind of value that `docs/en/reference/format.md` knows; any FAULT scales its numbers.
"""

import importlib.util
import sys
from contextlib import suppress
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger

FAULTS = Path(__file__).parents[2] / "tests" / "training" / "faults.py"
WIDTH = 6


class Parts(nn.Cell):
    """Takes and gives nested parts, also texts and None."""

    def construct(self, x, scale=1.0, parts=None, note=""):
        y = ops.tanh(x) * float(scale)
        return {"main": y, "aux": (ops.exp(y), {"deep": ops.relu(y)}), "note": note, "none": None, "parts": parts}


class Values(nn.Cell):
    """One call for each kind of value."""

    def __init__(self, scale):
        super().__init__()
        self.w = Parameter(Tensor(np.linspace(-1, 1, 4 * WIDTH).reshape(4, WIDTH).astype(np.float32)), name="w")
        self.dense = nn.Dense(WIDTH, WIDTH, weight_init=Tensor(np.eye(WIDTH, dtype=np.float32)), bias_init="zeros")
        self.dense.recompute()
        self.parts, self.scale = Parts(), scale

    def construct(self, x, whole, unsigned, mask):
        y = x + self.w * self.scale
        ops.add(whole, 1)  # integers beyond 2^53
        ops.equal(unsigned, unsigned)  # beyond 2^63
        ops.logical_and(mask, ops.logical_not(mask))
        y[0:0]  # an empty tensor, a slice
        y[..., 0]
        y[1:3, None]
        ops.log(y)  # NaN
        ops.div(y, ops.zeros_like(y))  # both infinities
        ops.abs(ops.cast(y, ms.complex64))
        y.astype(ms.float16) * y.astype(ms.bfloat16).astype(ms.float16)
        ops.gelu(y, approximate="tanh")
        ops.sum(y, dim=1, keepdim=True)
        ops.argmax(y)  # 0-d
        with suppress(RuntimeError):
            ops.matmul(y, y)  # raises: its output is missing
        numbers = [np.int64(3), np.bool_(True), float("inf"), float("nan"), 10**30, np.arange(3)]
        nested = [[[[y]]], {"a/b": ops.exp(y), "k" * 250: ops.neg(y)}, {"type": y, "dtype": "text"}, [], {}]
        out = self.parts(self.dense(y), scale=np.float32(0.5), parts=[numbers, nested], note='tëxt, "quoted"\nand more')
        return ops.sum(out["main"]) + ops.mean(out["aux"][1]["deep"])


def collect_values(debugger, scale):
    """Two gradient computations in one step, so that the second one's parameter gradients are numbered."""
    ms.set_seed(1)
    net = Values(scale)
    x = Tensor(np.random.default_rng(3).standard_normal((4, WIDTH)).astype(np.float32))
    whole = Tensor(np.array([2**62 + 1, -(2**62) - 1, 7], np.int64))
    unsigned, mask = Tensor(np.array([2**64 - 1, 1], np.uint64)), Tensor(np.array([True, False, True]))
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    debugger.start(net)
    for _ in range(2):
        gradient(x, whole, unsigned, mask)
    debugger.stop()
    debugger.step()


def main():
    net, level, task, fault, folder = sys.argv[1:]
    debugger = PrecisionDebugger(dump_path=folder, level=level, task=task)
    if net == "values":
        collect_values(debugger, 1.0 if fault == "clean" else 1.5)
        return
    spec = importlib.util.spec_from_file_location("faults", FAULTS)
    faults = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(faults)
    faults.train(net, debugger, None if fault == "clean" else fault)


if __name__ == "__main__":
    main()
