"""Samples of elements as evidence next to statistics: those of a golden file, and the same elements of the other side.

Statistics cannot show permuted elements, nor changes that preserve all four. A sample is a fifth statistic: the root
mean square of the differences of its elements, relative to the root mean square of the golden's tensor.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.core.standard import standard_of
from msprobe.compare.match.pairs import Pairs
from msprobe.store.reader import load_tensor
from msprobe.store.record import TENSOR, Dump
from msprobe.store.samples import Floats, Sample, read_samples, taken

from .judged import DIFFERENT, EQUAL, Comparison
from .verdict import GRADES, Grade, Verdict

_PASS = GRADES.index("pass")


def sampled_errors(pairs: Pairs) -> dict[int, float]:
    """Return the relative error of the sampled elements of each pair of tensors of one shape, 0 if they are equal.

    Only pairs whose golden has a sample, and whose target has the same elements: in a sample, or in a file. Infinity if
    an element is finite on one side only.
    """
    samples = read_samples(Path(pairs.golden.folder))
    if not samples:
        return {}
    ours = read_samples(Path(pairs.target.folder))
    found: dict[int, float] = {}
    both = np.flatnonzero((pairs.target_rows >= 0) & (pairs.golden_rows >= 0)).tolist()
    for row in both:
        t, g = int(pairs.target_rows[row]), int(pairs.golden_rows[row])
        if row in pairs.notes.views or pairs.golden.columns.shape(g) != pairs.target.columns.shape(t):
            continue
        sample = _of(samples, pairs.golden, g)
        if sample is None or not len(sample.elements):
            continue
        mine = _elements(pairs.target, t, sample, ours)
        if mine is not None:
            found[row] = _error(mine, sample, pairs.golden, g)
    return found


def _of(samples: dict[str, Sample], dump: Dump, row: int) -> Sample | None:
    """Return the sample of a row: its own, or that of the output that it is."""
    columns = dump.columns
    if columns.kind[row] != TENSOR:
        return None
    own = samples.get(columns.row_name(row, columns.call_of(row)))
    return own or samples.get(columns.source[row].removeprefix("call "))


def _elements(dump: Dump, row: int, sample: Sample, samples: dict[str, Sample]) -> Floats | None:
    """Return the elements of a tensor at the places of a sample; None if they are not known."""
    own = _of(samples, dump, row) if samples else None
    if own is not None:
        is_same = (own.drawn_for, own.count, len(own.elements)) == (
            *(sample.drawn_for, sample.count),
            len(sample.elements),
        )
        return own.elements if is_same else None
    if dump.task != "tensor" or not dump.columns.file[row]:
        return None
    try:
        array = load_tensor(dump, dump.columns.record(row, dump.columns.call_of(row)))
    except DumpError:  # statistics still decide
        return None
    return taken(np.ascontiguousarray(array), sample.positions) if array.size == sample.count else None


def _error(mine: Floats, sample: Sample, golden: Dump, row: int) -> float:
    theirs = sample.elements
    differs = ~((mine == theirs) | (np.isnan(mine) & np.isnan(theirs)))
    if not differs.any():
        return 0.0
    if not (np.isfinite(mine[differs]).all() and np.isfinite(theirs[differs]).all()):
        return math.inf
    norm = golden.columns.numbers_of(row)[3] if row not in golden.columns.odd else math.nan
    scale = norm / math.sqrt(max(sample.count, 1))
    if not (math.isfinite(scale) and scale > 0):
        finite = theirs[np.isfinite(theirs)]
        scale = float(np.sqrt(np.mean(np.square(finite)))) if len(finite) else 0.0
    size = float(np.sqrt(np.sum(np.square(mine[differs] - theirs[differs])) / len(theirs)))
    return size / scale if scale else math.inf


def with_samples(comparison: Comparison) -> Comparison:
    """Return the comparison with the errors of sampled elements, which also judge tensors whose statistics agree."""
    errors = sampled_errors(comparison.pairs) if comparison.mode == "statistics" else {}
    if not errors:
        return comparison
    equal, verdicts = comparison.equal.copy(), dict[int, Verdict]()
    for row, error in errors.items():
        if error == 0 or comparison.grades[row] != _PASS:
            continue
        if equal[row] == EQUAL:
            equal[row] = DIFFERENT
        standard = standard_of(comparison.golden.columns.dtype(int(comparison.pairs.golden_rows[row])))
        allowed = standard.relative + standard.absolute
        if error > allowed:
            grade: Grade = "warning" if error <= standard.warning * allowed else "error"
            verdicts[row] = Verdict(grade, (Reason(Why.SAMPLED, amount=error, allowed=allowed),))
    found = replace(comparison, equal=equal, samples=errors)
    return found.with_verdicts(verdicts, keep_equal=True) if verdicts else found
