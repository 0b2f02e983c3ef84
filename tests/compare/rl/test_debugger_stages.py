"""Roots that `debugger.stage(name)` left: stages of any names, no key data, no table that tells their order."""

import json
import shutil

import numpy as np
import pytest

from msprobe.cli import main

pytestmark = pytest.mark.part(3)

WRONG = {"made": (2.0, 3.5, 4.5)}
OTHER_INPUT = {"inputs": 7.0, "made": (8.0, 9.0, 10.0)}
NORM = "Cell.norm.LayerNorm.forward.0"
LINES = {"sample": 30, "score": 34, "learn": 38}


@pytest.fixture
def runs(roots):
    """`runs(step=..., sample=WRONG)`: the three stages of a step in both roots, with faults in the target's.

    The lines of their calls tell their order, which is not that of the alphabet; `lines` are others, or none.
    """
    for root in roots:
        (root.path / "configurations.json").unlink()

    def make(step=0, rank=0, lines=LINES, **faults):
        for at, root in enumerate(roots):
            for stage in LINES:
                fault = {} if at else faults.get(stage, {})
                if fault is None:
                    continue
                root.dump(stage, step, rank, **fault)
                frames = ["File /train/policy.py, line 7, in construct, \n x"]
                frames += ["File /py/site-packages/mindspore/nn/cell.py, line 9, in __call__, \n y"]
                frames += [f"File /train/train.py, line {lines[stage]}, in main, \n z"] if stage in lines else []
                frames += ["File /train/train.py, line 99, in <module>, \n main()"]
                stack = root.path / stage / f"step{step}" / f"rank{rank}" / "stack.json"
                stack.write_text(json.dumps({"0": [list(json.loads(stack.read_text())["0"][0]), frames]}))
        return roots

    return make


def order(lines):
    (printed,) = [line for line in lines if line.startswith("order of the stages in a step")]
    return printed


def test_equal_runs_have_no_difference(runs, compare):
    for step in range(2):
        runs(step)
    code, lines, whole = compare()
    assert code == 0
    assert (
        lines[-1] == "no difference: 42 pairs judged, 0 unjudged"
    )  # 2 steps of 3 stages of 3 calls: 6 tensors, 1 weight
    assert [stage["stage"] for stage in whole["stages"]] == ["sample", "score", "learn"]


@pytest.mark.sample(3)
@pytest.mark.parametrize("stage", LINES)
@pytest.mark.parametrize("step", [0, 1])
def test_the_stage_the_step_and_the_call_are_named(stage, step, runs, compare, summary):
    """Everything after the fault is given what differs, and is not named."""
    for number in range(2):
        after = [name for name in LINES if LINES[name] > LINES[stage]] if number == step else []
        runs(number, **dict.fromkeys(after, OTHER_INPUT), **({stage: WRONG} if number == step else {}))
    code, lines, whole = compare()
    assert code == 1
    assert summary(lines)["first difference"] == f"step {step}, rank 0, stage {stage}, call {NORM}"
    assert (
        summary(lines)["why"] == "the difference starts here, as far as the dump shows: all inputs of the call agrees"
    )
    assert summary(lines)["first wrong call"].startswith(f"{NORM} in the root: computes differently: ")
    assert lines[-1].startswith("first wrong call: "), "no other difference begins"
    roles = {(at["step"], at["stage"]): at["role"] for at in whole["walk"]}
    assert [roles[step, name] for name in after] == ["received"] * len(after)
    assert order(lines) == "order of the stages in a step, by the lines that call them: sample, score, learn"


def test_input_that_differs_behind_a_stage_that_agrees_is_of_the_code_between(runs, compare, summary):
    runs(score=OTHER_INPUT)
    result = summary(compare()[1])
    assert result["why"] == (
        "the stage received different input, although the stage sample before it agrees: the difference comes "
        "from host code between the stages"
    )
    assert result["look at"] == "the code between sample and score"


def test_input_that_differs_before_all_stages_is_of_the_data(runs, compare, summary):
    runs(0)
    runs(1, **dict.fromkeys(LINES, OTHER_INPUT))
    result = summary(compare()[1])
    assert result["first difference"].startswith("step 1, rank 0, stage sample, ")
    assert result["look at"].startswith("the data of step 1, ")


