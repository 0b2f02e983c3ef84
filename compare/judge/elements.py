"""Verdicts from the elements of tensors: which files are measured, and in which layout."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from msprobe.base.errors import DumpError, MappingError
from msprobe.base.log import logger
from msprobe.compare.core.reason import Cause, Reason, Why
from msprobe.compare.core.standard import standard_of
from msprobe.compare.match.pairs import Pair, Pairs, View
from msprobe.compare.measure.files import Effort, Files, Outcome, measure_all
from msprobe.mapping.transform import parse
from msprobe.store.reader import tensor_path
from msprobe.store.record import Dump, Record

from .cross_framework import errors_by_elements, judge_errors, widths_are_custom
from .judged import DIFFERENT, EQUAL, UNKNOWN
from .verdict import Verdict, judge_measures, judge_structure, unjudged, wrong

_PARTS = frozenset({"slice", "split", "concat"})


def refuse_misfits(target: Dump, rows: Mapping[int, tuple[int, str]]) -> None:
    """Raise a MappingError if a transform that the user declared for a row of the target does not fit its record."""
    for row, (_, text) in rows.items():
        if not text:
            continue
        call = target.columns.call_of(row)
        record = target.columns.record(row, call)
        where = f"data mapping: {record.name}"
        if record.kind != "tensor" or record.shape is None:
            raise MappingError(f"{where}: transform {text!r} is applied to a value that is not a tensor; remove it")
        try:
            parse(text).shape(record.shape)
        except (MappingError, ValueError) as err:
            message = str(err) if isinstance(err, MappingError) else f"transform {text!r}: {err}; correct the transform"
            raise MappingError(f"{where}, of shape {list(record.shape)}: {message}") from err


def keeps_elements(view: View) -> bool:
    """Return whether a view only moves elements, so that statistics do not change."""
    return all(
        transform.is_layout and not any(step.name in _PARTS for step in transform.steps)
        for transform in map(parse, (view.target, view.golden))
    )


def looked_at(target: Record, golden: Record, view: View) -> tuple[Record, Record]:
    """Return the two records with their shapes after the view, unchanged if the view does not fit them."""
    return _shaped(target, view.target), _shaped(golden, view.golden)


def _shaped(record: Record, text: str) -> Record:
    if not text or record.shape is None:
        return record
    try:
        return replace(record, shape=parse(text).shape(record.shape))
    except (MappingError, ValueError):  # the tensor has another shape than the layer; comparing shapes finds that
        return record


@dataclass(frozen=True, slots=True)
class _Entry:
    """Two files to be measured; `look` is the verdict if shape and dtype already decide."""

    row: int
    files: Files
    size: int
    look: Verdict | None


def files_of(pairs: Pairs, row: int, target: Record, golden: Record) -> Files:
    """Return the files of a pair of tensors; raise a DumpError if one is outside its dump."""
    dumps = pairs.target, pairs.golden
    view = pairs.notes.views.get(row, View())
    return Files(
        str(tensor_path(dumps[0], target)),
        str(tensor_path(dumps[1], golden)),
        golden.dtype,
        (not dumps[0].tensors, not dumps[1].tensors),
        target.statistics is None or golden.statistics is None,
        (view.target, view.golden),
    )


class Elements:
    """The pairs of one comparison whose tensors have to be measured; the number of unreadable ones is logged."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs, self._relation = pairs, pairs.relation
        self._entries: list[_Entry] = []
        self._outside: dict[int, str] = {}
        self._failures: list[str] = []

    @cached_property
    def _custom(self) -> bool:
        return widths_are_custom(self._pairs)

    def add(self, row: int, pair: Pair) -> None:
        """Add a pair of tensors with files on both sides."""
        target, golden = pair.target, pair.golden
        assert target is not None
        assert golden is not None
        view = self._pairs.notes.views.get(row, View())
        try:
            files = files_of(self._pairs, row, target, golden)
        except DumpError as err:
            self._outside[row] = str(err)
            return
        is_known = target.shape is not None and golden.shape is not None
        look = judge_structure(*looked_at(target, golden, view), self._relation) if is_known else None
        self._entries.append(_Entry(row, files, math.prod(golden.shape or ()) * 4, look))

    def judged(self, effort: Effort) -> Iterator[tuple[int, Verdict, int, Outcome]]:
        """Yield row, verdict, equality and outcome of every pair that was added."""
        for row, failure in self._outside.items():
            yield row, self._unread(failure), UNKNOWN, Outcome(failure=failure)
        outcomes = measure_all([e.files for e in self._entries], [e.size for e in self._entries], effort)
        for entry, outcome in zip(self._entries, outcomes, strict=True):
            yield entry.row, *self._judge(entry, outcome), outcome
        if self._failures:
            several = "tensors" if len(self._failures) > 1 else "tensor"
            logger.warning("%d %s without a verdict: not readable: %s", len(self._failures), several, self._failures[0])

    def _unread(self, failure: str) -> Verdict:
        self._failures.append(failure)
        return unjudged(Cause.UNREADABLE, Reason(Why.UNREADABLE, name=failure.rstrip(".")))

    def _judge(self, entry: _Entry, outcome: Outcome) -> tuple[Verdict, int]:
        if outcome.failure:
            return self._unread(outcome.failure), UNKNOWN
        measures = outcome.measures
        if measures is None:
            target, golden = outcome.shapes
            return wrong(Reason(Why.SHAPES_OF_FILES, target=target, golden=golden)), DIFFERENT
        if entry.look is not None:
            return entry.look, DIFFERENT
        # Two frameworks may store one value in two widths; equal numbers are equal then.
        are_equal_numbers = measures.excess == 0 and not measures.beyond
        if self._relation.has_other_kernels:
            pair = self._pairs.pair(entry.row)
            assert pair.target is not None
            assert pair.golden is not None
            if (errors := errors_by_elements(measures, pair.target, pair.golden, self._custom)) is not None:
                return judge_errors(errors), EQUAL if are_equal_numbers else DIFFERENT
        verdict = judge_measures(measures, standard_of(entry.files.dtype), outcome.shapes[0])
        is_equal = measures.equal or (not self._relation.is_one_framework and are_equal_numbers)
        return verdict, EQUAL if is_equal else DIFFERENT
