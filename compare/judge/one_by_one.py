"""The verdict of one pair of records: what the columns of `columns.py` cannot say, and every reason."""

import math
from functools import cached_property

import numpy as np

from msprobe.compare.match.pairs import Pair
from msprobe.compare.measure.statistics import excess as excess_of
from msprobe.store.columns import PARTS
from msprobe.store.record import Dump, Record, Statistics

from .judged import DIFFERENT, EQUAL, UNKNOWN, Mode
from .op_family import has_any, unjudged_reason
from .standard import standard_of
from .verdict import (
    PASS,
    Verdict,
    judge_digests,
    judge_gradient,
    judge_statistics,
    judge_structure,
    judge_value,
    unjudged,
)

Found = tuple[Verdict, int]
"""A verdict, and whether the two are equal to the bit: `EQUAL`, `DIFFERENT` or `UNKNOWN`."""

Kind = tuple[str, bool]
"""The part of a call that a record is, and whether it is of a backward call."""


class OneByOne:
    """Judges pairs of one comparison."""

    def __init__(self, target: Dump, golden: Dump, mode: Mode) -> None:
        self._target, self._golden, self._mode = target, golden, mode
        self.across = target.framework != golden.framework
        # Two tools, or two frameworks, do not round mean and norm alike; there equality to the bit says nothing.
        self.same_rounding = target.format_version == golden.format_version and not self.across
        self.has_families = has_any(target.columns.names)

    def __call__(self, pair: Pair, call: str) -> Found | None:
        """The verdict on a record of the pair of calls `call`; None where the tensors have to be measured."""
        target, golden = pair.target, pair.golden
        if target is None or golden is None:
            return self._without_partner(pair), UNKNOWN
        if self.has_families and target.kind == "tensor" and (reason := unjudged_reason(call, target.part)):
            return unjudged(reason), UNKNOWN
        if (verdict := judge_gradient(target, golden)) is not None:
            return verdict, UNKNOWN
        if target.kind != "tensor" or golden.kind != "tensor":
            verdict = judge_value(target, golden)
            return verdict, EQUAL if verdict else DIFFERENT
        if (verdict := judge_structure(target, golden, self.across)) is not None:
            if self._mode == "tensor" and target.shape == golden.shape and target.file and golden.file:
                return None
            return verdict, DIFFERENT
        if self._mode == "tensor":
            return self._without_elements(target, golden)
        if self._mode == "digest" and target.digest and golden.digest:
            verdict = judge_digests(target, golden)
            return verdict, EQUAL if verdict else DIFFERENT
        return self._by_statistics(target, golden)

    def explain(self, pair: Pair, call: str) -> Verdict:
        """The verdict of a pair that needs no measuring."""
        found = self(pair, call)
        return found[0] if found else PASS

    @cached_property
    def _collected(self) -> dict[str, frozenset[Kind]]:
        return {"target": collected(self._target), "golden": collected(self._golden)}

    def _without_partner(self, pair: Pair) -> Verdict:
        here, there = ("target", "golden") if pair.target else ("golden", "target")
        if kind_of(pair.record) not in self._collected[there]:
            return unjudged(f"Stands on the {here} side only: nothing of this kind was collected on the {there} side.")
        return unjudged(f"Stands on the {here} side only.")

    def _without_elements(self, target: Record, golden: Record) -> Found | None:
        for side, record in (("target", target), ("golden", golden)):
            if not record.file:
                if 0 in (record.shape or ()):
                    return PASS, EQUAL
                return unjudged(f"No tensor was saved on the {side} side."), UNKNOWN
        return None

    def _by_statistics(self, target: Record, golden: Record) -> Found:
        t, g = _told(target), _told(golden)
        size = math.prod(target.shape or ())
        if t is None or g is None:
            if size == 0 and target.shape is not None:
                return PASS, EQUAL
            side = "target" if t is None else "golden"
            return unjudged(f"No statistics on the {side} side."), UNKNOWN
        if t == g:
            return PASS, EQUAL
        standard = standard_of(golden.dtype)
        excess, which = excess_of(t, g, size, standard, self.same_rounding)
        verdict = judge_statistics(excess, which, target, golden, standard)
        is_equal = excess == 0 if self.same_rounding else bool(verdict)
        return verdict, EQUAL if is_equal else DIFFERENT


def _told(record: Record) -> Statistics | None:
    """The statistics of a tensor; four times nothing is none: of it nothing can be judged."""
    s = record.statistics
    return None if s is None or s.max is s.min is s.mean is s.norm is None else s


def collected(dump: Dump) -> frozenset[Kind]:
    """Which kinds of records a dump holds at all; `data_mode` leaves whole kinds out."""
    columns = dump.columns
    is_backward = np.repeat([".backward" in name for name in columns.names], np.diff(columns.starts))
    codes = np.unique(np.frombuffer(columns.part, np.uint8) * 2 + is_backward.astype(np.uint8))
    return frozenset((PARTS[code // 2], bool(code % 2)) for code in codes.tolist())


def kind_of(record: Record) -> Kind:
    """The part of a call that a record is, and whether it is of a backward call."""
    return record.part, ".backward" in record.name
