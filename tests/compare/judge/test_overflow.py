"""Levels of values that are not finite: one rule, and what the two places that show them take as inputs."""

import math

import pytest

from msprobe.compare.judge.overflow import OF_ALL_VALUES, OF_ARGUMENTS, levels
from msprobe.store.flatten import ColumnsBuilder

pytestmark = pytest.mark.everywhere

NAN, INF = math.nan, math.inf


def tensor(top=1.0, norm=1.0, **more):
    record = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": top, "Min": 0.0, "Mean": 0.5}
    return {**record, "Norm": norm, **more}


def level(name, entry, sides):
    builder = ColumnsBuilder()
    builder.add(name, entry)
    (found,) = levels(builder.columns(), sides)
    return found


def both(name, entry):
    return level(name, entry, OF_ARGUMENTS), level(name, entry, OF_ALL_VALUES)


def call(inputs, outputs, **more):
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs, **more}


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ([tensor()], [tensor()], ""),
        ([tensor()], [tensor(NAN)], "critical"),
        ([tensor()], [tensor(Mean=INF)], "critical"),
        ([tensor(INF)], [tensor(NAN)], "high"),
        ([tensor(-INF)], [tensor()], "medium"),
        ([tensor(norm=1.0)], [tensor(norm=101.0)], "high"),
        ([tensor(norm=-1.0)], [tensor(norm=-101.0)], "high"),  # some writers keep the sign of one element
        ([tensor(norm=1.0)], [tensor(norm=100.0)], ""),
        ([tensor(norm=0.0)], [tensor(norm=101.0)], "high"),
        ([], [tensor(norm=101.0)], ""),
        ([{"type": "float", "value": -INF}], [tensor()], ""),
        ([tensor(3, Min=0, norm=2.0, dtype="torch.int64")], [tensor(norm=201.0)], "high"),
        ([tensor(None, Min=None, Mean=None, Norm=None, shape=[0])], [tensor(norm=1000.0)], ""),
    ],
)
def test_the_levels(inputs, outputs, expected):
    assert both("Torch.add.0.forward", call(inputs, outputs)) == (expected, expected)


def test_a_weight_is_an_input_in_the_report_alone():
    entry = call([tensor()], [tensor(NAN)], parameters={"weight": tensor(NAN)})
    assert both("Module.fc.Linear.forward.0", entry) == ("critical", "high")


def test_a_gradient_is_a_result_in_the_report_alone():
    assert both("Module.fc.Linear.parameters_grad", {"weight": [tensor(NAN)]}) == ("", "critical")


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("Torch.empty.0.forward", [], [tensor(NAN)]),
        ("Tensor.new_empty.0.forward", [tensor()], [tensor(NAN)]),
        ("Tensor.zero_.0.forward", [tensor(NAN)], [tensor()]),
        ("Tensor.masked_fill_.0.forward", [tensor(NAN), tensor()], [tensor()]),
        ("Distributed.recv.0.forward", [tensor(NAN)], [tensor()]),
        ("MintDistributed.all_gather_into_tensor.0.forward", [tensor(NAN), tensor()], [tensor()]),
        ("Distributed.all_to_all_single.0.forward", [tensor(NAN), tensor()], [tensor()]),
    ],
)
def test_memory_that_is_written_or_not_yet_written_does_not_count(name, inputs, outputs):
    assert both(name, call(inputs, outputs)) == ("", "")


def test_what_a_collective_sends_counts():
    entry = {"input_args": [[tensor()]], "input_kwargs": {"tensor": tensor(NAN)}, "output": [tensor()]}
    assert both("Distributed.all_gather.0.forward", entry) == ("medium", "medium")
