"""What is looked at in which order, and what the answer is."""

import json
from pathlib import Path

import pytest
from three_cells import HEAD, NORM, Run

from msprobe.base.errors import UsageError
from msprobe.cli import main
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.summary import RequestResult
from msprobe.compare.jobs.survey import Subject, Tally
from msprobe.compare.locate.finding import (
    Argument,
    ArgumentKind,
    Between,
    Computed,
    Dataflow,
    Difference,
    Divergence,
    Missing,
    RunInput,
    Unclear,
)
from msprobe.diagnose.collected import Collection, CollectionPair
from msprobe.diagnose.diagnosis import About, ComparedPair, GapKind, Located, RuledOut, Skipped, Sureness, Verdict
from msprobe.diagnose.walk import inside
from msprobe.findings.catalogue import comparison as kinds
from msprobe.store.reader import Head

CHECKPOINT = Path(__file__).parent.parent / "samples" / "checkpoint" / "net.ckpt"


def ruled_out(found, what):
    return next((each for each in found.ruled_out if each.what is what), None)


def lacks(found):
    return {each.kind for each in found.gaps}


def wrong_norm(run, is_target, **more):
    run.step(wrong={NORM: 0.5} if is_target else None, **more)


KINDS = {
    "L0 statistics": {},
    "L0 digests": {"digests": "md5"},
    "mix statistics": {"level": "mix"},
    "mix tensors": {"level": "mix", "task": "tensor"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [{}, {NORM: 0.5}, {"Functional.sub": 0.5}, {HEAD: 1e-7}])
def test_the_answer_is_the_last_line_of_compare(kind, wrong, sides, tmp_path, capsys):
    target, golden = sides(lambda run, is_target: run.step(wrong=wrong if is_target else None, **KINDS[kind]))
    code = main(["compare", str(target), str(golden), "-o", str(tmp_path / "tables")])
    last = capsys.readouterr().out.splitlines()[-1]
    assert main(["diagnose", str(target), str(golden)]) == code
    page = capsys.readouterr().out.splitlines()
    assert page[:2] == ["Answer", f"  {last}"]


def test_of_steps_and_ranks_the_answer_is_the_last_line_of_compare_too(sides, tmp_path, capsys):
    def fill(run, is_target):
        for step in (0, 1):
            for rank in (0, 1, 2):
                is_wrong = is_target and step == 1 and rank > 0
                run.step(step, rank, wrong={NORM if rank == 2 else HEAD: 0.5} if is_wrong else None)

    target, golden = sides(fill)
    assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "tables")]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert main(["diagnose", str(target), str(golden), "--workers", "1"]) == 1
    assert capsys.readouterr().out.splitlines()[1:3] == [f"  {last}", "  in step 1, rank 2"]


def test_the_first_step_that_differs_is_named_and_those_before_are_ruled_out(found):
    def fill(run, is_target):
        for step in range(4):
            run.step(step, wrong={HEAD: 0.5} if is_target and step > 1 else None)

    made = found(fill)
    assert (made.verdict, made.located.step) == (Verdict.DIFFERS, 2)
    assert made.located.finding.name == f"Cell.{HEAD}.forward.0"
    before = ruled_out(made, About.STEPS)
    # Two steps of four calls: 4 inputs, 1 parameter, 4 outputs.
    assert (before.names, before.calls, before.tally.equal) == (("0", "1"), 8, 18)
    assert before.sureness is Sureness.STATISTICS


def test_what_agrees_before_the_call_is_counted_by_subject(found):
    made = found(
        wrong_norm,
    )
    seen = made.located.survey
    # The embedding's input, and that of the net, which ends behind the call.
    assert seen.whole[Subject.RUN_INPUTS] == Tally(equal=2)
    assert seen.whole[Subject.PARAMETERS] == Tally(equal=1)
    assert seen.before == {
        Subject.RUN_INPUTS: Tally(equal=1),
        Subject.PARAMETERS: Tally(equal=1),
        Subject.FORWARD: Tally(equal=1),
    }
    assert (seen.calls, seen.calls_before, seen.unmatched) == (4, 1, 0)
    assert ruled_out(made, Subject.RUN_INPUTS).tally == Tally(equal=2)
    assert ruled_out(made, About.CALLS_BEFORE).calls == 1
    assert lacks(made) == {GapKind.CALLS_IN_CELLS, GapKind.BACKWARD}


