"""A workbook of several tables, each in a separate sheet, written row by row."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msprobe.base.files import replace_atomically

from .cells import Cell
from .columns import Column
from .sheet import FILLS, ROWS_IN_A_SHEET

_HEADING = "FFE3E8EE"


class Workbook:
    """Sheets in the order in which they are added, within a `with`; `save` writes the file completely or not at all."""

    def __init__(self) -> None:
        from openpyxl import Workbook as Book

        self._book: Any = Book(write_only=True)

    def __enter__(self) -> "Workbook":
        return self

    def __exit__(self, *_: object) -> None:
        for sheet in self._book.worksheets:  # those that were begun and not saved: their files are open
            with suppress(Exception):  # of the library, which closes a sheet once
                sheet.close()
        self._book.close()

    def add(
        self,
        title: str,
        columns: Sequence[Column],
        rows: Iterable[tuple[Sequence[Cell], str]],
        *,
        at_front: bool = False,
    ) -> None:
        """Add a sheet of rows, each with the verdict that colors it (a key of `FILLS`, or any other text for none).

        Rows that do not fit into one sheet continue in `title 2`. `at_front` inserts it before the existing sheets.
        """
        rest = iter(rows)
        first, number = next(rest, None), 1
        while True:
            part = () if first is None else chain((first,), islice(rest, ROWS_IN_A_SHEET - 1))
            self._sheet(title if number == 1 else f"{title} {number}", columns, part, 0 if at_front else None)
            first, number = next(rest, None), number + 1
            if first is None:
                return

    def save(self, path: Path) -> None:
        """Write the file."""
        with replace_atomically(path) as file:
            self._book.save(file)

    def _sheet(
        self, title: str, columns: Sequence[Column], rows: Iterable[tuple[Sequence[Cell], str]], at: int | None
    ) -> None:
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.styles import Alignment, Font, PatternFill
        from openpyxl.utils import get_column_letter

        sheet = self._book.create_sheet(title, at)
        for place, column in enumerate(columns, 1):
            sheet.column_dimensions[get_column_letter(place)].width = column.width
        sheet.freeze_panes = "A2"
        fills = {name: PatternFill("solid", start_color=f"FF{color}") for name, color in FILLS.items()}
        heading = [WriteOnlyCell(sheet, column.title) for column in columns]
        for cell in heading:
            cell.font, cell.fill = Font(bold=True), PatternFill("solid", start_color=_HEADING)
            cell.alignment = Alignment(wrap_text=True, vertical="top")
        sheet.append(heading)
        for values, verdict in rows:
            made = []
            for value in values:
                cell = WriteOnlyCell(sheet, None if value == "" else value)
                if isinstance(value, str) and value:
                    cell.data_type = "s"  # never a formula, for any name of a setting
                if verdict in fills:
                    cell.fill = fills[verdict]
                made.append(cell)
            sheet.append(made)
