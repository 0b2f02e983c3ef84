"""Judge all pairs of records: by columns if statistics or digests decide, otherwise individually, with reasons."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.base.digest import have_same_kind
from msprobe.base.schema import NAMES
from msprobe.compare.core.buffers import BATCH, PREFIXES, function_of, has_buffers, is_buffer
from msprobe.compare.core.exemptions import Stage, cause_by_reason, exemptions_of
from msprobe.compare.core.reason import CAUSES, Cause, Reason, Reasons, Why
from msprobe.compare.core.relation import Relation
from msprobe.compare.core.standard import allowed_across, standard_of
from msprobe.compare.match.fused import SUM
from msprobe.compare.match.pairs import Ints, Pair, Pairs, View
from msprobe.compare.measure.statistics import excess as excess_of
from msprobe.compare.measure.statistics import excesses, excesses_of
from msprobe.store.record import GRADIENTS, INPUT, KINDS, PARTS, UNWRITTEN, Columns, Dump, Record, Statistics

from .cross_framework import (
    WARNING_ACROSS,
    errors_by_statistics,
    judge_errors,
    scale_reason,
    widths_are_custom,
    worst_by_statistics,
)
from .elements import keeps_elements, looked_at
from .judged import DIFFERENT, EQUAL, NO_CAUSE, UNKNOWN, DigestKind, Mode, collected, kind_of
from .verdict import (
    GRADES,
    PASS,
    Verdict,
    excused,
    judge_gradient,
    judge_statistics,
    judge_structure,
    judge_value,
    judge_value_across,
    lost_rows,
    same_dtype,
    unjudged,
    wrong,
)

_TENSOR, _VALUE, _NULL = (KINDS.index(kind) for kind in ("tensor", "value", "null"))
_OWN = GRADIENTS.index("own")
_PASS, _WARNING, _ERROR, _UNJUDGED = (GRADES.index(grade) for grade in ("pass", "warning", "error", "unjudged"))

Mask = NDArray[np.bool_]

UNINITIALISED = ("empty", "empty_like", "empty_strided", "empty_with_format", "new_empty", "new_empty_strided")

_UNJUDGEABLE: dict[str, tuple[Why, str]] = {
    # The result is the previous content of the memory: mindspore.mint.empty, "the data is uninitialized"; torch.empty
    # likewise.
    **dict.fromkeys(UNINITIALISED, (Why.UNINITIALISED, r"output")),
    # MindSpore's BatchNorm: outputs after the first are for internal use of the kernel, and 2.10 does not write them on
    # a CPU, so that they differ between two runs of one program.
    "BatchNorm": (Why.WORKSPACE, r"output(?!\.0$)"),
    # Every element of their first input is written, none is read.
    **dict.fromkeys(
        (
            *("bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_"),
            *("random_", "uniform_", "zero_"),
        ),
        (Why.FILLED, r"input\.0$"),
    ),
}
"""Operations whose records show nothing about correctness -> why, and the places of those records."""

_ANY_UNJUDGEABLE = re.compile(
    rf"\.(?:{'|'.join(sorted(_UNJUDGEABLE))})\.[0-9]|(?:^|\n)(?:{'|'.join(map(re.escape, PREFIXES))})"
)


class _Operation(NamedTuple):
    """An operation some of whose records show nothing; `why` is None for a collective that fills arguments."""

    word: str
    why: Why | None = None
    places: str = ""


def _unjudgeable(call: str) -> _Operation | None:
    """Return the operation of a call if some of its records show nothing; None otherwise."""
    if not _ANY_UNJUDGEABLE.search(call):  # quick: may match other calls, but misses none
        return None
    if function := function_of(call):
        return _Operation(function) if has_buffers(function) else None
    name = names.parse(call)
    word = name.stem.rsplit(".", 1)[-1]
    if name.kind != "api" or name.direction != "forward" or word not in _UNJUDGEABLE:
        return None
    return _Operation(word, *_UNJUDGEABLE[word])


def says_nothing(columns: Columns, at: int, row: int) -> bool:
    """Return whether the values in a row of a call are not evidence: memory that was not written yet, or that is
    written without being read."""
    found = _unjudgeable(columns.names[at])
    return found is not None and _shows_nothing(columns, at, PARTS[columns.part[row]], columns.path_of(row), found)


def shows_nothing_of(columns: Columns) -> Iterator[int]:
    """Yield the rows of which `says_nothing` is true."""
    if not _ANY_UNJUDGEABLE.search("\n".join(columns.names)):
        return
    for at, name in enumerate(columns.names):
        if (found := _unjudgeable(name)) is not None:
            for row in columns.rows(at):
                if _shows_nothing(columns, at, PARTS[columns.part[row]], columns.path_of(row), found):
                    yield row


def _shows_nothing(columns: Columns, at: int, part: str, path: Sequence[str], found: _Operation) -> bool:
    if found.why is not None:
        return re.match(found.places, ".".join((part, *path[:1]))) is not None
    if part != "input":
        return False
    operation = None
    if found.word == BATCH:
        beside = (*path[:-1], "op")
        operation = next((columns.values[row] for row in columns.rows(at) if columns.path_of(row) == beside), None)
    return is_buffer(found.word, path, (columns.path_of(row) for row in columns.tensors(at, INPUT)), operation)


def unwritten_inputs(columns: Columns, at: int) -> Iterator[int]:
    """Yield the inputs of a call that the dump marks as memory that was not written, and that the call reads."""
    for row in columns.rows(at):
        is_unwritten = columns.part[row] == INPUT and columns.looks[columns.look[row]][0] == UNWRITTEN
        if is_unwritten and columns.path_of(row)[:1] != ("out",) and not says_nothing(columns, at, row):
            yield row


@dataclass(frozen=True, eq=False)
class VerdictColumns:
    """The verdicts so far: the grade of each pair, why it has none, whether it is equal, and whether that is settled.

    `excess` and `which` are results of `excesses`, -1 in `which` if it was not called for a pair. `reasons` are those
    of pairs of two frameworks.
    """

    grades: NDArray[np.uint8]
    causes: NDArray[np.uint8]
    equal: NDArray[np.int8]
    settled: Mask
    excess: NDArray[np.float64]
    which: NDArray[np.int8]
    reasons: dict[int, Reasons] = field(default_factory=dict)

    def enter(self, row: int, verdict: Verdict) -> None:
        """Enter the verdict of one pair."""
        self.grades[row] = GRADES.index(verdict.grade)
        self.causes[row] = NO_CAUSE if verdict.cause is None else CAUSES.index(verdict.cause)

    def settle(self, rows: Ints, grades: NDArray[np.uint8] | int, equal: NDArray[np.int8] | int) -> None:
        """Enter the verdicts of some pairs."""
        self.grades[rows], self.equal[rows], self.settled[rows] = grades, equal, True


def judge_columns(
    pairs: Pairs, *, by_digest: bool, by_statistics: bool, by_errors: bool = False, same_rounding: bool
) -> VerdictColumns:
    """Settle equal values, and tensors of one shape and dtype by their digests or statistics; `by_errors`: as two
    frameworks."""
    size = len(pairs.target_rows)
    sheet = VerdictColumns(
        np.full(size, _UNJUDGED, np.uint8),
        np.full(size, NO_CAUSE, np.uint8),
        np.full(size, UNKNOWN, np.int8),
        np.zeros(size, bool),
        np.zeros(size),
        np.full(size, -1, np.int8),
    )
    both = np.flatnonzero((pairs.target_rows >= 0) & (pairs.golden_rows >= 0))
    t, g = pairs.target_rows[both], pairs.golden_rows[both]
    target, golden = pairs.target.columns, pairs.golden.columns
    own = (_codes(target.gradient)[t] == _OWN) & (_codes(golden.gradient)[g] == _OWN)
    kind_t, kind_g = _codes(target.kind)[t], _codes(golden.kind)[g]
    # Equal values of one type pass, and None equals None; what differs or could not be collected needs a reason.
    passing = np.zeros(len(both), bool)
    blank_t, blank_g = (_blank(columns, rows) for columns, rows in ((target, t), (golden, g)))
    rows = np.flatnonzero(own & (kind_t == _VALUE) & (kind_g == _VALUE) & ~blank_t & ~blank_g)
    passing[rows] = [
        type(a := target.values[i]) is type(b := golden.values[j]) and a == b
        for i, j in zip(t[rows].tolist(), g[rows].tolist(), strict=True)
    ]
    nulls = own & (kind_t == _NULL) & (kind_g == _NULL)
    for lost, columns, rows in ((lost_rows(pairs.target), target, t), (lost_rows(pairs.golden), golden, g)):
        if lost:
            nulls &= ~_marked(lost, columns, rows)
    sheet.settle(both[passing | nulls], _PASS, EQUAL)
    alike = own & (kind_t == _TENSOR) & (kind_g == _TENSOR) & _judgeable(pairs, both)
    look_t, look_g = (np.frombuffer(c.look, np.int32)[rows].astype(np.int64) for c, rows in ((target, t), (golden, g)))
    alike[alike] = _are_alike(target, golden, look_t[alike], look_g[alike], pairs.relation)
    if by_digest:
        rows = np.flatnonzero(alike)
        texts = [(target.digest[a], golden.digest[b]) for a, b in zip(t[rows].tolist(), g[rows].tolist(), strict=True)]
        both_have = np.array([bool(a and b) for a, b in texts], bool)
        known = both_have & np.array([have_same_kind(a, b) for a, b in texts], bool)
        same = np.array([a == b for a, b in texts], bool)[known]
        sheet.settle(both[rows[known]], np.where(same, _PASS, _ERROR).astype(np.uint8), same.astype(np.int8))
        alike[rows[both_have]] = False  # those of two kinds need a reason
    if by_statistics:
        alike &= ~_marked(target.odd, target, t) & ~_marked(golden.odd, golden, g)
        alike &= ~_counted_otherwise(target, golden, t, g)
        rows = np.flatnonzero(alike)
        standards = np.array([_standard_row(dtype, shape) for _, dtype, shape in golden.looks] or [(0.0,) * 4])[
            look_g[rows]
        ]
        ours, theirs = _statistics(target, t[rows]), _statistics(golden, g[rows])
        excess, which = excesses(ours, theirs, standards[:, 0], standards[:, 1], standards[:, 2], same_rounding)
        grades = np.where(excess <= 1, _PASS, np.where(excess <= standards[:, 3], _WARNING, _ERROR)).astype(np.uint8)
        # A statistic that is not finite on one side is an error by every standard, and its excess is infinite.
        is_equal = excess == 0 if same_rounding else grades == _PASS
        sheet.settle(both[rows], grades, np.where(is_equal, EQUAL, DIFFERENT).astype(np.int8))
        sheet.excess[both[rows]], sheet.which[both[rows]] = excess, which
    if by_errors:
        for columns, rows, blank in ((target, t, blank_t), (golden, g, blank_g)):
            alike &= ~(_marked(columns.odd, columns, rows) | _marked(columns.non_finite, columns, rows) | blank)
        rows = np.flatnonzero(alike)
        allowed = _allowed(pairs, look_t[rows], look_g[rows])
        mine, other = (
            [columns.column(name)[of] for name in NAMES] for columns, of in ((target, t[rows]), (golden, g[rows]))
        )
        are_plain = ~np.isnan(allowed) & np.isfinite([*mine, *other]).all(axis=0)
        rows, allowed = rows[are_plain], allowed[are_plain]
        mine, other = ([column[are_plain] for column in side] for side in (mine, other))
        sizes = np.array([math.prod(shape or ()) for _, _, shape in golden.looks] or [0])[look_g[rows]]
        errors = worst_by_statistics(mine, other, sizes)
        is_wrong, is_equal = errors > allowed, np.equal(mine, other).all(axis=0)
        grades = np.where(is_wrong, np.where(errors <= WARNING_ACROSS * allowed, _WARNING, _ERROR), _PASS)
        sheet.settle(both[rows], grades.astype(np.uint8), np.where(is_equal, EQUAL, DIFFERENT).astype(np.int8))
        reasons = zip(map(scale_reason, errors[is_wrong].tolist(), allowed[is_wrong].tolist()), strict=True)
        sheet.reasons.update(zip(both[rows[is_wrong]].tolist(), reasons, strict=True))
    return sheet


def _allowed(pairs: Pairs, look_t: Ints, look_g: Ints) -> NDArray[np.float64]:
    """Return the allowance of two frameworks for pairs of `looks`, NaN for exact dtypes."""
    target, golden = pairs.target.columns.looks, pairs.golden.columns.looks
    codes, where = np.unique(look_t * len(golden) + look_g, return_inverse=True)
    custom = widths_are_custom(pairs)
    found = [
        allowed_across(target[code // len(golden)][1], golden[code % len(golden)][1], custom) for code in codes.tolist()
    ]
    return np.array([math.nan if one is None else one for one in found], np.float64)[where]


def _are_alike(target: Columns, golden: Columns, look_t: Ints, look_g: Ints, relation: Relation) -> Mask:
    """Return which pairs have equal shapes and dtypes; each pair of `looks` (kind, dtype and shape) is judged once."""
    width = max(len(golden.looks), 1)
    # In 64 bits: two dumps of 50,000 looks have more pairs of them than 32 bits can count.
    codes, where = np.unique(look_t * width + look_g, return_inverse=True)
    found = []
    for code in codes.tolist():
        (_, ours, shape), (_, theirs, other) = target.looks[code // width], golden.looks[code % width]
        found.append(shape == other and same_dtype(ours, theirs, relation))
    return np.array(found, bool)[where]


def _standard_row(dtype: str, shape: tuple[int, ...] | None) -> tuple[float, float, float, float]:
    standard = standard_of(dtype)
    return float(math.prod(shape or ())), standard.absolute, standard.relative, standard.warning


def _judgeable(pairs: Pairs, both: Ints) -> Mask:
    """Return which pairs are not of an operation in `_UNJUDGEABLE`."""
    calls = []
    if _has_unjudgeable(pairs.target):
        calls = [at for at in range(len(pairs)) if _unjudgeable(pairs.name(at))]
    return ~np.isin(pairs.call_of[both], calls)


def _has_unjudgeable(dump: Dump) -> bool:
    return _ANY_UNJUDGEABLE.search("\n".join(dump.columns.names)) is not None


def _blank(columns: Columns, rows: Ints) -> Mask:
    """Return which of some rows represent memory that was not written."""
    looks = [at for at, (kind, _, _) in enumerate(columns.looks) if kind == UNWRITTEN]
    return np.isin(np.frombuffer(columns.look, np.int32)[rows], looks) if looks else np.zeros(len(rows), bool)


def _codes(column: bytearray) -> NDArray[np.uint8]:
    return np.frombuffer(column, np.uint8)


def _marked(marked: object, columns: Columns, rows: Ints) -> Mask:
    """Return which of some rows are marked."""
    found = np.zeros(len(columns.part), bool)
    found[list(marked)] = True  # type: ignore[call-overload]  # a set, or the keys of a dict
    return found[rows]


def _counted_otherwise(target: Columns, golden: Columns, t: Ints, g: Ints) -> Mask:
    """Return which pairs have different counts of non-finite elements, if both sides have counts; they need a
    reason."""
    found = np.zeros(len(t), bool)
    ours, theirs = target.non_finite, golden.non_finite
    known = np.flatnonzero(_marked(ours, target, t) & _marked(theirs, golden, g))
    found[known] = [ours[i] != theirs[j] for i, j in zip(t[known].tolist(), g[known].tolist(), strict=True)]
    return found


def _statistics(columns: Columns, rows: Ints) -> tuple[NDArray[np.float64], ...]:
    return tuple(column[rows] for column in columns.numbers.T)


Found = tuple[Verdict, int]
"""A verdict, and whether the two are bitwise equal: `EQUAL`, `DIFFERENT` or `UNKNOWN`."""


class PairJudge:
    """Judges pairs of one comparison. `by_statistics` are the rows judged by statistics although tensors are
    compared."""

    def __init__(self, mode: Mode, pairs: Pairs) -> None:
        self._mode, self._pairs = mode, pairs
        self.target, self._golden, self.notes = pairs.target, pairs.golden, pairs.notes
        self._relation = pairs.relation
        self._custom = self._relation.has_other_kernels and widths_are_custom(pairs)
        # Two tools, or two frameworks, do not round mean and norm equally, so that bitwise equality is not evidence.
        has_one_format = self.target.format_version == self._golden.format_version
        self.same_rounding = has_one_format and self._relation.is_one_framework
        self.has_unjudgeable = _has_unjudgeable(self.target)
        self._exemptions = exemptions_of(Stage.PAIR, self._relation)
        self.by_statistics: set[int] = set()
        self._two_gradients: dict[int, Verdict] = {}  # by row, of what has to be measured

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return the calls of the target by name."""
        return {name: at for at, name in enumerate(self.target.columns.names)}

    def __call__(self, pair: Pair, call: str, row: int = -1) -> Found | None:
        """Return the verdict on a record of the pair of calls `call`; None if the tensors have to be measured.

        `row` is the pair's place in the comparison, by which notes are looked up.
        """
        target, golden = pair.target, pair.golden
        if target is None or golden is None:
            return _with_equality(self._without_partner("target" if target else "golden", kind_of(pair.record), row))
        for exemption in self._exemptions:
            if (reason := exemption.function(self, pair, call, row)) is not None:
                return excused(exemption, reason), UNKNOWN
        if (verdict := judge_gradient(target, golden)) is not None:
            return self._of_two_gradients(target, golden, row, verdict)
        if target.kind != "tensor" or golden.kind != "tensor":
            if "null" in (target.kind, golden.kind) and (lost := self._not_collected(row)) is not None:
                return lost, UNKNOWN
            return _with_equality(self.by_value(target, golden, row))
        return self._of_tensors(target, golden, row)

    def _of_two_gradients(self, target: Record, golden: Record, row: int, verdict: Verdict) -> Found | None:
        """Return the verdict on gradients of two kinds: a pass if they agree, otherwise `verdict`.

        If a tensor has one user, its only contribution is the accumulated gradient, which equal values show.
        """
        are_tensors = target.kind == golden.kind == "tensor"
        is_open = verdict.cause is Cause.OTHER_GRADIENT and not self._relation.has_other_kernels
        if not is_open or not are_tensors or row < 0 or self.notes.views.get(row) == SUM:
            return verdict, UNKNOWN
        found = self._of_tensors(target, golden, row)
        if found is None:
            self._two_gradients[row] = verdict
            return None
        return found if found[0] else (verdict, UNKNOWN)

    def measured(self, row: int, verdict: Verdict, equal: int) -> Found:
        """Return the verdict on two tensors that were measured; `verdict` is that by their elements."""
        other = self._two_gradients.get(row)
        return (verdict, equal) if other is None or verdict else (other, UNKNOWN)

    def _of_tensors(self, target: Record, golden: Record, row: int) -> Found | None:
        view = self.notes.views.get(row)
        if view is not None:
            target, golden = looked_at(target, golden, view)
        if (verdict := judge_structure(target, golden, self._relation)) is not None:
            # If the shape is unknown, the file could not be read; reading it again reports that.
            is_open = target.shape == golden.shape or None in (target.shape, golden.shape)
            if self._mode == "tensor" and is_open and target.file and golden.file:
                return None
            return verdict, DIFFERENT
        if self._mode == "tensor":
            return self._without_elements(target, golden, view, row)
        if self._mode == "digest" and target.digest and golden.digest and view is None:
            if target.digest == golden.digest:
                return PASS, EQUAL
            if not self._relation.has_other_kernels:
                if not have_same_kind(target.digest, golden.digest):
                    return self._by_two_kinds(target, golden, row)
                return wrong(Reason(Why.DIGESTS, target=target.digest, golden=golden.digest)), DIFFERENT
        if view is not None and not keeps_elements(view):
            return unjudged(Cause.PART, Reason(Why.PART)), UNKNOWN
        return self._by_statistics(target, golden, row if view is None else -1)

    def _not_collected(self, row: int) -> Verdict | None:
        """Return the verdict of a row that is null because a value could not be collected; None if the value is
        None."""
        if not any(self._lost):
            return None
        rows = int(self._pairs.target_rows[row]), int(self._pairs.golden_rows[row])
        sides = [side for side, at, lost in zip(("target", "golden"), rows, self._lost, strict=True) if at in lost]
        if len(sides) == 2:
            return unjudged(Cause.LOST_ON_BOTH_SIDES, Reason(Why.LOST_ON_BOTH_SIDES))
        return unjudged(Cause.NOT_COLLECTED, Reason(Why.LOST, sides[0])) if sides else None

    @cached_property
    def _lost(self) -> tuple[frozenset[int], frozenset[int]]:
        return lost_rows(self.target), lost_rows(self._golden)

    def by_value(self, target: Record, golden: Record, row: int) -> Verdict:
        """Return the verdict on two values that are not both tensors."""
        if not self._relation.has_other_kernels:
            return judge_value(target, golden)
        if row in self.notes.translated:
            value = self.notes.translated[row]
            if self.notes.translates_target:
                target = replace(target, value=value)
            else:
                golden = replace(golden, value=value)
        return judge_value_across(target, golden)

    def of_row(self, row: int) -> Found | None:
        """Return the verdict of a row of the comparison; None if the tensors have to be measured.

        If the golden is another program, most rows have one record, for which no `Pair` is created.
        """
        pairs = self._pairs
        target, golden = int(pairs.target_rows[row]), int(pairs.golden_rows[row])
        if target >= 0 and golden >= 0:
            return self(pairs.pair(row), pairs.name(int(pairs.call_of[row])), row)
        here, dump, at = ("target", self.target, target) if target >= 0 else ("golden", self._golden, golden)
        name = dump.columns.row_name(at, dump.columns.call_of(at))
        return _with_equality(self._without_partner(here, (PARTS[dump.columns.part[at]], ".backward" in name), row))

    def explain(self, row: int) -> Verdict:
        """Return the verdict of a row that does not need measuring."""
        found = self.of_row(row)
        return found[0] if found else PASS

    @cached_property
    def _excesses(self) -> dict[int, tuple[float, str]]:
        """Return the excesses of the rows of tensors that differ and whose statistics are not all plain floats, or
        whose counts differ; measured together, since single rows would take many times as long."""
        pairs = self._pairs
        target, golden = pairs.target.columns, pairs.golden.columns
        both = np.flatnonzero((pairs.target_rows >= 0) & (pairs.golden_rows >= 0))
        t, g = pairs.target_rows[both], pairs.golden_rows[both]
        tensors = (_codes(target.kind)[t] == _TENSOR) & (_codes(golden.kind)[g] == _TENSOR)
        odd = _marked(target.odd, target, t) | _marked(golden.odd, golden, g)
        rows, sides, sizes, standards = [], [], [], []
        for at in np.flatnonzero(tensors & (odd | _counted_otherwise(target, golden, t, g))).tolist():
            ours, theirs = target.statistics(int(t[at])), golden.statistics(int(g[at]))
            if ours is not None and theirs is not None and ours != theirs:
                rows.append(int(both[at]))
                sides.append((ours, theirs))
                sizes.append(math.prod(target.shape(int(t[at])) or ()))
                standards.append(standard_of(golden.dtype(int(g[at]))))
        return dict(zip(rows, excesses_of(sides, sizes, standards, self.same_rounding), strict=True)) if rows else {}

    @cached_property
    def _collected(self) -> dict[str, frozenset[DigestKind]]:
        return {"target": collected(self.target), "golden": collected(self._golden)}

    def _without_partner(self, here: str, kind: DigestKind, row: int) -> Verdict:
        """Return the verdict of a record of this kind that only the side `here` has."""
        if (partnerless := self.notes.partnerless.get(row)) is not None:
            if partnerless.is_wrong:
                return wrong(partnerless.because)
            return unjudged(cause_by_reason(Stage.MATCH)[partnerless.because.why], partnerless.because)
        if kind not in self._collected["golden" if here == "target" else "target"]:
            return unjudged(Cause.NOT_COLLECTED, Reason(Why.KIND_NOT_COLLECTED, here))
        return unjudged(Cause.UNMATCHED, Reason(Why.ONE_SIDE, here))

    def _without_elements(self, target: Record, golden: Record, view: View | None, row: int) -> Found | None:
        """Return None if both tensors were saved; otherwise (`disk_budget` was used up) the verdict by statistics."""
        side = next((side for side, record in (("target", target), ("golden", golden)) if not record.file), None)
        if side is None:
            return None
        if 0 in (target.shape or ()):
            return PASS, EQUAL
        unsaved = Reason(Why.NOT_SAVED, side)
        if view is not None and not keeps_elements(view):
            return unjudged(Cause.PART, Reason(Why.PART), unsaved), UNKNOWN
        verdict, equal = self._by_statistics(target, golden, row if view is None else -1)
        if verdict.grade == "unjudged":
            return unjudged(Cause.NOT_SAVED, unsaved), UNKNOWN
        self.by_statistics.add(row)
        return replace(verdict, reasons=(*(verdict.reasons or (Reason(Why.BY_STATISTICS),)), unsaved)), equal

    def _by_statistics(self, target: Record, golden: Record, row: int) -> Found:
        """Return the verdict by statistics; `row` is -1 for records that are not those of a row."""
        t, g = _statistics_of(target), _statistics_of(golden)
        if self._relation.has_other_kernels and not (t and g) and target.digest and golden.digest:
            return unjudged(Cause.DIGESTS_OF_TWO_FRAMEWORKS, Reason(Why.DIGESTS_OF_TWO)), UNKNOWN
        size = math.prod(target.shape or ())
        if t is None or g is None:
            if size == 0 and target.shape is not None:
                return PASS, EQUAL
            side, record, has_other = ("target", target, g) if t is None else ("golden", golden, t)
            if record.digest and has_other:
                return unjudged(Cause.DIGEST_AGAINST_STATISTICS, Reason(Why.DIGESTS_ONLY, side)), UNKNOWN
            return unjudged(Cause.NO_STATISTICS, Reason(Why.NO_STATISTICS, side)), UNKNOWN
        verdict, equal = self._by_numbers(t, g, size, target, golden, row)
        if verdict and t.is_damaged and g.is_damaged:
            return unjudged(Cause.NO_STATISTICS, Reason(Why.DAMAGED)), UNKNOWN
        return verdict, equal

    def _by_two_kinds(self, target: Record, golden: Record, row: int) -> Found:
        """Return the verdict on two digests that cannot be compared: statistics may show a difference, but not
        equality."""
        kinds = Reason(Why.DIGESTS_OF_TWO_KINDS, target=target.digest, golden=golden.digest)
        verdict, equal = self._by_statistics(target, golden, row)
        if verdict.grade in ("pass", "unjudged"):
            return unjudged(Cause.DIGESTS_OF_TWO_KINDS, kinds), UNKNOWN
        return replace(verdict, reasons=(*verdict.reasons, kinds)), equal

    def _by_numbers(self, t: Statistics, g: Statistics, size: int, target: Record, golden: Record, row: int) -> Found:
        if t == g:
            return PASS, EQUAL
        errors = errors_by_statistics(t, g, target, golden, self._custom) if self._relation.has_other_kernels else None
        if errors is not None:
            return judge_errors(errors), DIFFERENT
        standard = standard_of(golden.dtype)
        excess, which = self._excesses.get(row) or excess_of(t, g, size, standard, self.same_rounding)
        verdict = judge_statistics(excess, which, target, golden, standard)
        is_equal = excess == 0 if self.same_rounding else bool(verdict)
        return verdict, EQUAL if is_equal else DIFFERENT


