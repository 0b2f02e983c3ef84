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
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.core.noise import LOWEST, median

from .identities import Identity, Law
from .summary import DeviationColumns, Floats, Summary

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
    """The target's identities of pairs of outputs with one dtype and shape on each side, and the golden's.

    `kind` is the function and direction, `laws` are the law and statistic of each identity. `target` and `golden` are
    errors, by identity and position in `rows`, NaN if an identity does not apply to an output; `of_target` and
    `of_golden` are the summaries of one of the outputs. `is_only_output`: an identity of all parts of a call's output
    is an identity of this output.
    """

    kind: Hashable
    rows: Sequence[int]
    laws: Sequence[tuple[Law, str]]
    target: Floats
    golden: Floats
    of_target: Summary
    of_golden: Summary
    is_only_output: bool

    def averaged(self, statistic: str) -> float:
        """Return the factor by which a statistic is more exact than one element."""
        return 1.0 if statistic in ("max", "min") else math.sqrt(max(self.of_target.size, 1))


class LawJudgement(NamedTuple):
    """The identity that decides an output, and the error up to which it holds."""

    target: Identity
    golden: Identity
    bound: float

    @property
    def is_broken(self) -> bool:
        """Return whether the target violates it."""
        return self.target.off > self.bound


def judge_laws(outputs: Sequence[OutputIdentities], *, has_other_kernels: bool = False) -> dict[int, LawJudgement]:
    """Return, by row, judgements of the outputs that break a law or are explained by one.

    A kernel that rounds more coarsely throughout is a property of the device, as long as its errors average out like
    rounding: a wrong constant does not.
    """
    golden_off: dict[Hashable, float] = defaultdict(float)
    coarse: dict[Hashable, float] = {}

    def bound(output: OutputIdentities, law: Law, statistic: str) -> float:
        key = output.kind, law, statistic
        least = max(_tolerance(output.of_target, statistic), _TIMES * golden_off[key])
        if has_other_kernels and statistic in ("max", "min"):
            least = max(least, _EXTREMES_ACROSS)
        return max(least, _CLASS * coarse.get(key, 0.0) / output.averaged(statistic))

    # A law applies to a call if the golden side satisfies it.
    holding = []
    for output in outputs:
        tolerances = np.array([_tolerance(output.of_golden, statistic) for _, statistic in output.laws])
        holding.append((output.golden <= tolerances[:, None]) & ~np.isnan(output.target))
    every = [
        (output, *law, output.target[n][holds[n]], output.golden[n][holds[n]])
        for output, holds in zip(outputs, holding, strict=True)
        for n, law in enumerate(output.laws)
    ]
    for output, law, statistic, _, off in every:
        golden_off[output.kind, law, statistic] = max(golden_off[output.kind, law, statistic], off.max(initial=0.0))
    elements: dict[Hashable, list[float]] = defaultdict(list)
    for output, law, statistic, off, _ in every:
        of_elements = np.where(off > bound(output, law, statistic), off * output.averaged(statistic), 0.0)
        elements[output.kind, law, statistic] += of_elements.tolist()
    for key, offs in elements.items():
        broken = [one for one in offs if one]
        if len(broken) >= _SEVERAL and 2 * len(broken) >= len(offs) and median(broken) <= LOWEST:
            coarse[key] = median(broken)
    found: dict[int, LawJudgement] = {}
    for output, holds in zip(outputs, holding, strict=True):
        bounds = [bound(output, *law) for law in output.laws]
        are_broken = holds & (output.target > np.array(bounds)[:, None])
        are_explaining = [
            law in _EXPLAINING and (output.is_only_output or law is not Law.PARTS) for law, _ in output.laws
        ]
        decisive = np.where(are_broken.any(axis=0), are_broken, holds & np.array(are_explaining)[:, None])
        greatest = np.where(decisive, output.target, -1.0).argmax(axis=0)
        for at in np.flatnonzero(decisive.any(axis=0)).tolist():
            n = greatest.item(at)
            law, statistic = output.laws[n]
            target, golden = (Identity(law, statistic, off.item(n, at)) for off in (output.target, output.golden))
            found[output.rows[at]] = LawJudgement(target, golden, bounds[n])
    return found


