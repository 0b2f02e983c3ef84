"""Find the first wrong call and the divergences after it. Definitions: compare.md, "The first wrong call".

This is one pass in execution order. Each call agrees, diverges, receives a difference, is unmatched, or cannot be
judged. A call that diverges becomes a `Divergence`; a call that receives a difference is counted at its divergence.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from msprobe.base import names
from msprobe.compare.core.noise import ROUNDING, Consequence, Constant, State
from msprobe.compare.core.reason import CAUSES, Cause, Reason, TensorLook, Why
from msprobe.compare.dataflow.events import Event, events, events_by_place
from msprobe.compare.judge.judged import DIFFERENT, Comparison, Judged, calls_with
from msprobe.compare.judge.verdict import GRADES, SEVERITY, Grade, path_of
from msprobe.compare.workers.progress import shown
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.kind import Kind
from msprobe.store.record import PARTS
from msprobe.store.stacks_and_construct import user_line

from .cause import Causes, InputCause, Seen, walk
from .exemptions import not_collected, trained_on_one_side
from .finding import (
    Argument,
    ArgumentKind,
    Between,
    Beyond,
    Computed,
    Difference,
    Divergence,
    Drawn,
    Evidence,
    Harmless,
    Missing,
    OtherCall,
    Parameters,
    Precision,
    RunInput,
    Unclear,
)
from .random_numbers import differ_by_draws

Role = Literal["begins", "received", ""]

_OTHER = {"target": "golden", "golden": "target"}

_UNJUDGED = GRADES.index("unjudged")

_ABSENT = tuple(cause for cause in Cause if cause.is_exempt and cause not in (Cause.HARMLESS, Cause.IGNORED))
"""Causes of records without a verdict that could not have been compared."""

_MAX_SEARCHED = 1000
"""Number of calls after an unmatched one that are searched for its replacement: such a sequence may be long, with many
divergences."""


@dataclass(frozen=True)
class Located:
    """All divergences in execution order, and the role of each differing pair of records, by its row.

    `harmless` are differences without effect on later results, and arguments whose effect is unknown.
    """

    findings: tuple[Divergence, ...] = ()
    roles: dict[int, Role] = field(default_factory=dict)
    harmless: tuple[Divergence, ...] = ()

    @property
    def first(self) -> Divergence | None:
        """Return the first wrong call; None if nothing differs."""
        return self.findings[0] if self.findings else None

    def is_clean(self, comparison: Comparison) -> bool:
        """Return whether every pair passes or is exempt, and no difference begins."""
        return comparison.is_clean and not self.findings


def locate(comparison: Comparison, *, is_shown: bool = False) -> Located:
    """Find every divergence between two dumps; `is_shown` as in `msprobe.compare.run.compare`."""
    return replace(_located(comparison, is_shown), harmless=tuple(_harmless(comparison)))


def _harmless(comparison: Comparison) -> Iterator[Divergence]:
    """Yield the differences without effect on later results, and the arguments that differ with an unknown effect, in
    execution order."""
    noise = comparison.noise
    rows = () if noise is None else (*noise.harmless, *noise.unshown)
    if noise is None or not rows:
        return
    event_at = events_by_place(comparison.pairs)
    placed = [(event_at[int(comparison.pairs.call_of[row])], row) for row in rows]
    for event, row in sorted(placed, key=lambda one: (one[0].at, one[1])):
        judged = comparison.judged(row)
        difference = Difference(path_of(judged.pair.record), judged.grade, judged.verdict.reasons[1:])
        ground = noise.harmless.get(row)
        evidence: Evidence = Unclear(Missing.EFFECT, difference=difference)
        if ground is not None:
            evidence = Harmless(difference, ground)
        kind = kinds.UNKNOWN if ground is None else kinds.HARMLESS
        file, line = user_line(_stack_of(comparison, event)) or ("", None)
        yield Divergence(event.name, cell_of(event), kind, evidence, judged.grade, file, line, at=event.at)


def _stack_of(comparison: Comparison, event: Event) -> tuple[str, ...]:
    """Return the stack of a call on the side that it is named after."""
    sides = ((side.dump, int(side.calls[event.place])) for side in comparison.sides.values())
    return next(dump.calls.stack(call) for dump, call in sides if call >= 0)


def cell_of(event: Event) -> str:
    return (names.parse(event.parents[0]).path or event.parents[0]) if event.parents else "the root"


def _located(comparison: Comparison, is_shown: bool) -> Located:
    """Return the result of `locate` without harmless differences."""
    if comparison.noise is not None and comparison.is_clean and not comparison.noise.differs().any():
        return Located()
    if comparison.excused is not None and comparison.is_clean:
        return Located()  # differences are excused, and within tolerance after that
    pairs = comparison.pairs
    sides = pairs.target_calls, pairs.golden_calls, pairs.target_rows, pairs.golden_rows
    if (comparison.equal != DIFFERENT).all() and all((side >= 0).all() for side in sides):
        return Located()
    return _Walk(comparison, is_shown).located()


class _Walk:
    """The divergences so far, and the divergence of each event."""

    def __init__(self, comparison: Comparison, is_shown: bool) -> None:
        self._comparison = comparison
        self._has_other_names = comparison.relation.has_other_names
        self._sides = tuple(comparison.sides.values())
        self._events, self._event_at = events(comparison.pairs), events_by_place(comparison.pairs)
        self._seen = walk(comparison, self._events)
        self._origin: dict[int, int] = {}
        self._causes = Causes(comparison, self._seen, self._origin)
        self._findings: list[Divergence] = []
        self._places: dict[str, int] = {}  # a call inside which something begins -> the finding
        self._unmatched: dict[int, int] = {}  # an unmatched call -> the finding
        self._followed: set[int] = set()  # findings of calls at the end of one side, to which gradients lead
        self._leaves: dict[object, int] = {}  # a tensor that no call produced -> the finding that it makes
        self._parameters = -1
        self._last_agreeing = ""
        self._unjudged: dict[str, None] = {}  # calls; one may have several events
        self._roles: dict[int, Role] = {}
        noise = comparison.noise
        self._diverges = bytes(len(comparison.equal)) if noise is None else noise.diverging().tobytes()
        for seen in shown(self._seen, "locating differences") if is_shown else self._seen:
            self._visit(seen)

    def located(self) -> Located:
        if not self._findings:
            seen = next((s for s in self._seen if s.outputs or s.inputs), None)
            graded = [self._beyond[grade][0] for grade in ("error", "warning") if self._beyond[grade]]
            judged: list[Judged] = []
            if seen:
                event, judged = seen.event, self._judged(seen.outputs or seen.inputs)
            elif graded:  # the differences are in calls that could not be judged by the dataflow
                event = self._events[min(graded)]
                judged = [one for one in self._judged(event.rows) if one.grade in ("error", "warning")]
            if judged:
                self._add(event, kinds.UNKNOWN, Unclear(Missing.IN_BETWEEN, difference=_worst(judged)), judged)
        receivers = Counter(self._origin.values())
        found = [replace(f, receivers=receivers[n] - 1, beyond=self._grows(f)) for n, f in enumerate(self._findings)]
        found.sort(key=lambda finding: (self._doubt(finding), finding.at))
        return Located(tuple(found), self._roles)

    def _doubt(self, finding: Divergence) -> Consequence:
        """Return how uncertain it is that a difference has consequences; certain ones come first. If one side ends with
        some calls, the results that depend on them are not compared. A precision of one side is certain."""
        if finding.kind is kinds.PRECISION:
            return Consequence.SHOWN
        place = self._events[finding.at].place
        doubt = self._doubts.get(place, Consequence.SHOWN)
        ends = place in self._ends_of_one_side and self._origin.get(finding.at) not in self._followed
        return max(doubt, Consequence.OVERLAID) if ends else doubt

    @cached_property
    def _ends_of_one_side(self) -> set[int]:
        """Return the places of calls without a counterpart after all pairs of forward calls."""
        forward = [event for event in self._events if event.direction == "forward"]
        last = max(
            (event.at for event in forward if event.is_matched and event.kind == "api"), default=len(self._events)
        )
        return {event.place for event in forward if not event.is_matched and event.at > last}

    @cached_property
    def _doubts(self) -> dict[int, Consequence]:
        """Return by place the uncertainty of pairs of calls that received a divergence, and of one-sided calls that
        lead to it."""
        noise = self._comparison.noise
        if noise is None or not noise.doubts:
            return {}
        found = dict(noise.doubts)
        for row, places in noise.stretches.items():
            doubt = noise.doubts.get(int(self._comparison.pairs.call_of[row]), Consequence.SHOWN)
            for place in places:
                found[place] = min(doubt, found.get(place, doubt))
        return found

    def _judged(self, rows: Iterable[int]) -> list[Judged]:
        return list(map(self._comparison.judged, rows))

    def _visit(self, seen: Seen) -> None:
        event, noise, diverges = seen.event, self._comparison.noise, self._diverges
        if noise is not None and (rounding := noise.roundings.get(event.place)) and event.key not in self._places:
            self._add(event, kinds.PRECISION, Precision(rounding.side, rounding.dtype, rounding.other), ())
            self._mark(event.rows if not event.is_matched else seen.outputs, "begins")
            if not event.is_matched:
                return
        if noise is not None and (constant := noise.constants.get(event.place)) and event.key not in self._places:
            self._add_constant(event, constant)
            return
        if seen.agrees and event.is_matched:
            self._last_agreeing = event.name
            return
        diverging = [row for row in seen.outputs if diverges[row]]
        if not event.is_matched:
            self._visit_one_sided(event)
        elif self._is_of_stretch(seen):
            pass
        elif seen.inputs and diverging and not any(diverges[row] for row in seen.inputs):
            self._visit_beginning(seen, self._judged(diverging))  # its inputs, which differ too, do not explain it
        elif seen.inputs:
            self._visit_receiving(seen)
        elif (
            seen.outputs
            and noise is not None
            and not diverging
            and (
                self._has_other_names
                or event.kind == "parameters_grad"
                or self._has_calls_inside(event)
                or self._takes_harmless(event)
            )
        ):
            # All inputs agree: the difference was received in another layout, by a call inside (which may be recorded
            # after the gradients that it computes), or by an input without effect on later results.
            self._origin.setdefault(event.at, len(self._findings) - 1)
            self._mark(seen.outputs, "received")
        elif evidence := [j for j in self._judged(seen.outputs) if j.pair.record.gradient != "accumulated"]:
            self._visit_beginning(seen, evidence)
        is_explained = event.place in self._comparison.explained or self._has_other_names
        if (
            (seen.unknown_inputs or seen.unknown_outputs)
            and not self._findings
            and (event.is_matched or not is_explained)
        ):
            self._unjudged[event.name] = None

    def _takes_harmless(self, event: Event) -> bool:
        """Return whether a call after the first divergence takes a difference without effect on later results."""
        noise = self._comparison.noise
        inputs = event.own_inputs(self._comparison) if noise is not None and self._findings else ()
        return noise is not None and any(noise.states[row] == State.HARMLESS for row in inputs)

    def _has_calls_inside(self, event: Event) -> bool:
        """Return whether calls are recorded inside a call."""
        graph, call = self._causes.graphs["target"], int(self._comparison.pairs.target_calls[event.place])
        return call >= 0 and call in graph.inside

    def _add_constant(self, event: Event, constant: Constant) -> None:
        """Add a constant that differs at the first call that takes it; the calls that it goes through received it."""
        columns = self._comparison.sides[constant.side].dump.columns
        place = ".".join((PARTS[columns.part[constant.row]], *columns.path_of(constant.row)))
        reason = Reason(Why.SCALE, amount=constant.distance, allowed=ROUNDING)
        argument = Argument(Difference(place, "error", (reason,)), ArgumentKind.TENSOR)
        self._add(event, kinds.ARGUMENT, argument, ())
        self._mark(event.rows, "begins")
        for other in constant.places:
            self._origin.setdefault(self._event_at[other].at, self._origin[event.at])

    def _is_of_stretch(self, seen: Seen) -> bool:
        """Return whether calls without a counterpart lead to the divergence here; the first of them is reported."""
        noise, event = self._comparison.noise, seen.event
        if noise is None or not noise.stretches:
            return False
        rows = [row for row in (*seen.inputs, *seen.outputs) if row in noise.stretches]
        if not rows:
            return False
        first = self._events[min(self._event_at[place].at for place in noise.stretches[rows[0]])]
        if first.at not in self._origin and event.key not in self._places:
            self._add(first, kinds.STRUCTURE, self._other_call(first), self._judged(rows))
            self._mark(first.rows, "begins")
        self._origin.setdefault(event.at, self._origin.get(first.at, len(self._findings) - 1))
        self._places.setdefault(event.key, self._origin[event.at])
        self._mark((*seen.inputs, *seen.outputs), "received")
        return True

    def _visit_beginning(self, seen: Seen, evidence: Sequence[Judged]) -> None:
        event = seen.event
        inside = self._places.get(event.key)
        gap = None if inside is not None else self._uncollected(seen)
        if inside is not None or (gap and self._findings):
            self._origin[event.at] = len(self._findings) - 1 if inside is None else inside
            self._mark((j.row for j in evidence), "received")
        elif gap:
            self._add(event, kinds.UNKNOWN, replace(gap, difference=_worst(evidence)), evidence)
        else:
            if operation := self._operation_that_draws(event, evidence):
                drawn = Drawn(_worst(evidence), operation, self._has_other_names)
                self._add(event, kinds.RANDOM, drawn, evidence)
            elif (argument := self._argument_of_one_side(event)) is not None:
                self._add(event, kinds.ARGUMENT, _argument(argument), [argument, *evidence])
            else:
                inputs = event.own_inputs(self._comparison)
                has_inputs = bool(inputs or event.forwards)
                is_of_parameters = event.kind == "parameters_grad"
                worst = _worst(evidence)
                without = _without_gradient(worst) if event.direction == "backward" else ""
                are_open = any(self._comparison.grades[row] == _UNJUDGED for row in inputs)
                computed = Computed(worst, has_inputs, is_of_parameters, bool(seen.inputs), without, are_open)
                self._add(event, kinds.COMPUTES, computed, evidence)
            self._mark((j.row for j in evidence), "begins")

    def _operation_that_draws(self, event: Event, evidence: Sequence[Judged]) -> str:
        """Return the operation whose random numbers explain the difference of the outputs; empty for none."""
        if event.direction != "forward":
            return ""
        graphs = self._causes.graphs["target"], self._causes.graphs["golden"]
        return differ_by_draws(self._comparison, graphs, event.place, list(evidence))

    @cached_property
    def _agreeing_before(self) -> list[int]:
        """Return for each event the number of earlier pairs of calls that were compared and agree."""
        comparison = self._comparison
        passed = calls_with(comparison, comparison.grades == GRADES.index("pass"))
        others = np.isin(comparison.grades, [GRADES.index("warning"), GRADES.index("error")])
        others |= (comparison.grades == _UNJUDGED) & ~np.isin(comparison.causes, [CAUSES.index(c) for c in _ABSENT])
        differing = calls_with(comparison, others)
        found, number = list[int](), 0
        for event in self._events:
            found.append(number)
            number += bool(event.is_matched and passed[event.place] and not differing[event.place])
        return found

    def _argument_of_one_side(self, event: Event) -> Judged | None:
        """Return an argument of one side only, if the two sides compute different functions.

        The same argument has different positions in two frameworks, so that between them only keywords count.
        """
        noise = self._comparison.noise
        if noise is None or event.direction != "forward":
            return None
        # Where the golden's function could be executed on the target's inputs, it is one function, called differently.
        if self._has_other_names and any(
            found.bound == found.bound for row in event.rows if (found := noise.evidence.get(row))
        ):
            return None
        without_effect, functions = self._arguments_without_effect, self._functions(event)
        return next(
            (
                judged
                for judged in self._values_of_one_side(event)
                if (functions, *_value_of_one_side(judged)) not in without_effect and not self._is_length(event, judged)
            ),
            None,
        )

    def _values_of_one_side(self, event: Event) -> Iterator[Judged]:
        """Return the non-tensor arguments of one side only."""
        sides = self._comparison.pairs.target_rows, self._comparison.pairs.golden_rows
        alone = (row for row in event.own_inputs(self._comparison) if min(rows[row] for rows in sides) < 0)
        found = (one for one in self._judged(alone) if one.pair.record.kind == "value")
        if self._has_other_names:
            return (one for one in found if not path_of(one.pair.record).split(".")[1].isdigit())
        return found

    def _functions(self, event: Event) -> tuple[str, ...]:
        """Return the two functions of a pair of calls."""
        return tuple(dump.names[int(calls[event.place])].stem for dump, calls, _ in self._sides)

    @cached_property
    def _arguments_without_effect(self) -> set[tuple[object, ...]]:
        """Return the one-sided arguments in pairs of calls that agree; they do not explain the difference of another
        pair of these functions."""
        agreeing = (seen.event for seen in self._seen if seen.event.is_matched and not seen.outputs)
        return {
            (self._functions(event), *_value_of_one_side(judged))
            for event in agreeing
            if event.direction == "forward"
            for judged in self._values_of_one_side(event)
        }

    def _is_length(self, event: Event, judged: Judged) -> bool:
        """Return whether a number in a sequence of one side is the length of an axis of a tensor argument, which has
        the same information."""
        record = judged.pair.record
        shapes = (j.pair.record.shape or () for j in self._judged(event.own_inputs(self._comparison)))
        return len(record.path) > 1 and any(record.value in shape for shape in shapes)

    def _visit_receiving(self, seen: Seen) -> None:
        event = seen.event
        self._mark(seen.outputs, "received")
        received: InputCause | None = None
        own: list[tuple[int, InputCause]] = []
        of_parameters: list[int] = []
        for row in seen.inputs:
            cause = self._cause(row, event)
            self._roles.setdefault(row, "received" if cause.kind in ("received", "unclear") else "begins")
            if cause.kind == "received":
                received = received or cause
            elif cause.kind == "parameter":
                of_parameters.append(row)
            else:
                own.append((row, cause))
        inside = self._places.get(event.key)
        if received is None and inside is None and own:
            leaves = [row for row, c in own if c.kind == "leaf" and self._is_of_target(row)]
            self._leaves |= dict.fromkeys(map(self._mark_of, leaves), len(self._findings))
            row, cause = own[0]
            around = self._received_by_cell(row, event) if cause.kind == "code" else None
            if around is None:
                self._add_input(event, self._comparison.judged(row), cause)
            else:
                self._origin[event.at] = len(self._findings)
                self._add_input(*around)
        parameters = self._judged(of_parameters)
        if parameters and self._parameters < 0:
            self._parameters = len(self._findings)
            found = self._causes.differing_parameters()
            first = next((s.event.at for s in self._seen if s.outputs), len(self._seen))
            before = tuple(name for at, name in found if at <= first) or tuple(name for _, name in found)
            evidence = Parameters(before, len(found), self._comparison.target.step)
            self._add(event, kinds.PARAMETERS, evidence, parameters)
        if event.at not in self._origin:
            known = self._parameters if parameters else len(self._findings) - 1
            self._origin[event.at] = received.finding if received else known if inside is None else inside

    def _received_by_cell(self, row: int, event: Event) -> tuple[Event, Judged, InputCause] | None:
        """Return the differing tensor that the outermost cell around a call received and that explains an input which
        unrecorded code computed inside; None if the input differs by itself, or is the tensor that the cell
        received."""
        noise = self._comparison.noise
        if noise is None or noise.states[row] != State.PROPAGATED:
            return None
        for cell in reversed(event.parents):
            if (at := self._causes.event_of("target", cell)) is None:
                continue
            seen = self._seen[at]
            for other in seen.inputs:
                is_tensor = self._diverges[other] and self._comparison.pairs.are_tensors(other)
                if is_tensor and self._mark_of(other) != self._mark_of(row):
                    cause = self._causes.of(other, seen.event, -1)
                    return seen.event, self._comparison.judged(other), cause
        return None

    def _cause(self, row: int, event: Event) -> InputCause:
        """Return the cause of an input that differs; for a tensor that was seen before, the cause at its first use."""
        cause = self._causes.of(row, event, len(self._findings) - 1)
        if cause.kind != "leaf" or not self._is_of_target(row):
            return cause
        finding = self._leaves.get(self._mark_of(row))
        return cause if finding is None else InputCause("received", finding=finding)

    def _is_of_target(self, row: int) -> bool:
        """Return whether the target has a record of a pair."""
        return self._comparison.pairs.target_rows.item(row) >= 0

    def _mark_of(self, row: int) -> object:
        """Return what identifies the target's tensor."""
        return self._causes.graphs["target"].mark(int(self._comparison.pairs.target_rows[row]))

    def _add_input(self, event: Event, judged: Judged, cause: InputCause) -> None:
        found = _worst([judged])
        if cause.kind == "unclear":
            if not self._findings:
                self._add(event, kinds.UNKNOWN, Unclear(Missing.PRODUCER, cause.names, "", found), [judged])
        elif cause.kind == "code":
            is_gradient = event.direction == "backward"
            agreeing = self._agreeing_before[event.at]
            between = Between(found, self._last_agreeing, cause.dataflow, cause.names, is_gradient, agreeing)
            self._add(event, kinds.CODE, between, [judged])
        elif cause.kind == "exchanged":
            exchanged = Argument(found, ArgumentKind.EXCHANGED, parameters=cause.names)
            self._add(event, kinds.ARGUMENT, exchanged, [judged])
        elif cause.kind == "leaf" and self._causes.is_first_input(event):
            is_made_unrecorded = judged.pair.target is not None and judged.pair.target.source == "code"
            self._add(event, kinds.RUN_INPUTS, RunInput(found, is_made_unrecorded), [judged])
        else:
            self._add(event, kinds.ARGUMENT, _argument(judged), [judged])

    def _visit_one_sided(self, event: Event) -> None:
        if event.place in self._comparison.explained:
            return
        if self._has_other_names:
            if event.key not in self._places and event.place in trained_on_one_side(self._comparison.pairs):
                self._add(event, kinds.STRUCTURE, OtherCall(event.side, is_frozen=True), ())
                self._mark(event.rows, "begins")
            return
        if event.kind == "parameters_grad" or event.place in not_collected(self._comparison.pairs):
            if not self._findings:
                self._unjudged[event.name] = None
            return
        finding = self._places.get(event.key)
        if finding is None and event.direction == "backward":
            finding = self._unmatched.get(event.forward) if event.forward is not None else None
            if finding is None and (finding := self._finding_of_user(event)) is not None:
                self._followed.add(finding)
        if finding is None and event.at and not self._events[event.at - 1].is_matched:
            finding = self._origin.get(event.at - 1)
        if finding is None:
            finding = len(self._findings)
            self._add(event, kinds.STRUCTURE, self._other_call(event), ())
            self._mark(event.rows, "begins")
        else:
            self._mark(event.rows, "received")
        self._unmatched[event.at] = finding
        self._origin[event.at] = finding

    def _finding_of_user(self, event: Event) -> int | None:
        """Return the finding of a call of the same side that takes what the forward call of a backward call returned.

        If the other side has the forward call, but not its backward call, then because it does not have such a user.
        """
        graph, (dump, calls, _) = self._causes.graphs[event.side], self._comparison.sides[event.side]
        outputs = (row for place in event.forwards for row in graph.outputs(int(calls[place])))
        users = (graph.call_of[row] for output in outputs for row in graph.users.get(graph.alias(output), ()))
        found = (self._causes.event_of(event.side, dump.columns.names[call]) for call in users)
        return next((self._unmatched[at] for at in found if at in self._unmatched), None)

    def _other_call(self, event: Event) -> OtherCall:
        others: dict[str, None] = {}
        goes_on = here = ""
        following = self._next_matched[event.at]
        if following < len(self._events):
            goes_on, here = (self._name_on(side, following) for side in (_OTHER[event.side], event.side))
        for at in range(event.at + 1, min(following, event.at + 1 + _MAX_SEARCHED)):
            if (later := self._events[at]).side != event.side:
                others[later.name] = None  # the gradients of a cell's parameters go by its backward call's name
        before = self._events[event.at - 1].name if event.at else ""
        known_as = here if here != goes_on else ""
        return OtherCall(event.side, tuple(others), goes_on, before, known_as=known_as)

    def _name_on(self, side: str, at: int) -> str:
        """Return the name of a matched call on a side: calls of a kind are numbered, and one side has made more of
        them."""
        dump, calls, _ = self._comparison.sides[side]
        return dump.columns.names[int(calls[self._events[at].place])]

    def _add(self, event: Event, kind: Kind, evidence: Evidence, judged: Iterable[Judged]) -> None:
        number = len(self._findings)
        self._origin[event.at] = number
        for key in (event.key, *event.keys):
            self._places.setdefault(key, number)
        hidden = () if number else tuple(self._unjudged)
        stack = _stack_of(self._comparison, event)
        if not stack and event.forward is not None:  # a backward call has its forward's
            stack = _stack_of(self._comparison, self._events[event.forward])
        file, line = user_line(stack) or ("", None)
        grade: Grade = max((j.grade for j in judged), key=SEVERITY.index, default="error")
        self._findings.append(
            Divergence(event.name, cell_of(event), kind, evidence, grade, file, line, at=event.at, hidden=hidden)
        )

    def _grows(self, finding: Divergence) -> Beyond | None:
        """Return the place at which a difference within tolerance exceeds it."""
        grades: tuple[Grade, ...] = ("error", "warning") if finding.grade == "pass" else ()
        for grade in grades:
            beyond = self._beyond[grade]
            if (at := bisect_left(beyond, finding.at)) < len(beyond):
                return Beyond(grade, self._events[beyond[at]].name)
        return None

    @cached_property
    def _beyond(self) -> dict[Grade, list[int]]:
        """Grade -> the events that have pairs of it, in order."""
        graded = {g: calls_with(self._comparison, self._comparison.grades == n) for n, g in enumerate(GRADES)}
        return {grade: [event.at for event in self._events if found[event.place]] for grade, found in graded.items()}

    @cached_property
    def _next_matched(self) -> list[int]:
        """Return for each event the first matched one from it on; their number if there is none."""
        found, following = [], len(self._events)
        for event in reversed(self._events):
            following = event.at if event.is_matched else following
            found.append(following)
        return found[::-1]

    def _mark(self, rows: Iterable[int], role: Role) -> None:
        for row in rows:
            self._roles.setdefault(row, role)

    def _uncollected(self, seen: Seen) -> Unclear | None:
        """Return the inputs of a matched call that are unknown; None if all are known."""
        event = seen.event
        if seen.unknown_inputs:
            unknown = tuple(j.pair.record.name for j in self._judged(seen.unknown_inputs))
            return Unclear(Missing.UNJUDGED_INPUTS, unknown)
        if event.called.endswith(".debug"):
            return Unclear(Missing.SAVED_BY_NAME)
        is_backward = event.direction == "backward"
        for side, collected in self._comparison.collected.items():
            if ("input", is_backward) not in collected:
                return Unclear(Missing.INCOMING_GRADIENTS if is_backward else Missing.INPUTS, side=side)
        if is_backward and event.forward is None:
            return Unclear(Missing.FORWARD)
        for dump, calls, _ in self._sides:
            missing = dump.calls.missing(int(calls[event.place])) if calls[event.place] >= 0 else ()
            if gaps := tuple(gap for gap in missing if gap.startswith("input")):
                return Unclear(Missing.FAILED_INPUTS, gaps)
        return None


