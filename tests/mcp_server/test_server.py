"""`msprobe mcp` as an agent sees it: the official client over standard input and output, on dumps of samples."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from msprobe.findings.document import SCHEMA_FILE
from msprobe.findings.kinds import EVERY

SAMPLES = Path(__file__).parents[1] / "samples"
DUMPS = SAMPLES / "26.2.0" / "dumps"
RANK = next((DUMPS / "ms_mix_tensor" / "step0").iterdir())
FC2 = "Cell.fc2.Linear.forward.0"


@pytest.fixture(scope="module")
def data():
    """The entries of the sample with tensors, as its file has them."""
    return json.loads((RANK / "dump.json").read_text())["data"]


def test_every_tool_has_typed_parameters_and_describes_each(agent):
    tools = agent.tools()
    assert list(tools) == ["compare", "diagnose", "explain", "look_at_call", "list_runs"]
    required = {name: tool.inputSchema.get("required") for name, tool in tools.items()}
    assert required == {
        "compare": ["target"],
        "diagnose": ["target"],
        "explain": ["code"],
        "look_at_call": ["dump", "name"],
        "list_runs": ["folder"],
    }
    for tool in tools.values():
        described = {line.strip().partition(":")[0] for line in tool.description.partition("Args:")[2].splitlines()}
        assert set(tool.inputSchema["properties"]) <= described
        assert all("type" in each or "anyOf" in each for each in tool.inputSchema["properties"].values())
        assert not tool.annotations.destructiveHint
        assert tool.annotations.readOnlyHint is (tool.name not in ("compare", "diagnose"))


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("tool", ["compare", "diagnose"])
def test_two_runs_give_the_document_of_the_command(agent, tool):
    """0.05 was added to the first weight of the target."""
    document = agent(tool, target=str(DUMPS / "msp_mix_stat"), golden=str(DUMPS / "ms_mix_stat"))
    jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text()))
    assert (document["command"], document["state"], document["exit_code"]) == (tool, "differs", 1)
    assert document["first_is_cause"] is True
    finding = document["findings"][0]
    assert finding["kind"] == "parameters differ"
    assert finding["fields"]["names"] == ["fc1.weight"]
    assert finding["place"]["name"] == "Primitive.dense.Dense.0.forward"
    assert (finding["place"]["file"], finding["place"]["line"]) == ("/home/user/train/models_ms.py", 40)
    assert finding["code"] == next(kind.code for kind in EVERY if kind.name == "parameters differ")
    assert document["files"] == {}


@pytest.mark.usefixtures("unchanged")
def test_equal_runs_are_clean(agent):
    document = agent("compare", target=str(DUMPS / "ms_mix_stat"), golden=str(DUMPS / "ms_mix_stat"), steps=[0])
    assert (document["state"], document["exit_code"], document["findings"]) == ("clean", 0, [])


def test_tables_are_written_to_the_folder_that_was_given_only(agent, tmp_path):
    output = tmp_path / "tables"
    sides = {"target": str(DUMPS / "msp_mix_stat"), "golden": str(DUMPS / "ms_mix_stat")}
    document = agent("compare", **sides, output=str(output), html=True)
    written = {str(path) for path in output.rglob("*") if path.is_file()}
    named = [path for each in document["files"].values() for path in ([each] if isinstance(each, str) else each)]
    assert named
    assert set(named) <= written
    assert any(path.endswith(".html") for path in written)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_kind_is_explained_as_data(agent, language):
    for kind in EVERY:
        made = agent("explain", code=kind.code, language=language)
        assert (made["code"], made["name"], made["severity"]) == (kind.code, kind.name, kind.severity.value)
        english_or_chinese = ("english", "chinese")[language == "zh"]
        for member in ("title", "means", "decided", "look", "confirm"):
            assert made[member] == getattr(getattr(kind, member), english_or_chinese)
        assert made["causes"] == [getattr(cause, english_or_chinese) for cause in kind.causes]


def test_a_kind_is_explained_by_its_name(agent):
    assert agent("explain", code="computes differently")["code"] == "MSP101"


def test_the_server_answers_while_a_command_runs(agent):
    sides = {"target": str(DUMPS / "msp_mix_stat"), "golden": str(DUMPS / "ms_mix_stat")}
    done = agent.together(("diagnose", sides), ("explain", {"code": "MSP101"}), ("list_runs", {"folder": str(DUMPS)}))
    assert done[-1] == "diagnose"
    assert set(done) == {"diagnose", "explain", "list_runs"}


@pytest.mark.usefixtures("unchanged")
def test_runs_below_a_folder_are_listed_with_what_their_headers_have(agent):
    listed = agent("list_runs", folder=str(DUMPS))
    runs = {Path(run["path"]).name: run for run in listed["runs"]}
    assert set(runs) == {path.name for path in DUMPS.iterdir() if list(path.rglob("dump.json"))}
    for name, run in runs.items():
        head = json.loads(next((DUMPS / name).rglob("dump.json")).read_text())
        assert {key: run[key] for key in ("task", "level", "framework")} == {
            key: head[key] for key in ("task", "level", "framework")
        }
        construct = json.loads(next((DUMPS / name).rglob("construct.json")).read_text())
        assert run["calls"] == len(head["data"] if head["task"] != "structure" else construct)
        assert (run["what"], run["steps"], run["ranks"]) == ("run", [0], [0])


@pytest.mark.usefixtures("unchanged")
def test_a_call_has_the_statistics_of_its_tensors(agent):
    call = agent("look_at_call", dump=str(DUMPS / "ms_mix_tensor"), name=FC2)
    records = {record["name"]: record for record in call["records"]}
    files = {path.stem: path for path in (RANK / "dump_tensor_data").glob(f"{FC2}.*.npy")}
    assert {name for name, record in records.items() if record["tensor_file"]} == set(files)
    for name, file in files.items():
        values, record = np.load(file).astype(np.float64), records[name]
        assert record["tensor_file"] == str(file)
        assert record["shape"] == list(values.shape)
        assert (record["max"], record["min"]) == (values.max(), values.min())
        assert record["mean"] == pytest.approx(values.mean(), rel=1e-5, abs=1e-7)
        assert record["norm"] == pytest.approx(np.sqrt((values**2).sum()), rel=1e-5)
        assert record["nan"] is None
    assert (records[f"{FC2}.input.0"]["part"], records[f"{FC2}.output.0"]["part"]) == ("input", "output")


@pytest.mark.usefixtures("unchanged")
def test_a_call_has_its_place_its_neighbors_and_the_producer_of_its_input(agent, data):
    call = agent("look_at_call", dump=str(DUMPS / "ms_mix_tensor"), name=f"{FC2}.input.0", around=2)
    names = list(data)
    at = names.index(FC2)
    assert (call["name"], call["position"], call["calls"]) == (FC2, at, len(names))
    assert (call["before"], call["after"]) == (names[at - 2 : at], names[at + 1 : at + 3])
    assert call["counterpart"] == "Cell.fc2.Linear.backward.0"
    assert (call["file"], call["line"]) == ("/home/user/train/models_ms.py", 40)
    assert call["code"] == "return self.fc2(self.act(self.fc1(x)))"
    assert any("models_ms.py, line 40" in frame for frame in call["stack"])
    taken = next(record for record in call["records"] if record["name"] == f"{FC2}.input.0")
    # The ReLU, whose output is the input: by the files.
    producer = taken["producers"][0]
    assert taken["origin"] == "call"
    assert ".relu." in producer.lower() or ".ReLU." in producer
    assert (np.load(RANK / "dump_tensor_data" / f"{producer}.npy") == np.load(taken["tensor_file"])).all()


@pytest.mark.usefixtures("unchanged")
def test_a_backward_call_has_the_stack_of_its_forward_call_and_the_maker_of_its_gradient(agent):
    call = agent("look_at_call", dump=str(DUMPS / "ms_mix_tensor"), name="Cell.act.ReLU.backward.0")
    assert call["counterpart"] == "Cell.act.ReLU.forward.0"
    assert call["line"] == 40
    gradient = next(record for record in call["records"] if record["part"] == "input")
    (producer,) = gradient["producers"]
    assert producer.startswith("Primitive.dense.Dense.1.backward.output.")
    assert (np.load(RANK / "dump_tensor_data" / f"{producer}.npy") == np.load(gradient["tensor_file"])).all()


def test_a_part_of_a_name_is_answered_with_the_names_that_contain_it(agent, data):
    message = agent.refused("look_at_call", dump=str(DUMPS / "ms_mix_tensor"), name="fc2")
    assert [name for name in data if "fc2" in name][:3] == [name for name in data if name in message][:3]


def test_a_server_that_answered_logged_no_failure(agent):
    agent("explain", code="MSP101")
    assert "Traceback" not in agent.log.read_text()
