"""What a run has learned, by step and rank: losses, gradients, updates; and whether it trains at all.

By these a run is refused that did not train, two runs are compared whose calls cannot be, and the acceptance limits of
other projects are applied.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from msprobe.base.phrase import phrase
from msprobe.checks.invariants.judgement import Run
from msprobe.checks.invariants.rows import (
    CANCELLED,
    GRADIENT_DRIFT,
    GRADIENT_NOISE,
    GRADIENT_NOISE_OF_OTHER_CALLS,
    ROUNDED,
    UPDATE_NOISE,
    fingerprint,
    gradient,
    gradient_rows,
    loss_of,
    parameters,
)
from msprobe.compare.core.standard import canonical, family
from msprobe.findings.catalogue import gate as kinds
from msprobe.findings.finding import Answer, Finding, Place
from msprobe.findings.kind import Kind
from msprobe.store.reader import load_tensor
from msprobe.store.record import INPUT, OUTPUT, TENSOR, Dump
from msprobe.store.samples import Floats, Sample, positions, taken

PARAMETER, GRADIENT = "parameter {}", "gradient of {}"
"""Names of the samples of a parameter at the start of a step, and of its gradient, added up over the micro batches of
the step. Both are drawn for the name of the parameter, so that they have the same elements in all steps."""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What one rank has learned in one step.

    calls : number of recorded calls.
    loss : sum of the losses whose gradients were taken; None if none was recorded.
    gradients, gradient_norm : parameters with a gradient, and the norm of all gradients; None if unknown.
    parameters, updated : recorded parameters, and how many of them differ from those of the step before; None if that
        was not recorded.
    """

    step: int
    rank: int
    calls: int
    loss: float | None = None
    gradients: int = 0
    gradient_norm: float | None = None
    parameters: int = 0
    updated: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "StepFacts":
        """Return the facts in a golden file; TypeError or KeyError if they are none."""
        return cls(**{key: row[key] for key in cls.__dataclass_fields__ if key in row})

    def as_row(self) -> dict[str, Any]:
        """Return the facts as a golden file has them; JSON has no NaN."""
        return {
            key: None if isinstance(value, float) and not isfinite(value) else value
            for key, value in asdict(self).items()
        }


def facts_of(run: Run) -> tuple[StepFacts, ...]:
    """Return what a run has learned, by step and rank."""
    before: dict[int, Dump] = {}
    found = []
    for step, rank, dump in run.every:
        old = before.get(rank)
        norm, number = gradient_norm(dump)
        found.append(
            StepFacts(
                step or 0,
                rank,
                len(dump.calls),
                loss_of(dump),
                number,
                norm,
                len(parameters(dump)),
                None if old is None else _updated(old, dump),
            )
        )
        before[rank] = dump
    return tuple(found)


def gradient_norm(dump: Dump) -> tuple[float | None, int]:
    """Return the norm of all gradients of a step, and the number of parameters that have one.

    None if several micro batches would have to be added up, and elements were not saved.
    """
    squares, every = 0.0, gradient_rows(dump)
    for rows in every.values():
        if len(rows) == 1:
            norm = dump.columns.numbers_of(rows[0])[3]
        else:
            array = gradient(dump, rows)
            if array is None:
                return None, len(every)
            norm = float(np.linalg.norm(np.asarray(array, np.float64)))
        squares += norm * norm
    return (sqrt(squares) if isfinite(squares) else inf) if every else None, len(every)


def _updated(old: Dump, new: Dump) -> int | None:
    then, now = parameters(old), parameters(new)
    shared = [name for name in then if name in now]
    return sum(fingerprint(old, then[name]) != fingerprint(new, now[name]) for name in shared) if shared else None


# ---- whether a run trains -------------------------------------------------------------------------------------------


class Untrained(Enum):
    """Why a run did not train."""

    NO_GRADIENTS = "no gradients"
    NOTHING_UPDATED = "nothing updated"
    CONSTANT_LOSS = "constant loss"
    FEWER_CALLS = "fewer calls"


