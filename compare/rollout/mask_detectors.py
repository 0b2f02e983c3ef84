"""Detectors of masks and truncation: which samples agree, and from which position on they do not."""

import math

import numpy as np

from .case import AGREES, MIN_LENGTH, NATS, Array, Case, Suspect, rank_correlation, separation

_BY_CHANCE = 0.04
"""Probability of an order by prompts by chance: one sample of 25, two of eight, four of eight."""

_BEGINNING = 4
"""Number of tokens within which a wrong context is visible: later, the log-prob of certain tokens does not change."""


def by_kinds(case: Case) -> list[Suspect]:
    """Return suspects if the samples that differ have short prompts (padding), or long ones (a cut)."""
    whole, differs = case.whole, case.two_kinds
    counted = whole.lengths >= MIN_LENGTH
    if counted.sum() < 3 or case.kinds_are_steps:
        return []
    if differs is None:
        return _by_rank(case, counted)
    size, differs = case.samples.mean_absolute[counted], differs[counted]
    text = (
        f"{int((~differs).sum())} of {len(size)} samples agree (mean absolute gap up to {size[~differs].max():.3g}) "
        f"and {int(differs.sum())} do not (from {size[differs].min():.3g} on)"
    )
    # An order without any exception has a probability of 1 / C(n + m, n) by chance; for four and four it is one in 70.
    fewer = min(int(differs.sum()), int((~differs).sum()), 4)
    if whole.prompts is None or math.comb(len(differs), fewer) * _BY_CHANCE < 1:
        text += (
            "; prompt_lengths would show whether padding or a truncated prompt is the cause"
            if whole.prompts is None
            else "; the number of samples is too small to determine the cause"
        )
        return [Suspect("mask", 0.45, text), Suspect("truncation", 0.44, text)]
    found = _by_prompts(whole.prompts[counted], differs, text) or _by_prompts(
        (whole.prompts + whole.sizes[0])[counted], differs, f"{text}, counting prompt and response", only_long=True
    )
    return found or _neither(case, max(AGREES, float(case.samples.max_absolute[counted][~differs].max())), text)


def _by_prompts(numbers: Array, differs: Array, message: str, *, only_long: bool = False) -> list[Suspect]:
    """Return suspects if the samples that differ are the short, or the long ones. `message` begins the sentence."""
    at = separation(numbers, differs)
    ones, others = numbers[differs], numbers[~differs]
    if min(len(ones), len(others)) < 2 and (only_long or 0.02 < at < 0.98):  # the size of a single sample is chance
        return []
    if at >= (0.95 if only_long else 0.8):
        text = f"{message}: those with prompts of {_range(others)} tokens agree, those of {_range(ones)} do not"
        return [Suspect("truncation", at - (0.15 if only_long else 0.08), text)]
    if at <= 0.2 and not only_long:
        text = (
            f"{message}: those with prompts of {_range(others)} tokens agree, those of {_range(ones)}, which get "
            "padding, do not"
        )
        return [Suspect("mask", 0.92 - at, text)]
    return []


def _neither(case: Case, rounding: float, message: str) -> list[Suspect]:
    """Return suspects for prompts of all lengths on both sides: neighbors in a packed batch, if it begins with the
    first tokens.

    `rounding` is the greatest gap of the samples that agree.
    """
    first = case.first_far(rounding)
    starts = first[first >= 0]
    if len(starts) and (starts < _BEGINNING).mean() >= 0.9:
        text = (
            f"{message}, from their first tokens on, independent of their prompts: they attend to other samples, "
            "as in a packed batch"
        )
        return [Suspect("mask", 0.6, text), Suspect("truncation", 0.3, message)]
    late = np.flatnonzero(first >= _BEGINNING)
    size = np.abs(case.gaps)[case.aligned.starts[:-1][late] + first[late]]
    if len(late) >= max(3, 0.3 * len(starts)) and float(np.median(size)) >= NATS and np.ptp(first[late]):
        text = (
            f"{message}, independent of their prompts, {len(late)} of them from a later token on, which differs "
            f"by {float(np.median(size)):.3g} nats (median): one side has a different token there, or in the "
            "prompt"
        )
        return [Suspect("tokens", 0.6, text), Suspect("mask", 0.3, message)]
    return [Suspect("mask", 0.45, message), Suspect("tokens", 0.45, message)]


