"""Identities between the statistics of a call's inputs and outputs, a rule for each operation."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from .laws import (
    ARRANGES,
    JOINS,
    Identity,
    Law,
    Rule,
    Seen,
    Summary,
    added,
    joined,
    linear,
    number,
    operands_of,
    outputs_of,
    share,
    tensors_of,
)


def _kept(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """The incoming gradient itself, or summed over what was broadcast."""
    for g in seen.incoming[:1]:
        if g.size == out.size:
            yield from linear(Law.SAME, out, g)
        elif not g.size % out.size:
            yield from added(Law.SUM, [out], g.total, g.rms * g.size / out.size)


def _kept_or_taken(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """That of a difference: the second operand's has the other sign."""
    sign = -1.0 if at == (0 if seen.is_reflected else 1) else 1.0
    for g in seen.incoming[:1]:
        if g.size == out.size:
            yield from linear(Law.SAME if sign > 0 else Law.LINEAR, out, g, sign)
        elif not g.size % out.size:
            yield from added(Law.SUM, [out], sign * g.total, g.rms * g.size / out.size)


def _negated(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for g in seen.incoming[:1]:
        yield from linear(Law.LINEAR, out, g, -1.0)


def _times(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """That of the operand beside a number."""
    if len(seen.arguments) < 2 or at > 1:
        return
    other = number(seen.arguments[1 - at])
    is_divisor = seen.operation == "div" and at == (0 if seen.is_reflected else 1)
    if other is None or is_divisor or (seen.operation == "div" and not other):
        return
    factor = 1 / other if seen.operation == "div" else other
    for g in seen.incoming[:1]:
        if g.size == out.size:
            yield from linear(Law.LINEAR, out, g, factor)
        elif not g.size % out.size:
            yield from added(Law.SUM, [out], factor * g.total, abs(factor) * g.rms * g.size / out.size)


def _spread(is_mean: bool) -> Rule:
    def rule(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
        for g in seen.incoming[:1]:
            if at == 0 and g.size and not out.size % g.size:
                copies = out.size // g.size
                whole = g._replace(size=out.size, norm=g.norm * math.sqrt(copies))
                yield from linear(Law.COPIES, out, whole, 1 / copies if is_mean else 1.0)

    return rule


def _parts_of_incoming(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    yield from joined(Law.PARTS, outputs_of(seen), seen.incoming)


def _scattered(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """Zeros but for the incoming gradient, which is added to where it came from."""
    for g in seen.incoming[:1]:
        if at == 0:
            yield from added(Law.SUM, [out], g.total, g.rms * math.sqrt(g.size / out.size))


def _shared_out(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """The gradients of two operands of which one was taken each time make up the incoming one."""
    found = [one for one in outputs_of(seen) if one.size == out.size]
    for g in seen.incoming[:1]:
        if len(found) == 2 and g.size == out.size:
            yield from added(Law.SUM, found, g.total, g.rms / math.sqrt(2))


def _centred(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """Adding a number to a row changes nothing: its gradient sums to zero."""
    if at == 0:
        yield from added(Law.CENTRED, [out], 0.0, out.rms)


def _of_norm(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for g in seen.incoming[:1]:
        if at == 0:
            yield from added(Law.CENTRED, [out], 0.0, out.rms)
        elif at == 2 and not g.size % out.size:
            yield from added(Law.SUM, [out], g.total, g.rms * g.size / out.size)


GRADIENTS: Mapping[str, Rule] = {
    **dict.fromkeys(ARRANGES, _kept),
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
    **dict.fromkeys(JOINS, _parts_of_incoming),
    "split": _parts_of_incoming,
    **dict.fromkeys(
        ("narrow", "select", "slice", "gather_nd", "getitem", "gather", "index_select", "take", "topk", "amax", "max"),
        _scattered,
    ),
    **dict.fromkeys(("where", "maximum", "minimum"), _shared_out),
    **dict.fromkeys(("softmax", "log_softmax", "cross_entropy"), _centred),
    **dict.fromkeys(("batch_norm", "layer_norm", "group_norm"), _of_norm),
}


def has_law(operation: str, is_backward: bool) -> bool:
    """Whether a law is known of any output of an operation."""
    return operation in (GRADIENTS if is_backward else _FORWARD)


def identities(seen: Seen, at: int) -> list[Identity]:
    """What the laws say of the output at a place of a call; empty where no law is known.

    An identity of a call may not hold although the call is right, because of arguments that this does not look at: only
    what holds on a trusted side is evidence.
    """
    out = seen.outputs[at] if at < len(seen.outputs) else None
    if out is None or out.size == 0:
        return []
    find = (GRADIENTS if seen.is_backward else _FORWARD).get(seen.operation)
    return _known(find(seen, at, out)) if find else []


def gathered(total: Summary, parts: Sequence[Summary]) -> list[Identity]:
    """What an incoming gradient is by what the users of a tensor contribute to it."""
    if len(parts) == 1:
        return _known(linear(Law.SAME, total, parts[0]))
    scale = math.hypot(*(part.rms for part in parts))
    return _known(added(Law.SUM, [total], sum(part.mean for part in parts) * total.size, scale))


def _known(found: Iterator[Identity]) -> list[Identity]:
    """What can be computed: a dump may hold any argument, and squares of what a float holds may be no float."""
    try:
        return [one for one in found if not math.isnan(one.off)]
    except (OverflowError, ValueError, ZeroDivisionError):
        return []


def _same(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    if tensors := tensors_of(seen):
        yield from linear(Law.SAME, out, tensors[0])


def _neg(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    if tensors := tensors_of(seen):
        yield from linear(Law.LINEAR, out, tensors[0], -1.0)


def _abs(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in tensors_of(seen)[:1]:
        yield Identity(Law.MONOTONE, "norm", share(out.norm - x.norm, x.norm))
        yield Identity(Law.MONOTONE, "max", share(out.max - x.greatest, x.greatest))


def _added(sign: float) -> Rule:
    def rule(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
        operands = operands_of(seen)
        if len(operands) < 2:
            return
        a, b = operands
        (first, second), size = (number(a), number(b)), out.size
        if isinstance(a, Summary) and a.size == size and second is not None:
            yield from linear(Law.LINEAR, out, a, 1.0, sign * second)
        elif isinstance(b, Summary) and b.size == size and first is not None:
            yield from linear(Law.LINEAR, out, b, sign, first)
        elif isinstance(a, Summary) and isinstance(b, Summary) and not (size % a.size or size % b.size):
            yield from added(Law.SUM, [out], (a.mean + sign * b.mean) * size, max(a.rms, b.rms))

    return rule


def _scaled(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    operands = operands_of(seen)
    if len(operands) < 2:
        return
    a, b = operands
    if seen.operation == "div":
        divisor = number(b)
        if isinstance(a, Summary) and a.size == out.size and divisor:
            yield from linear(Law.LINEAR, out, a, 1 / divisor)
        return
    if isinstance(a, Summary) and a.size == out.size and (factor := number(b)) is not None:
        yield from linear(Law.LINEAR, out, a, factor)
    elif isinstance(b, Summary) and b.size == out.size and (factor := number(a)) is not None:
        yield from linear(Law.LINEAR, out, b, factor)


def _squared(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in tensors_of(seen)[:1]:
        if x.size == out.size:
            yield from added(Law.SQUARES, [out], x.norm**2, out.rms)
            yield Identity(Law.SQUARES, "max", share(out.max - x.greatest**2, x.greatest**2))


def _root(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in tensors_of(seen)[:1]:
        if x.size == out.size and x.total > 0:
            yield Identity(Law.SQUARES, "norm", share(out.norm - math.sqrt(x.total), out.norm))
    yield from _mapped(math.sqrt)(seen, at, out)


def _summed(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in tensors_of(seen)[:1]:
        if not x.size % out.size:
            yield from added(Law.SUM, [out], x.total, x.rms * x.size / out.size)


def _averaged(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in tensors_of(seen)[:1]:
        if not x.size % out.size:
            yield from added(Law.SUM, [out], x.mean * out.size, x.rms)


def _joined(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    yield from joined(Law.PARTS, [out], tensors_of(seen))


def _divided(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    yield from joined(Law.PARTS, outputs_of(seen), tensors_of(seen)[:1])


def _copied(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in tensors_of(seen)[:1]:
        if x.size and not out.size % x.size:
            yield from linear(Law.COPIES, out, x._replace(size=out.size, norm=x.norm * math.sqrt(out.size / x.size)))


def _picked(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    for x in tensors_of(seen)[:1]:
        yield Identity(Law.PICKED, "max", share(max(out.max - x.max, 0.0), x.greatest))
        yield Identity(Law.PICKED, "min", share(max(x.min - out.min, 0.0), x.greatest))


def _extreme(statistic: str) -> Rule:
    def rule(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
        for x in tensors_of(seen)[:1] if at == 0 else ():
            difference = out.max - x.max if statistic == "max" else out.min - x.min
            yield Identity(Law.PICKED, statistic, share(difference, x.greatest))

    return rule


def _mapped(function: Callable[[float], float], falls: bool = False, least: float = -math.inf) -> Rule:
    """A function that rises throughout (or falls), from `least` on."""

    def rule(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
        for x in tensors_of(seen)[:1]:
            if x.size != out.size:
                return
            ends = (x.min, x.max) if falls else (x.max, x.min)
            for statistic, found, end in zip(("max", "min"), (out.max, out.min), ends, strict=True):
                if end < least:
                    continue
                try:
                    yield Identity(Law.MONOTONE, statistic, share(found - function(end), max(out.greatest, abs(found))))
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
    for x in tensors_of(seen)[:1]:
        if x.size == out.size and out.shape:
            off = min(share(out.mean - 1 / length, 1 / length) for length in out.shape if length)
            yield Identity(Law.SHARES, "mean", off)


def _normed(seen: Seen, at: int, out: Summary) -> Iterator[Identity]:
    """The mean of what is normalised is 0, and that of `gamma * x + beta` beta's; of layers where gamma is constant."""
    tensors = tensors_of(seen)
    if at or len(tensors) < 3 or tensors[0].size != out.size:
        return
    gamma, beta = tensors[1], tensors[2]
    if seen.operation == "batch_norm" or gamma.is_constant:
        yield from added(Law.CENTRED, [out], beta.mean * out.size, out.rms)


_FORWARD: Mapping[str, Rule] = {
    **dict.fromkeys(ARRANGES, _same),
    "neg": _neg,
    "abs": _abs,
    "add": _added(1.0),
    "sub": _added(-1.0),
    "mul": _scaled,
    "div": _scaled,
    "square": _squared,
    "sum": _summed,
    "mean": _averaged,
    **dict.fromkeys(JOINS, _joined),
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
