"""What is proposed to be collected next; the fixture `found` reads every proposal as a debugger does."""

import json
from pathlib import Path

import pytest
from three_cells import EMBED, HEAD, NORM, Run

from msprobe.base.settings import load
from msprobe.cli import main
from msprobe.compare.jobs.survey import Side, Survey
from msprobe.compare.locate.finding import (
    Argument,
    ArgumentKind,
    Between,
    Computed,
    Dataflow,
    Difference,
    Divergence,
    Missing,
    OtherCall,
    Parameters,
    RunInput,
    Unclear,
)
from msprobe.diagnose.collected import Collection, CollectionPair
from msprobe.diagnose.diagnosis import ComparedPair, Located, Purpose
from msprobe.diagnose.next_collection import after_finding
from msprobe.findings.catalogue import comparison as kinds
from msprobe.store.reader import Head


def section(configuration):
    return configuration[configuration["task"]]


def test_of_a_cell_everything_inside_it_is_collected_with_tensors(found):
    made = found(
        lambda run, is_target: [run.step(n, wrong={NORM: 0.5} if is_target and n == 4 else None) for n in (3, 4)]
    )
    assert made.next.purpose is Purpose.INSIDE_CELL
    assert made.next.target == {
        "task": "tensor",
        "dump_path": "./next_dump",
        "rank": [],
        "step": [4],
        "level": "mix",
        "tensor": {
            "scope": [],
            "list": ["Cell.net.norm.LayerNorm."],
            "data_mode": ["all"],
            "summary_mode": "statistics",
        },
    }
    assert made.next.is_one


def test_of_a_call_by_statistics_its_cell_is_collected_with_tensors(found):
    made = found(lambda run, is_target: run.step(level="mix", wrong={"Functional.sub": 0.5} if is_target else None))
    assert made.next.purpose is Purpose.ELEMENTS
    assert section(made.next.target)["list"] == ["Cell.net.norm.LayerNorm."]


def test_of_a_call_by_tensors_nothing_more_is_collected(found):
    wrong = {"Functional.sub": 0.5}
    made = found(lambda run, is_target: run.step(level="mix", task="tensor", wrong=wrong if is_target else None))
    assert made.located.finding.name == "Functional.sub.0.forward"
    assert made.next is None


def test_a_difference_within_tolerance_by_statistics_needs_tensors_of_the_whole_step(found):
    made = found(lambda run, is_target: run.step(wrong={NORM: 1e-5} if is_target else None))
    assert made.located.finding.grade == "pass"
    assert made.next.purpose is Purpose.NOISE
    assert (made.next.target["task"], made.next.target["level"], section(made.next.target)["list"]) == (
        "tensor",
        "mix",
        [],
    )
    assert section(made.next.target)["summary_mode"] == "crc32c", "which makes a graft cheap"


def test_an_answer_that_a_narrow_collection_does_not_show_needs_the_whole_step(found):
    inside = [f"Cell.{NORM}.forward.0", "Functional.mean.0.forward", "Functional.sub.0.forward"]

    def fill(run, is_target):
        Run(run.path / "a").step(wrong={NORM: 0.5} if is_target else None)
        Run(run.path / "b").step(level="mix", task="tensor", settings={"list": ["Cell.net.norm."]}, keep=inside)

    made = found(fill)
    assert (made.located.compared.pair.target.name, made.located.is_unconfirmed) == ("a", True)
    assert made.next.purpose is Purpose.WHOLE_STEP


def proposed(evidence, level="mix", task="tensor", patterns=(), name="Functional.sub.0.forward", grade="error"):
    """The purpose of what is proposed for one finding in a single pair of dumps of step 0."""
    found = Divergence(name, "net.norm", kinds.COMPUTES, evidence, grade)
    section = {"list": list(patterns)}
    settings = {"dispatch": False, task: section}
    head = Head(task, level, "mindspore", {"framework": "mindspore 2.10.0"}, settings)
    held = Collection(Path("x"), head=head)
    side = Side("x", task, level, "mindspore", name, ("Cell.net.norm.LayerNorm.forward.0",))
    survey = Survey(side, side, {}, {}, 1, 0, 0)
    following = after_finding(Located(ComparedPair(CollectionPair(held, held)), found, 0, 0, survey))
    return following.purpose if following else None