TALLIES = [
    (Tally(equal=3), "tensor", Sureness.BITS),
    (Tally(equal=3, exempt=1), "tensor", Sureness.BITS),
    (Tally(equal=3, noise=1), "tensor", Sureness.NOISE),
    (Tally(equal=3, noise=1, tolerance=1), "tensor", Sureness.TOLERANCE),
    (Tally(equal=3, by_statistics=1), "tensor", Sureness.STATISTICS),
    (Tally(equal=3), "digest", Sureness.DIGESTS),
    (Tally(equal=3), "statistics", Sureness.STATISTICS),
    (Tally(equal=3, tolerance=1), "statistics", Sureness.TOLERANCE),
    (Tally(equal=3, unjudged=1), "tensor", Sureness.OPEN),
]


@pytest.mark.parametrize(("tally", "mode", "weakest"), TALLIES)
def test_something_is_ruled_out_as_surely_as_the_weakest_of_what_supports_it(tally, mode, weakest):
    assert RuledOut(About.ALL_CALLS, tally, mode=mode).sureness is weakest


@pytest.mark.parametrize(
    ("kind", "weakest"),
    [
        ({}, Sureness.STATISTICS),
        ({"digests": "md5"}, Sureness.DIGESTS),
        ({"task": "tensor"}, Sureness.BITS),
    ],
)
def test_how_surely_depends_on_what_was_collected(kind, weakest, found):
    made = found(lambda run, is_target: wrong_norm(run, is_target, **kind))
    assert ruled_out(made, Subject.PARAMETERS).sureness is weakest
    assert ruled_out(made, About.CALLS_BEFORE).sureness is weakest


def test_steps_that_agree_within_tolerance_are_ruled_out_as_surely_as_that(found):
    made = found(lambda run, is_target: [run.step(n, wrong={HEAD: 1e-5} if is_target and n else None) for n in (0, 1)])
    assert made.located.step == 1
    assert made.located.finding.grade == "pass", "after equal ones a difference within tolerance is named"
    assert ruled_out(made, About.STEPS).sureness is Sureness.STATISTICS
    assert ruled_out(made, Subject.PARAMETERS).tally == Tally(equal=1)


def test_ranks_that_agree_are_ruled_out(found):
    def fill(run, is_target):
        for rank in range(4):
            run.step(0, rank, wrong={NORM: 0.5} if is_target and rank == 2 else None)

    made = found(fill)
    assert (made.located.step, made.located.rank) == (0, 2)
    assert ruled_out(made, About.RANKS).names == ("0", "1", "3")


def test_run_inputs_and_parameters_that_differ_are_not_ruled_out(found):
    made = found(lambda run, is_target: run.step(batch=1.5 if is_target else 1.0))
    assert made.located.finding.kind is kinds.RUN_INPUTS
    assert ruled_out(made, Subject.RUN_INPUTS) is None
    assert ruled_out(made, Subject.PARAMETERS).tally == Tally(equal=1)
    assert made.next is None


def test_nothing_differs_is_exit_code_0_and_all_is_ruled_out(found):
    made = found(lambda run, _: [run.step(step, digests="md5") for step in (3, 4)])
    assert (made.verdict, made.is_clean, made.located) == (Verdict.AGREES, True, None)
    assert ruled_out(made, About.STEPS).names == ("3", "4")
    assert ruled_out(made, About.ALL_CALLS).calls == 8
    assert ruled_out(made, About.ALL_CALLS).sureness is Sureness.DIGESTS


# Several collections


def several(run, name):
    return Run(run.path / name, run.framework)


