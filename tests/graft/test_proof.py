"""The verdicts on runs that are given: what a graft closes is decided by the dump that a run leaves."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from small_trainings import Calls, write_run

from msprobe.base.errors import UsageError
from msprobe.graft.gap import Floor, FloorSource, floor_of, gap_of_parts
from msprobe.graft.hypotheses import named_by_user
from msprobe.graft.page import page_of
from msprobe.graft.proof import Estimate, Verdict, prove
from msprobe.graft.report import answer_of, exit_code, lines
from msprobe.graft.runs import studied
from msprobe.report.embed import unpacked
from msprobe.training_command import CommandFailedError

pytestmark = pytest.mark.part(3)

RUNS = Path(__file__).parents[1] / "gate" / "runs"
EPS, BASE = RUNS / "eps", RUNS / "base"


@cache
def compared(run):
    """The comparison of a run with the golden one, which several tests and runs of a proof need."""
    return studied(run, BASE)


@pytest.fixture
def proof():
    """`proof(EPS, [run, ...])`: the proof if the runs of the training leave these dumps, and the plans they had."""

    def made(target, left, budget=8):
        study, plans = compared(target), []

        def train(plan, what):
            plans.append(plan)
            return left[min(len(plans), len(left)) - 1]

        found = prove(study, floor_of(study), train, compared, budget)
        return found, plans

    return made


def test_a_graft_after_which_the_runs_are_equal_is_proven(proof):
    found, plans = proof(EPS, [BASE])
    (trial,) = found.trials
    assert (trial.verdict, trial.closed, trial.before, trial.share) == (Verdict.PROVEN, 1.0, 0.0, 1.0)
    assert (found.runs, found.rest_share, found.deviating) == (1, 0.0, 0)
    assert set(plans[0].steps) == {0, 1, 2}
    assert set(plans[0].steps[0].calls) == {"Functional.layer_norm.0.forward", "Functional.layer_norm.0.backward"}
    answer = answer_of(found)
    assert (answer.state, answer.first.kind.code, exit_code(found)) == ("differs", "MSP871", 1)
    assert answer.first.fields["share"] == 1.0


def test_a_graft_that_changes_nothing_has_no_effect_and_the_calls_are_halved(proof):
    found, plans = proof(EPS, [EPS])
    assert {trial.verdict for trial in found.trials} == {Verdict.NO_EFFECT}
    assert any(trial.is_halving for trial in found.trials)
    assert len(plans) == found.runs <= 8
    assert found.rest_share == 1.0
    assert [each.kind.code for each in answer_of(found).findings] == ["MSP873"]


def test_no_more_runs_than_the_budget(proof):
    found, plans = proof(EPS, [EPS], budget=2)
    assert (len(plans), found.runs, found.is_exhausted) == (2, 2, True)


def test_equal_runs_have_nothing_to_prove(proof):
    found, plans = proof(BASE, [BASE])
    assert found.is_clean
    assert not plans
    assert (answer_of(found).state, exit_code(found)) == ("clean", 0)
    assert list(lines(found))[-1].startswith("nothing to prove")


def test_the_table_has_a_row_for_each_run(proof):
    found, _ = proof(EPS, [BASE])
    head, none, row, *_ = lines(found)
    assert head.split() == ["graft", "loss", "gap", "gradient", "gap", "update", "gap", "closure", "verdict"]
    assert none.startswith("none ")
    assert row.split()[-5:] == ["0", "0", "0", "100%", "proven"]


def rows_of(page):
    """The rows of a page's only table."""
    (table,) = page.head.tables
    return unpacked(page.chunks.held[table.chunk - 1])["rows"]


def test_the_page_has_the_answer_and_a_row_for_each_run(proof, tmp_path):
    found, _ = proof(EPS, [BASE])
    page = page_of(found, "msprobe graft")
    assert (page.head.kind, page.head.answer.first.kind.code) == ("graft", "MSP871")
    assert [each.rows for each in page.head.tables] == [2]
    none, run = rows_of(page)
    gap = [found.gap.loss, found.gap.gradients, found.gap.updates]
    assert none[1:] == [*gap, None, None]
    assert run[1:] == [0.0, 0.0, 0.0, "100%", ["proven"]]
    page.write(tmp_path / "proof.html")
    assert (tmp_path / "proof.html").stat().st_size < 1_000_000