OUTPUT, INPUT = Difference("output.0", "error"), Difference("input.1", "error")
TABLE = [
    (Computed(OUTPUT), {"level": "L0", "name": f"Cell.{NORM}.forward.0"}, Purpose.INSIDE_CELL),
    (Computed(OUTPUT), {"task": "statistics"}, Purpose.ELEMENTS),
    (Computed(OUTPUT), {"task": "statistics", "grade": "pass"}, Purpose.NOISE),
    (Computed(OUTPUT), {}, None),
    (Computed(OUTPUT), {"level": "L2"}, None),
    (Argument(INPUT, ArgumentKind.VALUE), {"level": "L0", "task": "statistics"}, None),
    (Argument(INPUT, ArgumentKind.TENSOR), {"level": "L0"}, Purpose.BETWEEN_CALLS),
    (Argument(INPUT, ArgumentKind.TENSOR), {}, None),
    (Argument(INPUT, ArgumentKind.TENSOR), {"patterns": ["x"]}, Purpose.WHOLE_STEP),
    (RunInput(INPUT), {"level": "L0"}, None),
    (RunInput(INPUT, is_made_unrecorded=True), {"level": "L0"}, Purpose.BETWEEN_CALLS),
    (RunInput(INPUT, is_made_unrecorded=True), {}, None),
    (RunInput(INPUT), {"patterns": ["x"]}, Purpose.WHOLE_STEP),
    (Between(INPUT, "", Dataflow.UNRECORDED), {"level": "L0"}, Purpose.BETWEEN_CALLS),
    (Between(INPUT, "", Dataflow.UNRECORDED), {}, Purpose.UNRECORDED_CODE),
    (Between(INPUT, "", Dataflow.SWAPPED, ("input.0", "input.1")), {}, None),
    (OtherCall("target"), {"task": "statistics"}, None),
    (Parameters(("weight",), 1), {}, None),
    (Unclear(Missing.INPUTS, side="target"), {}, Purpose.MISSING_RECORDS),
    (Unclear(Missing.IN_BETWEEN), {"task": "statistics"}, Purpose.MISSING_RECORDS),
    (Unclear(Missing.PRODUCER), {"patterns": ["x"]}, Purpose.WHOLE_STEP),
    # A tensor's gradient is the sum over all that use it, be it outside of the window.
    (Computed(OUTPUT), {"name": f"Cell.{NORM}.backward.0", "patterns": ["Cell.net.norm."]}, Purpose.WHOLE_STEP),
    (Computed(OUTPUT), {"name": f"Cell.{NORM}.backward.0"}, None),
    (Computed(OUTPUT), {"name": f"Cell.{NORM}.forward.0", "patterns": ["Cell.net.norm."]}, None),
    (Computed(OUTPUT), {"name": "Functional.sub.0.backward", "patterns": ["Cell.net.norm."]}, None),
]


@pytest.mark.parametrize(("evidence", "recorded", "purpose"), TABLE)
def test_what_is_lacking_depends_on_the_evidence_and_on_what_was_recorded(evidence, recorded, purpose):
    assert proposed(evidence, **recorded) is purpose


def test_code_between_cells_is_looked_for_in_the_cell_around_them(found):
    made = found(lambda run, is_target: run.step(between=0.5 if is_target else 1e-9))
    assert made.located.finding.name == f"Cell.{HEAD}.forward.0"
    assert made.next.purpose is Purpose.BETWEEN_CALLS
    assert (made.next.target["level"], section(made.next.target)["list"]) == ("mix", ["Cell.net.Net."])


@pytest.mark.parametrize(("version", "is_dispatched"), [("2.10.0", True), ("2.9.0", True), ("2.8.0", False)])
def test_code_between_calls_of_level_mix_is_looked_for_by_dispatch_where_the_framework_has_it(
    version, is_dispatched, found
):
    def fill(run, is_target):
        run.version = version
        run.step(level="mix", task="tensor", between=0.5 if is_target else 1e-9)

    made = found(fill)
    assert made.located.finding.kind is kinds.CODE
    assert (made.next is not None) is is_dispatched
    if is_dispatched:
        assert made.next.purpose is Purpose.UNRECORDED_CODE
        assert (made.next.target["dispatch"], section(made.next.target)["list"]) == (True, ["Cell.net.Net."])


@pytest.mark.parametrize(("step", "steps"), [(3, ["0-3"]), (16, ["0-16"]), (40, [39, 40])])
def test_of_parameters_in_a_later_step_the_updates_before_are_collected(step, steps, found):
    made = found(lambda run, is_target: run.step(step, weight=5.5 if is_target else 5.0))
    assert made.next.purpose is Purpose.STEP_BEFORE
    assert (made.next.target["step"], made.next.target["level"], made.next.target["task"]) == (steps, "L0", "tensor")
    assert section(made.next.target)["list"] == []


def test_parameters_of_the_first_step_need_no_collection(found):
    assert found(lambda run, is_target: run.step(weight=5.5 if is_target else 5.0)).next is None


def test_what_comes_from_outside_a_filtered_collection_needs_the_whole_step(found):
    call = f"Cell.{EMBED}.forward.0"
    settings = {"list": ["Cell.net.embed."]}
    made = found(
        lambda run, is_target: run.step(2, batch=1.5 if is_target else 1.0, settings=settings, keep=[call], level="mix")
    )
    assert made.next.purpose is Purpose.WHOLE_STEP
    assert (made.next.target["step"], section(made.next.target)["list"]) == ([2], [])


def test_of_many_ranks_the_one_that_differs_is_collected(found):
    def fill(run, is_target):
        for rank in range(4):
            run.step(0, rank, level="mix", wrong={"Functional.sub": 0.5} if is_target and rank > 1 else None)

    assert found(fill).next.target["rank"] == [2]


