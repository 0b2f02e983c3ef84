"""How strongly the parts of one comparison agree, as numbers: run inputs, parameters, arguments, forward and
backward."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.core.noise import PrecisionClass, State
from msprobe.compare.core.reason import DRIFT
from msprobe.compare.core.tensor import source_of
from msprobe.compare.dataflow.events import Event, events
from msprobe.compare.judge.judged import EQUAL, Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.find import Located
from msprobe.store.record import INPUT, PARAMETERS, PARAMETERS_GRAD, TENSOR

_PASS, _UNJUDGED = GRADES.index("pass"), GRADES.index("unjudged")


class Subject(Enum):
    """Parts of a step that are examined separately."""

    RUN_INPUTS = auto()
    """Tensors that no recorded call produced and that are not parameters: the batch, masks, constants."""
    PARAMETERS = auto()
    ARGUMENTS = auto()
    """Arguments that are not tensors."""
    FORWARD = auto()
    BACKWARD = auto()
    GRADIENTS = auto()
    """Gradients of parameters."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of pairs of records that agree, by evidence.

    `equal` is bitwise in a comparison of tensors; by digest, or in all four statistics, in one of these. Values that
    are not tensors are always equal as such. `noise` pass as rounding or drift, `tolerance` within the standard.
    """

    equal: int = 0
    noise: int = 0
    tolerance: int = 0
    differing: int = 0
    unjudged: int = 0
    exempt: int = 0
    by_statistics: int = 0
    """In a comparison of tensors: pairs that agree and were judged by their statistics, as a tensor was not saved."""

    @property
    def agreeing(self) -> int:
        """Return pairs that agree."""
        return self.equal + self.noise + self.tolerance

    @property
    def is_clean(self) -> bool:
        """Return whether everything examined agrees or is exempt."""
        return not (self.differing or self.unjudged)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Side:
    """One dump of a comparison: the settings of its collection, and its name of the first wrong call.

    `within` are the calls of the cells around that call, innermost first; both are empty if it has no counterpart.
    """

    where: str
    task: str
    level: str
    framework: str
    name: str = ""
    within: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Survey:
    """The agreement of one comparison, by subject: in the whole step, and before the first wrong call.

    `calls` are the pairs of calls, `calls_before` those before the first wrong one, `unmatched` the calls without a
    counterpart that are not explained. `replayed` counts the calls that were replayed to judge them, `not_replayed`
    those that could not be.
    """

    target: Side
    golden: Side
    whole: Mapping[Subject, Tally]
    before: Mapping[Subject, Tally]
    calls: int
    calls_before: int
    unmatched: int
    precision: tuple[PrecisionClass, ...] = ()
    harmless: int = 0
    replayed: int = 0
    not_replayed: int = 0

    @property
    def total(self) -> Tally:
        """Return all pairs of records together."""
        return sum(self.whole.values(), Tally())


def survey(comparison: Comparison, located: Located) -> Survey:
    """Count agreeing pairs, by subject; `located` has the first wrong call."""
    subjects, states = _subjects(comparison), _states(comparison)
    every = np.ones(len(subjects), bool)
    ordered = events(comparison.pairs) if located.first is not None else []
    first = located.first.at if located.first is not None else 0
    before = every if located.first is None else np.zeros(len(subjects), bool)
    for earlier in ordered[:first]:
        before[earlier.rows.start : earlier.rows.stop] = True
    pairs, noise = comparison.pairs, comparison.noise
    matched = (pairs.target_calls >= 0) & (pairs.golden_calls >= 0)
    explained = np.zeros(len(matched), bool)
    explained[list(comparison.explained)] = True
    event = ordered[first] if ordered else None
    return Survey(
        target=_side(comparison, False, event),
        golden=_side(comparison, True, event),
        whole=_tallies(subjects, states, every, comparison),
        before=_tallies(subjects, states, before, comparison),
        calls=int(matched.sum()),
        calls_before=sum(event.is_matched for event in ordered[:first]) if ordered else int(matched.sum()),
        unmatched=int((~matched & ~explained).sum()),
        precision=noise.classes if noise else (),
        harmless=len(noise.harmless) if noise else 0,
        replayed=noise.replayed if noise else 0,
        not_replayed=sum(noise.not_replayed.values()) if noise else 0,
    )


def _subjects(comparison: Comparison) -> NDArray[np.uint8]:
    """Return the subject of each pair of records, as a position in `Subject`; of records of one side by that side's."""
    pairs, found = comparison.pairs, np.zeros(len(comparison.grades), np.uint8)
    numbers = {subject: number for number, subject in enumerate(Subject)}
    parsed = [names.parse(pairs.name(place)) for place in range(len(pairs))]
    rows = list(zip(pairs.target_rows.tolist(), pairs.golden_rows.tolist(), pairs.call_of.tolist(), strict=True))
    parts, kinds = pairs.target.columns.part, pairs.target.columns.kind
    # The first pair of calls with a tensor as input; -1 without any.
    first_inputs = next((p for t, _, p in rows if t >= 0 and parts[t] == INPUT and kinds[t] == TENSOR), -1)
    for row, (target, golden, place) in enumerate(rows):
        columns, at = (pairs.target.columns, target) if target >= 0 else (pairs.golden.columns, golden)
        part, source = columns.part[at], columns.source[at]
        is_backward = parsed[place].direction == "backward"
        if part == PARAMETERS or source_of(source).origin == "parameter":
            subject = Subject.PARAMETERS
        elif part == PARAMETERS_GRAD:
            subject = Subject.GRADIENTS
        elif is_backward:
            subject = Subject.BACKWARD
        elif part == INPUT and columns.kind[at] != TENSOR:
            subject = Subject.ARGUMENTS
        elif part == INPUT and (source == "leaf" or (not source and place == first_inputs)):
            subject = Subject.RUN_INPUTS
        else:
            subject = Subject.FORWARD
        found[row] = numbers[subject]
    return found


