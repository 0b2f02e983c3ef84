"""The gap between two runs that were made by hand, the noise floor, and closure."""

from math import inf, sqrt

import numpy as np
import pytest
from small_trainings import Calls, write_run

from msprobe.base.errors import UsageError
from msprobe.checks.invariants.rows import GRADIENT_NOISE
from msprobe.graft.gap import (
    Floor,
    FloorSource,
    RunGap,
    closure,
    closure_of_largest,
    consistent_pairs,
    floor_of,
    gap_of,
    rounding_updates,
)
from msprobe.graft.runs import studied

NONE = Floor(0.0, 0.0, 0.0, FloorSource.BIT_EQUAL)


@pytest.fixture
def study(tmp_path):
    """`study({...}, {...})`: the comparison of two runs of `write_run`."""

    def compared(target, golden):
        sides = [write_run(tmp_path / name, **side) for name, side in (("target", target), ("golden", golden))]
        return studied(*sides)

    return compared


GOLDEN = {
    "losses": [3.0, 4.0],
    "weights": [{"weight": [1.0, 1.0]}, {"weight": [1.0, 3.0]}],
    "gradients": [{"weight": [3.0, 0.0]}, {"weight": [0.0, 4.0]}],
}


def test_equal_runs_have_no_gap(study):
    assert gap_of(study(GOLDEN, GOLDEN)) == RunGap(0.0, 0.0, 0.0)


def test_losses_of_all_steps_together(study):
    found = gap_of(study(GOLDEN | {"losses": [3.0, 5.0]}, GOLDEN))
    assert found.loss == pytest.approx(1 / 5)
    assert (found.gradients, found.updates) == (0.0, 0.0)


def test_gradients_of_all_parameters_and_steps_together(study):
    found = gap_of(study(GOLDEN | {"gradients": [{"weight": [3.0, 0.0]}, {"weight": [0.0, 1.0]}]}, GOLDEN))
    assert found.gradients == pytest.approx(3 / 5)
    assert found.largest == found.gradients


def test_a_gradient_that_one_side_does_not_have_is_zero(study):
    target = GOLDEN | {"gradients": [{"weight": [3.0, 0.0]}, {}]}
    assert gap_of(study(target, GOLDEN)).gradients == pytest.approx(4 / 5)


def test_gradients_and_updates_of_a_parameter_of_a_replaced_region_are_the_golden_s(study):
    target = GOLDEN | {"gradients": [{"weight": [3.0, 0.0]}, {}]}
    target["weights"] = [{"weight": [1.0, 1.0]}, {"weight": [1.0, 1.0]}]
    assert gap_of(study(target, GOLDEN), {"fc.weight"}) == RunGap(0.0, 0.0, 0.0)
    assert gap_of(study(target, GOLDEN), {"weight"}) == RunGap(0.0, pytest.approx(4 / 5), 1.0)


@pytest.mark.always
def test_parameters_with_other_names_are_paired_by_their_values(tmp_path):
    """The two runs call other functions with them, so that the comparison does not pair them."""

    def write_scaled(run, function, module, weight):
        calls = Calls(run)
        x = calls.forward("mul.0", [2.0, 6.0], ([1.0, 3.0], "leaf"))
        x = calls.forward(f"{function}.0", [2.0, 12.0], x, (weight, f"parameter {module}.weight"))
        calls.forward("mse.0", 14.0, x)
        calls.backward("mse.0", 1.0, [1.0, 1.0])
        calls.gradients(module, {"weight": np.reshape([3.0, 4.0], np.shape(weight))})
        return calls.write()

    golden = write_scaled(tmp_path / "golden", "scale", "head.norm", [1.0, 2.0])
    for weight, expected in (([1.0, 2.0], 0.0), ([[1.0], [2.0]], 0.0), ([1.0, 3.0], 2**0.5)):
        study = studied(write_scaled(tmp_path / f"{weight}", "layer_norm", "norm", weight), golden)
        assert not consistent_pairs(study.steps[0].comparison)[0]
        assert gap_of(study).gradients == pytest.approx(expected)


def test_updates_are_differences_between_steps(study):
    target = GOLDEN | {"weights": [{"weight": [2.0, 1.0]}, {"weight": [3.0, 3.0]}]}
    # golden moves by (0, 2), the target by (1, 2)
    assert gap_of(study(target, GOLDEN)).updates == pytest.approx(1 / 2)


def test_one_step_has_no_updates(study):
    one = {name: each[:1] for name, each in GOLDEN.items()}
    assert gap_of(study(one, one)).updates is None


def test_no_number_is_an_infinite_gap(study):
    target = GOLDEN | {"gradients": [{"weight": [3.0, 0.0]}, {"weight": [0.0, float("nan")]}]}
    assert gap_of(study(target, GOLDEN)).gradients == inf


