"""Checks one API of a dump, forward and backward: rebuilt, executed if requested, and judged."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from msprobe.base.phrase import Phrase, phrase
from msprobe.base.verdicts import Verdicts
from msprobe.replay.operations import OPERATIONS, Operation
from msprobe.replay.plan import plan_of
from msprobe.replay.recorded import NOT_APPLICABLE, CannotReplay, Cause, Leaf, NotReplayed, Path, RecordedCall, call_of
from msprobe.replay.references import Reference, References, with_outputs
from msprobe.replay.replay import references
from msprobe.store.record import Dump

from .chance import Chance, chance_of, outputs_of
from .executor import CannotRun, Executor
from .inputs import with_inputs
from .judge import Judgement, Reason, Status, judged
from .measures import Measures
from .standards import Criterion

WHOLE = 1 << 25
"""Maximum number of elements of a call that is judged completely."""

_DATA_DEPENDENT = (
    "nonzero",
    "argwhere",
    "masked_select",
    "unique",
    "unique_consecutive",
    "repeat_interleave",
    "getitem",
)
"""Operations whose result shape depends on the values of their inputs."""


class Why(Enum):
    """Why a direction was not checked, where it was not the reference that could not be computed (`replay.Cause`)."""

    CANNOT_RUN = "the framework did not execute the call"
    UNKNOWN_OPTION = "an option that was not recorded does not have a usual value"
    PROCESS_DIED = "the process died with the call"
    CREATES = "an operation without tensor inputs whose result is not determined"


UNASKED = NOT_APPLICABLE | {Why.CREATES}
"""Reasons for which a call cannot be checked against anything; any other reason leaves it unjudged."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A direction that was not checked."""

    why: Why | Cause
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.why.value}{': ' if self.detail else ''}{self.detail}"


