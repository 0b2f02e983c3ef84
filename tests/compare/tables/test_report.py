"""What is written: sheets by both libraries, csv, JSON, and the console's lines."""

import csv
import io
import json
import math
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook

from msprobe.compare.locate import wording
from msprobe.compare.locate.find import Located, locate
from msprobe.compare.locate.finding import Divergence, OtherCall
from msprobe.compare.run import compare
from msprobe.compare.tables import sheet
from msprobe.compare.tables.cells import guard, number, percent
from msprobe.compare.tables.columns import Column, columns, columns_of
from msprobe.compare.tables.console import answer_of, lines
from msprobe.compare.tables.csv_file import write_csv
from msprobe.compare.tables.json_file import write_json
from msprobe.compare.tables.rows import rows
from msprobe.compare.tables.sheet import write_sheet
from msprobe.findings.catalogue import comparison as kinds


@pytest.fixture
def compared(builder, value):
    """A call that passes, one in error, one with a name that a spreadsheet would run, one on one side only."""
    evil = "=cmd|'/c calc'!A1.0.forward"
    t = builder("t").call("Mint.exp.0.forward", [1.0], [2.0]).call("Mint.sin.0.forward", [2.0], [3.5])
    g = builder("g").call("Mint.exp.0.forward", [1.0], [2.0]).call("Mint.sin.0.forward", [2.0], [3.0])
    t.call(evil, [value("@SUM(1)"), value(-3)], [None])
    g.call(evil, [value("@SUM(1)"), value(-3)], [None])
    t.call("Mint.tan.0.forward", [math.inf], [np.array([math.nan, 1.0], np.float32)])
    comparison = compare(t.dump(), g.dump())
    return comparison, locate(comparison)


def titles(comparison):
    return [c.title for c in columns_of(comparison, False)]


def test_a_sheet_holds_the_rows_as_text_and_numbers(compared, tmp_path):
    comparison, located = compared
    path = tmp_path / "out.xlsx"
    write_sheet(path, columns_of(comparison, False), rows(comparison, located, False))
    book = load_workbook(path)
    heading, *table = book.active.iter_rows(values_only=True)
    assert list(heading) == titles(comparison)
    expected = [tuple(None if c == "" else c for c in row) for row in rows(comparison, located, False)]
    at = [titles(comparison).index(f"{statistic}RelativeErr") for statistic in ("Max", "Min", "Mean", "Norm")]
    # The maxima are 4.25 and 3.75: as a number that is shown in percent; where a side has no number it stays a word.
    sin = [row[0] for row in table].index("Mint.sin.0.forward.output.0")
    assert [table[sin][n] for n in at[:2]] == pytest.approx([0.5 / 3.75, 0.5 / 3.0])
    assert {book.active.cell(sin + 2, n + 1).number_format for n in at} == {sheet.PERCENT}
    assert {type(row[n]) for row in table for n in at} == {float, str}
    assert {row[n] for row in table for n in at if type(row[n]) is str} == {"N/A"}
    assert [[c for n, c in enumerate(row) if n not in at] for row in table] == [
        [c for n, c in enumerate(row) if n not in at] for row in expected
    ]
    assert all(cell.data_type != "f" for row in book.active.iter_rows() for cell in row)
    assert book.active.freeze_panes == "B2"
    assert book.active.auto_filter.ref == f"A1:AB{len(table) + 1}"


def test_only_verdicts_that_need_a_look_are_colored(compared, tmp_path):
    comparison, located = compared
    write_sheet(tmp_path / "out.xlsx", columns_of(comparison, False), rows(comparison, located, False))
    at = titles(comparison).index("Verdict")
    colors = {}
    for row in load_workbook(tmp_path / "out.xlsx").active.iter_rows(min_row=2):
        colors.setdefault(row[at].value, set()).add(row[at].fill.start_color.rgb)
    assert colors == {"pass": {"00000000"}, "unjudged": {"00000000"}, "error": {"FFF4B6B6"}}


