"""A large csv file by several processes: each makes the lines of its share of the rows; they are joined in order."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from msprobe.base.files import part_of, replacing
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.locate.find import Located
from msprobe.compare.workers.cores import cores
from msprobe.compare.workers.run import Lost, run

from .columns import Column
from .csv_file import heading, write_lines
from .rows import rows

WORTH_SHARES = 30_000
"""Rows that one process writes before others would have started."""


@dataclass(frozen=True)
class Share:
    """The rows from `start` to `stop` of a comparison, and the file that their lines go to."""

    comparison: Comparison
    located: Located
    with_stack: bool
    start: int
    stop: int
    path: str


def write_csv_shares(
    path: Path, columns: Sequence[Column], comparison: Comparison, located: Located, with_stack: bool, workers: int
) -> None:
    """Write what `write_csv` would write of all `rows`, byte for byte, by so many processes (0: as many as cores)."""
    count, size = workers or cores(), len(comparison.grades)
    cuts = [size * n // count for n in range(count + 1)]
    with ExitStack() as parts:
        shares = [
            Share(comparison, located, with_stack, start, stop, str(parts.enter_context(part_of(path)).path))
            for start, stop in pairwise(cuts)
        ]
        for at, result in run(write_share, shares, workers=count):
            if isinstance(result, Lost):  # whatever it died of, its rows are not lost
                write_share(shares[at])
        with replacing(path) as file:
            file.write(heading(columns))
            for share in shares:
                with open(share.path, "rb") as lines:
                    shutil.copyfileobj(lines, file, 1 << 20)


def write_share(share: Share) -> None:
    """Write the lines of one share."""
    with open(share.path, "wb") as file:
        write_lines(file, rows(share.comparison, share.located, share.with_stack, share.start, share.stop))