def _value_of_one_side(judged: Judged) -> tuple[str, str, str]:
    """Return what identifies an argument of one side: the side, its place, and its value."""
    record = judged.pair.record
    return "target" if judged.pair.target else "golden", path_of(record), repr(record.value)


def _worst(judged: Sequence[Judged]) -> Difference:
    """Return the first pair that is an error, or else the first one."""
    found = next((j for j in judged if j.grade == "error"), judged[0])
    return Difference(path_of(found.pair.record), found.grade, found.verdict.reasons)


def _without_gradient(found: Difference) -> Literal["target", "golden", ""]:
    """Return the side without a value if the other side has a tensor."""
    reason = next(iter(found.reasons), None)
    if reason is None or reason.why is not Why.VALUES:
        return ""
    looks = isinstance(reason.target, TensorLook), isinstance(reason.golden, TensorLook)
    if looks == (False, True) and reason.target is None:
        return "target"
    return "golden" if looks == (True, False) and reason.golden is None else ""


def _argument(judged: Judged) -> Argument:
    """Return the evidence for an argument that no recorded call returned."""
    pair = judged.pair
    if pair.target is None or pair.golden is None:
        return Argument(_worst([judged]), ArgumentKind.ONE_SIDE, "target" if pair.target else "golden")
    are_tensors = pair.target.kind == pair.golden.kind == "tensor"
    return Argument(_worst([judged]), ArgumentKind.TENSOR if are_tensors else ArgumentKind.VALUE)