def test_weights_that_differ_behind_stages_that_agree_are_of_the_optimizer(runs, compare, summary):
    runs(0)
    runs(1, sample={"weight": 11.5, "made": (2.0, 3.5, 4.5)}, learn={"weight": 11.5, "made": (2.0, 3.5, 4.5)})
    _, lines, whole = compare()
    result = summary(lines)
    assert (
        result["why"]
        == "the difference starts before this stage: its weights differ, although every stage of step 0 agrees"
    )
    assert "the optimizer" in result["look at"]
    assert [at["role"] for at in whole["walk"][3:]] == ["begins", "agrees", "received"]


def test_weights_of_a_step_before_that_was_not_collected_are_to_be(runs, compare, summary):
    runs(3, sample={"weight": 11.5, "made": (2.0, 3.5, 4.5)})
    result = summary(compare()[1])
    assert result["why"].endswith("differ since they were loaded or initialized, or since an earlier update")
    assert result["collect it"].endswith("; set step=[2] of the PrecisionDebugger; then run both again")


def test_a_step_before_that_was_not_asked_for_is_not_to_be_collected_again(runs, compare, summary):
    runs(2)
    runs(3, sample={"weight": 11.5, "made": (2.0, 3.5, 4.5)})
    assert summary(compare("--step", "3")[1])["look at"] == (
        "the update of step 2; both sides have a dump of it, which --steps excludes; include this step"
    )


@pytest.mark.parametrize("lines", [{}, dict.fromkeys(LINES, 30)])
def test_where_the_dumps_do_not_tell_the_order_it_is_said_and_what_begins_is_named(lines, runs, compare, summary):
    """By the alphabet `learn` would be first, which only was given what differs."""
    runs(lines=lines, sample=WRONG, score=OTHER_INPUT, learn=OTHER_INPUT)
    _, message, whole = compare()
    assert "the dumps for learn, sample, score" in order(message)
    assert summary(message)["first difference"].startswith("step 0, rank 0, stage sample, ")
    assert [at["role"] for at in whole["walk"]] == ["begins", "received", "received"]


def test_without_an_order_other_input_is_not_blamed_on_a_stage(runs, compare, summary):
    runs(lines={}, score=OTHER_INPUT)
    assert summary(compare()[1])["why"] == (
        "the stage received different input, and it is unknown from the dumps which stage runs before it"
    )


def test_without_an_order_all_stages_that_were_given_other_input_are_named(runs, compare, summary):
    runs(lines={}, score=OTHER_INPUT, learn=OTHER_INPUT)
    _, lines, whole = compare()
    assert summary(lines)["why"] == (
        "the stages learn and score received different input, and it is unknown from the dumps which of them runs first"
    )
    assert [at["through"] for at in whole["walk"]] == [[]] * 3, "nothing is said to come before another"


def test_a_key_of_an_unknown_name_before_the_step_of_the_stages_is_to_be_collected(runs, roots, compare, summary):
    runs(1, score=WRONG)
    for at, root in enumerate(roots):
        for step in range(2):
            root.save(step, keys={"score_out": np.array([1.0 + at], np.float32)})
        for stage in LINES:
            as_debugger(root, stage, 1)
    _, lines, _ = compare()
    assert summary(lines)["first difference"].startswith("step 0, rank 0, key score_out ")
    assert summary(lines)["collect it"] == (
        "the stages of step 0, which were not dumped; set step=[0] of the PrecisionDebugger; then run both again"
    )
    assert f"another difference: step 1, rank 0, stage score, call {NORM} in the root: computes differently" in lines


def test_two_runs_that_tell_different_orders_tell_none(runs, roots, compare):
    runs()
    stack = roots[0].path / "sample/step0/rank0/stack.json"
    stack.write_text(stack.read_text().replace("line 30, in main", "line 50, in main"))
    assert "the dumps" in order(compare()[1])


def say_turns(root, turns, step=0, rank=0):
    """The dumps say as which stage of their step they were begun."""
    for stage, turn in turns.items():
        file = root.path / stage / f"step{step}" / f"rank{rank}" / "dump.json"
        dump = {"run": {}, **json.loads(file.read_text())}
        dump["run"]["stage"] = turn
        file.write_text(json.dumps(dump))


