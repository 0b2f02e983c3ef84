"""Identities between the statistics of one call: what holds in exact arithmetic, whatever rounds inside.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from .summary import Summary


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
