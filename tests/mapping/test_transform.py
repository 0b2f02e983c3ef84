"""Layout transforms: what each word does, worked out by hand or by numpy; what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import MappingError
from msprobe.mapping.transform import IDENTITY, parse

X = np.arange(24).reshape(2, 3, 4)
ROW = np.arange(6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("transpose(1, 0, 2)", X.swapaxes(0, 1)),
        ("transpose", X.T),
        ("reshape(6, -1)", X.reshape(6, 4)),
        ("flatten", X.reshape(-1)),
        ("flatten(1)", X.reshape(2, 12)),
        ("flatten(0, 1)", X.reshape(6, 4)),
        ("unsqueeze(1)", X[:, None]),
        ("unsqueeze(1) | squeeze(1)", X),
        ("flip(0, 2)", X[::-1, :, ::-1]),
        ("slice(1, 1, 3)", X[:, 1:3]),
        ("slice(-1, none, 2)", X[..., :2]),
        ("split(2, 1, 2)", X[:, :, 2:]),
        ("negate", -X),
        ("complement", 1 - X),
        ("reshape(6, 4) | transpose(1, 0) | slice(0, 0, 2)", X.reshape(6, 4).T[:2]),
    ],
)
def test_a_word_does_what_its_name_says_to_arrays_and_to_shapes(text, expected):
    made = parse(text)(X)
    np.testing.assert_array_equal(made, expected)
    assert made.dtype == X.dtype
    assert parse(text).shape(X.shape) == expected.shape


def test_concat_joins_a_list():
    parts = [X[:, :1], X[:, 1:]]
    np.testing.assert_array_equal(parse("concat(1)")(parts), X)
    assert parse("concat(1)").shape([(2, 1, 4), (2, 2, 4)]) == (2, 3, 4)


def test_fused_weights_are_split_by_heads():
    """Megatron's qkv: per head the rows of q, k and v; the same as three weights of their own, one below the other."""
    heads, size, width = 2, 3, 5
    q, k, v = (np.random.default_rng(i).random((heads * size, width)) for i in range(3))
    fused = np.concatenate([part[h * size : (h + 1) * size] for h in range(heads) for part in (q, k, v)])
    for index, part in enumerate((q, k, v)):
        text = f"reshape({heads}, 3, {size}, {width}) | split(1, {index}, 3) | reshape({heads * size}, {width})"
        np.testing.assert_array_equal(parse(text)(fused), part)
        assert parse(text).shape(fused.shape) == part.shape


def test_words_for_numbers_and_lists():
    assert parse("complement")(0.25) == 0.75
    assert parse("negate")(3) == -3
    assert parse("reverse")((1, 2, 3)) == (3, 2, 1)
    assert parse("reverse")([1, 2]) == [2, 1]


def test_without_words_nothing_is_done():
    assert parse("") == parse("  ") == IDENTITY
    assert not IDENTITY
    assert parse("flatten")
    assert IDENTITY(X) is X


def test_a_transform_is_written_as_it_is_read():
    text = "reshape(6, -1) | slice(0, none, 2) | flatten"
    assert str(parse("reshape( 6,-1 )|slice(0,None,2)|flatten")) == text
    assert parse(text) == parse(str(parse(text)))


def test_gradients_follow_what_only_moves_elements():
    assert parse("transpose(1, 0) | flatten").is_layout
    assert not parse("complement").is_layout
    assert not parse("transpose | negate").is_layout


steps = st.sampled_from(
    ["transpose", "transpose(2, 0, 1)", "transpose(-1, 0, 1)", "flip(1)", "complement", "unsqueeze(1) | squeeze(1)"]
)


@given(st.lists(steps, max_size=4), st.sampled_from(["", "flatten", "reshape(-1, 2)", "flatten(1)", "unsqueeze(-1)"]))
def test_the_inverse_brings_everything_back(words, last):
    transform = parse(" | ".join([*words, last] if last else words))
    back = transform.inverse(X.shape)
    np.testing.assert_array_equal(back(transform(X)), X)


@pytest.mark.parametrize("text", ["slice(0, 0, 1)", "split(0, 0, 2)", "concat(0)", "reverse"])
def test_what_loses_or_joins_has_no_inverse(text):
    assert parse(f"negate | {text}").inverse((2, 3)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("transposed(1, 0)", "'transposed(1, 0)' is not a step; choose from complement, concat"),
        ("transpose(1, 0", "is not a step"),
        ("flatten | ", "'' is not a step"),
        ("reshape", "reshape takes at least 1 numbers, not 0"),
        ("squeeze(0, 1)", "squeeze takes 1 numbers, not 2"),
        ("slice(0, 1)", "slice takes 3 numbers"),
        ("transpose(a, b)", "'a, b' are not integers"),
        ("transpose(none, 0)", "transpose takes"),
        ("__import__('os')", "is not a step"),
    ],
)
def test_a_text_that_is_no_transform_is_refused(text, message):
    with pytest.raises(MappingError) as error:
        parse(text)
    assert message in str(error.value)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("transpose(1, 0)", X, "a tensor of shape (2, 3, 4)"),
        ("reshape(5, -1)", X, "cannot reshape"),
        ("squeeze(1)", X, "squeeze(1)"),
        ("split(1, 0, 2)", X, "axis 1 of size 3 has no part 0 of 2 equal parts"),
        ("split(2, 2, 2)", X, "no part 2 of 2"),
        ("slice(3, 0, 1)", X, "slice(3, 0, 1)"),
        ("concat(2)", [X, X[:1]], "a list"),
        ("flatten(2, 1)", X, "axis 1 is before axis 2"),
        ("flatten", 3, "a int"),
        ("reverse", 3, "a int"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused(text, value, message):
    with pytest.raises(MappingError) as error:
        parse(text)(value)
    assert message in str(error.value)
    assert "correct the transform" in str(error.value)


def test_shapes_are_computed_without_memory():
    assert parse("transpose(1, 0) | reshape(-1, 2)").shape((1 << 30, 1 << 20)) == (1 << 49, 2)
    with pytest.raises(MappingError):
        parse("flatten").shape((2, -1))


def test_shapes_of_joined_and_negated_tensors_are_computed_without_memory():
    half = (1 << 20, 1 << 30)
    assert parse("concat(0) | negate | complement").shape([half, half]) == (1 << 21, 1 << 30)
    with pytest.raises(MappingError):
        parse("concat(0)").shape([(2, 3), (2, 4)])
    with pytest.raises(MappingError):
        parse("concat(2)").shape([(2, 3), (2, 3)])
