"""Lists of ranks and steps."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.scope import compact_ranges, contains, parse_number_option, parse_numbers


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([], ()),
        ([0, "3-5", 4], (0, 3, 4, 5)),
        ([7, 3, 7], (3, 7)),
        (["2"], (2,)),
        (["007"], (7,)),
        (["4-4"], (4,)),
        ([0, 1_000_000], (0, 1_000_000)),
        (["999998-1000000"], (999_998, 999_999, 1_000_000)),
        ((1, "2-3"), (1, 2, 3)),
    ],
)
def test_a_list_means_its_sorted_union(written, expected):
    assert parse_numbers(written) == expected


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["5-3"], '"5-3" is a descending range; write the smaller number first, "3-5"'),
        (["-3"], '"-3" is neither a number nor a range; write'),
        (["1-2-3"], '"1-2-3" is neither a number nor a range'),
        (["a-b"], '"a-b" is neither a number nor a range'),
        ([""], '"" is neither a number nor a range'),
        (["3 - 5"], '"3 - 5" is neither a number nor a range'),
        (["٣"], "is neither a number nor a range"),
        ([True], "true is neither a number nor a range"),
        ([1.0], "1.0 is neither a number nor a range"),
        ([None], "null is neither a number nor a range"),
        ([[1]], "[1] is neither a number nor a range"),
        ([-1], "-1 is out of range; choose numbers from 0 to 1000000"),
        ([1_000_001], "1000001 is out of range; choose numbers from 0 to 1000000"),
        (["0-1000001"], '"0-1000001" is out of range; choose numbers from 0 to 1000000'),
        (["9" * 5000], "is out of range; choose numbers from 0 to 1000000"),
        (3, '3 is not a list; write a list such as [0, "3-5"], or [] for all'),
        ("0-3", '"0-3" is not a list'),
        ({"0": 1}, "is not a list"),
        ([0] * 1_000_001, "the list has 1000001 elements, more than 1000000; write ranges"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_list_of_numbers_is_said(written, message):
    with pytest.raises(SettingsError) as caught:
        parse_numbers(written)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 250


@given(st.sets(st.integers(0, 40)))
def test_a_compact_list_is_json_and_read_back(steps):
    expected = tuple(sorted(steps))
    written = compact_ranges(expected)
    assert parse_numbers(json.loads(json.dumps(written))) == expected
    assert len(written) <= len(expected)


def test_a_compact_list_has_ranges_from_three_in_a_row():
    assert compact_ranges((0, 1, 3, 4, 5, 9)) == [0, 1, "3-5", 9]
    assert compact_ranges(()) == []


@given(st.sets(st.integers(0, 40)), st.integers(0, 50))
def test_a_list_holds_its_numbers_and_the_empty_one_all(steps, number):
    assert contains(tuple(sorted(steps)), number) == (not steps or number in steps)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-3", (0, 1, 2, 3)), ("0,2,5-7", (0, 2, 5, 6, 7)), (" 3 , 0 - 1,1", (0, 1, 3)), ("7", (7,)), ("4-4", (4,))],
)
def test_an_option_takes_numbers_and_ranges_with_spaces(text, expected):
    assert parse_number_option("--rank", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ",",
        "0,",
        "0,,1",
        "-1",
        "0--3",
        "3-0",
        "0-3-5",
        "1.5",
        "a",
        "0;1",
        "0x1",
        "1e3",
        "[0]",
        "1000001",
        "9" * 5000,
    ],
)
def test_an_option_refuses_what_is_no_range_and_names_itself(text):
    with pytest.raises(UsageError) as refused:
        parse_number_option("--step", text)
    assert str(refused.value).startswith("--step: ")
    assert len(str(refused.value)) < 400
