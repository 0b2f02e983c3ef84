"""Which files of a folder are tables of ranks, by their names; the folder is not searched any deeper."""

import re
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.log import logger
from msprobe.base.visible import visible

_TABLE = re.compile(r"compare_result_rank([0-9]{1,9})(?:-rank[0-9]{1,9})?_[0-9]{14}\.(?:xlsx|csv)")
_ONE_CARD = re.compile(r"compare_result_(?:rank_)?[0-9]{14}\.(?:xlsx|csv)")

_BESIDE = re.compile(r"(?:compare_summary|diff_analyze|advisor|compare_result)_.*\.(?:json|txt)")
"""What a comparison writes beside its tables."""


def tables_of_ranks(folder: Path) -> dict[int, Path]:
    """Rank -> its table, in the order of the ranks.

    What is left aside is said in the log. UsageError where the folder cannot be read, holds fewer than two tables, or
    two of one rank.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError as err:
        raise UsageError(f"{folder}: cannot be read ({err.strerror}); give the folder with the tables") from err
    found: dict[int, Path] = {}
    for entry in entries:
        if _BESIDE.fullmatch(entry.name):
            continue
        named = _TABLE.fullmatch(entry.name)
        if not named or not entry.is_file():
            logger.info("%s is left aside: %s", visible(str(entry)), _why_not(entry))
            continue
        rank = int(named[1])
        if rank in found:
            raise UsageError(
                f"{folder}: {found[rank].name} and {entry.name} are both of rank {rank}; leave one of them"
            )
        found[rank] = entry
    if len(found) < 2:
        raise UsageError(f"{folder}: holds {len(found) or 'no'} {_remedy(entries, len(found))}")
    return dict(sorted(found.items()))


def _why_not(entry: Path) -> str:
    if entry.is_dir():
        return "a folder; its tables are merged where it is given with -i"
    if _ONE_CARD.fullmatch(entry.name):
        return "the table of a single card"
    return "not called compare_result_rank<N>_<time>.xlsx or .csv"


def _remedy(entries: list[Path], count: int) -> str:
    text = f"table{'' if count == 1 else 's'} of a rank and two are needed, compare_result_rank<N>_<time>.xlsx or .csv"
    if below := next((e for e in entries if e.is_dir() and any(_TABLE.fullmatch(n.name) for n in _inside(e))), None):
        return f"{text}; {below.name} has some: merge one step at a time, with -i {below}"
    return f"{text}; compare the ranks first, with msprobe compare"


def _inside(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []  # only looked at for the hint
