"""Rows become an xlsx sheet: with XlsxWriter where it is installed (the extra `sheet`), else with openpyxl.

Both stream, so memory does not grow with the rows. What is more than one sheet can hold goes on in further sheets.
"""

import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msprobe.base.files import replacing

from .columns import Column
from .rows import Row

ROWS_IN_A_SHEET = 1_048_575  # of data; the format ends at 1,048,576, and the first row is the heading

FILLS: dict[object, str] = {"error": "F4B6B6", "warning": "FFEBA8"}
"""The colour of the Verdict cell, RGB; everything else stays white."""


def write_sheet(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Write rows as they come, headings fixed at the top with a filter on them."""
    write = _with_xlsxwriter if importlib.util.find_spec("xlsxwriter") else _with_openpyxl
    with replacing(path) as file:
        write(file, columns, rows)


def _sheets(rows: Iterable[Row]) -> Iterator[tuple[str, Iterable[Row]]]:
    """The rows cut into sheets with their titles; at least one, even without rows."""
    rest = iter(rows)
    first = next(rest, None)
    yield "compare", _cut(first, rest)
    number = 1
    while (first := next(rest, None)) is not None:
        number += 1
        yield f"compare {number}", _cut(first, rest)


def _cut(first: Row | None, rest: Iterator[Row]) -> Iterable[Row]:
    return () if first is None else chain((first,), islice(rest, ROWS_IN_A_SHEET - 1))


def _verdict(columns: Sequence[Column]) -> int:
    return [c.title for c in columns].index("Verdict")


def _with_xlsxwriter(file: Any, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    import xlsxwriter

    with xlsxwriter.Workbook(file, {"constant_memory": True}) as book:
        bold = book.add_format({"bold": True})
        fills = {grade: book.add_format({"bg_color": f"#{colour}"}) for grade, colour in FILLS.items()}
        for title, part in _sheets(rows):
            sheet = book.add_worksheet(title)
            for at, column in enumerate(columns):
                sheet.set_column(at, at, column.width)
            sheet.freeze_panes(1, 1)
            sheet.write_row(0, 0, [c.title for c in columns], bold)
            last = _fill_xlsxwriter(sheet, part, _verdict(columns), fills)
            sheet.autofilter(0, 0, last, len(columns) - 1)


def _fill_xlsxwriter(sheet: Any, rows: Iterable[Row], verdict: int, fills: dict[object, Any]) -> int:
    """Write the rows; gives the number of the last. `write` would guess each cell's kind again, which costs most."""
    write_string, write_number = sheet.write_string, sheet.write_number
    at = 0
    for row in rows:
        at += 1
        for place, cell in enumerate(row):
            kind = type(cell)
            if kind is str:
                if place == verdict and cell in fills:
                    write_string(at, place, cell, fills[cell])
                elif cell:
                    write_string(at, place, cell)
            elif kind is bool:
                sheet.write_boolean(at, place, cell)
            else:
                write_number(at, place, cell)
    return at


def _with_openpyxl(file: Any, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    try:
        for title, part in _sheets(rows):
            _fill_openpyxl(book.create_sheet(title), columns, part)
    except BaseException:
        for sheet in book.worksheets:
            sheet.close()  # each holds a temporary file open
        raise
    book.save(file)


def _fill_openpyxl(sheet: Any, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font, PatternFill
    from openpyxl.utils import get_column_letter

    def styled(value: object, **style: Any) -> Any:
        cell = WriteOnlyCell(sheet, value)
        for name, what in style.items():
            setattr(cell, name, what)
        return cell

    fills = {grade: PatternFill("solid", start_color=f"FF{colour}") for grade, colour in FILLS.items()}
    verdict = _verdict(columns)
    for at, column in enumerate(columns, 1):
        sheet.column_dimensions[get_column_letter(at)].width = column.width
    sheet.freeze_panes = "B2"
    sheet.append([styled(c.title, font=Font(bold=True)) for c in columns])
    last = 1
    for row in rows:
        last += 1
        cells: list[Any] = [None if cell == "" else cell for cell in row]
        if row[verdict] in fills:
            cells[verdict] = styled(row[verdict], fill=fills[row[verdict]])
        sheet.append(cells)
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(columns))}{last}"