def test_of_several_collections_the_coarse_one_says_where_and_the_fine_one_which_call(found):
    def fill(run, is_target):
        wrong = {"Functional.sub": 0.5}
        for step in (0, 1):
            several(run, "coarse").step(step, wrong={NORM: 0.5} if is_target and step else None)
        several(run, "fine").step(1, level="mix", task="tensor", wrong=wrong if is_target else None)

    made = found(fill)
    assert [(each.pair.target.name, each.skipped) for each in made.compared] == [("coarse", None), ("fine", None)]
    assert (made.located.compared.pair.target.name, made.located.step) == ("fine", 1)
    assert made.located.finding.name == "Functional.sub.0.forward"
    assert (made.next, made.verdict) == (None, Verdict.DIFFERS)


def test_what_cannot_add_to_the_answer_is_not_compared(found):
    def fill(run, is_target):
        several(run, "first").step(wrong={NORM: 0.5} if is_target else None)
        several(run, "later").step(7, level="mix", task="tensor")
        several(run, "other").step(3 if is_target else 4, level="mix")

    made = found(fill)
    assert {each.pair.target.name: each.skipped for each in made.compared} == {
        "first": None,
        "later": Skipped.NOT_THIS_STEP,
        "other": Skipped.NO_COMMON_STEP,
    }


def test_an_answer_that_says_all_ends_the_walk(found):
    def fill(run, is_target):
        for name, level in (("a", "L0"), ("b", "mix")):
            several(run, name).step(batch=2.0 if is_target else 1.0, level=level)

    made = found(fill)
    assert [each.skipped for each in made.compared] == [None, Skipped.NOT_NEEDED]


def test_a_fine_collection_that_agrees_leaves_the_answer_and_is_told(found):
    def fill(run, is_target):
        several(run, "a").step(wrong={NORM: 0.5} if is_target else None)
        several(run, "b").step(level="mix")

    made = found(fill)
    assert made.located.compared.pair.target.name == "a"
    agreeing = ruled_out(made, About.COLLECTION)
    assert (agreeing.names, agreeing.sureness) == (("b", "mix", "statistics"), Sureness.STATISTICS)


def test_tensors_of_whole_steps_that_agree_overrule_statistics(found):
    def fill(run, is_target):
        several(run, "a").step(wrong={NORM: 1e-5} if is_target else None)
        several(run, "b").step(level="mix", task="tensor")

    made = found(fill)
    assert (made.located, made.verdict) == (None, Verdict.AGREES)
    assert [(each.pair.target.name, each.is_overruled) for each in made.compared] == [("a", True), ("b", False)]
    assert ruled_out(made, About.ALL_CALLS).sureness is Sureness.BITS


def test_tensors_of_another_step_overrule_nothing(found):
    def fill(run, is_target):
        for step in (0, 1):
            several(run, "a").step(step, wrong={NORM: 0.5} if is_target else None)
        several(run, "b").step(0, level="mix", task="tensor")

    made = found(fill)
    assert (made.located.step, made.verdict) == (0, Verdict.DIFFERS)
    assert not any(each.is_overruled for each in made.compared)


def finding(evidence, name="Functional.sub.0.forward"):
    return Divergence(name, "net.norm", kinds.COMPUTES, evidence, "error")


BORDERS = [
    RunInput(Difference("input.0", "warning")),
    Argument(Difference("input.0", "warning"), ArgumentKind.TENSOR),
    Between(Difference("input.0", "warning"), "", Dataflow.UNRECORDED),
    Unclear(Missing.PRODUCER),
]


