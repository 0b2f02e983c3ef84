"""What stands on one side only is said and never passes; what is missing on both sides is no fault."""

import json

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.mindspore.compare.ms_compare import ms_compare

pytestmark = pytest.mark.part(3)

REFERENCE, UPDATE = "reference_compute_log_prob", "actor_update"


def missing(lines):
    return [line.removeprefix("missing: ") for line in lines if line.startswith("missing: ")]


def test_a_step_on_one_side(roots, compare):
    roots[0].save(0).save(1)
    roots[1].save(0)
    code, lines, whole = compare()
    assert code == 1
    assert missing(lines) == ["step 1, rank 0 of the key data is only on the target side"]
    assert whole["missing"] == missing(lines)
    assert lines[-1] == "no difference in what both sides have: 8 pairs judged, 8 not: 8 without a partner"
    assert compare("--step", "0")[0] == 0


def test_steps_and_ranks_on_one_side_are_told_in_few_lines(roots, compare):
    for step in range(6):
        for rank in range(4):
            roots[1].save(step, rank)
            if (step < 4 or step == 5) and rank not in (1, 3):
                roots[0].save(step, rank, **({"loss": None} if step in (0, 1, 3) else {}))
    code, lines, _ = compare()
    assert code == 1
    assert missing(lines) == [
        "steps 0 to 3 and 5, ranks 1 and 3 of the key data are only on the golden side",
        "step 4, ranks 0 to 3 of the key data are only on the golden side",
        "key loss of steps 0, 1 and 3, ranks 0 and 2 is only on the golden side",
    ]


def test_a_key_on_one_side(roots, compare):
    roots[0].save(0).save(1)
    roots[1].save(0, loss=None).save(1, loss=None)
    code, lines, _ = compare()
    assert code == 1
    assert missing(lines) == ["key loss is only on the target side"]


def test_a_key_of_one_step_on_one_side(roots, compare):
    roots[0].save(0).save(1, loss=None)
    roots[1].save(0).save(1)
    code, lines, _ = compare()
    assert code == 1
    assert missing(lines) == ["key loss of step 1, rank 0 is only on the golden side"]


def test_a_save_more_of_a_key_on_one_side(roots, compare):
    roots[0].graph_save().graph_save(keys={"loss": np.array(0.5, np.float32)})
    roots[1].graph_save()
    code, lines, _ = compare()
    assert code == 1
    assert missing(lines) == ["some of key loss of step 0, rank 0 is only on the target side"]


def test_key_data_on_one_side(roots, compare):
    roots[0].save().dump(UPDATE)
    roots[1].dump(UPDATE)
    code, lines, _ = compare()
    assert code == 1
    assert missing(lines) == ["key data is only on the target side"]
    assert lines[-1] == "no difference in what both sides have: 7 pairs judged, 8 not: 8 without a partner"


def test_a_stage_on_one_side_and_what_to_collect(roots, changed, compare, summary):
    roots[0].save(ref_log_prob=changed("ref_log_prob", (0, 0), -1.5)).dump(REFERENCE)
    roots[1].save()
    code, lines, _ = compare()
    assert code == 1
    assert missing(lines) == [f"stage {REFERENCE} has a dump only on the target side"]
    assert "key ref_log_prob" in summary(lines)["first difference"]
    assert "set reference_dump: true, step_start: 0, step_end: 0" in lines[-1]


def test_a_stage_without_a_step_in_common(roots, changed, compare):
    for step in range(2):
        roots[0].save(step, ref_log_prob=changed("ref_log_prob", (0, 0), -1.5))
        roots[1].save(step)
    roots[0].dump(REFERENCE, 0)
    roots[1].dump(REFERENCE, 1)
    code, lines, _ = compare()
    assert code == 1
    (cause,) = missing(lines)
    assert cause.startswith(f"stage {REFERENCE} not compared: ")
    assert "step 0 is only on the target side; step 1 is only on the golden side" in cause
    assert f"{REFERENCE} produces it, and its dumps could not be compared (" in lines[-2]
    assert lines[-1].startswith("collect it: set reference_dump: true, step_start: 0, step_end: 0")


def test_a_step_of_a_stage_on_one_side(roots, changed, compare):
    for step in range(2):
        roots[0].save(step, **({"ref_log_prob": changed("ref_log_prob", (0, 0), -1.5)} if step else {})).dump(
            REFERENCE, step
        )
        roots[1].save(step)
    roots[1].dump(REFERENCE, 0)
    code, lines, _ = compare()
    assert code == 1
    assert missing(lines) == [f"stage {REFERENCE}: step 1 is only on the target side"]
    assert lines[-2].endswith(f"{REFERENCE} produces it, and it has a dump of step 1 only on the target side")
    assert lines[-1] == "collect it: set reference_dump: true, step_start: 1, step_end: 1; then run the golden again"


def test_a_stage_folder_without_a_dump_is_said(roots, compare):
    for root in roots:
        root.save()
    (roots[1].path / UPDATE / "step0").mkdir(parents=True)
    code, lines, _ = compare()
    assert code == 1
    assert missing(lines) == [f"stage {UPDATE} of the golden contains no dump"]


def test_roots_of_stage_dumps_alone(roots, compare):
    for root in roots:
        root.dump(UPDATE)
        (root.path / "configurations.json").unlink()
    code, lines, _ = compare()
    assert (code, lines[-1]) == (0, "no difference: 7 pairs judged, 0 unjudged")