@pytest.mark.parametrize("lines", [{}, dict.fromkeys(LINES, 30), {"learn": 30, "score": 34, "sample": 38}])
def test_dumps_that_say_their_turn_tell_the_order_whatever_the_lines(lines, runs, roots, compare, summary):
    """By the alphabet, or by the last of these lines, `learn` would be first, which only was given what differs."""
    runs(lines=lines, sample=WRONG, score=OTHER_INPUT, learn=OTHER_INPUT)
    for root in roots:
        say_turns(root, {"sample": 0, "score": 2, "learn": 3})  # 1 is of a stage that is gone
    _, message, whole = compare()
    assert order(message) == "order of the stages in a step: sample, score, learn"
    assert [at["stage"] for at in whole["walk"]] == ["sample", "score", "learn"]
    assert summary(message)["first difference"].startswith("step 0, rank 0, stage sample, ")


@pytest.mark.parametrize("turns", [{"sample": 0, "score": 1}, dict.fromkeys(LINES, 0), dict.fromkeys(LINES, "0")])
def test_where_not_all_dumps_say_their_turn_the_lines_tell_the_order(turns, runs, roots, compare):
    """An older dump among them; debuggers of their own, of which each counts its own stages; what is no number."""
    for root in runs():
        say_turns(root, turns)
    assert order(compare()[1]).endswith(", by the lines that call them: sample, score, learn")


def test_beside_an_older_run_the_newer_one_tells_unless_they_contradict_each_other(runs, roots, compare):
    runs()
    say_turns(roots[0], {"sample": 0, "score": 1, "learn": 2})
    assert order(compare()[1]) == "order of the stages in a step: sample, score, learn"
    say_turns(roots[0], {"sample": 2, "score": 1, "learn": 0})
    assert "the dumps" in order(compare()[1])


def test_two_models_called_at_one_line_are_in_no_order(runs, roots, compare):
    """A loop over stages: the stacks part in the framework, at two functions of one name."""
    runs(lines=dict.fromkeys(LINES, 30))
    for root in roots:
        for at, stage in enumerate(LINES):
            stack = root.path / stage / "step0/rank0/stack.json"
            stack.write_text(stack.read_text().replace("line 7, in construct", f"line {7 + at}, in construct"))
    assert "the dumps" in order(compare()[1])


def test_stages_of_one_side_are_said(runs, compare, summary):
    runs(learn=None, score=WRONG)
    code, lines, _ = compare()
    assert code == 1
    assert "missing: stage learn has a dump only on the golden side" in lines
    assert summary(lines)["first difference"].startswith("step 0, rank 0, stage score, ")


def test_stages_without_one_in_common_are_refused_with_their_names(roots, runs, compare):
    runs(sample=None, learn=None)
    shutil.rmtree(roots[1].path / "score")
    code, lines, _ = compare()
    assert code == 2
    for stage, one in (("sample", "golden"), ("learn", "golden"), ("score", "target")):
        assert f"stage {stage} has a dump only on the {one} side" in lines[0]


def test_the_earliest_stage_counts_over_all_ranks(runs, compare, summary):
    runs(0, 0, learn=WRONG)
    runs(0, 1, sample=WRONG)
    result = summary(compare()[1])
    assert result["first difference"].startswith("step 0, rank 1, stage sample, ")


def test_what_the_debugger_itself_collected_is_walked_too(runs, roots, compare, summary, tmp_path):
    """`step0/rank0` beside the stages; a run of such steps alone counts as a root beside it."""
    for root, fault in zip(runs(), (WRONG, {}), strict=True):
        root.dump("", **fault)
    code, lines, whole = compare()
    assert code == 1
    assert summary(lines)["first difference"] == (
        f"step 0, rank 0, the debugger itself (outside its stages), call {NORM}"
    )
    assert len(whole["stages"]) == 4
    assert (tmp_path / "out/debugger_itself/step0").is_dir()
    for stage in LINES:
        shutil.rmtree(roots[1].path / stage)
    code, lines, whole = compare()
    assert code == 1
    assert len([line for line in lines if line.startswith("missing: stage ")]) == 3
    assert summary(lines)["first wrong call"].startswith(NORM)


