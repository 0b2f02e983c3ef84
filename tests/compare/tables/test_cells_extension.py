"""Cells that the extension writes stand in a file as Python's own modules read and write them."""

import csv
import io
import math
import random
import struct

import numpy as np
import pytest
from openpyxl import load_workbook

from msprobe.compare.tables import csv_file, sheet
from msprobe.compare.tables.cells import Numbers
from msprobe.compare.tables.columns import Column

pytestmark = pytest.mark.skipif(csv_file.lines_of is None, reason="the extension is not built")

TEXTS = [
    "plain",
    "",
    "a,b",
    'say "x"',
    "two\r\nlines",
    "尾",
    "\ud800 alone",
    " edges ",
    "a & b < c > d",
    "_x000D_",
    "\t",
    "12.5%",
]
EDGES = [
    0.0,
    -0.0,
    5e-324,
    1e-4,
    9.999e-5,
    1e-5,
    1e15,
    9999999999999998.0,
    1e16,
    1.7976931348623157e308,
    0.1,
    2.5,
    123456.0,
]


def doubles(count: int) -> list[float]:
    """Edges of the notation, and numbers of random bits and of usual sizes."""
    draw = random.Random(7)
    bits = [struct.unpack("<d", draw.randbytes(8))[0] for _ in range(count)]
    usual = [float(np.float32(draw.gauss(0, 10.0 ** draw.randint(-9, 9)))) for _ in range(count)]
    return EDGES + [-number for number in EDGES] + [b for b in bits if math.isfinite(b)] + usual


def test_numbers_have_the_digits_of_repr():
    numbers = doubles(20_000)
    lines = csv_file.lines_of([(np.array(numbers), "", {})]).decode().split("\r\n")
    assert lines[:-1] == list(map(repr, numbers))
    assert lines[-1] == ""


def test_what_is_not_finite_is_written_as_python_does():
    found = csv_file.lines_of([(np.array([math.nan, math.inf, -math.inf]), "%", {}), [math.nan, math.inf, -math.inf]])
    assert found == b"nan%,nan\r\ninf%,inf\r\n-inf%,-inf\r\n"


def test_lines_are_those_of_the_csv_module():
    cells = [*TEXTS, 7, -(1 << 80), True, 0.5]
    columns = [cells, cells[::-1]]
    written = io.StringIO(newline="")
    csv.writer(written).writerows(zip(*columns, strict=True))
    assert csv_file.lines_of(columns).decode() == written.getvalue().encode("utf-8", "replace").decode()


def test_without_the_extension_lines_are_the_same(monkeypatch):
    cells = [*TEXTS, 7, -(1 << 80), True, 0.5]
    numbers = doubles(200)[: len(cells)]
    columns = [
        cells,
        numbers,
        Numbers(np.array(numbers), {2: "N/A", 5: 'say "x"'}, "%"),
        Numbers(np.array(numbers), {}),
        ["plain"] * len(cells),
    ]
    made = []
    for extension in (csv_file.lines_of, None):
        monkeypatch.setattr(csv_file, "lines_of", extension)
        written = io.BytesIO()
        csv_file._write_lines(written, columns)
        made.append(written.getvalue())
    assert made[0] == made[1]
    assert made[0].count(b"\r\n") == len(cells) + 1  # one text holds a line break


def test_cells_stand_instead_of_some_numbers():
    numbers = Numbers(np.array([1.0, 2.0, 3.0]), {1: "N/A"}, "%")
    assert list(numbers) == ["1.0%", "N/A", "3.0%"]
    assert (len(numbers), numbers[1], numbers[1:]) == (3, "N/A", ["N/A", "3.0%"])
    assert csv_file.lines_of([(numbers.values, numbers.suffix, numbers.others)]) == b"1.0%\r\nN/A\r\n3.0%\r\n"


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ([["a"], ["b", "c"]], ValueError),
        ([(np.zeros(2, np.float32), "", {})], TypeError),
        ([(np.zeros(2), "", [])], TypeError),
        ([{"a"}], TypeError),
    ],
)
def test_columns_that_are_none_are_refused(columns, error):
    with pytest.raises(error):
        csv_file.lines_of(columns)


COLUMNS = [
    Column("Name", "", 10),
    Column("Share", "", 10, percent=True),
    Column("Verdict", "", 10),
    Column("Number", "", 10),
]


def rows() -> list[tuple[object, ...]]:
    shares = ["12.5%", "1e-07%", "3.%", "N/A", "inf%", "1e400%", "-1%", "%", "1%%", "1e%", "", "0.0%"]
    verdicts = ["pass", "warning", "error", "unjudged", "", "error"]
    numbers = [*doubles(20), 7, True, False, -(1 << 70), "text"]
    draw = random.Random(3)
    return [(draw.choice(TEXTS), draw.choice(shares), draw.choice(verdicts), number) for number in numbers]


def xml_of(path, monkeypatch, colors, *, by_extension):
    with monkeypatch.context() as patched:
        if not by_extension:
            patched.setattr(sheet, "rows_of", None)
        sheet.write_sheet(path, COLUMNS, rows(), colors=colors)
    return sheet.zipfile.ZipFile(path).read("xl/worksheets/sheet1.xml")


@pytest.mark.parametrize("colored", [False, True])
def test_rows_of_a_sheet_are_those_that_python_makes(tmp_path, monkeypatch, colored):
    colors = [(None, *sheet.ROW_FILLS)[n % 3] for n in range(len(rows()))] if colored else None
    made = [
        xml_of(tmp_path / f"{by_extension}.xlsx", monkeypatch, colors, by_extension=by_extension)
        for by_extension in (True, False)
    ]
    assert made[0] == made[1]


def test_a_spreadsheet_reads_back_what_was_written(tmp_path):
    written = [("a & b <c>", "12.5%", "error", 0.1), (" edges ", "N/A", "pass", 3), ("尾", "0.0%", "", True)]
    sheet.write_sheet(tmp_path / "found.xlsx", COLUMNS, written)
    read = load_workbook(tmp_path / "found.xlsx").active
    found = [tuple(cell.value for cell in row) for row in read.iter_rows(min_row=2)]
    assert found == [("a & b <c>", 0.125, "error", 0.1), (" edges ", "N/A", "pass", 3), ("尾", 0, None, True)]
    assert read["C2"].fill.start_color.rgb.endswith("F4B6B6")


def test_a_row_without_a_cell_for_each_column_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a cell for each letter"):
        sheet.write_sheet(tmp_path / "found.xlsx", COLUMNS, [("a", "b")])
