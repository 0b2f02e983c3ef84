"""Detectors of masks and truncation: which samples agree, and from which position on they do not."""

import math

import numpy as np

from .detector import Array, Case, Finding, rank_correlation, separation
from .side import AGREES, CLEAN, JUMP, NATS

_LEAST = 4  # tokens of a sample whose mean gap tells anything
_FLOOR = 1e-7

_BY_CHANCE = 0.04
"""How often an order by prompts may come about by itself: by one sample of 25, by two of eight, by four of eight."""

_BEGINNING = 4
"""Tokens within which a wrong context shows: of what is sure anyway the log-prob stays."""


def two_kinds(case: Case) -> Array | None:
    """Of each sample whether it is of those that differ; None where all are of one kind. Tiny samples are not counted.

    The kinds are told by the greatest ratio between two neighbours, when mean absolute gaps are sorted.
    """
    size = np.where(case.whole.lengths >= _LEAST, case.samples.mean_absolute, np.nan)
    told = np.sort(np.maximum(size[~np.isnan(size)], _FLOOR))
    if len(told) < 3:
        return None
    ratio = told[1:] / told[:-1]
    at = int(ratio.argmax())
    # One sample may be sure of every token: it agrees only if it does as whole runs do.
    is_sound = told[at] <= CLEAN.mean or at + 1 >= max(3, len(told) // 10)
    if ratio[at] < JUMP or told[at + 1] < 1e-4 or not is_sound:
        return None
    with np.errstate(invalid="ignore"):
        differs: Array = size >= told[at + 1]
    return differs


def by_kinds(case: Case) -> list[Finding]:
    """Do the samples that differ have short prompts (padding), or long ones (a cut)?"""
    whole = case.whole
    counted = whole.lengths >= _LEAST
    if counted.sum() < 3:
        return []
    differs = two_kinds(case)
    if differs is None:
        return _by_rank(case, counted)
    if is_of_steps(case, differs):
        return []
    size, differs = case.samples.mean_absolute[counted], differs[counted]
    says = (
        f"{int((~differs).sum())} of {len(size)} samples agree (mean absolute gap up to {size[~differs].max():.3g}) "
        f"and {int(differs.sum())} do not (from {size[differs].min():.3g} on)"
    )
    if whole.prompts is None or not _is_enough(differs):
        says += (
            "; prompt_lengths would tell whether padding or a cut prompt does it"
            if whole.prompts is None
            else "; so few samples do not tell by what"
        )
        return [Finding("mask", 0.45, says), Finding("truncation", 0.44, says)]
    found = _by_prompts(whole.prompts[counted], differs, says) or _by_prompts(
        (whole.prompts + whole.sizes[0])[counted], differs, f"{says}, counting prompt and response", only_long=True
    )
    return found or _neither(case, max(AGREES, float(case.samples.max_absolute[counted][~differs].max())), says)


def _by_prompts(numbers: Array, differs: Array, says: str, *, only_long: bool = False) -> list[Finding]:
    """Are the samples that differ those of the short, or of the long ones? `says` is the beginning of the sentence."""
    at = separation(numbers, differs)
    ones, others = numbers[differs], numbers[~differs]
    if min(len(ones), len(others)) < 2 and (only_long or 0.02 < at < 0.98):  # one sample is of any size by chance
        return []
    if at >= (0.95 if only_long else 0.8):
        text = f"{says}: those with prompts of {_range(others)} tokens agree, those of {_range(ones)} do not"
        return [Finding("truncation", at - (0.15 if only_long else 0.08), text)]
    if at <= 0.2 and not only_long:
        text = (
            f"{says}: those with prompts of {_range(others)} tokens agree, those of {_range(ones)}, which get "
            "padding, do not"
        )
        return [Finding("mask", 0.92 - at, text)]
    return []


def _is_enough(differs: Array) -> bool:
    """Whether an order without any exception would be more than chance, which is one in n + m over n for n and m."""
    fewer = min(int(differs.sum()), int((~differs).sum()), 4)  # four beside four are one in 70
    return math.comb(len(differs), fewer) * _BY_CHANCE >= 1


def _neither(case: Case, rounding: float, says: str) -> list[Finding]:
    """Prompts of all lengths on both sides: neighbours in a packed batch, if it begins with the first tokens.

    `rounding` is the greatest gap of the samples that agree.
    """
    first = first_far(case, rounding)
    starts = first[first >= 0]
    if len(starts) and (starts < _BEGINNING).mean() >= 0.9:
        text = (
            f"{says}, from their first tokens on and whatever their prompts: they see what is not theirs, as in a "
            "packed batch"
        )
        return [Finding("mask", 0.6, text), Finding("truncation", 0.3, says)]
    late = np.flatnonzero(first >= _BEGINNING)
    size = np.abs(case.gaps)[case.aligned.begins[:-1][late] + first[late]]
    if len(late) >= max(3, 0.3 * len(starts)) and float(np.median(size)) >= NATS and np.ptp(first[late]):
        text = (
            f"{says}, whatever their prompts, {len(late)} of them from some later token on, which is "
            f"{float(np.median(size)):.3g} nats off (median): one side has another token there, or in the prompt"
        )
        return [Finding("tokens", 0.6, text), Finding("mask", 0.3, says)]
    return [Finding("mask", 0.45, says), Finding("tokens", 0.45, says)]


def first_far(case: Case, rounding: float = AGREES) -> Array:
    """The first position of each sample that is looked at which is beyond rounding; -1 where none is."""
    far = np.abs(case.gaps) > rounding
    first = np.full(case.aligned.count, -1, np.int64)
    which, begins = np.unique(case.sample_of[far], return_index=True)
    first[which] = case.position[far][begins]
    return first


def is_of_steps(case: Case, differs: Array) -> bool:
    """Whether samples of one step are all of one kind: weights that part at some step."""
    steps = case.whole.steps
    counted = case.whole.lengths >= _LEAST
    if steps is None or len(np.unique(steps)) < 2:
        return False
    shares = [differs[counted & (steps == step)] for step in np.unique(steps)]
    mixed = sum(min(part.sum(), len(part) - part.sum()) for part in shares)
    return bool(mixed <= 0.02 * counted.sum())


def _by_rank(case: Case, counted: Array) -> list[Finding]:
    """Nobody agrees to the last digit; does the gap grow with the padding, which is what a prompt lacks?"""
    prompts, size = case.whole.prompts, case.samples.mean_absolute[counted]
    if prompts is None or len(size) < 12:
        return []
    rho = rank_correlation(prompts[counted], size)
    if abs(rho) < max(0.6, 4 / np.sqrt(len(size))):
        return []
    if rho < 0:
        says = f"the gap of a sample grows with its padding (rank correlation {-rho:.2f} over {len(size)} samples)"
        return [Finding("mask", 0.4 - rho / 2, says)]
    says = f"the gap of a sample grows with its prompt (rank correlation {rho:.2f} over {len(size)} samples)"
    return [Finding("truncation", 0.3 + rho / 2, says)]


def _range(numbers: Array) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low}" if low == high else f"{low} to {high}"