KINDS: dict[Untrained, Kind] = {
    Untrained.NO_GRADIENTS: kinds.NO_GRADIENTS,
    Untrained.NOTHING_UPDATED: kinds.NOTHING_UPDATED,
    Untrained.CONSTANT_LOSS: kinds.CONSTANT_LOSS,
    Untrained.FEWER_CALLS: kinds.FEWER_CALLS,
}

_FEWER = 0.5
"""A step with less than this share of the golden's calls is not the same training."""


def defects(facts: Sequence[StepFacts]) -> set[Untrained]:
    """Return what shows that a run does not train; with one step, only whether there are gradients."""
    found = set()
    if not any(each.gradients for each in facts):
        found.add(Untrained.NO_GRADIENTS)
    updates = [each.updated for each in facts if each.updated is not None]
    if updates and not any(updates):
        found.add(Untrained.NOTHING_UPDATED)
    losses = {rank: [each.loss for each in facts if each.rank == rank] for rank in {each.rank for each in facts}}
    several = [set(of) for of in losses.values() if len(of) > 1 and None not in of]
    if several and all(len(of) == 1 for of in several):  # the first stage of a pipeline has no loss
        found.add(Untrained.CONSTANT_LOSS)
    return found


def untrained_answer(facts: Sequence[StepFacts]) -> Answer:
    """Return the answer about a run that is refused as a golden because it does not train, or was not collected."""
    if facts:
        found = defects(facts)
        why = next(each for each in Untrained if each in found)
        fields = {"loss": facts[0].loss or 0.0, "steps": len({each.step for each in facts})}
        finding = Finding(KINDS[why], Place("the run"), KINDS[why].sentence(**fields))
    else:
        text = kinds.FEWER_CALLS.sentence("nothing")
        finding = Finding(kinds.FEWER_CALLS, Place("the run"), text)
    line = phrase("not recorded: the run did not train: {reason}", reason=finding.reason)
    return Answer("differs", line, finding)


def untrained(target: Sequence[StepFacts], golden: Sequence[StepFacts]) -> list[Finding]:
    """Return what shows that a run did not train although the golden does, the clearest first."""
    found: list[Finding] = []
    run = {(each.step, each.rank): each for each in target}
    missing = [each for each in golden if (each.step, each.rank) not in run]
    if missing:
        one = missing[0]
        text = kinds.FEWER_CALLS.sentence("step", number=len(missing), all=len(golden), step=one.step, rank=one.rank)
        found.append(Finding(kinds.FEWER_CALLS, Place("the run", step=one.step, rank=one.rank), text))
    new = defects(target) - defects(golden) if target else set()
    for why in (Untrained.NO_GRADIENTS, Untrained.NOTHING_UPDATED, Untrained.CONSTANT_LOSS):
        if why in new:
            fields = {"loss": target[0].loss if target[0].loss is not None else 0.0, "steps": len({*run})}
            found.append(Finding(KINDS[why], Place("the run"), KINDS[why].sentence(**fields)))
    for each in golden:
        other = run.get((each.step, each.rank))
        if other is not None and other.calls < _FEWER * each.calls and not other.gradients:
            text = kinds.FEWER_CALLS.sentence("calls", calls=other.calls, golden=each.calls, step=each.step)
            found.append(Finding(kinds.FEWER_CALLS, Place("the run", step=each.step, rank=each.rank), text))
            break
    return found


# ---- two runs whose calls cannot be compared ------------------------------------------------------------------------

COMPARABLE = 0.7
"""With a smaller share of the golden's tensors that the run has too, calls do not decide: compiled calls are not
visible, and another batch has other shapes."""

_NEGLIGIBLE = 1e-3
"""The errors of a gradient that is so much smaller than most are relative to this share of theirs."""


def coverage(target: Dump, golden: Dump) -> float:
    """Return the share of the golden's tensors of calls for which the run has one of the same place and shape."""
    theirs, ours = _forms(golden), _forms(target)
    return sum((theirs & ours).values()) / max(1, sum(theirs.values()))