_EQUAL, _NOISE, _TOLERANCE, _DIFFERING, _OPEN, _EXEMPT = range(6)  # the positions of the first fields of `Tally`


def _states(comparison: Comparison) -> NDArray[np.uint8]:
    """Return how each pair of records agrees, as the position of a field of `Tally`."""
    grades = comparison.grades
    found = np.full(len(grades), _DIFFERING, np.uint8)
    found[grades == _PASS] = _TOLERANCE
    found[(grades == _PASS) & (comparison.equal == EQUAL)] = _EQUAL
    found[grades == _UNJUDGED] = _OPEN
    found[(grades == _UNJUDGED) & comparison.is_exempt] = _EXEMPT
    drifted = [row for row, reasons in comparison.reasons.items() if any(r.why in DRIFT for r in reasons)]
    is_noise = np.zeros(len(grades), bool)
    is_noise[drifted] = True
    if comparison.noise is not None:
        is_noise |= comparison.noise.states == State.NOISE
    found[is_noise & (found == _TOLERANCE)] = _NOISE
    return found


def _tallies(
    subjects: NDArray[np.uint8], states: NDArray[np.uint8], chosen: NDArray[np.bool_], comparison: Comparison
) -> dict[Subject, Tally]:
    by_statistics = np.zeros(len(states), bool)
    by_statistics[list(comparison.by_statistics)] = True
    by_statistics &= chosen & (states <= _TOLERANCE)
    found = {}
    for number, subject in enumerate(Subject):
        of_subject = chosen & (subjects == number)
        if of_subject.any():
            counts = np.bincount(states[of_subject], minlength=_EXEMPT + 1).tolist()
            found[subject] = replace(Tally(*counts), by_statistics=int((by_statistics & of_subject).sum()))
    return found


def _side(comparison: Comparison, is_golden: bool, event: Event | None) -> Side:
    """Return one side, with its name of the first wrong call and of the cells around it."""
    dump, pairs = comparison.golden if is_golden else comparison.target, comparison.pairs
    calls = pairs.golden_calls if is_golden else pairs.target_calls
    name = ""
    within: tuple[str, ...] = ()
    if event is not None:
        places = event.owners[-1:] or (event.place,)  # gradients of parameters go by their cell's backward call
        if (call := int(calls[places[0]])) >= 0:
            name, within = dump.columns.names[call], dump.upwards(dump.parent(call))
    return Side(dump.where, dump.task, dump.level, dump.framework, name, within)
