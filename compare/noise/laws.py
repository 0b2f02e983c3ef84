"""Identities of one call between statistics: is the target's deviation from them noise among calls of its kind?

Identities between the statistics of one call: what holds in exact arithmetic, whatever rounds inside.

A law tells statistics of an output by those of the inputs. It needs no tensor and holds up to the rounding of the
output's elements, which averages out: a mean is right to `unit / sqrt(n)` of the root mean square. With sums, squares
and extremes of all elements written as S, Q, max and min:

| operation | law | forward | backward |
|---|---|---|---|
| reshape, transpose, cast, ... | `SAME` | all four are those of the input | those of the incoming gradient |
| neg, times or plus a number | `LINEAR` | all four follow | times the same number |
| add, sub, bias_add, sum, mean | `SUM` | S is the sum of the inputs' | S of the incoming gradient is kept |
| concat, stack, split, unbind | `PARTS` | S, Q, max and min of all parts are those of the whole | the same |
| expand, tile | `COPIES` | S and Q are multiplied, max and min kept | S is kept |
| index, gather, embedding | `PICKED` | max and min are within the input's | S is kept |
| exp, tanh, relu, sqrt, ... | `MONOTONE` | max and min are those of the input, mapped | |
| square, sqrt | `SQUARES` | S of the squares is Q | |
| softmax | `SHARES` | S is the number of rows | S is 0 |
| normalisations | `CENTRED` | with a constant gamma, S is that of beta | S of the input's gradient is 0 |

Sources: the definitions of the operations; the gradients are their vector-Jacobian products, summed over all elements.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from statistics import median
from typing import NamedTuple

from msprobe.compare.core.noise import LOWEST
from msprobe.compare.core.standard import canonical
from msprobe.store.record import TENSOR, Columns

_UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-23, "complex128": 2.0**-23}
"""The spacing of a dtype at 1. Statistics are often kept with float32's digits, so nothing is finer than that."""

MASKED = 1e3
"""Beside elements beyond this the statistics of a tensor say nothing of the others: a mask of -1e9."""


class Summary(NamedTuple):
    """The statistics of a tensor of `size` elements, whose dtype rounds by `unit`, and its shape."""

    max: float
    min: float
    mean: float
    norm: float
    size: int
    unit: float
    shape: tuple[int, ...] = ()

    @property
    def rms(self) -> float:
        """The root mean square."""
        return self.norm / math.sqrt(self.size) if self.size else 0.0

    @property
    def greatest(self) -> float:
        """The greatest magnitude."""
        return max(abs(self.max), abs(self.min))

    @property
    def total(self) -> float:
        """The sum of all elements."""
        return self.mean * self.size

    @property
    def is_constant(self) -> bool:
        """Whether all elements are one number."""
        return self.max == self.min


