"""What every look for a cause is given, and what it gives back."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from .align import Aligned
from .measure import BySample, Overall

Array = np.ndarray[Any, Any]

Cause = Literal["none", "numerics", "weights", "sampling settings", "shift", "mask", "tokens", "truncation", "unclear"]
CAUSES: tuple[Cause, ...] = get_args(Cause)

MOST = 1_000_000
"""Tokens that are looked at for a cause; of more, samples at even distances are taken. Measures are of all."""


@dataclass(frozen=True)
class Finding:
    """One reason to take a cause for the right one.

    `strength`: 0.9 and more where hardly anything else leaves this trace, around 0.6 where it is the likelier of two.
    """

    cause: Cause
    strength: float
    says: str


@dataclass(frozen=True, eq=False)
class Case:
    """Aligned tokens and their gaps, some samples of them at least; `overall` and `samples` are of all."""

    whole: Aligned
    overall: Overall
    samples: BySample
    aligned: Aligned
    gaps: Array

    @property
    def sample_of(self) -> Array:
        """The number of the sample, among those that are looked at, of each token."""
        return np.repeat(np.arange(self.aligned.count, dtype=np.int32), self.aligned.lengths)

    @property
    def position(self) -> Array:
        """The position in its response of each token."""
        lengths = self.aligned.lengths
        position: Array = np.arange(len(self.gaps)) - np.repeat(self.aligned.begins[:-1], lengths)
        return position


def case_of(aligned: Aligned, gaps: Array, overall: Overall, samples: BySample) -> Case:
    """The case with at most about MOST tokens."""
    every = -(-len(gaps) // MOST)
    if every <= 1:
        return Case(aligned, overall, samples, aligned, gaps)
    few = np.zeros(aligned.count, bool)
    few[::every] = True
    part, kept = chosen(aligned, few)
    return Case(aligned, overall, samples, part, gaps[kept])


def chosen(aligned: Aligned, samples: Array) -> tuple[Aligned, Array]:
    """The samples where the mask `samples` is true, and the mask of their tokens."""
    kept = np.repeat(samples, aligned.lengths)

    def some(values: Array | None, which: Array) -> Array | None:
        return None if values is None else values[which]

    part = replace(
        aligned,
        generated=aligned.generated[kept],
        recomputed=aligned.recomputed[kept],
        begins=np.concatenate(([0], np.cumsum(aligned.lengths[samples]))),
        sample=aligned.sample[samples],
        other_sample=aligned.other_sample[samples],
        sizes=(aligned.sizes[0][samples], aligned.sizes[1][samples]),
        ids=some(aligned.ids, kept),
        other_ids=some(aligned.other_ids, kept),
        prompts=some(aligned.prompts, samples),
        steps=some(aligned.steps, samples),
    )
    return part, kept


def correlation(a: Array, b: Array) -> float:
    """Pearson's, 0.0 where one side is constant or there are fewer than three."""
    if len(a) < 3:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 1e-300 else 0.0


def ranks(values: Array) -> Array:
    """Ranks from 0 on, equal values having their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    first = np.cumsum(counts) - counts
    found: Array = (first + (counts - 1) / 2)[inverse]
    return found


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's."""
    return correlation(ranks(a), ranks(b))


def separation(values: Array, is_one: Array) -> float:
    """How often a value of one kind is above one of the other (ties half): 1.0 where always, 0.5 where unrelated."""
    ones, others = int(is_one.sum()), int((~is_one).sum())
    if not ones or not others:
        return 0.5
    return float((ranks(values)[is_one].sum() - ones * (ones - 1) / 2) / (ones * others))