@pytest.mark.parametrize(
    "text",
    ["a & b < c > d", " led by a space", "ends with one ", "two\nlines", "a\ttab", "_x", "中文 🙂", "]]>", '"'],
)
def test_text_comes_back_from_a_sheet_as_it_was(text, tmp_path):
    shown = columns("digest", False)
    write_sheet(tmp_path / "out.xlsx", shown, iter([(text, *["x"] * (len(shown) - 5), "pass", "", "", "name")]))
    assert load_workbook(tmp_path / "out.xlsx").active["A2"].value == text


def test_text_that_the_format_would_decode_is_escaped_as_the_format_says(tmp_path):
    """ECMA-376, part 1, 22.9.2.19 (ST_Xstring): `_xHHHH_` is a character, so its underscore is one itself."""
    shown = columns("digest", False)
    write_sheet(tmp_path / "out.xlsx", shown, iter([("_x0041_", *["x"] * (len(shown) - 5), "pass", "", "", "name")]))
    assert load_workbook(tmp_path / "out.xlsx").active["A2"].value == "_x005F_x0041_"  # openpyxl does not decode it


def test_rows_beyond_one_sheet_go_on_in_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(sheet, "ROWS_IN_A_SHEET", 3)
    shown = columns("digest", False)
    table = [(*[str(n)] * (len(shown) - 4), "pass", "", "", "name") for n in range(7)]
    write_sheet(tmp_path / "out.xlsx", shown, iter(table))
    book = load_workbook(tmp_path / "out.xlsx")
    assert book.sheetnames == ["compare", "compare 2", "compare 3"]
    assert [s.max_row for s in book] == [4, 4, 2]
    assert [row[0].value for s in book for row in s.iter_rows(min_row=2)] == [str(n) for n in range(7)]


def test_a_sheet_without_rows_has_its_heading(tmp_path):
    write_sheet(tmp_path / "out.xlsx", columns("digest", False), iter(()))
    assert load_workbook(tmp_path / "out.xlsx").active.max_row == 1


def test_a_csv_reads_back_as_the_same_numbers(compared, tmp_path):
    comparison, located = compared
    write_csv(tmp_path / "out.csv", columns_of(comparison, False), rows(comparison, located, False))
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        heading, *table = csv.reader(file)
    assert heading == titles(comparison)
    assert table == [[str(cell) for cell in row] for row in rows(comparison, located, False)]


def test_json_holds_counts_rows_and_the_first_wrong_call(compared, tmp_path):
    comparison, located = compared
    shown = columns_of(comparison, False)
    write_json(tmp_path / "out.json", comparison, located, shown, rows(comparison, located, False))

    def refuse(word):
        raise AssertionError(f"{word} is not valid JSON")

    found = json.loads((tmp_path / "out.json").read_text("utf-8"), parse_constant=refuse)
    assert found["counts"] == {"pass": 6, "warning": 0, "error": 1, "unjudged": 2}
    assert found["first_wrong"] == [
        {
            "name": "Mint.sin.0.forward",
            "cell": "the root",
            "kind": "computes differently",
            "reason": wording.reason(located.first),
            "file": None,
            "line": None,
            "step": 0,
            "rank": 0,
            "evidence": {
                "type": "Computed",
                "difference": {
                    "place": "output.0",
                    "grade": "error",
                    "reasons": [
                        {
                            "why": "statistic",
                            "name": "mean",
                            "target": 3.875,
                            "golden": 3.375,
                            "excess": pytest.approx(3.47e4, rel=1e-3),
                            "allowed": {
                                "relative": 1.3e-06,
                                "absolute": 1e-05,
                                "warning": 10.0,
                                "is_plain": False,
                            },
                        }
                    ],
                },
                "has_inputs": True,
                "is_of_parameters": False,
                "is_beyond_inputs": False,
                "without_gradient": "",
                "are_inputs_open": False,
                "hidden": [],
                "beyond": None,
            },
        }
    ]
    assert [row["NPU Name"] for row in found["rows"]] == [row[0] for row in rows(comparison, located, False)]
    assert [f["kind"] for f in found["next_beginnings"]] == ["structure differs"]