@pytest.mark.parametrize("border", BORDERS)
def test_of_two_runs_that_round_differently_what_begins_inside_a_window_is_the_answer(border):
    """The inputs of the window are never equal to the bit; the wider collection judged what produced them."""
    from_outside, inner = (
        finding(border, "Functional.mean.0.forward"),
        finding(Computed(Difference("output.0", "error"))),
    )
    wider = located(finding(Computed(Difference("output.0", "error"))), settings={})
    narrow = located(from_outside, inner, settings={"list": ["Cell.net.norm."]})
    found = inside(narrow, wider)
    assert (found.finding, found.border) == (inner, from_outside)
    assert inside(located(from_outside, inner, settings={}), wider).finding is from_outside, (
        "a whole step has no border"
    )
    assert inside(located(inner, from_outside, settings={"list": ["x"]}), wider).border is None
    assert inside(located(from_outside, settings={"list": ["x"]}), wider).finding is from_outside


def located(*findings, settings):
    head = Head("tensor", "mix", "mindspore", {}, {"tensor": settings})
    held = Collection(Path("x"), head=head)
    result = RequestResult((Outcome(findings=findings, step=0, rank=0),))
    return Located(ComparedPair(CollectionPair(held, held), result), findings[0], 0, 0)


def test_a_collection_that_cannot_be_read_does_not_stop_the_others(found):
    def fill(run, is_target):
        several(run, "a").step(level="mix")
        broken = several(run, "b").step()
        (broken.path / "step0" / "rank" / "dump.json").write_text("{")

    made = found(fill)
    assert [each.skipped for each in made.compared if each.pair.target.name == "b"] == [Skipped.FAILED]
    assert not made.is_clean


def test_collections_of_other_names_are_paired_by_level_and_task(found):
    def fill(run, is_target):
        several(run, "mine" if is_target else "trusted").step()
        several(run, "fine").step(level="mix", wrong={"Functional.sub": 0.5} if is_target else None)
        if is_target:
            several(run, "more").step(level="mix", task="tensor")

    made = found(fill)
    pairs = {(each.pair.target.name, each.pair.golden.name) for each in made.compared}
    assert pairs == {("mine", "trusted"), ("fine", "fine")}
    assert [(side, held.name) for side, held in made.unmatched] == [("target", "more")]


def test_of_several_that_agree_each_is_ruled_out_and_the_finest_in_its_parts(found):
    def fill(run, _):
        several(run, "a").step()
        several(run, "b").step(level="mix", task="tensor")

    made = found(fill)
    assert [(each.what, each.tally.equal) for each in made.ruled_out] == [
        (About.COLLECTION, 9),  # four calls with an input and an output each, and a parameter
        (Subject.RUN_INPUTS, 2),
        (Subject.PARAMETERS, 1),
        (About.ALL_CALLS, 10),  # six calls: their outputs, and the inputs that others made
    ]
    assert made.is_clean


def test_a_collection_on_one_side_is_not_clean(found):
    def fill(run, is_target):
        several(run, "a").step()
        if is_target:
            several(run, "b").step(level="mix")

    made = found(fill)
    assert (made.verdict, made.is_clean) == (Verdict.OPEN, False)


def test_a_later_run_in_the_folder_of_the_first_is_a_collection_of_its_own(found):
    def fill(run, is_target):
        run.step(wrong={NORM: 0.5} if is_target else None)
        wrong = {"Functional.sub": 0.5} if is_target else None
        several(run, "run2").step(level="mix", task="tensor", wrong=wrong)

    made = found(fill)
    assert [each.pair.target.name for each in made.compared] == ["", "run2"]
    assert made.located.finding.name == "Functional.sub.0.forward"


def test_configurations_and_checkpoints_beside_the_dumps_are_compared(found):
    def fill(run, is_target):
        run.step()
        (run.path / "configurations.json").write_text(json.dumps({"seed": 1 if is_target else 2}))
        (run.path / "net.ckpt").write_bytes(CHECKPOINT.read_bytes())

    made = found(fill)
    assert [each.path for each in made.configurations.differences] == ["seed"]
    assert [(name, result.is_clean) for name, result in made.checkpoints] == [("net.ckpt", True)]
    assert made.is_clean, "a setting that differs is an explanation, no fault"


