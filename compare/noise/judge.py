"""Every pair of records judged along the dataflow: equal, noise, propagated, or a divergence of its own.

An input that recorded calls made is not judged by its value where the calls that made it are a pair: it was judged
there. An output is held against its own call's inputs: by the residual of the replayed call where there is one, else by
how much greater its relative error is than that of the inputs. What cannot be noise (arguments, the first inputs of the run,
parameters before the first update, the wiring itself) must be equal.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from msprobe.base import names
from msprobe.base.errors import DumpError
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import DIFFERENT, EQUAL, NO_CAUSE, Comparison
from msprobe.compare.judge.standard import family
from msprobe.compare.judge.verdict import CAUSES, GRADES, Cause
from msprobe.compare.locate.events import Event, events
from msprobe.compare.match.frameworks import round_differently
from msprobe.compare.match.pairs import Ints
from msprobe.compare.reason import DRIFT, Reason, Reasons, Why
from msprobe.replay.result import NotReplayed, Replayed
from msprobe.store.columns import NULL, PARTS
from msprobe.store.read import load_tensor

from .precision import FULL, LOWEST, Class, Judgement, Output, Side, Sign, class_of, is_amplified, judge
from .reach import Reach
from .replays import Answer, Residuals, replayed, residuals
from .report import Evidence, Noise, PrecisionClass, State

_PASS, _WARNING, _ERROR, _UNJUDGED = (GRADES.index(grade) for grade in ("pass", "warning", "error", "unjudged"))

_KERNEL = 10 * 2.0**-23
"""The relative error of one float32 kernel: ten units in the last place."""

_CONSTANT = 1e-6
"""Up to here a constant that both sides computed in their own way is the same: some units in the last place."""

_DRIFT = 5e-4
"""Of parameters after the first update, as a share of their root mean square."""

_TINY_FAULT = 2.5
"""The only call that differs is no noise where the target's residual is so many times the golden's."""


def judge_under_noise(comparison: Comparison, *, workers: int = 1, is_shown: bool = False) -> Comparison:
    """The comparison with verdicts that know noise; the comparison itself where nothing differs.

    Replays what differs with torch, on `workers` processes (0: as many as cores).
    """
    if not (comparison.equal == DIFFERENT).any():
        return comparison
    return _Judging(comparison, workers, "replaying calls" if is_shown else "").judged()


class _Judging:
    def __init__(self, comparison: Comparison, workers: int, title: str) -> None:
        self._comparison = comparison
        pairs = self._pairs = comparison.pairs
        self._across = round_differently(comparison.target, comparison.golden)
        self._graphs = Graph(pairs.target), Graph(pairs.golden)
        self._rows = pairs.target_rows, pairs.golden_rows
        self._calls = pairs.target_calls, pairs.golden_calls
        self._pair_of = tuple(
            _inverse(rows, len(graph.columns)) for rows, graph in zip(self._rows, self._graphs, strict=True)
        )
        self._place_of = tuple(
            _inverse(calls, len(graph.names)) for calls, graph in zip(self._calls, self._graphs, strict=True)
        )
        self._is_given = comparison.is_given
        self._equal = comparison.equal
        self._states = np.zeros(len(comparison.equal), np.uint8)
        self._states[(comparison.grades == _UNJUDGED) & ~comparison.is_exempt] = State.UNKNOWN
        self._apart: dict[int, float] = {}
        self._greatest = {"forward": 0.0, "backward": 0.0, "": 0.0}  # relative errors of noise so far
        self._has_diverged = {"forward": False, "backward": False, "": False}
        self._evidence: dict[int, Evidence] = {}
        self._events = events(comparison)
        self._leaves = [e for e in self._events if e.is_matched and self._is_innermost(e)]
        self._innermost = set(self._leaves)
        self._made: dict[int, tuple[int, int]] = {}
        self._options: dict[int, str] = {}
        self._replays = self._replay(workers, title)
        self._judgements = self._judge_residuals()
        self._bits = self._by_bits()
        self._is_noisy = self._across or any(
            not self._judgements[row].is_wrong for row in self._origins if row in self._judgements
        )
        self._alone_tainted: tuple[set[int], set[int]] = (set(), set())  # outputs of unmatched calls, by side
        self._made_of: dict[int, tuple[int, ...]] = {}  # an input, or what a cell returned -> the outputs that it is

    # What is replayed, and what the residuals say.

    def _is_innermost(self, event: Event) -> bool:
        """Whether a pair of calls computes itself: an API, or a cell inside which nothing is recorded."""
        if event.kind not in ("api", "cell") or not event.direction:
            return False
        if event.kind == "api":
            return True
        for side in (0, 1):
            graph, call = self._graphs[side], int(self._calls[side][event.place])
            forward = graph.number.get(names.counterpart(graph.columns.names[call], "forward"), call)
            if forward in graph.inside or call in graph.inside:
                return False
        return True

    def _outputs(self, event: Event) -> list[int]:
        return [row for row in event.rows if not self._is_given[row]]

    def _replay(self, workers: int, title: str) -> tuple[dict[int, Answer], dict[int, Answer]]:
        """By side and call: the replays of what made the outputs that differ."""
        calls: tuple[dict[int, None], dict[int, None]] = ({}, {})
        for event in self._events:
            for row in self._differing(event):
                for side, at in enumerate(self._makers(row)):
                    calls[side][self._graphs[side].call_of(at)] = None
        found = replayed((self._pairs.target, self._pairs.golden), [sorted(mine) for mine in calls], workers, title)
        return found[0], found[1]

    def _differing(self, event: Event) -> list[int]:
        """The pairs of tensors among the outputs of a pair of calls that differ, and were not judged elsewhere."""
        if not event.is_matched:
            return []
        rows = [r for r in self._outputs(event) if self._equal[r] == DIFFERENT and self._pairs.are_tensors(r)]
        if event in self._innermost:
            return rows
        return [r for r in rows if self._judged_elsewhere(r) < 0]

    def _judged_elsewhere(self, row: int) -> int:
        """The pair of outputs, of calls inside, that a pair of outputs of cells is; -1 for none."""
        found = {int(self._pair_of[side][at]) for side, at in enumerate(self._makers(row))}
        return found.pop() if len(found) == 1 and row not in found else -1

    def _makers(self, row: int) -> tuple[int, int]:
        """The two records that the calls wrote which computed a pair of outputs; innermost ones."""
        known = self._made.get(row)
        if known is None:
            t, g = (graph.alias(int(self._rows[side][row])) for side, graph in enumerate(self._graphs))
            known = self._made[row] = t, g
        return known

    def _judge_residuals(self) -> dict[int, Judgement]:
        """By row of an output that was replayed on both sides."""
        outputs: dict[int, Output] = {}
        for event in self._events:
            for row in self._differing(event):
                found = self._residuals(row)
                if found is None or min(found.target.count, found.golden.count) == 0:
                    continue
                self._options[row] = found.option
                t, g = found.target, found.golden
                outputs[row] = Output(
                    (found.operation, event.direction, t.path[:1] if event.kind == "api" else event.kind),
                    _place(event),
                    t.count,
                    found.moves_data,
                    Side(t.eta, t.peak, t.bias, t.slope, t.relative),
                    Side(g.eta, g.peak, g.bias, g.slope, g.relative),
                    found.is_exhaustive,
                )
        self._outputs_of = outputs
        return dict(zip(outputs, judge(list(outputs.values())), strict=True))

    def _residuals(self, row: int) -> Residuals | None:
        keys, answers = [], []
        for side, (graph, at) in enumerate(zip(self._graphs, self._makers(row), strict=True)):
            columns = graph.columns
            keys.append((PARTS[columns.part[at]], columns.paths[columns.path[at]]))
            answers.append(self._replays[side].get(graph.call_of(at)))
        golden = self._graphs[1]
        return residuals(answers[0], answers[1], keys[0], keys[1], golden.values(golden.call_of(self._makers(row)[1])))

    # Where things are equal to the bit, keep the bits.

    def _by_bits(self) -> set[int]:
        """The rows of outputs that differ although all inputs, and the outputs of most calls like it, are equal."""
        self._origins: list[int] = []
        same: Counter[Hashable] = Counter()
        others: dict[Hashable, list[int]] = defaultdict(list)
        reproducible = 0
        for event in self._leaves:
            if not self._has_equal_inputs(event):
                continue
            rows = [r for r in self._outputs(event) if self._pairs.are_tensors(r) and self._is_floating(r)]
            if not rows:
                continue
            differing = [r for r in rows if self._equal[r] == DIFFERENT]
            key = self._likeness(event)
            if differing:
                others[key].append(event.place)
                self._origins += differing
            elif not all(map(self._is_constant, rows)):
                same[key] += 1
                reproducible += 1
        if self._across:
            return set()
        found: set[int] = set()
        for key, places in others.items():
            rows = [r for place in places for r in self._origins if self._pairs.call_of[r] == place]
            if same[key] > len(places):
                found.update(r for r in rows if not self._is_coarse(r))
        if len(self._origins) and len({int(self._pairs.call_of[r]) for r in self._origins}) == 1 and not found:
            measured = [r for r in self._origins if r in self._outputs_of]
            found.update(r for r in measured or self._origins if self._is_tiny_fault(r, reproducible))
        return found

    def _is_constant(self, row: int) -> bool:
        """Whether all elements of a tensor are one number: zeros times anything are zeros in any kernel."""
        columns, at = self._pairs.target.columns, int(self._rows[0][row])
        return columns.max[at] == columns.min[at]

    def _is_coarse(self, row: int) -> bool:
        """Whether an output is as coarse as others of its precision class."""
        output = self._outputs_of.get(row)
        return output is not None and output.target.eta > FULL and not self._judgements[row].is_wrong

    def _is_tiny_fault(self, row: int, reproducible: int) -> bool:
        """Whether the only call that differs, of many that could, is told apart from noise by its residual."""
        output = self._outputs_of.get(row)
        if output is None:
            return True
        if self._is_coarse(row):
            return False
        t, g = output.target, output.golden
        return reproducible >= 1 and (t.eta > _TINY_FAULT * g.eta or t.peak > 2 * _TINY_FAULT * g.peak)

    def _has_equal_inputs(self, event: Event) -> bool:
        rows = [r for p in (event.place, *event.forwards) for r in self._rows_of(p)]
        if event.direction == "forward":
            rows = [r for r in rows if self._is_given[r]]
        else:
            rows = [r for r in rows if self._pairs.call_of[r] != event.place or self._is_given[r]]
        return all(
            self._equal[r] == EQUAL or (self._comparison.grades[r] == _PASS and not self._pairs.are_tensors(r))
            for r in rows
        )

    def _rows_of(self, place: int) -> range:
        starts = self._pairs.starts
        return range(int(starts[place]), int(starts[place + 1]))

    def _likeness(self, event: Event) -> Hashable:
        """What two calls have in common that one kernel computes in the same way: operation and shapes."""
        columns = self._pairs.target.columns
        name = names.parse(event.called)
        stem = name.stem if event.kind == "api" else name.stem.rpartition(".")[2]
        looks = tuple(columns.look[int(self._rows[0][r])] for r in event.rows if self._rows[0][r] >= 0)
        return stem, event.direction, looks

    def _is_floating(self, row: int) -> bool:
        columns = self._pairs.target.columns
        return family(columns.looks[columns.look[int(self._rows[0][row])]][1]) in ("float", "complex")

    # The walk.

    def judged(self) -> Comparison:
        for event in self._events:
            if event.is_matched:
                self._visit(event)
            else:
                self._visit_unmatched(event)
        self._harmless = self._dying_out()
        return self._entered()

    def _dying_out(self) -> tuple[int, ...]:
        """Mark the differences that reach nothing that counts; the pairs of records where they originate."""
        if not self._is_noisy:
            return ()
        graph, pairs = self._graphs[0], self._pair_of[0]
        differing = (State.PROPAGATED, State.DIVERGENT)

        def differs(at: int) -> bool:
            pair = int(pairs[at])
            return int(self._states[pair]) in differing if pair >= 0 else at in self._alone_tainted[0]

        reach = Reach(graph, differs)
        dead: list[int] = []
        live: list[int] = []
        for event in self._events:
            if not event.is_matched:
                if event.side == "target":
                    live += graph.outputs(int(self._calls[0][event.place]))
                continue
            own = [row for row in event.rows if self._states[row] == State.DIVERGENT]
            if not own:
                continue
            wrong = [row for row in own if not self._is_given[row]] or [
                row for row in self._outputs(event) if int(self._states[row]) in differing
            ]
            rows = [int(self._rows[0][row]) for row in wrong]
            is_live = any(map(self._is_parameter, own)) or any(at < 0 or reach.is_live(at) for at in rows)
            (live if is_live else dead).extend(at for at in rows if at >= 0)
            if not is_live:
                self._states[own] = State.HARMLESS
        if not (self._states == State.HARMLESS).any():
            return ()
        origins = tuple(np.flatnonzero(self._states == State.HARMLESS).tolist())
        self._spare(reach.reached(dead) - reach.reached(live))
        return origins

    def _is_parameter(self, row: int) -> bool:
        at = int(self._rows[0][row])
        return self._is_given[row] and self._graphs[0].origin(at)[0] == "parameter"

    def _spare(self, rows: set[int]) -> None:
        """Mark what only harmless differences reach: rows of the target, and the inputs and cells that are the same."""
        for at in rows:
            if (pair := int(self._pair_of[0][at])) >= 0 and self._states[pair] == State.PROPAGATED:
                self._states[pair] = State.HARMLESS
        for event in self._events:
            for row in event.rows if event.is_matched else ():
                if self._states[row] != State.PROPAGATED:
                    continue
                made = self._made_of.get(row)
                inside = None if made or self._is_given[row] else self._inside(event)
                is_live = any(int(self._states[at]) in (State.PROPAGATED, State.DIVERGENT) for at in made or ())
                if (made and not is_live) or (inside is not None and not inside[0]):
                    self._states[row] = State.HARMLESS

    def _visit(self, event: Event) -> None:
        given = [r for r in event.rows if self._is_given[r]]
        own = [r for p in event.owners for r in self._rows_of(p) if self._is_given[r]] or given
        for row in given:
            self._set(row, self._input_state(row, event), event)
        inherited = [r for p in event.forwards for r in self._rows_of(p)]
        states = {int(self._states[r]) for r in (*own, *inherited)}
        is_tainted = bool(states & {State.PROPAGATED, State.DIVERGENT})
        self._lost = self._what_came(event, own)
        came = max((self._distance(r) for r in (*own, *inherited) if self._pairs.are_tensors(r)), default=0.0)
        inside = self._inside(event)
        for row in self._outputs(event):
            self._set(row, self._output_state(row, event, is_tainted, came, inside), event)

    def _set(self, row: int, state: State, event: Event) -> None:
        if self._states[row] == State.UNKNOWN and state != State.DIVERGENT:
            return
        self._states[row] = state
        if state == State.NOISE:
            distance = self._distance(row)
            self._greatest[event.direction] = max(self._greatest[event.direction], distance)
        elif state in (State.PROPAGATED, State.DIVERGENT):
            self._has_diverged[event.direction] = True

    def _visit_unmatched(self, event: Event) -> None:
        """What only one side computes is transparent: a propagated difference goes through."""
        side = 0 if event.side == "target" else 1
        graph, call = self._graphs[side], int(self._calls[side][event.place])
        rows = [*graph.inputs(call)]
        if event.direction == "forward":
            sources = [made for kind, made in map(graph.origin, rows) if kind == "call"]
        else:
            sources = [made for row in rows for made in graph.contributions(row)[0]]
        if any(self._is_tainted(side, made) for made in sources):
            self._alone_tainted[side].update(graph.outputs(call))

    def _is_tainted(self, side: int, row: int) -> bool:
        pair = int(self._pair_of[side][row])
        if pair >= 0:
            return int(self._states[pair]) in (State.PROPAGATED, State.DIVERGENT)
        return row in self._alone_tainted[side]

    # Inputs.

    def _input_state(self, row: int, event: Event) -> State:
        if self._equal[row] == EQUAL:
            return State.EQUAL
        if not self._pairs.are_tensors(row):
            is_wrong = self._comparison.grades[row] in (_WARNING, _ERROR)
            return State.DIVERGENT if is_wrong else State.EQUAL
        if self._comparison.grades[row] == _UNJUDGED:
            return State.UNKNOWN
        sides = tuple(int(rows[row]) for rows in self._rows)
        if event.direction == "backward":
            return self._incoming_state(row, sides)
        (mine, t), (theirs, g) = (graph.origin(at) for graph, at in zip(self._graphs, sides, strict=True))
        if mine == theirs == "call":
            made = int(self._pair_of[0][t]), int(self._pair_of[1][g])
            if made[0] >= 0 and made[0] == made[1]:
                return self._wired(row, [made[0]])
            return self._through(row, [(0, t), (1, g)], is_rewired=min(made) >= 0)
        if "call" in (mine, theirs):
            side, at = (0, t) if mine == "call" else (1, g)
            return self._through(row, [(side, at)], is_rewired=int(self._pair_of[side][at]) >= 0)
        if "parameter" in (mine, theirs):
            return self._parameter_state(row)
        if "leaf" in (mine, theirs) or self._is_constant_input(sides):
            is_near = self._is_noisy and self._is_floating(row) and self._distance(row) <= _CONSTANT
            return State.NOISE if is_near else State.DIVERGENT
        return self._untold(row, "forward")

    def _is_constant_input(self, sides: tuple[int, ...]) -> bool:
        """Whether no gradient goes back through an input of a call through which others do: a table, a mask."""
        for graph, at in zip(self._graphs, sides, strict=True):
            back = graph.gradient(at)
            if back >= 0 and graph.columns.kind[back] == NULL and any(graph.outputs(graph.call_of(back))):
                return True
        return False

    def _wired(self, row: int, made: Iterable[int]) -> State:
        """The state of an input that pairs of outputs made."""
        made = self._made_of[row] = tuple(made)
        states = {int(self._states[at]) for at in made}
        if states & {State.PROPAGATED, State.DIVERGENT}:
            return State.PROPAGATED
        return State.UNKNOWN if State.UNKNOWN in states else State.NOISE

    def _through(self, row: int, made: Sequence[tuple[int, int]], *, is_rewired: bool = False) -> State:
        """The state of an input that reaches the nearest pairs through calls that only one side makes."""
        known = {pair for side, at in made for pair in self._ancestors(side, at)}
        self._made_of[row] = tuple(known)
        if is_rewired:  # the two calls that made it are no pair: one tensor only where they are alike
            is_beyond = is_amplified(self._distance(row), max(self._greatest.values()), self._floor(row))
            return State.DIVERGENT if is_beyond else State.NOISE
        if any(self._is_tainted(side, at) for side, at in made):
            return State.PROPAGATED
        came = max((self._distance(at) for at in known), default=0.0)
        if not is_amplified(self._distance(row), came, self._floor(row)):
            return State.NOISE
        if any(int(self._states[at]) in (State.PROPAGATED, State.DIVERGENT) for at in known):
            return State.PROPAGATED
        return State.DIVERGENT

    def _ancestors(self, side: int, row: int) -> set[int]:
        """The nearest pairs of records from which a record was computed, through calls without a partner."""
        found, waiting, seen = set[int](), [row], {row}
        graph = self._graphs[side]
        while waiting:
            at = waiting.pop()
            if (pair := int(self._pair_of[side][at])) >= 0 and self._pairs.are_tensors(pair):
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
            graph.contributions(at) for graph, at in zip(self._graphs, sides, strict=True)
        )
        mine = {int(self._pair_of[0][at]) for at in ours}
        other = {int(self._pair_of[1][at]) for at in theirs}
        made = [(0, at) for at in ours] + [(1, at) for at in theirs]
        if not made:
            return self._untold(row, "backward")
        if mine == other and -1 not in mine and whole_t and whole_g:
            return self._wired(row, mine)
        return self._through(row, made)

    def _parameter_state(self, row: int) -> State:
        is_later = bool(self._comparison.target.step)
        if any(reason.why in DRIFT for reason in self._comparison.because(row)):
            return State.NOISE  # its update was judged
        if is_later and self._is_noisy and self._distance(row) <= _DRIFT:
            return State.NOISE
        return State.DIVERGENT

    def _untold(self, row: int, direction: str) -> State:
        """Nothing tells where an input came from: whatever differed before may have reached it."""
        if self._has_diverged["forward"] or self._has_diverged[direction]:
            return State.PROPAGATED
        came = max(self._greatest.values())
        return State.DIVERGENT if is_amplified(self._distance(row), came, self._floor(row)) else State.NOISE

    # Outputs.

    def _output_state(
        self, row: int, event: Event, is_tainted: bool, came: float, inside: "tuple[bool, float] | None"
    ) -> State:
        if self._equal[row] == EQUAL:
            return State.EQUAL
        grade = int(self._comparison.grades[row])
        if not self._pairs.are_tensors(row):
            if grade not in (_WARNING, _ERROR):
                return State.EQUAL
            return State.PROPAGATED if is_tainted else State.DIVERGENT
        if grade == _UNJUDGED:
            return State.UNKNOWN
        if inside is not None:
            return self._cell_state(row, event, is_tainted, came, inside)
        if row in self._bits:
            self._note(row, Judgement(Sign.BITS, self._class(row), 0.0), came)
            return State.DIVERGENT
        judgement = self._judgements.get(row)
        if judgement is not None and (judgement.is_wrong or judgement.is_of is not Class.OPAQUE):
            self._note(row, judgement, came)
            if judgement.is_wrong:
                return State.DIVERGENT
            return State.PROPAGATED if is_tainted and not self._dies_out(row, event) else State.NOISE
        if judgement is None and self._is_side_product(row, event):
            return State.HARMLESS
        distance, floor = self._distance(row), self._floor(row)
        is_beyond = is_amplified(distance, came, floor if self._is_noisy else 0.0)
        # What the call was told differs, and nobody knows what that explains.
        is_beyond = (
            is_beyond
            and math.isfinite(came)
            and not any(self._states[r] == State.DIVERGENT for r in event.rows if self._is_given[r])
        )
        sign = Sign.AMPLIFIED if is_beyond else Sign.NONE
        self._note(row, Judgement(sign, Class.OPAQUE, math.nan), came)
        if is_beyond:
            return State.DIVERGENT
        return State.PROPAGATED if is_tainted and not self._dies_out(row, event) else State.NOISE

    def _is_side_product(self, row: int, event: Event) -> bool:
        """Whether an output is none that the operation defines, and nobody uses it: what a kernel saves for itself, or
        the memory that it was handed (batch statistics of BatchNorm)."""
        if not any(r in self._judgements or self._equal[r] == EQUAL for r in self._outputs(event) if r != row):
            return False
        return (
            event.direction == "forward"
            and event.kind == "api"
            and not any(graph.users.get(int(self._rows[side][row])) for side, graph in enumerate(self._graphs))
            and any(
                isinstance(self._replays[side].get(int(self._calls[side][event.place])), Replayed) for side in (0, 1)
            )
        )

    def _what_came(self, event: Event, own: Iterable[int]) -> float:
        """The greatest relative error of the inputs that differ by more than noise; 0 where an argument differs that is
        no tensor, whose effect cannot be told from noise."""
        rows = [r for r in own if int(self._states[r]) in (State.PROPAGATED, State.DIVERGENT)]
        if not all(self._pairs.are_tensors(r) for r in rows):
            return 0.0
        inherited = (r for p in event.forwards for r in self._rows_of(p))
        rows += [r for r in inherited if int(self._states[r]) in (State.PROPAGATED, State.DIVERGENT)]
        return max(map(self._distance, rows), default=0.0)

    def _dies_out(self, row: int, event: Event) -> bool:
        """Whether a difference of inputs leaves no trace in an output: noise, and far less than the inputs differ."""
        if not self._is_noisy:
            return False
        distance = self._distance(row)
        noise = max(_CONSTANT, 3 * self._greatest[event.direction])
        return distance <= noise and 10 * distance <= self._lost and self._has_same_zeros(row)

    def _has_same_zeros(self, row: int) -> bool:
        """Whether the same elements are zero on both sides: rounding makes no zero of a small number, nor the other way
        round, but a mask that is too weak does."""
        pair = self._pairs.pair(row)
        if pair.target is None or pair.golden is None or row in self._pairs.notes.views:
            return True
        try:
            t, g = load_tensor(self._pairs.target, pair.target), load_tensor(self._pairs.golden, pair.golden)
        except DumpError:
            return True
        return t.shape != g.shape or bool(np.array_equal(t == 0, g == 0))

    def _class(self, row: int) -> Class:
        output = self._outputs_of.get(row)
        return Class.OPAQUE if output is None else class_of(output.target.eta)

    def _inside(self, event: Event) -> "tuple[bool, float] | None":
        """Whether something inside a pair of cells diverges, and the greatest relative error of noise there; None where
        nothing is recorded inside."""
        if event.kind == "api" or (event.kind == "cell" and self._is_innermost(event)):
            return None
        if event.kind not in ("cell", "parameters_grad"):
            return None
        found = False, 0.0
        for side in (0, 1):
            graph, cell = self._graphs[side], int(self._calls[side][event.place])
            for call in _below(graph, cell):
                place = int(self._place_of[side][call])
                if graph.names[call].direction != event.direction or place < 0:
                    continue
                for row in self._rows_of(place):
                    if self._is_given[row]:
                        continue
                    tainted = int(self._states[row]) in (State.PROPAGATED, State.DIVERGENT)
                    found = found[0] or tainted, max(found[1], 0.0 if tainted else self._distance(row))
        return found

    def _cell_state(self, row: int, event: Event, is_tainted: bool, came: float, inside: tuple[bool, float]) -> State:
        """What a cell returns was computed inside it, and is judged there."""
        if (elsewhere := self._judged_elsewhere(row)) >= 0:
            return self._wired(row, [elsewhere])
        if (judgement := self._judgements.get(row)) is not None and not judgement.is_wrong:
            self._note(row, judgement, came)
            return State.PROPAGATED if inside[0] or is_tainted else State.NOISE
        if inside[0] or is_tainted:
            return State.PROPAGATED
        explained = max(came, inside[1])
        if is_amplified(self._distance(row), explained, self._floor(row) if self._is_noisy else 0.0):
            self._note(row, Judgement(Sign.AMPLIFIED, Class.OPAQUE, math.nan), explained)
            return State.DIVERGENT
        return State.NOISE

    def _note(self, row: int, judgement: Judgement, came: float) -> None:
        output = self._outputs_of.get(row)
        self._evidence[row] = Evidence(
            judgement.sign,
            judgement.is_of,
            math.nan if output is None else output.target.eta,
            math.nan if output is None else output.golden.eta,
            judgement.bound,
            self._distance(row),
            10 * came,
            self._options.get(row, ""),
        )

    # Distances.

    def _distance(self, row: int) -> float:
        """The relative error of a pair of tensors: the norm of the difference over the golden's."""
        known = self._apart.get(row)
        if known is None:
            known = self._apart[row] = self._measured(row)
        return known

    def _measured(self, row: int) -> float:
        if self._equal[row] == EQUAL or not self._pairs.are_tensors(row):
            return 0.0
        if self._comparison.grades[row] == _UNJUDGED:
            return 0.0
        found = self._comparison.measures.get(row)
        if found is None or found.mismatched:
            return math.inf
        golden = self._pairs.golden.columns.norm[int(self._rows[1][row])]
        if golden != golden and row in self._comparison.described:
            golden = float(self._comparison.described[row][1].norm or math.nan)
        if found.euclid == 0:
            return 0.0
        if not math.isfinite(golden) and found.scale_error:  # infinities on both sides: the finite elements count
            golden = math.sqrt(found.size) * found.max_absolute / found.scale_error
        return found.euclid / abs(golden) if golden and math.isfinite(golden) else math.inf

    def _floor(self, row: int) -> float:
        """The relative rounding error of one call that writes this tensor, in the coarsest class of the two runs."""
        columns = self._pairs.golden.columns
        dtype = columns.looks[columns.look[int(self._rows[1][row])]][1]
        unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype.rsplit(".", 1)[-1].lower(), 2.0**-23)
        return max(10 * unit, self._coarsest)

    @property
    def _coarsest(self) -> float:
        if self._coarse is None:
            found = [
                max(o.target.eta, o.golden.eta)
                for row, o in self._outputs_of.items()
                if not self._judgements[row].is_wrong and max(o.target.eta, o.golden.eta) <= LOWEST
            ]
            greatest = max(found, default=0.0)
            self._coarse = 3 * greatest if greatest > FULL else 0.0
        return self._coarse

    _coarse: float | None = None
    _lost: float = 0.0

    # What comes of it.

    def _entered(self) -> Comparison:
        """The comparison with what is noise as a pass, and what diverges at least as a warning."""
        comparison, states = self._comparison, self._states
        grades, causes = comparison.grades.copy(), comparison.causes.copy()
        reasons = dict(comparison.reasons)
        for row in np.flatnonzero(states == State.NOISE).tolist():
            if grades[row] in (_WARNING, _ERROR):
                grades[row], causes[row] = _PASS, NO_CAUSE
                reasons[row] = self._why(row)
        for row in np.flatnonzero(states == State.DIVERGENT).tolist():
            evidence = self._evidence.get(row)
            if evidence is None or evidence.sign is Sign.BITS:
                continue
            if grades[row] == _PASS:
                grades[row] = _WARNING
            reasons[row] = (*comparison.because(row), *self._why(row))
        for row in np.flatnonzero(states == State.HARMLESS).tolist():
            grades[row], causes[row] = _UNJUDGED, CAUSES.index(Cause.HARMLESS)
            reasons[row] = (Reason(Why.DIES_OUT),)
        which = comparison.which.copy()
        which[(states == State.NOISE) | (states == State.HARMLESS)] = -1
        answers = [answer for side in self._replays for answer in side.values()]
        noise = Noise(
            states,
            self._evidence,
            tuple(self._classes()),
            not self._is_noisy,
            self._harmless,
            sum(isinstance(a, Replayed) for a in answers),
            Counter(a.cause.value for a in answers if isinstance(a, NotReplayed)),
        )
        return replace(comparison, grades=grades, causes=causes, reasons=reasons, which=which, noise=noise)

    def _why(self, row: int) -> Reasons:
        """What decided about a pair of records, as a reason."""
        evidence = self._evidence.get(row)
        if evidence is None:
            return (Reason(Why.NOISE_BEFORE),)
        if evidence.bound == evidence.bound and evidence.residual == evidence.residual:
            why = Why.NOISE if evidence.sign is Sign.NONE else Why.RESIDUAL
            numbers = {"amount": evidence.residual, "excess": evidence.golden_residual, "allowed": evidence.bound}
            return (Reason(why)._replace(name=evidence.sign.value, **numbers),)
        why = Why.NOISE_AMPLIFIED if evidence.sign is Sign.NONE else Why.BEYOND_INPUTS
        return (Reason(why, amount=evidence.apart, allowed=evidence.explained),)

    def _classes(self) -> Iterable[PrecisionClass]:
        for side in ("target", "golden"):
            found: dict[Class, Counter[str]] = defaultdict(Counter)
            for row, output in self._outputs_of.items():
                eta = getattr(output, side).eta
                if FULL < eta <= LOWEST and not self._judgements[row].is_wrong and not output.moves_data:
                    found[class_of(eta)][output.kind[0]] += 1  # type: ignore[index]  # a tuple, above
            for is_of, operations in found.items():
                yield PrecisionClass(side, is_of, tuple(op for op, _ in operations.most_common()), operations.total())


def _inverse(rows: Ints, size: int) -> Ints:
    """By row of a dump: the pair that it stands in, -1 for none."""
    found = np.full(size, -1, np.int64)
    known = np.flatnonzero(rows >= 0)
    found[rows[known[::-1]]] = known[::-1]
    return found


def _below(graph: Graph, cell: int) -> Iterable[int]:
    """The calls inside a cell's call, at any depth."""
    waiting = [cell]
    while waiting:
        for call in graph.below(waiting.pop()):
            yield call
            waiting.append(call)


def _place(event: Event) -> str:
    """Where a call stands, without the numbers of layers."""
    parent = event.parents[0] if event.parents else ""
    path = names.parse(parent).path if parent else ""
    name = names.parse(event.called)
    own = name.path if event.kind == "cell" else name.stem
    return ".".join("#" if part.isdigit() else part for part in f"{path}/{own}".split("."))
