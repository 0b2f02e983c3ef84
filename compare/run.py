"""The pipeline: match, measure, judge. Two dumps in, judged calls out."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from msprobe.base.errors import DumpError
from msprobe.store.read import load_tensor
from msprobe.store.record import Dump, Record

from . import judge, measure_statistics
from .judge import PASS, Grade, Verdict, unjudged
from .match import CallPair, Pair, match
from .measured import Measures
from .standard import standard_of

Mode = Literal["tensor", "statistics", "digest"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair and what was found. `equal` says whether the two are the same to the bit; None where that is not known.

    In tensor mode that means the elements, in digest mode the digests, in statistics mode all four statistics.
    """

    pair: Pair
    verdict: Verdict
    equal: bool | None
    measures: Measures | None = None


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A pair of calls with its judged pairs, in row order."""

    calls: CallPair
    judged: tuple[Judged, ...]

    @property
    def name(self) -> str:
        """The name that a user knows."""
        return self.calls.name


@dataclass(frozen=True)
class Comparison:
    """Everything that was found between two dumps, in execution order of the target."""

    target: Dump
    golden: Dump
    mode: Mode
    calls: tuple[JudgedCall, ...]
    unreadable: int = 0
    counts: Counter[Grade] = field(default_factory=Counter)

    @property
    def is_clean(self) -> bool:
        """Whether at least one pair was judged, all judged pairs pass, and nothing was unreadable or left unmatched."""
        if not self.counts["pass"] or self.counts["warning"] or self.counts["error"] or self.unreadable:
            return False
        return all(c.calls.target and c.calls.golden and all(map(_is_whole, c.calls.pairs)) for c in self.calls)


def compare(target: Dump, golden: Dump) -> Comparison:
    """Match the two dumps and judge every pair. A difference is a verdict, never an exception."""
    mode = mode_of(target, golden)
    judge_pair = _Judge(target, golden, mode)
    calls = tuple(JudgedCall(pair, tuple(map(judge_pair, pair.pairs))) for pair in match(target, golden))
    counts = Counter(judged.verdict.grade for call in calls for judged in call.judged)
    return Comparison(target, golden, mode, calls, judge_pair.unreadable, counts)


def mode_of(target: Dump, golden: Dump) -> Mode:
    """What both sides hold: elements, else digests, else statistics."""
    if target.task == golden.task == "tensor":
        return "tensor"
    if all(any(r.digest for r in _tensors(dump)) for dump in (target, golden)):
        return "digest"
    return "statistics"


def _tensors(dump: Dump) -> Iterator[Record]:
    return (record for call in dump.calls for record in call.records if record.kind == "tensor")


class _Judge:
    """Judges pair after pair of one comparison; counts the tensors that could not be read."""

    def __init__(self, target: Dump, golden: Dump, mode: Mode) -> None:
        self._target, self._golden, self._mode = target, golden, mode
        self._across = target.framework != golden.framework
        # Two tools, or two frameworks, do not round mean and norm alike; there equality to the bit says nothing.
        self._same_rounding = target.format_version == golden.format_version and not self._across
        self._collected = {"target": collected(target), "golden": collected(golden)}
        self.unreadable = 0

    def __call__(self, pair: Pair) -> Judged:
        target, golden = pair.target, pair.golden
        if target is None or golden is None:
            return Judged(pair, self._without_partner(pair), None)
        if target.kind != "tensor" or golden.kind != "tensor":
            if (verdict := judge.judge_gradient(target, golden)) is not None:
                return Judged(pair, verdict, None)
            verdict = judge.judge_value(target, golden)
            return Judged(pair, verdict, bool(verdict))
        if (verdict := judge.judge_gradient(target, golden)) is not None:
            return Judged(pair, verdict, None)
        if (verdict := judge.judge_structure(target, golden, self._across)) is not None:
            if self._mode == "tensor" and target.shape == golden.shape and target.file and golden.file:
                return self._by_elements(pair, target, golden, verdict)
            return Judged(pair, verdict, False)
        if self._mode == "tensor":
            return self._by_elements(pair, target, golden, None)
        if self._mode == "digest" and target.digest and golden.digest:
            verdict = judge.judge_digests(target, golden)
            return Judged(pair, verdict, bool(verdict))
        return self._by_statistics(pair, target, golden)

    def _without_partner(self, pair: Pair) -> Verdict:
        here, there = ("target", "golden") if pair.target else ("golden", "target")
        if kind_of(pair.record) not in self._collected[there]:
            return unjudged(f"Stands on the {here} side only: nothing of this kind was collected on the {there} side.")
        return unjudged(f"Stands on the {here} side only.")

    def _by_statistics(self, pair: Pair, target: Record, golden: Record) -> Judged:
        t, g = target.statistics, golden.statistics
        size = math.prod(target.shape or ())
        if t is None or g is None:
            if size == 0 and target.shape is not None:
                return Judged(pair, PASS, True)
            side = "target" if t is None else "golden"
            return Judged(pair, unjudged(f"No statistics on the {side} side."), None)
        if t == g:
            return Judged(pair, PASS, True)
        standard = standard_of(golden.dtype)
        excess, which = measure_statistics.excess(t, g, size, standard)
        verdict = judge.judge_statistics(excess, which, target, golden, standard)
        equal = excess == 0 if self._same_rounding else bool(verdict)
        return Judged(pair, verdict, equal)

    def _by_elements(self, pair: Pair, target: Record, golden: Record, found: Verdict | None) -> Judged:
        """Judge by the two files; `found` is what shape and dtype already decided."""
        from .measure import measure  # here: statistics alone are compared without numpy, whose import takes 0.2 s

        for side, record in (("target", target), ("golden", golden)):
            if not record.file:
                if 0 in (record.shape or ()):
                    return Judged(pair, PASS, True)
                return Judged(pair, unjudged(f"No tensor was saved on the {side} side."), None)
        try:
            t, g = load_tensor(self._target, target), load_tensor(self._golden, golden)
        except DumpError as err:
            self.unreadable += 1
            return Judged(pair, unjudged(f"Not readable: {err}."), None)
        if t.shape != g.shape:
            return Judged(
                pair, Verdict("error", f"Shapes of the files differ: {list(t.shape)}, golden {list(g.shape)}."), False
            )
        standard = standard_of(golden.dtype)
        measures = measure(t, g, standard)
        verdict = judge.judge_measures(measures, standard, t.shape) if found is None else found
        # Across frameworks one value may be stored in two widths; equal numbers are equal there.
        equal = measures.equal or (self._across and measures.excess == 0 and not measures.beyond)
        return Judged(pair, verdict, equal and found is None, measures)


def _is_whole(pair: Pair) -> bool:
    return pair.target is not None and pair.golden is not None


def collected(dump: Dump) -> set[tuple[str, bool]]:
    """Which kinds of records a dump holds at all; `data_mode` leaves whole kinds out."""
    return {kind_of(record) for call in dump.calls for record in call.records}


def kind_of(record: Record) -> tuple[str, bool]:
    """The part of a call that a record is, and whether it is of a backward call."""
    return record.part, ".backward" in record.name
