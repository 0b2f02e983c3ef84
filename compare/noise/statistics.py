"""Judge under noise where only statistics were collected: by identities of each call, and by amplification.

`SummarisedPairs` is `Paired`, and `Summarised` is `Kernels`, by statistics alone: no tensor is read and no call is
executed again.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from statistics import median

import numpy as np

from msprobe.base import names
from msprobe.compare.core.noise import Class, Evidence, Judgement, PrecisionClass, Sign, Unseen, class_of
from msprobe.compare.core.reason import DRIFT
from msprobe.compare.core.standard import canonical
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import DIFFERENT, EQUAL, Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.store.record import PARTS

from .identities import gathered, has_law, identities
from .kernels import Answer, Kernels, has_other_values
from .laws import JOINS, MASKED, SUMS, Apart, LawJudgement, Summaries, Summary, Told, apart, judge_laws
from .operation import (
    ACROSS,
    FINE,
    JUMPING,
    MOST,
    STEEP,
    Amplified,
    Called,
    Change,
    amplified,
    inputs_of,
    is_exact,
    operation_of,
    rounds_inside,
)
from .pairs import Paired

_PASS, _UNJUDGED, _INPUT = GRADES.index("pass"), GRADES.index("unjudged"), PARTS.index("input")

_KEPT = 0.3
"""An output has at least this share of its inputs' element error: its statistics may agree by chance."""

_ADDED_UP = 1e-6
"""Sums in float32 of the same elements differ by no more, as a share of the norm."""

_REORDERED = 1e-12
"""The same in float64, as our own dumps have them."""

_ROUNDING = 5e-6
"""A greater element error is none of a kernel that computes in float32."""

_SPREAD = 5.0
"""So many times the error of a kernel's elements the greatest of four statistics may say."""


