"""Whatever text stands in a dump, a table holds it as text: nothing in it is a formula, breaks a row or a file."""

import csv
import json
import re
import time
import zipfile
from xml.etree import ElementTree

import pytest
from openpyxl import load_workbook

from msprobe.cli import main
from msprobe.compare.tables import sheet
from msprobe.compare.tables.cells import LONGEST, guard
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.sheet import write_sheet

pytestmark = [pytest.mark.slow, pytest.mark.part(2)]

STARTS = ["=", "+", "-", "@", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\uff05"]
BEFORE = [
    "",
    " ",
    "\t",
    "\n",
    "\r",
    "\r\n ",
    "\xa0",
    "\x85",
    "\u2028",
    "\u3000",
    "x;",
    "x; ",
    "x;\u3000",
    "x\n",
    "x\t ",
    "x\r",
]
RUN = "cmd|' /C calc'!A0"
FORMULA = re.compile(r"(?:^\s*|[;\t\r\n][^\S\t\r\n]*)[=+\-@%\uff1d\uff0b\uff0d\uff20\uff05]")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?%?|[+-]?inf", re.IGNORECASE)


def leaf(**changes):
    plain = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 3]}
    return {**plain, "Max": 5.0, "Min": 0.0, "Mean": 2.5, "Norm": 7.4, **changes}


def write(folder, data, task="statistics", construct=None, stack=None):
    folder.mkdir(parents=True)
    text = {"task": task, "level": "mix", "framework": "mindspore", "data": data}
    (folder / "dump.json").write_text(json.dumps(text))
    (folder / "construct.json").write_text(json.dumps(construct or {}))
    (folder / "stack.json").write_text(json.dumps(stack or {}))
    return folder


def everywhere(evil, golden=False):
    """A dump with one text in every place whose content reaches a cell."""
    name = f"{evil}.0.forward"
    value = f"{evil} golden" if golden else evil
    entry = {
        "input_args": [
            leaf(dtype=evil, md5=value),
            {evil: leaf()},
            {"type": "str", "value": value},
            {"type": evil, "value": value},
            {"type": "slice", "value": [value]},
            {"type": "list", "value": [{evil: value}]},
        ],
        "input_kwargs": {evil: leaf()},
        "parameters": {evil: leaf(Max=9.0 if golden else 5.0)},
        "output": [leaf(data_name=f"{evil}.npy"), leaf(shape=[2, 4 if golden else 3])],
    }
    data = {name: entry, f"Cell.{evil}.X.parameters_grad": {evil: [leaf(Max=7.0 if golden else 5.0)]}}
    construct = {name: f"Cell.{evil}.Q.forward.0"}
    stack = {"0": [[name], [f"File {evil}, line 1, in {evil}, \n {evil}", evil]]}
    return {"data": data, "construct": construct, "stack": stack}


def strip_digests(made):
    for entry in made["data"].values():
        for tensor in entry.get("input_args", [])[:1]:
            del tensor["md5"]
    return made


TEXT = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}t"


def tables(tmp_path, target, golden, task="statistics", formats=("csv", "xlsx", "json")):
    """Compare two dumps in each form; the path of the table by form."""
    a = write(tmp_path / "target", task=task, **target)
    b = write(tmp_path / "golden", task=task, **golden)
    found = {}
    for form in formats:
        out = tmp_path / form
        assert main(["compare", "-tp", str(a), "-gp", str(b), "-o", str(out), "--format", form, "-s", "-hl"]) == 1
        (found[form],) = out.iterdir()
    return found


def csv_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file, strict=True))


def sheet_cells(path):
    return [cell for part in load_workbook(path) for row in part.iter_rows() for cell in row]


def strict_json(path):
    """The table as any JSON reader takes it: Python's NaN and Infinity are none."""

    def refuse(word):
        raise AssertionError(f"{word} is not valid JSON")

    return json.loads(path.read_bytes().decode("utf-8"), parse_constant=refuse)


def formulas(texts):
    return [text for text in texts if FORMULA.search(text) and not NUMBER.fullmatch(text)]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("mode", ["statistics", "digest", "tensor"])
def test_no_text_of_a_dump_is_a_formula_in_any_cell(tmp_path, start, mode):
    target, golden = everywhere(start + RUN), everywhere(start + RUN, golden=True)
    if mode != "digest":
        target, golden = strip_digests(target), strip_digests(golden)
    found = tables(tmp_path, target, golden, "tensor" if mode == "tensor" else "statistics")
    rows = csv_rows(found["csv"])
    assert formulas(cell for row in rows for cell in row) == []
    assert sum(RUN in row[0] for row in rows) >= 9
    cells = sheet_cells(found["xlsx"])
    assert {cell.data_type for cell in cells} <= {"n", "s", "b"}
    assert formulas(cell.value for cell in cells if isinstance(cell.value, str)) == []
    assert formulas(v for row in strict_json(found["json"])["rows"] for v in row.values() if isinstance(v, str)) == []


