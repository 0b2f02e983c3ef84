"""Judgements of invariants, as data; the catalogue of findings has their sentences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from msprobe.base import names
from msprobe.base.verdicts import Gap
from msprobe.store.record import Dump
from msprobe.store.stacks_and_construct import user_line


class Status(Enum):
    """Whether an invariant holds at one place."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNJUDGED = "unjudged"


class Why(Enum):
    """Why something could not be judged."""

    ONE_RANK = "the dump has one rank"
    ONE_STEP = "the dump has one step, or steps that do not follow each other"
    NO_SECOND_DUMP = "no second dump was given"
    NO_TENSORS = "it needs the task tensor"
    NOTHING = "the dump has nothing of the kind"
    NO_RECORD = "a record that it needs was not collected"
    SHARDS = "they differ from the beginning on: they may be shards of one parameter"
    ALL_STILL = "no parameter moved: gradients may be accumulated over steps"
    FROZEN = "frozen, as the training says (requires_grad)"
    ROUNDING = "the update may be smaller than the spacing of its numbers"
    MOSTLY_FROZEN = "most parameters have no gradient: a fine-tuning"
    NOT_MATCHED = "the gradients are not reduced one by one"
    NOT_REPLAYED = "the call cannot be executed again"
    NO_LIBRARY = "torch is not installed, which executes calls again"
    NO_REFERENCE = "the call has no result that follows from its recorded inputs"
    UNKNOWN_OPTION = "an option of the call is not recorded"
    PARTIAL = "it is a term of a sum (partial placement), which the optimizer reduces"
    NO_NORM = "no norm of all gradients, as they are after their reduction, is recorded"
    NO_LOSS = "no loss over tokens or elements is recorded on several ranks, or in several micro batches"
    NOT_REPLICATED = "nothing is replicated: each rank has shards of its own"
    OWN_WEIGHTS = "the weights of the losses differ, and not by their numbers of tokens"
    UNKNOWN_MASK = "the mask has no form that is known to be right or wrong"


OPEN = frozenset({Why.NOT_REPLAYED})
"""Reasons that leave a call unjudged to which the invariant applies; they always count."""

OPEN_BY_NAME = OPEN | {Why.NO_TENSORS, Why.NO_RECORD, Why.NO_LIBRARY, Why.UNKNOWN_OPTION, Why.UNKNOWN_MASK}
"""Reasons that count if the invariant was selected by its name; otherwise a dump of this task or this installation is
not expected to have what it needs, nor a layer whose inner calls are judged."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judgement: of a call, a parameter, a collective, or of the whole run if `subject` is empty.

    `place` is the record, `what` the message of the kind, `value` the measured value and `limit` its limit. `ranks` are
    those that differ from the others or that the judgement is about.
    """

    status: Status
    subject: str = ""
    cell: str = ""
    place: str = ""
    step: int | None = None
    ranks: tuple[int, ...] = ()
    what: str = ""
    value: float | None = None
    limit: float | None = None
    why: Why | None = None
    file: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Run:
    """The dumps of one run by step and rank. Steps are sorted. `gaps` counts what could not be read."""

    steps: Mapping[int | None, Mapping[int, Dump]]
    gaps: Mapping[Gap, int] = field(default_factory=dict)

    @property
    def every(self) -> Iterator[tuple[int | None, int, Dump]]:
        """Return step, rank and dump of each."""
        for step, ranks in self.steps.items():
            for rank, dump in ranks.items():
                yield step, rank, dump

    @property
    def following(self) -> Iterator[tuple[int, int]]:
        """Return the pairs of consecutive steps."""
        numbers = [step for step in self.steps if step is not None]
        for before, after in pairwise(numbers):
            if after == before + 1:
                yield before, after


def of_call(
    status: Status,
    dump: Dump,
    at: int,
    step: int | None,
    rank: int,
    *,
    place: str = "",
    what: str = "",
    value: float | None = None,
    limit: float | None = None,
    why: Why | None = None,
) -> Judgement:
    """Return a judgement of a call, with its cell and line."""
    parent = dump.parent(at)
    stack = dump.calls.stack(at) or dump.calls.stack(dump.forward(at))
    file, line = user_line(stack) or ("", None)
    cell = (names.parse(parent).path or parent) if parent else "the root"
    name = dump.columns.names[at]
    return Judgement(status, name, cell, place, step, (rank,), what, value, limit, why, file, line)


def unjudged(why: Why, subject: str = "") -> Judgement:
    """Return an unjudged judgement."""
    return Judgement(Status.UNJUDGED, subject, why=why)
