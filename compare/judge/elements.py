"""Tensors by their elements: which files are to be measured, and the verdicts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from msprobe.base.errors import DumpError
from msprobe.base.log import logger
from msprobe.compare.match.pairs import Pair, Pairs, View
from msprobe.compare.measure.files import Effort, Files, Outcome, measure_all
from msprobe.compare.reason import Reason, Why
from msprobe.store.read import tensor_path
from msprobe.store.record import Record

from .across import errors_by_elements, judge_errors, widths_are_custom
from .judged import DIFFERENT, EQUAL, UNKNOWN
from .layout import looked_at
from .standard import standard_of
from .verdict import Cause, Verdict, judge_measures, judge_structure, unjudged, wrong


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
