"""Noise as data: residuals of kernels and their precision classes, and the state of every pair of records.

Two correct kernels differ by rounding only, and rounding depends on the operation and the device, not on the place of a
call in the network. So a residual is compared with its peers: the residuals of the same operation, direction and
output, on both sides. If all of them are coarser, that is a *precision class* (TF32 or bfloat16 inside a matrix
product), a property of the device; an outlier among its peers is an error.

The thresholds are starting points of a prototype with injected faults, derived again with `benchmarks/bugs`.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.replay.recorded import Residual

from .limits import BUILT_IN, Kind, Limits, LimitSource

FULL = 1e-5
"""The greatest eta of a kernel that computes in float32: measured 1e-8 to 5e-7, derivatives of saturated functions 4e-5
on single elements."""

LOWEST = 6e-3
"""The greatest eta of a kernel that internally rounds to bfloat16: measured 1.6e-3 to 2.1e-3 (half: 2.1e-4 to
2.7e-4)."""

ROUNDING = 1e-6
"""Relative error up to which two tensors in float32 are equal: some units in the last place."""

VANISHED = 1e3
"""A difference has died out if the rest of it is smaller by this factor."""

WIDEST = 0.1
"""The greatest bound on which a verdict may be based: a larger allowed difference is not evidence."""

DRIFT = 5e-4
"""Limit of the difference of weights (median, relative to their root mean square) if the previous step is unknown.
Clean pairs of six optimizers, order of sums and bfloat16 inputs of products, MindSpore and PyTorch, six steps: weights
and gains at most 2.5e-4."""

_COARSER = 3.0
"""A call is coarser than another if its eta is this multiple of the other's."""

_PEAK = 15.0
"""Largest deviation of an element of rounding noise from its reference, in units of eta."""

_SYSTEMATIC = 0.5
"""Share of the energy of an error in a common factor or offset: 1/n for noise, 1 for a wrong constant."""

_THROUGHOUT = 0.8
"""The same share for an error that is smaller than the greatest noise of its class."""

_USUAL = 5e-7
"""The greatest measured eta of most float32 kernels."""

_MANY = 32
"""With fewer elements, errors have a common factor by chance."""

OPAQUE = 10.0
"""Limit of the ratio of relative errors of outputs to those of inputs, if the reference has another meaning than the
call."""


def median(values: Iterable[float]) -> float:
    """Return the median of some values, for an even number the mean of the middle two; `statistics` would load all of
    `decimal`."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class KernelPrecision(Enum):
    """The precision of the kernel of a call, by its residual."""

    EXACT = "exact"
    FULL = "float32"
    HALF = "float16 or TF32"
    BRAIN = "bfloat16"
    OPAQUE = "unknown to the reference"


class Sign(Enum):
    """Ways in which a call is an outlier among its peers."""

    NONE = "nothing"
    ONE_SIDED = "beyond any rounding, only on the target side"
    COARSER_THAN_OTHER_LAYERS = "coarser than the same call in other layers"
    ALONE_IN_CLASS = "coarser than most calls of its kind"
    BEYOND_KIN = "an outlier among its peers"
    SINGLE_ELEMENTS = "single elements beyond noise"
    SYSTEMATIC = "a common factor or offset"
    MOVED_DATA = "a call that only moves data changed values"
    AMPLIFIED = "differs by more than its inputs explain"
    OTHER_FUNCTION = "a different function than that of the golden"
    BITS = "all other calls of its kind are bitwise equal"
    BEYOND_CALIBRATED = "coarser than the calibrated limit of its kind"
    LAW = "breaks an identity between its statistics"


@dataclass(frozen=True, slots=True)
class Output:
    """One pair of outputs of one pair of calls, replayed on both sides.

    `kind` is the operation, direction and position of the output; `place` is that of the call without numbers, so that
    the same call of other layers has the same place. `moves_data`: its output must be its input. `rounds_inside`: a
    product or convolution, whose kernel may round operands to fewer bits.
    """

    kind: Hashable
    place: str
    moves_data: bool
    target: Residual
    golden: Residual
    is_exhaustive: bool = True
    own: float = math.nan
    rounds_inside: bool = False

    @property
    def count(self) -> int:
        """Return the number of elements that were compared."""
        return self.target.count


class ResidualJudgement(NamedTuple):
    """The judgement of a pair of outputs by its residuals: wrong by a `sign`, or noise of a class.

    `bound` is the eta up to which it is noise; NaN if the class is opaque, and amplification has to judge. `source` is
    the source of the limit that decided.
    """

    sign: Sign
    is_of: KernelPrecision
    bound: float
    source: LimitSource = LimitSource.BUILT_IN

    @property
    def is_wrong(self) -> bool:
        """Return whether the target's kernel computed another function."""
        return self.sign is not Sign.NONE


