"""Inputs drawn to statistics. Needs neither framework."""

from dataclasses import replace

import numpy as np
import pytest

from msprobe.precheck.inputs import drawn, stream, with_inputs
from msprobe.replay.operations import OPERATIONS
from msprobe.replay.recorded import CannotReplay, Leaf, RecordedCall
from msprobe.store.record import NonFinite, Record, Statistics

ADD, GATHER, SCATTER = OPERATIONS["add"], OPERATIONS["gather"], OPERATIONS["scatter"]


@pytest.fixture
def recorded(dump):
    """A tensor of which statistics alone were recorded."""

    def make(shape, dtype="float32", statistics=None, path="0"):
        record = Record(f"Mint.f.0.forward.input.{path}", "input", (path,), "tensor", "mindspore.Tensor", dtype, shape)
        return Leaf(dump, replace(record, statistics=statistics))

    return make


def draw(leaf, operation=ADD, is_index=False, seed=1):
    return drawn(leaf, stream(seed, "Mint.f.0"), operation, is_index=is_index)


def test_mean_norm_and_ends_are_those_recorded(recorded):
    # a normal distribution around 3 of deviation 0.5: norm^2 / n = 9 + 0.25
    made = draw(recorded((100, 100), statistics=Statistics(5.0, 1.0, 3.0, (10_000 * 9.25) ** 0.5)))
    assert (made.dtype, made.shape) == (np.float32, (100, 100))
    assert (made.max(), made.min()) == (5.0, 1.0)
    assert made.mean() == pytest.approx(3.0, abs=0.05)
    assert made.std() == pytest.approx(0.5, abs=0.05)


def test_operands_of_one_shape_differ_and_every_draw_is_the_same(recorded):
    statistics = Statistics(1.0, -1.0, 0.0, 1.0)
    first, second = recorded((4, 4), statistics=statistics), recorded((4, 4), statistics=statistics, path="1")
    call = RecordedCall("Mint.add.0.forward", "Mint.add", "api", "mindspore", False, (first, second), {}, {}, {})
    a, b = (with_inputs(call, ADD, 42, "Mint.add.0") for _ in range(2))
    assert not np.array_equal(a.args[0].array, a.args[1].array)
    assert np.array_equal(a.args[0].array, b.args[0].array)
    other = with_inputs(call, ADD, 42, "Mint.add.1")
    assert not np.array_equal(a.args[0].array, other.args[0].array)


def test_indices_stay_within_their_range(recorded):
    leaf = recorded((50,), "int64", Statistics(9, -100, None, None))
    made = draw(leaf, GATHER, is_index=True)
    assert (made.min(), made.max()) == (0, 9)
    assert draw(leaf).min() == -100
    with pytest.raises(CannotReplay):
        draw(recorded((3,), "int64"))


def test_what_writes_at_indices_gets_each_index_once(recorded):
    made = draw(recorded((7, 3), "int64", Statistics(6, 0, None, None)), SCATTER, is_index=True)
    assert (np.sort(made, axis=0) == np.arange(7)[:, None]).all()


def test_masks_keep_their_share_and_no_row_is_masked_whole(recorded):
    made = draw(recorded((10, 10), "bool", Statistics(True, False, None, None, true_count=30)))
    assert made.sum() == 30
    statistics = Statistics(0.0, 0.0, 0.0, 0.0, non_finite=NonFinite(0, 0, 90))
    made = draw(recorded((10, 10), statistics=statistics))
    assert np.isneginf(made).sum() > 80
    assert np.isfinite(made).any(axis=1).all()


def test_bfloat16_holds_what_the_dtype_can(recorded):
    made = draw(recorded((64,), "bfloat16", Statistics(1.0, -1.0, 0.0, 4.0)))
    assert made.dtype == np.float32
    assert not (made.view(np.uint32) & 0xFFFF).any()
