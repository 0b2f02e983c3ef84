"""Errors of users are errors of tools with the message of the command; odd names and numbers are passed on."""

import json
import shutil

import pytest

RELU, ADD = "Functional.relu.0.forward", "Functional.add.0.forward"
ONE = (1.0, 0.0, 0.5, 1.0)


@pytest.fixture
def run(write_dump, tmp_path):
    """A run with two steps of two ranks; the maximum of the output tells step and rank."""
    for step in (0, 1):
        for rank in (0, 1):
            calls = {RELU: {"input_args": [ONE], "output": [(10.0 * step + rank, 0.0, 0.5, 1.0)]}}
            write_dump(f"run/step{step}/rank{rank}", calls)
    return tmp_path / "run"


def test_one_of_several_dumps_is_chosen_by_step_and_rank(agent, run):
    for step in (0, 1):
        for rank in (0, 1):
            call = agent("look_at_call", dump=str(run), name=RELU, step=step, rank=rank)
            assert (call["step"], call["rank"]) == (step, rank)
            assert call["records"][1]["max"] == 10 * step + rank
    assert agent("look_at_call", dump=str(run / "step1"), name=RELU, rank=1)["records"][1]["max"] == 11


def test_a_choice_that_is_missing_or_wrong_is_answered_with_what_there_is(agent, run):
    for choice in ({}, {"step": 0}, {"rank": 1}, {"step": 7}, {"rank": 9, "step": 0}):
        message = agent.refused("look_at_call", dump=str(run), name=RELU, **choice)
        assert "steps 0, 1; ranks 0, 1" in message


def test_a_run_of_several_dumps_is_one_entry(agent, run):
    (listed,) = agent("list_runs", folder=str(run.parent))["runs"]
    assert (listed["path"], listed["what"], listed["steps"], listed["ranks"]) == (str(run), "run", [0, 1], [0, 1])
    assert listed["calls"] == 1


@pytest.mark.parametrize("tool", ["compare", "diagnose"])
def test_a_command_that_cannot_be_carried_out_is_an_error(agent, tool, tmp_path, run):
    assert str(tmp_path / "absent") in agent.refused(tool, target=str(tmp_path / "absent"), golden=str(run))
    assert "is empty" in agent.refused(tool, target="", golden=str(run))
    assert "NUL" in agent.refused(tool, target="a\0b", golden=str(run))
    assert "--steps" in agent.refused(tool, target=str(run), golden=str(run), steps=[-1])
    agent.refused(tool, target=str(run))  # one side is missing
    agent.refused(tool, target=str(run), golden=str(run), steps=["x"])  # of another type
    agent.refused(tool, golden=str(run))


def test_a_page_needs_a_folder(agent, run):
    assert "output" in agent.refused("compare", target=str(run), golden=str(run), html=True)


def test_reading_tools_refuse_what_cannot_be_read(agent, tmp_path, run):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "dump.json").write_text('{"task": "statistics", "data": {"a')
    for path in (tmp_path / "absent", broken, tmp_path / "a\nb"):
        assert str(path)[:20] in agent.refused("look_at_call", dump=str(path), name=RELU)
    for folder in (tmp_path / "absent", ""):
        agent.refused("list_runs", folder=str(folder))
    assert RELU in agent.refused("look_at_call", dump=str(run), name="relu", step=0, rank=0)
    assert "did you mean" in agent.refused(
        "look_at_call", dump=str(run), name="Functional.rleu.0.forwrd", step=0, rank=0
    )
    assert "did you mean 'computes differently'" in agent.refused("explain", code="computes diferently")
    agent.refused("explain", code="MSP101", language="fr")
    agent.refused("no_such_tool")


@pytest.fixture
def relative(agent, write_dump, tmp_path):
    """`relative(name)`: a run of this name in the working directory of the server."""
    made = []

    def make(name):
        write_dump(f"{name}/step0/rank0", {RELU: {"input_args": [ONE], "output": [ONE]}})
        made.append(shutil.move(tmp_path / name, agent.folder / name))
        return name

    yield make
    for path in made:
        shutil.rmtree(path)


