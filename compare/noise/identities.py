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
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def identities(seen: Seen, at: int) -> list[Identity]:
    """What the laws say of the output at a place of a call; empty where no law is known.

    An identity of a call may not hold although the call is right, because of arguments that this does not look at: only
    what holds on a trusted side is evidence.
    """
    out = seen.outputs[at] if at < len(seen.outputs) else None
    if out is None or out.size == 0:
        return []
    find = (_BACKWARD if seen.is_backward else _FORWARD).get(seen.operation)
    return [one for one in find(seen, at, out) if not math.isnan(one.off)] if find else []


_PARTS = 256
"""So many parts are added up at most: it is done for each of them."""

Rule = Callable[[Seen, int, Summary], Iterator[Identity]]


# Statistics that a law tells, against those that were recorded.


def _is(law: Law, out: Summary, of: Summary, factor: float = 1.0, offset: float = 0.0) -> Iterator[Identity]:
    """`out` is `factor * of + offset`, element by element; of as many elements."""
    if out.size != of.size:
        return
    ends = sorted((factor * of.max + offset, factor * of.min + offset))
    greatest = max(abs(factor) * of.greatest + abs(offset), out.greatest)
    yield Identity(law, "max", _off(out.max - ends[1], greatest))
    yield Identity(law, "min", _off(out.min - ends[0], greatest))
    scale = max(abs(factor) * of.rms + abs(offset), out.rms)
    yield Identity(law, "mean", _off(out.mean - (factor * of.mean + offset), scale))
    square = (factor * of.rms) ** 2 + 2 * factor * offset * of.mean + offset**2
    yield Identity(law, "norm", _off(out.rms - math.sqrt(max(square, 0.0)), scale))


def _total(law: Law, out: Sequence[Summary], of: float, scale: float) -> Iterator[Identity]:
    """The sum of all elements of `out` is `of`; `scale` is the root mean square of what was added, per element."""
    size = sum(part.size for part in out)
    if not size:
        return
    own = math.sqrt(sum(part.norm**2 for part in out) / size)
    yield Identity(law, "mean", _off((sum(part.total for part in out) - of) / size, max(scale, own)))


def _parts(law: Law, parts: Sequence[Summary], whole: Sequence[Summary]) -> Iterator[Identity]:
    """Some tensors have the elements of others, each once."""
    size = sum(one.size for one in whole)
    if size != sum(one.size for one in parts) or not size:
        return
    norms = [math.sqrt(sum(one.norm**2 for one in side)) for side in (parts, whole)]
    yield from _total(law, parts, sum(one.total for one in whole), norms[1] / math.sqrt(size))
    yield Identity(law, "norm", _off(norms[0] - norms[1], norms[1]))
    greatest = max(one.greatest for one in whole)
    yield Identity(law, "max", _off(max(p.max for p in parts) - max(w.max for w in whole), greatest))
    yield Identity(law, "min", _off(min(p.min for p in parts) - min(w.min for w in whole), greatest))


def _off(difference: float, scale: float) -> float:
    if difference == 0:
        return 0.0
    return abs(difference) / scale if scale else math.inf


def _tensors(seen: Seen) -> list[Summary]:
    return [one for one in seen.arguments if isinstance(one, Summary)]


def _present(seen: Seen) -> list[Summary]:
    """The outputs that are there; none where they are too many to be added up for each of them."""
    return [one for one in seen.outputs if one is not None] if len(seen.outputs) <= _PARTS else []


def _number(value: Summary | float) -> float | None:
    """An argument that is one number for all elements."""
    if isinstance(value, Summary):
        return value.mean if value.size == 1 or value.is_constant else None
    return value


def _operands(seen: Seen) -> list[Summary | float]:
    found = list(seen.arguments[:2])
    return found[::-1] if seen.is_reflected else found


# Forward.


