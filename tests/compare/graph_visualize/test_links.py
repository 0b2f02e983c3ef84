"""Which node is linked to which: by the rules of a comparison, and by names where nothing was recorded."""

import json

import pytest
from made_dumps import backward, forward, tensor, write

ROOT = "DefaultModel"


def one_layer(folder, calls, *, path="fc.Dense", **more):
    """A cell with calls in it, forward; and nothing else."""
    cell = f"Cell.{path}.forward.0"
    data = {name: forward([tensor()], [tensor(shape=(2, 3 + at))]) for at, name in enumerate(calls)}
    data[cell] = forward([tensor()], [tensor()])
    return write(folder, data, {**dict.fromkeys(calls, cell), cell: None}, **more)


def test_equal_names_below_equal_parents_are_linked(draw, sample):
    drawn = draw("-tp", sample("ms_mix_stat"), "-gp", sample("msp_mix_stat"))
    for node in drawn.nodes.values():
        assert node["matched_node_link"][-1] == node["node_name"]
    assert drawn.npu("Mint.mean.0.forward")["matched_node_link"] == [
        ROOT,
        "Apis_Between_Modules.0",
        "Mint.mean.0.forward",
    ]
    assert drawn.npu(ROOT)["matched_node_link"] == [ROOT]


def test_what_only_one_side_has_is_grey(draw, sample):
    drawn = draw("-tp", sample("ms_mix_stat"), "-gp", sample("ms_L0_stat"))
    dense, cell = drawn.npu("Primitive.dense.Dense.0.forward"), drawn.npu("Cell.fc1.Linear.forward.0")
    assert (dense["matched_node_link"], dense["precision_index"]) == ([], None)
    assert (cell["matched_node_link"], cell["precision_index"]) == ([ROOT, "Cell.fc1.Linear.forward.0"], 0)
    assert drawn.npu("Apis_Between_Modules.0")["precision_index"] is None
    assert "Result" not in dense["output_data"]["Primitive.dense.Dense.0.forward.output.0"]


def test_a_call_more_shifts_no_link(tmp_path, draw):
    names = [f"Mint.{name}.0.forward" for name in ("sin", "cos", "exp")]
    target = one_layer(tmp_path / "a", [*names, "Mint.add.0.forward", "Mint.add.1.forward"])
    data = json.loads((target / "dump.json").read_text())["data"]
    del data["Mint.add.0.forward"]
    data = {name.replace("add.1", "add.0"): entry for name, entry in data.items()}  # the same call, another number
    cell = "Cell.fc.Dense.forward.0"
    golden = write(tmp_path / "b", data, {name: None if name == cell else cell for name in data})
    drawn = draw("-tp", target, "-gp", golden)
    assert drawn.npu("Mint.add.1.forward")["matched_node_link"] == [ROOT, cell, "Mint.add.0.forward"]
    assert drawn.npu("Mint.add.0.forward")["matched_node_link"] == []
    assert drawn.bench("Mint.add.0.forward")["matched_node_link"] == [ROOT, cell, "Mint.add.1.forward"]


def test_fuzzy_links_what_does_the_same_under_another_name(tmp_path, draw):
    sides = [one_layer(tmp_path / path, ["Mint.sin.0.forward"], path=path) for path in ("a.Dense", "b.Dense")]
    link = [ROOT, "Cell.b.Dense.forward.0"]
    drawn = draw("-tp", sides[0], "-gp", sides[1], "-fm")
    assert drawn.npu("Cell.a.Dense.forward.0")["matched_node_link"] == link


@pytest.mark.parametrize("options", [(), ("-lm",), ("-lm", "file")])
def test_two_frameworks_are_linked_with_and_without_a_mapping(tmp_path, draw, sample, options):
    (tmp_path / "layers.yaml").write_text("TopLayer:\n  fc1: fc1\n")
    words = [str(tmp_path / "layers.yaml") if word == "file" else word for word in options]
    drawn = draw("-tp", sample("ms_mix_stat"), "-gp", sample("pt_mix_stat"), *words)
    links = {node["node_name"]: node["matched_node_link"] for node in drawn.nodes.values() if node["id"][:3] == "NPU"}
    assert links["Cell.fc1.Linear.forward.0"] == [ROOT, "Module.fc1.Linear.forward.0"]
    assert links["Primitive.dense.Dense.1.forward"] == [
        ROOT,
        "Module.fc2.Linear.forward.0",
        "Functional.linear.1.forward",
    ]
    assert links["Mint.square.0.backward"] == [ROOT, "Apis_Between_Modules.0", "Torch.square.0.backward"]
    assert all(links.values())
    assert {node["precision_index"] for node in drawn.nodes.values()} == {None, 0}


def test_a_layer_mapping_links_other_names(tmp_path, draw):
    target = one_layer(tmp_path / "a", ["Mint.sin.0.forward"], path="net.proj.Dense")
    golden = one_layer(tmp_path / "b", ["Mint.sin.4.forward"], path="net.query.out.Dense")
    (tmp_path / "layers.yaml").write_text("TopLayer:\n  net.proj: net.query.out\n")
    drawn = draw("-tp", target, "-gp", golden, "-lm", tmp_path / "layers.yaml")
    cell = "Cell.net.query.out.Dense.forward.0"
    assert drawn.npu("Cell.net.proj.Dense.forward.0")["matched_node_link"] == [ROOT, cell]
    assert drawn.npu("Mint.sin.0.forward")["matched_node_link"] == [ROOT, cell, "Mint.sin.4.forward"]


def test_structures_without_values_are_linked(draw, sample):
    folder = sample("task_structure_mix")
    drawn = draw("-tp", folder, "-gp", folder)
    assert drawn.config["task"] == "structure"
    assert list(drawn.config["node_colors"]) == ["#C7C7C7"]
    assert len(drawn.nodes) == 2 * 20
    for node in drawn.nodes.values():
        assert node["matched_node_link"][-1] == node["node_name"]
        assert (node["precision_index"], node["input_data"], node["output_data"]) == (None, {}, {})


def test_cells_that_ran_and_were_not_recorded_are_linked_by_name(tmp_path, draw):
    construct = {"Mint.sin.0.forward": "Cell.a.A.forward.0", "Cell.a.A.forward.0": None}
    sides = [write(tmp_path / s, {"Mint.sin.0.forward": forward([tensor()], [tensor()])}, construct) for s in "ab"]
    drawn = draw("-tp", sides[0], "-gp", sides[1])
    node = drawn.npu("Cell.a.A.forward.0")
    assert (node["matched_node_link"], node["precision_index"]) == ([ROOT, "Cell.a.A.forward.0"], None)


def test_micro_steps_of_the_golden_are_those_of_the_partners(tmp_path, draw):
    def side(folder, wraps):
        names = [f"Cell.a.A.{d}.{n}" for n in (0, 1) for d in ("forward", "backward")]
        data = {
            name: forward([tensor()], [tensor()]) if "for" in name else backward([tensor()], [tensor()])
            for name in names
        }
        return write(folder, data, {name: wraps for name in names} | ({wraps: None} if wraps else {}))

    drawn = draw("-tp", side(tmp_path / "a", None), "-gp", side(tmp_path / "b", "Cell.w.W.forward.0"))
    assert drawn.npu("Cell.a.A.forward.1")["micro_step_id"] == 1
    assert drawn.bench("Cell.a.A.forward.1")["micro_step_id"] == 1, "alone it would be in step 0, inside the cell"