def test_no_formula_hides_behind_space_or_a_separator(tmp_path):
    evils = [before + "=" + RUN for before in BEFORE]
    sides = []
    for is_golden in (False, True):
        made = {"data": {}, "construct": {}, "stack": {}}
        for number, evil in enumerate(evils):
            one = everywhere(evil, is_golden)
            made["data"] |= one["data"]
            made["construct"] |= one["construct"]
            made["stack"][str(number)] = one["stack"]["0"]
        sides.append(strip_digests(made))
    found = tables(tmp_path, *sides)
    assert formulas(cell for row in csv_rows(found["csv"]) for cell in row) == []
    cells = sheet_cells(found["xlsx"])
    assert {cell.data_type for cell in cells} <= {"n", "s", "b"}
    assert formulas(cell.value for cell in cells if isinstance(cell.value, str)) == []


@pytest.mark.parametrize("text", ["-1", "+1.5", "-1.5e-3", "-inf", "-3.2%"])
def test_a_number_is_no_formula(text):
    assert guard(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "-" + "1" * 200_000 + "x",
        ";" * 200_000 + "=",
        " " * 200_000 + "=",
        "\n" * 200_000,
        "-1.1e" + "1" * 200_000 + "x",
    ],
    ids=["digits", "semicolons", "spaces", "lines", "exponent"],
)
def test_no_text_keeps_the_guard_busy(text):
    start = time.process_time()
    made = guard(text)
    assert time.process_time() - start < 1
    assert len(made) <= LONGEST
    assert formulas([made]) == []


ODD_TEXTS = {
    "quotes": 'a"b""c"',
    "commas": "a,b,,c",
    "lines": "a\nb\r\nc\rd",
    "quote and line": '"\n,"',
    "nul": "a\x00b",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x9b",
    "half characters": "\ud800a\udfff",
    "no characters": "\ufffe\uffff",
    "xml": "<a>&amp;]]></t></is></c>",
    "escaped as in a sheet": "_x0041_ _x000D_ _x005F_",
    "spaces": "  a  ",
    "right to left": "\u202egnp.exe",
    "astral": "\U0001f600",
}


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_odd_characters_break_no_table(tmp_path, text):
    target, golden = strip_digests(everywhere(text)), strip_digests(everywhere(text, golden=True))
    found = tables(tmp_path, target, golden)
    rows = csv_rows(found["csv"])
    assert len({len(row) for row in rows}) == 1
    assert len(rows) == 1 + 11
    with zipfile.ZipFile(found["xlsx"]) as book:
        for name in book.namelist():
            ElementTree.fromstring(book.read(name))  # well-formed
    _, part = load_workbook(found["xlsx"])
    assert part.max_row == len(rows)
    assert part.max_column == len(rows[0])
    assert len(strict_json(found["json"])["rows"]) == len(rows) - 1


def test_text_of_a_dump_stands_in_the_tables_as_it_is(tmp_path):
    """What is not dangerous is not changed: quotes, commas, lines, markup, and what looks like a sheet's own escape."""
    text = 'a"b,c\nd <e>&f; _x0041_ \u6211 \U0001f600'
    found = tables(tmp_path, strip_digests(everywhere(text)), strip_digests(everywhere(text, golden=True)))
    name = f"{text}.0.forward.input.0"
    assert csv_rows(found["csv"])[1][0] == name
    assert strict_json(found["json"])["rows"][0]["NPU Name"] == name
    with zipfile.ZipFile(found["xlsx"]) as book:
        summary, table = (ElementTree.fromstring(book.read(f"xl/worksheets/sheet{n}.xml")) for n in (1, 2))
    texts, summed = ([t.text for t in root.iter(TEXT)] for root in (table, summary))
    assert any("<e>&f; _x005F_x0041_ \u6211" in t for t in summed if t)
    assert not any("A \u6211" in t for t in summed if t)
    # A reader turns `_x005F_` back into the `_` that it stands for, and leaves what follows.
    assert name in [re.sub("_x005F_", "_", t) for t in texts if t]
    assert name.replace("_x0041_", "A") not in texts


@pytest.mark.parametrize("sign", ["x", "\u6211", "\U0001f600"])
def test_no_cell_is_longer_than_a_sheet_allows(tmp_path, sign):
    text = sign * 40_000
    found = tables(tmp_path, strip_digests(everywhere(text)), strip_digests(everywhere(text, golden=True)))
    lengths = [
        len(cell.value.encode("utf-16-le")) // 2
        for cell in sheet_cells(found["xlsx"])
        if isinstance(cell.value, str) and cell.value.startswith(sign)
    ]
    assert lengths
    assert max(lengths) <= 32_767
    assert "characters)..." in csv_rows(found["csv"])[1][0]


