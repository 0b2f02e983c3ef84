"""Which parts of a call are kept."""

from itertools import product

import pytest

from msprobe.base.errors import SettingsError
from msprobe.base.scope import DataMode, parse_data_mode


@pytest.mark.parametrize(
    ("words", "forward_input", "forward_output", "backward_input", "backward_output"),
    [
        ([], True, True, True, True),
        (["all"], True, True, True, True),
        (["forward"], True, True, False, False),
        (["backward"], False, False, True, True),
        (["input"], True, False, True, False),
        (["output"], False, True, False, True),
        (["forward", "input"], True, False, False, False),
        (["output", "backward"], False, False, False, True),
        (["forward", "backward"], True, True, True, True),
        (["input", "output"], True, True, True, True),
        (["forward", "backward", "input"], True, False, True, False),
        (["forward", "input", "output"], True, True, False, False),
        (["forward", "backward", "input", "output"], True, True, True, True),
        (["input", "input"], True, False, True, False),
    ],
)
def test_the_side_that_is_missing_is_completed(words, forward_input, forward_output, backward_input, backward_output):
    mode = parse_data_mode(words)
    assert (mode.forward and mode.input) is forward_input
    assert (mode.forward and mode.output) is forward_output
    assert (mode.backward and mode.input) is backward_input
    assert (mode.backward and mode.output) is backward_output


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["all"], True),
        (["input"], True),
        (["forward"], False),
        (["forward", "input"], False),
        (["backward"], True),
        (["forward", "backward"], True),
    ],
)
def test_parameter_gradients_are_left_out_with_forward_alone(words, kept):
    assert parse_data_mode(words).parameters_grad is kept


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["all", "forward"], '["all", "forward"] combines "all" with other words; write ["all"] or remove "all"'),
        (["all", "all"], '"all" with other words'),
        (["forwards"], '"forwards" is unknown; choose from "all", "input", "output", "forward", "backward"'),
        (["input", "input", "input", "input", "output"], "5 words are more than 4; write each at most once"),
        ("all", '"all" is a single string; write a list, ["all"]'),
        (["forward", 1], "1 is not a name; the list may contain only"),
        (1, "1 is not a list of strings; write [] or"),
    ],
)
def test_what_is_no_data_mode_is_said(words, message):
    with pytest.raises(SettingsError) as caught:
        parse_data_mode(words)
    assert message in str(caught.value)


def test_a_description_means_the_same():
    for sides, kept in product([(True, True), (True, False), (False, True)], repeat=2):
        mode = DataMode(*sides, *kept)
        assert parse_data_mode(mode.described()) == mode
    assert DataMode().described() == ["all"]