def test_the_page_of_an_estimate_has_how_much_was_replayed_and_reached(proof):
    found, _ = proof(EPS, [BASE])
    (trial,) = found.trials
    estimate = Estimate(12, (), (), losses=(1, 1), gradients=(3, 4), covered=1.0, is_judged=True)
    gap = gap_of_parts({"loss": (1.0, 16.0), "weight": (4.0, 16.0)})
    trial = replace(trial, estimate=estimate, gap=gap, verdict=Verdict.LIKELY)
    none, run = rows_of(page_of(replace(found, is_estimate=True, trials=(trial,)), "msprobe graft"))
    assert none[4:] == [None, None, None, None]
    assert run[1:] == [0.25, 0.5, None, "100%", ["likely cause (estimated)"], 12, ["{reached} of {every}", "4", "5"]]


def test_a_run_that_is_another_training_is_noted(proof, tmp_path):
    found, _ = proof(EPS, [RUNS / "permuted"])
    assert found.deviating > 0


def test_a_run_without_the_digests_of_the_target_is_no_other_training(tmp_path):
    target = write_run(tmp_path / "target", **SMALL | LOSS)
    for file in target.glob("step*/rank0/dump.json"):
        contents = json.loads(file.read_text())
        for record in contents["data"]["Module.fc.Linear.forward.0"]["output"]:
            record["md5"] = "crc32c:00000000"
        file.write_text(json.dumps(contents))
    golden = write_run(tmp_path / "golden", **SMALL)
    study = studied(target, golden)
    found = prove(study, floor_of(study), lambda plan, what: golden, lambda run: studied(run, golden), 8)
    assert [trial.hypothesis.name for trial in found.proven] == ["Functional.mse_loss.0.forward"]
    assert found.deviating == 0


SMALL = {
    "losses": [3.0, 4.0],
    "weights": [{"weight": [1.0, 1.0]}, {"weight": [1.0, 3.0]}],
    "gradients": [{"weight": [3.0, 0.0]}, {"weight": [0.0, 4.0]}],
}


OUTPUT = {"output": (1.0, 4.0), "gradients": [{"weight": [1.0, 0.0]}, {"weight": [0.0, 4.0]}]}
LOSS = {"losses": [5.0, 6.0]}


