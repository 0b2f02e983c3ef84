"""Levels of values that are not finite."""

import odd_dumps
import pytest
from made_dumps import NAN, forward, tensor, write

LEVELS = {
    "Torch.log.0.forward": "critical",  # made here
    "Torch.add.0.forward": "high",  # passed on
    "Torch.where.0.forward": "medium",  # absorbed
    "Torch.mul.0.forward": "high",  # 101 / 1 is above 100
    "Torch.mul.1.forward": None,  # 100 / 1 is not
    "Torch.mul.2.forward": "high",  # of nothing, above 100
    "Torch.mul.3.forward": None,
    "Torch.empty.0.forward": None,  # its memory means nothing
    "Torch.clean.0.forward": None,
    "Torch.fill.0.forward": None,  # a number among the arguments
    "Tensor.masked_fill_.0.forward": None,  # written over
    "Tensor.masked_fill_.1.forward": "high",  # the second tensor is read
    "Distributed.recv.0.forward": None,
    "Distributed.recv.1.forward": None,
    "Distributed.reduce_scatter.0.forward": None,
    "Distributed.all_gather.0.forward": None,
    "Torch.mean.0.forward": "medium",  # the mean alone is infinite
    "Module.m.M.forward.0": "critical",  # a parameter is no input
    "Module.m.M.backward.0": "critical",
}


def test_levels_of_one_dump(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.overflow(tmp_path / "a"), "-oc")
    assert {name: drawn.npu(name)["overflow_level"] for name in LEVELS} == LEVELS
    assert drawn.config["overflow_check"] == 1


def test_both_sides_have_levels(tmp_path, draw):
    folder = odd_dumps.overflow(tmp_path / "a")
    drawn = draw("-tp", folder, "-gp", folder, "-oc")
    for side in (drawn.npu, drawn.bench):
        assert {name: side(name)["overflow_level"] for name in LEVELS} == LEVELS


def test_without_the_option_there_are_none(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.overflow(tmp_path / "a"))
    assert {node["overflow_level"] for node in drawn.nodes.values()} == {None}
    assert drawn.config["overflow_check"] == 0


@pytest.mark.parametrize(
    ("call", "inputs", "outputs", "level"),
    [
        ("Mint.empty.0.forward", [], [tensor(NAN)], None),
        ("MintDistributed.recv.0.forward", [tensor(NAN)], [tensor()], None),
        ("MintDistributed.all_gather_into_tensor.0.forward", [tensor(NAN), tensor()], [tensor()], None),
        ("Mint.add.0.forward", [tensor(norm=1.0)], [tensor(norm=101.0)], "high"),  # MindSpore's tensors count too
    ],
)
def test_mindspores_functions_have_the_same_rules(tmp_path, draw, call, inputs, outputs, level):
    folder = write(tmp_path / "a", {call: forward(inputs, outputs)})
    assert draw("-tp", folder, "-oc").npu(call)["overflow_level"] == level