def test_a_json_without_rows_is_whole(builder, tmp_path):
    comparison = compare(builder("t").dump(), builder("g").dump())
    write_json(tmp_path / "out.json", comparison, Located(), columns("statistics", False), iter(()))
    assert json.loads((tmp_path / "out.json").read_text())["rows"] == []


def test_a_row_without_partner_says_so_in_8_1s_words(compared):
    comparison, located = compared
    row = dict(zip(titles(comparison), list(rows(comparison, located, False))[-1], strict=True))
    assert (row["NPU Name"], row["Bench Name"]) == ("Mint.tan.0.forward.output.0", "N/A")
    assert (row["NPU max"], row["Bench max"], row["Max diff"]) == ("Nan", "N/A", "N/A")
    assert (row["Result"], row["Err_message"]) == ("N/A", "No bench data matched.")
    assert (row["Verdict"], row["Matched by"]) == ("unjudged", "")


def test_shapes_that_differ_are_said_in_every_metric_cell(builder):
    t = builder("t", mode="tensor").call("Mint.exp.0.forward", [], [np.zeros((2, 3), np.float32)])
    g = builder("g", mode="tensor").call("Mint.exp.0.forward", [], [np.zeros((3, 2), np.float32)])
    comparison = compare(t.dump(), g.dump())
    row = dict(zip(titles(comparison), next(iter(rows(comparison, Located(), False))), strict=True))
    assert {row[t] for t in ("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr")} == {"shape unmatched"}
    assert (row["Accuracy Reached or Not"], row["Verdict"]) == ("Unmatched", "error")


DTYPE_NAMES = [
    ("Float32", "torch.float32", ""),
    ("BFloat16", "torch.bfloat16", ""),
    ("Float32", "Float32", ""),
    ("Float16", "torch.float32", "Dtypes of NPU and bench tensor do not match."),
    ("Float16", "Float32", "Dtypes of NPU and bench tensor do not match."),
]


@pytest.mark.parametrize(("target", "golden", "message"), DTYPE_NAMES)
def test_the_message_on_dtypes_is_about_the_dtype_and_not_its_name(target, golden, message, builder, tensor):
    """Each framework has another name for one dtype."""
    of = {"target": target, "golden": golden}
    sides = []
    for name, dtype in of.items():
        side = builder(name, mode="tensor", framework="pytorch" if "torch" in dtype else "mindspore")
        one = tensor(np.array([1.0, -2.0], np.float32), dtype=dtype)
        sides.append(side.call("Functional.exp.0.forward", [one], [one]).dump())
    comparison = compare(*sides)
    table = [dict(zip(titles(comparison), row, strict=True)) for row in rows(comparison, Located(), False)]
    assert [row["Err_message"] for row in table] == [message, message]


def test_a_tensor_of_zeros_on_one_side_is_not_accurate(builder):
    """8.1 prints `Yes` here: the text Nan of its cosine counts as above 0.99."""
    t = builder("t", mode="tensor").call("Mint.exp.0.forward", [], [np.zeros((2, 2), np.float32)])
    g = builder("g", mode="tensor").call("Mint.exp.0.forward", [], [np.full((2, 2), 0.5, np.float32)])
    comparison = compare(t.dump(), g.dump())
    row = dict(zip(titles(comparison), next(iter(rows(comparison, Located(), False))), strict=True))
    assert (row["Cosine"], row["MaxAbsErr"], row["Accuracy Reached or Not"], row["Verdict"]) == (
        "Nan",
        0.5,
        "No",
        "error",
    )