def _forms(dump: Dump) -> Counter[tuple[object, ...]]:
    columns, names = dump.columns, dump.names
    found: Counter[tuple[object, ...]] = Counter()
    for call, name in enumerate(names):
        if name.kind == "parameters_grad":
            continue
        for row in columns.rows(call):
            if columns.kind[row] == TENSOR:
                _, dtype, shape = columns.looks[columns.look[row]]
                found[name.stem, name.direction, columns.part[row], columns.path_of(row), canonical(dtype), shape] += 1
    return found


@dataclass(frozen=True, slots=True)
class GradientError:
    """The relative error of one gradient, and the error up to which it is noise."""

    parameter: str
    step: int
    rank: int
    error: float
    limit: float

    @property
    def is_wrong(self) -> bool:
        """Return whether noise does not explain it."""
        return not self.error <= self.limit


def gradient_errors(
    run: Run,
    golden: Run,
    samples: Mapping[tuple[int | None, int], Mapping[str, Sample]],
    *,
    are_comparable: bool = False,
) -> Iterator[GradientError] | None:
    """Return the errors of all gradients of the golden, in the order of the steps.

    `are_comparable`: most calls of the two runs can be compared, so that less is noise. None if some gradients cannot
    be compared: the run has another set of parameters, or elements were not saved.
    """
    found: list[GradientError] = []
    greatest: dict[int, float] = {}
    table = GRADIENT_NOISE if are_comparable else GRADIENT_NOISE_OF_OTHER_CALLS
    for step, rank, dump in golden.every:
        other = run.steps.get(step, {}).get(rank)
        own = {name: one for name, one in samples.get((step, rank), {}).items() if name.startswith(GRADIENT.format(""))}
        if other is None or not own:
            return None
        rows, parts = gradient_rows(other), gradient_rows(dump)
        numbers = {len(rows[name]) / len(parts[name]) for name in rows.keys() & parts.keys()}
        pairs: dict[str, tuple[Floats, Floats, str]] = {}
        for name, sample in own.items():
            parameter = name.removeprefix(GRADIENT.format(""))
            array = gradient(other, rows[parameter]) if parameter in rows else None
            if array is None or array.size != sample.count or not len(sample.elements):
                return None
            at = positions(sample.drawn_for, sample.count, len(sample.elements))
            pairs[parameter] = taken(array, at), sample.elements, other.columns.dtype(rows[parameter][0])
        number = max(numbers, default=1.0)
        if len(numbers) == 1 and number > 1 and _are_averaged([pair[:2] for pair in pairs.values()], number):
            pairs = {name: (ours / number, theirs, dtype) for name, (ours, theirs, dtype) in pairs.items()}
        sizes = [_rms(theirs) for _, theirs, _ in pairs.values()]
        usual = float(np.median(sizes))
        before = greatest.get(rank)
        # Statistics of calls show smaller errors than that; if the calls are others, nothing else does.
        coarsest = 0.0 if are_comparable else max((table.get(one, 0.0) for one in _computed_in(dump)), default=0.0)
        for (parameter, (ours, theirs, dtype)), size in zip(pairs.items(), sizes, strict=True):
            is_cancelled = max(size, _rms(ours)) < CANCELLED * usual
            error = 0.0 if is_cancelled else _rms(ours - theirs) / max(size, _NEGLIGIBLE * usual, 1e-300)
            least = max(table.get(canonical(dtype), table["float32"]), coarsest)
            limit = least if before is None else max(least, GRADIENT_DRIFT * before)
            found.append(GradientError(parameter, step or 0, rank, error, limit))
        greatest[rank] = max(before or 0.0, max((one.error for one in found if one.rank == rank), default=0.0))
    return iter(found)


def _are_averaged(pairs: Iterable[tuple[Floats, Floats]], number: float) -> bool:
    """Return whether the gradients of a number of micro batches were averaged after they were recorded: their mean is
    nearer to the golden's gradients than their sum."""
    found = [(_rms(ours - theirs), _rms(ours / number - theirs)) for ours, theirs in pairs]
    return sum(mean for _, mean in found) < sum(total for total, _ in found)


