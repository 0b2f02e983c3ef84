"""`SingleComparator`: compares key data of two runs, one sheet per tag; see `how-to/comparing/single-compare.md`.

Modules that write sheets are imported on use.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from os import PathLike
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.files import user_path, writing
from msprobe.base.log import logger
from msprobe.compare.judge.verdict import count
from msprobe.compare.measure.symmetric import SymmetricMeasures
from msprobe.compare.tables.cells import guard, number
from msprobe.compare.tables.columns import Column
from msprobe.compare.workers.run import Lost, bundles, cores, run

from .pairs import Pair, Row, judge_all, lost, size_of

Cell = str | int | float | bool

COLUMNS = (
    Column("step", "number of the step", 6),
    Column("rank", "number of the rank", 6),
    Column("micro_step", "number of the micro step; 0 without one", 11),
    Column(
        "id", "position or key within a list or dict, 0 for a single tensor; for saves in a graph the order of saves", 8
    ),
    Column("shape1", "shape in the first folder; empty without a tensor there", 14),
    Column("shape2", "shape in the second folder", 14),
    Column("相同元素百分比(%)", "equal elements, in percent", 18),
    Column("首个不匹配元素索引", "flat index of the first element that differs; empty if all are equal", 18),
    Column("最大绝对误差", "largest absolute difference", 20),
    Column("最大相对误差", "largest difference relative to the larger of the two absolute values", 20),
    Column("误差在千分之一内元素占比(%)", "elements whose relative difference is at most 0.001, in percent", 26),
    Column("误差在百分之一内元素占比(%)", "the same for 0.01", 26),
    Column("Verdict", "`pass`, `warning`, `error`, or `unjudged`; pairs that were not judged never pass", 10),
    Column("Reason", "the reason; empty for a simple pass", 60),
)


def rows(found: Iterable[Row]) -> Iterator[tuple[Cell, ...]]:
    """Yield one row of cells per pair."""
    for row in found:
        key = row.key
        yield (
            key.step,
            key.rank,
            key.micro_step,
            key.id[0] if len(key.id) == 1 and isinstance(key.id[0], int) else guard(".".join(map(str, key.id))),
            *("" if shape is None else str(list(shape)) for shape in (row.target_shape, row.golden_shape)),
            *(("",) * 6 if row.found is None else _numbers(row.found)),
            row.verdict.grade,
            guard(row.verdict.reason),
        )


def _numbers(found: SymmetricMeasures) -> tuple[Cell, ...]:
    counts = found.same, found.within_1e_3, found.within_1e_2
    same, *within = (count / found.size * 100 if found.size else 100.0 for count in counts)
    first = found.first if found.first >= 0 else ""
    return same, first, number(found.max_absolute), number(found.max_relative), *within


BATCH = 1 << 24
"""Bytes of one task of a worker."""

_PAIRS = 1000  # in a batch: opening files takes time too


def judge_pairs(pairs: Sequence[Pair], processes: int) -> list[Row]:
    """Return the row of every pair, in order; with one process, in this one. The rows are the same for any number."""
    batches = [[pairs[at] for at in batch] for batch in bundles([size_of(pair) for pair in pairs], BATCH, _PAIRS)]
    return _judged(batches, min(processes, cores()))


def _judged(batches: Sequence[Sequence[Pair]], workers: int) -> list[Row]:
    done = dict(run(judge_all, batches, workers=workers, title="comparing tensors"))
    rows: list[Row] = []
    for at, batch in enumerate(batches):
        result = done[at]
        if not isinstance(result, Lost):
            rows += result
        elif len(batch) == 1:
            rows.append(lost(batch[0], result.reason))
        else:  # only one of them may be the cause; two tasks or more never run in this process
            rows += _judged([[pair] for pair in batch], workers)
    return rows


class SingleComparator:
    """Compares values that two runs saved by name, with `SingleSave` or with `save` in a graph."""

    @staticmethod
    def compare(
        dir1: "str | PathLike[str]",
        dir2: "str | PathLike[str]",
        output_path: "str | PathLike[str]" = "./msprobe_compare_output",
        num_processes: int = 8,
    ) -> list[Path]:
        """Write `output_path/{tag}.xlsx` for every tag below `dir1/data` or `dir2/data`; return the paths.

        `dir1` is the run under suspicion, `dir2` the trusted one. A difference is a row, never an exception, and so is
        a tensor that one side lacks or that cannot be read. Raise a UsageError if a folder has no `data`, if neither
        has a tensor, if `num_processes` is not a number from 1 on, or if the output cannot be written. At most one
        process per task is started; the sheets are the same for any number.
        """
        if isinstance(num_processes, bool) or not isinstance(num_processes, int) or num_processes < 1:
            raise UsageError(
                f"SingleComparator.compare: num_processes is {num_processes!r}; pass an integer of at least 1"
            )
        from msprobe.compare.tables.sheet import write_sheet
        from msprobe.store.lock import exclusive
        from msprobe.store.saves.single_saves import stem_of

        from .pairs import find, pair

        target, golden, output = user_path(dir1), user_path(dir2), user_path(output_path)
        pairs = pair(find(target), find(golden))
        if not pairs:
            raise UsageError(
                f"{target} and {golden}: neither contains tensors in data/<tag>/step<n>/rank<n>/; give the "
                "folders with the key data of two runs"
            )
        judged = judge_pairs(pairs, num_processes)
        sheets: list[Path] = []
        remedy = "give another output_path"
        with writing(output, remedy), exclusive(output, remedy):
            for tag, part in groupby(judged, key=lambda row: row.key.tag):
                path = output / f"{stem_of(tag)}.xlsx"
                write_sheet(path, COLUMNS, rows(part))
                sheets.append(path)
        logger.info(
            "%d tensors of %d tags: %s; %d of them on one side only; a sheet per tag in %s",
            len(pairs),
            len(sheets),
            count(Counter(row.verdict.grade for row in judged)),
            sum(not (p.target and p.golden) for p in pairs),
            output,
        )
        return sheets
