"""Decide which deviations of statistics are noise: by identities of a call, and by the amplification of calls of its
kind.

Independent errors of n elements change the norm and the mean of a tensor by their relative size over sqrt(n), and its
extremes by the error of one element. The norm and mean of an output may therefore differ by about

    inputs' own differences + (inputs' element error + u) / sqrt(n)

and its extremes by the inputs' element error + u. u is the error that the kernel adds: a low quantile of the
differences of outputs of its kind, since none of them adds more than it differs by. If a call amplifies differences by
more (a softmax of large scores, a difference of close numbers), all calls of its kind do: those with the same
operation, direction and output.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from msprobe.compare.core.noise import LOWEST, median

from .identities import Identity, Law
from .summary import Deviation, Summary

SUMS = frozenset([Law.SUM, Law.SQUARES])
"""Laws that determine the sum of all elements: they explain an output that satisfies one, unless it differs grossly."""

WHOLE = frozenset([Law.SAME, Law.LINEAR])
"""Laws that determine all four statistics of an output by those of one input of its size."""

_EXPLAINING = SUMS | WHOLE | {Law.PARTS, Law.COPIES}
"""These and the laws that determine all four statistics; the others are only necessary."""

_HOLDS = 1e-6
"""Relative error up to which a law holds: statistics that were stored, or accumulated, with the digits of float32."""

_ROUNDINGS = 4.0
"""Number of roundings of the elements by which a law may be violated."""

_TIMES = 8.0
"""A law holds if its error is at most this many times the error on the golden side."""

_EXTREMES_ACROSS = 1e-4
"""Error up to which the extremes of kernels of two frameworks satisfy a law: that of MindSpore's tanh is 7.7e-5 on a
CPU."""

_SEVERAL = 3
"""Number of calls of a kind with similar errors that show the precision of the kernel."""

_CLASS = 4.0
"""Largest error of one of them, in medians of these."""


class OutputIdentities(NamedTuple):
    """The target's identities of one pair of outputs, each with the golden's.

    `kind` is the function and direction. `is_only_output`: an identity of all parts of the call's output is an identity
    of this output.
    """

    kind: Hashable
    pairs: tuple[tuple[Identity, Identity], ...]
    target: Summary
    golden: Summary
    is_only_output: bool

    def key(self, one: Identity) -> Hashable:
        """Return the key of identities that have similar errors."""
        return self.kind, one.law, one.statistic

    def averaged(self, one: Identity) -> float:
        """Return the factor by which a statistic is more exact than one element."""
        return 1.0 if one.statistic in ("max", "min") else math.sqrt(max(self.target.size, 1))


class LawJudgement(NamedTuple):
    """The identity that decides an output, and the error up to which it holds."""

    target: Identity
    golden: Identity
    bound: float

    @property
    def is_broken(self) -> bool:
        """Return whether the target violates it."""
        return self.target.off > self.bound


def judge_laws(outputs: Mapping[int, OutputIdentities], *, has_other_kernels: bool = False) -> dict[int, LawJudgement]:
    """Return, by row, judgements of the outputs that break a law or are explained by one.

    A kernel that rounds more coarsely throughout is a property of the device, as long as its errors average out like
    rounding: a wrong constant does not.
    """
    golden_off: dict[Hashable, float] = defaultdict(float)
    coarse: dict[Hashable, float] = {}

    def bound(output: OutputIdentities, target: Identity, golden: Identity) -> float:
        key = output.key(golden)
        least = max(_tolerance(output.target, golden), _TIMES * golden_off[key])
        if has_other_kernels and target.statistic in ("max", "min"):
            least = max(least, _EXTREMES_ACROSS)
        return max(least, _CLASS * coarse.get(key, 0.0) / output.averaged(target))

    # A law applies to a call if the golden side satisfies it.
    holding = {
        row: [(t, g) for t, g in output.pairs if g.off <= _tolerance(output.golden, g)]
        for row, output in outputs.items()
    }
    every = [(outputs[row], t, g) for row, pairs in holding.items() for t, g in pairs]
    for output, _, golden in every:
        golden_off[output.key(golden)] = max(golden_off[output.key(golden)], golden.off)
    elements: dict[Hashable, list[float]] = defaultdict(list)
    for output, target, golden in every:
        is_broken = target.off > bound(output, target, golden)
        elements[output.key(target)].append(target.off * output.averaged(target) if is_broken else 0.0)
    for key, offs in elements.items():
        broken = [one for one in offs if one]
        if len(broken) >= _SEVERAL and 2 * len(broken) >= len(offs) and median(broken) <= LOWEST:
            coarse[key] = median(broken)
    found = {}
    for row, output in outputs.items():
        judged = [LawJudgement(t, g, bound(output, t, g)) for t, g in holding[row]]
        kept = [one for one in judged if one.target.law in _EXPLAINING]
        kept = [one for one in kept if output.is_only_output or one.target.law is not Law.PARTS]
        if decisive := [one for one in judged if one.is_broken] or kept:
            found[row] = max(decisive, key=lambda one: one.target.off)
    return found


def _tolerance(of: Summary, one: Identity) -> float:
    rounding = _ROUNDINGS * of.unit
    return max(_HOLDS, rounding if one.statistic in ("max", "min") else rounding / math.sqrt(max(of.size, 1)))


LIMIT = 10.0
"""Largest ratio of the deviation of a clean output to the explained deviation, for kinds that do not amplify."""

_QUARTILES = 4.0
"""The limit of a kind that amplifies, in upper quartiles of the others of the kind."""

MAX_AMPLIFICATION = 50.0
"""Largest ratio by which a kind amplifies noise; measured: up to 21, a softmax of masked scores."""

_LOW = 0.2
"""The quantile of the element errors of a kind that is used as the kernel's own error."""

