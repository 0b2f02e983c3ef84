"""Find why an input differs: its origin, and whether that differs, too.

Two values agree if they are bitwise equal, as long as all earlier values are; after that, if they are within the
standard. So the rule is exact after equal inputs: a first difference is found however small it is. Two frameworks are
never bitwise equal, so between them the verdict counts from the start.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from msprobe.compare.core.exemptions import Stage, exemptions_of
from msprobe.compare.core.noise import State
from msprobe.compare.core.reason import CAUSES, Cause, Reason, Why
from msprobe.compare.core.standard import family
from msprobe.compare.core.tensor import UNKNOWN, Identity, Source, source_of
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import DIFFERENT, EQUAL, Comparison, calls_with, kind_of
from msprobe.compare.judge.verdict import GRADES, path_of
from msprobe.store.record import TENSOR

from .finding import Dataflow

_AGREES, _DIFFERS, _UNKNOWN, _ONE_SIDED = range(4)


@dataclass(slots=True, eq=False)  # not frozen, as `Event`
class Seen:
    """One event and its pairs of records that do not agree, by their rows in the comparison."""

    event: Event
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    unknown_inputs: tuple[int, ...] = ()
    unknown_outputs: tuple[int, ...] = ()

    @property
    def agrees(self) -> bool:
        """Return whether everything is known and equal."""
        return not (self.inputs or self.outputs or self.unknown_inputs or self.unknown_outputs)


def walk(comparison: Comparison, events: Sequence[Event]) -> list[Seen]:
    """Return the pairs of records of each event that do not agree, in execution order."""
    rule = _Rule(comparison)
    return [rule.seen(event) for event in events]


class _Rule:
    """Decides which pairs of records agree: bitwise up to the first difference, within the standard after it."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._exact = not comparison.relation.has_other_kernels
        self._exemptions = exemptions_of(Stage.LOCATE, comparison.relation)
        self._rows = comparison.pairs.rows
        self._is_input = comparison.is_input.tobytes()
        self._is_different = (comparison.equal == DIFFERENT).tobytes()
        exact = np.full(len(comparison.equal), _UNKNOWN)
        exact[comparison.equal == EQUAL] = _AGREES
        exact[comparison.equal == DIFFERENT] = _DIFFERS
        sides = np.minimum(comparison.pairs.target_rows, comparison.pairs.golden_rows)
        exact[sides < 0] = _ONE_SIDED
        for row, partnerless in comparison.pairs.notes.partnerless.items():
            exact[row] = _DIFFERS if partnerless.is_wrong else _AGREES
        exact[comparison.is_exempt & ((sides >= 0) | (comparison.noise is not None and not self._exact))] = _AGREES
        exact[comparison.causes == CAUSES.index(Cause.REWRITTEN)] = _AGREES
        by_grade = np.array([{"pass": _AGREES, "unjudged": _UNKNOWN}.get(grade, _DIFFERS) for grade in GRADES])
        later = np.where(exact == _DIFFERS, by_grade[comparison.grades], exact)
        if comparison.noise is not None:  # judged along the dataflow: the states decide, from the first call on
            self._exact = False
            known = (sides >= 0) & (comparison.noise.states != State.UNKNOWN) & ~comparison.is_exempt
            later = np.where(known, np.where(comparison.noise.differs(), _DIFFERS, _AGREES), later)
        if comparison.excused is not None:
            excused = list(comparison.excused.rows)
            exact[excused] = later[excused] = _AGREES
        self._codes = {True: exact.astype(np.uint8).tobytes(), False: later.astype(np.uint8).tobytes()}
        self._dirty = {
            True: (calls_with(comparison, exact != _AGREES) > 0).tobytes(),
            False: (calls_with(comparison, later != _AGREES) > 0).tobytes(),
        }

    def seen(self, event: Event) -> Seen:
        """Return the pairs of one event that do not agree; after that the rule may be less strict."""
        dirty = self._dirty[self._exact]
        if not (event.owners or event.forwards):
            if not dirty[event.place]:
                return Seen(event)
            if not self._exact:
                return self._seen_alone(event)
        elif not any(dirty[place] for place in (event.place, *event.owners, *event.forwards)):
            return Seen(event)
        own = [row for place in event.owners or (event.place,) for row in self._rows(place) if self._is_input[row]]
        outputs = [row for row in self._rows(event.place) if not self._is_input[row]]
        inherited = [row for place in event.forwards for row in self._rows(place)]
        differing_inputs, unknown_inputs = self._split((*own, *inherited), event)
        self._note(own)
        differing_outputs, unknown_outputs = self._split(outputs, event)
        self._note(outputs)
        return Seen(event, differing_inputs, differing_outputs, unknown_inputs, unknown_outputs)

    def _seen_alone(self, event: Event) -> Seen:
        """Like `seen`, for a call without records of other calls, if the rule is not strict any more."""
        codes, is_input = self._codes[False], self._is_input
        inputs: list[int] = []
        outputs: list[int] = []
        unknown_inputs: list[int] = []
        unknown_outputs: list[int] = []
        for row in event.rows:
            if (code := codes[row]) == _ONE_SIDED:
                code = self._of_one_side(row, event)
            if code == _DIFFERS:
                (inputs if is_input[row] else outputs).append(row)
            elif code == _UNKNOWN:
                (unknown_inputs if is_input[row] else unknown_outputs).append(row)
        return Seen(event, tuple(inputs), tuple(outputs), tuple(unknown_inputs), tuple(unknown_outputs))

    def _note(self, rows: Iterable[int]) -> None:
        self._exact = self._exact and not any(self._is_different[row] for row in rows)

    def _split(self, rows: Iterable[int], event: Event) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the rows that differ, and the unknown ones."""
        codes = self._codes[self._exact]
        differing, unknown = [], []
        for row in rows:
            code = codes[row]
            if code == _ONE_SIDED:
                code = self._of_one_side(row, event)
            if code == _DIFFERS:
                differing.append(row)
            elif code == _UNKNOWN:
                unknown.append(row)
        return tuple(differing), tuple(unknown)

    def _of_one_side(self, row: int, event: Event) -> int:
        """Return what follows from a record without a counterpart."""
        if any(exemption.function(self._comparison, row) is not None for exemption in self._exemptions):
            return _AGREES
        return _DIFFERS if event.is_matched and self._was_left_out(row, event) else _UNKNOWN

    def _was_left_out(self, row: int, event: Event) -> bool:
        """Return whether the other side has no such value, rather than not having collected it."""
        pair = self._comparison.pairs.pair(row)
        there = "golden" if pair.target else "target"
        dump, calls, _ = self._comparison.sides[there]
        at, place = int(calls[event.place]), path_of(pair.record)
        if any(place == gap or place.startswith(gap + ".") for gap in dump.calls.missing(at)):
            return False
        return kind_of(pair.record) in self._comparison.collected[there]


def passed_on_one_side(comparison: Comparison, row: int) -> Reason | None:
    """Return the reason that a value of one side begins no difference: the other side has it by default."""
    pair = comparison.pairs.pair(row)
    return None if pair.record.kind == "tensor" else Reason(Why.ONE_SIDE, "target" if pair.target else "golden")


class InputCause(NamedTuple):
    """The reason why one input differs.

    | kind | meaning | `names` |
    |---|---|---|
    | `received` | its producer differs; `finding` is where that begins | |
    | `parameter` | it is a parameter | |
    | `exchanged` | it is a different one of the parameters that both sides have | the target's and the golden's |
    | `value` | it is not a tensor, or on one side only | |
    | `leaf` | no recorded call returned it | |
    | `code` | its producer agrees, or was not recorded, see `dataflow` | see `dataflow` |
    | `unclear` | a required record is missing | that record |
    """

    kind: Literal["received", "parameter", "exchanged", "value", "leaf", "code", "unclear"]
    names: tuple[str, ...] = ()
    dataflow: Dataflow = Dataflow.UNKNOWN
    finding: int = -1


_UNRECORDED = InputCause("code", dataflow=Dataflow.UNRECORDED)


class Causes:
    """Finds the causes of the differing inputs of one comparison; looks values up only once something differs."""

    def __init__(self, comparison: Comparison, seen: Sequence[Seen], origin: dict[int, int]) -> None:
        self._seen = seen
        self._origin = origin  # event -> the finding that it belongs to; grows while the caller walks
        self._comparison = comparison
        self._has_other_names = comparison.relation.has_other_names
        self._last_received = InputCause("received")
        # An event, and its inputs.
        self._marks_of: tuple[int, dict[tuple[Identity | None, Identity | None], str]] = (-1, {})
        self._sides = comparison.sides
        self._calls = {name: side.calls.data for name, side in self._sides.items()}
        self._target_rows, self._golden_rows = comparison.pairs.target_rows.data, comparison.pairs.golden_rows.data
        self.graphs = {name: Graph(side.dump) for name, side in self._sides.items()}

    @cached_property
    def _events(self) -> dict[tuple[str, str], int]:
        """Side and name of a call -> its event."""
        return {
            (side, self.graphs[side].columns.names[calls[s.event.place]]): s.event.at
            for side, calls in ((name, side.calls.tolist()) for name, side in self._sides.items())
            for s in self._seen
            if calls[s.event.place] >= 0
        }

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        """Return by side the row of every pair of records."""
        return {name: side.rows.tolist() for name, side in self._sides.items()}

    def event_of(self, side: str, call: str) -> int | None:
        """Return the event of a side's call; None for a call that was not recorded."""
        return self._events.get((side, call))

    def of(self, row: int, event: Event, latest: int) -> InputCause:
        """Return the cause of one differing input; `latest` is the number of the previous divergence, -1 without
        any."""
        if latest >= 0 and self._are_untraced[row] and row in event.rows and not event.owners:
            return self._received_from(latest)
        pairs = self._comparison.pairs
        if not event.owns(row, pairs):
            # A backward call has the inputs and outputs of its forward.
            finding = self._origin.get(event.forward, latest) if event.forward is not None else latest
            if finding >= 0:
                return InputCause("received", finding=finding)
            return InputCause("unclear", (pairs.pair(row).record.name,))
        target, golden = self._target_rows[row], self._golden_rows[row]
        if target < 0 or golden < 0 or not (event.direction == "backward" or pairs.are_tensors(row)):
            return InputCause("value")
        if latest < 0 and (swapped := self._swapped(row, event)):
            return InputCause("code", swapped, Dataflow.SWAPPED)
        sources = {"target": self._source("target", target, event)}
        if latest >= 0 and sources["target"].origin == "unknown":
            return InputCause("received", finding=latest)
        message = pairs.target.columns.source[target]
        if latest < 0 or message:
            sources["golden"] = self._source("golden", golden, event)
        origins = {source.origin for source in sources.values()}
        if "parameter" in origins:
            exchanged = self._exchanged(target, golden)
            return InputCause("exchanged", exchanged) if exchanged else InputCause("parameter")
        is_recorded = all(source_of(text).origin == "call" for text in (message, pairs.golden.columns.source[golden]))
        if latest < 0 and not self._has_other_names and (rewired := self._rewired(sources, event)):
            return InputCause("code", rewired, Dataflow.REWIRED)
        if cause := self._by_producer(sources, latest, is_recorded):
            return cause
        if "leaf" in origins:
            return InputCause("leaf")
        if latest >= 0:
            return InputCause("received", finding=latest)
        return self._of_unrecorded(event, target, "code" in origins)

    def _received_from(self, finding: int) -> InputCause:
        """Return one value for everything that a divergence explains."""
        if self._last_received.finding != finding:
            self._last_received = InputCause("received", finding=finding)
        return self._last_received

    @cached_property
    def _are_untraced(self) -> bytes:
        """Return by row whether it is a pair of tensors of its pair of calls, and the origin of the target's tensor is
        unknown."""
        pairs = self._comparison.pairs
        found = (pairs.target_rows >= 0) & (pairs.golden_rows >= 0)
        t, g = pairs.target_rows[found], pairs.golden_rows[found]
        graph = self.graphs["target"]
        of_own_call = np.asarray(graph.call_of)[t] == pairs.target_calls[pairs.call_of[found]]
        kinds = [np.frombuffer(dump.columns.kind, np.uint8) for dump in (pairs.target, pairs.golden)]
        found[found] = graph.are_of_unknown_origin(t) & of_own_call & (kinds[0][t] == TENSOR) & (kinds[1][g] == TENSOR)
        return found.tobytes()

    def _of_unrecorded(self, event: Event, target: int, is_made_by_code: bool) -> InputCause:
        """Return the cause of a first difference in a tensor that no recorded call returned; `target` is the row."""
        if is_made_by_code and not self.is_first_input(event):
            return _UNRECORDED
        if event.direction == "backward":
            return InputCause("code")
        # Its origin is unknown. Masks, ids and positions are inputs of the run; a float between cells is computed.
        dump = self._comparison.target
        is_float = family(dump.columns.dtype(target)) == "float"
        is_computed = dump.level == "L0" and is_float and not self.is_first_input(event)
        return _UNRECORDED if is_computed else InputCause("leaf")

    def is_first_input(self, event: Event) -> bool:
        """Return whether no earlier call received a tensor, nor a cell around it tensors that all agree, so that its
        inputs are those of the run."""
        if event.at > self._first_with_tensors:
            return False
        return not any(self._received_the_same(cell) for cell in event.parents)

    @cached_property
    def _first_with_tensors(self) -> int:
        """Return the first event that received a tensor, of two frameworks the first with a counterpart; their number
        if there is none."""
        recorded = (s.event for s in self._seen if s.event.is_matched or not self._has_other_names)
        return next((event.at for event in recorded if _tensor_inputs(self._comparison, event)), len(self._seen))

    def _received_the_same(self, cell: str) -> bool:
        """Return whether the tensors that a cell received agree; False if it received none."""
        if (at := self._events.get(("target", cell))) is None:
            return False
        inputs = _tensor_inputs(self._comparison, self._seen[at].event)
        return bool(inputs) and inputs.isdisjoint((*self._seen[at].inputs, *self._seen[at].unknown_inputs))

    def differing_parameters(self) -> list[tuple[int, str]]:
        """Return every parameter that differs, with the event of its first use, in execution order."""
        found: dict[str, int] = {}
        for s in self._seen:
            mine, theirs = list[str](), list[str]()
            for row in s.inputs if s.event.is_matched else ():
                target, golden = (int(side.rows[row]) for side in self._sides.values())
                is_own = min(target, golden) >= 0 and s.event.owns(row, self._comparison.pairs)
                if not is_own or self._exchanged(target, golden):
                    continue
                if (source := self._source("target", target, s.event)).origin == "parameter":
                    mine.append(source.text)
                elif (other := self._source("golden", golden, s.event)).origin == "parameter":
                    theirs.append(f"golden {other.text}" if self._has_other_names else other.text)
            # If both sides have it at two places of a call, it is one parameter at another place.
            for name in mine or theirs:
                found.setdefault(name, s.event.at)
        return [(at, name) for name, at in found.items()]

    def _exchanged(self, target: int, golden: int) -> tuple[str, ...]:
        """Return the two parameters, of those that both sides have; a renamed parameter is known to one side only."""
        pairs = self._comparison.pairs
        texts = pairs.target.columns.source[target], pairs.golden.columns.source[golden]
        if texts[0] == texts[1] or not self._common.issuperset(texts):
            return ()
        names = tuple(source_of(text).text for text in texts)
        return names if all(names) else ()

    @cached_property
    def _common(self) -> set[str]:
        """Return the sources that are in both dumps."""
        return set(self._comparison.target.columns.source) & set(self._comparison.golden.columns.source)

    def _source(self, side: str, row: int, event: Event) -> Source:
        """Return the origin of an input of an event on one side."""
        call = self._calls[side][event.place]
        return UNKNOWN if call < 0 else self.graphs[side].source(row, call)

    def _rewired(self, sources: dict[str, Source], event: Event) -> tuple[str, ...]:
        """Return the target's and the golden's call that returned it, if these are not a pair, or one of them runs
        later on the other side; empty for a call that was not recorded."""
        calls = {side: source.call for side, source in sources.items() if source.origin == "call"}
        found = {side: self._events.get((side, call)) for side, call in calls.items()}
        made = {side: at for side, at in found.items() if at is not None and self._seen[at].event.is_matched}
        if not (len({*made.values()}) > 1 or any(at > event.at for at in made.values())):
            return ()
        return tuple(calls[side] if side in made else "" for side in ("target", "golden"))

    def _by_producer(self, sources: dict[str, Source], latest: int, is_recorded: bool) -> InputCause | None:
        agreeing = ""
        for side, source in sources.items():
            at = self._events.get((side, source.call)) if source.origin == "call" else None
            if at is None:
                continue
            s, row = self._seen[at], self._row_of(side, source, at)
            finding = self._origin.get(at, latest)
            received = InputCause("received", finding=finding) if finding >= 0 else None
            if row in s.outputs:
                # It begins in no call if only the sum over all users differs.
                return received or InputCause("code", (source.call,), Dataflow.UNEXPLAINED)
            if self._has_other_names and not s.event.is_matched and finding < 0:
                continue  # transparent, and what it was computed from agrees
            if row < 0 or not s.event.is_matched or row in s.unknown_outputs:
                return received or InputCause("unclear", (".".join((source.call, source.part, *source.path)),))
            if self._comparison.excused is not None and row in self._comparison.excused.rows:
                return received or InputCause("code", (source.call,), Dataflow.EXCUSED)
            agreeing = agreeing or source.call
        if agreeing and (is_recorded or latest < 0):
            return InputCause("code", (agreeing,), Dataflow.PRODUCER)
        return None

    def _row_of(self, side: str, source: Source, at: int) -> int:
        """Return the pair of records of an event that has a result of one side; -1 for none."""
        made = self.graphs[side].row_of(source.call, source.part, source.path)
        rows = self._seen[at].event.rows
        try:
            return self._rows[side].index(made, rows.start, rows.stop) if made >= 0 else -1
        except ValueError:
            return -1

    def _swapped(self, row: int, event: Event) -> tuple[str, ...]:
        """Return the places of two arguments that are swapped; empty if they are not."""
        target, golden = self._marks(row)
        if target is None or golden is None or target == golden:
            return ()
        if self._marks_of[0] != event.at:
            self._marks_of = event.at, {}
            for one in event.own(self._comparison):
                if one.pair.target is not None and one.pair.golden is not None:
                    self._marks_of[1].setdefault(self._marks(one.row), path_of(one.pair.target))
        other = self._marks_of[1].get((golden, target))
        return (path_of(self._comparison.pairs.pair(row).record), other) if other else ()

    def _marks(self, row: int) -> tuple[Identity | None, Identity | None]:
        """Return what identifies the two tensors of a pair."""
        target, golden = (graph.mark(int(self._sides[name].rows[row])) for name, graph in self.graphs.items())
        return target, golden


def _tensor_inputs(comparison: Comparison, event: Event) -> set[int]:
    """Return the rows of the tensors that a call received."""
    return {j.row for j in event.own(comparison) if j.pair.record.kind == "tensor" and j.pair.record.part == "input"}
