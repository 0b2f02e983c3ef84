"""Each fault of a training is found at its step and named by its stage, target and rank; correct trainings are not."""

import numpy as np
import pytest
from dense_training import ALL, Fault, output, train

from msprobe.base.errors import UsageError
from msprobe.compare.monitor.band import Basis
from msprobe.compare.monitor.compare import compare_outputs
from msprobe.compare.monitor.finding import Cause
from msprobe.compare.monitor.next_dump import next_dump
from msprobe.compare.monitor.report import lines
from msprobe.compare.monitor.unjudged import Reason, Unjudged
from msprobe.findings.catalogue import monitor as stages

pytestmark = pytest.mark.part(3)

CASES = {
    # name: stage, target ("" for any), ranks, cause, how many leave at least
    "rate": (stages.AFTER_UPDATE, "", ALL, Cause.UPDATE_OF_ALL, 6),
    "decay": (stages.AFTER_UPDATE, "bias", ALL, Cause.UPDATE_OF_SOME, 3),
    "backward": (stages.UNREDUCED, "middle", (1,), Cause.BACKWARD, 2),
    "clip": (stages.REDUCED, "", (1,), Cause.LOCAL_REDUCTION, 6),
    "all_reduce": (stages.REDUCED, "", ALL, Cause.REDUCTION, 6),
    "moments": (stages.MOMENT, "", ALL, Cause.MOMENTS, 6),
    "batch": (stages.ACTIVATION, "enter.output", (1,), Cause.DATA, 3),
    "loss_scale": (stages.ACTIVATION_GRADIENT, "head.output", ALL, Cause.LOSS_SCALE, 3),
}


@pytest.mark.parametrize("order", [0, 3], ids=["same arithmetic", "other order of sums"])
@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_named(name, order, golden):
    stage, target, ranks, cause, left = CASES[name]
    step = 41
    found = compare_outputs(output(train(Fault(name, step, rank=1), order=order)), output(golden)).finding
    assert found is not None
    assert (found.stage, found.step, found.ranks, found.cause) == (stage, step, ranks, cause)
    assert target in found.target
    assert found.left >= left
    assert found.basis is (Basis.LEARNED if order else Basis.EQUAL)


def test_one_layers_backward_is_named_with_its_ratio_and_what_agrees_behind_it(golden):
    found = compare_outputs(output(train(Fault("backward", 30))), output(golden)).finding
    assert found.target.startswith("middle.")
    assert found.agreeing == "middle.output"
    assert found.factor == pytest.approx(1.01, abs=1e-4)


def test_a_clipped_rank_has_one_factor(golden):
    found = compare_outputs(output(train(Fault("clip", 30))), output(golden)).finding
    assert found.has_common_factor
    assert found.factor == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("clean", [{"order": 1}, {"order": 2}, {"half": True}, {}], ids=str)
def test_correct_trainings_stay_inside(clean, golden):
    result = compare_outputs(output(train(**clean)), output(golden))
    assert result.finding is None
    assert result.is_clean
    assert result.basis is (Basis.LEARNED if clean else Basis.EQUAL)


@pytest.mark.parametrize("clean", [{"order": 1}, {"half": True}], ids=str)
def test_a_clean_pair_is_the_band_of_another(clean, golden):
    of_clean = output(train(order=2, half=clean.get("half", False)))
    inside = compare_outputs(output(train(**clean)), output(golden), of_clean)
    assert inside.is_clean
    assert inside.basis is Basis.CALIBRATED
    early = compare_outputs(output(train(Fault("clip", 5), **clean)), output(golden), of_clean)
    assert (early.finding.stage, early.finding.step, early.finding.ranks) == (stages.REDUCED, 5, (0,))


def test_a_fault_before_the_band_is_learned_is_not_judged_and_that_is_said(golden):
    result = compare_outputs(output(train(order=1)), output(golden))
    assert result.judged_from == 16
    short = compare_outputs(output(train(order=1, steps=12)), output(golden))
    assert short.basis is Basis.NOTHING
    assert not short.is_clean


def test_what_differs_from_the_first_step_on_is_found(golden):
    other = output(golden)
    for rank in other.ranks.values():
        for name in ("norm", "min", "max", "mean"):
            rank.tables["actv"].statistics[name] *= 1.5
    found = compare_outputs(other, output(golden)).finding
    assert (found.step, found.stage) == (0, stages.ACTIVATION)
    assert found.basis in (Basis.FIRST_STEP, Basis.EQUAL)


def test_a_nan_of_one_side_leaves(golden):
    other = output(golden)
    table = other.ranks[1].tables["grad_unreduced"]
    at = np.flatnonzero((table.step == 50) & (table.target == 2))
    table.statistics["norm"][at] = np.nan
    found = compare_outputs(other, output(golden)).finding
    assert (found.step, found.target, found.ranks) == (50, "middle.weight", (1,))
    of_both = compare_outputs(other, other)
    assert not of_both.finding
    assert (of_both.exit_code, of_both.unjudged) == (1, (Unjudged(Reason.NOT_FINITE, 1),))


