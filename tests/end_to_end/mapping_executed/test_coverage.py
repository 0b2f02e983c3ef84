"""Every public function of MindSpore has a counterpart in the table, or a reason why PyTorch has none."""

import pytest

pytest.importorskip("mindspore", reason="its public names are listed")

import mindspore
from mindspore import mint, ops

from msprobe.frameworks.mindspore.functions import functions
from msprobe.mapping.api import load_table

pytestmark = pytest.mark.mindspore

TABLE = load_table()

FORGOTTEN = {
    mint: "addcmul clip equal fix ge linspace ones trunc unique",
    mint.nn.functional: "hardshrink hardsigmoid hardswish l1_loss mish selu smooth_l1_loss softplus softshrink",
}
"""Public in the documentation; MindSpore 2.10 forgot them in its `__all__`."""


def collected():
    """The stems that a dump of MindSpore can have."""
    return {stem for _, _, stem in functions()}


def forgotten():
    prefixes = {mint: "Mint", mint.nn.functional: "MintFunctional"}
    return {f"{prefixes[owner]}.{name}" for owner, names in FORGOTTEN.items() for name in names.split()}


def primitives():
    """The stems of primitives that stand in `mindspore.ops`."""
    found = {name for name in ops.__all__ if name[0] != "_" and isinstance(getattr(ops, name, None), type)}
    return {f"Primitive.{name}" for name in found if issubclass(getattr(ops, name), mindspore.ops.Primitive)}


def missing(stems):
    return sorted(stems - set(TABLE.entries) - set(TABLE.without))


@pytest.mark.parametrize("prefix", ["Functional", "Mint", "MintFunctional", "MintDistributed", "Distributed", "Tensor"])
def test_every_function_that_is_collected_is_known(prefix):
    stems = {stem for stem in collected() if stem.split(".")[0] == prefix}
    assert len(stems) > 20
    assert not missing(stems)


def test_every_primitive_is_known():
    assert len(primitives()) > 300
    assert not missing(
        primitives() - {"Primitive.Primitive", "Primitive.PrimitiveWithInfer", "Primitive.PrimitiveWithCheck"}
    )


def test_what_mindspore_forgot_to_list_is_collected_and_known():
    assert forgotten() <= collected()
    assert not missing(forgotten())
    assert all(hasattr(owner, name) for owner, names in FORGOTTEN.items() for name in names.split())
