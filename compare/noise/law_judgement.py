"""Does the target keep the laws that the golden side keeps? Judged among the calls of one kind."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from .laws import COMPLETE, SUMS, Identity, Law
from .precision import LOWEST
from .summary import Summary

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
