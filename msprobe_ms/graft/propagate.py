"""Propagate values of the golden run through the recorded calls of the target, without a training.

A call that depends on a replaced value is executed again by torch, on its recorded inputs and on the propagated ones:

- forward: the propagated result is that of the second replay
- backward: so is the gradient of an argument; the gradient that arrives at a call is the sum over all users of its
  result, that of a parameter the sum over all calls that take it

If the first replay differs from the recorded result by more than rounding, the call has an error of its own, which the
replay does not have: the propagated result is then the recorded one, changed by the difference of the two replays.

Then an element whose recorded or replayed result is not finite is that of the replay. Integers and bools change where
the two replays differ.

What cannot be replayed is a `Stop`, which everything that depends on it has in place of a value.

A sum of gradients has to be complete: if the recorded gradients of the users do not add up to the recorded sum, code
that was not recorded has a part in it. A value whose producer was not recorded is a stop, too, once something before it
has changed, unless it is bitwise equal in both runs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from msprobe.cell_dump.golden_values import GoldenStep
from msprobe.checks.invariants.rows import GRADIENT_NOISE, gradient, gradient_rows, loss_rows, parameters
from msprobe.compare.core.standard import canonical
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import EQUAL
from msprobe.replay.recorded import CannotReplay, Cause, Leaf, NotReplayed, RecordedCall, call_of, mapped
from msprobe.replay.references import given
from msprobe.replay.replay import results
from msprobe.store.graft_plan import GraftedStep
from msprobe.store.reader import load_tensor
from msprobe.store.record import GRADIENTS, INPUT, OUTPUT, PARAMETERS, TENSOR, Dump

from .plan import place_of
from .runs import Step

Array = NDArray[np.float64]

_OWN = GRADIENTS.index("own")


class Obstacle(Enum):
    """Why a value could not be propagated, in addition to the causes of a replay."""

    INPUT = "an input comes from code that was not recorded"
    GRADIENT = "a gradient comes from code that was not recorded"
    INSIDE = "its result comes from code inside it that was not recorded"
    OPTION = "its replay gives another result: an option of the call was not recorded"


@dataclass(frozen=True, slots=True)
class Stop:
    """A call beyond which a value could not be propagated, and why; `detail` names the argument or the exception."""

    call: str
    reason: Obstacle | Cause
    detail: str = ""


@dataclass
class Replays:
    """The replays of a step's calls that all runs share.

    labels : by forward call, the candidate of what its record does not tell that agrees best with its results.
    errors : by forward call, the relative error of its replay on the recorded inputs.
    """

    step: Step
    labels: dict[int, str] = field(default_factory=dict)
    errors: dict[int, float] = field(default_factory=dict)

    @property
    def dump(self) -> Dump:
        """Return the target's dump."""
        return self.step.comparison.target

    @property
    def graph(self) -> Graph:
        """Return the target's dataflow."""
        return self.step.graphs["target"]

    @cached_property
    def equal_rows(self) -> frozenset[int]:
        """Return the rows that are bitwise equal in both runs."""
        comparison = self.step.comparison
        equal = np.asarray(comparison.equal) == EQUAL
        return frozenset(np.asarray(comparison.pairs.target_rows)[equal].tolist())

    @cached_property
    def matched_rows(self) -> frozenset[int]:
        """Return the rows that have a counterpart in the golden."""
        pairs = self.step.comparison.pairs
        return frozenset(np.asarray(pairs.target_rows)[np.asarray(pairs.golden_rows) >= 0].tolist())

    @cached_property
    def calls(self) -> list[int]:
        """Return the innermost forward calls, in order."""
        graph = self.graph
        forward = (call for call, name in enumerate(self.dump.names) if name.direction == "forward")
        return [call for call in forward if call not in graph.inside]

    @cached_property
    def uses(self) -> dict[str, list[int]]:
        """Return by parameter the inputs of innermost calls that are this parameter."""
        found: dict[str, list[int]] = {}
        for call in self.calls:
            for row in self.received(call):
                if name := self.parameter_of(row):
                    found.setdefault(name, []).append(row)
        return found

    def users_of(self, name: str) -> Iterator[list[int]]:
        """Yield the inputs that are a parameter: those of its name, then those of all that have the same elements, for
        a parameter that two modules share has the name of one of them."""
        yield self.uses.get(name, [])
        others = {other for names in self._equal_parameters.values() if name in names for other in names}
        if len(others) > 1:
            yield sorted(row for other in others for row in self.uses.get(other, []))

    @cached_property
    def _equal_parameters(self) -> dict[int, set[str]]:
        """Return by mark the parameters that are equal at the start of the step."""
        found: dict[int, set[str]] = {}
        for name, row in parameters(self.dump).items():
            if (mark := self.graph.numbers[row]) >= 0:
                found.setdefault(mark, set()).add(name)
        return found

    def received(self, call: int) -> list[int]:
        """Return the rows of the tensors and own parameters that a forward call takes."""
        columns = self.dump.columns
        return [
            row
            for row in columns.rows(call)
            if columns.part[row] in (INPUT, PARAMETERS) and columns.kind[row] == TENSOR
        ]

    def parameter_of(self, row: int) -> str:
        """Return the name of the parameter that an input is; empty for any other."""
        if self.dump.columns.part[row] == PARAMETERS:
            return self.dump.parameter_name(row)
        kind = self.graph.origin(row)[0]
        if kind == "parameter":
            return self.graph.source(row).text
        return self._passed_on.get(row, "") if kind == "code" else ""

    @cached_property
    def _passed_on(self) -> dict[int, str]:
        """Return by input of unknown origin the parameter that a call of the same cell took and returned unchanged,
        without a backward: as `astype` in the layer norm of MindSpore, whose result is another tensor."""
        graph, dump, found = self.graph, self.dump, dict[int, str]()
        known: dict[tuple[int, int], str] = {}
        for call in self.calls:
            cell, rows = dump.parents[call], list(graph.inputs(call))
            for row in rows:
                name = known.get((cell, graph.numbers[row]))
                if name is not None and graph.origin(row)[0] == "code":
                    found[row] = name
            is_of_parameter = bool(rows) and graph.origin(rows[0])[0] == "parameter"
            if is_of_parameter and dump.counterpart(call, "backward") < 0 and graph.passes_through(call):
                known[cell, graph.numbers[rows[0]]] = graph.source(rows[0]).text
        return found

    def load(self, row: int) -> Array | None:
        """Return the recorded elements of a row; None if they were not saved."""
        columns = self.dump.columns
        if not columns.file[row]:
            return None
        return np.asarray(load_tensor(self.dump, columns.record(row, columns.call_of(row))))

    def noise(self, row: int) -> float:
        """Return the relative error that is rounding, by the dtype of a row."""
        return GRADIENT_NOISE.get(canonical(self.dump.columns.dtype(row)), GRADIENT_NOISE["float32"])