def _computed_in(dump: Dump) -> set[str]:
    """Return the dtypes of the tensors that backward calls return: a float32 gradient may be computed in bfloat16."""
    columns = dump.columns
    calls = (call for call, name in enumerate(dump.names) if name.direction == "backward")
    return {canonical(columns.dtype(row)) for call in calls for row in columns.tensors(call, OUTPUT)}


def _rms(elements: Floats) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(np.square(elements))))


def is_rounding_updated(
    name: str, step: int, rank: int, target: Run, samples: Mapping[tuple[int | None, int], Mapping[str, Sample]]
) -> bool:
    """Return whether the update of a parameter before a step agrees in all elements whose gradient is not rounding."""
    if _is_cancelled(name, step - 1, samples):
        return True
    old, new = samples.get((step - 1, rank), {}), samples.get((step, rank), {})
    then, now, grad = old.get(PARAMETER.format(name)), new.get(PARAMETER.format(name)), old.get(GRADIENT.format(name))
    runs = [target.steps.get(at, {}).get(rank) for at in (step - 1, step)]
    if then is None or now is None or grad is None or None in runs:
        return False
    mine = [_parameter(dump, name, now) for dump in runs if dump is not None]
    if mine[0] is None or mine[1] is None or not len(grad.elements) == len(now.elements) == len(then.elements) > 0:
        return False
    expected, found = now.elements - then.elements, mine[1] - mine[0]
    counts = np.abs(grad.elements) > ROUNDED * np.sqrt(np.mean(np.square(grad.elements)))
    size = np.sqrt(np.mean(np.square(expected[counts]))) if counts.any() else 0.0
    return bool(size > 0 and np.sqrt(np.mean(np.square((found - expected)[counts]))) <= UPDATE_NOISE * size)


_DRAWN = 1e-6
"""Relative difference of initial parameters and of inputs of the run that is rounding of the kernels that draw them, as
the root mean square."""


def are_initialized_alike(
    names: Collection[str], target: Run, samples: Mapping[tuple[int | None, int], Mapping[str, Sample]]
) -> bool:
    """Return whether all parameters of the first step agree up to rounding, on each rank; False if one of `names` has
    no sample."""
    first = min((step for step, _ in samples), key=lambda step: step or 0, default=None)
    of_ranks = {rank: of_rank for (step, rank), of_rank in samples.items() if step == first}
    for rank, of_rank in of_ranks.items():
        dump = target.steps.get(first, {}).get(rank)
        parameters_of = {name: one for name, one in of_rank.items() if name.startswith(PARAMETER.format(""))}
        if dump is None or not parameters_of.keys() >= {PARAMETER.format(name) for name in names}:
            return False
        for name, sample in parameters_of.items():
            mine = _parameter(dump, name.removeprefix(PARAMETER.format("")), sample)
            if mine is None or not len(sample.elements):
                return False
            if not _rms(mine - sample.elements) <= _DRAWN * _rms(sample.elements):
                return False
    return bool(of_ranks)


def are_fed_alike(call: str, mine: Dump, theirs: Dump, samples: Mapping[str, Sample]) -> bool:
    """Return whether the tensors that a call receives agree up to rounding, in their statistics and in a sample of
    their elements; False if one that differs has no sample."""
    if call not in mine.place or call not in theirs.place:
        return False
    rows = [list(dump.columns.tensors(dump.place[call], INPUT)) for dump in (mine, theirs)]
    if len(rows[0]) != len(rows[1]):
        return False
    return all(_is_fed_alike(at, other, mine, theirs, samples) for at, other in zip(*rows, strict=True))