def test_versions_that_differ_are_told(found, tmp_path):
    def fill(run, is_target):
        run.version = "2.10.0" if is_target else "2.9.0"
        run.step()

    (setting,) = found(fill).environment
    assert (setting.name, setting.target, setting.golden) == ("framework", "mindspore 2.10.0", "mindspore 2.9.0")


def test_a_step_on_one_side_only_is_not_clean(found):
    made = found(lambda run, is_target: [run.step(step) for step in ((0, 1) if is_target else (0,))])
    assert made.verdict is Verdict.OPEN
    assert GapKind.ONE_SIDE in lacks(made)


def test_steps_that_do_not_overlap_are_a_mistake_that_says_what_both_hold(sides, capsys):
    target, golden = sides(lambda run, is_target: [run.step(step) for step in ((0, 1) if is_target else (5, 6))])
    assert main(["diagnose", str(target), str(golden)]) == 2
    logged = capsys.readouterr().err
    assert f"{target} has step 0, 1 and {golden} has step 5, 6: no step is on both sides" in logged
    assert 'collect "step": [0] on the golden side' in logged


def test_an_empty_folder_is_a_mistake_that_says_what_to_give(sides, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    target, _ = sides(lambda run, _: run.step())
    assert main(["diagnose", str(target), str(tmp_path / "empty")]) == 2
    logged = capsys.readouterr().err
    assert f"{tmp_path / 'empty'}: contains nothing that can be compared; it is empty; give " in logged


def test_collections_that_nothing_pairs_are_a_mistake(found):
    def fill(run, is_target):
        levels = {"a": "L0", "b": "mix"} if is_target else {"c": "L1"}
        for name, level in levels.items():
            several(run, name).step(level=level)

    with pytest.raises(
        UsageError,
        match=r"unknown which collections correspond: .* contains the dump a, the dump b; .* contains the dump c;",
    ):
        found(fill)


def test_a_flow_of_stages_has_the_headline_of_compare(sides, tmp_path, capsys):
    def fill(run, is_target):
        for stage in ("actor_compute_log_prob", "actor_update"):
            wrong = {NORM: 0.5} if is_target and stage == "actor_update" else None
            several(run, stage).step(wrong=wrong)

    target, golden = sides(fill)
    assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "tables")]) == 1
    lines = capsys.readouterr().out.splitlines()
    headline = next(line for line in lines if line.startswith("first difference: "))
    call = next(line for line in lines if line.startswith("first wrong call: "))
    assert main(["diagnose", str(target), str(golden)]) == 1
    page = capsys.readouterr().out.splitlines()
    assert page[1:3] == [f"  {headline}", "  in stage actor_update, step 0, rank 0"]
    assert f"  {call}" in page
    assert main(["diagnose", str(target), str(golden), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    place, details = report["findings"][0]["place"], report["details"]
    assert (details["stage"], place["name"]) == ("actor_update", f"Cell.{NORM}.forward.0")
    assert details["next_collection"] is None


def test_two_checkpoints_alone_are_compared(tmp_path, capsys):
    assert main(["diagnose", str(CHECKPOINT), str(CHECKPOINT)]) == 0
    result = capsys.readouterr().out.splitlines()[1]
    assert "6 parameters on both sides: 6 pass" in result  # weight, bias, gamma, beta, half, epoch_num


def test_a_diagnosis_says_what_to_try_as_compare_does(sides, tmp_path, capsys):
    target, golden = sides(lambda run, is_target: run.step(1, weight=6.0 if is_target else 5.0))
    assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "tables")]) == 1
    compared = capsys.readouterr().out.splitlines()
    (known,) = [line for line in compared if "  evidence: known cause: collect task tensor from step 0 on" in line]
    known = known.replace("  evidence: known cause: ", "Try: ")
    assert main(["diagnose", str(target), str(golden)]) == 1
    assert [line.strip() for line in capsys.readouterr().out.splitlines()[1:4]] == [
        compared[-1],
        "in step 1, rank 0",
        known,
    ]
    assert main(["diagnose", str(target), str(golden), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["details"]["try"]["cause"] == "more_data"