@dataclass(frozen=True, slots=True)
class Output:
    """One output or gradient that was judged; `label` is what was assumed about options that were not recorded."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    golden: str
    judgement: Judgement
    measures: Measures
    label: str = ""

    @property
    def message(self) -> Phrase:
        """Return why it is judged so, with the largest error."""
        reason, largest = self.judgement.message, self.measures.max_absolute
        if self.judgement.criterion is Criterion.SHAPE:
            return phrase("{reason}: {shape}", reason=reason, shape=list(self.shape))
        if self.judgement.criterion is Criterion.DTYPE:
            return phrase("{reason}: {output.dtype}, recorded was {output.golden}", reason=reason, output=self)
        if largest != largest:
            return reason
        return phrase("{text}; max abs error {largest:.3g}", text=reason, largest=largest)


@dataclass(frozen=True, slots=True)
class Direction:
    """Result of one direction: its outputs, or why it was not checked."""

    direction: str
    outputs: tuple[Output, ...] = ()
    skipped: Skipped | None = None

    @property
    def status(self) -> Status:
        """Return the worst status of the outputs."""
        if self.skipped is not None or not self.outputs:
            return Status.SKIP
        found = {output.judgement.status for output in self.outputs}
        return next(each for each in (Status.ERROR, Status.WARNING, Status.PASS, Status.SKIP) if each in found)


@dataclass(frozen=True, slots=True)
class Api:
    """One API of a dump, `Mint.add.0`, with the places of its calls; -1: not recorded."""

    name: str
    forward: int = -1
    backward: int = -1


@dataclass(frozen=True, slots=True)
class Checked:
    """An API and the results of its directions, forward first. `place`: the step and rank of its call in a training."""

    name: str
    directions: tuple[Direction, ...]
    place: str = ""


@dataclass(frozen=True)
class Inputs:
    """Source of the inputs and outputs of a call. `seed`: inputs are drawn with it, None for recorded ones."""

    seed: int | None = None
    executor: Executor | None = None


@dataclass(frozen=True)
class Attempt:
    """One executed and judged direction, with its tensors."""

    direction: Direction
    call: RecordedCall | None = None
    operation: Operation | None = None


def apis_of(dump: Dump) -> list[Api]:
    """Return the APIs of a dump, in the order of their first calls, without cells."""
    found: dict[str, dict[str, int]] = {}
    for at, name in enumerate(dump.names):
        if name.kind == "api" and name.direction and name.number >= 0 and not name.stem.startswith("Jit."):
            found.setdefault(f"{name.stem}.{name.number}", {})[name.direction] = at
    return [Api(name, places.get("forward", -1), places.get("backward", -1)) for name, places in found.items()]


def checked(dump: Dump, api: Api, inputs: Inputs) -> tuple[Checked, tuple[Attempt, ...]]:
    """Check the directions of an API that were recorded."""
    attempts = tuple(attempt(dump, at, api.name, inputs) for at in (api.forward, api.backward) if at >= 0)
    return Checked(api.name, tuple(each.direction for each in attempts)), attempts


def attempt(dump: Dump, at: int, api: str, inputs: Inputs) -> Attempt:
    """Check one call. Raises nothing: a call that cannot be checked is skipped, with the reason."""
    direction = dump.names[at].direction
    call: RecordedCall | None = None
    try:
        call = call_of(dump, at)
        operation = _operation_of(call)
        if inputs.seed is not None:
            call = with_inputs(call, operation, inputs.seed, api)
        if inputs.executor is None:
            return Attempt(judged_call(call, direction, is_recorded=True), call, operation)
        call, different = executed(call, operation, inputs.executor)
        left = [leaf for _, leaf in call.gradients] if call.is_backward else call.outputs
        if different and not left:
            return Attempt(Direction(direction, different), call, operation)
        found = judged_call(call, direction, is_recorded=False)
        return Attempt(replace(found, outputs=(*different, *found.outputs)), call, operation)
    except CannotReplay as err:
        is_unknown = err.outcome.cause is Cause.UNKNOWN_OPERATION
        creates = is_unknown and call is not None and not _has_leaf([call.args, call.kwargs])
        skipped = Skipped(Why.CREATES if creates else err.outcome.cause, err.outcome.detail)
    except CannotRun as err:
        skipped = Skipped(Why.CANNOT_RUN, str(err))
    return Attempt(Direction(direction, skipped=skipped), call)


def _has_leaf(node: object) -> bool:
    if isinstance(node, Mapping):
        return any(map(_has_leaf, node.values()))
    return any(map(_has_leaf, node)) if isinstance(node, list | tuple) else isinstance(node, Leaf)


def executed(call: RecordedCall, operation: Operation, executor: Executor) -> tuple[RecordedCall, tuple[Output, ...]]:
    """Return the call with the outputs of an execution, and the outputs whose shape or dtype differs from the
    record."""
    found = executor.run(call)
    different = []

    def is_alike(record: Leaf, made: Leaf | None) -> bool:
        if made is None:
            return False
        is_shape = made.shape == record.shape or operation.name in _DATA_DEPENDENT
        if is_shape and made.dtype == record.dtype:
            return True
        criterion, reason = (Criterion.DTYPE, Reason.DTYPE) if is_shape else (Criterion.SHAPE, Reason.SHAPE)
        judgement = Judgement(Status.ERROR, criterion, reason)
        different.append(Output(record.record.name, made.dtype, made.shape, record.dtype, judgement, Measures(0)))
        return False

    outputs: dict[Path, Leaf] = {
        path: found.outputs[path] for path, of in call.outputs.items() if is_alike(of, found.outputs.get(path))
    }
    gradients = [
        made if is_alike(record, made) else None
        for (_, record), made in zip(call.gradients, found.gradients, strict=call.is_backward)
    ]
    if call.is_backward:
        outputs = dict(call.outputs)
    return with_outputs(call, outputs, gradients), tuple(different)


def judged_call(call: RecordedCall, direction: str, *, is_recorded: bool, whole: int = WHOLE) -> Direction:
    """Return the judgement of the outputs of a call: the candidate that explains them best decides.

    Of a call with more than `whole` elements, a part is judged if its operation allows that.
    """
    if (chance := chance_of(call)) is not None:
        return _judged_by_chance(call, direction, chance)
    refused: NotReplayed | None = None
    best: tuple[tuple[float, float], tuple[Output, ...], bool] | None = None
    for found in references(call, whole):
        if isinstance(found, NotReplayed):
            refused = refused or found
            continue
        outputs = tuple(_output(found, reference) for reference in found.outputs)
        rank = _rank(outputs)
        if best is None or rank < best[0]:
            best = rank, outputs, found.is_exhaustive
        if rank[0] == 0:
            break
    if best is None:
        cause = refused or NotReplayed(Cause.NOTHING_TO_MEASURE, call.name)
        return Direction(direction, skipped=Skipped(cause.cause, cause.detail))
    (errors, _), outputs, is_exhaustive = best
    if errors and is_recorded and not is_exhaustive:
        return Direction(direction, skipped=Skipped(Why.UNKNOWN_OPTION, outputs[0].label))
    return Direction(direction, outputs)


def _judged_by_chance(call: RecordedCall, direction: str, chance: Chance) -> Direction:
    try:
        found = tuple(
            Output(leaf.record.name, leaf.dtype, leaf.shape, "float64", judgement, measures)
            for leaf, judgement, measures in outputs_of(call, chance)
        )
    except CannotReplay as err:
        return Direction(direction, skipped=Skipped(err.outcome.cause, err.outcome.detail))
    return Direction(direction, found) if found else Direction(direction, skipped=Skipped(Cause.NOTHING_TO_MEASURE))


def _operation_of(call: RecordedCall) -> Operation:
    """Return the operation of a call, also of a dropout. CannotReplay if it is unknown."""
    return OPERATIONS["dropout"] if chance_of(call) is not None else plan_of(call).operation


def _rank(outputs: Iterable[Output]) -> tuple[float, float]:
    """Return the rank of a candidate: the number of errors, then the largest z."""
    errors = sum(output.judgement.status is Status.ERROR for output in outputs)
    return float(errors), max((output.measures.eta for output in outputs), default=0.0)


def _output(of: References, reference: Reference) -> Output:
    judgement, measures = judged(of, reference)
    record = reference.record
    return Output(
        record.record.name, record.dtype, record.shape, str(reference.value.dtype), judgement, measures, of.label
    )


def verdicts_of(found: Iterable[Checked]) -> Verdicts:
    """Return the numbers of directions; those that cannot be checked against anything are not counted."""
    every = [direction for checked in found for direction in checked.directions]
    counts = Counter(direction.status for direction in every)
    gaps = Counter(each.skipped.why for each in every if each.skipped and each.skipped.why not in UNASKED)
    return Verdicts(counts[Status.PASS] + counts[Status.WARNING], counts[Status.ERROR], gaps)


def wrong_outputs(found: Iterable[Checked]) -> list[Output]:
    """Return all outputs in error, in the order of the calls."""
    directions = (direction for checked in found for direction in checked.directions)
    return [output for each in directions for output in each.outputs if output.judgement.status is Status.ERROR]