class SummarisedPairs(Paired):
    """`Paired` by statistics: the distance of two tensors is the element error that explains their differences."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison)
        views, grades = self.pairs.notes.views, comparison.grades
        self.equal = self.equal.copy()
        # Parts of a fused record, which were judged together.
        self.equal[[row for row, view in views.items() if view.is_part and grades[row] == _PASS]] = EQUAL
        self.sides = tuple(Summaries(graph.columns) for graph in self.graphs)
        self._both: dict[int, tuple[Summary, Summary] | None] = {}
        self._differences: dict[int, Apart | None] = {}
        if self.is_across:
            self.equal[[row for row in np.flatnonzero(self.equal == DIFFERENT).tolist() if self._is_equal(row)]] = EQUAL

    def _is_equal(self, row: int) -> bool:
        """Whether two tensors of two frameworks may be equal to the bit: norm and mean were added up in another order,
        or by another tool."""
        if not self.pairs.are_tensors(row) or not self.is_floating(row):
            return False
        is_by_another = 0 in (self.pairs.target.format_version, self.pairs.golden.format_version)
        if (found := self.apart(row)) is not None:
            return found.extremes == 0 and found.moments <= (_ADDED_UP if is_by_another else _REORDERED)
        if not is_by_another:  # ours count the infinities
            return False
        told = [(graph.columns, int(rows[row])) for graph, rows in zip(self.graphs, self.rows, strict=True)]
        target, golden = ((c.max[at], c.min[at], c.mean[at], c.norm[at]) for c, at in told)
        return target == golden

    def summaries(self, row: int) -> tuple[Summary, Summary] | None:
        """What the two sides tell of a pair of tensors; None where one tells nothing."""
        if row not in self._both:
            t, g = (
                side.of(int(rows[row])) if rows[row] >= 0 else None
                for side, rows in zip(self.sides, self.rows, strict=True)
            )
            self._both[row] = (t, g) if t is not None and g is not None and self._are_alike(row, t, g) else None
        return self._both[row]

    def _are_alike(self, row: int, target: Summary, golden: Summary) -> bool:
        """Whether two tensors are of one shape and dtype; a view of the other layout has as many elements."""
        columns = [graph.columns for graph in self.graphs]
        dtypes = [canonical(c.looks[c.look[int(rows[row])]][1]) for c, rows in zip(columns, self.rows, strict=True)]
        is_viewed = row in self.pairs.notes.views
        return dtypes[0] == dtypes[1] and (target.size == golden.size if is_viewed else target.shape == golden.shape)

    def apart(self, row: int) -> Apart | None:
        """By how much the statistics of a pair of tensors differ."""
        if row not in self._differences:
            found = self.summaries(row)
            self._differences[row] = None if found is None else apart(*found)
        return self._differences[row]

    @property
    def kernel_error(self) -> float:
        """Of two frameworks; what statistics tell of single elements is as coarse as the greatest of four."""
        return _SPREAD * ACROSS if self.is_across else 0.0

    def difference(self, row: int) -> float:
        return self.distance(row) * self.size(row)

    @property
    def has_summaries(self) -> bool:
        """Whether anything that differs has statistics on both sides; digests alone say nothing of noise."""
        return any(self.summaries(row) for row in np.flatnonzero(self.equal == DIFFERENT).tolist())

    def is_sum(self, row: int, made: Sequence[int], rounding: float) -> bool:
        """Whether a tensor is what made it, or the sum of that, as well as on the golden side."""
        whole, parts = self.summaries(row), [self.summaries(at) for at in made]
        if whole is None or None in parts:
            return True
        target, golden = (gathered(whole[side], [part[side] for part in parts if part]) for side in (0, 1))
        told = Told("sum", tuple(zip(target, golden, strict=False)), *whole, True)
        return not any(law.is_broken for law in judge_laws({row: told}).values())

    def has_same_zeros(self, row: int) -> bool:
        """Whether the least and the greatest element are zero on both sides; False where a mask hides the others."""
        found = self.summaries(row)
        if found is None:
            return True
        t, g = found
        return g.greatest <= MASKED and (t.min == 0) == (g.min == 0) and (t.max == 0) == (g.max == 0)

    def _measured(self, row: int) -> float:
        if self.equal[row] == EQUAL or not self.pairs.are_tensors(row) or self.comparison.grades[row] == _UNJUDGED:
            return 0.0
        found = self.apart(row)
        return math.inf if found is None else found.spread


class Summarised(Kernels):
    """`Kernels` by statistics. `laws` has the identity that decided about an output, `amplified` what its call
    amplifies."""

    def __init__(self, paired: SummarisedPairs) -> None:
        self._summaries = paired
        self._spread: dict[int, float] = {}  # of outputs: their element error, or a share of that of the inputs
        self.laws: dict[int, LawJudgement] = {}
        self.amplified: dict[int, Amplified] = {}
        super().__init__(paired, 1, "")

    def _replay(self, workers: int, title: str) -> tuple[dict[int, Answer], dict[int, Answer]]:
        return {}, {}

    def _cross(self, workers: int, title: str) -> dict[int, Answer]:
        return {}

    def _judge_residuals(self) -> dict[int, Judgement]:
        """By row of an output that differs, of innermost calls."""
        changes: dict[int, Change] = {}
        told: dict[int, Told] = {}
        for event in self._with_differing_kin():
            if self._paired.is_across and self._paired.has_lone_inputs(event):
                continue  # another form of the call: what stands behind its inputs decides
            call = Called(self._paired, self._summaries.sides, event)
            if (came := self._what_comes(call)) is None:
                continue
            for row in self._paired.outputs(event):
                if (change := self._change(row, call, *came)) is None:
                    continue
                changes[row] = change
                if self._paired.equal[row] == DIFFERENT and (laws := self._told(row, call)):
                    told[row] = laws
        is_across = self._paired.is_across
        self.amplified = dict(zip(changes, amplified(list(changes.values()), is_across=is_across), strict=True))
        decided = judge_laws(told, is_across=is_across)
        self.laws = {row: law for row, law in decided.items() if self._is_decisive(row, law)}
        found = {row: self._judged(row) for row in changes if self._paired.equal[row] == DIFFERENT}
        # What both sides were told alike they are held against alike: one law, or one amplification.
        told_otherwise = (event for event in self._leaves if has_other_values(self._paired, event))
        self.crossed = set(found).difference(*(event.rows for event in told_otherwise))
        return found

    def _is_decisive(self, row: int, law: LawJudgement) -> bool:
        """Whether a law decides; where only the sum of all elements is kept, these may still differ grossly."""
        return law.is_broken or law.target.law not in SUMS or self.amplified[row].ratio <= MOST

    def _judged(self, row: int) -> Judgement:
        if (law := self.laws.get(row)) is not None:
            is_of = Class.OPAQUE if law.is_broken else Class.FULL
            return Judgement(Sign.LAW if law.is_broken else Sign.NONE, is_of, law.bound)
        one = self.amplified[row]
        return Judgement(Sign.AMPLIFIED if one.is_wrong else Sign.NONE, class_of(one.own), math.nan)

    def _with_differing_kin(self) -> Iterator[Event]:
        """The innermost pairs of calls of those functions of which any output differs."""
        stems = [(names.parse(event.called).stem, event.direction) for event in self._leaves]
        wanted = {stem for stem, event in zip(stems, self._leaves, strict=True) if self.differing(event)}
        yield from (event for stem, event in zip(stems, self._leaves, strict=True) if stem in wanted)

    def _what_comes(self, call: Called) -> tuple[float, float] | None:
        """The greatest difference of norm or mean of a call's inputs, and the greatest element error; None where one is
        not known."""
        inputs = [at for at in call.inputs if self._is_evidence(at)]
        spread = max((self._came(at, call) for at in inputs), default=0.0)
        moments = max((one.moments for at in inputs if (one := self._summaries.apart(at))), default=0.0)
        return (moments, spread) if math.isfinite(spread) else None

    def _change(self, row: int, call: Called, moments: float, spread: float) -> Change | None:
        sides, own = self._summaries.summaries(row), self._summaries.apart(row)
        if sides is None or own is None or not self._is_evidence(row):
            return None
        own = apart(*sides, least=call.added(row))
        kept = spread if sides[1].greatest > MASKED else _KEPT * spread
        self._spread[row] = max(own.spread, kept)
        columns = self._paired.graphs[0].columns
        path = columns.paths[columns.path[int(self._paired.rows[0][row])]]
        kind = call.function, call.is_backward, path[:1]
        unit, is_constant = sides[1].unit, sides[1].is_constant
        return Change(kind, own, moments, spread, unit, call.rounds_inside, is_constant, call.is_exact)

    def _is_evidence(self, row: int) -> bool:
        """Whether a record is a floating tensor that says something."""
        is_floating = self._paired.pairs.are_tensors(row) and self._paired.is_floating(row)
        return is_floating and bool(self._paired.comparison.grades[row] != _UNJUDGED)

    def _came(self, row: int, call: Called) -> float:
        """The element error that came with an input, as it goes through the call.

        What its statistics say, or those of what it was made of. A function of exponentials makes a relative error of
        it that is as large as the input; where a derivative jumps, elements near the jump change altogether.
        """
        found = max(self._paired.distance(row), self._earlier(row))
        if not math.isfinite(found):
            return found
        if call.function in STEEP and (sides := self._summaries.summaries(row)):
            golden = sides[1]
            return found * max(1.0, golden.rms if golden.greatest <= MASKED else abs(golden.max))
        is_of_forward = self._paired.pairs.call_of[row] != call.place
        return math.sqrt(found) if call.function in JUMPING and call.is_backward and is_of_forward else found

    def _earlier(self, row: int) -> float:
        """The element error that the calls before are known to have left in an input."""
        graph, at = self._paired.graphs[0], int(self._paired.rows[0][row])
        if graph.columns.part[at] == _INPUT and graph.names[graph.call_of(at)].direction == "forward":
            kind, one = graph.origin(at)
            made = [one] if kind == "call" else []
        elif graph.columns.part[at] == _INPUT:
            made, _ = graph.contributions(at)
        else:
            return self._spread.get(row, 0.0)
        return max((self._spread.get(int(self._paired.pair_of[0][one]), 0.0) for one in made), default=0.0)

    def _told(self, row: int, call: Called) -> Told | None:
        """What the laws say of an output; None where they say nothing."""
        if not has_law(call.function, call.is_backward):
            return None
        number, both = call.number(row), self._summaries.summaries(row)
        if number < 0 or both is None:
            return None
        target, golden = (identities(seen, number) for seen in call.sides)
        known = {(one.law, one.statistic): one for one in golden}
        pairs = tuple((mine, known[key]) for mine in target if (key := (mine.law, mine.statistic)) in known)
        return Told((call.function, call.is_backward), pairs, *both, call.has_one_output) if pairs else None

    def _find_noise(self) -> bool:
        """As with tensors; or parameters have drifted apart, and whatever is computed from them."""
        reasons = self._paired.comparison.reasons.values()
        return super()._find_noise() or any(reason.why in DRIFT for each in reasons for reason in each)

    def is_side_product(self, row: int, event: Event) -> bool:
        """Which outputs an operation defines, only its replay tells."""
        return False

    def hides_order(self, row: int) -> bool:
        """Statistics do not tell the order of elements."""
        name = names.parse(self._paired.pairs.name(int(self._paired.pairs.call_of[row])))
        known = operation_of(name.stem, name.kind == "cell")
        return name.direction == "forward" and known is not None and known.name in JOINS

    def _is_coarse(self, row: int) -> bool:
        """Whether an output differs as others of its kind do, of which none is equal."""
        one = self.amplified.get(row)
        return one is not None and one.own > FINE and not self.judgements[row].is_wrong

    def _is_tiny_fault(self, row: int, reproducible: int) -> bool:
        judgement = self.judgements.get(row)
        name = names.parse(self._paired.pairs.name(int(self._paired.pairs.call_of[row])))
        is_coarse = self._paired.distance(row) > _ROUNDING and self._are_products_equal
        return (
            judgement is None
            or judgement.is_wrong
            or is_exact(operation_of(name.stem, name.kind == "cell"))
            or is_coarse
        )

    @cached_property
    def _are_products_equal(self) -> bool:
        """Whether any call that rounds inside, where it does, gives the same to the bit from the same inputs."""
        return any(
            rounds_inside(names.parse(event.called).stem, event.kind == "cell")
            and self._has_equal_inputs(event)
            and self._are_equal([row for row in self._paired.outputs(event) if self._is_evidence(row)])
            for event in self._leaves
        )

    def _are_equal(self, rows: Sequence[int]) -> bool:
        return (
            bool(rows) and all(self._paired.equal[r] == EQUAL for r in rows) and not all(map(self._is_constant, rows))
        )

    def evidence(self, row: int, event: Event, judgement: Judgement, came: float, most: float) -> Evidence:
        law, one = self.laws.get(row), self.amplified.get(row)
        return Evidence(
            judgement.sign,
            judgement.is_of,
            math.nan if law is None else law.target.off,
            math.nan if law is None else law.golden.off,
            judgement.bound,
            self._paired.distance(row) if one is None else one.apart,
            most * came if one is None else one.limit * one.explained,
            law="" if law is None else law.target.law.value,
            statistic="" if law is None else law.target.statistic,
            is_by_statistics=True,
        )

    def floor(self, row: int) -> float:
        found = self._summaries.summaries(row)
        return max(10 * (found[1].unit if found else 2.0**-23), self._coarsest)

    @cached_property
    def _coarsest(self) -> float:
        return _SPREAD * max((one.own for one in self.amplified.values()), default=0.0)

    def _has_equal_inputs(self, event: Event) -> bool:
        return super()._has_equal_inputs(event) and not any(map(self._is_masked, inputs_of(self._paired, event)))

    def _is_masked(self, row: int) -> bool:
        found = self._summaries.summaries(row)
        return found is not None and found[1].greatest > MASKED

    def unseen(self, noise: Sequence[int]) -> Unseen | None:
        hidden = [
            one.limit * one.explained for row in noise if row not in self.laws and (one := self.amplified.get(row))
        ]
        return Unseen(median(hidden) if hidden else math.nan, len(hidden), sum(row in self.laws for row in noise))

    def classes(self) -> Iterable[PrecisionClass]:
        return ()