def test_of_two_faults_each_is_judged_by_what_remains_without_it(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    both = write_run(tmp_path / "both", **SMALL | OUTPUT | LOSS)
    left = [write_run(tmp_path / "loss", **SMALL | LOSS), golden, write_run(tmp_path / "output", **SMALL | OUTPUT)]
    study, plans = studied(both, golden), []

    def train(plan, what):
        plans.append(plan)
        return left[len(plans) - 1]

    found = prove(study, floor_of(study), train, lambda run: studied(run, golden), 8)
    first, second = "Module.fc.Linear.forward.0", "Functional.mse_loss.0.forward"
    assert [trial.hypothesis.name for trial in found.proven] == [first, second]
    # The greatest measure is the loss, of which the first fault has no share.
    assert [trial.share for trial in found.kept] == [0.0, 1.0]
    assert [trial.closed for trial in found.kept] == [1.0, 1.0]
    assert sum(trial.share for trial in found.kept) + found.rest_share == pytest.approx(1.0)
    calls = [set(plan.steps[0].calls) for plan in plans]
    assert first in calls[0] - calls[2]
    assert second in calls[1] & calls[2]


def test_without_a_finding_there_is_nothing_to_prove_and_the_gap_is_told(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    rounded = {"output": (1.0000002, 2.0), "gradients": [{"weight": [3.0000005, 0.0]}, {"weight": [0.0, 4.0]}]}
    study = studied(write_run(tmp_path / "target", **SMALL | rounded), golden)
    assert not list(study.findings)
    found = prove(study, Floor(1e-9, 1e-9, 1e-9, FloorSource.REPEATED), None, None, 8)
    assert (found.is_clean, found.runs, exit_code(found)) == (True, 0, 0)
    assert not found.gap.is_noise(found.floor)
    estimated = replace(found, is_estimate=True)
    assert (estimated.is_clean, exit_code(estimated)) == (False, 1), "its finding may be in another step"
    last = list(lines(found))[-1]
    assert "found nothing that differs beyond noise, although the runs differ" in last
    assert "gradients 9.5e-08" in last  # two units of rounding of 3 in float32, 2**-21, divided by 5


def proof_of_calls(target, golden, left, calls):
    """The proof for calls that the user names, if the runs leave these dumps in turn."""
    study, runs = studied(target, golden), iter(left)
    given = named_by_user(study, calls)
    return prove(study, floor_of(study), lambda plan, what: next(runs), lambda run: studied(run, golden), 8, given)


@pytest.mark.always
def test_a_named_call_is_proven_if_what_is_before_it_closes_nothing(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    target = write_run(tmp_path / "target", **SMALL | LOSS)
    found = proof_of_calls(target, golden, [golden, target], ["Functional.mse_loss.0"])
    (trial,) = found.trials
    assert (trial.hypothesis.name, trial.verdict) == ("Functional.mse_loss.0.forward", Verdict.PROVEN)
    assert (trial.closed, trial.before, trial.share, found.runs) == (1.0, 0.0, 1.0, 2)
    assert [str(each) for each in answer_of(found).first.evidence] == ["named by --calls"]


@pytest.mark.always
def test_a_named_call_after_the_cause_is_not_proven(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    target = write_run(tmp_path / "target", **SMALL | OUTPUT | LOSS)
    found = proof_of_calls(target, golden, [golden, golden], ["Functional.mse_loss.0.backward"])
    (trial,) = found.trials
    assert (trial.verdict, trial.closed, trial.before, trial.share) == (Verdict.CONTRIBUTES, 1.0, 1.0, None)
    assert found.rest_share == 1.0
    assert not found.proven


def test_a_named_call_that_closes_nothing_has_no_effect_and_the_next_is_tested(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    target = write_run(tmp_path / "target", **SMALL | LOSS)
    names = ["Module.fc.Linear.forward.0", "Functional.mse_loss.0.forward.output.0"]
    found = proof_of_calls(target, golden, [target, golden, target], names)
    assert [trial.verdict for trial in found.trials] == [Verdict.NO_EFFECT, Verdict.PROVEN]


def test_a_named_call_that_is_not_tested_because_no_gap_is_left_is_listed(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    target = write_run(tmp_path / "target", **SMALL | LOSS)
    names = ["Functional.mse_loss.0.forward", "Module.fc.Linear.forward.0"]
    found = proof_of_calls(target, golden, [golden, target], names)
    assert (len(found.trials), found.untested) == (1, ("Module.fc.Linear.forward.0",))
    assert "not tested, because no gap is left: Module.fc.Linear.forward.0" in "\n".join(lines(found))


@pytest.mark.parametrize(("name", "words"), [("mse", "did you mean"), ("Torch.conv2d.0", "there are|did you mean")])
def test_a_name_that_no_call_has_is_refused(tmp_path, name, words):
    golden = write_run(tmp_path / "golden", **SMALL)
    study = studied(write_run(tmp_path / "target", **SMALL | LOSS), golden)
    with pytest.raises(UsageError, match=f"no call is named '{name}'; ({words})"):
        named_by_user(study, [name])


def test_a_graft_without_which_nothing_remains_is_not_kept(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    harmless = {"output": (1.0, 4.0)}
    target = write_run(tmp_path / "target", **SMALL | harmless | LOSS)
    left = iter(
        [write_run(tmp_path / "loss", **SMALL | LOSS), golden, write_run(tmp_path / "other", **SMALL | harmless)]
    )
    study = studied(target, golden)
    found = prove(study, floor_of(study), lambda plan, what: next(left), lambda run: studied(run, golden), 8)
    assert [(trial.hypothesis.name, trial.share) for trial in found.kept] == [("Functional.mse_loss.0.forward", 1.0)]
    assert [trial.verdict for trial in found.trials] == [Verdict.NO_EFFECT, Verdict.PROVEN]


def test_of_two_grafts_that_close_the_same_one_is_kept(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    update = {"weights": [{"weight": [1.0, 1.0]}, {"weight": [1.0, 9.0]}]}
    target = write_run(tmp_path / "target", **SMALL | {"output": (1.0, 4.0)} | LOSS | update)
    left = [write_run(tmp_path / "output", **SMALL | LOSS | update), write_run(tmp_path / "loss", **SMALL | update)]
    left += [golden, golden, target]  # with all grafts, without that of the loss, and without both
    study, plans = studied(target, golden), []

    def train(plan, what):
        plans.append({name for step in plan.steps.values() for name in (*step.calls, *step.parameters)})
        return left[len(plans) - 1]

    found = prove(study, floor_of(study), train, lambda run: studied(run, golden), 8)
    output, loss = "Module.fc.Linear.forward.0", "Functional.mse_loss.0.forward"
    assert [trial.hypothesis.finding.kind.code for trial in found.kept] == ["MSP101", "MSP105"]
    assert [plan & {output, loss} for plan in plans] == [{output}, {output, loss}, {output, loss}, {output}, set()]


@pytest.mark.always
def test_of_two_grafts_the_first_is_where_the_cause_begins_if_the_second_closes_all_and_the_first_a_part(tmp_path):
    """Such as a wrong tensor that two calls take: what replaces the results of the second replaces all of it."""
    golden = write_run(tmp_path / "golden", **SMALL)
    target = write_run(tmp_path / "target", **SMALL | {"output": (1.0, 4.0)} | LOSS)
    partly = write_run(
        tmp_path / "partly", **SMALL | {"losses": [4.5, 5.5]}
    )  # of the difference of 2 it closes a quarter
    left = iter([partly, golden, golden])
    study = studied(target, golden)
    found = prove(study, floor_of(study), lambda plan, what: next(left), lambda run: studied(run, golden), 8)
    (trial,) = found.proven
    assert (trial.hypothesis.name, trial.hypothesis.covers) == (
        "Module.fc.Linear.forward.0",
        ("Functional.mse_loss.0.forward",),
    )
    assert (trial.closed, trial.before, trial.share, trial.hypothesis.number) == (1.0, 0.0, 1.0, 2)
    assert {name for name, _ in trial.hypothesis.graft.values} >= {
        "Module.fc.Linear.forward.0",
        "Functional.mse_loss.0.forward",
    }
    assert found.runs == 3


@pytest.mark.always
def test_another_graft_of_a_finding_is_tried_if_the_first_closes_a_part_and_nothing_else_the_rest(tmp_path):
    """The parameters of one step close three quarters; those of all steps, which are tested next, the whole gap."""
    golden = write_run(tmp_path / "golden", **SMALL)
    weights = [{"weight": [9.0, 1.0]}, {"weight": [9.0, 3.0]}]
    target = write_run(tmp_path / "target", **SMALL | LOSS | {"weights": weights})
    partly = write_run(tmp_path / "partly", **SMALL | {"losses": [3.5, 4.5]})
    study, plans = studied(target, golden), []

    def train(plan, what):
        plans.append({number: sorted(step.parameters) for number, step in plan.steps.items() if step.parameters})
        return golden if 1 in plans[-1] else partly

    found = prove(study, floor_of(study), train, lambda run: studied(run, golden), 8)
    assert plans[0] == {0: ["fc.weight"]}
    assert plans[-1] == {0: ["fc.weight"], 1: ["fc.weight"]}
    (kept,) = found.kept
    assert (kept.closed, kept.verdict, kept.share, found.rest_share) == (1.0, Verdict.PROVEN, 1.0, 0.0)
    assert not any(trial.is_halving for trial in found.trials)


@pytest.mark.always
def test_a_graft_has_the_counterparts_of_the_comparison_that_found_it(tmp_path):
    """The run with the first graft makes a call that the target did not make."""

    def write_branch(run, scaled, sign=None):
        calls = Calls(run)
        x = calls.forward("mul.0", scaled, ([1.0, 3.0], "leaf"))
        if sign is not None:
            x = calls.forward("neg.0", [sign * each for each in x[0]], x)
        calls.forward("mse.0", sum(x[0]), x)
        calls.backward("mse.0", 1.0, [1.0, 1.0])
        return calls.write()

    golden = write_branch(tmp_path / "golden", [2.0, 6.0], -1.0)
    target = write_branch(tmp_path / "target", [3.0, 9.0])
    left = [write_branch(tmp_path / "left", [2.0, 6.0], -2.0), golden]
    study, plans = studied(target, golden), []

    def train(plan, what):
        plans.append(set(plan.steps[0].calls))
        return left[min(len(plans), len(left)) - 1]

    prove(study, floor_of(study), train, lambda run: studied(run, golden), 2)
    assert plans == [{"Functional.mul.0.forward"}, {"Functional.mul.0.forward", "Functional.neg.0.forward"}]


@pytest.mark.always
def test_a_training_that_fails_with_a_result_of_another_shape_closes_nothing(tmp_path):
    """The next call may need the target's shape."""

    def write_repeated(run, times):
        calls = Calls(run)
        x = calls.forward("repeat.0", [1.0, 2.0] * times, ([1.0, 2.0], "leaf"))
        calls.forward("mse.0", 5.0 * times, calls.forward("sum.0", 3.0 * times, x))
        calls.backward("mse.0", 1.0, 1.0)
        calls.backward("sum.0", 1.0, [1.0, 1.0] * times)
        calls.backward("repeat.0", [1.0, 1.0] * times, [1.0 * times, 1.0 * times])
        return calls.write()

    study = studied(write_repeated(tmp_path / "target", 1), write_repeated(tmp_path / "golden", 2))

    def train(plan, what):
        if any(value.is_resized for call in plan.steps[0].calls.values() for value in call.values.values()):
            raise CommandFailedError("the training ended with exit code 1")
        return study.target

    found = prove(study, floor_of(study), train, lambda run: studied(run, study.golden), 8)
    assert {trial.verdict for trial in found.trials} == {Verdict.NO_EFFECT}
    assert not found.proven
    assert any(trial.hypothesis.graft.is_resizing for trial in found.trials)

    def fails(plan, what):
        raise CommandFailedError("the training ended with exit code 1")

    other = studied(write_run(tmp_path / "other", **SMALL | LOSS), write_run(tmp_path / "small", **SMALL))
    with pytest.raises(CommandFailedError):
        prove(other, floor_of(other), fails, None, 8)


COARSE = Floor(1e-4, 1e-4, 1e-2, FloorSource.MODEL, most=0.1)
"""The floor of a pair of which one side computes in TF32."""


def of_rounding(run, part, golden):
    """The study of a run whose gradients differ by `part` of their norm, which is 5, without what the comparison finds:
    these few calls tell it nothing of the precision."""
    gradients = [{"weight": [3.0, 5 * part]}, {"weight": [0.0, 4.0]}]
    write_run(run, **SMALL | {"output": (1.0, 2.0001), "gradients": gradients})
    study = studied(run, golden)
    nothing = (replace(one.result, located=replace(one.result.located, findings=())) for one in study.steps)
    return replace(
        study, steps=tuple(replace(one, result=each) for one, each in zip(study.steps, nothing, strict=True))
    )


@pytest.mark.always
@pytest.mark.parametrize(("part", "closed"), [(0.02, 1.0), (0.2, 1 - (0.2 - 0.1) / (0.5 - 0.1))])
def test_a_run_without_findings_shows_the_noise_of_a_coarser_precision(tmp_path, part, closed):
    """Twice its gap, but at most the noise of that precision."""
    golden = write_run(tmp_path / "golden", **SMALL)
    output = {"output": (1.0, 4.0), "gradients": [{"weight": [3.0, 2.5]}, {"weight": [0.0, 4.0]}]}
    study = studied(write_run(tmp_path / "target", **SMALL | output), golden)
    left = of_rounding(tmp_path / "left", part, golden)
    found = prove(study, COARSE, lambda plan, what: left.target, lambda run: left, 1)
    assert found.floor.source is FloorSource.JUDGED
    assert found.floor.gradients == pytest.approx(min(0.1, 2 * part))
    assert found.trials[0].closed == pytest.approx(closed)
    given = named_by_user(study, ["Module.fc.Linear.forward.0"])
    named = prove(study, COARSE, lambda plan, what: left.target, lambda run: left, 1, given)
    assert (named.floor, named.trials[0].closed) == (found.floor, found.trials[0].closed)


@pytest.mark.always
def test_a_run_with_another_finding_shows_no_noise(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    study = studied(write_run(tmp_path / "target", **SMALL | OUTPUT | LOSS), golden)
    left = write_run(tmp_path / "left", **SMALL | {"output": (1.0, 2.0001)} | LOSS)
    found = prove(study, COARSE, lambda plan, what: left, lambda run: studied(run, golden), 1)
    assert found.floor == COARSE


def test_a_gap_as_small_as_that_of_a_run_without_findings_is_noise(tmp_path):
    golden = write_run(tmp_path / "golden", **SMALL)
    output = {"output": (1.0, 4.0), "gradients": [{"weight": [3.0, 0.2]}, {"weight": [0.0, 4.0]}]}
    study = studied(write_run(tmp_path / "target", **SMALL | output), golden)
    left = of_rounding(tmp_path / "left", 0.03, golden)
    found = prove(study, COARSE, lambda plan, what: left.target, lambda run: left, 8)
    assert (found.is_clean, found.runs, exit_code(found)) == (True, 1, 0)
    assert "twice the gap of a run in which the comparison finds nothing" in "\n".join(lines(found))
