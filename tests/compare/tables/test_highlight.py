"""Colors of rows: every rule at its boundary, worked by hand, and the sheets that msprobe 8.1.1 colored."""

import math
import re
from itertools import groupby

import openpyxl
import pytest

from msprobe.compare.tables.highlight import (
    COSINE_FELL,
    MAGNITUDE_GREW,
    MAXIMUM_GREW,
    MAXIMUM_OFF,
    NON_FINITE,
    RED,
    THOUSANDTH_FELL,
    THOUSANDTH_LOST,
    TOO_FAR,
    YELLOW,
    Figures,
    highlights,
)

PLAIN = (None, ())


def by_statistics(part, golden_max, difference, least=-1.0):
    return Figures(part, golden_max + difference, least, golden_max, difference)


def by_elements(part, thousandth=1.0, cosine=1.0, difference=0.0):
    return Figures(part, 2.0, -1.0, 2.0, difference, thousandth, cosine)


@pytest.mark.parametrize("part", ["input", "parameters", "output"])
@pytest.mark.parametrize(
    "text", ["nan", "Nan", "inf", "-inf", "nan\t", "inf\t", "-inf\t", math.nan, math.inf, -math.inf]
)
def test_a_target_that_is_not_finite_is_red_wherever_it_stands(part, text):
    for row in (Figures(part, text, 0.0, 1.0, "N/A"), Figures(part, 1.0, text, 1.0, 0.0)):
        assert highlights([row]) == [(RED, (NON_FINITE,))]


@pytest.mark.parametrize("text", ["N/A", "None", None, "", True, "[0, 1]"])
def test_words_are_no_color(text):
    without = Figures("output", text, text, text, "N/A")
    assert highlights([by_statistics("input", 1.0, 0.0), without]) == [PLAIN, PLAIN]
    without = Figures("output", text, text, text, "unsupported", "unsupported", "unsupported")
    assert highlights([by_elements("input"), without]) == [PLAIN, PLAIN]


def test_a_golden_that_is_not_finite_is_no_color():
    assert highlights([Figures("output", 1.0, 0.0, "inf", "N/A")]) == [PLAIN]


@pytest.mark.parametrize("part", ["input", "parameters", "output"])
def test_a_difference_above_1e10_is_red(part):
    assert highlights([Figures(part, 1e15, 0.0, 1e15, 1e10, 1.0, 1.0)]) == [PLAIN]
    above = math.nextafter(1e10, math.inf)
    for difference in (above, -above):
        assert highlights([Figures(part, 1e15, 0.0, 1e15, difference, 1.0, 1.0)]) == [(RED, (TOO_FAR,))]


def test_elements_lost_within_a_call_are_red():
    def of(before, after):
        return highlights([by_elements("input", before), by_elements("output", after)])[1]

    assert of(0.91, 0.59) == (RED, (THOUSANDTH_LOST,))
    assert of(0.9, 0.59) == (YELLOW, (THOUSANDTH_FELL,))  # not above 0.9
    assert of(0.91, 0.6) == (YELLOW, (THOUSANDTH_FELL,))  # not below 0.6


@pytest.mark.parametrize("part", ["input", "parameters"])
def test_a_share_that_falls_by_more_than_a_tenth_is_yellow(part):
    def of(before, after):
        return highlights([by_elements(part, before), by_elements("output", after)])[1]

    assert of(0.75, 0.5) == (YELLOW, (THOUSANDTH_FELL,))
    assert of(0.875, 0.78125) == PLAIN  # by 0.09375
    assert of(1.0, 0.9) == PLAIN
    assert of(1.0, 0.8984375) == (YELLOW, (THOUSANDTH_FELL,))
    assert of(0.5, 0.75) == PLAIN


def test_a_cosine_that_falls_by_more_than_a_tenth_is_yellow():
    def of(before, after):
        return highlights([by_elements("input", 1.0, before), by_elements("output", 1.0, after)])[1]

    assert of(1.0, 0.875) == (YELLOW, (COSINE_FELL,))
    assert of(1.0, 0.9) == PLAIN
    assert of(0.5, -0.5) == (YELLOW, (COSINE_FELL,))
    assert of("unsupported", -0.5) == of(0.5, "Nan") == PLAIN


@pytest.mark.parametrize("sign", [1, -1])
def test_a_maximum_off_by_half_is_red(sign):
    def of(golden, difference):
        return highlights([by_statistics("input", 1.0, 0.1), by_statistics("output", golden, difference * sign)])[1]

    assert of(4.0, 2.0) == PLAIN  # a half is not more than a half
    assert of(4.0, 2.001) == (RED, (MAXIMUM_OFF,))
    assert of(-4.0, 2.0) == PLAIN  # 8.1 divides by 2.2e-16 here
    assert of(-4.0, 2.001) == (RED, (MAXIMUM_OFF,))
    # below 0.01 the difference counts relative to 0.01
    assert of(0.0, 0.005) == of(1e-9, 0.005) == PLAIN
    assert of(0.0, 0.00501) == of(1e-9, 0.00501) == (RED, (MAXIMUM_OFF,))


def test_a_maximum_far_off_is_red_also_where_nothing_went_in():
    assert highlights([by_statistics("output", 2.0, 10.0)]) == [(RED, (MAXIMUM_OFF,))]


