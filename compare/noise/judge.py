"""Judge every pair of records along the dataflow: equal, noise, propagated, or a divergence of its own.

Every pair of records judged along the dataflow: equal, noise, propagated, or a divergence of its own.

An input that recorded calls made is not judged by its value where the calls that made it are a pair: it was judged
there. An output is held against its own call's inputs: by the residual of the replayed call where there is one, else by
how much greater its relative error is than that of the inputs. What cannot be noise (arguments, the first inputs of the
run, parameters before the first update, the wiring itself) must be equal.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.core.limits import BUILT_IN, Limits, Source
from msprobe.compare.core.noise import OPAQUE, Class, Evidence, Judgement, Noise, Sign, State, class_of, is_amplified
from msprobe.compare.core.reason import DRIFT, Reason, Reasons, Why
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import DIFFERENT, EQUAL, NO_CAUSE, Comparison
from msprobe.compare.judge.verdict import CAUSES, GRADES, Cause
from msprobe.compare.match.cross_framework import round_differently
from msprobe.compare.workers.progress import shown
from msprobe.replay.recorded import NotReplayed, Replayed
from msprobe.store.record import NULL

from .kernels import Kernels
from .pairs import Paired
from .reach import DIFFERING, dying_out
from .statistics import Summarised, SummarisedPairs
from .upstream import Received, Upstream, one_sided, transparent

_PASS, _WARNING, _ERROR, _UNJUDGED = (GRADES.index(grade) for grade in ("pass", "warning", "error", "unjudged"))


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of each pair of records; as in `Noise`. `covered` are calls as `alone.transparent` takes them."""

    states: NDArray[np.uint8]
    evidence: Mapping[int, Evidence]
    harmless: tuple[int, ...]
    stretches: Mapping[int, tuple[int, ...]]
    covered: Collection[tuple[int, int]]
    limits: Limits = BUILT_IN


def entered(paired: Paired, kernels: Kernels, found: Found, *, is_exact: bool) -> Comparison:
    """The comparison with what is noise as a pass, what diverges at least as a warning, what dies out as exempt."""
    comparison, states, evidence = paired.comparison, found.states, found.evidence
    grades, causes = comparison.grades.copy(), comparison.causes.copy()
    reasons = dict(comparison.reasons)
    for row in np.flatnonzero(states == State.NOISE).tolist():
        if grades[row] in (_WARNING, _ERROR):
            grades[row], causes[row] = _PASS, NO_CAUSE
            reasons[row] = _why(evidence.get(row))
    for row in np.flatnonzero(states == State.DIVERGENT).tolist():
        told = evidence.get(row)
        if told is None or told.sign is Sign.BITS or (is_exact and grades[row] == _PASS):
            continue  # within tolerance, where all before is equal to the bit
        if grades[row] == _PASS:
            grades[row] = _WARNING
        reasons[row] = (*comparison.because(row), *_why(told))
    for row in np.flatnonzero(states == State.HARMLESS).tolist():
        grades[row], causes[row] = _UNJUDGED, CAUSES.index(Cause.HARMLESS)
        reasons[row] = (Reason(Why.DIES_OUT),)
    for row in np.flatnonzero(states == State.ELSEWHERE).tolist():
        grades[row], causes[row] = _UNJUDGED, CAUSES.index(Cause.NO_COUNTERPART)
        reasons[row] = (Reason(Why.OTHER_STEP),)
    for row in np.flatnonzero((states == State.UNKNOWN) & np.isin(grades, (_WARNING, _ERROR))).tolist():
        if paired.may_be_of_inner_node(row):
            grades[row], causes[row] = _UNJUDGED, CAUSES.index(Cause.INNER_NODE)
            reasons[row] = (Reason(Why.INNER_NODE),)
    stretches = {row: places for row, places in found.stretches.items() if states[row] == State.DIVERGENT and places}
    explained = comparison.explained
    if paired.is_across:
        explained = transparent(paired, found.covered, {place for places in stretches.values() for place in places})
        alone = {row: why for place, why in explained.items() for row in paired.rows_of(place)}
        for row, why in (alone | one_sided(paired, states)).items():
            causes[row], reasons[row] = CAUSES.index(Cause.NO_COUNTERPART), (why,)
        for place, guess in paired.pairs.notes.guesses.items():
            if place not in explained and min(int(calls[place]) for calls in paired.calls) < 0:
                reasons |= dict.fromkeys(paired.rows_of(place), (guess.because,))
    which = comparison.which.copy()
    which[np.isin(states, (State.NOISE, State.HARMLESS, State.ELSEWHERE))] = -1
    answers = [answer for side in kernels.replays for answer in side.values()]
    noise = Noise(
        states,
        evidence,
        tuple(kernels.classes()),
        is_exact,
        found.harmless,
        stretches,
        sum(isinstance(a, Replayed) for a in answers),
        Counter(a.cause.value for a in answers if isinstance(a, NotReplayed)),
        found.limits,
        kernels.unseen(np.flatnonzero(states == State.NOISE).tolist()),
    )
    return replace(
        comparison, grades=grades, causes=causes, reasons=reasons, which=which, explained=explained, noise=noise
    )