class Summaries:
    """The summaries of one dump's rows, each made once."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._looks = [_look(dtype, shape) for _, dtype, shape in columns.looks]
        self._known: dict[int, Summary | None] = {}

    def of(self, row: int) -> Summary | None:
        """The summary of a row; None for what is no tensor, has no statistics, or holds what is not finite."""
        if row not in self._known:
            self._known[row] = self._made(row)
        return self._known[row]

    def _made(self, row: int) -> Summary | None:
        columns = self._columns
        if columns.kind[row] != TENSOR or row in columns.odd:
            return None
        greatest, least, mean, norm = columns.max[row], columns.min[row], columns.mean[row], abs(columns.norm[row])
        if not math.isfinite(greatest + least + mean + norm):
            return None
        return Summary(greatest, least, mean, norm, *self._looks[columns.look[row]])


def summary_of(columns: Columns, row: int) -> Summary | None:
    """The summary of a single row, as `Summaries` gives it."""
    return Summaries(columns).of(row)


@lru_cache(maxsize=4096)
def _look(dtype: str, shape: tuple[int, ...] | None) -> tuple[int, float, tuple[int, ...]]:
    """Size, unit and shape."""
    return math.prod(shape or ()), _UNITS.get(canonical(dtype), 2.0**-23), shape or ()


class Apart(NamedTuple):
    """By how much the statistics of two tensors differ: norm as a share of the norm, mean of the root mean square, max
    and min of the greatest magnitude (of the golden). 0 where both are zero, inf where only the golden is."""

    norm: float
    mean: float
    max: float
    min: float
    size: int

    @property
    def moments(self) -> float:
        """The greater of norm and mean, over which the errors of all elements average out."""
        return max(self.norm, self.mean)

    @property
    def extremes(self) -> float:
        """The greater of max and min, each of which has the error of one element."""
        return max(self.max, self.min)

    @property
    def spread(self) -> float:
        """The relative error of the elements that explains all four, if errors are independent.

        Of n independent errors of relative size e, norm and mean differ by about e / sqrt(n) and single elements by e.
        """
        return max(self.moments * math.sqrt(self.size), self.extremes)


def apart(target: Summary, golden: Summary, least: float = 0.0) -> Apart:
    """The differences of two summaries of tensors of one shape; `least` is a root mean square that the golden's scale
    has at least, of what cancelled out."""
    size = max(golden.size, 1)
    rms, greatest = max(golden.rms, least), max(golden.greatest, least)
    return Apart(
        _share(target.norm - golden.norm, rms * math.sqrt(size)),
        _share(target.mean - golden.mean, rms),
        _share(target.max - golden.max, greatest),
        _share(target.min - golden.min, greatest),
        size,
    )


def _share(difference: float, scale: float) -> float:
    if difference == 0:
        return 0.0
    return abs(difference) / scale if scale else math.inf


class Law(Enum):
    """Which identity, in words that follow "although"."""

    SAME = "the elements are those of the input"
    LINEAR = "the elements are a linear function of the input's"
    SUM = "the sum of all elements follows from the inputs' sums"
    PARTS = "the parts make up the whole"
    COPIES = "the elements are copies of the input's"
    PICKED = "the elements are picked from the input"
    MONOTONE = "the extremes are those of the input, mapped"
    SQUARES = "the sum of squares follows from the norm"
    SHARES = "every row sums to one number"
    CENTRED = "the mean is taken out"


COMPLETE = frozenset([Law.SAME, Law.LINEAR, Law.PARTS, Law.COPIES])
"""A law that tells all four statistics: an output that keeps it is explained."""

SUMS = frozenset([Law.SUM, Law.SQUARES])
"""A law that tells the sum of all elements: an output that keeps it is explained, if it does not differ grossly. The
others are necessary only."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a law says of one `statistic`; `off` is by how much it is not so, as a share of the scale of what it was
    computed from."""

    law: Law
    statistic: str
    off: float


@dataclass(frozen=True, slots=True)
class Seen:
    """One call of one side: the function's canonical name, its arguments in order (summaries and numbers), its outputs,
    and of a backward call the incoming gradients.

    `outputs` of a backward call are the gradients of the arguments, None for what has none. `is_reflected`: the
    operands stand the other way round.
    """

    operation: str
    is_backward: bool
    arguments: Sequence[Summary | float]
    outputs: Sequence[Summary | None]
    incoming: Sequence[Summary] = ()
    is_reflected: bool = False


Rule = Callable[[Seen, int, Summary], Iterator[Identity]]


ARRANGES = (
    *("reshape", "ravel", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim"),
    *("contiguous", "clone", "detach", "alias", "cast", "flip", "roll", "rot90", "positive", "pixel_shuffle"),
    *("pixel_unshuffle", "channel_shuffle", "atleast_1d", "atleast_2d", "atleast_3d", "msort"),
)
"""Operations whose output has the elements of the input, each once."""

JOINS = ("cat", "stack", "hstack", "vstack", "dstack", "column_stack")
"""Operations whose output is made up of all inputs."""

_PARTS = 256
"""So many parts are added up at most: it is done for each of them."""


# Statistics that a law tells, against those that were recorded.


def linear(law: Law, out: Summary, of: Summary, factor: float = 1.0, offset: float = 0.0) -> Iterator[Identity]:
    """That `out` is `factor * of + offset`, element by element; nothing where the numbers of elements differ."""
    if out.size != of.size:
        return
    ends = sorted((factor * of.max + offset, factor * of.min + offset))
    greatest = max(abs(factor) * of.greatest + abs(offset), out.greatest)
    yield Identity(law, "max", share(out.max - ends[1], greatest))
    yield Identity(law, "min", share(out.min - ends[0], greatest))
    scale = max(abs(factor) * of.rms + abs(offset), out.rms)
    yield Identity(law, "mean", share(out.mean - (factor * of.mean + offset), scale))
    square = (factor * of.rms) ** 2 + 2 * factor * offset * of.mean + offset**2
    yield Identity(law, "norm", share(out.rms - math.sqrt(max(square, 0.0)), scale))


def added(law: Law, out: Sequence[Summary], of: float, scale: float) -> Iterator[Identity]:
    """That the sum of all elements of `out` is `of`; `scale` is the root mean square of what was added, per element."""
    size = sum(part.size for part in out)
    if not size:
        return
    own = math.sqrt(sum(part.norm**2 for part in out) / size)
    yield Identity(law, "mean", share((sum(part.total for part in out) - of) / size, max(scale, own)))


def joined(law: Law, parts: Sequence[Summary], whole: Sequence[Summary]) -> Iterator[Identity]:
    """That some tensors have the elements of others, each once; nothing where the numbers of elements differ."""
    size = sum(one.size for one in whole)
    if size != sum(one.size for one in parts) or not size:
        return
    norms = [math.sqrt(sum(one.norm**2 for one in side)) for side in (parts, whole)]
    yield from added(law, parts, sum(one.total for one in whole), norms[1] / math.sqrt(size))
    yield Identity(law, "norm", share(norms[0] - norms[1], norms[1]))
    greatest = max(one.greatest for one in whole)
    yield Identity(law, "max", share(max(p.max for p in parts) - max(w.max for w in whole), greatest))
    yield Identity(law, "min", share(min(p.min for p in parts) - min(w.min for w in whole), greatest))


def share(difference: float, scale: float) -> float:
    """The size of a difference as a share of a scale; 0 where there is none, inf where only the scale is zero."""
    if difference == 0:
        return 0.0
    return abs(difference) / scale if scale else math.inf


def tensors_of(seen: Seen) -> list[Summary]:
    """The arguments that are tensors."""
    return [one for one in seen.arguments if isinstance(one, Summary)]


def outputs_of(seen: Seen) -> list[Summary]:
    """The outputs that are there; none where they are too many to be added up for each of them."""
    return [one for one in seen.outputs if one is not None] if len(seen.outputs) <= _PARTS else []


def number(value: Summary | float) -> float | None:
    """An argument that is one number for all elements."""
    if isinstance(value, Summary):
        return value.mean if value.size == 1 or value.is_constant else None
    return value


def operands_of(seen: Seen) -> list[Summary | float]:
    """The first two arguments in the order of the operation; those of `__rsub__` stand the other way round."""
    found = list(seen.arguments[:2])
    return found[::-1] if seen.is_reflected else found


_HOLDS = 1e-6
"""A law holds up to here: statistics that were kept, or added up, with float32's digits."""