def test_a_maximum_that_drifts_within_a_call_is_yellow():
    def of(before, after):
        return highlights([by_statistics("input", 1.0, before), by_statistics("output", 1.0, after)])[1]

    assert of(0.0099, 0.2) == (YELLOW, (MAXIMUM_GREW,))
    assert of(0.01, 0.2) == PLAIN  # an input off by a hundredth is off already
    assert of(0.0, 0.1) == PLAIN
    assert of(0.0, 0.1001) == (YELLOW, (MAXIMUM_GREW,))


@pytest.mark.parametrize(
    ("before", "after", "grew"),
    [
        (0.0, 10.0, True),
        (0.0, 9.999, False),  # log10 9.999 is below 1
        (0.001, 10.0, True),  # below 1 counts as 1
        (1.0, 10.0, True),
        (2.0, 20.0, True),
        (2.0, 19.0, False),
        (-2.0, 30.0, True),
        (30.0, -2.0, False),
        (0.0001, 0.9, False),
    ],
)
def test_a_difference_that_grows_by_a_magnitude_is_yellow(before, after, grew):
    expected = (YELLOW, (MAGNITUDE_GREW,)) if grew else PLAIN
    assert highlights([by_statistics("input", 1e6, before), by_statistics("output", 1e6, after)])[1] == expected
    rows = [by_elements("parameters", difference=abs(before)), by_elements("output", difference=abs(after))]
    assert highlights(rows)[1] == expected


def test_rows_without_numbers_are_held_against_nothing():
    fallen = by_elements("output", 0.1, 0.1, 20.0)
    for hidden in ({"target_max": "N/A"}, {"golden_max": "N/A"}, {"difference": "N/A"}):
        words = Figures(
            **{"part": "input", "target_min": 0.0, "target_max": 1.0, "golden_max": 1.0} | {"difference": 0.0} | hidden
        )
        assert highlights([words, fallen])[1] == PLAIN
        assert highlights([by_elements("input"), Figures("output", "N/A", "N/A", 1.0, 0.0, 0.1, 0.1)])[1] == PLAIN


def test_red_wins_and_each_reason_is_said_once():
    rows = [by_elements("input"), by_elements("parameters"), by_elements("input", 0.7), by_elements("output", 0.1, 0.1)]
    assert highlights(rows) == [PLAIN, PLAIN, PLAIN, (RED, (THOUSANDTH_LOST,))]
    rows = [by_elements("input", 0.8), by_elements("input", 0.7), by_elements("output", 0.3, 0.3, 11.0)]
    assert highlights(rows)[2] == (YELLOW, (THOUSANDTH_FELL, COSINE_FELL, MAGNITUDE_GREW))


def test_an_input_is_never_held_against_an_output():
    assert highlights([by_elements("output"), by_elements("input", 0.0, -1.0, 100.0)]) == [PLAIN, PLAIN]


def test_worked_examples():
    """Sixteen values, their golden times 1.0005; golden plus 5; four integers plus 1."""
    close = Figures("output", 1.0, -1.0, 1.0, 0.001163, 1.0, 1.0)
    shifted = Figures("output", 1.0, -1.0, 6.0, 5.0, 0.0, -0.11)
    integers = Figures("output", 3, 0, 4, 1.0, 0.0, 0.9759)
    inputs = by_elements("input")
    assert highlights([inputs, close]) == [PLAIN, PLAIN]
    assert highlights([inputs, shifted]) == [PLAIN, (RED, (THOUSANDTH_LOST,))]
    assert highlights([inputs, integers]) == [PLAIN, (RED, (THOUSANDTH_LOST,))]


PLACE = re.compile(r"(.+\.(?:forward|backward)(?:\.[0-9]+)?)\.(input|kwargs|parameters|output)")


def calls(path):
    """The rows of a sheet by call: for each row its color and its figures."""
    headings, *rows = openpyxl.load_workbook(path).active.iter_rows()
    at = {cell.value: number for number, cell in enumerate(headings)}

    def place(row):
        found = PLACE.match(row[0].value)
        return (found[1], found[2]) if found else (row[0].value, "output")

    for _, group in groupby(rows, key=lambda row: place(row)[0]):
        made = []
        for row in group:
            inputs = [row[at[name]].value for name in ("NPU max", "NPU min", "Bench max")]
            if "MaxAbsErr" in at:
                inputs += [row[at[name]].value for name in ("MaxAbsErr", "One Thousandth Err Ratio", "Cosine")]
            else:
                inputs.append(row[at["Max diff"]].value)
            part = place(row)[1].replace("kwargs", "input")
            fill = row[0].fill
            made.append((f"FF{fill.start_color.rgb[2:]}" if fill.fill_type else None, Figures(part, *inputs)))
        yield made


@pytest.mark.parametrize(
    ("folder", "red", "yellow"),
    [
        ("MS_MS_same_mix_stat", 1, 0),
        ("MS_MS_same_mix_tensor", 1, 0),
        ("MS_MS_perturbed_mix_stat", 1, 0),
        ("MS_MS_perturbed_mix_tensor", 7, 2),
    ],
)
def test_the_sheets_of_the_other_tool_have_these_colors(folder, red, yellow, samples):
    shown, ours = [], []
    for call in calls(samples / "8.1.1/compare" / folder / "compare_result.xlsx"):
        shown += [color for color, _ in call]
        ours += [color for color, _ in highlights([figures for _, figures in call])]
    assert ours == shown
    assert (shown.count(RED), shown.count(YELLOW)) == (red, yellow)
