"""What the search goes by: fingerprints of parameters, values, the flow of tensors, operations and classes."""

from dataclasses import replace

import numpy as np
import pytest

from msprobe.compare.core.tensor import Tensor
from msprobe.compare.counterparts.dump_view import Dataflow, Side
from msprobe.compare.counterparts.features import (
    CORRESPONDING,
    MAYBE,
    UNLIKELY,
    UNRELATED,
    classes,
    close,
    operations,
)
from msprobe.compare.counterparts.search import find_counterparts
from msprobe.store.record import Call, Dump, Record, Statistics

BOTH = ("mindspore", "pytorch")


def tensor(array, digest="", source=""):
    """A tensor as a dump tells of it."""
    statistics = float(array.max()), float(array.min()), float(array.mean()), float(np.linalg.norm(array))
    return Tensor(array.shape, "float32", statistics, digest, source)


def test_a_transposed_weight_has_the_same_fingerprint_and_another_weight_has_not():
    weight = np.random.default_rng(0).standard_normal((4, 6))
    assert tensor(weight).weight == tensor(weight.T).weight is not None
    assert tensor(weight).weight != tensor(weight + 1e-6).weight


def test_weights_that_are_everywhere_have_no_fingerprint():
    assert tensor(np.ones(8)).weight is None
    assert tensor(np.zeros((3, 3))).weight is None


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ((2.0, -1.0, 0.5, 9.0), True),
        ((2.001, -1.0, 0.5, 9.0), True),
        ((2.0, -1.0, 0.5, 9.1), False),
        ((2.0, -1.0, 0.6, 9.0), False),
        ((float("nan"),) * 4, False),
    ],
)
def test_values_agree_to_a_part_of_the_tensors_size(theirs, expected):
    mine = np.array((2.0, -1.0, 0.5, 9.0))
    assert bool(close(mine, np.array([theirs]), 1e-3)[0]) is expected


def test_a_mean_near_zero_is_held_against_the_size_of_the_elements():
    assert close(np.array((3.0, -3.0, 1e-9, 40.0)), np.array([(3.0, -3.0, -2e-8, 40.0)]), 1e-3)[0]


def test_operations_correspond_by_the_table_or_by_their_word():
    assert operations("Functional.softmax", "Functional.softmax", BOTH) == CORRESPONDING
    assert operations("Tensor.swapaxes", "Tensor.permute", BOTH) > UNRELATED
    assert operations("Primitive.relu.ReLU", "Functional.relu", BOTH) > UNRELATED
    assert operations("Functional.softmax", "Functional.relu", BOTH) == UNRELATED
    assert operations("Functional.relu", "Primitive.relu.ReLU", ("pytorch", "mindspore")) > UNRELATED


def test_layers_correspond_and_classes_of_the_user_may():
    assert classes("Dense", "Linear", BOTH) == CORRESPONDING
    assert classes("Dense", "LayerNorm", BOTH) == UNRELATED
    assert classes("Attention", "SelfAttention", BOTH) == MAYBE
    assert classes("Attention", "LayerNorm", BOTH) == UNLIKELY


def record(name, part, array, source="", path=("0",)):
    statistics = Statistics(float(array.max()), float(array.min()), float(array.mean()), float(np.linalg.norm(array)))
    kind = "mindspore.Tensor"
    return Record(name, part, path, "tensor", kind, "Float32", array.shape, statistics, source=source)


def dump(*calls):
    construct = {call.name: call.parent for call in calls}
    return Dump("", "", "statistics", "mix", "mindspore", calls, construct)


def call(name, argument, result, parent=None, source=""):
    return Call(name, (record(name, "input", argument, source), record(name, "output", result)), parent)


RNG = np.random.default_rng(1)
A, B, C = RNG.standard_normal((2, 3)), RNG.standard_normal((2, 3)), RNG.standard_normal((2, 3))


def test_the_producer_of_a_tensor_is_told_by_the_dump():
    side = Side(
        dump(
            call("Functional.a.0.forward", A, B),
            call("Functional.b.0.forward", C, A, source="call Functional.a.0.forward.output.0"),
        )
    )
    assert Dataflow(side).made[1] == (((0,),),)


def test_without_being_told_it_is_the_last_call_with_the_same_values_whatever_their_shape():
    side = Side(dump(call("Functional.a.0.forward", A, B), call("Functional.b.0.forward", B.reshape(3, 2), C)))
    assert Dataflow(side).made[1] == (((0,),),)


def test_a_module_that_ended_with_its_last_call_is_named_behind_it():
    inner = call("Functional.a.0.forward", A, B, "Cell.m.M.forward.0")
    side = Side(dump(inner, call("Cell.m.M.forward.0", A, B), call("Functional.b.0.forward", B, C)))
    chains = Dataflow(side).made[2][0]
    assert (1,) in chains or (0, 1) in chains


def test_what_a_module_is_given_does_not_come_from_inside_it():
    """A dropout that is off gives inside what the module was given."""
    inner = call("Functional.dropout.0.forward", A, A, "Cell.d.Dropout.forward.0")
    side = Side(dump(inner, call("Cell.d.Dropout.forward.0", A, A)))
    assert Dataflow(side).made[1] == ((),)


def test_a_weight_comes_from_no_call():
    side = Side(dump(call("Functional.a.0.forward", A, B, source="parameter fc.weight")))
    assert Dataflow(side).constant[0] == (True,)


def test_cells_in_which_a_layer_of_the_framework_runs_count_as_no_modules():
    inner = call("Cell.rnn.rnn._DynamicLSTMCPUGPU.forward.0", A, B, "Cell.rnn.LSTM.forward.0")
    side = Side(dump(inner, call("Cell.rnn.LSTM.forward.0", A, B)))
    assert side.leaves == [1]


def test_parents_that_lead_in_a_circle_end():
    names = "Cell.a.A.forward.0", "Cell.b.B.forward.0"
    lost = Dump(
        "",
        "",
        "statistics",
        "mix",
        "mindspore",
        (call("Functional.a.0.forward", A, B, names[0]),),
        dict(zip(names, names[::-1], strict=True)),
    )
    assert Side(lost).parents == [-1]


def test_arguments_that_no_float_holds_do_no_harm():
    """Whoever writes a dump may write any integer, and NaN."""
    values = tuple(
        Record(f"Functional.a.0.forward.input.{n}", "input", (str(n),), "value", "int", value=value)
        for n, value in enumerate((10**400, float("nan"), True, None))
    )
    odd = dump(Call("Functional.a.0.forward", (*values, record("Functional.a.0.forward", "output", A))))
    other = replace(odd, framework="pytorch")
    assert len(find_counterparts(odd, other).calls) == 1


def test_dumps_without_any_statistics_are_paired_by_order():
    names = [f"Functional.relu.{n}.forward" for n in range(3)]
    bare = [replace(record(name, "output", A), statistics=None) for name in names]
    mine = dump(*(Call(name, (row,)) for name, row in zip(names, bare, strict=True)))
    found = find_counterparts(mine, replace(mine, framework="pytorch"))
    assert [(pair.target, pair.golden) for pair in found.calls] == [(0, 0), (1, 1), (2, 2)]
