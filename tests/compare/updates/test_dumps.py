"""Parameters of later steps in dumps: read, judged by their updates, and told in the answer of a whole run."""

import json
import shutil

import numpy as np
import pytest
from optimizers import NAMES, SHAPES, Optimizer, train

from msprobe.cli import main
from msprobe.compare.core.reason import Why
from msprobe.compare.jobs.outcome import around, read_steps
from msprobe.compare.jobs.plan import plan
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.finding import Basis, UpdateCause
from msprobe.compare.run import compare
from msprobe.compare.updates.explained import Updates
from msprobe.compare.updates.tracks import parameter_pairs
from msprobe.findings.catalogue import comparison as kinds
from msprobe.store.reader import read

STEPS = 3
NOISE = 5e-3


@pytest.fixture
def recorded(builder, tensor, tmp_path):
    """`recorded("target", noise=..., lr=...)` writes a run of a network with one cell for each parameter."""

    def make(side, mode="tensor", noise=0.0, steps=range(STEPS), **settings):
        weights, gradients = train(Optimizer(**settings), STEPS, noise)
        for step in steps:
            made = builder(side, mode=mode)
            made.folder = tmp_path / side / f"step{step}" / "rank"
            made.extra["step"] = step
            for name in NAMES:
                call = f"Cell.{name}.Dense.forward.0"
                made.call(call, [1.0], [2.0], parameters={"weight": tensor(weights[step][name])})
            for name in reversed(NAMES):
                gradient = tensor(gradients[step][name])
                made.gradients(f"Cell.{name}.Dense.parameters_grad", weight=gradient)
            made.write()
        return tmp_path / side

    return make


def judged(target, golden, step, before=None):
    """The judgement of one step, with those before it, or fewer."""
    steps = [[read(side / f"step{n}") for side in (target, golden)] for n in range(step + 1)]
    known = steps[:step] if before is None else steps[step - before : step]
    updates = Updates(lambda: [tuple(pair) for pair in known])
    comparison = compare(*steps[step], settle=updates.settle)
    return updates.judgement, comparison


def names(found):
    return tuple(name.removesuffix(".weight") for name in found)


def test_a_drift_passes_and_says_why(recorded):
    found, comparison = judged(recorded("target", noise=NOISE), recorded("golden"), 2)
    assert names(found.agreeing) == NAMES
    assert {v.basis for v in found.verdicts} == {Basis.SETTINGS}
    rows = [j for call in comparison.calls for j in call.judged if j.pair.record.part == "parameters"]
    assert {j.grade for j in rows} == {"pass"}
    assert {j.equal for j in rows} == {False}
    assert all("the golden" in j.verdict.reason for j in rows)


def test_a_wrong_setting_is_found_in_dumps(recorded):
    found, comparison = judged(recorded("target", noise=NOISE, b2=0.95), recorded("golden"), 2)
    (difference,) = found.differences
    assert (difference.cause, names(difference.parameters)) == (UpdateCause.BETA2, NAMES)
    rows = [j for call in comparison.calls for j in call.judged if j.pair.record.part == "parameters"]
    assert "error" in {j.grade for j in rows}


def test_an_update_that_differs_is_an_error_however_near_the_weights_are(recorded):
    settings = {"rule": "adamw", "wd": 0.1}
    golden = recorded("golden", **settings, undecayed=("gain", "shift", "bias"))
    found, comparison = judged(recorded("target", noise=NOISE, **settings, undecayed=("shift", "bias")), golden, 1)
    assert names(found.differing) == ("gain",)
    judged_rows = (j for call in comparison.calls for j in call.judged)
    (row,) = (j for j in judged_rows if j.pair.record.name == "Cell.gain.Dense.forward.0.parameters.weight")
    assert (row.grade, row.verdict.reasons[0].why) == ("error", Why.UPDATE_DIFFERS)
    assert not comparison.is_clean
    assert locate(comparison).first.kind is kinds.PARAMETERS


def test_the_step_before_alone_is_held_against_the_gradients(recorded):
    runs = recorded("target", noise=NOISE), recorded("golden")
    found, _ = judged(*runs, 2, before=1)
    assert {v.basis for v in found.verdicts} == {Basis.GRADIENTS}
    assert names(found.agreeing) == NAMES
    found, _ = judged(*runs, 2, before=0)
    assert {v.basis for v in found.verdicts} == {Basis.DRIFT}