_ROUNDINGS = 4.0
"""So many roundings of the elements a law may be off."""

_TIMES = 8.0
"""A law is kept where it is off by no more than so many times what it is off on the golden side."""

_EXTREMES_ACROSS = 1e-4
"""Up to here the extremes of two frameworks' kernels keep a law: MindSpore's tanh is off by 3.5e-5 on a CPU."""

_SEVERAL = 3
"""So many calls of a kind that are all off alike show how coarse the kernel is."""

_CLASS = 4.0
"""So many times the median of these one of them may be off."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the laws say of one pair of outputs: the target's identities, each with the golden's.

    `kind` is the function and direction. `is_alone`: the call has no other output, so that what holds of all parts
    holds of it.
    """

    kind: Hashable
    pairs: tuple[tuple[Identity, Identity], ...]
    target: Summary
    golden: Summary
    is_alone: bool


@dataclass(frozen=True, slots=True)
class LawJudgement:
    """The identity that decides about an output, and up to where it is kept."""

    target: Identity
    golden: Identity
    bound: float

    @property
    def is_broken(self) -> bool:
        """Whether the target does not keep it."""
        return self.target.off > self.bound


def judge_laws(outputs: Mapping[int, Told], *, is_across: bool = False) -> dict[int, LawJudgement]:
    """By row of an output that a law breaks or explains; `is_across`: the two sides are of two frameworks."""
    bounds = _Bounds(outputs.values(), _EXTREMES_ACROSS if is_across else 0.0)
    found = {}
    for row, told in outputs.items():
        judged = [LawJudgement(t, g, bounds.of(told, t, g)) for t, g in told.pairs if _holds(told, g)]
        broken = [one for one in judged if one.is_broken]
        kept = [one for one in judged if one.target.law in COMPLETE | SUMS]
        kept = [one for one in kept if told.is_alone or one.target.law is not Law.PARTS]
        if decisive := broken or kept:
            found[row] = max(decisive, key=lambda one: one.target.off)
    return found