def breaks_law(target: Identity, golden: Identity, of_target: Summary, of_golden: Summary) -> bool:
    """Return whether the target violates an identity that the golden satisfies, judged without other outputs."""
    if golden.off > _tolerance(of_golden, golden.statistic):
        return False
    return target.off > max(_tolerance(of_target, golden.statistic), _TIMES * golden.off)


def _tolerance(of: Summary, statistic: str) -> float:
    rounding = _ROUNDINGS * of.unit
    return max(_HOLDS, rounding if statistic in ("max", "min") else rounding / math.sqrt(max(of.size, 1)))


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


class OutputChanges(NamedTuple):
    """The differences of the pairs of outputs of one kind, by position in `rows`: as columns, except for the properties
    of the kind.

    `inputs` are the greatest differences of norm or mean, and `spread` the greatest element error, of the tensors from
    which an output was computed. `is_constant`: all its elements are equal. `rounds_inside`: a product or convolution,
    which may round inside. `is_exact`: every kernel computes the function bitwise equally. `function` is the function
    or cell, forward or backward; `is_product`: it is known to be a product or convolution, and the calls are forward
    ones. `place_of` returns, by row, the place of its call without the numbers of layers; empty for one outside of all
    cells.
    """

    rows: Sequence[int]
    output: DeviationColumns
    inputs: Floats
    spread: Floats
    unit: Floats
    is_constant: NDArray[np.bool_]
    rounds_inside: bool = False
    is_exact: bool = False
    function: Hashable = None
    is_backward: bool = False
    is_product: bool = False
    place_of: Callable[[int], str] = str


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
    kinds: Mapping[Hashable, OutputChanges],
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
    found: dict[int, Amplification] = {}
    own_of: dict[Hashable, float] = {}
    least_of: dict[Hashable, float] = {}
    for name, kind in kinds.items():
        others, rounding = unchanged.get(name, NOTHING_UNCHANGED), _ROUNDING
        if has_other_kernels and not kind.is_exact:
            rounding = _ROUNDING_ACROSS if kind.rounds_inside else _APPROXIMATED
        own_of[name], least_of[name] = own_error(kind, rounding, others), least_error(kind, rounding, others)
    # Internal rounding of kernels is visible in forward; after many calls it is mixed with their errors.
    products = max((own_of[name] for name, kind in kinds.items() if kind.is_product), default=math.inf)
    if are_products_equal:
        products = 0.0
    forward: dict[Hashable, float] = defaultdict(float)
    for name, kind in kinds.items():
        if not kind.is_backward:
            forward[kind.function] = max(forward[kind.function], own_of[name])
    for name, kind in kinds.items():
        others, own = unchanged.get(name, NOTHING_UNCHANGED), own_of[name]
        if kind.rounds_inside and (kind.is_backward or not kind.is_product):
            # Functions of another framework may differ in backward and not in forward.
            is_bound = kind.is_backward and not has_other_kernels
            most = min(products, forward.get(kind.function, math.inf) if is_bound else math.inf)
            own = min(own, max(_KERNELS * most, least_of[name], ACROSS if has_other_kernels else 0.0))
        coarse = max(own, coarse_error(kind))
        owns = np.where(begins(kind) | (kind.spread > COARSE), coarse, own)
        each = [column.tolist() for column in _worst_statistics(kind, owns)]
        ratios = [0.0] * others.outputs + each[0]
        ratios.sort()
        limits = [
            min(max(LIMIT, _QUARTILES * _quartile_of_others(ratios, ratio)), MAX_AMPLIFICATION) for ratio in each[0]
        ]
        found.update(zip(kind.rows, map(Amplification, each[0], limits, *each[1:], owns.tolist()), strict=True))
    return found


def is_counting(size: int, is_constant: bool) -> bool:
    """Return whether an output shows the error of its elements."""
    return size >= _FEW and not is_constant


