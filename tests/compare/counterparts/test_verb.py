"""`msprobe mapping suggest`: what is found becomes files that the loaders of -am, -cm, -lm and -dm read."""

import json
import sys
from pathlib import Path

import pytest

from msprobe.cli import main
from msprobe.mapping.user_files import read_apis, read_cells, read_data, read_layers

sys.path.insert(0, str(Path(__file__).parent))

from made import Choices, run  # beside this file, which is no package


@pytest.fixture
def dumps(tmp_path):
    """Writes two sides to disk and gives their folders."""

    def write(*sides):
        return [written(tmp_path / side.framework, side) for side in sides]

    return write


def written(folder, choices):
    """A dump on disk, by what docs/en/reference/format.md says."""
    dump, _ = run(choices)
    folder.mkdir(parents=True)
    data = {}
    for call in dump.calls:
        entry = data.setdefault(call.name, {})
        for record in call.records:
            if record.part == "input" and call.name.endswith(("backward", "backward.0")):
                entry.setdefault("input", []).append(as_entry(record))
            elif record.part == "input":
                entry.setdefault("input_args", []).append(as_entry(record))
            elif record.part == "output":
                entry.setdefault("output", []).append(as_entry(record))
            elif record.part == "parameters_grad":
                entry[record.path[0]] = [as_entry(record)]
            else:
                entry.setdefault(record.part, {})[record.path[0]] = as_entry(record)
    head = {"task": "statistics", "level": dump.level, "framework": dump.framework, "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps(head | {"data": data}))
    (folder / "construct.json").write_text(json.dumps(dump.construct))
    (folder / "stack.json").write_text("{}")
    return folder


def as_entry(record):
    if record.kind == "value":
        return {"type": record.type, "value": record.value}
    numbers = record.statistics
    return {
        "type": record.type,
        "dtype": record.dtype,
        "shape": list(record.shape),
        **{"Max": numbers.max, "Min": numbers.min, "Mean": numbers.mean, "Norm": numbers.norm},
    }


def suggest(dumps, tmp_path, *sides):
    target, golden = dumps(*sides)
    assert main(["mapping", "suggest", str(target), str(golden), "-o", str(tmp_path / "out" / "mapping.yaml")]) == 0
    return {kind: tmp_path / "out" / f"mapping.{kind}.yaml" for kind in ("api", "cell", "layer", "data")}


def test_the_four_files_are_read_by_their_loaders_and_say_what_was_found(dumps, tmp_path, capsys):
    files = suggest(dumps, tmp_path, Choices("mindspore"), Choices("pytorch"))
    cells = read_cells(files["cell"])
    assert cells["blocks.0.attention.query.Dense"] == "h.0.attn.q_proj.Linear"
    assert cells["blocks.2.Block"] == "h.2.Block"
    layers = read_layers(files["layer"]).by_class
    assert layers["TopLayer"]["blocks",] == ("h",)
    assert layers["Attention"]["key",] == ("k_proj",)
    rules = {rule.ms_api: rule for rule in read_apis(files["api"])}
    assert rules["Functional.matmul"].pt_api == "Torch.matmul"
    rows = read_data(files["data"])
    assert (
        rows["Cell.tokens.Embedding.forward.0.parameters.embedding_table"].to
        == "Module.wte.Embedding.forward.0.parameters.weight"
    )
    assert rows["Cell.head.Dense.backward.0.input.0"].to == "Module.lm_head.Linear.backward.0.input.0"
    printed = capsys.readouterr().out
    assert "calls are paired" in printed
    assert f"-dm {files['data']}" in printed


def test_every_rule_of_the_cells_has_its_confidence_and_reason_behind_it(dumps, tmp_path):
    files = suggest(dumps, tmp_path, Choices("mindspore"), Choices("pytorch"))
    rules = [line for line in files["cell"].read_text().splitlines() if line and not line.startswith("#")]
    assert rules
    for rule in rules:
        confidence, reason = rule.partition("  # ")[2].split(" ", 1)
        assert 0 < float(confidence) <= 1
        assert reason


def test_parts_of_a_fused_projection_are_comments_because_their_results_are_parts_too(dumps, tmp_path):
    files = suggest(dumps, tmp_path, Choices("mindspore"), Choices("pytorch", fused=True))
    text = files["cell"].read_text()
    assert "# blocks.0.attention.query.Dense: h.0.attn.qkv.Linear" in text
    assert "blocks.0.attention.query.Dense" not in read_cells(files["cell"])
    assert not any("attention.query.Dense.forward" in row for row in read_data(files["data"]))


def test_layers_whose_function_names_meet_in_another_order_are_given_rules_that_lead_to_no_error(dumps, tmp_path):
    files = suggest(dumps, tmp_path, Choices("mindspore", order="vqk"), Choices("pytorch"))
    rules = read_layers(files["layer"]).by_class["Attention"]
    assert rules["transpose",] == ("no_counterpart",)


def test_dumps_without_a_common_call_are_said_to_be_so(dumps, tmp_path, capsys):
    target, golden = dumps(Choices("mindspore", level="L0", blocks=()), Choices("pytorch", level="L1"))
    assert main(["mapping", "suggest", str(target), str(golden), "-o", str(tmp_path / "m.yaml")]) == 2
    assert "No pair was found" in capsys.readouterr().out
    assert not list(tmp_path.glob("m.*"))


def test_a_place_that_cannot_be_written_to_is_said_with_the_remedy(dumps, tmp_path, capsys):
    target, golden = dumps(Choices("mindspore"), Choices("pytorch"))
    (tmp_path / "file").write_text("")
    assert main(["mapping", "suggest", str(target), str(golden), "-o", str(tmp_path / "file" / "m.yaml")]) == 2
    assert "choose another path with -o" in capsys.readouterr().err