def class_of(eta: float) -> KernelPrecision:
    """Return the class of a kernel with this residual; TF32 has the mantissa of float16."""
    if eta == 0:
        return KernelPrecision.EXACT
    if eta <= FULL:
        return KernelPrecision.FULL
    if eta <= 8e-4:
        return KernelPrecision.HALF
    return KernelPrecision.BRAIN if eta <= LOWEST else KernelPrecision.OPAQUE


def judge(outputs: Sequence[Output], limits: Limits = BUILT_IN) -> list[ResidualJudgement]:
    """Judge every pair of outputs by its peers, and by the calibrated limits of its kind."""
    peers: dict[Hashable, list[int]] = defaultdict(list)
    for n, output in enumerate(outputs):
        peers[output.kind].append(n)
    coarse = [o.target.eta for o in outputs if FULL < o.target.eta <= LOWEST and not o.moves_data]
    found: dict[int, ResidualJudgement] = {}
    for numbers in peers.values():
        judge_one = _PeerGroup([outputs[n] for n in numbers], coarse, limits)
        found.update((n, judge_one(outputs[n])) for n in numbers)
    return [found[n] for n in range(len(outputs))]


class _PeerGroup:
    """The pairs of outputs of one kind. `coarse` are the etas of all kinds that are within a precision class."""

    def __init__(self, outputs: Sequence[Output], coarse: Sequence[float], limits: Limits) -> None:
        self._outputs, self._coarse, self._limits = outputs, coarse, limits
        golden = [o.golden for o in outputs if o.golden.eta <= LOWEST]
        self._built_in = max([FULL, *(_COARSER * side.eta for side in golden)])
        self._limit = max(self._built_in, limits.eta(outputs[0].kind, FULL) or 0.0)
        self._golden_peak = max((side.peak for side in golden), default=0.0)
        self._golden_eta = max((side.eta for side in golden), default=0.0)
        self._in_class = [o for o in outputs if self._limit < o.target.eta <= LOWEST]

    def __call__(self, output: Output) -> ResidualJudgement:
        """Return the judgement of one of the outputs; a calibration may change it.

        A sign that the trusted run also had is not one; a residual that is coarser than any of that run is not a
        precision class.
        """
        found, eta, allowed = self._judge(output), output.target.eta, self._limits.eta(output.kind)
        if allowed is None or (found.is_of is KernelPrecision.OPAQUE and not found.is_wrong):
            return found
        bound = max(self._limit, allowed, _COARSER * output.golden.eta)
        if found.is_wrong:
            if not self._limits.has_shown(output.kind, found.sign.name, eta):
                return found
            return ResidualJudgement(
                Sign.NONE, class_of(eta), bound if eta <= LOWEST else math.nan, LimitSource.CALIBRATED
            )
        if eta > bound:
            return ResidualJudgement(Sign.BEYOND_CALIBRATED, class_of(eta), bound, LimitSource.CALIBRATED)
        return found._replace(source=LimitSource.CALIBRATED) if eta > self._built_in else found

    def _judge(self, output: Output) -> ResidualJudgement:
        t, g = output.target, output.golden
        if output.moves_data:
            is_wrong = t.eta > self._limit and t.eta > _COARSER * g.eta
            return ResidualJudgement(Sign.MOVED_DATA if is_wrong else Sign.NONE, class_of(t.eta), self._limit)
        # the reference has another meaning than the function of the golden side
        if g.eta > (LOWEST if output.is_exhaustive else FULL):
            return ResidualJudgement(Sign.NONE, KernelPrecision.OPAQUE, math.nan)
        is_finer = output.own == output.own and t.eta > max(self._limit, _COARSER * output.own)
        if is_finer:  # the rounding of the kernel is much less than the missing part
            return ResidualJudgement(Sign.OTHER_FUNCTION, class_of(t.eta), max(self._limit, _COARSER * output.own))
        if t.eta > LOWEST:
            return ResidualJudgement(Sign.ONE_SIDED, KernelPrecision.OPAQUE, LOWEST)
        if t.eta <= self._limit:
            return ResidualJudgement(self._within(output), class_of(t.eta), self._limit)
        bound = (1.6 + 4 / math.sqrt(max(output.count, 1))) * median(o.target.eta for o in self._in_class)
        return ResidualJudgement(self._in_its_class(output, bound), class_of(t.eta), bound)

    def _within(self, output: Output) -> Sign:
        """Return the sign of a residual within the limit: a systematic error is visible far below the noise of one
        element, as noise averages out."""
        t = output.target
        if t.peak > _PEAK * t.eta and t.peak > 10 * max(self._golden_peak, FULL):
            return Sign.SINGLE_ELEMENTS
        is_more = t.eta > max(_COARSER * self._golden_eta, _USUAL)
        if is_more and output.count >= _MANY and max(t.bias, t.slope) > _THROUGHOUT:
            return Sign.SYSTEMATIC
        return Sign.NONE

    def _in_its_class(self, output: Output, bound: float) -> Sign:
        t = output.target
        others = [o for o in self._outputs if o is not output]
        same = [o.target.eta for o in others if o.place == output.place]
        if same and 2 * sum(eta * _COARSER <= t.eta for eta in same) >= len(same):
            return Sign.COARSER_THAN_OTHER_LAYERS
        fine = sum(0 < o.target.eta <= self._limit for o in others)
        is_alone = fine >= len(self._in_class) or (len(self._in_class) == 1 and not self._has_company(t.eta))
        if is_alone and not (output.rounds_inside and _are_alike(t.eta, same)):
            return Sign.ALONE_IN_CLASS
        if self._is_systematic_throughout:
            return Sign.SYSTEMATIC
        if t.eta > bound:
            return Sign.BEYOND_KIN
        if t.peak > _PEAK * t.eta:
            return Sign.SINGLE_ELEMENTS
        # A product of few terms has a common factor anyway; a wrong factor adds to the noise.
        is_more = 1.6 * t.eta > bound
        return Sign.SYSTEMATIC if is_more and _is_systematic(output) else Sign.NONE

    @property
    def _is_systematic_throughout(self) -> bool:
        """Return whether most coarse calls have a common factor or offset, which rounding does not cause: a constant is
        wrong."""
        large = [o for o in self._in_class if o.count >= _MANY]
        return bool(large) and 2 * sum(map(_is_systematic, large)) > len(large)

    def _has_company(self, eta: float) -> bool:
        """Return whether calls of other kinds are equally coarse: the only convolution among coarse matrix products."""
        return sum(eta / _COARSER <= other <= eta * _COARSER for other in self._coarse) > 1