class _Bounds:
    """Up to where each law is kept, by kind, law and statistic."""

    def __init__(self, outputs: Iterable[Told], extremes: float) -> None:
        self._extremes = extremes
        self._golden: dict[Hashable, float] = defaultdict(float)
        self._coarse: dict[Hashable, float] = {}
        holding = [(told, t, g) for told in outputs for t, g in told.pairs if _holds(told, g)]
        for told, _, golden in holding:
            key = _key(told, golden)
            self._golden[key] = max(self._golden[key], golden.off)
        elements: dict[Hashable, list[float]] = defaultdict(list)
        for told, target, golden in holding:
            is_broken = target.off > self.of(told, target, golden)
            elements[_key(told, target)].append(target.off * _averaged(told, target) if is_broken else 0.0)
        for key, found in elements.items():
            broken = [one for one in found if one]
            if len(broken) >= _SEVERAL and 2 * len(broken) >= len(found) and median(broken) <= LOWEST:
                self._coarse[key] = median(broken)

    def of(self, told: Told, target: Identity, golden: Identity) -> float:
        """The bound of one law of one output.

        A kernel that rounds more coarsely throughout is a property of the device, as long as its errors average out
        like rounding: a wrong constant does not.
        """
        key = _key(told, golden)
        least = max(_tolerance(told.target, golden), _TIMES * self._golden[key])
        if target.statistic in ("max", "min"):
            least = max(least, self._extremes)
        return max(least, _CLASS * self._coarse.get(key, 0.0) / _averaged(told, target))


def _key(told: Told, one: Identity) -> Hashable:
    return told.kind, one.law, one.statistic


def _holds(told: Told, golden: Identity) -> bool:
    """Whether a law is one of this call: the golden side keeps it."""
    return golden.off <= _tolerance(told.golden, golden)


def _tolerance(of: Summary, one: Identity) -> float:
    rounding = _ROUNDINGS * of.unit
    return max(_HOLDS, rounding if one.statistic in ("max", "min") else rounding / math.sqrt(max(of.size, 1)))


def _averaged(told: Told, one: Identity) -> float:
    """By what a statistic is more exact than one element."""
    return 1.0 if one.statistic in ("max", "min") else math.sqrt(max(told.target.size, 1))