def test_a_stage_of_another_name_is_compared_too(roots, compare):
    roots[0].dump("reward_model", made=(2.0, 3.5, 4.5))
    roots[1].dump("reward_model")
    code, lines, whole = compare()
    assert code == 1
    assert lines[-3] == "first difference: step 0, rank 0, stage reward_model, call Cell.norm.LayerNorm.forward.0"
    assert whole["first_difference"]["stage"] == "reward_model"


def test_configurations_on_one_side_are_said_and_are_no_fault(roots, compare):
    (roots[1].path / "configurations.json").unlink()
    for root in roots:
        root.save()
    code, lines, _ = compare()
    assert code == 0
    assert lines[0] == "configurations: configurations.json is only on the target side"


def test_a_folder_of_key_data_beside_a_root_is_compared_with_its_key_data(roots, compare):
    """The golden kept nothing but `data`; either the folder or what is above it may be given."""
    (roots[1].path / "configurations.json").unlink()
    for root in roots:
        root.save()
    roots[0].dump(UPDATE)
    code, lines, _ = compare()
    assert missing(lines) == [f"stage {UPDATE} has a dump only on the target side"]
    roots[1].path /= "data"
    assert compare()[:2] == (code, lines)


def test_the_exit_code_can_be_held_at_0(roots, changed, compare):
    roots[0].save(loss=changed("loss", (), 0.25))
    roots[1].save()
    assert [compare()[0], compare("--exit-zero")[0]] == [1, 0]


def test_configurations_alone_are_compared_and_judge_nothing(roots, compare):
    roots[0].configure(lr=1)
    roots[1].configure(lr=2)
    code, lines, _ = compare()
    assert code == 2
    assert lines[1:] == [
        "  lr: 1, golden 2 (the update)",
        "no difference in what could be judged: 0 pairs judged, 0 not",
    ]


def test_a_root_beside_something_else_is_refused(roots, compare, tmp_path, capfd):
    roots[0].save()
    roots[1].dump(UPDATE)
    code = main(["compare", str(roots[0].path), str(roots[1].path / UPDATE), "-o", str(tmp_path / "out")])
    assert code == 2
    logged = capfd.readouterr().err
    assert "the inputs are of different kinds" in logged
    assert "as ROOT/actor_update" in logged


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--step", "7"), "--steps 7: on neither side; available: 0"),
        (("--rank", "1"), "--ranks 1: on neither side; available: 0"),
        (("--top", "-1"), "--top: -1 is invalid"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, words, roots, compare):
    for root in roots:
        root.save()
    code, lines, _ = compare(*options)
    assert code == 2
    assert words in lines[0]


@pytest.mark.parametrize("paths", [("a",), ("a", "b", "c"), ("a", "b", "-tp", "x", "-gp", "y")])
def test_paths_that_belong_to_no_option_are_refused(paths, capsys):
    assert main(["compare", *paths]) == 2
    assert "'a' does not belong to an option; write either -tp TARGET -gp GOLDEN" in capsys.readouterr().err


def test_steps_and_ranks_choose_in_every_part(roots, changed, compare):
    for step in range(2):
        for root in roots:
            root.save(step, rank=1).dump(UPDATE, step, 1)
    roots[0].save(0, loss=changed("loss", (), 0.25))
    roots[1].save(0)
    assert compare("--step", "1")[0] == 0
    assert compare("--rank", "1")[1][-1] == "no difference: 30 pairs judged, 0 unjudged"
    assert compare("--rank", "0")[0] == 1


def test_a_stage_without_a_dump_of_the_ranks_asked_for_is_not_missing(roots, compare):
    """As where the optimizer runs on one rank, and every rank saves key data."""
    for root in roots:
        root.save(rank=0).save(rank=1).dump(UPDATE, rank=0)
    code, lines, _ = compare("--rank", "1")
    assert (code, missing(lines), lines[-1]) == (0, [], "no difference: 8 pairs judged, 0 unjudged")
    assert compare("--rank", "1", "--step", "0")[0] == 0
    assert compare("--rank", "0,1")[1][-1] == "no difference: 23 pairs judged, 0 unjudged"


def test_from_python_it_gives_the_outcomes_of_the_stages(roots, tmp_path):
    roots[0].save().dump(UPDATE, made=(2.0, 3.5, 4.5))
    roots[1].save().dump(UPDATE)
    outcomes = ms_compare({"npu_path": str(roots[0].path), "bench_path": str(roots[1].path)}, tmp_path / "out")
    assert [(o.step, o.rank, o.first.name) for o in outcomes] == [(0, 0, "Cell.norm.LayerNorm.forward.0")]
    assert json.loads(next((tmp_path / "out").glob("compare_flow_2*.json")).read_text())["is_clean"] is False


def test_a_flow_is_not_calibrated_but_one_of_its_stages(roots, tmp_path, capsys):
    target, golden = roots
    for root in roots:
        root.configure(seed=1).save().dump("actor_update")
    words = ["compare", str(target.path), str(golden.path), "-o", str(tmp_path / "out")]
    assert main([*words, "--calibrate", str(tmp_path / "clean")]) == 2
    logged = capsys.readouterr().err
    assert "calibrate with the folder of one stage" in logged
    assert not (tmp_path / "out").exists()