def _is_fed_alike(at: int, other: int, mine: Dump, theirs: Dump, samples: Mapping[str, Sample]) -> bool:
    ours, golden = mine.columns, theirs.columns
    if fingerprint(mine, at) == fingerprint(theirs, other):
        return True
    record = ours.record(at, ours.call_of(at))
    sample = samples.get(golden.row_name(other, golden.call_of(other)))
    if sample is None or not len(sample.elements) or not record.file or family(record.dtype) != "float":
        return False
    array = load_tensor(mine, record)
    if array.size != sample.count or not _rms(taken(array, sample.positions) - sample.elements) <= _DRAWN * _rms(
        sample.elements
    ):
        return False
    found, expected = (dump.columns.numbers_of(row) for dump, row in ((mine, at), (theirs, other)))
    return all(abs(x - y) <= _DRAWN * max(abs(y), _rms(sample.elements)) for x, y in zip(found, expected, strict=True))


def _is_cancelled(name: str, step: int, samples: Mapping[tuple[int | None, int], Mapping[str, Sample]]) -> bool:
    """Return whether the gradient of a parameter cancels out in a step, added up over all ranks, which may each have a
    part of the sequence."""
    sums: dict[str, Floats] = {}
    for (at, _), of_rank in samples.items():
        for key, sample in of_rank.items() if at == step else ():
            if key.startswith(GRADIENT.format("")):
                known = sums.get(key)
                is_alike = known is not None and known.shape == sample.elements.shape
                sums[key] = known + sample.elements if known is not None and is_alike else sample.elements
    sizes = {key: _rms(elements) for key, elements in sums.items() if len(elements)}
    own = sizes.get(GRADIENT.format(name))
    return own is not None and own < CANCELLED * float(np.median(list(sizes.values())))


def _parameter(dump: Dump, name: str, sample: Sample) -> Floats | None:
    row = parameters(dump).get(name)
    if row is None or not dump.columns.file[row]:
        return None
    array = load_tensor(dump, dump.columns.record(row, dump.columns.call_of(row)))
    return taken(array, sample.positions) if array.size == sample.count else None


# ---- limits of other projects ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The largest relative differences of the loss of the first step, of the mean loss, and of the gradients' norm of
    each step, with their source."""

    first_loss: float
    mean_loss: float
    gradient_norm: float
    source: str


PRESETS = {
    "mindformers": Acceptance(
        0.005,
        0.01,
        0.1,
        "MindFormers, accuracy comparison: first loss below 0.5 %, mean loss below 1 %, gradient norm at most 10 %",
    )
}


def beyond(target: Sequence[StepFacts], golden: Sequence[StepFacts], limits: Acceptance) -> list[Finding]:
    """Return which of the limits a run exceeds; a number that one side does not have exceeds them."""
    found: list[Finding] = []
    run = {(each.step, each.rank): each for each in target}
    pairs = [(run[each.step, each.rank], each) for each in golden if (each.step, each.rank) in run]

    def judge(what: str, mine: float | None, theirs: float | None, most: float, step: int | None) -> None:
        error = inf if mine is None or theirs is None else _relative(mine, theirs)
        if not error <= most:
            text = kinds.BEYOND_LIMITS.sentence(what, target=mine or 0.0, golden=theirs or 0.0, error=error, limit=most)
            found.append(Finding(kinds.BEYOND_LIMITS, Place("the run", step=step), text))

    if pairs:
        first = min(each.step for each in golden)
        judge("first loss", pairs[0][0].loss, pairs[0][1].loss, limits.first_loss, first)
        means = [_mean([both[side].loss for both in pairs]) for side in (0, 1)]
        judge("mean loss", means[0], means[1], limits.mean_loss, None)
        for mine, theirs in pairs:
            judge("gradient norm", mine.gradient_norm, theirs.gradient_norm, limits.gradient_norm, mine.step)
    return found


def _mean(losses: Sequence[float | None]) -> float | None:
    known = [each for each in losses if each is not None]
    return sum(known) / len(known) if len(known) == len(losses) else None


def _relative(mine: float, theirs: float) -> float:
    if mine == theirs:
        return 0.0
    return abs(mine - theirs) / abs(theirs) if theirs and isfinite(mine - theirs) else inf
