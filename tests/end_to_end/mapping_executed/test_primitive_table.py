"""Primitives: what they are constructed with is not among the arguments of their calls."""

from msprobe.mapping.api import load_table

TABLE = load_table()


def test_a_primitive_is_known_by_its_class_whatever_holds_it():
    assert TABLE.counterparts("Primitive.matmul.MatMul") == TABLE.counterparts("Primitive.proj.MatMul") != ()


def test_an_attribute_is_documented_and_has_no_place_in_a_call():
    pair = TABLE.counterparts("Primitive.softmax.Softmax")[0]
    assert pair.pt == "Functional.softmax"
    assert pair.attributes == {"axis": "dim"}
    assert pair.pt_place("input", ("1",)) is None, "the axis is no argument of MindSpore's call"
    assert pair.ms_place("input", ("0",)) == pair.pt_place("input", ("0",))


def test_a_second_result_that_pytorch_does_not_give_has_no_place():
    pair = TABLE.counterparts("Primitive.dropout.Dropout")[0]
    assert pair.ms_place("output", ("0",)) == pair.pt_place("output", ("0",))
    assert pair.ms_place("output", ("1",)) is None, "the mask"


def test_values_and_indices_change_places():
    pair = TABLE.counterparts("Primitive.top.ArgMaxWithValue")[0]
    assert pair.pt == "Torch.max"
    assert pair.ms_place("output", ("0",)) == pair.pt_place("output", ("1",))


def test_arguments_of_the_batch_norm_are_named():
    pair = TABLE.counterparts("Primitive.bn.BatchNorm")[0]
    orders = [
        [pair.ms_place("input", (str(i),)) for i in range(5)],
        [pair.pt_place("input", (str(i),)) for i in range(5)],
    ]
    names = [[place.path[0] for place in order] for order in orders]
    assert names[0] == ["input", "weight", "bias", "running_mean", "running_var"]
    assert names[1] == ["input", "running_mean", "running_var", "weight", "bias"]


def test_a_transposed_weight_is_that_of_a_linear_layer():
    """The MatMul of nn.Dense: transpose_b, where PyTorch calls linear."""
    linear = next(pair for pair in TABLE.counterparts("Primitive.matmul.MatMul") if pair.pt == "Functional.linear")
    assert linear.dropped == {"transpose_a": False, "transpose_b": True}
    assert linear.ms_place("input", ("1",)).path == ("weight",)
