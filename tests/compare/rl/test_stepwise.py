"""Flows in folders of steps, `root/step_1/{stage}/step0/rank0`, as code leaves them that sets the debugger's dump_path
anew in every stage of every step."""

import json

import pytest

from msprobe.cli import main


@pytest.fixture
def stepped(roots):
    """Both sides with the steps 0 to 2, two stages in each; `stepped(1, given=9.0)` changes the target from step 1."""

    def make(first=9, name="step_{}", **changed):
        for root, is_target in zip(roots, (True, False), strict=True):
            (root.path / "configurations.json").unlink()
            top = root.path
            for step in range(3):
                root.path = top / name.format(step)
                root.dump("actor_update")
                root.dump("rollout", **(changed if is_target and step >= first else {}))
            root.path = top
        return [str(root.path) for root in roots]

    return make


def compared(sides, tmp_path, capsys, *words):
    """Exit code and lines of the answer."""
    code = main(["compare", *sides, "-o", str(tmp_path / "out"), *words])
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ["step_{}", "step{}", "global_step_{}"])
def test_equal_flows_are_equal_in_every_step(stepped, name, tmp_path, capsys):
    code, lines = compared(stepped(name=name), tmp_path, capsys)
    assert code == 0
    assert [line.split(":")[0] for line in lines] == ["step 0", "step 1", "step 2"]
    assert all("no difference: " in line for line in lines)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["step_0", "step_1", "step_2"]


def test_the_first_step_that_differs_is_told_to_its_end(stepped, tmp_path, capsys):
    code, lines = compared(stepped(1, made=(2.0, 7.0, 9.0)), tmp_path, capsys)
    assert code == 1
    assert lines[0].startswith("step 0: no difference")
    assert lines[1].startswith("step 1: first difference: ")
    assert lines[2].startswith("step 2: first difference: ")
    (file,) = (tmp_path / "out/step_1").glob("compare_flow_*.json")
    whole = json.loads(file.read_text())
    assert whole["first_difference"]["stage"] == "rollout"
    assert whole["first_wrong"][0]["name"] == "Cell.norm.LayerNorm.forward.0"
    assert any(line.startswith("first wrong call: Cell.norm.LayerNorm.forward.0") for line in lines[3:])


def test_weights_that_differ_behind_a_step_that_agrees_come_from_its_end(stepped, tmp_path, capsys):
    code, lines = compared(stepped(2, weight=5.0), tmp_path, capsys)
    assert code == 1
    (why,) = [line for line in lines if line.startswith("why: ")]
    assert "the stages of step 1 agree" in why
    (then,) = [line for line in lines if line.startswith("look at: ")]
    assert "the end of step 1" in then


def test_steps_are_chosen_and_those_of_one_side_are_missing(stepped, roots, tmp_path, capsys):
    sides = stepped(2, made=(2.0, 7.0, 9.0))
    assert compared(sides, tmp_path, capsys, "--step", "0,1")[0] == 0
    assert compared(sides, tmp_path, capsys, "--step", "2")[0] == 1
    assert main(["compare", *sides, "-o", str(tmp_path / "no"), "--step", "7"]) == 2
    assert "--steps 7: on neither side; available: 0, 1, 2" in capsys.readouterr().err
    (roots[0].path / "step_2").rename(tmp_path / "elsewhere")
    code, lines = compared(sides, tmp_path, capsys)
    assert code == 1
    assert "missing: step 2 is only on the golden side" in lines