def _by_rank(case: Case, counted: Array) -> list[Suspect]:
    """Return suspects if no sample agrees exactly, and the gap grows with the padding, which a prompt lacks."""
    prompts, size = case.whole.prompts, case.samples.mean_absolute[counted]
    if prompts is None or len(size) < 12:
        return []
    rho = rank_correlation(prompts[counted], size)
    if abs(rho) < max(0.6, 4 / np.sqrt(len(size))):
        return []
    if rho < 0:
        text = f"the gap of a sample grows with its padding (rank correlation {-rho:.2f} over {len(size)} samples)"
        return [Suspect("mask", 0.4 - rho / 2, text)]
    text = f"the gap of a sample grows with its prompt (rank correlation {rho:.2f} over {len(size)} samples)"
    return [Suspect("truncation", 0.3 + rho / 2, text)]


def _range(numbers: Array) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low}" if low == high else f"{low} to {high}"


def by_onset(case: Case) -> list[Suspect]:
    """Return suspects by the positions at which the gaps begin and end in each sample."""
    far = np.abs(case.gaps) > AGREES
    if not far.any() or far.mean() > 0.995:
        return []
    first, last = case.first_far(), np.full(case.aligned.count, -1, np.int64)
    np.maximum.at(last, case.sample_of[far], case.position[far])
    differs = np.flatnonzero(first >= 0)
    first, last, lengths = first[differs], last[differs], case.aligned.lengths[differs]
    if len(differs) < 3:
        return []
    if (first > 0).mean() >= 0.8:
        return _late(case, differs, first)
    is_early = (first == 0) & (last < lengths // 2)
    if (first == 0).mean() >= 0.8 and is_early.mean() >= 0.8:
        text = (
            f"{len(differs)} samples differ from their first token on, and agree again after position "
            f"{int(last.max())} at the latest: the text before the response differs"
        )
        return [Suspect("truncation", 0.8, text)]
    return []


def _late(case: Case, differs: Array, first: Array) -> list[Suspect]:
    """Return suspects for gaps that begin after the first token: at one position in all samples, or at another token in
    each."""
    prompts = case.aligned.prompts
    for what, numbers in (
        ("position {} of the response", first),
        ("token {} of prompt and response", None if prompts is None else prompts[differs] + first),
    ):
        if numbers is None:
            continue
        value, times = np.unique(numbers, return_counts=True)
        often = int(times.argmax())
        if times[often] >= 0.9 * len(numbers):
            place = what.format(int(value[often]))
            text = f"{times[often]} of {len(numbers)} differing samples agree up to {place} and differ from there on"
            return [Suspect("truncation", 0.9, text)]
    places = case.aligned.starts[:-1][differs] + first
    middle = float(np.median(np.abs(case.gaps)[places]))
    text = (
        f"{len(differs)} samples agree up to a token that differs by {middle:.3g} nats (median), at a different "
        "position in each: one side has a different token there"
    )
    ids = case.aligned.ids
    if ids is not None:
        known, times = np.unique(ids[places], return_counts=True)
        often = int(times.argmax())
        # Not one of the most frequent tokens, which are at most positions anyway.
        if times[often] >= 0.7 * len(places) and (ids == known[often]).mean() <= 0.3:
            return [Suspect("tokens", 0.95, f"{text}; in {times[often]} of them it is token {known[often]}")]
    return [Suspect("tokens", 0.8, text)] if middle >= NATS else []


def by_vocabulary(case: Case) -> list[Suspect]:
    """Return suspects if nearly all large gaps are at a few token ids, and those ids nearly always have one."""
    ids = case.ids
    far = np.abs(case.gaps) > NATS
    if ids is None or int(far.sum()) < 3 or far.mean() > 0.5:
        return []
    known, number = np.unique(ids, return_inverse=True)
    times = np.bincount(number)
    often = np.bincount(number, weights=far)
    wrong = (times >= 3) & (often >= 0.8 * times)
    if not wrong.any() or times[wrong].sum() > 0.25 * len(ids):
        return []
    at_wrong = wrong[number]
    # Tokens after a wrong token have a wrong context.
    near = at_wrong.copy()
    for lag in (1, 2, 3):
        near[lag:] |= at_wrong[:-lag]
    elsewhere = far & ~near
    if elsewhere.sum() > 0.3 * far.sum() or elsewhere.sum() > 0.1 * (~near).sum():
        return []
    named = ", ".join(map(str, known[wrong][:5])) + (", ..." if wrong.sum() > 5 else "")
    text = (
        f"token {named} differs by more than {NATS:g} nat in {int(often[wrong].sum())} of its "
        f"{int(times[wrong].sum())} positions (mean {float(np.abs(case.gaps)[at_wrong].mean()):.2f}), all others "
        f"in {int((far & ~at_wrong).sum())} of {int((~at_wrong).sum())}"
    )
    return [Suspect("tokens", 0.9, text)]