def test_a_row_that_one_side_lacks_is_no_difference(golden):
    fewer = {
        rank: {kind: [row for row in rows if row[0] % 2 == 0] for kind, rows in kinds.items()}
        for rank, kinds in golden.items()
    }
    result = compare_outputs(output(fewer), output(golden))
    assert result.finding is None
    assert (result.exit_code, result.unjudged) == (1, (Unjudged(Reason.STEP, 40),))
    assert {(u.side, u.count) for u in result.uncommon} == {("B", 40)}
    said = [line for line in lines(result) if line.startswith("not compared: 40 steps of ")]
    assert len(said) == 1, "kinds with as many are one line"
    assert all(one.kind in said[0] for one in result.uncommon)
    assert len(result.steps) == 40
    del fewer[0]["actv"][5]
    of_a_row = compare_outputs(output(fewer), output(golden))
    assert of_a_row.finding is None
    assert of_a_row.unjudged == (Unjudged(Reason.ROW, 1), Unjudged(Reason.STEP, 40))


def test_nothing_in_common_is_a_mistake(golden):
    later = {
        rank: {kind: [(step + 1000, *rest) for step, *rest in rows] for kind, rows in kinds.items()}
        for rank, kinds in golden.items()
    }
    with pytest.raises(UsageError):
        compare_outputs(output(later), output(golden))


def test_ranks_of_one_side_alone_are_said(golden):
    result = compare_outputs(output({0: golden[0]}), output(golden))
    assert result.lost_ranks == {"A": (), "B": (1,)}
    renumbered = compare_outputs(output({7: golden[0]}), output({0: golden[0]}))
    assert renumbered.is_clean, "processes that were alone belong together"


def test_decimals_of_the_files_are_no_difference(golden):
    """Six decimals against six significant digits: gradients of 1e-4 differ in the third digit."""
    coarse = output(golden, rounded=lambda value: round(value, 6))
    assert compare_outputs(coarse, output(golden)).finding is None


@pytest.mark.parametrize(
    ("name", "steps", "ranks", "chosen"),
    [
        ("rate", ["30", "31"], [0, 1], []),
        ("backward", ["30"], [0], [".middle."]),
        ("batch", ["30"], [0], []),
    ],
)
def test_the_next_dump_is_around_the_finding(name, steps, ranks, chosen, golden):
    result = compare_outputs(output(train(Fault(name, 30))), output(golden))
    made = next_dump(result.finding, result.ranks)
    assert [str(step) for step in made["step"]] == steps
    assert made["rank"] == ranks
    assert made[made["task"]]["list"] == chosen


@pytest.mark.parametrize("order", [0, 3], ids=["same arithmetic", "other order of sums"])
def test_gradients_alone_that_all_differ_do_not_accuse_the_last_layer(order, golden):
    """Another batch: without activations nothing tells it from a fault of the last layer's backward pass."""

    def gradients_of(training):
        return output({rank: {kind: rows for kind, rows in kinds.items() if kind.startswith(("grad_", "param_o"))}
                       for rank, kinds in training.items()})  # fmt: skip

    other = gradients_of(train(Fault("batch", 41, rank=1), order=order))
    found = compare_outputs(other, gradients_of(golden)).finding
    assert (found.stage, found.step, found.ranks, found.cause) == (
        *(stages.UNREDUCED, 41, (1,)),
        Cause.ANYTHING_BEFORE,
    )
    made = next_dump(found, 2)
    assert made[made["task"]]["list"] == [], "the cause may be anywhere in the step"
    later = compare_outputs(
        gradients_of(train(Fault("backward", 41, rank=1), order=order)), gradients_of(golden)
    ).finding
    assert (later.cause, later.agreeing.startswith("head.")) == (Cause.BACKWARD, True)


def test_series_of_a_finding_are_kept_for_the_page(golden):
    result = compare_outputs(output(train(Fault("clip", 41, rank=1), order=1)), output(golden))
    first = result.curves[0]
    assert (first.name, first.statistic, first.rank) == (result.finding.target, result.finding.statistic, 1)
    at = list(first.step).index(41)
    assert abs(first.value[at]) > first.limit[at]
    before = slice(20, at)
    assert (np.abs(first.value[before]) <= first.limit[before]).all()


def test_a_difference_of_the_last_digits_is_said_to_be_one(golden):
    other = output(golden)
    for name in ("norm", "mean"):
        values = other.ranks[0].tables["actv_grad"].statistics[name]
        values[other.ranks[0].tables["actv_grad"].step == 50] *= 1 + 1e-5
    found = compare_outputs(other, output(golden)).finding
    assert (found.step, found.is_of_digits) == (50, True)
    assert not compare_outputs(output(train(Fault("clip", 41))), output(golden)).finding.is_of_digits