def test_a_dump_without_elements_is_refused(tmp_path):
    golden = write_run(tmp_path / "golden", **GOLDEN)
    target = write_run(tmp_path / "target", **GOLDEN, task="statistics")
    with pytest.raises(UsageError, match="tensor"):
        studied(target, golden)


@pytest.mark.parametrize(
    ("after", "expected"), [(0.0, 1.0), (0.1, 0.75), (0.4, 0.0), (0.8, -1.0), (None, None), (inf, -inf)]
)
def test_closure(after, expected):
    found = closure(RunGap(0.4, 0.0, None), RunGap(after, 0.0, None), NONE)
    assert found.loss == (expected if expected is None else pytest.approx(expected))
    assert found.gradients is None
    assert found.updates is None


def test_closure_is_measured_above_the_floor():
    floor = Floor(0.1, 0.1, 0.1, FloorSource.MODEL)
    assert closure(RunGap(0.5, None, None), RunGap(0.3, None, None), floor).loss == pytest.approx(0.5)
    assert closure(RunGap(0.5, None, None), RunGap(0.05, None, None), floor).loss == 1.0
    assert RunGap(0.1, 0.05, None).is_noise(floor)


def test_the_largest_measure_decides():
    before, after = RunGap(0.1, 0.8, 0.2), RunGap(0.0, 0.0, 0.2)
    assert closure_of_largest(before, after, NONE) == pytest.approx(0.75)


def test_the_floor_is_rounding_where_the_calls_before_are_bitwise_equal(study):
    found = floor_of(study(GOLDEN | {"losses": [3.0, 5.0]}, GOLDEN))
    assert (found.loss, found.gradients, found.updates) == (1e-6, 1e-6, 1e-6)
    assert found.source is FloorSource.BIT_EQUAL


@pytest.mark.parametrize(
    ("function", "source"),
    [("gather", FloorSource.MODEL), ("mul", FloorSource.MODEL), ("matmul", FloorSource.BIT_EQUAL)],
)
def test_calls_whose_kernels_do_not_round_inside_show_no_equal_bits(tmp_path, function, source):
    """They return the same bits whatever precision the kernels of matrix products have in the two runs."""

    def write_sum(run, total):
        calls = Calls(run)
        calls.forward("mean.0", total, calls.forward(f"{function}.0", [1.0, 2.0], ([1.0, 2.0], "leaf")))
        return calls.write()

    study = studied(write_sum(tmp_path / "target", 1.75), write_sum(tmp_path / "golden", 1.5))
    assert next(study.findings)[1].name == "Functional.mean.0.forward"
    assert floor_of(study).source is source


def test_the_floor_of_a_repeated_run_is_its_gap(study):
    found = floor_of(study(GOLDEN, GOLDEN), lambda: RunGap(0.1, 0.2, None))
    assert (found.loss, found.gradients, found.updates) == (0.1, 0.2, 0.0)
    assert found.source is FloorSource.REPEATED


def test_without_anything_equal_the_floor_is_that_of_the_judgement(study):
    found = floor_of(study(GOLDEN | {"output": (1.5, 2.0)}, GOLDEN))
    assert found.source is FloorSource.MODEL
    assert found.gradients == pytest.approx(3 * GRADIENT_NOISE["float32"])
    assert sqrt(found.updates) == pytest.approx(0.1)


NEAR_ZERO = {
    "losses": [3.0, 4.0],
    "weights": [{"weight": [0.0, 0.0, 0.0, 0.0]}, {"weight": [1.0, 1.0, 1.0, 1.0]}],
    "gradients": [{"weight": [3.0, 1.0, 1e-5, 0.0]}, {"weight": [3.0, 1.0, 1e-5, 0.0]}],
    "output": (1.0, 2.0, 3.0, 4.0),
}


def test_updates_whose_gradient_is_rounding(study):
    """The second differs although its gradient is none, the last one's is exactly 0: the third alone is rounding."""
    moved = {"weights": [{"weight": [0.0, 0.0, 0.0, 0.0]}, {"weight": [1.0, 1.5, -1.0, 3.0]}]}
    assert rounding_updates(study(NEAR_ZERO | moved, NEAR_ZERO)) == pytest.approx(2 / 2)


def test_the_floor_of_updates_has_those_whose_gradient_is_rounding(study):
    moved = {"weights": [{"weight": [0.0, 0.0, 0.0, 0.0]}, {"weight": [1.0, 1.0, 0.9, 1.0]}], "losses": [3.1, 4.0]}
    found = floor_of(study(NEAR_ZERO | moved | {"output": (1.1, 2.0, 3.0, 4.0)}, NEAR_ZERO))
    assert found.source is FloorSource.MODEL
    assert found.updates == pytest.approx(2 * 0.1 / 2)
