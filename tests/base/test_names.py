"""The grammar of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.names import API_PREFIXES, api_call, call_of, cell_call, counterpart, parse, similar_calls

NAMES = [
    # text, kind, stem, direction, number, path
    ("Functional.relu.0.forward", "api", "Functional.relu", "forward", 0, ""),
    ("Tensor.__add__.3.backward", "api", "Tensor.__add__", "backward", 3, ""),
    ("MintDistributed.all_reduce.12.forward", "api", "MintDistributed.all_reduce", "forward", 12, ""),
    ("Primitive.matmul.MatMul.0.forward", "api", "Primitive.matmul.MatMul", "forward", 0, ""),
    ("Jit.train_step.0.backward", "api", "Jit.train_step", "backward", 0, ""),
    ("my.own.attention.1.forward", "api", "my.own.attention", "forward", 1, ""),
    ("Cell.conv1.Conv2d.forward.0", "cell", "Cell.conv1.Conv2d", "forward", 0, "conv1"),
    ("Cell.1.d.Dense.backward.2", "cell", "Cell.1.d.Dense", "backward", 2, "1.d"),
    ("Module.layers.0.mlp.MLP.forward.1", "cell", "Module.layers.0.mlp.MLP", "forward", 1, "layers.0.mlp"),
    ("Cell.a.forward.0.Dense.forward.7", "cell", "Cell.a.forward.0.Dense", "forward", 7, "a.forward.0"),
    ("Cell.fc.Dense.parameters_grad", "parameters_grad", "Cell.fc.Dense", "backward", -1, "fc"),
    ("Cell.a.fc.Dense.parameters_grad.4", "parameters_grad", "Cell.a.fc.Dense", "backward", 4, "a.fc"),
    ("var.0.debug", "debug", "var", "", 0, ""),
    ("var_grad.3.debug", "debug", "var_grad", "", 3, ""),
    ("损失.0.debug", "debug", "损失", "", 0, ""),
    ("loss", "other", "loss", "", -1, ""),
    ("", "other", "", "", -1, ""),
    ("Functional.relu.forward", "other", "Functional.relu.forward", "", -1, ""),
]


@pytest.mark.parametrize(("text", "kind", "stem", "direction", "number", "path"), NAMES, ids=[row[0] for row in NAMES])
def test_a_name_is_taken_apart(text, kind, stem, direction, number, path):
    name = parse(text)
    assert (name.text, name.kind, name.stem, name.direction, name.number) == (text, kind, stem, direction, number)
    assert name.path == path


@pytest.mark.parametrize(
    "text",
    [
        "Functional.relu.0.forward\n",  # a line break belongs to no name
        "Cell.fc.Dense.forward.0\n",
        "Functional.relu.٣.forward",  # digits of another script
        f"Functional.relu.{'9' * 5000}.forward",  # more digits than Python reads as a number
        "Functional.relu.-1.forward",
        "Cell.forward.0",  # no path, no class
    ],
)
def test_what_only_looks_like_a_call_is_of_no_kind(text):
    assert parse(text).kind == "other"
    assert parse(text).stem == text


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        ("Functional.relu.3.forward", "Functional.relu.3.backward"),
        ("Cell.fc.Dense.forward.3", "Cell.fc.Dense.backward.3"),
        ("Module.fc.Linear.forward.0", "Module.fc.Linear.backward.0"),
    ],
)
def test_the_counterpart_is_the_same_call_in_the_other_direction(forward, backward):
    assert counterpart(forward, "backward") == backward
    assert counterpart(backward, "forward") == forward
    assert counterpart(forward, "forward") == forward


@pytest.mark.parametrize("text", ["Cell.fc.Dense.parameters_grad", "var.0.debug", "loss"])
def test_a_name_without_direction_is_its_own_counterpart(text):
    assert counterpart(text, "forward") == text


words = st.text(st.characters(codec="utf-8", exclude_characters="."), min_size=1, max_size=8)
paths = st.lists(words, min_size=1, max_size=4).map(".".join)
ordinals = st.integers(0, 10**6)
directions = st.sampled_from(["forward", "backward"])


@given(st.sampled_from(API_PREFIXES), paths, ordinals, directions)
def test_an_api_call_that_is_made_is_read_back(prefix, path, number, direction):
    name = parse(api_call(f"{prefix}.{path}", number, direction))
    assert (name.kind, name.stem, name.number, name.direction) == ("api", f"{prefix}.{path}", number, direction)


@given(st.sampled_from(["Cell", "Module"]), paths, words, ordinals, directions)
def test_a_cell_call_that_is_made_is_read_back(prefix, path, kind, number, direction):
    name = parse(cell_call(f"{prefix}.{path}.{kind}", number, direction))
    assert (name.kind, name.stem, name.number, name.direction) == ("cell", f"{prefix}.{path}.{kind}", number, direction)
    assert name.path == path


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("Mint.add.0.forward", "Mint.add.0.forward"),
        ("Mint.add.0.forward.output.0", "Mint.add.0.forward"),
        ("Mint.add.0.forward.input.other.1", "Mint.add.0.forward"),
        ("Mint.add.1.forward", None),
        ("", None),
    ],
)
def test_the_call_of_a_name(name, call):
    assert call_of(name, ["Mint.add.0.forward", "Mint.mul.0.forward"]) == call


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("ADD", ["Mint.add.0.forward", "Mint.addmm.0.forward"]),
        ("Mint.mull.0.forward", ["Mint.mul.0.forward"]),
        ("nothing_alike_at_all", []),
        ("", []),
    ],
)
def test_calls_with_a_similar_name(name, similar):
    assert similar_calls(name, ["Mint.add.0.forward", "Mint.addmm.0.forward", "Mint.mul.0.forward"]) == similar