def test_statistics_show_a_learning_rate_and_what_is_not_updated(recorded):
    golden = recorded("golden", mode="statistics", rule="sgd", lr=0.1)
    found, _ = judged(recorded("rate", mode="statistics", noise=NOISE, rule="sgd", lr=0.2), golden, 1)
    (difference,) = found.differences
    assert difference.cause is UpdateCause.LEARNING_RATE
    assert difference.factor == pytest.approx(2, rel=0.05)
    target = recorded("frozen", mode="statistics", noise=NOISE, rule="sgd", lr=0.1, skips=("up",))
    found, _ = judged(target, golden, 1)
    (difference,) = found.differences
    assert (difference.cause, names(difference.parameters)) == (UpdateCause.NOT_UPDATED, ("up",))
    found, _ = judged(recorded("clean", mode="statistics", noise=NOISE, rule="sgd", lr=0.1), golden, 1)
    assert not found.differing
    assert {v.basis for v in found.verdicts} == {Basis.STATISTICS}


def test_statistics_show_that_another_setting_differs_where_gradients_hardly_do(recorded):
    golden = recorded("golden", mode="statistics")
    found, comparison = judged(recorded("momentum", mode="statistics", noise=1e-6, b2=0.95), golden, 2)
    (difference,) = found.differences
    assert difference.cause is UpdateCause.UNKNOWN
    assert {v.basis for v in found.verdicts} == {Basis.STATISTICS}
    assert len(difference.parameters) > len(NAMES) / 2
    assert not comparison.is_clean
    found, _ = judged(recorded("clean", mode="statistics", noise=1e-6), golden, 2)
    assert not found.differing
    assert names(found.agreeing) == NAMES


def test_statistics_show_a_learning_rate_that_is_nearer_than_noise_without_gradients(recorded):
    golden = recorded("golden", mode="statistics", rule="sgd", lr=0.1)
    found, _ = judged(recorded("rate", mode="statistics", noise=1e-6, rule="sgd", lr=0.101), golden, 1)
    (difference,) = found.differences
    assert difference.cause is UpdateCause.LEARNING_RATE
    assert difference.factor == pytest.approx(1.01, rel=1e-3)


def test_statistics_take_missing_bias_correction_for_the_simpler_explanation(recorded):
    golden = recorded("golden", mode="statistics")
    found, _ = judged(recorded("uncorrected", mode="statistics", noise=1e-6, corrects=False), golden, 1)
    (difference,) = found.differences
    assert (difference.cause, difference.possible) == (UpdateCause.BIAS_CORRECTION, (UpdateCause.LEARNING_RATE,))
    found, _ = judged(recorded("rate", mode="statistics", noise=1e-6, lr=2e-3), golden, 1)
    (difference,) = found.differences
    assert (difference.cause, difference.possible) == (UpdateCause.LEARNING_RATE, ())


def test_the_first_step_and_equal_parameters_are_judged_as_ever(recorded):
    runs = recorded("target"), recorded("golden")
    assert judged(*runs, 2)[0] is None
    other = recorded("other", lr=2e-3)
    (other / "step0/rank/dump_tensor_data").joinpath("Cell.up.Dense.forward.0.parameters.weight.npy").unlink()
    assert judged(other, runs[1], 0)[0] is None


def test_a_file_that_is_missing_leaves_the_others_judged(recorded):
    target, golden = recorded("target", noise=NOISE), recorded("golden")
    (target / "step1/rank/dump_tensor_data").joinpath("Cell.up.Dense.forward.0.parameters.weight.npy").unlink()
    found, _ = judged(target, golden, 2)
    bases = {v.parameter: v.basis for v in found.verdicts}
    assert bases.pop("up.weight") is Basis.STATISTICS
    assert set(bases.values()) == {Basis.SETTINGS}