def test_of_ranks_whose_exchanges_are_unknown_all_that_differ_are_collected(found):
    def fill(run, is_target):
        for rank in range(4):
            run.step(0, rank, wrong={NORM: 0.5} if is_target and rank != 1 else None)

    assert found(fill).next.target["rank"] == [0, 2, 3]


@pytest.mark.parametrize(
    ("kind", "purpose", "task", "mode"),
    [
        ({"level": "mix"}, Purpose.BLIND, "statistics", "md5"),
        ({"level": "mix", "digests": "md5"}, Purpose.OTHER_STEPS, "statistics", "md5"),
        ({"level": "mix", "task": "tensor"}, Purpose.OTHER_STEPS, "statistics", "md5"),
        ({"digests": "md5"}, Purpose.OUTSIDE_CELLS, "statistics", "md5"),
        ({"digests": "crc32c"}, Purpose.OUTSIDE_CELLS, "statistics", "crc32c"),
    ],
)
def test_where_nothing_differs_what_is_blind_is_made_seeing_then_other_steps(kind, purpose, task, mode, found):
    made = found(lambda run, _: [run.step(step, **kind) for step in (2, 5)])
    assert made.is_clean
    assert made.next.purpose is purpose
    assert (made.next.target["task"], section(made.next.target)["summary_mode"]) == (task, mode)
    is_later = purpose is Purpose.OTHER_STEPS
    assert made.next.target["step"] == ([6, 7, 10, 15, 25, 55, 105] if is_later else [2, 5])
    assert made.next.target["level"] == ("L0" if is_later else "mix")


def test_a_step_that_one_side_lacks_is_collected_there(found):
    made = found(lambda run, is_target: [run.step(n, level="mix") for n in ((0, 1, 2) if is_target else (1,))])
    assert (made.next.purpose, made.next.sides) == (Purpose.ONE_SIDE, ("golden",))
    assert (made.next.golden["step"], made.next.golden["level"]) == ([0, 2], "mix")


def test_two_frameworks_have_a_configuration_each(found):
    made = found(lambda run, is_target: run.step(wrong={NORM: 0.5} if is_target else None), golden="pytorch")
    assert made.located.finding.name == f"Cell.{NORM}.forward.0"
    assert not made.next.is_one
    assert section(made.next.target)["list"] == ["Cell.net.norm.LayerNorm."]
    assert section(made.next.golden)["list"] == ["Module.net.norm.LayerNorm."]


def test_settings_that_change_how_is_collected_are_kept(found):
    settings = {"gradients": "hooks", "jit_cells": "off"}
    made = found(lambda run, is_target: run.step(wrong={NORM: 0.5} if is_target else None, settings=settings))
    assert (made.next.target["gradients"], made.next.target["jit_cells"]) == ("hooks", "off")
    assert "dispatch" not in made.next.target


def test_the_configuration_is_written_where_it_is_asked_for(sides, tmp_path, capsys):
    target, golden = sides(lambda run, is_target: run.step(1, wrong={NORM: 0.5} if is_target else None))
    file = tmp_path / "new" / "next.json"
    assert main(["diagnose", str(target), str(golden), "--write-config", str(file)]) == 1
    page = capsys.readouterr().out
    settings = load(str(file))
    assert (settings.task, settings.level, settings.step) == ("tensor", "mix", (1,))
    assert f'config_path="{file}"' in page
    assert not (tmp_path / "new" / "next_golden.json").exists()


def test_of_two_frameworks_both_are_written(sides, tmp_path):
    target, golden = sides(lambda run, is_target: run.step(wrong={NORM: 0.5} if is_target else None), golden="pytorch")
    assert main(["diagnose", str(target), str(golden), "--write-config", str(tmp_path / "next.json")]) == 1
    written = [json.loads((tmp_path / name).read_text()) for name in ("next.json", "next_golden.json")]
    assert [section(each)["list"] for each in written] == [["Cell.net.norm.LayerNorm."], ["Module.net.norm.LayerNorm."]]


def test_nothing_is_written_over_or_under_a_name_that_a_debugger_does_not_read(sides, tmp_path, capsys):
    target, golden = sides(lambda run, is_target: run.step(wrong={NORM: 0.5} if is_target else None))
    there = tmp_path / "next.json"
    there.write_text("mine")
    for name, message in ((there, "already exists"), (tmp_path / "next.yaml", "ends in .json")):
        assert main(["diagnose", str(target), str(golden), "--write-config", str(name)]) == 2
        captured = capsys.readouterr()
        assert (captured.out, message in captured.err) == ("", True)
    assert there.read_text() == "mine"


def test_no_file_is_written_where_nothing_is_to_be_collected(sides, tmp_path):
    target, golden = sides(lambda run, is_target: run.step(weight=5.5 if is_target else 5.0))
    assert main(["diagnose", str(target), str(golden), "--write-config", str(tmp_path / "next.json")]) == 1
    assert not (tmp_path / "next.json").exists()
