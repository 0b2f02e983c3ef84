"""Every pair of records judged along the dataflow: equal, noise, propagated, or a divergence of its own.

An input that recorded calls made is not judged by its value where the calls that made it are a pair: it was judged
there. An output is held against its own call's inputs: by the residual of the replayed call where there is one, else by
how much greater its relative error is than that of the inputs. What cannot be noise (arguments, the first inputs of the
run, parameters before the first update, the wiring itself) must be equal.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import DIFFERENT, EQUAL, Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.events import Event
from msprobe.compare.reason import DRIFT
from msprobe.store.columns import NULL

from .kernels import Kernels
from .outcome import entered
from .paired import Paired
from .precision import Class, Judgement, Sign, class_of, is_amplified
from .reach import DIFFERING, dying_out
from .report import Evidence, State
from .summarised import Summarised, SummarisedPairs

_WARNING, _ERROR, _UNJUDGED = (GRADES.index(grade) for grade in ("warning", "error", "unjudged"))

_CONSTANT = 1e-6
"""Up to here a constant that both sides computed in their own way is the same: some units in the last place."""

_DRIFT = 5e-4
"""Of parameters after the first update, as a share of their root mean square."""


def judge_under_noise(comparison: Comparison, *, workers: int = 1, is_shown: bool = False) -> Comparison:
    """The comparison with verdicts that know noise; the comparison itself where nothing differs.

    Replays what differs with torch, on `workers` processes (0: as many as cores); where no tensors were saved,
    statistics are all there is.
    """
    if not (comparison.equal == DIFFERENT).any():
        return comparison
    if comparison.mode != "tensor":
        return _by_statistics(comparison)
    paired = Paired(comparison)
    return _Judging(paired, Kernels(paired, workers, "replaying calls" if is_shown else "")).judged()


def _by_statistics(comparison: Comparison) -> Comparison:
    paired = SummarisedPairs(comparison)
    return _Judging(paired, Summarised(paired)).judged() if paired.has_summaries else comparison


class _Judging:
    def __init__(self, paired: Paired, kernels: Kernels) -> None:
        comparison = paired.comparison
        self._paired, self._kernels = paired, kernels
        self._events = {event.place: event for event in paired.events}
        self._is_noisy = self._kernels.are_noisy
        self._states = np.zeros(len(comparison.equal), np.uint8)
        self._states[(comparison.grades == _UNJUDGED) & ~comparison.is_exempt] = State.UNKNOWN
        self._greatest = {"forward": 0.0, "backward": 0.0, "": 0.0}  # relative errors of noise so far
        self._has_diverged = {"forward": False, "backward": False, "": False}
        self._lost = 0.0  # the greatest relative error of what differs by more than noise among the inputs of a call
        self._evidence: dict[int, Evidence] = {}
        self._told_otherwise: dict[int, bool] = {}
        self._alone_tainted: tuple[set[int], set[int]] = (set(), set())  # outputs of unmatched calls, by side
        self._made_of: dict[int, tuple[int, ...]] = {}  # an input, or what a cell returned -> the outputs that it is

    def judged(self) -> Comparison:
        for event in self._paired.events:
            if event.is_matched:
                self._visit(event)
            else:
                self._visit_unmatched(event)
        harmless = (
            dying_out(self._paired, self._states, self._alone_tainted[0], self._made_of, self._inside)
            if self._is_noisy
            else ()
        )
        return entered(self._paired, self._kernels, self._states, self._evidence, harmless, is_exact=not self._is_noisy)

    def _visit(self, event: Event) -> None:
        given = [r for r in event.rows if self._paired.is_given[r]]
        own = [r for p in event.owners for r in self._paired.rows_of(p) if self._paired.is_given[r]] or given
        for row in given:
            self._set(row, self._input_state(row, event), event)
        for place in event.owners:  # the gradients of a cell's parameters may stand before its backward call
            owner = self._events[place]
            for row in (r for r in self._paired.rows_of(place) if self._paired.is_given[r]):
                self._set(row, self._input_state(row, owner), owner)
        inherited = [r for p in event.forwards for r in self._paired.rows_of(p)]
        states = {int(self._states[r]) for r in (*own, *inherited)}
        is_tainted = bool(states & set(DIFFERING))
        self._lost = self._what_came(event, own)
        came = max(
            (self._paired.distance(r) for r in (*own, *inherited) if self._paired.pairs.are_tensors(r)), default=0.0
        )
        inside = self._inside(event)
        for row in self._paired.outputs(event):
            self._set(row, self._output_state(row, event, is_tainted, came, inside), event)

    def _set(self, row: int, state: State, event: Event) -> None:
        if self._states[row] == State.UNKNOWN and state != State.DIVERGENT:
            return
        self._states[row] = state
        if state == State.NOISE and math.isfinite(distance := self._paired.distance(row)):
            self._greatest[event.direction] = max(self._greatest[event.direction], distance)
        elif state in DIFFERING:
            self._has_diverged[event.direction] = True

    def _visit_unmatched(self, event: Event) -> None:
        """What only one side computes is transparent: a propagated difference goes through."""
        side = 0 if event.side == "target" else 1
        graph, call = self._paired.graphs[side], int(self._paired.calls[side][event.place])
        rows = [*graph.inputs(call)]
        if event.direction == "forward":
            sources = [made for kind, made in map(graph.origin, rows) if kind == "call"]
        else:
            sources = [made for row in rows for made in graph.contributions(row)[0]]
        if any(self._is_tainted(side, made) for made in sources):
            self._alone_tainted[side].update(graph.outputs(call))

    def _is_tainted(self, side: int, row: int) -> bool:
        pair = int(self._paired.pair_of[side][row])
        if pair >= 0:
            return int(self._states[pair]) in DIFFERING
        return row in self._alone_tainted[side]

    # Inputs.

    def _input_state(self, row: int, event: Event) -> State:
        if self._paired.equal[row] == EQUAL:
            return State.EQUAL
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
        if "parameter" in (mine, theirs):
            return self._parameter_state(row)
        if "leaf" in (mine, theirs) or self._is_constant_input(sides):
            is_near = self._is_noisy and self._paired.is_floating(row) and self._paired.distance(row) <= _CONSTANT
            return State.NOISE if is_near else State.DIVERGENT
        return self._untold(row, "forward")

    def _is_constant_input(self, sides: tuple[int, ...]) -> bool:
        """Whether no gradient goes back through an input of a call through which others do: a table, a mask."""
        for graph, at in zip(self._paired.graphs, sides, strict=True):
            back = graph.gradient(at)
            if back >= 0 and graph.columns.kind[back] == NULL and any(graph.outputs(graph.call_of(back))):
                return True
        return False

    def _wired(self, row: int, made: Iterable[int]) -> State:
        """The state of an input that pairs of outputs made."""
        made = self._made_of[row] = tuple(made)
        states = {int(self._states[at]) for at in made}
        if states & set(DIFFERING):
            return State.PROPAGATED
        if State.UNKNOWN in states:
            return State.UNKNOWN
        return State.NOISE if self._paired.is_sum(row, made, self._rounding(row)) else State.DIVERGENT

    def _through(self, row: int, made: Sequence[tuple[int, int]], *, is_rewired: bool = False) -> State:
        """The state of an input that reaches the nearest pairs through calls that only one side makes."""
        known = {pair for side, at in made for pair in self._ancestors(side, at)}
        self._made_of[row] = tuple(known)
        if is_rewired:  # the two calls that made it are no pair: one tensor only where they are alike
            is_beyond = is_amplified(self._paired.distance(row), max(self._greatest.values()), self._rounding(row))
            return State.DIVERGENT if is_beyond else State.NOISE
        if any(self._is_tainted(side, at) for side, at in made):
            return State.PROPAGATED
        came = max((self._paired.distance(at) for at in known), default=0.0)
        if not is_amplified(self._paired.distance(row), came, self._rounding(row)):
            return State.NOISE
        if any(int(self._states[at]) in DIFFERING for at in known):
            return State.PROPAGATED
        return State.DIVERGENT

    def _ancestors(self, side: int, row: int) -> set[int]:
        """The nearest pairs of records from which a record was computed, through calls without a partner."""
        found, waiting, seen = set[int](), [row], {row}
        graph = self._paired.graphs[side]
        while waiting:
            at = waiting.pop()
            if (pair := int(self._paired.pair_of[side][at])) >= 0 and self._paired.pairs.are_tensors(pair):
                found.add(pair)
                continue
            call = graph.call_of(at)
            for given in graph.inputs(call):
                if graph.names[call].direction == "forward":
                    kind, made = graph.origin(given)
                    before = [made] if kind == "call" else []
                else:
                    before, _ = graph.contributions(given)
                waiting += [b for b in before if b not in seen]
                seen.update(before)
        return found

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
        return self._through(row, made)

    def _parameter_state(self, row: int) -> State:
        is_later = bool(self._paired.comparison.target.step)
        if any(reason.why in DRIFT for reason in self._paired.comparison.because(row)):
            return State.NOISE  # its update was judged
        # What a normalisation keeps of the batches is no update, and as noisy as what the batches gave.
        most = max(_DRIFT, self._rounding(row)) if self._paired.is_running(row) else _DRIFT
        if is_later and self._is_noisy and self._paired.distance(row) <= most:
            return State.NOISE
        return State.DIVERGENT

    def _untold(self, row: int, direction: str) -> State:
        """Nothing tells where an input came from: whatever differed before may have reached it."""
        if self._has_diverged["forward"] or self._has_diverged[direction]:
            return State.PROPAGATED
        is_beyond = is_amplified(self._paired.distance(row), max(self._greatest.values()), self._rounding(row))
        return State.DIVERGENT if is_beyond else State.NOISE

    def _rounding(self, row: int) -> float:
        """The relative rounding error of one call that writes a tensor; none where the runs are equal to the bit."""
        return self._kernels.floor(row) if self._is_noisy else 0.0

    # Outputs.

    def _output_state(
        self, row: int, event: Event, is_tainted: bool, came: float, inside: "tuple[bool, float] | None"
    ) -> State:
        if self._paired.equal[row] == EQUAL:
            return State.EQUAL
        grade = int(self._paired.comparison.grades[row])
        if not self._paired.pairs.are_tensors(row):
            if grade not in (_WARNING, _ERROR):
                return State.EQUAL
            return State.PROPAGATED if is_tainted else State.DIVERGENT
        if grade == _UNJUDGED:
            return State.UNKNOWN
        if inside is not None:
            return self._cell_state(row, event, is_tainted, came, inside)
        if self._kernels.is_side_product(row, event):
            return State.HARMLESS
        if row in self._kernels.by_bits:
            self._note(row, Judgement(Sign.BITS, self._class(row), 0.0), came)
            return State.DIVERGENT
        judgement = self._kernels.judgements.get(row)
        if judgement is not None and (judgement.is_wrong or judgement.is_of is not Class.OPAQUE):
            self._note(row, judgement, came)
            if judgement.is_wrong:
                is_received = judgement.sign is Sign.AMPLIFIED and self._is_told_otherwise(event)
                return State.PROPAGATED if is_received else State.DIVERGENT
            return State.PROPAGATED if is_tainted and not self._dies_out(row, event) else State.NOISE
        is_beyond = is_amplified(self._paired.distance(row), came, self._rounding(row))
        is_beyond = is_beyond and math.isfinite(came) and not self._is_told_otherwise(event)
        sign = Sign.AMPLIFIED if is_beyond else Sign.NONE
        self._note(row, Judgement(sign, Class.OPAQUE, math.nan), came)
        if is_beyond:
            return State.DIVERGENT
        return State.PROPAGATED if is_tainted and not self._dies_out(row, event) else State.NOISE

    def _is_told_otherwise(self, event: Event) -> bool:
        """Whether what a call was told differs, of which nobody knows what it explains."""
        known = self._told_otherwise.get(event.place)
        if known is None:
            rows = (r for place in (event.place, *event.forwards) for r in self._paired.rows_of(place))
            known = any(self._states[r] == State.DIVERGENT for r in rows if self._paired.is_given[r])
            self._told_otherwise[event.place] = known
        return known

    def _what_came(self, event: Event, own: Iterable[int]) -> float:
        """The greatest relative error of the inputs that differ by more than noise; 0 where an argument differs that is
        no tensor, whose effect cannot be told from noise."""
        rows = [r for r in own if int(self._states[r]) in DIFFERING]
        if not all(self._paired.pairs.are_tensors(r) for r in rows):
            return 0.0
        inherited = (r for p in event.forwards for r in self._paired.rows_of(p))
        rows += [r for r in inherited if int(self._states[r]) in DIFFERING]
        return max(map(self._paired.distance, rows), default=0.0)

    def _dies_out(self, row: int, event: Event) -> bool:
        """Whether a difference of inputs leaves no trace in an output: noise, and far less than the inputs differ."""
        if not self._is_noisy:
            return False
        distance = self._paired.distance(row)
        noise = max(_CONSTANT, 3 * self._greatest[event.direction])
        return distance <= noise and 10 * distance <= self._lost and self._paired.has_same_zeros(row)

    def _class(self, row: int) -> Class:
        output = self._kernels.outputs.get(row)
        return Class.OPAQUE if output is None else class_of(output.target.eta)

    def _inside(self, event: Event) -> "tuple[bool, float] | None":
        """Whether something inside a pair of cells diverges, and the greatest relative error of noise there; None where
        nothing is recorded inside."""
        if event.kind == "api" or (event.kind == "cell" and self._paired.is_innermost(event)):
            return None
        if event.kind not in ("cell", "parameters_grad"):
            return None
        found = False, 0.0
        for side in (0, 1):
            graph, cell = self._paired.graphs[side], int(self._paired.calls[side][event.place])
            for call in _below(graph, cell):
                place = int(self._paired.place_of[side][call])
                if graph.names[call].direction != event.direction or place < 0:
                    continue
                for row in self._paired.rows_of(place):
                    if self._paired.is_given[row]:
                        continue
                    tainted = int(self._states[row]) in DIFFERING
                    found = found[0] or tainted, max(found[1], 0.0 if tainted else self._paired.distance(row))
        return found

    def _cell_state(self, row: int, event: Event, is_tainted: bool, came: float, inside: tuple[bool, float]) -> State:
        """What a cell returns was computed inside it, and is judged there."""
        if (elsewhere := self._paired.judged_elsewhere(row)) >= 0:
            return self._wired(row, [elsewhere])
        if (judgement := self._kernels.judgements.get(row)) is not None and not judgement.is_wrong:
            self._note(row, judgement, came)
            return State.PROPAGATED if inside[0] or is_tainted else State.NOISE
        if inside[0] or is_tainted:
            return State.PROPAGATED
        explained = max(came, inside[1])
        if is_amplified(self._paired.distance(row), explained, self._rounding(row)):
            self._note(row, Judgement(Sign.AMPLIFIED, Class.OPAQUE, math.nan), explained)
            return State.DIVERGENT
        return State.NOISE

    def _note(self, row: int, judgement: Judgement, came: float) -> None:
        self._evidence[row] = self._kernels.evidence(row, judgement, came)


def _below(graph: Graph, cell: int) -> Iterable[int]:
    """The calls inside a cell's call, at any depth."""
    waiting = [cell]
    while waiting:
        for call in graph.below(waiting.pop()):
            yield call
            waiting.append(call)