def content_without_meaning(judge: PairJudge, pair: Pair, call: str, row: int) -> Reason | None:
    """The values of the record are not evidence."""
    record = pair.target
    if record is None or not judge.has_unjudgeable or record.kind != "tensor" or (found := _unjudgeable(call)) is None:
        return None
    is_empty = _shows_nothing(judge.target.columns, judge.numbers[call], record.part, record.path, found)
    return Reason(found.why or Why.PLACEHOLDER, name=found.word) if is_empty else None


def unwritten_memory(judge: PairJudge, pair: Pair, call: str, row: int) -> Reason | None:
    """One of the dumps marks the record as memory that was not written."""
    is_unwritten = any(record is not None and record.type == UNWRITTEN for record in (pair.target, pair.golden))
    return Reason(Why.UNWRITTEN) if is_unwritten else None


def sum_of_parts(judge: PairJudge, pair: Pair, call: str, row: int) -> Reason | None:
    """One side has a bias that is the sum of several of the other side."""
    target, golden = pair.target, pair.golden
    if judge.notes.views.get(row) != SUM or target is None or golden is None:
        return None
    is_comparable = target.kind == golden.kind == "tensor" and judge_gradient(target, golden) is None
    return Reason(Why.SUM_OF_PARTS) if is_comparable else None


def _with_equality(verdict: Verdict) -> Found:
    """Return a verdict from which follows whether the two are equal."""
    return verdict, UNKNOWN if verdict.grade == "unjudged" else EQUAL if verdict else DIFFERENT


def _statistics_of(record: Record) -> Statistics | None:
    """Return the statistics of a tensor; None if it has none, or only null, which cannot be judged."""
    s = record.statistics
    return None if s is None or all(number is None for number in s.numbers) else s
