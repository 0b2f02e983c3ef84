"""The input of every detector: the thresholds, and statistics of the gaps that are computed once.

The gap of a token is `generated - recomputed`, in float64; log-probs are natural logarithms, gaps are in nats. With x =
recomputed - generated of tokens that generation sampled, the estimators of KL(generation || training) are those of J.
Schulman, "Approximating KL divergence" (2020):

| k1 | mean of -x | without bias, large variance |
| k2 | mean of x^2 / 2 | small variance, biased if the two differ much |
| k3 | mean of exp(x) - 1 - x | without bias and never negative |

Rounding. A log-prob is a logit (5 to 30 in size) minus the logarithm of a sum. float32 has a relative step of 2^-24 =
6e-8 there, so that two correct computations in different orders (other batch shapes, other kernels) differ by 1e-7 to
1e-5. bfloat16 has 2^-9 = 2e-3: gaps of single tokens of 1e-2 to 1e-1, with mean zero.

Accepted differences between a rollout engine and a training. The FAQ of verl requires a mean difference of the two
probabilities (`rollout_probs_diff_mean`) below 0.005, and treats more than 0.01 as a fault of the engine. H. He and
others, "Defeating Nondeterminism in LLM Inference" (2025), found a KL of about 1e-3 between a sampler and a trainer of
one model in bfloat16. Both are conventions of the field, not measurements of this tool. An update of the policy is
visible above that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from .alignment import Aligned

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Rounding:
    """Limits of rounding: mean absolute gap, greatest gap, and k3."""

    mean: float
    greatest: float
    kl: float


CLEAN = Rounding(1e-5, 1e-3, 1e-8)
"""float32 in another order: equivalent for a training."""

NUMERIC = Rounding(0.02, 1.0, 1e-3)
"""Rounding to 16 bits at some place, or another eps: a warning. The mean is ten steps of bfloat16 at 1."""

NUMERIC_16_BIT = Rounding(0.05, 2.0, 3e-3)
"""The same if a side itself is stored in 16 bits: the last rounding of a value of 8 alone is up to 2^-5."""

SCATTER = Rounding(0.1, float("inf"), 0.02)
"""Limits up to which gaps may be a coarser rounding (8 bits, a large eps), if they are not systematic."""

ONE_WAY, NO_WAY = 0.3, 0.25
ONE_WAY_SAMPLE, NO_WAY_SAMPLE = 0.08, 0.05
"""Correlation of two gaps of one token id, and of one sample: from the first number on they are systematic, up to the
second they are not. Measured on small trained models (tests/end_to_end/rollout_causes, five seeds that are not those of
the tests): after one and after four updates 0.42 to 0.70 for tokens and 0.10 to 0.18 for samples; with bfloat16,
float16 and another eps at most 0.20 and 0.03."""

FEWEST_FOR_COHERENCE = 300
"""Number of tokens below which that correlation is chance."""

JUMP = 5.0
"""Ratio of the gaps of two neighboring samples in sorted order at which samples are of two kinds; a fault in float32
causes 1e3."""

AGREES = 1e-4
"""Gap up to which a single token agrees, if both sides compute in float32."""

NATS = 1.0
"""Gap of a single token that is impossible within one model."""

MIN_LENGTH = 4
"""Number of tokens of a sample from which on its mean gap is evidence."""

_FLOOR = 1e-7

MAX_TOKENS = 1_000_000
"""Maximum number of tokens that are searched for a cause; of more, samples at even distances are used. Measures are
over all."""

Cause = Literal["none", "numerics", "weights", "sampling settings", "shift", "mask", "tokens", "truncation", "unclear"]
CAUSES: tuple[Cause, ...] = get_args(Cause)


@dataclass(frozen=True)
class Suspect:
    """The result of one detector: a cause, and the evidence as a sentence.

    `strength`: 0.9 and more if hardly any other cause leaves this trace, around 0.6 if it is the likelier of two.
    """

    cause: Cause
    strength: float
    text: str


@dataclass(frozen=True)
class Overall:
    """Numbers over all tokens.

    `correlation`, and `slope` (least squares of recomputed on generated), are NaN if one side is constant.

    `probability_gap` is the mean of abs(exp(generated) - exp(recomputed)).
    """

    tokens: int
    samples: int
    mean: float
    mean_absolute: float
    max_absolute: float
    spread: float
    k1: float
    k2: float
    k3: float
    correlation: float
    slope: float
    probability_gap: float


@dataclass(frozen=True, eq=False)
class ByPosition:
    """Numbers by position in the response, from 0 on: number of samples, mean gap, mean and greatest absolute gap."""

    count: Array
    mean: Array
    mean_absolute: Array
    max_absolute: Array


@dataclass(frozen=True, eq=False)
class BySample:
    """Numbers by sample, in the order of the pairs; `worst` is the position of the greatest absolute gap.

    A sample without tokens has NaN and -1.
    """

    mean: Array
    mean_absolute: Array
    max_absolute: Array
    worst: Array


def overall(aligned: Aligned, gaps: Array) -> Overall:
    """Return the numbers over all tokens; `gaps` are those of `aligned`, all finite and at least one."""
    g, r = aligned.generated, aligned.recomputed
    absolute = np.abs(gaps)
    mean, size = float(gaps.mean()), len(gaps)
    gm, rm = g - g.mean(), r - r.mean()
    gg, rr, gr = float(gm @ gm), float(rm @ rm), float(gm @ rm)
    # The rounding of the mean of a constant is not a spread.
    is_constant = [spread <= size * (1e-12 * float(np.abs(side).max())) ** 2 for spread, side in ((gg, g), (rr, r))]
    with np.errstate(over="ignore"):  # if log-probs differ by hundreds: k3 is infinite then
        k3 = float(np.mean(np.expm1(-gaps) + gaps))
    return Overall(
        tokens=size,
        samples=aligned.count,
        mean=mean,
        mean_absolute=float(absolute.mean()),
        max_absolute=float(absolute.max()),
        spread=float(gaps.std()),
        k1=mean,
        k2=float(gaps @ gaps) / size / 2,
        k3=max(k3, 0.0),
        correlation=float("nan") if any(is_constant) else gr / float(np.sqrt(gg * rr)),
        slope=float("nan") if is_constant[0] else gr / gg,
        probability_gap=float(np.abs(np.exp(g) - np.exp(r)).mean()),
    )


def gathered(aligned: Aligned, gaps: Array) -> tuple[BySample, ByPosition]:
    """Return the gaps by sample and by position, in one pass over the samples."""
    mean, absolute, greatest = (np.full(aligned.count, np.nan) for _ in range(3))
    worst = np.full(aligned.count, -1, np.int64)
    longest = int(aligned.lengths.max(initial=0))
    count, total, total_absolute, highest = np.zeros(longest, np.int64), *(np.zeros(longest) for _ in range(3))
    starts = aligned.starts.tolist()
    for at, (a, b) in enumerate(pairwise(starts)):
        if a == b:
            continue
        part = gaps[a:b]
        size = np.abs(part)
        place = int(size.argmax())
        mean[at], absolute[at], greatest[at], worst[at] = part.mean(), size.mean(), size[place], place
        count[: b - a] += 1
        total[: b - a] += part
        total_absolute[: b - a] += size
        np.maximum(highest[: b - a], size, out=highest[: b - a])
    by_position = ByPosition(count, total / count, total_absolute / count, highest)
    return BySample(mean, absolute, greatest, worst), by_position


@dataclass(frozen=True)
class Coherence:
    """Whether the gaps of one token id (None without ids), or of one sample, are systematic.

    Training changes whole tokens; rounding and eps do not. An update of the weights makes a token likelier or less
    likely at nearly all positions, and the samples of that update by their advantage. Rounding, or scaling by another
    eps, has another sign at every position. The measure is the intraclass correlation: the mean product of the gaps of
    two positions of one kind, divided by their variance; 0 if unrelated.
    """

    token: float | None
    sample: float

    @property
    def is_one_way(self) -> bool:
        """Return whether the gaps of tokens, or of samples, are systematic."""
        return (self.token or 0) > ONE_WAY or self.sample > ONE_WAY_SAMPLE

    @property
    def is_no_way(self) -> bool:
        """Return whether neither are, as far as the ids show; without ids that is unknown."""
        return self.token is not None and self.token <= NO_WAY and self.sample <= NO_WAY_SAMPLE

    def __str__(self) -> str:
        token = "" if self.token is None else f"of one token id {self.token:.2f}, "
        return f"correlation of two gaps {token}of one sample {self.sample:.2f}"


@dataclass(frozen=True, eq=False)
class Case:
    """Aligned tokens and their gaps, at most about MAX_TOKENS of them; `whole`, `overall` and `samples` are of all.

    Values that several detectors need are computed once.
    """

    whole: Aligned
    overall: Overall
    samples: BySample
    aligned: Aligned
    gaps: Array

    @cached_property
    def sample_of(self) -> Array:
        """Return the number of the sample, among the selected ones, of each token."""
        return np.repeat(np.arange(self.aligned.count, dtype=np.int32), self.aligned.lengths)

    @cached_property
    def position(self) -> Array:
        """Return the position in its response of each token."""
        position: Array = np.arange(len(self.gaps)) - np.repeat(self.aligned.starts[:-1], self.aligned.lengths)
        return position

    @property
    def ids(self) -> Array | None:
        """Return the token ids of generated, otherwise of recomputed."""
        return self.aligned.ids if self.aligned.ids is not None else self.aligned.other_ids

    @property
    def has_both_ids(self) -> bool:
        """Return whether both sides have token ids."""
        return self.aligned.ids is not None and self.aligned.other_ids is not None

    def is_within(self, limit: Rounding) -> bool:
        """Return whether all gaps are rounding within these limits."""
        o = self.overall
        return o.mean_absolute <= limit.mean and o.max_absolute <= limit.greatest and o.k3 <= limit.kl

    @cached_property
    def grids(self) -> dict[str, str]:
        """Return the sides that contain only values of bfloat16 or float16, with the name of that dtype."""
        sides = {"generated": self.aligned.generated, "recomputed": self.aligned.recomputed}
        return {name: grid for name, values in sides.items() if (grid := _grid(values))}

    @property
    def rounding(self) -> Rounding:
        """Return the limits of rounding that is common in trainings: a warning, not an error."""
        return NUMERIC_16_BIT if self.grids else NUMERIC

    @cached_property
    def coherence(self) -> Coherence | None:
        """Return the coherence of the gaps; None if there are too few tokens."""
        if len(self.gaps) < FEWEST_FOR_COHERENCE:
            return None
        low, high = np.quantile(self.gaps, (0.01, 0.99))  # otherwise a few large gaps decide
        gaps = np.clip(self.gaps, low, high)
        return Coherence(None if self.ids is None else _within(gaps, self.ids), _within(gaps, self.sample_of))

    @cached_property
    def two_kinds(self) -> Array | None:
        """Return for each sample whether it is one of those that differ; None if all are of one kind. Tiny ones are
        excluded.

        The kinds are separated at the greatest ratio between two neighbors, when mean absolute gaps are sorted.
        """
        size = np.where(self.whole.lengths >= MIN_LENGTH, self.samples.mean_absolute, np.nan)
        recorded = np.sort(np.maximum(size[~np.isnan(size)], _FLOOR))
        if len(recorded) < 3:
            return None
        ratio = recorded[1:] / recorded[:-1]
        at = int(ratio.argmax())
        # One sample may be certain of every token: it agrees only if its gap is as small as that of whole runs.
        is_sound = recorded[at] <= CLEAN.mean or at + 1 >= max(3, len(recorded) // 10)
        if ratio[at] < JUMP or recorded[at + 1] < 1e-4 or not is_sound:
            return None
        with np.errstate(invalid="ignore"):
            differs: Array = size >= recorded[at + 1]
        return differs

    @property
    def kinds_are_steps(self) -> bool:
        """Return whether samples of one step are all of one of the two kinds: weights that diverge at some step."""
        steps, differs = self.whole.steps, self.two_kinds
        if differs is None or steps is None or len(np.unique(steps)) < 2:
            return False
        counted = self.whole.lengths >= MIN_LENGTH
        shares = [differs[counted & (steps == step)] for step in np.unique(steps)]
        mixed = sum(min(part.sum(), len(part) - part.sum()) for part in shares)
        return bool(mixed <= 0.02 * counted.sum())

    def first_far(self, rounding: float = AGREES) -> Array:
        """Return the first position of each selected sample that is beyond rounding; -1 if there is none."""
        far = np.abs(self.gaps) > rounding
        first = np.full(self.aligned.count, -1, np.int64)
        which, starts = np.unique(self.sample_of[far], return_index=True)
        first[which] = self.position[far][starts]
        return first


def case_of(aligned: Aligned, gaps: Array, samples: BySample) -> Case:
    """Return the case with at most about MAX_TOKENS tokens."""
    total, every = overall(aligned, gaps), -(-len(gaps) // MAX_TOKENS)
    if every <= 1:
        return Case(aligned, total, samples, aligned, gaps)
    few = np.zeros(aligned.count, bool)
    few[::every] = True
    return Case(aligned, total, samples, aligned.chosen(few), gaps[np.repeat(few, aligned.lengths)])


def _grid(values: Array) -> str:
    """Return `bfloat16` or `float16` if (nearly) all values are representable there, otherwise nothing."""
    values = values[(values != 0) & (values > -60000)][:20000].astype(np.float32)
    if len(values) < 8 or len(np.unique(values)) < 4:
        return ""
    if ((values.view(np.uint32) & 0xFFFF) == 0).mean() > 0.99:
        return "bfloat16"
    return "float16" if (values.astype(np.float16).astype(np.float32) == values).mean() > 0.99 else ""


def _within(gaps: Array, kind: Array) -> float:
    """Return the intraclass correlation of gaps by kind."""
    gaps = gaps - gaps.mean()
    _, number, times = np.unique(kind, return_inverse=True, return_counts=True)
    pairs = float((times * (times - 1.0)).sum())
    variance = float(gaps @ gaps) / len(gaps)
    if not pairs or variance < 1e-300:
        return 0.0
    products = np.bincount(number, gaps) ** 2 - np.bincount(number, gaps**2)
    return float(products.sum()) / pairs / variance


def correlation(a: Array, b: Array) -> float:
    """Return Pearson's correlation, 0.0 if one side is constant or there are fewer than three."""
    if len(a) < 3:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 1e-300 else 0.0


def ranks(values: Array) -> Array:
    """Return ranks from 0 on, equal values with their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    first = np.cumsum(counts) - counts
    found: Array = (first + (counts - 1) / 2)[inverse]
    return found


def rank_correlation(a: Array, b: Array) -> float:
    """Return Spearman's correlation."""
    return correlation(ranks(a), ranks(b))


def separation(values: Array, is_one: Array) -> float:
    """Return how often a value of one kind is above one of the other (ties half): 1.0 for always, 0.5 if unrelated."""
    ones, others = int(is_one.sum()), int((~is_one).sum())
    if not ones or not others:
        return 0.5
    return float((ranks(values)[is_one].sum() - ones * (ones - 1) / 2) / (ones * others))


def is_end_token(sizes: Sequence[Array]) -> bool:
    """Return whether one side has one additional token in some samples, and never more: an end token that it kept."""
    more = sizes[0] - sizes[1]
    return bool(((more == 0) | (more == 1)).all() or ((more == 0) | (more == -1)).all())
