"""The rules of the band one by one: kinks, what follows them, and what both sides do not have alike."""

import numpy as np
import pytest
from dense_training import ALL, Fault, output, train, write

from msprobe.compare.monitor.compare import compare_outputs
from msprobe.compare.monitor.finding import Cause
from msprobe.compare.monitor.unjudged import Reason
from msprobe.findings.catalogue import monitor as stages
from msprobe.findings.kinds import kinds_in
from msprobe.store.monitor.reader import read_output
from msprobe.store.monitor.table import Output, RankOutput, Table

pytestmark = pytest.mark.part(3)

GRADIENTS = ("actv_grad", "grad_unreduced", "grad_reduced")


def jumped(found, steps, size, kinds=GRADIENTS):
    """Rows whose gradients are larger at some steps, each by another part of `size`: as where a kink was passed."""
    rng = np.random.default_rng(3)

    def changed(kind, step, values):
        if kind not in kinds or step not in steps:
            return values
        return [value * (1 + size * rng.uniform(0.5, 1) * rng.choice((-1, 1))) for value in values]

    return {
        rank: {kind: [(step, name, changed(kind, step, v)) for step, name, v in rows] for kind, rows in kinds_.items()}
        for rank, kinds_ in found.items()
    }


def compared(found, golden):
    return compare_outputs(output(found), output(golden))


@pytest.fixture(scope="module")
def other():
    return train(order=1)


def test_gradients_that_jump_for_one_step_are_listed_and_are_not_the_answer(other, golden):
    result = compared(jumped(other, {45}, 0.08), golden)
    assert result.finding is None
    assert result.passed == (45,)


@pytest.mark.parametrize(
    ("steps", "size", "kinds"),
    [
        ({45}, 0.3, GRADIENTS),  # further than a kink
        ({45}, 0.08, ("exp_avg", "exp_avg_sq")),  # moments, whose gradients agree
        ({45}, 0.08, ("actv",)),
    ],
    ids=["far", "moments", "activations"],
)
def test_other_jumps_of_one_step_are_the_answer(steps, size, kinds, other, golden):
    result = compared(jumped(other, steps, size, kinds), golden)
    assert result.finding.step == 45
    assert not result.passed


def test_a_factor_that_stays_is_the_answer_though_it_is_small(golden):
    found = compared(train(Fault("backward", 45, rank=1), order=1), golden)
    assert (found.finding.step, found.passed) == (45, ())


@pytest.mark.parametrize("later", [1, 2, 6])
def test_a_fault_soon_after_a_kink_is_named(later, golden):
    faulty = train(Fault("clip", 45 + later, rank=1), order=1)
    result = compared(jumped(faulty, {45}, 0.08), golden)
    assert result.passed == (45,)
    found = result.finding
    assert (found.step, found.stage, found.ranks, found.cause) == (
        *(45 + later, stages.REDUCED, (1,)),
        Cause.LOCAL_REDUCTION,
    )


def test_what_follows_a_kink_is_not_the_answer(other, golden):
    """Moments and weights take the jump over, in the next steps and less."""
    found = jumped(jumped(other, {45}, 0.08), {46, 47}, 1e-3, ("exp_avg", "exp_avg_sq", "param_updated"))
    result = compared(found, golden)
    assert result.finding is None
    assert result.passed == (45,)


def test_one_target_alone_is_noise_unless_it_leaves_far(other, golden):
    def with_jump(factor):
        changed = output(other)
        table = changed.ranks[0].tables["grad_reduced"]
        table.statistics["norm"][(table.step == 50) & (table.target == 3)] *= factor
        return compare_outputs(changed, output(golden)).finding

    assert with_jump(1 + 2e-4) is None
    assert with_jump(1.5).target == "middle.bias"


def test_a_minimum_alone_is_noise_where_there_is_a_norm(other, golden):
    changed, trusted = output(other), output(golden)
    for table in changed.ranks[0].tables.values():
        table.statistics["min"][table.step == 50] *= 1.05
    assert compare_outputs(changed, trusted).finding is None
    for side in (changed, trusted):
        for table in (table for rank in side.ranks.values() for table in rank.tables.values()):
            del table.statistics["norm"], table.statistics["mean"]
    assert compare_outputs(changed, trusted).finding.step == 50


def with_zeros(found, flips):
    """A share of zeros of 64 elements in every table; at some steps more of them."""
    changed = output(found)
    for table in (table for rank in changed.ranks.values() for table in rank.tables.values()):
        table.statistics["zeros"] = (8 + table.step % 3 + sum((table.step == at) * n for at, n in flips.items())) / 64
    return changed


def test_a_few_elements_more_that_are_zero_are_no_fault(other, golden):
    """The steps before had equal shares: an element beside the threshold falls on either side by rounding."""
    assert compare_outputs(with_zeros(other, {5: 2, 50: 2}), with_zeros(golden, {})).finding is None


def test_shares_alone_are_judged_by_the_elements_that_they_count(golden):
    def alone(flips):
        changed = with_zeros(golden, flips)
        for table in (table for rank in changed.ranks.values() for table in rank.tables.values()):
            for name in ("norm", "mean", "min", "max"):
                del table.statistics[name]
        return changed

    assert compare_outputs(alone({5: 1, 50: 2}), alone({})).finding is None
    found = compare_outputs(alone({5: 1, 50: 40}), alone({})).finding
    assert (found.step, found.statistic) == (50, "zeros")


