"""Identities between the statistics of a call's inputs and outputs, which hold in exact arithmetic.

A law computes statistics of an output from those of the inputs. It does not need tensors, and holds up to the rounding
of the output's elements, which averages out: the error of a mean is `unit / sqrt(n)` of the root mean square. S, Q, max
and min are the sum, the sum of squares and the extremes of all elements:

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
| normalizations | `CENTRED` | with a constant gamma, S is that of beta | S of the input's gradient is 0 |

Sources: the definitions of the operations; the gradients are their vector-Jacobian products, summed over all elements.

Each rule applies to numbers and to columns: to one call, or to many calls of one form in one pass of numpy.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import reduce
from typing import NamedTuple

import numpy as np

from .summary import Floats, Summary, each, greater, is_column, lesser, of_known, root, share, square


class Law(Enum):
    """Kinds of identities; the values follow "although"."""

    SAME = "the elements are those of the input"
    LINEAR = "the elements are a linear function of the input's"
    SUM = "the sum of all elements follows from the inputs' sums"
    PARTS = "the parts add up to the whole"
    COPIES = "the elements are copies of the input's"
    PICKED = "the elements are picked from the input"
    MONOTONE = "the extremes are those of the input, mapped"
    SQUARES = "the sum of squares follows from the norm"
    SHARES = "every row sums to one number"
    CENTRED = "the mean is subtracted"


class Identity(NamedTuple):
    """A law for one `statistic`; `off` is its error, relative to the scale of the values from which it was computed."""

    law: Law
    statistic: str
    off: float


class IdentityColumn(NamedTuple):
    """An `Identity` for many calls of one form: `off` of each, NaN if it does not apply."""

    law: Law
    statistic: str
    off: Floats


class CallSummary(NamedTuple):
    """One call of one side: the function's canonical name, its arguments in order (summaries and numbers), its outputs,
    and of a backward call the incoming gradients.

    `outputs` of a backward call are the gradients of the arguments, None if there is none. `is_reflected`: the operands
    are exchanged.
    """

    operation: str
    is_backward: bool
    arguments: Sequence[Summary | float]
    outputs: Sequence[Summary | None]
    incoming: Sequence[Summary] = ()
    is_reflected: bool = False

    @property
    def tensors(self) -> list[Summary]:
        """Return the arguments that are tensors."""
        return [one for one in self.arguments if isinstance(one, Summary)]

    @property
    def parts(self) -> list[Summary]:
        """Return the outputs that exist; none if there are too many to be summed up for each of them."""
        return [one for one in self.outputs if one is not None] if len(self.outputs) <= _PARTS else []

    @property
    def operands(self) -> list[Summary | float]:
        """Return the first two arguments in the order of the operation; those of `__rsub__` are exchanged."""
        found = list(self.arguments[:2])
        return found[::-1] if self.is_reflected else found


JOINS = ("cat", "stack", "hstack", "vstack", "dstack", "column_stack")
"""Operations whose output is made up of all inputs."""

_ARRANGES = (
    *("reshape", "ravel", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim"),
    *("contiguous", "clone", "detach", "alias", "cast", "flip", "roll", "rot90", "positive", "pixel_shuffle"),
    *("pixel_unshuffle", "channel_shuffle", "atleast_1d", "atleast_2d", "atleast_3d", "msort"),
)
"""Operations whose output has the elements of the input, each once."""

_SUM_HOLDS = 1e-5
"""Limit of the relative error of the mean of a sum of gradients in float32: 5e-8 in 1,184 of 1,184 measured sums."""

_SUM_ROUNDINGS = 16.0
"""Number of roundings of its elements by which a sum may deviate."""

_PARTS = 256
"""Largest number of parts that are summed up, which is done for each of them."""


def has_law(operation: str, is_backward: bool) -> bool:
    """Return whether there is a law for any output of an operation."""
    return operation in (_BACKWARD if is_backward else _FORWARD)


def identities(call: CallSummary, at: int) -> list[Identity]:
    """Return the identities of the output at a position of a call; empty if there is no law.

    An identity may not hold although the call is correct, because of arguments that are not considered here: it is
    evidence only if it holds on a trusted side.
    """
    out = call.outputs[at] if at < len(call.outputs) else None
    rule = (_BACKWARD if call.is_backward else _FORWARD).get(call.operation)
    return _computable(rule(call, at, out)) if rule and out is not None and out.size else []


def identities_of_many(call: CallSummary, at: int, count: int) -> list[IdentityColumn] | None:
    """Return `identities` of `count` calls of one form, whose summaries are columns in `call`.

    None if a rule decides by the numbers of each call, or computes a number that is not a float: each call has to be
    examined individually then.
    """
    out = call.outputs[at] if at < len(call.outputs) else None
    rule = (_BACKWARD if call.is_backward else _FORWARD).get(call.operation)
    if not rule or out is None or not out.size:
        return []
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            found = list(rule(call, at, out))
    except (ArithmeticError, TypeError, ValueError):
        return None
    return [IdentityColumn(*one[:2], np.broadcast_to(np.asarray(one.off, np.float64), count)) for one in found]


def sum_identities(total: Summary, parts: Sequence[Summary]) -> list[Identity]:
    """Return the identities of an incoming gradient, by the contributions of the users of a tensor."""
    if len(parts) == 1:
        return _computable(linear(Law.SAME, total, parts[0]))
    scale = math.hypot(*(part.rms for part in parts))
    return _computable(added(Law.SUM, [total], sum(part.mean for part in parts) * total.size, scale))


def is_sum_of(total: Summary, parts: Sequence[Summary]) -> bool:
    """Return whether the statistics of a tensor may be those of the sum of parts, in a kernel that rounds to its
    dtype."""
    if len(parts) == 1 and is_same(total, parts[0]):
        return True
    rounding = _SUM_ROUNDINGS * total.unit
    averaged = rounding / math.sqrt(max(total.size, 1))
    return all(
        one.off <= max(_SUM_HOLDS, rounding if one.statistic in ("max", "min") else averaged)
        for one in sum_identities(total, parts)
    )


def is_same(one: Summary, other: Summary) -> bool:
    """Return whether two tensors may have the same elements: then every identity of `Law.SAME` holds."""
    return one[:5] == other[:5]


def _computable(found: Iterator[Identity]) -> list[Identity]:
    """Return the identities that can be computed: a dump may contain any argument, and the square of a float may not be
    one."""
    try:
        return [one for one in found if not math.isnan(one.off)]
    except (OverflowError, ValueError, ZeroDivisionError):
        return []


# Components of rules: recorded statistics against computed ones.


def linear(law: Law, out: Summary, of: Summary, factor: float = 1.0, offset: float = 0.0) -> Iterator[Identity]:
    """Yield the identities of `out` = `factor * of + offset`, by element; nothing if the numbers of elements differ."""
    if out.size != of.size:
        return
    ends = factor * of.max + offset, factor * of.min + offset
    greatest = greater(abs(factor) * of.greatest + abs(offset), out.greatest)
    yield Identity(law, "max", share(out.max - greater(*ends), greatest))
    yield Identity(law, "min", share(out.min - lesser(*ends), greatest))
    scale = greater(abs(factor) * of.rms + abs(offset), out.rms)
    yield Identity(law, "mean", share(out.mean - (factor * of.mean + offset), scale))
    squares = square(factor * of.rms) + 2 * factor * offset * of.mean + square(offset)
    yield Identity(law, "norm", share(out.rms - root(greater(squares, 0.0)), scale))


def added(law: Law, out: Sequence[Summary], of: float, scale: float) -> Iterator[Identity]:
    """Yield the identity of `of` as the sum of all elements of `out`; `scale` is the root mean square of the summands,
    per element."""
    size = sum(part.size for part in out)
    if not size:
        return
    own = root(sum(square(part.norm) for part in out) / size)
    yield Identity(law, "mean", share((sum(part.total for part in out) - of) / size, greater(scale, own)))


def _joined(parts: Sequence[Summary], whole: Sequence[Summary]) -> Iterator[Identity]:
    """Yield the identities of tensors that consist of the elements of others, each once; nothing if the numbers of
    elements differ."""
    size = sum(one.size for one in whole)
    if size != sum(one.size for one in parts) or not size:
        return
    norms = [root(sum(square(one.norm) for one in side)) for side in (parts, whole)]
    yield from added(Law.PARTS, parts, sum(one.total for one in whole), norms[1] / math.sqrt(size))
    yield Identity(Law.PARTS, "norm", share(norms[0] - norms[1], norms[1]))
    greatest = reduce(greater, [one.greatest for one in whole])
    tops = [reduce(greater, [one.max for one in side]) for side in (parts, whole)]
    ends = [reduce(lesser, [one.min for one in side]) for side in (parts, whole)]
    yield Identity(Law.PARTS, "max", share(tops[0] - tops[1], greatest))
    yield Identity(Law.PARTS, "min", share(ends[0] - ends[1], greatest))


def _broadcast_gradient(law: Law, out: Summary, g: Summary, factor: float = 1.0) -> Iterator[Identity]:
    """Yield the identities of a gradient that is `factor * g`, summed over broadcast axes."""
    if g.size == out.size:
        yield from linear(law, out, g, factor)
    elif not g.size % out.size:
        yield from added(Law.SUM, [out], factor * g.total, abs(factor) * g.rms * g.size / out.size)


def _copied(out: Summary, x: Summary, *, is_mean: bool = False) -> Iterable[Identity]:
    """Return the identities of a tensor that consists of copies of another, divided by their number if `is_mean`."""
    if not x.size or out.size % x.size:
        return ()
    copies = out.size // x.size
    whole = x._replace(size=out.size, norm=x.norm * math.sqrt(copies))
    return linear(Law.COPIES, out, whole, 1 / copies if is_mean else 1.0)


def _number(value: Summary | float) -> float | None:
    """Return an argument that is one number for all elements."""
    if isinstance(value, Summary):
        return value.mean if value.size == 1 or value.is_constant else None
    return value


Rule = Callable[[CallSummary, int, Summary], Iterator[Identity]]


def _first(rule: Callable[[CallSummary, int, Summary, Summary], Iterable[Identity]]) -> Rule:
    """Return a rule about an output and the first tensor of a call: an incoming gradient, or an argument of a forward
    call."""

    def found(call: CallSummary, at: int, out: Summary) -> Iterator[Identity]:
        if received := call.incoming if call.is_backward else call.tensors:
            yield from rule(call, at, out, received[0])

    return found


# Backward calls.


def _difference_gradient(call: CallSummary, at: int, out: Summary, g: Summary) -> Iterator[Identity]:
    """Yield the identities of a difference: the gradient of the second operand has the other sign."""
    if at == (0 if call.is_reflected else 1):
        return _broadcast_gradient(Law.LINEAR, out, g, -1.0)
    return _broadcast_gradient(Law.SAME, out, g)


def _scaled_gradient(call: CallSummary, at: int, out: Summary, g: Summary) -> Iterable[Identity]:
    """Return the identities of an operand that is multiplied by or added to a number."""
    if len(call.arguments) < 2 or at > 1:
        return ()
    other, is_division = _number(call.arguments[1 - at]), call.operation == "div"
    is_divisor = is_division and at == (0 if call.is_reflected else 1)
    if other is None or is_divisor or (is_division and not other):
        return ()
    return _broadcast_gradient(Law.LINEAR, out, g, 1 / other if is_division else other)


def _scattered(call: CallSummary, at: int, out: Summary, g: Summary) -> Iterable[Identity]:
    """Return the identities of zeros to which the incoming gradient is added at some positions."""
    return added(Law.SUM, [out], g.total, g.rms * math.sqrt(g.size / out.size)) if at == 0 else ()


def _shared_out(call: CallSummary, at: int, out: Summary, g: Summary) -> Iterable[Identity]:
    """Return the identities of two operands, one of which was selected for each element: their gradients add up to the
    incoming one."""
    found = [one for one in call.parts if one.size == out.size]
    is_known = len(found) == 2 and g.size == out.size
    return added(Law.SUM, found, g.total, g.rms / math.sqrt(2)) if is_known else ()


def _centred(call: CallSummary, at: int, out: Summary) -> Iterator[Identity]:
    """Yield the identity of a function that adding a number to a row does not change: its gradient sums to zero."""
    if at == 0:
        yield from added(Law.CENTRED, [out], 0.0, out.rms)


def _norm_gradient(call: CallSummary, at: int, out: Summary, g: Summary) -> Iterator[Identity]:
    if at == 0:
        yield from added(Law.CENTRED, [out], 0.0, out.rms)
    elif at == 2 and not g.size % out.size:
        yield from added(Law.SUM, [out], g.total, g.rms * g.size / out.size)


_PICKS = ("narrow", "select", "slice", "gather_nd", "getitem", "gather", "index_select", "take", "topk")

_BACKWARD: Mapping[str, Rule] = {
    **dict.fromkeys(
        (*_ARRANGES, "add", "expand", "repeat", "repeat_interleave"),
        _first(lambda call, at, out, g: _broadcast_gradient(Law.SAME, out, g)),
    ),
    "sub": _first(_difference_gradient),
    "neg": _first(lambda call, at, out, g: linear(Law.LINEAR, out, g, -1.0)),
    **dict.fromkeys(("mul", "div"), _first(_scaled_gradient)),
    "sum": _first(lambda call, at, out, g: _copied(out, g) if at == 0 else ()),
    "mean": _first(lambda call, at, out, g: _copied(out, g, is_mean=True) if at == 0 else ()),
    **dict.fromkeys((*JOINS, "split"), _first(lambda call, at, out, g: _joined(call.parts, call.incoming))),
    **dict.fromkeys((*_PICKS, "amax", "max"), _first(_scattered)),
    **dict.fromkeys(("where", "maximum", "minimum"), _first(_shared_out)),
    **dict.fromkeys(("softmax", "log_softmax", "cross_entropy"), _centred),
    **dict.fromkeys(("batch_norm", "layer_norm", "group_norm"), _first(_norm_gradient)),
}


# Forward calls.


def _abs(call: CallSummary, at: int, out: Summary, x: Summary) -> Iterator[Identity]:
    yield Identity(Law.MONOTONE, "norm", share(out.norm - x.norm, x.norm))
    yield Identity(Law.MONOTONE, "max", share(out.max - x.greatest, x.greatest))


def _of_two(call: CallSummary, at: int, out: Summary) -> Iterator[Identity]:
    """Yield the identities of a tensor and a number, or of the sum of two tensors."""
    if len(call.operands) < 2:
        return
    a, b = call.operands
    first, second = _number(a), _number(b)
    is_sum, sign = call.operation in ("add", "sub"), -1.0 if call.operation == "sub" else 1.0
    if isinstance(a, Summary) and a.size == out.size and second is not None:
        if is_sum:
            yield from linear(Law.LINEAR, out, a, 1.0, sign * second)
        elif call.operation == "mul" or second:
            yield from linear(Law.LINEAR, out, a, second if call.operation == "mul" else 1 / second)
    elif isinstance(b, Summary) and b.size == out.size and first is not None and call.operation != "div":
        yield from linear(Law.LINEAR, out, b, sign if is_sum else first, first if is_sum else 0.0)
    elif isinstance(a, Summary) and isinstance(b, Summary) and is_sum and not (out.size % a.size or out.size % b.size):
        yield from added(Law.SUM, [out], (a.mean + sign * b.mean) * out.size, greater(a.rms, b.rms))


def _squared(call: CallSummary, at: int, out: Summary, x: Summary) -> Iterator[Identity]:
    if x.size == out.size:
        yield from added(Law.SQUARES, [out], square(x.norm), out.rms)
        yield Identity(Law.SQUARES, "max", share(out.max - square(x.greatest), square(x.greatest)))


def _root(call: CallSummary, at: int, out: Summary, x: Summary) -> Iterator[Identity]:
    if x.size == out.size and x.total > 0:
        yield Identity(Law.SQUARES, "norm", share(out.norm - math.sqrt(x.total), out.norm))
    yield from _mapped(math.sqrt)(call, at, out)


def _summed(call: CallSummary, at: int, out: Summary, x: Summary) -> Iterable[Identity]:
    """Return the identities of a sum or mean over some axes."""
    if x.size % out.size:
        return ()
    if call.operation == "mean":
        return added(Law.SUM, [out], x.mean * out.size, x.rms)
    return added(Law.SUM, [out], x.total, x.rms * x.size / out.size)


def _picked(call: CallSummary, at: int, out: Summary, x: Summary) -> Iterator[Identity]:
    yield Identity(Law.PICKED, "max", share(greater(out.max - x.max, 0.0), x.greatest))
    yield Identity(Law.PICKED, "min", share(greater(x.min - out.min, 0.0), x.greatest))


def _extreme(call: CallSummary, at: int, out: Summary, x: Summary) -> Iterator[Identity]:
    if at == 0:
        is_max = call.operation in ("max", "amax")
        difference = out.max - x.max if is_max else out.min - x.min
        yield Identity(Law.PICKED, "max" if is_max else "min", share(difference, x.greatest))


def _mapped(function: Callable[[float], float], falls: bool = False, least: float = -math.inf) -> Rule:
    """Return the rule of a function that increases (or decreases) monotonically, from `least` on."""

    def rule(call: CallSummary, at: int, out: Summary, x: Summary) -> Iterator[Identity]:
        if x.size != out.size:
            return
        ends = (x.min, x.max) if falls else (x.max, x.min)
        for statistic, found, end in zip(("max", "min"), (out.max, out.min), ends, strict=True):
            scale = greater(out.greatest, abs(found))
            expected = each(mapped, end)
            if is_column(expected) or not math.isnan(expected):
                yield Identity(Law.MONOTONE, statistic, of_known(share(found - expected, scale), expected))

    def mapped(end: float) -> float:
        """NaN if unknown"""
        try:
            return function(end) if end >= least else math.nan
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan

    return _first(rule)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _gelu(call: CallSummary, at: int, out: Summary) -> Iterator[Identity]:
    """Yield the identities of the form of GELU that fits better; it is not monotone around its minimum."""

    def exact(x: float) -> float:
        return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))

    def by_tanh(x: float) -> float:
        return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    found = [list(_mapped(form, least=0.0)(call, at, out)) for form in (exact, by_tanh)]
    yield from min(found, key=lambda ones: max((one.off for one in ones), default=0.0))


def _shares(call: CallSummary, at: int, out: Summary, x: Summary) -> Iterator[Identity]:
    if x.size == out.size and out.shape:
        offs = [share(out.mean - 1 / length, 1 / length) for length in out.shape if length]
        yield Identity(Law.SHARES, "mean", reduce(lesser, offs))


def _normed(call: CallSummary, at: int, out: Summary, x: Summary) -> Iterator[Identity]:
    """Yield the identities of a normalization: the normalized mean is 0, that of `gamma * x + beta` is that of beta;
    for layers with a constant gamma."""
    tensors = call.tensors
    if at or len(tensors) < 3 or x.size != out.size:
        return
    gamma, beta = tensors[1], tensors[2]
    if call.operation == "batch_norm" or gamma.is_constant:
        yield from added(Law.CENTRED, [out], beta.mean * out.size, out.rms)


_RISING = ("exp", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf", "atan", "asin", "sinh", "asinh")

_FORWARD: Mapping[str, Rule] = {
    **dict.fromkeys(_ARRANGES, _first(lambda call, at, out, x: linear(Law.SAME, out, x))),
    "neg": _first(lambda call, at, out, x: linear(Law.LINEAR, out, x, -1.0)),
    "abs": _first(_abs),
    **dict.fromkeys(("add", "sub", "mul", "div"), _of_two),
    "square": _first(_squared),
    **dict.fromkeys(("sum", "mean"), _first(_summed)),
    **dict.fromkeys(JOINS, _first(lambda call, at, out, x: _joined([out], call.tensors))),
    "split": _first(lambda call, at, out, x: _joined(call.parts, [x])),
    **dict.fromkeys(("expand", "repeat", "repeat_interleave"), _first(lambda call, at, out, x: _copied(out, x))),
    **dict.fromkeys((*_PICKS, "masked_select", "diagonal", "sort"), _first(_picked)),
    **dict.fromkeys(("amax", "max", "amin", "min"), _first(_extreme)),
    **{name: _mapped(getattr(math, name)) for name in _RISING},
    **{name: _mapped(getattr(math, name), falls=True) for name in ("erfc", "acos")},
    "sigmoid": _mapped(_sigmoid),
    "relu": _mapped(lambda x: max(x, 0.0)),
    "relu6": _mapped(lambda x: min(max(x, 0.0), 6.0)),
    "softsign": _mapped(lambda x: x / (1 + abs(x))),
    **dict.fromkeys(("leaky_relu", "elu"), _mapped(lambda x: x, least=0.0)),
    "silu": _mapped(lambda x: x * _sigmoid(x), least=0.0),
    "gelu": _gelu,
    "sqrt": _first(_root),
    "rsqrt": _mapped(lambda x: 1 / math.sqrt(x), falls=True),
    "reciprocal": _mapped(lambda x: 1 / x if x > 0 else math.nan, falls=True),
    "softmax": _first(_shares),
    **dict.fromkeys(("batch_norm", "layer_norm", "group_norm"), _first(_normed)),
}