def test_the_warning_of_8_1_is_for_more_than_half(builder):
    """1.304 against 2.608 is exactly half and no warning; -2.325 against 4.650 is."""
    arrays = [np.array([1.304, 0.0]), np.array([2.608, 0.0])], [np.array([1.304, -2.325]), np.array([2.608, -4.650])]
    results = []
    for n, (first, second) in enumerate(arrays):
        t = builder(f"t{n}").call("Mint.exp.0.forward", [], [first])
        g = builder(f"g{n}").call("Mint.exp.0.forward", [], [second])
        comparison = compare(t.dump(), g.dump())
        results.append(
            dict(zip(titles(comparison), next(iter(rows(comparison, Located(), False))), strict=True))["Result"]
        )
    assert results == ["", "Warning"]


# What msprobe 8.1.1 has in `Result` of a table of such values, target and golden. Of NaN on one side it has nothing,
# as of a tensor's (reference/differences.md).
VALUES = [
    (3, 30, "Warning"),
    (10, 11, ""),
    (1e-3, 1e-5, "Warning"),
    (1.0, 1.2, ""),
    (-1.0, 1.0, "Warning"),
    (0.0, 1e-12, ""),
    (3, 3, ""),
    (True, False, ""),
    ("a", "b", ""),
]


@pytest.mark.parametrize(("target", "golden", "result"), VALUES)
def test_the_warning_of_8_1_is_for_numbers_that_are_no_tensors_too(target, golden, result, builder, value):
    sides = [
        builder(name).call("Mint.exp.0.forward", [np.ones(2), value(held)], [np.ones(2)])
        for name, held in (("t", target), ("g", golden))
    ]
    comparison = compare(*(side.dump() for side in sides))
    table = [dict(zip(titles(comparison), row, strict=True)) for row in rows(comparison, Located(), False)]
    assert [row["Result"] for row in table] == ["", result, ""]
    assert table[1]["Err_message"] == ("Need double check api accuracy." if result else "")


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("Functional.add.0.forward.input.0", "Functional.add.0.forward.input.0"),
        ("=1+1", "'=1+1"),
        ("  @SUM(A1)", "  '@SUM(A1)"),
        ("-rm", "'-rm"),
        ("+x", "'+x"),
        ("%x", "'%x"),
        ("\uff1dcmd", "'\uff1dcmd"),
        ("a; =1", "a; '=1"),
        ("-1.5", "-1.5"),
        ("+2e-05%", "+2e-05%"),
        ("-inf", "-inf"),
        ("中文 名", "中文 名"),
        ("a\x00b\x1f", "a?b?"),
        ("a" * 20_000 + "z" * 20_000, "a" * 16_371 + "...(40000 characters)..." + "z" * 16_371),
    ],
)
def test_what_a_spreadsheet_would_run_stays_text(text, guarded):
    assert guard(text) == guarded


def test_a_call_that_is_called_like_a_number_is_no_number_in_its_rows_names(builder):
    made = [builder(side).call("-1", [1.0], [2.0]).call("+2e5", [1.0], [2.0]).dump() for side in ("target", "golden")]
    comparison = compare(*made)
    names = [row[0] for row in rows(comparison, locate(comparison), False)]
    assert names == ["'-1.input.0", "'-1.output.0", "'+2e5.input.0", "'+2e5.output.0"]


def test_numbers_that_a_sheet_cannot_hold_are_text():
    assert [number(v) for v in (1.5, 3, True, math.nan, math.inf, -math.inf, None)] == [
        1.5,
        3,
        True,
        "Nan",
        "inf",
        "-inf",
        "None",
    ]


@pytest.mark.parametrize(
    ("difference", "golden", "text"),
    [(0.0, 2.0, "0.0%"), (1.0, 2.0, "50.0%"), (-1.0, 2.0, "50.0%"), (1.0, 0.0, "N/A"), (math.nan, 1.0, "Nan")],
)
def test_relative_differences_are_percent(difference, golden, text):
    assert percent(difference, golden) == text


def test_the_console_ends_with_the_first_wrong_call(compared):
    found = list(lines(*compared, top=10))
    assert found[0] == "error: Mint.sin.0.forward in the root: computes differently (certain)"
    assert found[1].startswith("  because: all inputs agree, but output.0 differs (")
    assert found[2].startswith("  also: Mint.tan.0.forward in the root: structure differs: ")
    counts = "6 pass, 0 warning, 1 error, 2 unjudged (compared by statistics)"
    assert found[3] == f"  judged: {counts}; unjudged: 2 without a partner"
    assert found[4].startswith("  limits: statistics cannot detect permuted elements")
    assert found[-1].startswith("first wrong call: Mint.sin.0.forward in the root: computes differently: ")
    assert len(found) == 6


