"""Tables of a report: the rows of a sheet, with a letter for each row's verdict."""

from collections.abc import Iterable, Sequence
from itertools import islice

from msprobe.base.phrase import Words, phrase
from msprobe.report.document import Table, TableSet
from msprobe.report.file import Chunks

from .cells import Cell
from .columns import Column

LETTERS = {"pass": "p", "warning": "w", "error": "e", "unjudged": "u", "info": ".", "SKIP": "u"}
"""By the text of a verdict: its letter in `document.VERDICTS`."""

MAX_ROWS = 5000
"""Maximum number of rows of one table; its title has the total number."""


def put_table(
    chunks: Chunks, title: Words, columns: Sequence[Column], rows: Iterable[tuple[Cell, ...]], verdict: str = ""
) -> TableSet:
    """Add a table to a report; `verdict` is the title of the column with the keys of `LETTERS`."""
    made = iter(rows)
    kept = list(islice(made, MAX_ROWS))
    total = len(kept) + sum(1 for _ in made)
    titles = tuple(column.title for column in columns)
    letters = ""
    if verdict:
        at = titles.index(verdict)
        letters = "".join(LETTERS.get(str(row[at]), ".") for row in kept)
    if total > len(kept):
        title = phrase("{title} (the first {number} of {total} rows)", title=title, number=len(kept), total=total)
    return TableSet(title, chunks.add(Table(titles, tuple(kept), letters)), len(kept))