def _why(evidence: Evidence | None) -> Reasons:
    """What decided about a pair of records, as a reason; it names whose limit did, where that is not built in."""
    if evidence is None:
        return (Reason(Why.NOISE_BEFORE),)
    if evidence.is_by_statistics:
        return (_of_statistics(evidence),)
    by = () if evidence.source is Source.BUILT_IN else (evidence.source.value,)
    if evidence.bound == evidence.bound and evidence.residual == evidence.residual:
        why = Why.NOISE if evidence.sign is Sign.NONE else Why.RESIDUAL
        reason = Reason(why, name=evidence.sign.value, amount=evidence.residual, allowed=evidence.bound)
        return (reason._replace(excess=evidence.golden_residual, names=by),)
    why = Why.NOISE_AMPLIFIED if evidence.sign is Sign.NONE else Why.BEYOND_INPUTS
    return (Reason(why, amount=evidence.apart, allowed=evidence.explained, names=by),)


def _of_statistics(evidence: Evidence) -> Reason:
    is_noise = evidence.sign is Sign.NONE
    if not evidence.law:
        why = Why.NOISE_OF_STATISTICS if is_noise else Why.BEYOND_STATISTICS
        return Reason(why, amount=evidence.apart, allowed=evidence.explained)
    reason = Reason(Why.LAW_KEPT if is_noise else Why.LAW_BROKEN, name=evidence.law, side=evidence.statistic)
    return reason._replace(amount=evidence.residual, excess=evidence.golden_residual, allowed=evidence.bound)


_CONSTANT = 1e-6
"""Up to here a constant that both sides computed in their own way is the same: some units in the last place."""

_GROSS = 1e3
"""A difference so many times greater than what is left of it has died out, if that may be rounding."""

DRIFT_OF_RUNNING = 5e-4
"""Of parameters after the first update, as a share of their root mean square, where no update of them was judged."""

RUNNING_STATISTICS = "running statistics"
"""What a calibration calls the drift of what is updated by no optimizer."""


def judge_under_noise(
    comparison: Comparison, *, limits: Limits = BUILT_IN, workers: int = 1, is_shown: bool = False
) -> Comparison:
    """The comparison with verdicts that know noise, up to `limits`; the comparison itself where nothing differs.

    Replays what differs with torch, on `workers` processes (0: as many as cores); nothing where the limits are exact.
    Where no tensors were saved, statistics are all there is.
    """
    is_across = round_differently(comparison.target, comparison.golden)
    if not is_across and not _is_open(comparison, limits):
        return comparison
    if comparison.mode == "tensor":
        paired = Paired(comparison)
        kernels = Kernels(paired, workers, "replaying calls" if is_shown else "", limits)
        return _Judging(paired, kernels, limits).judged(is_shown=is_shown)
    summarised = SummarisedPairs(comparison)
    if not is_across and not summarised.has_summaries:
        return comparison
    return _Judging(summarised, Summarised(summarised), BUILT_IN).judged(is_shown=is_shown)


def _is_open(comparison: Comparison, limits: Limits) -> bool:
    """Whether noise may explain what differs, within one framework: who takes digests asks for the bits."""
    is_held_to_bits = comparison.mode == "digest" or (comparison.mode == "statistics" and limits.is_exact)
    return not is_held_to_bits and bool((comparison.equal == DIFFERENT).any())