def test_the_console_lists_the_worst_first_and_at_most_top(compared):
    comparison, _ = compared
    grades = ["error", "pass", "warning", "error", "error"]
    findings = tuple(
        Divergence(f"call{n}", "the root", kinds.STRUCTURE, OtherCall("target"), g, receivers=n, at=n)
        for n, g in enumerate(grades)
    )
    found = list(lines(comparison, Located(findings), top=3))
    also = [line for line in found if line.startswith("  also: ")]
    assert [line.split()[1] for line in also] == ["call3", "call4", "call2"]
    assert also[2].endswith(" (and 1 more, see the table)")
    assert "  evidence: 3 later calls received the difference" not in found, "that is of another"


def test_of_many_divergences_the_first_are_made_and_all_are_counted(compared):
    """Each reads its line of source, and there may be thousands."""
    comparison, _ = compared
    made = [Divergence(f"call{n}", "the root", kinds.STRUCTURE, OtherCall("target"), "error", at=n) for n in range(50)]
    located = Located(tuple(made))
    said = answer_of(comparison, located, 10)
    assert [one.place.name for one in said.findings] == [f"call{n}" for n in range(10)]
    (also,) = [line for line in lines(comparison, located, known=said) if line.startswith("  also: ")]
    assert also.endswith(" (and 48 more, see the table)")


def test_a_clean_pair_ends_with_no_difference(builder):
    comparison = compare(*(builder(s).call("Mint.exp.0.forward", [1.0], [2.0]).dump() for s in "tg"))
    assert list(lines(comparison, locate(comparison), 10))[-1] == "no difference: 2 pairs judged, 0 unjudged"


def test_a_reason_of_several_lines_stays_one_line(compared):
    evidence = OtherCall("target", goes_on="one\n two")
    finding = Divergence("a", "the root", kinds.STRUCTURE, evidence, "error", "/p/文 件.py", 3)
    assert list(lines(compared[0], Located((finding,)), 1))[-1] == (
        "first wrong call: a in the root: structure differs: only the target makes this call; the golden continues "
        "with one two (/p/文 件.py:3)"
    )


def test_a_sheet_that_cannot_be_finished_leaves_nothing(tmp_path):
    def broken():
        yield ("a",) * len(columns("digest", False))
        raise RuntimeError("the rows end here")

    with pytest.raises(RuntimeError):
        write_sheet(tmp_path / "out.xlsx", columns("digest", False), broken())
    assert list(tmp_path.iterdir()) == []


def test_sheets_are_zip_files_without_links(compared, tmp_path):
    comparison, located = compared
    write_sheet(tmp_path / "o.xlsx", columns_of(comparison, False), rows(comparison, located, False))
    with zipfile.ZipFile(io.BytesIO((tmp_path / "o.xlsx").read_bytes())) as parts:
        assert not any("externalLink" in name or "hyperlink" in name for name in parts.namelist())


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(
            st.tuples(
                *[
                    st.one_of(
                        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
                        st.floats(),
                        st.integers(),
                    )
                ]
                * n
            ),
            max_size=6,
        )
    )
)
def test_a_csv_is_what_the_csv_module_writes(tmp_path_factory, table):
    width = len(table[0]) if table else 2
    titles = [f"a,{n}" for n in range(max(width, 2))]
    table = [(*row, "x") if width == 1 else row for row in table]
    path = tmp_path_factory.getbasetemp() / "like.csv"
    write_csv(path, [Column(title, "") for title in titles], iter(table))
    expected = io.StringIO(newline="")
    csv.writer(expected).writerows([titles, *table])
    assert path.read_bytes() == expected.getvalue().encode()
