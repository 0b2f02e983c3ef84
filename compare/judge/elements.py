"""Verdicts from the elements of tensors: which files are measured, and in which layout."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from msprobe.base.errors import DumpError, MappingError
from msprobe.base.log import logger
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.core.standard import standard_of
from msprobe.compare.match.pairs import Pair, Pairs, View, call_of_row
from msprobe.compare.measure.files import Effort, Files, Outcome, measure_all
from msprobe.mapping.transform import parse
from msprobe.store.reader import tensor_path
from msprobe.store.record import Dump, Record

from .cross_framework import errors_by_elements, judge_errors, widths_are_custom
from .judged import DIFFERENT, EQUAL, UNKNOWN
from .verdict import Cause, Verdict, judge_measures, judge_structure, unjudged, wrong

_PARTS = frozenset({"slice", "split", "concat"})


def refuse_misfits(target: Dump, rows: Mapping[int, tuple[int, str]]) -> None:
    """MappingError where a transform that the user declared for a row of the target cannot be done to what it holds.

    `rows`: golden row and transform by target row.
    """
    for row, (_, text) in rows.items():
        if not text:
            continue
        call = call_of_row(target, row)
        record = target.columns.record(row, call)
        where = f"data mapping: {record.name}"
        if record.kind != "tensor" or record.shape is None:
            raise MappingError(f"{where}: transform {text!r} is given to what is no tensor; leave it out")
        try:
            parse(text).shape(record.shape)
        except (MappingError, ValueError) as err:
            said = str(err) if isinstance(err, MappingError) else f"transform {text!r}: {err}; correct the transform"
            raise MappingError(f"{where}, of shape {list(record.shape)}: {said}") from err


def keeps_elements(view: View) -> bool:
    """Whether a view only moves elements, which leaves statistics as they are."""
    return all(
        transform.is_layout and not any(step.name in _PARTS for step in transform.steps)
        for transform in map(parse, (view.target, view.golden))
    )


def looked_at(target: Record, golden: Record, view: View) -> tuple[Record, Record]:
    """The two records with their shapes after the view; as they are where it cannot be done to them."""
    return _shaped(target, view.target), _shaped(golden, view.golden)


def _shaped(record: Record, text: str) -> Record:
    if not text or record.shape is None:
        return record
    try:
        return replace(record, shape=parse(text).shape(record.shape))
    except (MappingError, ValueError):  # a tensor of another shape than the layer's, which the shapes then say
        return record


@dataclass
class Elements:
    """The pairs of one comparison whose tensors are to be measured; tells of those that could not be read."""

    pairs: Pairs
    across: bool
    are_two_frameworks: bool = False
    unreadable: int = 0
    _rows: list[int] = field(default_factory=list)
    _files: list[Files] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _looks: list[Verdict | None] = field(default_factory=list)
    _outside: dict[int, str] = field(default_factory=dict)
    _first_failure: str = ""

    @cached_property
    def _custom(self) -> bool:
        return widths_are_custom(self.pairs)

    def add(self, row: int, pair: Pair) -> None:
        """Enter a pair of tensors with files on both sides."""
        target, golden = pair.target, pair.golden
        assert target is not None
        assert golden is not None
        view = self.pairs.notes.views.get(row, View())
        try:
            files = Files(
                str(tensor_path(self.pairs.target, target)),
                str(tensor_path(self.pairs.golden, golden)),
                golden.dtype,
                (not self.pairs.target.tensors, not self.pairs.golden.tensors),
                target.statistics is None or golden.statistics is None,
                (view.target, view.golden),
            )
        except DumpError as err:
            self._outside[row] = str(err)
            return
        self._rows.append(row)
        self._files.append(files)
        self._sizes.append(_size(golden))
        is_known = target.shape is not None and golden.shape is not None
        self._looks.append(judge_structure(*looked_at(target, golden, view), self.across) if is_known else None)

    def judged(self, effort: Effort) -> Iterator[tuple[int, Verdict, int, Outcome]]:
        """Row, verdict, equality and outcome of every pair that was entered."""
        for row, failure in self._outside.items():
            yield row, self._unread(failure), UNKNOWN, Outcome(failure=failure)
        outcomes = measure_all(self._files, self._sizes, effort)
        for row, files, look, outcome in zip(self._rows, self._files, self._looks, outcomes, strict=True):
            yield row, *self._judge(row, files, look, outcome), outcome
        if self.unreadable:
            several = "tensors" if self.unreadable > 1 else "tensor"
            logger.warning("%d %s without a verdict: not readable: %s", self.unreadable, several, self._first_failure)

    def _unread(self, failure: str) -> Verdict:
        self.unreadable += 1
        self._first_failure = self._first_failure or failure
        return unjudged(Cause.UNREADABLE, Reason(Why.UNREADABLE, name=failure.rstrip(".")))

    def _judge(self, row: int, files: Files, look: Verdict | None, outcome: Outcome) -> tuple[Verdict, int]:
        """The verdict by two files; `look` is what shape and dtype already decided."""
        if outcome.failure:
            return self._unread(outcome.failure), UNKNOWN
        measures = outcome.measures
        if measures is None:
            target, golden = outcome.shapes
            return wrong(Reason(Why.SHAPES_OF_FILES, target=target, golden=golden)), DIFFERENT
        if look is not None:
            return look, DIFFERENT
        if self.are_two_frameworks:
            pair = self.pairs.pair(row)
            assert pair.target is not None
            assert pair.golden is not None
            if (errors := errors_by_elements(measures, pair.target, pair.golden, self._custom)) is not None:
                return judge_errors(errors), EQUAL if measures.excess == 0 and not measures.beyond else DIFFERENT
        verdict = judge_measures(measures, standard_of(files.dtype), outcome.shapes[0])
        # Across frameworks one value may be stored in two widths; equal numbers are equal there.
        is_equal = measures.equal or (self.across and measures.excess == 0 and not measures.beyond)
        return verdict, EQUAL if is_equal else DIFFERENT


def _size(record: Record) -> int:
    return math.prod(record.shape or ()) * 4