def least_error(kind: OutputChanges, rounding: float, others: Unchanged) -> float:
    """Return the minimum of the element error that the kernels of a kind add: the rounding of the output."""
    return rounding * max(others.unit, float(kind.unit.max()))


def own_error(kind: OutputChanges, rounding: float = _ROUNDING, others: Unchanged = NOTHING_UNCHANGED) -> float:
    """Return the element error that the kernels of a kind add; at least the rounding of the output.

    It is limited by the difference of each of several calls whose inputs hardly differ.
    """
    least = least_error(kind, rounding, others)
    if not kind.rounds_inside:
        return least
    counting, spread = _are_counting(kind), kind.output.spread
    shown: list[float] = [0.0] * others.counting + spread[counting].tolist()
    if not shown:
        return least
    clear: list[float] = spread[counting & (np.maximum(kind.spread, kind.inputs) <= _FINE)].tolist()
    most = max(clear) if len(clear) >= _SEVERAL else math.inf
    shown.sort()
    return max(least, min(shown[int(_LOW * (len(shown) - 1))], most, LOWEST))


def coarse_error(kind: OutputChanges) -> float:
    """Return the element error of those kernels of a kind that round to fewer bits than the others; 0 if there are
    none.

    It is visible if inputs are alike: several calls then differ by similar amounts, which one fault does not cause. If
    there is only one such call, those at its place in other layers are used that differ by much more than their inputs.
    """
    if not kind.rounds_inside:
        return 0.0
    spread, begun = kind.output.spread, np.flatnonzero(begins(kind)).tolist()
    shown: list[float] = spread[begun].tolist()
    if len(begun) == 1 and (place := kind.place_of(kind.rows[begun[0]])):
        clear = np.flatnonzero(spread > _CLEAR * np.maximum(kind.spread, kind.inputs)).tolist()
        shown += [spread[at] for at in clear if at != begun[0] and kind.place_of(kind.rows[at]) == place]
    least = min(shown, default=math.inf)
    alike = sum(spread <= _ALIKE * least for spread in shown)
    if alike < 2 or 2 * alike < len(shown) or least > _OVERSTATED * LOWEST:
        return 0.0
    return min(least, LOWEST)


def _are_counting(kind: OutputChanges) -> NDArray[np.bool_]:
    """Return `is_counting` of each output."""
    found: NDArray[np.bool_] = (kind.output.size >= _FEW) & ~kind.is_constant
    return found


def begins(kind: OutputChanges) -> NDArray[np.bool_]:
    """Return which outputs differ by much more than rounding to their dtype, while their inputs hardly differ."""
    spread, received = kind.output.spread, np.maximum(kind.spread, kind.inputs)
    found: NDArray[np.bool_] = (spread > COARSE) & _are_counting(kind)
    found &= (received <= _FINE) & (received * _APART <= spread)
    return found


def _worst_statistics(kind: OutputChanges, own: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ratios, deviations and explained deviations of norm and mean, or of the extremes where their ratio is
    greater."""
    element, output = kind.spread + own, kind.output
    moments, extremes = output.moments, output.extremes
    explained = kind.inputs + element / np.sqrt(output.size)
    with np.errstate(invalid="ignore", over="ignore"):
        of_moments = np.where(moments != 0, moments / explained, 0.0)
        of_extremes = np.where(extremes != 0, extremes / element, 0.0)
    is_of_moments = of_moments >= of_extremes
    return (
        np.where(is_of_moments, of_moments, of_extremes),
        np.where(is_of_moments, moments, extremes),
        np.where(is_of_moments, explained, element),
    )


def _quartile_of_others(ratios: Sequence[float], own: float) -> float:
    """Return the upper quartile of sorted ratios without one of them; 0 if there are no others."""
    if len(ratios) < 2:
        return 0.0
    at = (3 * (len(ratios) - 2) + 3) // 4
    return ratios[at if at < bisect_left(ratios, own) else at + 1]
