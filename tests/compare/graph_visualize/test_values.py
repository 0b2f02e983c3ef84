"""The records of a node: every member that the dump has, as text."""

import odd_dumps
import pytest


@pytest.fixture
def shown(tmp_path, draw):
    node = draw("-tp", odd_dumps.values(tmp_path / "a")).npu("Module.m.M.forward.0")
    return {name.removeprefix("Module.m.M.forward.0."): members for name, members in node["input_data"].items()}


def test_a_tensor_shows_what_the_dump_says(shown):
    assert shown["input.0"] == {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": "[2, 3]",
        "Max": "1e-09",
        "Min": "-1e+22",
        "Mean": "123456789.12345679",
        "Norm": "0.1",
        "requires_grad": "True",
        "data_name": "-1",
    }
    assert list(shown["input.13"].values())[3:7] == ["nan", "-inf", "nan", "inf"]
    assert list(shown["input.12"].values())[3:7] == ["True", "False", "null", "null"]
    assert shown["input.11"]["shape"] == "[0]"
    assert shown["input.15"]["Max"] == "5"


def test_a_value_stands_for_all_its_statistics(shown):
    assert shown["input.1"] == {
        "type": "int",
        "value": "2",
        "data_name": "-1",
        "requires_grad": "null",
        **dict.fromkeys(("Max", "Min", "Mean", "Norm"), "2"),
        "dtype": "<class int>",
        "shape": "[]",
    }
    assert shown["input.3"]["value"] == 'its "x"', "no single quotes"
    assert shown["input.6"]["value"] == "[0, None, 2]"
    assert shown["input.7"]["dtype"] == "ellipsis"
    assert shown["input.alpha"]["Max"] == "1.0"


def test_nothing_is_null_and_a_group_is_its_ranks(shown):
    assert shown["input.5"] == shown["input.x"] == {"value": "null"}
    members = {"type": "torch.ProcessGroup", "group_ranks": "[0, 1]", "group_id": "g0", "data_name": "-1"}
    assert shown["input.10"] == members


def test_nested_arguments_have_their_paths(shown):
    assert shown["input.14.1.k"]["Norm"] == "5.0"
    assert "input.14.0" in shown


def test_digests_are_shown_only_where_they_are_compared(draw, sample):
    alone = draw("-tp", sample("ms_mix_md5")).npu("Cell.fc1.Linear.forward.0")
    both = draw("-tp", sample("ms_mix_md5"), "-gp", sample("ms_mix_md5")).npu("Cell.fc1.Linear.forward.0")
    name = "Cell.fc1.Linear.forward.0.input.0"
    assert "md5" not in alone["input_data"][name]
    assert both["input_data"][name]["md5"] == "cb3d93ed"


def test_a_tensor_with_a_file_names_it(draw, sample):
    drawn = draw("-tp", sample("ms_mix_tensor"))
    node = drawn.npu("Cell.fc1.Linear.forward.0")
    assert node["input_data"]["Cell.fc1.Linear.forward.0.parameters.weight"]["data_name"] == (
        "Cell.fc1.Linear.forward.0.parameters.weight.npy"
    )
    assert list(node["input_data"]) == [
        f"Cell.fc1.Linear.forward.0.{place}" for place in ("input.0", "parameters.weight", "parameters.bias")
    ]
    assert node["dump_data_dir"] == str(sample("ms_mix_tensor") / "dump_tensor_data")
