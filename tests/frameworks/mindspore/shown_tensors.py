"""Tensors that are shown to a recorded cell, and whether their records say what `asnumpy` gives."""

import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

RANDOM = np.random.default_rng(3).standard_normal((6, 8)).astype(np.float32)


class Same(nn.Cell):
    def construct(self, x):
        return x


class Root(nn.Cell):
    """Shows every tensor to a recorded cell as soon as it is made; `after` runs when it has been shown."""

    def __init__(self):
        super().__init__()
        self.same = Same()

    def construct(self, makers):
        shown = []
        for maker in makers:
            made = maker()
            tensor, after = made if isinstance(made, tuple) else (made, None)
            self.same(tensor)
            if after is not None:
                after()
            shown.append(tensor)
        return shown


def by_hand(array):
    """The statistics of an array, by math.fsum and Python's integers."""
    if array.size == 0:
        return {"Max": None, "Min": None, "Mean": None, "Norm": None}
    if array.dtype.kind == "b":
        count = sum(array.ravel().tolist())
        return {"Max": count > 0, "Min": count == array.size, "Mean": None, "Norm": None, "true_count": count}
    values = (np.abs(array) if array.dtype.kind == "c" else array).ravel().tolist()
    whole = array.dtype.kind in "iu"
    mean = (sum(values) if whole else math.fsum(values)) / len(values)
    norm = math.sqrt(sum(v * v for v in values) if whole else math.fsum(v * v for v in values))
    return {"Max": max(values), "Min": min(values), "Mean": mean, "Norm": norm}


def read(tensor):
    """The elements, widened by the framework itself where numpy has no such dtype."""
    return (tensor.astype(ms.float32) if tensor.dtype == ms.bfloat16 else tensor).asnumpy().copy()


def record_of(dump, number):
    return dump.data[f"Cell.same.Same.forward.{number}"]["input_args"][0]


def differences(record, tensor, array):
    """What a record says otherwise than an array."""
    expected = {"dtype": str(tensor.dtype), "shape": list(array.shape), **by_hand(array)}
    wrong = {}
    for key, value in expected.items():
        close = isinstance(value, float) and key in ("Mean", "Norm")
        tolerance = 1e-6 if array.dtype.kind == "c" else 1e-12  # a complex number's absolute value is rounded
        if record[key] != (pytest.approx(value, rel=tolerance, abs=1e-12) if close else value):
            wrong[key] = (record[key], value)
    return wrong


def check(debugger, dumped, makers, arrays=None):
    """Every maker's tensor is recorded as numpy sees it (`arrays`: or as it is known to be)."""
    net = Root()
    debugger.start(net)
    tensors = net(list(makers.values()))
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    assert "missing" not in dump.dump
    arrays = arrays or [read(t) for t in tensors]
    found = {
        name: differences(record_of(dump, n), tensor, array)
        for n, (name, tensor, array) in enumerate(zip(makers, tensors, arrays, strict=True))
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
