"""Do the gaps of one token, or of one sample, go one way? Training moves whole tokens; rounding and eps do not.

An update of the weights makes a token likelier or less likely nearly wherever it stands, and the samples it was made
from by their advantage. What rounds, or scales by another eps, has another sign at every place. The measure is the
intraclass correlation: the mean product of the gaps of two places of one kind, over their variance; 0 where unrelated.
"""

from dataclasses import dataclass

import numpy as np

from .case import Array, Case
from .standard import NO_WAY, NO_WAY_SAMPLE, ONE_WAY, ONE_WAY_SAMPLE

_FEWEST = 300  # tokens; of fewer the measure is chance


@dataclass(frozen=True)
class Coherence:
    """Of tokens (None without ids) and of samples."""

    token: float | None
    sample: float

    @property
    def is_one_way(self) -> bool:
        """Whether whole tokens, or whole samples, move together."""
        return (self.token or 0) > ONE_WAY or self.sample > ONE_WAY_SAMPLE

    @property
    def is_no_way(self) -> bool:
        """Whether neither does, so far as the ids tell, without which that is not known."""
        return self.token is not None and self.token <= NO_WAY and self.sample <= NO_WAY_SAMPLE

    def __str__(self) -> str:
        token = "" if self.token is None else f"of one token id {self.token:.2f}, "
        return f"correlation of two gaps {token}of one sample {self.sample:.2f}"


def coherence(case: Case) -> Coherence | None:
    """Both measures; None where there are too few tokens."""
    if len(case.gaps) < _FEWEST:
        return None
    low, high = np.quantile(case.gaps, (0.01, 0.99))  # a few great gaps would say it all
    gaps = np.clip(case.gaps, low, high)
    ids = case.aligned.ids if case.aligned.ids is not None else case.aligned.other_ids
    return Coherence(None if ids is None else _within(gaps, ids), _within(gaps, case.sample_of))


def _within(gaps: Array, kind: Array) -> float:
    gaps = gaps - gaps.mean()
    _, number, times = np.unique(kind, return_inverse=True, return_counts=True)
    pairs = float((times * (times - 1.0)).sum())
    variance = float(gaps @ gaps) / len(gaps)
    if not pairs or variance < 1e-300:
        return 0.0
    products = np.bincount(number, gaps) ** 2 - np.bincount(number, gaps**2)
    return float(products.sum()) / pairs / variance