def test_the_answer_of_a_run_names_the_setting(recorded, tmp_path, capsys):
    paths = [str(recorded("target", lr=2e-3)), str(recorded("golden"))]
    assert main(["compare", *paths, "-o", str(tmp_path / "out"), "--workers", "1", "--format", "json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "the first is in step 1, rank 0:" in lines
    assert (
        ": parameters differ: the learning rate is 2 times the golden's (0.002, golden 0.001) for 6 of 6 " in lines[-1]
    )
    (file,) = (tmp_path / "out").glob("compare_summary_*.json")
    (first,) = json.loads(file.read_text())["first_wrong"]
    assert (first["kind"], first["step"]) == ("parameters differ", 1)


def test_a_copy_of_a_parameter_on_one_side_is_judged_as_the_parameter(builder, tensor):
    """A layer may cast its parameters before it uses them, so that their origin is code."""
    dumps = []
    weight, other, ones = (np.float32(values) for values in ([1, 2, 3], [5, 6, 7], [1, 1, 1]))
    for side, framework, call, cell in (
        ("target", "mindspore", "Mint.layer_norm.0.forward", "Cell.norm.LayerNorm.forward.0"),
        ("golden", "pytorch", "Functional.layer_norm.0.forward", "Module.norm.LayerNorm.forward.0"),
    ):
        made = builder(side, framework=framework, mode="statistics")
        made.extra["step"] = 1
        is_target = side == "target"
        own = weight * np.float32(1.0001) if is_target else weight
        sources = ("code", "code") if is_target else ("parameter norm.weight", "parameter norm.other")
        inputs = [tensor(ones, "leaf"), tensor(own, sources[0]), tensor(other, sources[1])]
        made.call(call, inputs, [own], parent=cell)
        made.call(cell, inputs[:1], [own], parameters={"weight": tensor(own)})
        dumps.append(made.dump())
    pairs = {pair.golden: pair for pair in parameter_pairs(compare(*dumps))}
    assert list(pairs) == ["norm.weight"]
    names = [compare(*dumps).pairs.pair(row).record.name for row in pairs["norm.weight"].rows]
    assert names == ["Cell.norm.LayerNorm.forward.0.parameters.weight", "Mint.layer_norm.0.forward.input.1"]


def test_steps_around_a_job_are_those_without_a_gap(recorded):
    jobs = plan(recorded("target", steps=(0, 1)), recorded("golden", steps=(0, 1))).jobs
    (none, after), (before, nothing) = around(jobs)
    assert (none, nothing) == ((), ())
    assert after == (jobs[1],)
    assert before == (jobs[0],)
    assert [target.step for target, _ in read_steps(before)] == [0]
    jobs = plan(recorded("t2", steps=(0, 2)), recorded("g2", steps=(0, 2))).jobs
    assert around(jobs) == [((), ()), ((), ())]


@pytest.fixture
def averaged(builder, tensor, tmp_path):
    """`averaged("target", seed, rates)`: two ranks of a training that averages their gradients. Those of the bias are
    opposite numbers, up to rounding."""

    def make(side, seed, **settings):
        draw = np.random.default_rng(0)
        rounding = np.random.default_rng(seed)
        weights = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
        optimizer = Optimizer(**settings)
        for step in range(STEPS):
            gradients = [{name: draw.standard_normal(w.shape) for name, w in weights.items()} for _ in range(2)]
            gradients[1]["bias"] = -gradients[0]["bias"]
            gradients = [
                {
                    name: (g * (1 + 1e-7 * rounding.standard_normal(g.shape))).astype(np.float32)
                    for name, g in of.items()
                }
                for of in gradients
            ]
            for rank, own in enumerate(gradients):
                made = builder(side, mode="tensor")
                made.folder = tmp_path / side / f"step{step}" / f"rank{rank}"
                made.extra["step"] = step
                for name in NAMES:
                    call = f"Cell.{name}.Dense.forward.0"
                    made.call(call, [1.0], [2.0], parameters={"weight": tensor(weights[name])})
                for name in reversed(NAMES):
                    made.gradients(f"Cell.{name}.Dense.parameters_grad", weight=tensor(own[name]))
                made.write()
            weights = optimizer.step(weights, {name: (gradients[0][name] + gradients[1][name]) / 2 for name in NAMES})
        return tmp_path / side

    return make


def updates_of_rank(target, golden, rank=0):
    """The judgement of the updates of one of two ranks."""
    steps = [[read(side / f"step{n}" / f"rank{rank}") for side in (target, golden)] for n in range(2)]
    updates = Updates(lambda: [tuple(steps[0])])
    compare(*steps[1], settle=updates.settle)
    return updates.judgement


def test_a_gradient_that_cancels_out_over_the_ranks_has_no_effect_but_rounding(averaged):
    """Adam makes whole updates of the rounding that is left; each rank alone has a clear gradient."""
    found = updates_of_rank(averaged("target", 1), averaged("golden", 2))
    assert found.differing == ()
    assert "bias" in names(found.agreeing)


def test_the_gradients_of_all_ranks_do_not_excuse_another_rate(averaged):
    found = updates_of_rank(averaged("target", 1, rates={"gain": 1.2}), averaged("golden", 2))
    assert names(found.differing) == ("gain",)


def test_without_the_other_rank_nothing_shows_that_a_gradient_cancels_out(averaged):
    sides = averaged("target", 1), averaged("golden", 2)
    for side in sides:
        for folder in side.glob("step*/rank1"):
            shutil.rmtree(folder)
    assert "bias" in names(updates_of_rank(*sides).differing)