def test_numbers_that_are_none_are_texts_in_json(tmp_path):
    nan, inf = float("nan"), float("inf")
    odd = leaf(Max=inf, Min=-inf, Mean=nan, Norm=nan)
    target = {"F.0.forward": {"input_args": [odd, {"type": "float", "value": nan}], "output": [leaf(Max=inf)]}}
    golden = {"F.0.forward": {"input_args": [odd, {"type": "float", "value": inf}], "output": [leaf()]}}
    found = tables(tmp_path, {"data": target}, {"data": golden})
    first = strict_json(found["json"])["rows"][0]
    assert [first[f"NPU {what}"] for what in ("max", "min", "mean", "l2norm")] == ["inf", "-inf", "Nan", "Nan"]
    verdicts = [row["Verdict"] for row in strict_json(found["json"])["rows"]]
    assert verdicts == ["pass", "error", "error"]
    assert {cell.data_type for cell in sheet_cells(found["xlsx"])} <= {"n", "s", "b"}


@pytest.mark.parametrize(
    ("target", "golden"),
    [(10**400, 10**400), (10**400, -(10**400)), (10**400, 3), (3, 10**400), (10**400, 1.5), (10**4299, -(10**4299))],
)
def test_whole_numbers_that_no_float_holds_are_compared(tmp_path, target, golden):
    sides = [
        {"data": {"F.0.forward": {"input_args": [{"type": "int", "value": value}], "output": [leaf(Max=float(at))]}}}
        for at, value in enumerate((target, golden))
    ]
    found = tables(tmp_path, *sides)
    rows = strict_json(found["json"])["rows"]
    assert rows[0]["Verdict"] == ("pass" if target == golden else "error")
    assert rows[0]["NPU max"] == (target if target == 3 else str(target))
    # A number of a sheet must be one that a double holds.
    numbers = [cell.value for cell in sheet_cells(found["xlsx"]) if cell.data_type == "n" and cell.value is not None]
    assert all(abs(number) < 1e308 for number in numbers)


def test_rows_beyond_one_sheet_go_on_in_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(sheet, "ROWS_IN_A_SHEET", 4)
    for count, parts in ((0, [1]), (4, [5]), (5, [5, 2]), (9, [5, 5, 2])):
        path = tmp_path / f"{count}.xlsx"
        write_sheet(path, COLUMNS, ((f"={n}", n, n / 2, "error") for n in range(count)))
        book = load_workbook(path)
        assert [part.max_row for part in book] == parts
        assert len(set(book.sheetnames)) == len(parts)
        rows = [row for part in book for row in part.iter_rows(min_row=2, values_only=True)]
        assert rows == [(f"={n}", n, n / 2, "error") for n in range(count)]
        assert all(cell.data_type != "f" for part in book for row in part.iter_rows() for cell in row)


COLUMNS = tuple(Column(title, 10) for title in ("Name", "N", "Half", "Verdict"))


@pytest.mark.slow
def test_more_rows_than_a_sheet_may_have(tmp_path):
    """For real, at the format's own limit: 1,048,576 rows with the heading, the rest in a second sheet."""
    path = tmp_path / "large.xlsx"
    write_sheet(path, COLUMNS, (("x", n, 0.5, "pass") for n in range(1_048_580)))
    last = re.compile(rb'<row r="([0-9]+)"')
    with zipfile.ZipFile(path) as book:
        assert last.findall(book.read("xl/worksheets/sheet1.xml")[-2000:])[-1] == b"1048576"
        assert last.findall(book.read("xl/worksheets/sheet2.xml"))[-1] == b"6"


def test_a_shape_and_a_name_of_megabytes_fit_a_cell_and_a_terminal(tmp_path, capsys):
    name = f"Functional.{'x' * 1_000_000}.0.forward"
    for side, top in (("target", 5.0), ("golden", 9.0)):
        leaf = {"type": "mindspore.Tensor", "dtype": "Float32" * 200_000, "shape": [1] * 300_000}
        leaf |= {"Max": top, "Min": 0.0, "Mean": 2.5, "Norm": 7.4}
        (tmp_path / side).mkdir()
        text = {"task": "statistics", "level": "mix", "data": {name: {"output": [leaf]}}}
        (tmp_path / side / "dump.json").write_text(json.dumps(text))
    for form in ("xlsx", "csv"):
        command = ["compare", "-tp", str(tmp_path / "target"), "-gp", str(tmp_path / "golden"), "--format", form]
        main([*command, "-o", str(tmp_path / form)])
        captured = capsys.readouterr()
        assert all(len(line) <= 4096 for line in (captured.out + captured.err).splitlines())
    (path,) = (tmp_path / "xlsx").glob("*.xlsx")
    cells = [str(cell) for row in load_workbook(path)["compare"].iter_rows(values_only=True) for cell in row]
    assert max(map(len, cells)) == LONGEST