class _Judging:
    def __init__(self, paired: Paired, kernels: Kernels, limits: Limits) -> None:
        comparison = paired.comparison
        self._paired, self._kernels, self._limits = paired, kernels, limits
        self._is_noisy = self._kernels.are_noisy
        self._states = np.zeros(len(comparison.equal), np.uint8)
        self._states[(comparison.grades == _UNJUDGED) & ~comparison.is_exempt] = State.UNKNOWN
        self._greatest = {"forward": 0.0, "backward": 0.0, "": 0.0}  # relative errors of noise so far
        self._has_diverged = {"forward": False, "backward": False, "": False}
        self._judged = set[int]()
        self._reordered = set[int]()  # outputs that look equal, of parts that are joined in another order
        self._evidence: dict[int, Evidence] = {}
        self._event_at = {event.place: event for event in self._paired.events}
        self._told_otherwise: dict[int, bool] = {}
        self._stretches: dict[int, tuple[int, ...]] = {}  # what diverges -> the calls of one side that lead to it
        self._made_of: dict[int, tuple[int, ...]] = {}  # an input, or what a cell returned -> the outputs that it is
        self._upstream = Upstream(paired, self._states)
        self._upstream.know_leaves(self._leaf_state)

    def judged(self, *, is_shown: bool = False) -> Comparison:
        for event in shown(self._paired.events, "judging calls") if is_shown else self._paired.events:
            if event.is_matched:
                self._visit(event)
            else:
                self._upstream.carry(event)
        alone, harmless = self._upstream.alone[0].keys(), tuple[int, ...]()
        if self._is_noisy:
            harmless = dying_out(self._paired, self._states, alone, self._made_of, self._is_different_inside)
        found = Found(self._states, self._evidence, harmless, self._stretches, self._upstream.covered, self._limits)
        return entered(self._paired, self._kernels, found, is_exact=not self._is_noisy)

    def _visit(self, event: Event) -> None:
        given = [r for r in event.rows if self._paired.is_given[r]]
        own = [r for p in event.owners for r in self._paired.rows_of(p) if self._paired.is_given[r]] or given
        for owner in map(self._event_at.__getitem__, event.owners):
            self._judge_inputs(owner)  # the gradients of parameters come before the last backward call of their cell
        self._judge_inputs(event)
        inherited = [r for p in event.forwards for r in self._paired.rows_of(p)]
        received = self._upstream.received((*own, *inherited))
        inside = self._inside(event)
        for row in self._paired.outputs(event):
            state = self._output_state(row, event, received, inside)
            is_unclear = state == State.DIVERGENT and self._paired.may_be_of_inner_node(row)
            self._set(row, State.UNKNOWN if is_unclear else state, event)
            sides = [int(rows[row]) for rows in self._paired.rows]
            if received.differs and min(sides) < 0:
                self._upstream.alone[0 if sides[0] >= 0 else 1][max(sides)] = received.lost or math.inf

    def _judge_inputs(self, event: Event) -> None:
        for row in event.rows:
            if self._paired.is_given[row]:
                state = self._input_state(row, event)
                is_elsewhere = state == State.DIVERGENT and self._is_of_a_block(row, event)
                self._set(row, State.ELSEWHERE if is_elsewhere else state, event)

    def _set(self, row: int, state: State, event: Event) -> None:
        if self._states[row] == State.UNKNOWN and state != State.DIVERGENT:
            return
        self._states[row] = state
        self._judged.add(row)
        if state == State.NOISE and math.isfinite(distance := self._paired.distance(row)):
            self._greatest[event.direction] = max(self._greatest[event.direction], distance)
        elif state in DIFFERING:
            self._has_diverged[event.direction] = True

    def _leaf_state(self, row: int, sides: tuple[int, ...]) -> State | None:
        """The state of an input that no recorded call made on either side; None for any other."""
        kinds = [graph.origin(at)[0] for graph, at in zip(self._paired.graphs, sides, strict=True)]
        if "call" in kinds:
            return None
        if "parameter" in kinds:
            return self._parameter_state(row)
        if "leaf" in kinds or self._is_constant_input(sides):
            is_near = self._is_noisy and self._paired.is_floating(row) and self._paired.distance(row) <= _CONSTANT
            return State.NOISE if is_near else State.DIVERGENT
        return None

    # Inputs.

    def _is_of_a_block(self, row: int, event: Event) -> bool:
        """Whether an input of a pair of cells of two frameworks says nothing of its own: what is inside is held against
        its own inputs, and one block may begin a step later than the other, or be told otherwise what to do."""
        if not self._paired.is_across or event.kind != "cell":
            return False
        if event.direction == "forward" and self._paired.pairs.are_tensors(row):
            sides = zip(self._paired.graphs, self._paired.rows, strict=True)
            if "call" not in [graph.origin(int(rows[row]))[0] for graph, rows in sides]:
                return False
        return self._is_compared_inside(event)

    def _is_compared_inside(self, event: Event) -> bool:
        """Whether some pair of calls inside a pair of cells is held against inputs of its own."""
        graph, cell = self._paired.graphs[0], int(self._paired.calls[0][event.place])
        places = (int(self._paired.place_of[0][call]) for call in _below(graph, cell))
        return any(
            self._paired.is_given[row] and self._paired.pairs.are_tensors(row)
            for place in places
            if place >= 0
            for row in self._paired.rows_of(place)
        )

    def _input_state(self, row: int, event: Event) -> State:
        if self._paired.equal[row] == EQUAL:
            return State.PROPAGATED if self._reordered and self._is_of_reordered(row) else State.EQUAL
        if not self._paired.pairs.are_tensors(row):
            is_wrong = self._paired.comparison.grades[row] in (_WARNING, _ERROR)
            return State.DIVERGENT if is_wrong else State.EQUAL
        if self._paired.comparison.grades[row] == _UNJUDGED:
            return State.UNKNOWN
        sides = tuple(int(rows[row]) for rows in self._paired.rows)
        if event.direction == "backward":
            return self._incoming_state(row, sides)
        (mine, t), (theirs, g) = (graph.origin(at) for graph, at in zip(self._paired.graphs, sides, strict=True))
        if mine == theirs == "call":
            made = int(self._paired.pair_of[0][t]), int(self._paired.pair_of[1][g])
            if made[0] >= 0 and made[0] == made[1]:
                return self._wired(row, [made[0]])
            return self._through(row, [(0, t), (1, g)], is_rewired=min(made) >= 0)
        if "call" in (mine, theirs):
            side, at = (0, t) if mine == "call" else (1, g)
            return self._through(row, [(side, at)], is_rewired=int(self._paired.pair_of[side][at]) >= 0)
        return self._leaf_state(row, sides) or self._untold(row, "forward")

    def _is_of_reordered(self, row: int) -> bool:
        """Whether an input is what a call returned that joins parts in another order."""
        kind, made = self._paired.graphs[0].origin(int(self._paired.rows[0][row]))
        return kind == "call" and int(self._paired.pair_of[0][made]) in self._reordered

    def _is_constant_input(self, sides: tuple[int, ...]) -> bool:
        """Whether no gradient goes back through an input of a call through which others do: a table, a mask."""
        for graph, at in zip(self._paired.graphs, sides, strict=True):
            back = graph.gradient(at)
            if back >= 0 and graph.columns.kind[back] == NULL and graph.has_outputs(graph.call_of(back)):
                return True
        return False

    def _wired(self, row: int, made: Iterable[int]) -> State:
        """The state of an input that pairs of outputs made."""
        made = self._made_of[row] = tuple(made)
        if lost := self._upstream.lost_of(made):
            return self._propagated(row, lost)
        if any(self._states[at] == State.UNKNOWN for at in made):
            return State.UNKNOWN
        rounding = self._rounding(row)
        return State.NOISE if self._paired.is_sum(row, made, rounding) else State.DIVERGENT

    def _through(
        self,
        row: int,
        made: Sequence[tuple[int, int]],
        *,
        is_rewired: bool = False,
        ends: Iterable[tuple[int, int]] = (),
    ) -> State:
        """The state of an input that reaches the nearest pairs through calls that only one side makes.

        `ends`: for a gradient, side and place of the forward calls that end its way back.
        """
        known, between = set[int](), set(ends)
        for side, at in made:
            pairs, calls = self._upstream.ancestors(side, at)
            known |= pairs
            between |= {(side, call) for call in calls}
        self._made_of[row] = tuple(known)
        if is_rewired and not self._paired.is_across:
            # The two calls that made it are no pair: one tensor only where they are alike.
            is_beyond = is_amplified(self._paired.distance(row), max(self._greatest.values()), self._rounding(row))
            return State.DIVERGENT if is_beyond else State.NOISE
        if lost := max((self._upstream.lost(side, at) for side, at in made), default=0.0):
            return self._propagated(row, lost)
        # What only moves a constant of its side is no other step: it is the constant that differs.
        telling = between if known else (one for one in between if self._upstream.makes_elements(*one))
        self._stretches[row] = self._upstream.places(telling)
        came = max(map(self._explaining, known), default=0.0)
        if not is_amplified(self._paired.distance(row), came, self._rounding(row)):
            return State.NOISE
        if any(int(self._states[at]) in DIFFERING for at in known):
            return State.PROPAGATED
        return State.DIVERGENT

    def _explaining(self, row: int) -> float:
        """How far apart a pair of records is, as far as that explains others: a pair of calls that comes later in this
        order is not judged yet, and explains no more than noise."""
        distance = self._paired.distance(row)
        is_judged = self._paired.is_given[row] or row in self._judged
        return distance if is_judged else min(distance, max(self._greatest.values()))

    def _incoming_state(self, row: int, sides: tuple[int, ...]) -> State:
        """The state of an incoming gradient: the sum of what the users of the tensor contribute."""
        (ours, whole_t), (theirs, whole_g) = (
            graph.contributions(at) for graph, at in zip(self._paired.graphs, sides, strict=True)
        )
        mine = {int(self._paired.pair_of[0][at]) for at in ours}
        other = {int(self._paired.pair_of[1][at]) for at in theirs}
        made = [(0, at) for at in ours] + [(1, at) for at in theirs]
        if not made:
            return self._untold(row, "backward")
        if mine == other and -1 not in mine and whole_t and whole_g:
            return self._wired(row, mine)
        ends = {
            (side, graph.call_of(user))
            for side, (graph, at) in enumerate(zip(self._paired.graphs, sides, strict=True))
            for user in graph.takers(at)
            if graph.gradient(user) < 0 and graph.is_floating(graph.call_of(user))
        }
        return self._through(row, made, ends=ends)

    def _parameter_state(self, row: int) -> State:
        is_later = bool(self._paired.comparison.target.step)
        if any(reason.why in DRIFT for reason in self._paired.comparison.because(row)):
            return State.NOISE  # its update was judged
        # What a normalisation keeps of the batches is no update, and as noisy as what the batches gave.
        is_running = self._paired.is_running(row)
        drift = DRIFT_OF_RUNNING * (self._limits.drift(RUNNING_STATISTICS) if is_running else 1.0)
        most = max(drift, self._rounding(row)) if is_running else drift
        if is_later and self._is_noisy and self._paired.distance(row) <= most:
            return State.NOISE
        return State.DIVERGENT

    def _untold(self, row: int, direction: str) -> State:
        """Nothing tells where an input came from: whatever differed before may have reached it."""
        if self._has_diverged["forward"] or self._has_diverged[direction]:
            return self._propagated(row, math.inf)
        is_beyond = is_amplified(self._paired.distance(row), max(self._greatest.values()), self._rounding(row))
        return State.DIVERGENT if is_beyond else State.NOISE

    def _rounding(self, row: int) -> float:
        """The relative rounding error of one call that writes a tensor; none where the runs are equal to the bit."""
        return self._kernels.floor(row) if self._is_noisy else 0.0

    # Outputs.

    def _output_state(self, row: int, event: Event, received: Received, inside: Received | None) -> State:
        if self._paired.equal[row] == EQUAL:
            if not (received.lost and self._kernels.hides_order(row)):
                return State.EQUAL
            self._reordered.add(row)
            return State.PROPAGATED
        grade = int(self._paired.comparison.grades[row])
        if not self._paired.pairs.are_tensors(row):
            if grade not in (_WARNING, _ERROR):
                return State.EQUAL
            return State.PROPAGATED if received.differs else State.DIVERGENT
        if grade == _UNJUDGED:
            return State.UNKNOWN
        if inside is not None:
            return self._cell_state(row, event, received, inside)
        if self._kernels.is_side_product(row, event):
            return State.HARMLESS
        if not self._paired.is_across and self._paired.has_other_form(row):
            return State.PROPAGATED if received.differs else State.DIVERGENT
        if row in self._kernels.by_bits:
            self._note(row, event, Judgement(Sign.BITS, self._class(row), 0.0), received.came)
            return State.DIVERGENT
        judgement = self._kernels.judgements.get(row)
        is_decisive = judgement is not None and judgement.is_of is not Class.OPAQUE and self._is_of_one_function(row)
        if judgement is not None and (judgement.is_wrong or is_decisive):
            self._note(row, event, judgement, received.came)
            if judgement.is_wrong:
                is_received = judgement.sign is Sign.AMPLIFIED and self._may_be_received(event, received)
                return State.PROPAGATED if is_received else State.DIVERGENT
            # Held against the golden's function, what the call was told has no effect on this output.
            is_unclear = received.is_unclear and row not in self._kernels.crossed
            return self._propagated(row, received.lost, is_unclear)
        most = self._most(row, event)
        is_beyond = (
            not self._is_told_otherwise(event)
            and math.isfinite(received.came)
            and is_amplified(self._paired.distance(row), received.came, self._rounding(row), most)
        )
        if is_beyond and self._is_of_diverging_layer(event):
            return State.PROPAGATED
        if is_beyond and self._paired.is_across:
            self._stretches[row] = self._upstream.places(self._upstream.calls_behind(event))
        sign = Sign.AMPLIFIED if is_beyond else Sign.NONE
        self._note(row, event, Judgement(sign, Class.OPAQUE, math.nan), received.came, most)
        return State.DIVERGENT if is_beyond else self._propagated(row, received.lost, received.is_unclear)

    def _is_of_diverging_layer(self, event: Event) -> bool:
        """Of two frameworks: whether what a call received was not compared, but what the layer around it received was,
        and is another tensor."""
        if not self._paired.is_across or not self._paired.has_lone_inputs(event):
            return False
        graph = self._paired.graphs[0]
        layer = next(graph.around(int(self._paired.calls[0][event.place])), -1)
        around = self._event_at.get(int(self._paired.place_of[0][layer])) if layer >= 0 else None
        return around is not None and any(
            self._input_state(row, around) == State.DIVERGENT and not self._is_of_a_block(row, around)
            for row in around.rows
            if self._paired.is_given[row] and self._paired.pairs.are_tensors(row)
        )

    def _may_be_received(self, event: Event, received: Received) -> bool:
        """Whether what a call received may explain an amplified difference: what it was told, or of two frameworks by
        statistics a tensor, since these say little of what one function makes of it."""
        return self._is_told_otherwise(event) or (self._paired.is_across and received.lost > 0)

    def _is_of_one_function(self, row: int) -> bool:
        """Whether both sides' outputs were held against one function: of two frameworks each has its own."""
        return not self._paired.is_across or row in self._kernels.crossed

    def _is_told_otherwise(self, event: Event) -> bool:
        """Whether what a call was told differs, of which nobody knows what it explains."""
        known = self._told_otherwise.get(event.place)
        if known is None:
            rows = (r for place in (event.place, *event.forwards) for r in self._paired.rows_of(place))
            known = any(self._states[r] == State.DIVERGENT for r in rows if self._paired.is_given[r])
            self._told_otherwise[event.place] = known
        return known

    def _propagated(self, row: int, lost: float, is_unclear: bool = False) -> State:
        """The state of what agrees with its inputs, of which some are apart by `lost`.

        `is_unclear`: an argument that is no tensor differs, whose effect cannot be told from noise.
        """
        return State.PROPAGATED if is_unclear or (lost and not self._dies_out(row, lost)) else State.NOISE

    def _dies_out(self, row: int, lost: float) -> bool:
        """Whether differences of inputs, of which `lost` is the greatest, leave no trace in a tensor: it differs by no
        more than noise, and by far less than they do."""
        if not self._is_noisy or self._kernels.hides_order(row):
            return False
        distance, direction = self._paired.distance(row), self._paired.direction(row)
        noise = max(_CONSTANT, 3 * self._greatest[direction])
        is_gone = distance <= noise and 10 * distance <= lost
        is_rounded = distance <= self._paired.kernel_error and _GROSS * distance <= lost
        return (is_gone or is_rounded) and self._paired.has_same_zeros(row)

    def _class(self, row: int) -> Class:
        output = self._kernels.outputs.get(row)
        return Class.OPAQUE if output is None else class_of(output.target.eta)

    def _is_different_inside(self, event: Event) -> bool | None:
        found = self._inside(event)
        return None if found is None else bool(found.lost)

    def _inside(self, event: Event) -> Received | None:
        """What the calls inside a pair of cells returned; None where nothing is recorded inside."""
        if event.kind == "api" or (event.kind == "cell" and self._paired.is_innermost(event)):
            return None
        if event.kind not in ("cell", "parameters_grad"):
            return None
        came, lost = 0.0, 0.0
        for side in (0, 1):
            graph, cell = self._paired.graphs[side], int(self._paired.calls[side][event.place])
            for call in _below(graph, cell):
                place = int(self._paired.place_of[side][call])
                if graph.names[call].direction != event.direction or place < 0:
                    continue
                made = [row for row in self._paired.rows_of(place) if not self._paired.is_given[row]]
                lost = max(lost, self._upstream.lost_of(made))
                same = (row for row in made if self._states[row] == State.NOISE)
                came = max(came, *map(self._paired.distance, same), 0.0)
        return Received(came, lost)

    def _cell_state(self, row: int, event: Event, received: Received, inside: Received) -> State:
        """What a cell returns was computed inside it, and is judged there."""
        if (elsewhere := self._paired.judged_elsewhere(row)) >= 0:
            return self._wired(row, [elsewhere])
        if not self._paired.stands_for_itself(row):
            state = self._through(row, list(enumerate(self._paired.makers(row))))
            is_elsewhere = state == State.DIVERGENT and self._paired.has_counterpart_outside(row, event)
            return State.ELSEWHERE if is_elsewhere else state
        lost = max(inside.lost, received.lost)
        judgement = self._kernels.judgements.get(row)
        if judgement is not None and not judgement.is_wrong and self._is_of_one_function(row):
            self._note(row, event, judgement, received.came)
            return self._propagated(row, lost, received.is_unclear)
        if lost or received.is_unclear:
            return self._propagated(row, lost, received.is_unclear)
        explained, most = max(received.came, inside.came), self._most(row, event)
        if is_amplified(self._distance_of_sum(row, event), explained, self._rounding(row), most):
            self._note(row, event, Judgement(Sign.AMPLIFIED, Class.OPAQUE, math.nan), explained, most)
            if self._paired.is_across:
                self._stretches[row] = self._upstream.places(self._last_calls(row, event))
            return State.DIVERGENT
        return State.NOISE

    def _last_calls(self, row: int, event: Event) -> Iterable[tuple[int, int]]:
        """The calls, by side, that computed what a pair of cells returns; not those of a layer itself."""
        for side, (graph, at) in enumerate(zip(self._paired.graphs, self._paired.makers(row), strict=True)):
            call = graph.call_of(at)
            if next(graph.around(call), -1) != int(self._paired.calls[side][event.place]):
                yield side, call

    def _distance_of_sum(self, row: int, event: Event) -> float:
        """As `Paired.distance`, but for the gradient of a bias, the sum of what its cell receives.

        It may cancel out (that of the keys, before a softmax), and what is left keeps the rounding of what was added.
        """
        columns, at = self._paired.graphs[1].columns, int(self._paired.rows[1][row])
        _, _, shape = columns.looks[columns.look[at]]
        if event.kind != "parameters_grad" or len(shape or ()) != 1:
            return self._paired.distance(row)
        incoming = [r for place in event.owners for r in self._paired.rows_of(place) if self._paired.is_given[r]]
        size = max((self._paired.size(r) for r in incoming if self._paired.pairs.are_tensors(r)), default=0.0)
        size = max(size, self._paired.size(row))
        return self._paired.difference(row) / size if size else self._paired.distance(row)

    def _most(self, row: int, event: Event) -> float:
        """How many times its inputs' relative error an output's may be, where no reference knows the call."""
        return self._limits.amplification(self._kernels.kind(row, event), OPAQUE)

    def _note(self, row: int, event: Event, judgement: Judgement, came: float, most: float = OPAQUE) -> None:
        self._evidence[row] = self._kernels.evidence(row, event, judgement, came, most)


def _below(graph: Graph, cell: int) -> Iterable[int]:
    """The calls inside a cell's call, at any depth."""
    waiting = [cell]
    while waiting:
        for call in graph.below(waiting.pop()):
            yield call
            waiting.append(call)