@pytest.mark.parametrize(
    "name", ["--html", "-o", "a b", "'\"$(c)`d`", "[1]", "{}", "null", "7", "\u202edump", "数据", "x\ny"]
)
def test_a_folder_may_have_any_name(agent, relative, name):
    """Neither a value in JSON, nor an option, nor anything that a terminal or a shell would read."""
    (listed,) = agent("list_runs", folder=relative(name))["runs"]
    assert (listed["path"], listed["calls"]) == (str(agent.folder / name), 1)
    assert agent("look_at_call", dump=name, name=RELU)["name"] == RELU


@pytest.mark.parametrize("tool", ["compare", "diagnose"])
def test_commands_take_a_folder_of_any_name(agent, relative, tool):
    for name in ("--html", "[1] '\"$(c)`d`\n数据\u202e"):
        relative(name)
        assert agent(tool, target=name, golden=name)["state"] == "clean"


def test_names_and_texts_of_a_dump_are_passed_on_as_data(agent, write_dump):
    odd, text = "Functional.\x1b[31m\u202e</script>.0.forward", "x" * 3000
    folder = write_dump("d/step0/rank0", {odd: {"input_args": [text, ONE], "output": [ONE]}})
    call = agent("look_at_call", dump=str(folder), name=odd)
    assert call["name"] == odd
    assert len(call["records"][0]["value"]) == 500
    assert agent("compare", target=str(folder), golden=str(folder))["state"] == "clean"


def test_half_a_character_becomes_a_question_mark(agent, write_dump):
    folder = write_dump("d/step0/rank0", {RELU: {"input_args": [ONE], "output": [ONE]}})
    text = (folder / "dump.json").read_text().replace("relu", "re\\ud800lu")
    (folder / "dump.json").write_text(text)
    assert agent("look_at_call", dump=str(folder), name="Functional.re?lu.0.forward")["calls"] == 1


def test_nan_and_infinities_are_texts(agent, write_dump):
    nan, inf = float("nan"), float("inf")
    folder = write_dump("d/step0/rank0", {RELU: {"input_args": [nan], "output": [(nan, -inf, nan, inf)]}})
    argument, output = agent("look_at_call", dump=str(folder), name=RELU)["records"]
    assert argument["value"] == "nan"
    assert [output[key] for key in ("max", "min", "mean", "norm")] == ["nan", "-inf", "nan", "inf"]


def test_a_call_with_very_many_records_lists_the_first_and_counts_the_others(agent, write_dump):
    folder = write_dump("d/step0/rank0", {RELU: {"input_args": [ONE] * 250, "output": [ONE]}})
    call = agent("look_at_call", dump=str(folder), name=RELU)
    assert len(call["records"]) + call["omitted"] == 251
    assert call["omitted"] == 51


def test_neighbors_end_with_the_dump(agent, write_dump):
    folder = write_dump("d/step0/rank0", {name: {"output": [ONE]} for name in (RELU, ADD)})
    first = agent("look_at_call", dump=str(folder), name=RELU, around=10)
    assert (first["before"], first["after"]) == ([], [ADD])
    assert agent("look_at_call", dump=str(folder), name=ADD, around=0)["before"] == []
    assert agent("look_at_call", dump=str(folder), name=ADD, around=-5)["before"] == []


def test_folders_with_other_things_are_listed_with_reasons(agent, write_dump, tmp_path):
    write_dump("all/run/step0/rank0", {RELU: {"output": [ONE]}})
    (tmp_path / "all" / "notes").mkdir()
    (tmp_path / "all" / "weights.ckpt").write_bytes(b"")
    listed = agent("list_runs", folder=str(tmp_path / "all"))
    assert [run["path"] for run in listed["runs"]] == [str(tmp_path / "all" / "run")]
    assert [(one["path"], one["what"]) for one in listed["others"]] == [
        (str(tmp_path / "all" / "weights.ckpt"), "checkpoint")
    ]
    assert [one["path"] for one in listed["unused"]] == [str(tmp_path / "all" / "notes")]
    assert json.dumps(listed)