def test_a_plain_run_beside_stages_is_refused(runs, roots, compare, tmp_path, capfd):
    runs()
    assert main(["compare", str(roots[0].path), str(roots[1].path / "score"), "-o", str(tmp_path / "out")]) == 2
    logged = capfd.readouterr().err
    assert "the inputs are of different kinds" in logged
    assert "as ROOT/learn" in logged


def test_a_stage_of_a_known_name_has_its_place_and_the_others_theirs_around_it(roots, compare):
    """`generate` is the flow's; `judge` is called behind it and before `update`."""
    for root in roots:
        for line, stage in enumerate(("generate", "judge", "update")):
            root.dump(stage)
            stack = root.path / stage / "step0/rank0/stack.json"
            stack.write_text(stack.read_text().replace("line 7,", f"line {7 + line},"))
    whole = compare()[2]
    assert [at["stage"] for at in whole["walk"]] == ["generate", "judge", "update"]


def as_debugger(root, stage, step=0):
    """A rank without a number, as a debugger without communication calls it."""
    folder = root.path / stage / f"step{step}"
    (folder / "rank0").rename(folder / "rank")


@pytest.mark.parametrize("existing", ["sample", "actor_update"])
def test_who_collects_by_stages_is_told_of_stages(existing, roots, compare, changed, summary):
    for root in roots:
        (root.path / "configurations.json").unlink()
        root.save(1).dump(existing, 1)
        as_debugger(root, existing, 1)
    roots[0].save(1, ref_log_prob=changed("ref_log_prob", (0, 0), -1.5))
    _, lines, whole = compare()
    name = "reference_compute_log_prob"
    assert summary(lines)["collect it"] == (
        f'put debugger.stage("{name}").start(model) before this part of the step and '
        f'debugger.stage("{name}").stop() after it, with step=[1] of the PrecisionDebugger; then run both again'
    )
    assert whole["first_difference"]["collect"] == {"stage": name, "step": [1]}


def test_who_collects_by_stages_is_told_the_tokens_and_the_name_of_the_stage(roots, compare, summary):
    """The stage is there under a name of the user's, of another step; tokens of sample 1 differ from 1 on."""
    for root in roots:
        (root.path / "configurations.json").unlink()
        root.dump("rollout", 0)
        as_debugger(root, "rollout")
        root.save(0)
    roots[0].save(1, responses=np.array([[5, 6, 0], [8, 0, 10]], np.int32))
    roots[1].save(1)
    _, lines, whole = compare()
    assert 'debugger.stage("rollout").start(model, token_range=[1, 1])' in summary(lines)["collect it"]
    assert "_dump: true" not in summary(lines)["collect it"]
    assert whole["first_difference"]["collect"] == {"stage": "rollout", "step": [1], "token_range": [1, 1]}


def test_host_code_within_a_stage_is_recorded_by_level_mix_of_the_stage(roots, compare, changed, summary):
    for root in roots:
        root.save().dump("ref")
        as_debugger(root, "ref")
    roots[0].save(ref_log_prob=changed("ref_log_prob", (0, 0), -1.5))
    assert summary(compare()[1])["look at"].endswith(
        'if this code runs before stop(), debugger.stage("ref", level="mix") records its calls'
    )


def test_who_may_collect_by_either_is_told_of_both(roots, compare, changed, summary):
    """A stage as `MsProbe` has it, and one that it does not know."""
    for root in roots:
        root.save().dump("actor_update").dump("reward_model")
    roots[0].save(ref_log_prob=changed("ref_log_prob", (0, 0), -1.5))
    message = summary(compare()[1])["collect it"]
    assert message.startswith("set reference_dump: true, step_start: 0, step_end: 0, if MsProbe collects it; or put ")
    assert message.endswith(", if debugger.stage collects it; then run both again")


def test_a_wrong_call_in_a_stage_of_an_own_name_is_told_beside_the_key(roots, compare, changed, summary):
    roots[0].save(ref_log_prob=changed("ref_log_prob", (0, 0), -1.5)).dump("teacher", **WRONG)
    roots[1].save().dump("teacher")
    assert (
        f"; stage teacher has a dump of this step, in which a difference also starts: first wrong call: {NORM} in "
        "the root: computes differently" in summary(compare()[1])["why"]
    )
