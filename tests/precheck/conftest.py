"""Outputs and references written by hand."""

import numpy as np
import pytest

from msprobe.replay.operations import OPERATIONS
from msprobe.replay.references import Given, Reference, References
from msprobe.store.record import Dump, Record


def record(name, shape=(), dtype="float32", part="output", statistics=None, **more):
    """A tensor's record."""
    return Record(name, part, ("0",), "tensor", "mindspore.Tensor", dtype, tuple(shape), statistics, **more)


@pytest.fixture
def dump():
    """A dump without calls, for records that need one."""
    return Dump("here", "here", "tensor", "L1", "mindspore", ())


@pytest.fixture
def leaf(dump):
    """A recorded tensor with these elements."""

    def make(array, dtype="", **more):
        array = np.asarray(array)
        return Given(dump, record("Mint.f.0.forward.output.0", array.shape, dtype or str(array.dtype), **more), array)

    return make


@pytest.fixture
def references(leaf):
    """What one output of an operation should have been: `references("mul", output, golden)`."""

    def make(operation, output, golden, sensitivity=None, dtype="", terms=1.0, moves_data=False, coarsest=""):
        golden = np.asarray(golden)
        if sensitivity is None and golden.dtype.kind == "f":
            sensitivity = np.abs(golden) * 2**0.5
        reference = Reference(leaf(output, dtype), golden, sensitivity)
        return References(OPERATIONS[operation], moves_data, "", (reference,), True, terms, coarsest)

    return make
