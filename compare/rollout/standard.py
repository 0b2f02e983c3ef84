"""The thresholds of a rollout check, each with where it comes from. Log-probs are natural logarithms, gaps in nats.

Rounding. A log-prob is a logit (5 to 30 in size) less the logarithm of a sum. float32 has a relative step of 2^-24 =
6e-8 there, so that two correct computations in other orders (other batch shapes, other kernels) are 1e-7 to 1e-5 apart.
bfloat16 has 2^-9 = 2e-3: gaps of single tokens of 1e-2 to 1e-1, with mean zero.

How much of that is accepted between a rollout engine and a training. The FAQ of verl asks that the mean difference of
the two probabilities (`rollout_probs_diff_mean`) is below 0.005, and takes more than 0.01 for a fault of the engine.
H. He and others, "Defeating Nondeterminism in LLM Inference" (2025), found a KL of about 1e-3 between a sampler and a
trainer of one model in bfloat16. Both are cited as customs of the field; nothing of ours measured them. An update of
the policy is seen above that.
"""

from dataclasses import dataclass

HIGHEST = 1e-3
"""A log-prob above 0 by more than that is none: float16 rounds log(1) to within 2^-10."""


LOWEST = -1e30
"""From there on a value stands for -inf, as the least float32 and the least bfloat16 (-3.4e38) do in engines."""


@dataclass(frozen=True)
class Rounding:
    """What counts as rounding: mean absolute gap, greatest gap, and k3, all at most that."""

    mean: float
    greatest: float
    kl: float


CLEAN = Rounding(1e-5, 1e-3, 1e-8)
"""float32 in another order: no difference at all for whoever trains."""

NUMERIC = Rounding(0.02, 1.0, 1e-3)
"""Rounding to 16 bits somewhere on the way, or another eps: a warning. The mean is ten steps of bfloat16 at 1."""

NUMERIC_16_BIT = Rounding(0.05, 2.0, 3e-3)
"""The same where a side itself is stored in 16 bits: the last rounding of a value of 8 alone is up to 2^-5."""

PROBABILITIES_APART = 0.01
"""Mean difference of probabilities that verl takes for a fault."""

LAGS = (-3, -2, -1, 1, 2, 3)
NEARER_BY = 0.5
"""At a lag of a shift the mean absolute gap is at most this part of that at lag 0. Unrelated values gain nothing."""

BEYOND, BEYOND_BY_CHANCE = 0.1, 10.0
"""Labels a place off: two probabilities of one distribution add up to more than 1 in at most this part of the places
where unrelated ones do. Of those there must be so many: one or none instead of ten is chance once in 2,000 times."""

EQUAL = 5
"""The same: places that are equal to the digit at a lag, and at least ten times as many as by chance."""

FEWEST = 8
"""Tokens below which nothing is said of the cause."""

JUMP = 5.0
"""Samples fall into two kinds where one is so many times farther apart than the next; of float32 a fault makes 1e3."""

TEMPERATURE_FROM = 0.02
"""Of abs(1/T - 1). Nobody sets less, while another eps scales logits by less than that."""

AGREES = 1e-4
"""Gap up to which a single token agrees, where both sides compute in float32."""

SCATTER = Rounding(0.1, float("inf"), 0.02)
"""Up to here gaps may be of a coarser rounding (8 bits, a great eps), if nothing in them goes one way."""

ONE_WAY, NO_WAY = 0.3, 0.25
ONE_WAY_SAMPLE, NO_WAY_SAMPLE = 0.08, 0.05
"""Correlation of two gaps of one token id, and of one sample: from the first number on they go one way, up to the
second they do not. Measured on small trained models (tests/rollout_causes, five seeds that are not those of the
tests): after one and after four updates 0.42 to 0.70 for tokens and 0.10 to 0.18 for samples; with bfloat16, float16
and another eps at most 0.20 and 0.03."""

NATS = 1.0
"""A gap of a single token that one model cannot have meant."""