_FEW = 16
"""Tensors with fewer elements are not used for element errors: their statistics agree by chance."""

COARSE = 2e-5
"""Largest element error of a kernel in float32: float16 inside gives 2e-4, and statistics show a fifth of it."""

_APART = 20.0
"""Inputs whose difference is smaller than that of an output by this factor do not explain it."""

_FINE = 5e-6
"""Largest element error of a kernel that computes in float32; a greater one came from earlier calls."""

_CLEAR = 8.0
"""The same as `_APART` if inputs are known to differ."""

_OVERSTATED = 2.0
"""Factor by which the greatest of four statistics overestimates the error of elements, for one of several calls."""

_ALIKE = 8.0
"""Largest ratio of the differences of calls of one precision, as statistics show them."""

_ROUNDING = 2.0
"""Minimum of a kernel's own error, in units of its output's dtype."""

_KERNELS = 4.0
"""Largest ratio of the error that products add in backward, and that calls of unknown operations add, to that of
forward products."""

_ROUNDING_ACROSS = 10.0
"""The same for products of two frameworks, which accumulate in different orders."""

_APPROXIMATED = 50.0
"""The same for functions that each of two frameworks approximates differently."""

ACROSS = _APPROXIMATED * 2.0**-23
"""The largest own error of a kernel in float32 of another framework."""


class OutputChange(NamedTuple):
    """The difference of one pair of outputs. `inputs` are the greatest differences of norm or mean, and `spread` the
    greatest element error, of the tensors from which it was computed. `rounds_inside`: a product or convolution, which
    may round inside. `is_constant`: all its elements are equal. `is_exact`: every kernel computes the function bitwise
    equally. `function` is the function or cell, forward or backward; `is_product`: it is known to be a product or
    convolution, and the call is a forward one. `place` is that of its call without the numbers of layers; empty for one
    outside of all cells."""

    kind: Hashable
    output: Deviation
    inputs: float
    spread: float
    unit: float
    rounds_inside: bool = False
    is_constant: bool = False
    is_exact: bool = False
    function: Hashable = None
    is_backward: bool = False
    is_product: bool = False
    place: str = ""


class Amplification(NamedTuple):
    """The ratio of the difference of an output to its `explained` difference, and the ratio up to which that is noise.

    `deviation` and `explained` are those of the statistic with the greatest ratio; `own` is the kernel's own error.
    """

    ratio: float
    limit: float
    deviation: float
    explained: float
    own: float

    @property
    def is_wrong(self) -> bool:
        """Return whether noise does not explain it."""
        return self.ratio > self.limit


class Unchanged(NamedTuple):
    """Outputs of one kind that are bitwise equal, and whose inputs are: their number, the number of those that can show
    a difference (not small, not constant), and the coarsest unit of their dtypes."""

    outputs: int = 0
    counting: int = 0
    unit: float = 0.0


NOTHING_UNCHANGED = Unchanged()


