"""The first sheet of a workbook, and how the sheet of rows is laid out: what a person sees who opens it."""

from dataclasses import replace

import pytest
from openpyxl import load_workbook
from openpyxl.utils import get_column_letter

from msprobe.compare.jobs.run import run_request
from msprobe.compare.request import Request
from msprobe.compare.tables.columns import columns

SCREEN = 1920 // 7  # characters of a common font across a common screen


@pytest.fixture(scope="module")
def opened(samples, tmp_path_factory):
    """`opened("stat")`: the request, its answer and its workbook; of one task made once."""
    dumps, known = samples / "8.1.1" / "dumps", {}

    def make(task, target="msp", **more):
        key = (task, target, *more.items())
        if key not in known:
            sides = (dumps / f"{side}_mix_{task}" / "step0" / "rank" / "dump.json" for side in (target, "ms"))
            request = replace(Request(*sides, tmp_path_factory.mktemp("out")), **more)
            result = run_request(request)
            known[key] = request, result, load_workbook(result.outcomes[0].table)
        return known[key]

    return make


def lines(book):
    return [tuple(row) for row in book["summary"].values]


def test_the_summary_stands_first_and_scripts_still_open_the_rows(opened):
    _, _, book = opened("stat")
    assert book.sheetnames == ["summary", "compare"]
    assert book.active.title == "compare"
    assert next(book.active.values)[0] == "NPU Name"
    assert [sheet.title for sheet in book if sheet.sheet_view.tabSelected] == ["compare"]


@pytest.mark.parametrize("task", ["stat", "tensor"])
def test_it_says_what_was_compared_and_the_answer(opened, task):
    request, result, book = opened(task)
    (outcome,) = result.outcomes
    cells = dict(line for line in lines(book) if line[0] is not None)
    assert cells["target"] == str(request.target)
    assert cells["golden"] == str(request.golden)
    assert (None, "MindSpore, statistics, level mix, format of msprobe") in lines(book) or task == "tensor"
    assert cells["compared by"] == outcome.mode
    assert f"first wrong call: {cells['first wrong call']}" == outcome.lines[-1]
    assert cells["exit code"].startswith("1:")
    assert {grade: cells[grade] for grade in outcome.counts} == dict(outcome.counts)


def test_where_nothing_differs_the_exit_code_is_0(opened):
    _, result, book = opened("stat", target="ms")
    cells = dict(line for line in lines(book) if line[0] is not None)
    assert result.is_clean
    assert cells["exit code"].startswith("0:")
    assert cells["no difference"] == result.outcomes[0].lines[-1].removeprefix("no difference: ")


def test_exit_zero_is_said(opened):
    _, _, book = opened("stat", exit_zero=True)
    assert "--exit-zero" in dict(lines(book))["exit code"]


def test_next_beginnings_and_causes_are_listed(builder, tmp_path):
    """Three calls whose results differ, then one that only one side makes; with `top` 1 one of the later three is
    listed."""
    target, golden = builder("t"), builder("g")
    for side, shift in ((target, 1.0), (golden, 0.0)):
        for number in range(4):
            side.call(f"Mint.exp.{number}.forward", [float(number)], [number + 0.5 + shift * (number > 0)])
    target.call("Mint.tan.0.forward", [1.0], [2.0])
    request = Request(target.write(), golden.write(), tmp_path / "out", top=1)
    (outcome,) = run_request(request).outcomes
    cells = lines(load_workbook(outcome.table))
    at = cells.index(("Other divergences, largest first", None))
    assert cells[at + 1][0] == "error"
    assert f"  also: {cells[at + 1][1]} (and 2 more, see the table)" in outcome.lines
    assert cells[at + 2][1].startswith("2 more:")
    causes = cells[cells.index(("Why unjudged", None)) + 1 :]
    assert causes[0][0] == outcome.counts["unjudged"] == 2


@pytest.mark.parametrize(
    ("task", "with_stack"), [("stat", False), ("tensor", False), ("md5", False), ("stat", True), ("tensor", True)]
)
def test_the_verdict_and_most_of_its_reason_are_on_the_screen(opened, task, with_stack):
    """No column moved: what is beside the point is folded, and opens with one click."""
    _, result, book = opened(task, with_stack=with_stack)
    sheet = book["compare"]
    outcome = result.outcomes[0]
    titles = [column.title for column in columns(outcome.mode, with_stack, with_noise=bool(outcome.limits))]
    assert list(next(sheet.values)) == titles
    looks = {title: sheet.column_dimensions[get_column_letter(at)] for at, title in enumerate(titles, 1)}
    shown = [title for title in titles if not looks[title].hidden]
    assert {look.outlineLevel for title, look in looks.items() if title not in shown} <= {1}
    assert {look.outlineLevel for title, look in looks.items() if title in shown} == {0}
    assert sheet.sheet_format.outlineLevelCol == (1 if len(shown) < len(titles) else 0)
    before = shown[: shown.index("Reason")]
    assert sum(looks[title].width for title in before) + 0.5 * looks["Reason"].width < SCREEN
    assert {"NPU Name", "Verdict", "Reason", "Begins"} <= {*shown}
    assert ("NPU_Stack_Info" in shown) == with_stack
    assert sheet.freeze_panes == "B2"