def by_onset(case: Case) -> list[Finding]:
    """Where in each sample the gaps begin, and where they end."""
    aligned, far = case.aligned, np.abs(case.gaps) > AGREES
    if not far.any() or far.mean() > 0.995:
        return []
    first, last = first_far(case), _last(case, far)
    differs = np.flatnonzero(first >= 0)
    first, last, lengths = first[differs], last[differs], aligned.lengths[differs]
    if len(differs) < 3:
        return []
    late = first > 0
    if late.mean() >= 0.8:
        return _late(case, differs, first)
    is_early = (first == 0) & (last < lengths // 2)
    if (first == 0).mean() >= 0.8 and is_early.mean() >= 0.8:
        says = (
            f"{len(differs)} samples differ from their first token on, and agree again behind position "
            f"{int(last.max())} at the latest: what stands before the response differs"
        )
        return [Finding("truncation", 0.8, says)]
    return []


def _late(case: Case, differs: Array, first: Array) -> list[Finding]:
    aligned = case.aligned
    places = aligned.begins[:-1][differs] + first
    size = np.abs(case.gaps)[places]
    found = []
    for what, numbers in (
        ("position {} of the response", first),
        ("token {} of prompt and response", _whole(case, differs, first)),
    ):
        if numbers is None:
            continue
        value, times = np.unique(numbers, return_counts=True)
        often = int(times.argmax())
        if times[often] >= 0.9 * len(numbers):
            place = what.format(int(value[often]))
            says = f"{times[often]} of {len(numbers)} samples that differ agree up to {place} and differ from there on"
            found.append(Finding("truncation", 0.9, says))
            break
    middle = float(np.median(size))
    says = (
        f"{len(differs)} samples agree up to some token, which is then {middle:.3g} nats off (median), at another "
        "position in each: one side has another token there"
    )
    named = None if aligned.ids is None else _one_id(aligned.ids, places)
    if not found and named:
        found.append(Finding("tokens", 0.95, f"{says}; {named}"))
    elif not found and middle >= NATS:
        found.append(Finding("tokens", 0.8, says))
    return found


def _one_id(ids: Array, places: Array) -> str:
    """A few words on the token that nearly all of these places hold, where that is none of the most frequent anyway."""
    known, times = np.unique(ids[places], return_counts=True)
    often = int(times.argmax())
    if times[often] < 0.7 * len(places) or (ids == known[often]).mean() > 0.3:
        return ""
    return f"in {times[often]} of them it is token {known[often]}"


def _whole(case: Case, differs: Array, first: Array) -> Array | None:
    prompts = case.aligned.prompts
    return None if prompts is None else prompts[differs] + first


def _last(case: Case, far: Array) -> Array:
    """The last position of each sample that is far; -1 where none is."""
    last = np.full(case.aligned.count, -1, np.int64)
    np.maximum.at(last, case.sample_of[far], case.position[far])
    return last


def by_vocabulary(case: Case) -> list[Finding]:
    """Are nearly all great gaps at a few token ids, and those ids nearly always far off?"""
    ids = case.aligned.ids if case.aligned.ids is not None else case.aligned.other_ids
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
    # What follows a wrong token has a wrong context.
    near = at_wrong.copy()
    for lag in (1, 2, 3):
        near[lag:] |= at_wrong[:-lag]
    elsewhere = far & ~near
    if elsewhere.sum() > 0.3 * far.sum() or elsewhere.sum() > 0.1 * (~near).sum():
        return []
    named = ", ".join(map(str, known[wrong][:5])) + (", ..." if wrong.sum() > 5 else "")
    says = (
        f"token {named} is more than {NATS:g} nat off in {int(often[wrong].sum())} of its {int(times[wrong].sum())} "
        f"places (mean {float(np.abs(case.gaps)[at_wrong].mean()):.2f}), all others in {int((far & ~at_wrong).sum())} "
        f"of {int((~at_wrong).sum())}"
    )
    return [Finding("tokens", 0.9, says)]
