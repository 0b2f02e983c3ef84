"""A table in the requested form: csv, xlsx, or a JSON list with an object for each row."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from msprobe.base.files import replace_atomically

from .cells import Cell
from .columns import Column
from .csv_file import write_csv
from .sheet import write_sheet


def write_table(
    path: Path, columns: Sequence[Column], rows: Iterable[tuple[Cell, ...]], form: str, title: str = "compare"
) -> None:
    """Write rows in one of the three forms, a sheet under its `title`; raise an OSError if writing fails."""
    if form == "csv":
        write_csv(path, columns, rows)
    elif form == "json":
        write_text(path, objects(columns, rows))
    else:
        write_sheet(path, columns, rows, title=title)


def objects(columns: Sequence[Column], rows: Iterable[tuple[Cell, ...]]) -> list[dict[str, Cell]]:
    """Return each row by the titles of its columns."""
    titles = [column.title for column in columns]
    return [dict(zip(titles, row, strict=True)) for row in rows]


def write_text(path: Path, made: object) -> None:
    """Write JSON, with a `?` for characters that UTF-8 cannot represent, other objects as texts; completely or not at
    all."""
    with replace_atomically(path) as file:
        text = json.dumps(made, ensure_ascii=False, indent=1, default=str)
        file.write(text.encode("utf-8", "replace") + b"\n")