def amplifications(
    changes: Mapping[int, OutputChange],
    unchanged: Mapping[Hashable, Unchanged] = {},
    *,
    has_other_kernels: bool = False,
    are_products_equal: bool = False,
) -> dict[int, Amplification]:
    """Return, by row, how every output amplifies differences, compared with the others of its kind.

    `unchanged` are the outputs of each kind that do not differ. `has_other_kernels` as in `judge_laws`.
    `are_products_equal`: no forward product is among the changes, and the products that were compared are bitwise
    equal, so that no product rounds more coarsely on one side.
    """
    kinds: dict[Hashable, list[int]] = defaultdict(list)
    for row, change in changes.items():
        kinds[change.kind].append(row)
    found: dict[int, Amplification] = {}
    own_of: dict[Hashable, float] = {}
    least_of: dict[Hashable, float] = {}
    for name, rows in kinds.items():
        kind, others = [changes[row] for row in rows], unchanged.get(name, NOTHING_UNCHANGED)
        rounding = _ROUNDING
        if has_other_kernels and not kind[0].is_exact:
            rounding = _ROUNDING_ACROSS if kind[0].rounds_inside else _APPROXIMATED
        own_of[name], least_of[name] = own_error(kind, rounding, others), least_error(kind, rounding, others)
    # Internal rounding of kernels is visible in forward; after many calls it is mixed with their errors.
    firsts = {name: changes[rows[0]] for name, rows in kinds.items()}
    products = max((own_of[name] for name, one in firsts.items() if one.is_product), default=math.inf)
    if are_products_equal:
        products = 0.0
    forward: dict[Hashable, float] = defaultdict(float)
    for name, one in firsts.items():
        if not one.is_backward:
            forward[one.function] = max(forward[one.function], own_of[name])
    for name, rows in kinds.items():
        kind, others = [changes[row] for row in rows], unchanged.get(name, NOTHING_UNCHANGED)
        own, one = own_of[name], firsts[name]
        if one.rounds_inside and (one.is_backward or not one.is_product):
            # Functions of another framework may differ in backward and not in forward.
            is_bound = one.is_backward and not has_other_kernels
            most = min(products, forward.get(one.function, math.inf) if is_bound else math.inf)
            own = min(own, max(_KERNELS * most, least_of[name], ACROSS if has_other_kernels else 0.0))
        coarse = max(own, coarse_error(kind))
        owns = [coarse if begins(change) or change.spread > COARSE else own for change in kind]
        each = [_worst_statistic(change, error) for change, error in zip(kind, owns, strict=True)]
        ratios = [0.0] * others.outputs + [ratio for ratio, _, _ in each]
        ratios.sort()
        for row, (ratio, deviated, explained), error in zip(rows, each, owns, strict=True):
            limit = min(max(LIMIT, _QUARTILES * _quartile_of_others(ratios, ratio)), MAX_AMPLIFICATION)
            found[row] = Amplification(ratio, limit, deviated, explained, error)
    return found


def is_counting(size: int, is_constant: bool) -> bool:
    """Return whether an output shows the error of its elements."""
    return size >= _FEW and not is_constant


def least_error(kind: Sequence[OutputChange], rounding: float, others: Unchanged) -> float:
    """Return the minimum of the element error that the kernels of a kind add: the rounding of the output."""
    return rounding * max(others.unit, max(change.unit for change in kind))


def own_error(
    kind: Sequence[OutputChange], rounding: float = _ROUNDING, others: Unchanged = NOTHING_UNCHANGED
) -> float:
    """Return the element error that the kernels of a kind add; at least the rounding of the output.

    It is limited by the difference of each of several calls whose inputs hardly differ.
    """
    if not kind:
        return 0.0
    least = least_error(kind, rounding, others)
    if not kind[0].rounds_inside:
        return least
    counting = [c for c in kind if is_counting(c.output.size, c.is_constant)]
    shown = [0.0] * others.counting + [c.output.spread for c in counting]
    if not shown:
        return least
    clear = [c.output.spread for c in counting if max(c.spread, c.inputs) <= _FINE]
    most = max(clear) if len(clear) >= _SEVERAL else math.inf
    shown.sort()
    return max(least, min(shown[int(_LOW * (len(shown) - 1))], most, LOWEST))


def coarse_error(kind: Sequence[OutputChange]) -> float:
    """Return the element error of those kernels of a kind that round to fewer bits than the others; 0 if there are
    none.

    It is visible if inputs are alike: several calls then differ by similar amounts, which one fault does not cause. If
    there is only one such call, those at its place in other layers are used that differ by much more than their inputs.
    """
    begun = [c for c in kind if c.rounds_inside and begins(c)]
    shown = [c.output.spread for c in begun]
    if len(begun) == 1:
        shown += (
            c.output.spread
            for c in kind
            if c is not begun[0]
            and c.place
            and c.place == begun[0].place
            and c.output.spread > _CLEAR * max(c.spread, c.inputs)
        )
    least = min(shown, default=math.inf)
    alike = sum(spread <= _ALIKE * least for spread in shown)
    if alike < 2 or 2 * alike < len(shown) or least > _OVERSTATED * LOWEST:
        return 0.0
    return min(least, LOWEST)


def begins(change: OutputChange) -> bool:
    """Return whether an output differs by much more than rounding to its dtype, while its inputs hardly differ."""
    spread = change.output.spread
    is_coarse = spread > COARSE and is_counting(change.output.size, change.is_constant)
    received = max(change.spread, change.inputs)
    return is_coarse and received <= _FINE and received * _APART <= spread


def _worst_statistic(change: OutputChange, own: float) -> tuple[float, float, float]:
    """Return ratio, deviation and explained deviation of norm and mean, or of the extremes if their ratio is
    greater."""
    element, output = change.spread + own, change.output
    moments, extremes = output.moments, output.extremes
    explained = change.inputs + element / math.sqrt(output.size)
    of_moments = moments / explained if moments else 0.0
    of_extremes = extremes / element if extremes else 0.0
    return (of_moments, moments, explained) if of_moments >= of_extremes else (of_extremes, extremes, element)


def _quartile_of_others(ratios: Sequence[float], own: float) -> float:
    """Return the upper quartile of sorted ratios without one of them; 0 if there are no others."""
    if len(ratios) < 2:
        return 0.0
    at = (3 * (len(ratios) - 2) + 3) // 4
    return ratios[at if at < bisect_left(ratios, own) else at + 1]
