"""Key data of two runs compared, one sheet per tag: `SingleComparator`, see `docs/single-compare.md`.

What needs numpy or writes sheets is imported when something is compared.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from os import PathLike
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.files import user_path
from msprobe.base.log import logger


@dataclass(frozen=True)
class Compared:
    """What came of it: the sheets, and how many rows got which verdict."""

    sheets: list[Path]
    counts: Counter[str]
    one_sided: int

    @property
    def is_clean(self) -> bool:
        """Whether everything was compared and passed."""
        return set(self.counts) == {"pass"}


class SingleComparator:
    """Compares what two runs saved by name, with `SingleSave` or with `save` in a graph."""

    @staticmethod
    def compare(
        dir1: "str | PathLike[str]",
        dir2: "str | PathLike[str]",
        output_path: "str | PathLike[str]" = "./msprobe_compare_output",
        num_processes: int = 8,
    ) -> list[Path]:
        """Write `output_path/{tag}.xlsx` for every tag below `dir1/data` or `dir2/data`; gives the paths.

        `dir1` is the run under suspicion, `dir2` the trusted one. A difference is a row, never an exception, and so is
        a tensor that one side lacks or that cannot be read. UsageError where a folder has no `data`, where there is no
        tensor in either, where `num_processes` is no number from 1 on, or where the output cannot be written. More
        processes than there is work for are not started; the sheets are the same for any number.
        """
        if isinstance(num_processes, bool) or not isinstance(num_processes, int) or num_processes < 1:
            raise UsageError(
                f"SingleComparator.compare: num_processes is {num_processes!r}; write a whole number from 1 on"
            )
        return compare_trees(user_path(dir1), user_path(dir2), user_path(output_path), num_processes).sheets


def compare_trees(target: Path, golden: Path, output: Path, processes: int) -> Compared:
    """The same, with what the command needs for its exit code."""
    from msprobe.compare.report.sheet import write_sheet
    from msprobe.store.claim import alone
    from msprobe.store.single import stem_of

    from .pair import find, pair
    from .table import COLUMNS, rows
    from .workers import judge_pairs

    trees = find(target), find(golden)
    pairs = pair(*trees)
    if not pairs:
        raise UsageError(
            f"{target} and {golden}: no tensor stands at data/<tag>/step<n>/rank<n>/ of either; "
            "give the folders that two runs saved their key data to"
        )
    judged = judge_pairs(pairs, processes)
    sheets: list[Path] = []
    try:
        with alone(output, "give another output_path"):
            for tag, part in groupby(judged, key=lambda row: row.key.tag):
                path = output / f"{stem_of(tag)}.xlsx"
                write_sheet(path, COLUMNS, rows(part))
                sheets.append(path)
    except OSError as err:
        raise UsageError(f"{output}: cannot be written ({err.strerror or err}); give another output_path") from err
    counts = Counter[str](row.verdict.grade for row in judged)
    one_sided = sum(not (p.target and p.golden) for p in pairs)
    logger.info(
        "%d tensors of %d tags: %s; %d of them on one side only; a sheet per tag in %s",
        len(pairs),
        len(sheets),
        ", ".join(f"{counts[grade]} {grade}" for grade in ("pass", "warning", "error", "unjudged")),
        one_sided,
        output,
    )
    return Compared(sheets, counts, one_sided)