@dataclass
class Propagation:
    """One propagation through a step.

    planned : the golden's values that replace those of the target; None replaces nothing.
    replays_all : whether calls are replayed that depend on no replaced value, too. Without a graft, this shows how far
        the rounding of the replay leads.
    """

    replays: Replays
    planned: GraftedStep | None
    replays_all: bool = False
    replayed: set[int] = field(default_factory=set)  # calls, forward and backward
    given: set[str] = field(default_factory=set)  # parameters whose gradient is the golden's by the graft itself
    _values: dict[int, "Array | Stop"] = field(default_factory=dict)  # by row of an output
    _inputs: dict[int, "dict[int, Array] | Stop"] = field(default_factory=dict)  # by forward call, then by row
    _gradients: dict[int, "Array | Stop"] = field(default_factory=dict)  # by row of the argument
    _replaced: dict[int, Array] = field(default_factory=dict)  # by row
    _fixed: dict[int, Array] = field(default_factory=dict)  # the same of results, by innermost row
    _parameters: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.planned is not None:
            self._load(GoldenStep(self.replays.step.comparison.golden, self.planned))
        for call in self.replays.calls:
            self._forward(call)
        for call in reversed(self.replays.calls):
            if (back := self.replays.dump.counterpart(call, "backward")) >= 0:
                self._backward(call, back)

    def _load(self, golden: GoldenStep) -> None:
        """Load the golden's values that replace others."""
        dump, graph = self.replays.dump, self.replays.graph
        for name in golden.calls:
            call = dump.place.get(name, -1)
            values = golden.of_call(name) if call >= 0 else {}
            for row in dump.columns.rows(call) if values else ():
                if dump.columns.kind[row] == TENSOR and (value := values.get(place_of(dump, row))) is not None:
                    array = np.asarray(value.layout.laid_out(_elements(value.dump, value.row)))
                    self._replaced[row] = array
                    if dump.columns.part[row] == OUTPUT and dump.names[call].direction == "forward":
                        self._fixed[graph.alias(row)] = array
        for name in golden.parameters:
            if (value := golden.parameter(name)) is not None:
                self._parameters[name] = np.asarray(value.layout.laid_out(_elements(value.dump, value.row)))

    # ---- results ----------------------------------------------------------------------------------------------------

    @property
    def loss(self) -> float | Stop | None:
        """Return the sum of the step's losses; None without any."""
        rows = loss_rows(self.replays.dump)
        total = 0.0
        for row in rows:
            value = self._value(self.replays.graph.alias(row))
            if isinstance(value, Stop):
                return value
            total += self.replays.dump.columns.max[row] if value is None else float(np.sum(value))
        return total if rows else None

    def gradients(self) -> Iterator[tuple[str, Array | Stop | None]]:
        """Yield each parameter with its gradient; None for one whose elements were not saved."""
        for name, rows in gradient_rows(self.replays.dump).items():
            yield name, self._gradient(name, rows)

    def _gradient(self, name: str, rows: list[int]) -> "Array | Stop | None":
        dump = self.replays.dump
        recorded = gradient(dump, rows)
        if recorded is None:
            return None
        recorded = np.asarray(recorded, np.float64)
        if any(row in self._replaced for row in rows):
            self.given.add(name)
            changes = (self._replaced[row] - _float(self.replays.load(row)) for row in rows if row in self._replaced)
            return np.asarray(sum(changes, recorded))
        found: Array | Stop | None = None
        for users in self.replays.users_of(name):
            found = self._sum(users, recorded, rows)
            if not (isinstance(found, Stop) and found.reason is Obstacle.GRADIENT):
                if users and all(self.replays.graph.gradient(user) in self._replaced for user in users):
                    self.given.add(name)
                break
        return recorded if found is None else found

    # ---- forward ----------------------------------------------------------------------------------------------------

    def _value(self, made: int) -> "Array | Stop | None":
        """Return the propagated result of a row of an innermost output; None if it did not change."""
        graph = self.replays.graph
        if made in self._fixed:
            return self._fixed[made]
        call = graph.call_of[made]
        if call in graph.inside and made not in self._values and self._is_changed_inside(call):
            self._values[made] = Stop(self.replays.dump.columns.names[call], Obstacle.INSIDE)
        return self._values.get(made)

    def _is_changed_inside(self, cell: int) -> bool:
        """Return whether a cell takes a changed value, or a call inside it returns one."""
        graph = self.replays.graph
        if any(self._input(row) is not None for row in self.replays.received(cell)):
            return True
        waiting = [cell]
        for call in waiting:
            waiting += graph.inside.get(call, ())
            if call != cell and any(row in self._values for row in graph.outputs(call)):
                return True
        return False

    def _input(self, row: int) -> "Array | Stop | None":
        """Return the propagated value of an input of a forward call; None if it did not change."""
        if row in self._replaced:
            return self._replaced[row]
        if name := self.replays.parameter_of(row):
            return self._parameters.get(name)
        graph = self.replays.graph
        kind, made = graph.origin(row)
        if kind == "call":
            return self._value(made)
        if kind == "leaf" or row in self.replays.equal_rows or self.replays_all:
            return None
        return Stop(self.replays.dump.columns.names[graph.call_of[row]], Obstacle.INPUT) if self._values else None

    def _changed_inputs(self, call: int) -> "dict[int, Array] | Stop":
        """Return the propagated values of the inputs of a forward call that changed."""
        found: dict[int, Array] = {}
        for row in self.replays.received(call):
            value = self._input(row)
            if isinstance(value, Stop):
                return value
            if value is not None:
                found[row] = value
        return found

    def _forward(self, call: int) -> None:
        graph = self.replays.graph
        outputs = list(graph.outputs(call))
        for row in outputs:
            if (fixed := self._fixed.get(graph.alias(row))) is not None:
                self._values[row] = fixed
        wanted = [row for row in outputs if graph.alias(row) not in self._fixed]
        inputs = self._inputs[call] = self._changed_inputs(call)
        if not wanted or (not inputs and not self.replays_all):
            return
        found = inputs if isinstance(inputs, Stop) else self._results(call, inputs)
        for row in wanted:
            if isinstance(found, Stop):
                if not self.replays_all:
                    self._values[row] = found
            elif row in found:
                self._values[row] = found[row]
            elif not self.replays_all:
                self._values[row] = Stop(self.replays.dump.columns.names[call], Cause.NOTHING_TO_MEASURE)

    def _results(self, call: int, inputs: Mapping[int, Array]) -> "dict[int, Array] | Stop":
        """Return the propagated results of a forward call by row."""
        old = self._replay(call)
        if isinstance(old, Stop):
            return old
        new = self._replay(call, inputs) if inputs else old
        if isinstance(new, Stop):
            return new
        self.replayed.add(call)
        found: dict[int, Array] = {}
        for row, value in new.items():
            recorded = self.replays.load(row)
            if recorded is None or recorded.shape != value.shape:
                return Stop(self.replays.dump.columns.names[call], Cause.OTHER_SHAPE)
            found[row] = _propagated(recorded, old[row], value, self.replays.noise(row))
        return found

    def _is_deviating(self, call: int) -> bool:
        """Return whether the replay of a forward call differs from its recorded result by more than rounding."""
        row = next(self.replays.graph.outputs(call), -1)
        return row >= 0 and self.replays.errors.get(call, 0.0) > self.replays.noise(row)

    @property
    def deviating(self) -> list[str]:
        """Return the replayed calls whose replay differs from the recorded result by more than rounding."""
        names = self.replays.dump.columns.names
        return [names[call] for call in sorted(self.replayed) if self._is_deviating(call)]

    def _replay(self, call: int, inputs: Mapping[int, Array] | None = None) -> "dict[int, Array] | Stop":
        """Return the replayed results of a forward call by row, on its recorded inputs or on others."""
        replays, name = self.replays, self.replays.dump.columns.names[call]
        made = self._call(call, inputs or {})
        if isinstance(made, Stop):
            return made
        candidates = results(made, replays.labels.get(call))
        if isinstance(candidates, NotReplayed):
            return Stop(name, candidates.cause, candidates.detail)
        columns = replays.dump.columns
        by_row = [
            {
                row: np.asarray(value)
                for at, value in one.values.items()
                if (row := replays.graph.row_of(name, *at)) >= 0
            }
            for one in candidates
        ]
        best = 0
        if call not in replays.labels:
            errors = [max((self._error(row, value) for row, value in one.items()), default=0.0) for one in by_row]
            best = min(range(len(errors)), key=errors.__getitem__)
            if not candidates[best].is_exhaustive and any(errors[best] > replays.noise(row) for row in by_row[best]):
                return Stop(name, Obstacle.OPTION)
            replays.labels[call], replays.errors[call] = candidates[best].label, errors[best]
        found = {row: value for row, value in by_row[best].items() if columns.kind[row] == TENSOR}
        if any(value.shape != (columns.shape(row) or ()) for row, value in found.items()):
            return Stop(name, Cause.OTHER_SHAPE)
        return found

    def _error(self, row: int, value: NDArray[np.float64]) -> float:
        """Return the relative error of a replayed floating result, over the finite elements."""
        recorded = self.replays.load(row)
        if recorded is None or recorded.dtype.kind != "f" or recorded.shape != value.shape:
            return 0.0
        mine, theirs = _float(recorded), _float(value)
        finite = np.isfinite(mine) & np.isfinite(theirs)
        return _distance(mine[finite], theirs[finite])

    def _call(self, call: int, inputs: Mapping[int, Array]) -> "RecordedCall | Stop":
        """Return a forward call with other inputs, by row."""
        graph, name = self.replays.graph, self.replays.dump.columns.names[call]

        def changed(value: object) -> object:
            if not isinstance(value, Leaf):
                return value
            row = graph.row_of(name, value.record.part, value.record.path)
            return given(value, inputs[row]) if row in inputs else value

        try:
            made = call_of(self.replays.dump, call)
        except CannotReplay as err:
            return Stop(name, err.outcome.cause, err.outcome.detail)
        return replace(
            made,
            args=mapped(made.args, changed),
            kwargs=mapped(made.kwargs, changed),
            parameters=mapped(made.parameters, changed),
        )

    # ---- backward ---------------------------------------------------------------------------------------------------

    def _backward(self, call: int, back: int) -> None:
        """Find the propagated gradients of a call's arguments."""
        replays, graph = self.replays, self.replays.graph
        received = replays.received(call)
        for row in received:
            at = graph.gradient(row)
            if at in self._replaced:
                self._gradients[row] = self._replaced[at]
        wanted = [row for row in received if row not in self._gradients and not self._has_no_gradient(row)]
        incoming: dict[int, Array] = {}
        found: dict[int, Array] | Stop | None = None
        for row in graph.inputs(back):
            arriving = self._incoming(row, call)
            if isinstance(arriving, Stop):
                found = arriving
            elif arriving is not None:
                incoming[row] = arriving
        inputs = self._inputs[call]
        if isinstance(inputs, Stop):
            found = inputs
        if not wanted or not (found or inputs or incoming or self.replays_all):
            return
        if found is None and not isinstance(inputs, Stop):
            found = self._gradients_of(call, back, inputs, incoming)
        if isinstance(found, Stop) and self.replays_all:
            return
        for row in wanted:
            if isinstance(found, Stop):
                self._gradients[row] = found
            elif found is not None and row in found:
                self._gradients[row] = found[row]

    def _gradients_of(
        self, call: int, back: int, inputs: Mapping[int, Array], incoming: Mapping[int, Array]
    ) -> "dict[int, Array] | Stop":
        """Return the propagated gradients by argument, of a backward call with other inputs and gradients."""
        old = self._vjp(call, back)
        if isinstance(old, Stop):
            return old
        new = self._vjp(call, back, inputs, incoming)
        if isinstance(new, Stop):
            return new
        self.replayed.add(back)
        found: dict[int, Array] = {}
        for row, value in new.items():
            own = self._own_gradient(row)
            if own is None or own.shape != value.shape:
                own = old[row]
            found[row] = _propagated(own, old[row], value, self.replays.noise(row))
        return found

    def _has_no_gradient(self, row: int) -> bool:
        """Return whether a backward call returned no gradient of an argument, such as that of `zeros_like`."""
        columns, at = self.replays.dump.columns, self.replays.graph.gradient(row)
        return at >= 0 and columns.kind[at] != TENSOR and columns.gradient[at] == _OWN

    def _own_gradient(self, row: int) -> Array | None:
        """Return the recorded gradient of an argument that its call added; None if it was not recorded."""
        at = self.replays.graph.gradient(row)
        columns = self.replays.dump.columns
        is_own = at >= 0 and columns.kind[at] == TENSOR and columns.gradient[at] == _OWN
        return _float(own) if is_own and (own := self.replays.load(at)) is not None else None

    def _vjp(
        self,
        call: int,
        back: int,
        inputs: Mapping[int, Array] | None = None,
        incoming: Mapping[int, Array] | None = None,
    ) -> "dict[int, Array] | Stop":
        """Return the replayed gradients of a call's arguments by row."""
        replays, dump = self.replays, self.replays.dump
        name, columns = dump.columns.names[call], dump.columns
        made = self._call(call, inputs or {})
        if isinstance(made, Stop):
            return made
        if call not in replays.labels:
            known = self._replay(call)
            if isinstance(known, Stop):
                return known
        arriving = {}
        for row in replays.graph.inputs(back):
            leaf = Leaf(dump, columns.record(row, back))
            arriving[leaf.record.path] = leaf if row not in (incoming or {}) else given(leaf, (incoming or {})[row])
        made = replace(made, name=columns.names[back], is_backward=True, incoming=arriving)
        found = results(made, replays.labels.get(call))
        if isinstance(found, NotReplayed):
            return Stop(columns.names[back], found.cause, found.detail)
        return {replays.graph.row_of(name, *at): np.asarray(value) for at, value in found[0].values.items()}

    def _incoming(self, row: int, call: int) -> "Array | Stop | None":
        """Return the propagated gradient that arrives at a result of a call; None if it did not change."""
        if row in self._replaced:
            return self._replaced[row]
        replays, graph = self.replays, self.replays.graph
        columns, name = replays.dump.columns, replays.dump.columns.names[call]
        made = graph.row_of(name, "output", columns.path_of(row))
        users = graph.users.get(graph.alias(made), []) if made >= 0 else []
        if not users:
            is_seed = row in replays.equal_rows or (
                prod(columns.shape(row) or ()) == 1 and row not in replays.matched_rows
            )
            if is_seed or self.replays_all or not (self._values or self._gradients):
                return None
            return Stop(columns.names[graph.call_of[row]], Obstacle.GRADIENT)
        recorded = replays.load(row)
        if recorded is None:
            return Stop(columns.names[graph.call_of[row]], Cause.MISSING_TENSOR)
        return self._sum(users, _float(recorded), [row])

    def _sum(self, users: list[int], recorded: Array, rows: list[int]) -> "Array | Stop | None":
        """Return the propagated gradient of a tensor, which is recorded in rows, from those of all arguments that are
        this tensor; None if none of them changed, a Stop if they are not the whole gradient."""
        where = self.replays.dump.columns.names[self.replays.graph.call_of[rows[0]]]
        changed = [self._gradients[user] for user in users if user in self._gradients]
        stop = next((each for each in changed if isinstance(each, Stop)), None)
        if stop is not None:
            return stop
        if not changed and (self.replays.equal_rows.issuperset(rows) or not (self._values or self._gradients)):
            return None
        old, new = np.zeros_like(recorded), np.zeros_like(recorded)
        for user in users:
            own = self._recorded_gradient(user)
            if isinstance(own, Stop):
                return own
            propagated = self._gradients.get(user, own)
            if own is None or propagated is None or isinstance(propagated, Stop):
                continue
            if own.shape != old.shape:
                return Stop(where, Obstacle.GRADIENT)
            old, new = old + own, new + propagated
        noise = self.replays.noise(rows[0])
        if _distance(recorded, old) > max(_INCOMPLETE, noise):
            return Stop(where, Obstacle.GRADIENT)
        return _propagated(recorded, old, new, noise) if changed else None

    def _recorded_gradient(self, user: int) -> "Array | Stop | None":
        """Return the gradient of an argument that its call added, replayed if it was not recorded; None if the call has
        no backward."""
        if (own := self._own_gradient(user)) is not None:
            return own
        if self._has_no_gradient(user):
            return None
        call = self.replays.graph.call_of[user]
        back = self.replays.dump.counterpart(call, "backward")
        if back < 0:
            return None
        found = self._vjp(call, back)
        return found if isinstance(found, Stop) else found.get(user)


