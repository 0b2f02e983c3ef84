"""The identities of backward calls: what the gradients of the arguments are by the incoming gradients."""

import math
from collections.abc import Iterator, Mapping

from .laws import ARRANGES, JOINS, Identity, Law, Rule, Seen, added, joined, linear, number, outputs_of
from .summary import Summary


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
