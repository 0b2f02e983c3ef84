"""Functions of mindspore.ops whose results are random: their arguments mean the same on both sides."""

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("mindspore", reason="both sides are run")
pytest.importorskip("torch", reason="both sides are run")

import mindspore
import numpy as np
import torch

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
executed = importlib.import_module("executed")
TABLE = importlib.import_module("msprobe.mapping.api").load_table()

MANY = 20000
ONES = np.ones((MANY // 100, 100), "float32")


def both(name, *args, **kwargs):
    """The first result of each side, drawn with the same seed each time."""
    mindspore.set_seed(1)
    torch.manual_seed(1)
    example = executed.ex(f"Functional.{name}", *args, **kwargs)
    pair = executed.pairs_of(example, TABLE)[0]
    return executed.run_ms(example), executed.run_pt(example, pair)


def test_p_of_dropout_is_the_share_that_is_dropped_on_both_sides():
    for drawn in both("dropout", ONES, 0.2, True, seed=3):
        assert set(np.unique(drawn)) == {np.float32(0), np.float32(1.25)}
        assert np.mean(drawn == 0) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_dropout_of_channels_drops_whole_channels_on_both_sides(axes):
    for drawn in both(f"dropout{axes}d", np.ones((20, 100, *(3,) * axes), "float32"), 0.2):
        flat = drawn.reshape(20, 100, -1)
        assert (flat == flat[..., :1]).all()
        assert np.mean(flat == 0) == pytest.approx(0.2, abs=0.04)


def test_bernoulli_takes_its_probability_from_p_and_not_from_the_tensor():
    for p, drawn in [(0.5, both("bernoulli", ONES)), (0.2, both("bernoulli", ONES, 0.2))]:
        for side in drawn:
            assert side.mean() == pytest.approx(p, abs=0.02)


def test_rrelu_draws_its_slopes_on_both_sides():
    for drawn in both("rrelu", -ONES, 0.1, 0.3):
        assert -0.3 <= drawn.min() < -0.29
        assert -0.11 < drawn.max() <= -0.1


def test_hard_gumbel_softmax_picks_one_class_along_the_same_axis():
    logits = np.tile(np.log(np.array([[0.1], [0.2], [0.7]], "float32")), (1, MANY))
    for drawn in both("gumbel_softmax", logits, 1.0, True, 0):
        assert (drawn.sum(0) == 1).all()
        assert set(np.unique(drawn)) == {0, 1}
        assert drawn.mean(1) == pytest.approx([0.1, 0.2, 0.7], abs=0.02)


def test_bounds_of_random_numbers_are_the_same():
    for drawn in both("randint", 2, 5, (MANY,)):
        assert set(np.unique(drawn)) == {2, 3, 4}
    for drawn in both("randint_like", ONES.astype("int64"), 2, 5):
        assert set(np.unique(drawn)) == {2, 3, 4}
    for name, args in [
        ("rand", (MANY,)),
        ("rand_like", (ONES,)),
        ("uniform", ((MANY,), np.float32([0]), np.float32([1]))),
    ]:
        for drawn in both(name, *args):
            assert 0 <= drawn.min() < 0.01
            assert 0.99 < drawn.max() <= 1
    for drawn in both("randperm", 9):
        assert sorted(drawn) == list(range(9))


def test_mean_and_spread_of_random_numbers_are_the_same():
    for name, args in [("randn", (MANY,)), ("randn_like", (ONES,)), ("standard_normal", ((MANY,),))]:
        for drawn in both(name, *args):
            assert (drawn.mean(), drawn.std()) == pytest.approx((0, 1), abs=0.03)
    for drawn in both("normal", (MANY,), 2.0, 0.5):
        assert (drawn.mean(), drawn.std()) == pytest.approx((2, 0.5), abs=0.03)
    for drawn in both("random_poisson", np.array([], "int32"), 3 * ONES):
        assert drawn.mean() == pytest.approx(3, abs=0.06)


def test_multinomial_draws_again_what_it_drew_unless_told_otherwise():
    weights = np.array([1, 1, 8], "float32")
    for drawn in both("multinomial", weights, MANY):
        assert np.bincount(drawn) / MANY == pytest.approx([0.1, 0.1, 0.8], abs=0.02)
    for drawn in both("multinomial", weights, 3, False):
        assert sorted(drawn) == [0, 1, 2]


@pytest.mark.parametrize("full", [False, True])
def test_the_parts_of_svd_are_found_in_pytorchs_order(full):
    """The signs of singular vectors are free; the product is not."""
    matrix = executed.floats(3, 4)
    example = executed.ex("Functional.svd", matrix, full)
    pair = executed.pairs_of(example, TABLE)[0]
    golden = dict(enumerate(executed.run_pt(example, pair)))
    for number, value in enumerate(executed.run_ms(example)):
        there = golden[int(pair.ms_place("output", (str(number),)).path[0])]
        assert value.shape == there.shape
    s, u, v = (golden[int(pair.ms_place("output", (n,)).path[0])] for n in "012")
    np.testing.assert_allclose(u[:, :3] * s @ v[:, :3].T, matrix, atol=1e-5)
    np.testing.assert_allclose(executed.run_ms(example)[0], s, rtol=1e-5)