_INCOMPLETE = 1e-3
"""Relative difference of a recorded gradient from the sum of its parts above which a part was not recorded: sums of
float32 in another order differ by less, and a part that is smaller hardly changes the gradient."""


def _elements(dump: Dump, row: int) -> Array:
    columns = dump.columns
    return np.asarray(load_tensor(dump, columns.record(row, columns.call_of(row))))


def _float(array: NDArray[np.generic] | None) -> Array:
    return np.asarray(0.0 if array is None else array, np.float64)


def _distance(mine: Array, theirs: Array) -> float:
    """Return the relative Euclidean distance; infinite if only `mine` is zero."""
    difference, size = float(np.linalg.norm(mine - theirs)), float(np.linalg.norm(mine))
    return 0.0 if difference == 0.0 else difference / size if size else float("inf")


def _propagated(
    recorded: NDArray[np.generic], old: NDArray[np.generic], new: NDArray[np.generic], noise: float
) -> Array:
    """Return a propagated result, of a recorded one and its replays on the recorded and on the propagated inputs."""
    if recorded.dtype.kind != "f":
        return np.where(old != new, new, recorded)
    mine, before, after = _float(recorded), _float(old), _float(new)
    finite = np.isfinite(mine) & np.isfinite(before)
    if _distance(mine[finite], before[finite]) <= noise:
        return after
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(finite, mine + (after - before), after)
