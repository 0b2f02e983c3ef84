"""What the records of a dump do not tell, so that it cannot be judged.

A correct run has records without statistics too: of tensors without elements, of arguments that are not tensors, and of
gradients that could not be observed. They are no gaps.
"""

from collections import Counter

from msprobe.base.errors import DumpError
from msprobe.base.verdicts import Gap
from msprobe.compare.core.standard import family
from msprobe.store.conversion import examine_tensor
from msprobe.store.npy import packed_at
from msprobe.store.reader import tensor_path
from msprobe.store.record import GRADIENTS, TENSOR, Columns, Dump

_UNAVAILABLE = GRADIENTS.index("unavailable")


def can_overflow(columns: Columns, row: int) -> bool:
    """Return whether a tensor can hold NaN or infinities: not one of integers or bools, nor one without elements."""
    return family(columns.dtype(row)) not in ("int", "bool") and 0 not in (columns.shape(row) or ())


def gap_of_statistics(columns: Columns, row: int) -> Gap | None:
    """Why the statistics of a tensor do not tell its range; None if they do, or need not."""
    if row not in columns.odd or not can_overflow(columns, row) or columns.gradient[row] == _UNAVAILABLE:
        return None
    statistics = columns.odd[row]
    if statistics is not None and None not in (statistics.max, statistics.min):
        return None
    if statistics is not None and statistics.is_damaged:
        return Gap.ODD_STATISTICS
    return Gap.DIGESTS_ONLY if columns.digest[row] else Gap.NO_STATISTICS


def gaps_of(dump: Dump) -> Counter[Gap]:
    """Everything of a dump that a check of its values would need and that is not there."""
    columns = dump.columns
    gaps: Counter[Gap] = Counter()
    for row, file in enumerate(columns.file):
        if columns.kind[row] == TENSOR and not file and (gap := gap_of_statistics(columns, row)):
            gaps[gap] += 1
        elif columns.kind[row] == TENSOR and file:
            gaps[Gap.UNREADABLE_TENSOR] += not _is_readable(dump, row)
    gaps[Gap.NOT_COLLECTED] += len(dump.missing)
    gaps[Gap.NO_RECORDS] += TENSOR not in columns.kind
    return +gaps


def _is_readable(dump: Dump, row: int) -> bool:
    try:
        path = tensor_path(dump, dump.columns.record(row, dump.columns.call_of(row)))
        examine_tensor(path)
        if (packed := packed_at(path)) is not None:
            packed.verify()
    except DumpError:
        return False
    return True