def _same(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    if tensors := _tensors(seen):
        yield from _is(Law.SAME, out, tensors[0])


def _neg(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    if tensors := _tensors(seen):
        yield from _is(Law.LINEAR, out, tensors[0], -1.0)


def _abs(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in _tensors(seen)[:1]:
        yield Identity(Law.MONOTONE, "norm", _off(out.norm - x.norm, x.norm))
        yield Identity(Law.MONOTONE, "max", _off(out.max - x.greatest, x.greatest))


def _added(sign: float) -> Rule:
    def rule(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
        operands = _operands(seen)
        if len(operands) < 2:
            return
        a, b = operands
        (first, second), size = (_number(a), _number(b)), out.size
        if isinstance(a, Summary) and a.size == size and second is not None:
            yield from _is(Law.LINEAR, out, a, 1.0, sign * second)
        elif isinstance(b, Summary) and b.size == size and first is not None:
            yield from _is(Law.LINEAR, out, b, sign, first)
        elif isinstance(a, Summary) and isinstance(b, Summary) and not (size % a.size or size % b.size):
            yield from _total(Law.SUM, [out], (a.mean + sign * b.mean) * size, max(a.rms, b.rms))

    return rule


def _scaled(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    operands = _operands(seen)
    if len(operands) < 2:
        return
    a, b = operands
    if seen.operation == "div":
        divisor = _number(b)
        if isinstance(a, Summary) and a.size == out.size and divisor:
            yield from _is(Law.LINEAR, out, a, 1 / divisor)
        return
    if isinstance(a, Summary) and a.size == out.size and (factor := _number(b)) is not None:
        yield from _is(Law.LINEAR, out, a, factor)
    elif isinstance(b, Summary) and b.size == out.size and (factor := _number(a)) is not None:
        yield from _is(Law.LINEAR, out, b, factor)


def _squared(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in _tensors(seen)[:1]:
        if x.size == out.size:
            yield from _total(Law.SQUARES, [out], x.norm**2, out.rms)
            yield Identity(Law.SQUARES, "max", _off(out.max - x.greatest**2, x.greatest**2))


def _root(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in _tensors(seen)[:1]:
        if x.size == out.size and x.total > 0:
            yield Identity(Law.SQUARES, "norm", _off(out.norm - math.sqrt(x.total), out.norm))
    yield from _mapped(math.sqrt)(seen, at, out)


def _summed(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in _tensors(seen)[:1]:
        if not x.size % out.size:
            yield from _total(Law.SUM, [out], x.total, x.rms * x.size / out.size)


def _averaged(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in _tensors(seen)[:1]:
        if not x.size % out.size:
            yield from _total(Law.SUM, [out], x.mean * out.size, x.rms)


def _joined(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    yield from _parts(Law.PARTS, [out], _tensors(seen))


def _divided(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    yield from _parts(Law.PARTS, _present(seen), _tensors(seen)[:1])


def _copied(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in _tensors(seen)[:1]:
        if x.size and not out.size % x.size:
            yield from _is(Law.COPIES, out, x._replace(size=out.size, norm=x.norm * math.sqrt(out.size / x.size)))


def _picked(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in _tensors(seen)[:1]:
        yield Identity(Law.PICKED, "max", _off(max(out.max - x.max, 0.0), x.greatest))
        yield Identity(Law.PICKED, "min", _off(max(x.min - out.min, 0.0), x.greatest))


def _extreme(statistic: str) -> Rule:
    def rule(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
        for x in _tensors(seen)[:1] if at == 0 else ():
            difference = out.max - x.max if statistic == "max" else out.min - x.min
            yield Identity(Law.PICKED, statistic, _off(difference, x.greatest))

    return rule


def _mapped(function: Callable[[float], float], falls: bool = False, least: float = -math.inf) -> Rule:
    """A function that rises throughout (or falls), from `least` on."""

    def rule(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
        for x in _tensors(seen)[:1]:
            if x.size != out.size:
                return
            ends = (x.min, x.max) if falls else (x.max, x.min)
            for statistic, found, end in zip(("max", "min"), (out.max, out.min), ends, strict=True):
                if end < least:
                    continue
                try:
                    yield Identity(Law.MONOTONE, statistic, _off(found - function(end), max(out.greatest, abs(found))))
                except (ValueError, OverflowError, ZeroDivisionError):
                    continue

    return rule


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _gelu(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """The one of its two forms that fits better; beside the maximum it does not rise throughout."""

    def exact(x: float) -> float:
        return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))

    def by_tanh(x: float) -> float:
        return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    found = [list(_mapped(form, least=0.0)(seen, at, out)) for form in (exact, by_tanh)]
    yield from min(found, key=lambda ones: max((one.off for one in ones), default=0.0))


def _shares(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in _tensors(seen)[:1]:
        if x.size == out.size and out.shape:
            off = min(_off(out.mean - 1 / length, 1 / length) for length in out.shape if length)
            yield Identity(Law.SHARES, "mean", off)


def _normed(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """The mean of what is normalised is 0, and that of `gamma * x + beta` beta's; of layers where gamma is constant."""
    tensors = _tensors(seen)
    if at or len(tensors) < 3 or tensors[0].size != out.size:
        return
    gamma, beta = tensors[1], tensors[2]
    if seen.operation == "batch_norm" or gamma.is_constant:
        yield from _total(Law.CENTRED, [out], beta.mean * out.size, out.rms)


_FORWARD: Mapping[str, Rule] = {
    **dict.fromkeys(
        (
            *("reshape", "ravel", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim"),
            *("contiguous", "clone", "detach", "alias", "cast", "flip", "roll", "rot90", "positive", "pixel_shuffle"),
            *("pixel_unshuffle", "channel_shuffle", "atleast_1d", "atleast_2d", "atleast_3d", "msort"),
        ),
        _same,
    ),
    "neg": _neg,
    "abs": _abs,
    "add": _added(1.0),
    "sub": _added(-1.0),
    "mul": _scaled,
    "div": _scaled,
    "square": _squared,
    "sum": _summed,
    "mean": _averaged,
    **dict.fromkeys(("cat", "stack", "hstack", "vstack", "dstack", "column_stack"), _joined),
    "split": _divided,
    **dict.fromkeys(("expand", "repeat", "repeat_interleave"), _copied),
    **dict.fromkeys(
        (
            *("narrow", "select", "slice", "gather_nd", "getitem", "gather", "index_select", "take", "masked_select"),
            *("diagonal", "topk", "sort"),
        ),
        _picked,
    ),
    "amax": _extreme("max"),
    "max": _extreme("max"),
    "amin": _extreme("min"),
    "min": _extreme("min"),
    "exp": _mapped(math.exp),
    "expm1": _mapped(math.expm1),
    "log": _mapped(math.log),
    "log2": _mapped(math.log2),
    "log10": _mapped(math.log10),
    "log1p": _mapped(math.log1p),
    "tanh": _mapped(math.tanh),
    "sigmoid": _mapped(_sigmoid),
    "relu": _mapped(lambda x: max(x, 0.0)),
    "relu6": _mapped(lambda x: min(max(x, 0.0), 6.0)),
    "erf": _mapped(math.erf),
    "erfc": _mapped(math.erfc, falls=True),
    "atan": _mapped(math.atan),
    "asin": _mapped(math.asin),
    "acos": _mapped(math.acos, falls=True),
    "sinh": _mapped(math.sinh),
    "asinh": _mapped(math.asinh),
    "softsign": _mapped(lambda x: x / (1 + abs(x))),
    "leaky_relu": _mapped(lambda x: x, least=0.0),
    "elu": _mapped(lambda x: x, least=0.0),
    "silu": _mapped(lambda x: x * _sigmoid(x), least=0.0),
    "gelu": _gelu,
    "sqrt": _root,
    "rsqrt": _mapped(lambda x: 1 / math.sqrt(x), falls=True),
    "reciprocal": _mapped(lambda x: 1 / x if x > 0 else math.nan, falls=True),
    "softmax": _shares,
    **dict.fromkeys(("batch_norm", "layer_norm", "group_norm"), _normed),
}


# Backward: the gradients of the arguments, by the incoming gradients.


def _kept(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """The incoming gradient itself, or summed over what was broadcast."""
    for g in seen.incoming[:1]:
        if g.size == out.size:
            yield from _is(Law.SAME, out, g)
        elif not g.size % out.size:
            yield from _total(Law.SUM, [out], g.total, g.rms * g.size / out.size)


def _kept_or_taken(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """That of a difference: the second operand's has the other sign."""
    sign = -1.0 if at == (0 if seen.is_reflected else 1) else 1.0
    for g in seen.incoming[:1]:
        if g.size == out.size:
            yield from _is(Law.SAME if sign > 0 else Law.LINEAR, out, g, sign)
        elif not g.size % out.size:
            yield from _total(Law.SUM, [out], sign * g.total, g.rms * g.size / out.size)


def _negated(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for g in seen.incoming[:1]:
        yield from _is(Law.LINEAR, out, g, -1.0)


def _times(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """That of the operand beside a number."""
    if len(seen.arguments) < 2 or at > 1:
        return
    other = _number(seen.arguments[1 - at])
    is_divisor = seen.operation == "div" and at == (0 if seen.is_reflected else 1)
    if other is None or is_divisor or (seen.operation == "div" and not other):
        return
    factor = 1 / other if seen.operation == "div" else other
    for g in seen.incoming[:1]:
        if g.size == out.size:
            yield from _is(Law.LINEAR, out, g, factor)
        elif not g.size % out.size:
            yield from _total(Law.SUM, [out], factor * g.total, abs(factor) * g.rms * g.size / out.size)


def _spread(is_mean: bool) -> Rule:
    def rule(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
        for g in seen.incoming[:1]:
            if at == 0 and g.size and not out.size % g.size:
                copies = out.size // g.size
                whole = g._replace(size=out.size, norm=g.norm * math.sqrt(copies))
                yield from _is(Law.COPIES, out, whole, 1 / copies if is_mean else 1.0)

    return rule


def _parts_of_incoming(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    yield from _parts(Law.PARTS, _present(seen), seen.incoming)


def _scattered(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """Zeros but for the incoming gradient, which is added to where it came from."""
    for g in seen.incoming[:1]:
        if at == 0:
            yield from _total(Law.SUM, [out], g.total, g.rms * math.sqrt(g.size / out.size))


def _shared_out(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """The gradients of two operands of which one was taken each time make up the incoming one."""
    found = [one for one in _present(seen) if one.size == out.size]
    for g in seen.incoming[:1]:
        if len(found) == 2 and g.size == out.size:
            yield from _total(Law.SUM, found, g.total, g.rms / math.sqrt(2))


def _centred(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """Adding a number to a row changes nothing: its gradient sums to zero."""
    if at == 0:
        yield from _total(Law.CENTRED, [out], 0.0, out.rms)


def _of_norm(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for g in seen.incoming[:1]:
        if at == 0:
            yield from _total(Law.CENTRED, [out], 0.0, out.rms)
        elif at == 2 and not g.size % out.size:
            yield from _total(Law.SUM, [out], g.total, g.rms * g.size / out.size)


_BACKWARD: Mapping[str, Rule] = {
    **dict.fromkeys((name for name, rule in _FORWARD.items() if rule is _same), _kept),
    "add": _kept,
    "sub": _kept_or_taken,
    "neg": _negated,
    "mul": _times,
    "div": _times,
    "expand": _kept,
    "repeat": _kept,
    "repeat_interleave": _kept,
    "sum": _spread(False),
    "mean": _spread(True),
    **dict.fromkeys((name for name, rule in _FORWARD.items() if rule is _joined), _parts_of_incoming),
    "split": _parts_of_incoming,
    **dict.fromkeys(
        ("narrow", "select", "slice", "gather_nd", "getitem", "gather", "index_select", "take", "topk", "amax", "max"),
        _scattered,
    ),
    **dict.fromkeys(("where", "maximum", "minimum"), _shared_out),
    **dict.fromkeys(("softmax", "log_softmax", "cross_entropy"), _centred),
    **dict.fromkeys(("batch_norm", "layer_norm", "group_norm"), _of_norm),
}


def gathered(total: Summary, parts: Sequence[Summary]) -> list[Identity]:
    """What an incoming gradient is by what the users of a tensor contribute to it."""
    if len(parts) == 1:
        return list(_is(Law.SAME, total, parts[0]))
    scale = math.sqrt(sum(part.rms**2 for part in parts))
    return list(_total(Law.SUM, [total], sum(part.mean for part in parts) * total.size, scale))