def _are_alike(eta: float, same: Sequence[float]) -> bool:
    """Return whether at least half of the calls at the same place of other layers are equally coarse.

    Some layers may compute in fewer bits: those of the MLP, and not those of the attention.
    """
    return bool(same) and 2 * sum(eta / _COARSER <= other <= eta * _COARSER for other in same) >= len(same)


def _is_systematic(output: Output) -> bool:
    by_chance = 3 / math.sqrt(max(output.count, 1))
    return max(output.target.bias, output.target.slope) > max(_SYSTEMATIC, by_chance)


def is_amplified(output: float, inputs: float, floor: float, most: float = OPAQUE) -> bool:
    """Return whether the relative error of an output is greater than that of the inputs explains, without a reference.

    `floor` is the rounding error of one call, `most` the largest ratio of the relative error of the output to that of
    the inputs.
    """
    return output > max(most * inputs, most / OPAQUE * floor)


def amplification(output: float, inputs: float, floor: float) -> float:
    """Return the ratio of the relative error of an output to that of its inputs, which is at least a tenth of `floor`;
    NaN if there is none."""
    least = max(inputs, floor / OPAQUE)
    found = output / least if least else math.nan
    return found if math.isfinite(found) else math.nan


class Consequence(IntEnum):
    """The evidence that a difference has consequences in addition to the other differences; the strongest first."""

    SHOWN = 0
    """It reaches a result, or another difference, by a path that no other difference reaches."""
    OVERLAID = 1
    """All calls that receive it also receive another difference."""
    DENIED = 2
    """Where only this difference arrives, it dies out."""


class State(IntEnum):
    """States of the difference of a pair of records.

    `ELSEWHERE`: inputs or outputs of two blocks of two frameworks, one of which begins or ends a step later; each of
    the two tensors is compared at the counterpart of its call.
    """

    EQUAL = 0
    NOISE = 1
    PROPAGATED = 2
    DIVERGENT = 3
    UNKNOWN = 4
    HARMLESS = 5
    ELSEWHERE = 6


DIFFERING = (State.PROPAGATED, State.DIVERGENT)
"""States of pairs of records that differ by more than noise."""


class NoConsequence(Enum):
    """Reasons why a difference is harmless."""

    AGREES = "agrees"
    """The tensors that recorded calls compute from it were compared, and agree."""
    UNUSED = "unused"
    """No recorded call uses the tensor."""
    UNCOMPARED = "uncompared"
    """Recorded calls use the tensor, and no result of them is compared."""