def with_updates(found, factor=1.0, at=50):
    """The norm of each update, from a step on another one."""
    changed = output(found)
    for rank in changed.ranks.values():
        of = rank.tables["param_origin"]
        norms = (1 + of.target % 5) * 1.234567e-3 * (1 + 0.1 * (of.step % 7)) * np.where(of.step >= at, factor, 1.0)
        statistics = {"update_norm": np.array([float(f"{norm:.6g}") for norm in norms])}
        rank.tables["update_ratio"] = Table("update_ratio", of.targets, of.target, of.step, of.micro_step, statistics)
    return changed


@pytest.mark.parametrize("factor", [1 - 3e-6, 0.999])
def test_updates_that_differ_where_everything_was_equal_are_the_answer(factor, golden):
    """Of a small eps nothing else shows in the digits of the files."""
    found = compare_outputs(with_updates(golden, factor), with_updates(golden)).finding
    assert (found.step, found.stage, found.statistic) == (50, stages.AFTER_UPDATE, "update_norm")


def test_the_size_of_an_update_is_judged_by_the_steps_before(other, golden):
    found = compare_outputs(with_updates(other, 0.999), with_updates(golden)).finding
    assert (found.step, found.stage, found.statistic) == (50, stages.AFTER_UPDATE, "update_norm")
    assert compare_outputs(with_updates(other), with_updates(golden)).is_clean


def test_what_another_update_did_is_found_though_weights_are_not_monitored(golden):
    def without(found):
        kinds = ("actv", "actv_grad", "grad_unreduced", "grad_reduced")
        return {rank: {kind: of[kind] for kind in kinds} for rank, of in found.items()}

    found = compared(without(train(Fault("rate", 41), order=1)), without(golden)).finding
    assert (found.step, found.stage, found.target) == (42, stages.ACTIVATION, "enter.output")


def with_micro_steps(found, factor=1.0, at=None, kept=(0, 1)):
    """A training of 40 steps of two micro steps each: activations have both, all else the last of them."""
    ranks = {}
    for rank, of in output(found).ranks.items():
        tables = {}
        for kind, table in of.tables.items():
            is_of_micro, micro = kind.startswith("actv"), table.step % 2
            chosen = np.isin(micro, kept) if is_of_micro else micro == 1
            statistics = {name: values[chosen].copy() for name, values in table.statistics.items()}
            step, number = table.step[chosen] // 2, micro[chosen] if is_of_micro else np.zeros(chosen.sum(), np.int64)
            if is_of_micro and at is not None:
                for values in statistics.values():
                    values[(step == at[0]) & (number == at[1])] *= factor
            tables[kind] = Table(kind, table.targets, table.target[chosen], step, number, statistics)
        ranks[rank] = RankOutput(rank, tables, ())
    return Output(output(found).path, "v1", ranks)


@pytest.mark.parametrize("micro", [0, 1])
def test_the_micro_step_is_named(micro, golden, other):
    for found in (golden, other):
        wrong = with_micro_steps(found, 1.5, (30, micro))
        answer = compare_outputs(wrong, with_micro_steps(golden)).finding
        assert (answer.step, answer.micro_step, answer.stage) == (30, micro, stages.ACTIVATION)
    assert compare_outputs(with_micro_steps(other), with_micro_steps(golden)).is_clean


def test_micro_steps_of_one_side_alone_are_said(golden):
    result = compare_outputs(with_micro_steps(golden, kept=(0,)), with_micro_steps(golden))
    assert result.finding is None
    assert [(each.cause, each.count) for each in result.unjudged] == [(Reason.MICRO_STEP, 40)]
    assert {(u.side, u.kind, u.count) for u in result.uncommon if u.is_micro} == {
        ("B", "actv", 40),
        ("B", "actv_grad", 40),
    }


def steps_of(found, chosen):
    return {
        rank: {kind: [row for row in rows if chosen(row[0])] for kind, rows in kinds.items()}
        for rank, kinds in found.items()
    }


def test_a_resumed_run_is_one_run(golden, tmp_path):
    """It went on from a checkpoint of step 40; what the first process wrote behind it was thrown away."""
    wrong_end = jumped(steps_of(golden, lambda step: step < 50), set(range(40, 50)), 0.5, ("actv", "grad_reduced"))
    write(wrong_end, tmp_path / "a", name="Jan02_03-04-05")
    write(steps_of(golden, lambda step: step >= 40), tmp_path / "a", name="Jan02_04-00-00")
    result = compare_outputs(read_output(tmp_path / "a"), read_output(write(golden, tmp_path / "b")))
    assert result.is_clean
    assert len(result.steps) == 80
    assert not result.uncommon


@pytest.mark.parametrize("order", [0, 1])
def test_a_fault_between_collected_steps_is_found_at_the_next(order, golden):
    sparse = steps_of(train(Fault("clip", 61, rank=1), order=order), lambda step: step % 3 == 0)
    result = compared(sparse, golden)
    assert result.finding.step == 63
    assert {(u.side, u.count) for u in result.uncommon} == {("B", 53)}


def test_a_fault_is_found_on_the_ranks_that_both_have(golden):
    faulty = train(Fault("clip", 41, rank=1))
    found = compared({1: faulty[1]}, golden)
    assert (found.finding.step, found.finding.ranks, found.lost_ranks) == (41, (1,), {"A": (), "B": (0,)})
    assert compared({0: faulty[0]}, golden).finding.ranks == (0,), "by the weights that the other rank led to"


def test_all_ranks_are_named(golden):
    assert compared(train(Fault("all_reduce", 41), order=1), golden).finding.ranks == ALL


def test_each_cause_is_a_message_of_the_stages_that_it_belongs_to():
    assert {name for stage in kinds_in(stages) for name in stage.messages} == {cause.value for cause in Cause}
