"""Rows become an xlsx sheet. What is more than one sheet can hold goes on in further sheets.

openpyxl makes the workbook: headings, widths, colours, filter. The rows are written into it as they come, because a
library call for each of millions of cells is most of what a large comparison would take (docs/performance.md).
"""

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from msprobe.base.files import replacing

from .cells import Cell
from .columns import Column
from .highlight import RED, YELLOW

Row = tuple[Cell, ...]

ROWS_IN_A_SHEET = 1_048_575  # of data; the format ends at 1,048,576, and the first row is the heading

FILLS = {"error": "F4B6B6", "warning": "FFEBA8"}
"""The colour of the cell `Verdict`, RGB; everything else stays white."""

ROW_FILLS = (RED, YELLOW)
"""The colours of whole rows, ARGB, for those who ask for msprobe 8.1's."""

_AT_ONCE = 1000  # rows handed to the packer together
_SHEET = "xl/worksheets/sheet{}.xml"


def write_sheet(
    path: Path,
    columns: Sequence[Column],
    rows: Iterable[Row],
    *,
    title: str = "compare",
    colours: Iterator[str | None] | None = None,
) -> None:
    """Write rows as they come, headings fixed at the top with a filter on them.

    `colours` has one entry for each row, asked for behind it: a colour (one of `ROW_FILLS`) of the whole row, or None.
    """
    frame = _Frame(columns)
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
        lengths = []
        for number, part in enumerate(_sheets(rows), 1):
            with book.open(_SHEET.format(number), "w") as sheet:
                lengths.append(frame.fill(sheet, part, colours))
        frame.close(book, title, lengths)


def _sheets(rows: Iterable[Row]) -> Iterator[Iterable[Row]]:
    """The rows cut into sheets; at least one, even without rows."""
    rest = iter(rows)
    first = next(rest, None)
    yield () if first is None else _cut(first, rest)
    while (first := next(rest, None)) is not None:
        yield _cut(first, rest)


def _cut(first: Row, rest: Iterator[Row]) -> Iterable[Row]:
    return chain((first,), islice(rest, ROWS_IN_A_SHEET - 1))


class _Frame:
    """The workbook around the rows, as openpyxl writes it with one row of each style in the place of ours."""

    def __init__(self, columns: Sequence[Column]) -> None:
        from openpyxl.utils import get_column_letter

        self._columns = columns
        self._letters = [get_column_letter(at) for at in range(1, len(columns) + 1)]
        titles = [c.title for c in columns]
        self._verdict = titles.index("Verdict") if "Verdict" in titles else -1
        text = _members(self._book("compare", [1]))[_SHEET.format(1)]
        self._heading, *styled = re.findall(r"<row .*?</row>", text, re.DOTALL)
        self._head = re.sub(r"<dimension [^>]*/>", "", text[: text.index("<row ")])
        numbers = [re.findall(r'<c [^>]*s="([0-9]+)"', row)[0] for row in styled]
        self._styles = {name: f' s="{number}"' for name, number in zip((*FILLS, *ROW_FILLS), numbers, strict=True)}

    def fill(self, sheet: IO[bytes], rows: Iterable[Row], colours: Iterator[str | None] | None = None) -> int:
        """Write one sheet; gives its number of rows, the heading counted."""
        sheet.write((self._head + self._heading).encode())
        last = 1
        making = iter(rows)
        while made := list(islice(making, _AT_ONCE)):
            if colours is None:
                texts = [self._row(last + at, row) for at, row in enumerate(made, 1)]
            else:
                marked = zip(made, islice(colours, len(made)), strict=True)
                texts = [self._coloured(last + at, row, colour) for at, (row, colour) in enumerate(marked, 1)]
            sheet.write("".join(texts).encode("utf-8", "replace"))
            last += len(made)
        sheet.write(f'</sheetData><autoFilter ref="A1:{self._letters[-1]}{last}"/></worksheet>'.encode())
        return last

    def close(self, book: zipfile.ZipFile, title: str, lengths: Sequence[int]) -> None:
        """Write what holds the sheets together."""
        for name, text in _members(self._book(title, lengths)).items():
            if not name.startswith("xl/worksheets/sheet"):
                book.writestr(name, text)

    def _coloured(self, number: int, row: Row, colour: str | None) -> str:
        """A row with every cell in one colour, empty ones too."""
        if colour is None:
            return self._row(number, row)
        style = self._styles[colour]
        cells = []
        for letter, cell in zip(self._letters, row, strict=True):
            place = f'<c r="{letter}{number}"{style}'
            if cell == "" and type(cell) is str:
                cells.append(f"{place}/>")
            elif type(cell) is str:
                cells.append(f'{place} t="inlineStr"><is>{_text(cell)}</is></c>')
            elif type(cell) is bool:
                cells.append(f'{place} t="b"><v>{int(cell)}</v></c>')
            else:
                cells.append(f"{place}><v>{cell!r}</v></c>")
        return f'<row r="{number}">{"".join(cells)}</row>'

    def _row(self, number: int, row: Row) -> str:
        cells = []
        for at, (letter, cell) in enumerate(zip(self._letters, row, strict=True)):
            kind = type(cell)
            if kind is str:
                if cell:
                    style = self._styles.get(str(cell), "") if at == self._verdict else ""
                    text = _text(cell)  # type: ignore[arg-type]  # a text
                    cells.append(f'<c r="{letter}{number}"{style} t="inlineStr"><is>{text}</is></c>')
            elif kind is bool:
                cells.append(f'<c r="{letter}{number}" t="b"><v>{int(cell)}</v></c>')
            else:
                cells.append(f'<c r="{letter}{number}"><v>{cell!r}</v></c>')
        return f'<row r="{number}">{"".join(cells)}</row>'

    def _book(self, title: str, lengths: Sequence[int]) -> Any:
        """A workbook of sheets with headings, and on the first one a row in each colour."""
        from openpyxl import Workbook
        from openpyxl.styles import Font, PatternFill

        book = Workbook()
        book.remove(book.active)
        for number, length in enumerate(lengths, 1):
            sheet = book.create_sheet(title if number == 1 else f"{title} {number}")
            for at, (letter, column) in enumerate(zip(self._letters, self._columns, strict=True), 1):
                sheet.column_dimensions[letter].width = column.width
                sheet.cell(1, at, column.title).font = Font(bold=True)
            sheet.freeze_panes = "B2"
            sheet.auto_filter.ref = f"A1:{self._letters[-1]}{length}"
        # Always on the first sheet and in one order, so that a style has one number however many sheets there are.
        for at, colour in enumerate((*(f"FF{colour}" for colour in FILLS.values()), *ROW_FILLS), 2):
            book.worksheets[0].cell(at, 1, "x").fill = PatternFill("solid", start_color=colour)
        return book


def _members(book: Any) -> dict[str, str]:
    """The files of a workbook as texts; strings stand in the cells themselves."""
    made = BytesIO()
    book.save(made)
    with zipfile.ZipFile(made) as packed:
        return {name: packed.read(name).decode() for name in packed.namelist()}


_SPECIAL = re.compile(r"[&<>\r\n\t]|_x|^ | $").search
_UNDERSCORE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")


def _text(text: str) -> str:
    """Text as an element; what XML, or the format itself (`_x000D_`), would decode is escaped."""
    if not _SPECIAL(text):
        return f"<t>{text}</t>"
    text = _UNDERSCORE.sub("_x005F_", text).replace("\r", "_x000D_")
    return f'<t xml:space="preserve">{text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}</t>'
