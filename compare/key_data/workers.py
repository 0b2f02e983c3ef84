"""Pairs are judged by worker processes, as many as are worth their start; the rows come in the pairs' order."""

from collections.abc import Iterable, Iterator, Sequence

from msprobe.compare.workers.cores import cores
from msprobe.compare.workers.run import Lost, run

from .judge import Row, judge_all, lost, size_of
from .pair import Pair

BATCH = 1 << 24
"""Bytes that are given to a worker at once; also what must be there to be read before one more is started."""

_PAIRS = 1000  # in a batch: opening files is work too


def judge_pairs(pairs: Sequence[Pair], processes: int) -> list[Row]:
    """The row of every pair, in order; with one process, in this one. The rows are the same for any number."""
    return _judged(list(_batches(pairs)), min(processes, cores()))


def _batches(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    batch: list[Pair] = []
    size = 0
    for pair in pairs:
        batch.append(pair)
        size += size_of(pair)
        if size >= BATCH or len(batch) == _PAIRS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _judged(batches: Sequence[Sequence[Pair]], workers: int) -> list[Row]:
    done = dict(run(judge_all, batches, workers=workers, title="comparing tensors"))
    rows: list[Row] = []
    for at, batch in enumerate(batches):
        result = done[at]
        if not isinstance(result, Lost):
            rows += result
        elif len(batch) == 1:
            rows.append(lost(batch[0], result.reason))
        else:  # only one of them may be to blame; two tasks or more never run in this process
            rows += _judged([[pair] for pair in batch], workers)
    return rows
