"""Causes that show in the tokens themselves: other ids, other numbers of them, log-probs that are exactly 0."""

import numpy as np

from .case import Array, Case, Finding
from .rounding import is_within
from .standard import LAGS, NUMERIC_16_BIT

_ALIKE = 0.9
"""Correlation of two sides that begin at one place, even under other weights."""


def by_ids(case: Case) -> list[Finding]:
    """Where both sides tell their token ids: do they agree, and if not, do they at a lag?"""
    aligned = case.aligned
    if aligned.ids is None or aligned.other_ids is None:
        return []
    differs = aligned.ids != aligned.other_ids
    count = int(differs.sum())
    if not count:
        return []
    share = count / len(differs)
    sample = case.sample_of
    lagged = {lag: _agree_at(aligned.ids, aligned.other_ids, sample, lag) for lag in LAGS}
    best = max(lagged, key=lambda lag: lagged[lag])
    if share > 0.3 and lagged[best] > 0.9:
        says = (
            f"the token ids agree in {lagged[best]:.1%} of all places when recomputed is moved by {best:+d}, and in "
            f"{1 - share:.1%} as they stand"
        )
        return [Finding("shift", 1.0, says)]
    first = int(differs.argmax())
    at = int(sample[first])
    place = first - int(aligned.begins[at])
    pairs, times = np.unique(np.stack((aligned.ids, aligned.other_ids), 1)[differs], axis=0, return_counts=True)
    often = int(times.argmax())
    says = (
        f"{count} of {len(differs)} token ids differ, first in sample {aligned.sample[at]} at position {place} "
        f"({aligned.ids[first]} generated, {aligned.other_ids[first]} recomputed); most often {pairs[often][0]} "
        f"became {pairs[often][1]}, {times[often]} times"
    )
    return [Finding("tokens", 1.0, says)]


def _agree_at(ids: Array, others: Array, sample: Array, lag: int) -> float:
    a, b = (ids[: len(ids) - lag], others[lag:]) if lag > 0 else (ids[-lag:], others[:lag])
    inside = (sample[: len(ids) - lag] == sample[lag:]) if lag > 0 else (sample[-lag:] == sample[:lag])
    return float((a[inside] == b[inside]).mean()) if inside.any() else 0.0


def by_lengths(case: Case) -> list[Finding]:
    """Where one side has more response tokens than the other, by more than one end token."""
    one, other = case.whole.sizes
    if (one == other).all() or is_end_token(one, other):
        return []
    found = []
    for name, sizes, longer, others in (
        ("recomputed", other, "generated", one),
        ("generated", one, "recomputed", other),
    ):
        is_cut = sizes < others
        if not is_cut.any():
            continue
        cap = int(sizes[is_cut].max())
        at_cap = int((sizes[is_cut] == cap).sum())
        cut = int(is_cut.sum())
        if np.ptp(others) == 0 and np.ptp(sizes) > 0 and len(sizes) > 2:
            says = (
                f"{longer} has {others[0]} response tokens in every sample, {name} between {sizes.min()} and "
                f"{sizes.max()}: the mask of {longer} holds padding too"
            )
            found.append(Finding("mask", 0.97, says))
            continue
        more = others - sizes
        if case.whole.prompts is not None and (more == case.whole.prompts).all() and np.ptp(more):
            says = (
                f"{longer} has as many response tokens more as there are prompt tokens: its mask holds the prompt too"
            )
            found.append(Finding("mask", 0.97, says))
            continue
        says = f"{name} has fewer response tokens than {longer} in {cut} of {len(sizes)} samples"
        if at_cap >= max(2, cut // 2) or cut == 1:
            says += f", and stops at {cap} tokens in {at_cap} of those (up to {int(others[is_cut].max())} in {longer})"
        else:
            says += f", by {int((others - sizes)[is_cut].min())} to {int((others - sizes)[is_cut].max())} tokens"
        if is_within(case, NUMERIC_16_BIT) or case.overall.correlation > _ALIKE:
            found.append(Finding("truncation", 0.97, says))
            continue
        says += (
            ", and what both have is not alike: a mask that leaves other tokens out, as those of tools, does that too"
        )
        found += [Finding("truncation", 0.45, says), Finding("mask", 0.45, says)]
    return found


def is_end_token(one: Array, other: Array) -> bool:
    """Whether one side has one token more than the other in some samples, and never more: an end token that it kept."""
    more = one - other
    return bool(((more == 0) | (more == 1)).all() or ((more == 0) | (more == -1)).all())


def by_zeros(case: Case) -> list[Finding]:
    """Log-probs that are exactly 0 on one side and not near it on the other: places that nobody computed.

    Top-p that keeps a single token gives such zeros as well; all other gaps are then of one sign, which says so.
    """
    aligned, found = case.aligned, []
    sides = (
        ("generated", aligned.generated, aligned.recomputed),
        ("recomputed", aligned.recomputed, aligned.generated),
    )
    for name, values, others in sides:
        empty = (values == 0) & (others < -0.05)
        count = int(empty.sum())
        if count < 3 or count < 0.005 * len(empty):
            continue
        sample, zeros = case.sample_of, values == 0
        is_near = others >= -0.05
        if is_near[zeros].mean() > 0.2 + (is_near[~zeros].mean() if not zeros.all() else 0):
            continue  # zeros of a model that is sure of its token, which stand where the other side is sure too
        behind = np.zeros(aligned.count, np.int64)
        np.maximum.at(behind, sample[empty], aligned.lengths[sample[empty]] - case.position[empty])
        in_tail = behind[sample] >= aligned.lengths[sample] - case.position
        says = f"{name} is exactly 0 for {count} of {len(empty)} tokens where the other side is not"
        if zeros[in_tail].all():
            found.append(Finding("truncation", 0.96, f"{says}, always to the end of a response: it was cut before"))
        elif _middle(case.gaps[~zeros]) < 1e-3:
            found.append(Finding("mask", 0.8, f"{says}, and all others agree: they were masked, or never filled"))
    return found


def _middle(gaps: Array) -> float:
    return float(np.median(np.abs(gaps))) if len(gaps) else float("inf")
