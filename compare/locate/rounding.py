"""Across frameworks: what rounding explains, and which calls are merely written differently.

Kernels of two frameworks never agree to the bit, so a difference begins where a call's results are further apart than
its givens and the rounding of one kernel explain; and what grew slowly, each step explained by the one before, began
nowhere. So every result of a call is held against the greatest error of what it was computed from: its givens, and
whatever ran inside it. By statistics the errors of givens are those of single elements: norms and means average
rounding out, and what a reduction adds up is not averaged any more.

| the errors of a result | verdict |
|---|---|
| beyond `AMPLIFIED` times those, and beyond one kernel's rounding | `warning` at least |
| beyond the tolerance, but not beyond those of its givens, which all pass | `pass` up to `SLOWLY` times the tolerance |
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from msprobe.base import names
from msprobe.compare.judge.across import (
    Errors,
    combined,
    errors_by_elements,
    errors_by_statistics,
    judge_errors,
    widths_are_custom,
)
from msprobe.compare.judge.judged import EQUAL, NO_CAUSE, UNKNOWN, Comparison
from msprobe.compare.judge.layout import looked_at
from msprobe.compare.judge.verdict import CAUSES, GRADES, Cause, Verdict, unjudged
from msprobe.compare.match.item import tells_inner_nodes
from msprobe.compare.match.pairs import Alone
from msprobe.compare.match.shared import groups
from msprobe.compare.reason import Reason, Why
from msprobe.compare.workers.progress import shown
from msprobe.store.columns import PARTS

from .ends import ends_elsewhere, gradients_elsewhere, shells
from .events import Event, events
from .handed import Handed
from .untold import means_the_same
from .written import explained

AMPLIFIED = 10.0
"""A kernel that is well conditioned makes errors a few times greater; this leaves room."""

SLOWLY = 100.0

_PASS, _WARNING, _ERROR, _UNJUDGED = (GRADES.index(grade) for grade in ("pass", "warning", "error", "unjudged"))

_EXPONENTIAL = frozenset(
    [
        "softmax",
        "log_softmax",
        "logsumexp",
        "exp",
        "cross_entropy",
        "nll_loss",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "pow",
        "Softmax",
        "LogSoftmax",
        "Exp",
        "Sin",
        "Cos",
        "Pow",
        "SoftmaxCrossEntropyWithLogits",
        "CrossEntropyLoss",
    ]
)
"""Their results follow the absolute error of what they are given: the share of 50 is 50 times that of 1."""


_INNER_NODE = unjudged(Cause.INNER_NODE, Reason(Why.INNER_NODE))


def weigh(comparison: Comparison, *, is_shown: bool = False) -> Comparison:
    """The comparison with verdicts that know where errors come from, and with what is merely written differently.

    `is_shown` as in `msprobe.compare.run.compare`.
    """
    found = _Weighing(comparison, is_shown)
    notes = comparison.pairs.notes
    notes = replace(notes, alone={**notes.alone, **{row: Alone(said) for row, said in found.elsewhere.items()}})
    pairs = replace(comparison.pairs, notes=notes)
    columns = {"grades": found.grades, "causes": found.causes, "equal": found.equal}
    weighed = replace(comparison, pairs=pairs, reasons=found.reasons, **columns)  # type: ignore[arg-type]  # arrays
    alone = shells(weighed, found.events) | explained(weighed, found.events)
    guesses = comparison.pairs.notes.guesses
    starts = comparison.pairs.starts
    for event in found.events:
        guess = guesses.get(event.place)
        reason = alone.get(event.place) or (guess.because if guess else None)
        if event.is_matched or reason is None:
            continue
        if event.place in alone:
            found.causes[starts[event.place] : starts[event.place + 1]] = CAUSES.index(Cause.NO_COUNTERPART)
        found.reasons.update(dict.fromkeys(range(starts[event.place], starts[event.place + 1]), (reason,)))
    return replace(weighed, explained=alone)


class _Weighing:
    def __init__(self, comparison: Comparison, is_shown: bool) -> None:
        self._comparison = comparison
        self.grades, self.causes, self.equal = (
            column.copy() for column in (comparison.grades, comparison.causes, comparison.equal)
        )
        self.reasons = dict(comparison.reasons)
        self.events = events(comparison)
        self._custom = widths_are_custom(comparison.pairs)
        self._judge_parts()
        self.elsewhere = ends_elsewhere(comparison, self.events)
        gradients = gradients_elsewhere(comparison, self.events, self.elsewhere)
        for row, said in (self.elsewhere | gradients).items():
            self._enter(row, unjudged(Cause.NO_COUNTERPART, said))
        for row, verdict in means_the_same(comparison, self.events).items():
            self._enter(row, verdict)
        self._known: dict[int, Errors | None] = {}
        self._handed = Handed(comparison)
        self._inside: dict[str, float] = {}  # a cell -> the greatest error of what ran in it so far
        self._so_far = self._drift()
        self._has_begun = False
        self._tells_inner_nodes = any(map(tells_inner_nodes, (comparison.target, comparison.golden)))
        for event in shown(self.events, "weighing calls") if is_shown else self.events:
            if event.is_matched:
                self._weigh(event)

    def _drift(self) -> float:
        """The greatest error of a parameter that passes: of all that is there before the first call."""
        target = self._comparison.pairs.target
        rows = self._comparison.pairs.target_rows
        parts = np.frombuffer(target.columns.part, np.uint8)[rows]
        chosen = np.flatnonzero((rows >= 0) & (parts == PARTS.index("parameters")) & (self.grades == _PASS))
        return max((self._single(row) for row in chosen.tolist()), default=0.0)

    # One result against its givens.

    def _weigh(self, event: Event) -> None:
        starts = self._comparison.pairs.starts
        is_given = self._comparison.is_given
        own = [row for p in event.owners or (event.place,) for row in range(starts[p], starts[p + 1]) if is_given[row]]
        before = [row for p in event.forwards for row in range(starts[p], starts[p + 1])]
        results = [row for row in event.rows if not is_given[row]]
        givens = [*own, *before]
        for row in own:
            self._pass_on(row)
        sources = own if event.direction == "backward" and own else givens
        known = [row for row in givens if self._errors(row) is not None]
        # Where nothing that it was given could be compared, anything before may have been.
        came = max((self._single(row) for row in known), default=self._so_far)
        came = max(came, self._inside.get(event.key, 0.0))
        # Once something differs, what a call was given that could not be compared may be it.
        is_blind = self._has_begun and not known
        are_good = not is_blind and all(self.grades[row] in (_PASS, _UNJUDGED) for row in givens)
        condition = self._condition(event, own)
        is_inner = self._tells_inner_nodes and event.kind == "api" and event.direction == "backward"
        for row in results:
            if (errors := self._errors(row)) is not None:
                scale, rms = self._scales(sources, errors.size)
                verdict = self._verdict(errors, came * condition, scale, rms, are_good)
                is_lost = is_inner and not verdict
                self._enter(row, _INNER_NODE if is_lost else verdict)
            elif is_inner and self.grades[row] in (_WARNING, _ERROR):
                self._enter(row, _INNER_NODE)
        self._has_begun = self._has_begun or any(self.grades[row] in (_WARNING, _ERROR) for row in event.rows)
        reached = max((self._single(row) for row in event.rows), default=0.0)
        self._so_far = max(self._so_far, reached)
        for key in event.keys:
            self._inside[key] = max(self._inside.get(key, 0.0), reached)

    def _pass_on(self, row: int) -> None:
        """A given is a result that was made before: what rounding explained there it explains here."""
        if (errors := self._errors(row)) is None:
            return
        if (result := self._handed.of(row)) >= 0 and self.grades[result] != _UNJUDGED:
            self._enter(row, Verdict(GRADES[self.grades[result]], self.reasons.get(result, ())))
            return
        if self.grades[row] not in (_WARNING, _ERROR):
            return
        is_known = errors.fine() <= AMPLIFIED * self._so_far
        if is_known and errors.worst() <= SLOWLY * errors.rounding.tolerance and not self._has_begun:
            self._enter(row, Verdict("pass"))

    def _verdict(self, errors: Errors, came: float, scale: float, rms: float, are_good: bool) -> Verdict:
        verdict = judge_errors(errors, scale)
        # What cancels out keeps the rounding of what it was computed from.
        fine, tolerance = errors.fine(rms / 4), errors.rounding.tolerance
        is_beyond = fine > max(errors.rounding.kernel, AMPLIFIED * came)
        if not is_beyond and are_good and verdict.grade != "pass" and errors.worst(scale) <= SLOWLY * tolerance:
            verdict = Verdict("pass")
        elif verdict and is_beyond and are_good:
            verdict = Verdict("warning", (Reason(Why.AMPLIFIED, amount=fine, allowed=came),))
        return verdict

    def _enter(self, row: int, verdict: Verdict) -> None:
        self.grades[row] = GRADES.index(verdict.grade)
        self.causes[row] = NO_CAUSE if verdict.cause is None else CAUSES.index(verdict.cause)
        if verdict.reasons:
            self.reasons[row] = verdict.reasons
        else:
            self.reasons.pop(row, None)

    def _scales(self, rows: Iterable[int], size: int = 0) -> tuple[float, float]:
        """The greatest scales of what a call was given: of single elements, and root mean square.

        What is added up to a smaller result of `size` elements leaves the rounding of that many.
        """
        found = [(e, math.sqrt(max(1.0, e.size / size)) if size else 1.0) for r in rows if (e := self._errors(r))]
        return max((e.greatest * n for e, n in found), default=0.0), max((e.rms * n for e, n in found), default=0.0)

    def _condition(self, event: Event, rows: Sequence[int]) -> float:
        """How much more than their share the errors of an operation's givens may grow."""
        name = names.parse(event.called)
        if name.stem.rpartition(".")[2] not in _EXPONENTIAL:
            return 1.0
        return max(1.0, min(self._scales(rows)[0], 1000.0))

    def _single(self, row: int) -> float:
        errors = self._errors(row)
        return 0.0 if errors is None or errors.lost else errors.single()

    def _errors(self, row: int) -> Errors | None:
        if row not in self._known:
            self._known[row] = self._found(row)
        return self._known[row]

    def _found(self, row: int) -> Errors | None:
        """The errors of a pair of tensors that was judged by them."""
        comparison = self._comparison
        if self.grades[row] == _UNJUDGED or not comparison.pairs.are_tensors(row):
            return None
        pair = comparison.pairs.pair(row)
        target, golden = pair.target, pair.golden
        if target is None or golden is None:
            return None
        if (measures := comparison.measures.get(row)) is not None:
            return errors_by_elements(measures, target, golden, self._custom)
        if comparison.mode == "tensor" and row not in comparison.by_statistics:
            return None
        if target.statistics is None or golden.statistics is None:
            return None
        view = comparison.pairs.notes.views.get(row)
        if view is not None and view.is_part:
            return None
        ours, theirs = (target, golden) if view is None else looked_at(target, golden, view)
        if ours.shape != theirs.shape:
            return None
        if comparison.mode == "digest" and comparison.equal[row] == EQUAL:
            return None
        return errors_by_statistics(target.statistics, golden.statistics, target, golden, self._custom)

    # Fused parameters.

    def _judge_parts(self) -> None:
        """By statistics the parts of a fused record are judged together, as the whole that they make up."""
        comparison, notes = self._comparison, self._comparison.pairs.notes
        if comparison.mode == "tensor":
            return
        for numbers in groups(notes.views, comparison.pairs.target_rows, comparison.pairs.golden_rows):
            pairs = [comparison.pairs.pair(n) for n in numbers]
            is_golden_whole = bool(notes.views[numbers[0]].golden)
            whole = pairs[0].golden if is_golden_whole else pairs[0].target
            parts = [r for p in pairs if (r := p.target if is_golden_whole else p.golden) is not None]
            told = combined(parts)
            if whole is None or told is None or whole.statistics is None:
                continue
            sides = (told, whole.statistics) if is_golden_whole else (whole.statistics, told)
            errors = errors_by_statistics(*sides, whole, whole)
            if errors is None:
                continue
            verdict = judge_errors(errors)
            for n in numbers:
                self._enter(n, verdict)
                self.equal[n] = UNKNOWN
                self.reasons[n] = verdict.reasons or (Reason(Why.ALL_PARTS),)