class Evidence(NamedTuple):
    """The evidence that decided an output, by its pair of records.

    `residual` is the target's eta, `golden_residual` the golden's, `bound` the allowed one; NaN if the call was not
    replayed. Then `apart` (the relative error of the output) was compared with `explained`, ten times that of the
    inputs, or the limit of a calibration. `source` is the source of the limit. `kind` is the kind of output;
    `amplification` is the ratio of the relative error of the output to that of the inputs.

    By statistics, `law` and `statistic` identify the identity that decided: `residual` and `golden_residual` are its
    errors on the two sides. Without one, `apart` is the difference of the statistics, and `explained` the difference
    that noise may cause from that of the inputs.
    """

    sign: Sign
    is_of: KernelPrecision
    residual: float
    golden_residual: float
    bound: float
    apart: float
    explained: float
    option: str = ""
    source: LimitSource = LimitSource.BUILT_IN
    kind: Kind | None = None
    amplification: float = math.nan
    law: str = ""
    statistic: str = ""
    is_by_statistics: bool = False


@dataclass(frozen=True, slots=True)
class PrecisionClass:
    """Operations of one side that are always coarser than float32: a property of the device, not an error."""

    side: str
    is_of: KernelPrecision
    operations: tuple[str, ...]
    calls: int


@dataclass(frozen=True, slots=True)
class Rounding:
    """A call of one `side` rounds to `dtype`, while the other side keeps `other` on the whole path."""

    side: str
    dtype: str
    other: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that differs and that only calls without a counterpart take.

    `row` is its first record, in the dump of `side`; `distance` is the difference relative to its scale, and `places`
    are the calls without a counterpart that depend on it.
    """

    side: str
    row: int
    distance: float
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unseen:
    """Differences that noise hides in a comparison by statistics, which never show permuted elements.

    `outputs` is the number of outputs judged by the amplification of their calls, and `share` the median of the noise
    in them, relative to an output's norm or root mean square; NaN if there are none. `by_identity` is the number of
    outputs explained by identities.
    """

    share: float
    outputs: int
    by_identity: int


@dataclass(frozen=True, slots=True)
class RoundingLeft:
    """The remaining differences of two runs in which nothing differs by more than rounding, and what they may hide.

    `largest` is the greatest difference of an output, relative to its norm, and `name` its record. `hidden` is the
    median of the errors, relative to an output, up to which calls were judged to round, and `most` the greatest of
    them; NaN if no call was judged by such a bound. `outputs` is the number of these. `updates` is the share of
    themselves by which the updates of parameters may differ; 0 if unknown, or none was judged.
    """

    largest: float
    name: str
    hidden: float
    most: float
    outputs: int
    is_by_statistics: bool = False
    updates: float = 0.0


@dataclass(frozen=True, eq=False)
class Noise:
    """The result of judging one comparison along the dataflow.

    `states` has one `State` per pair of records. `is_exact`: nothing was explained by noise, so that the two runs are
    bitwise equal except for divergences. `harmless` are the pairs of records where differences originate that die out,
    each with its reason. `replayed` and `not_replayed` count calls, the latter by cause. `limits` are those that were
    applied. `unseen` is what statistics leave open; None if elements were compared. `unshown` are leaves that differ
    whose effect cannot be distinguished from noise. `roundings` are, by place, the calls that round to fewer bits on
    one side only, `constants` those that are the first to take a constant that differs. `doubts` has, by place of a
    pair of calls, the evidence that a difference among its inputs has consequences. `rounding_left` exists if something
    differs, and nothing by more than rounding.
    """

    states: NDArray[np.uint8]
    evidence: Mapping[int, Evidence] = field(default_factory=dict)
    classes: tuple[PrecisionClass, ...] = ()
    is_exact: bool = False
    harmless: Mapping[int, NoConsequence] = field(default_factory=dict)
    stretches: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    replayed: int = 0
    not_replayed: Mapping[str, int] = field(default_factory=dict)
    limits: Limits = BUILT_IN
    unseen: Unseen | None = None
    unshown: tuple[int, ...] = ()
    roundings: Mapping[int, Rounding] = field(default_factory=dict)
    constants: Mapping[int, Constant] = field(default_factory=dict)
    doubts: Mapping[int, Consequence] = field(default_factory=dict)
    rounding_left: RoundingLeft | None = None

    def differs(self) -> NDArray[np.bool_]:
        """Return which pairs of records differ by more than noise, by themselves or propagated."""
        return np.isin(self.states, DIFFERING)

    def diverging(self) -> NDArray[np.bool_]:
        """Return which pairs of records have a difference that originates here."""
        found: NDArray[np.bool_] = self.states == State.DIVERGENT
        return found
