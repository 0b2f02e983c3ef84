"""Truncation and tokens: everything agrees up to a place, and what is at that place says why."""

import numpy as np

from .case import Array, Case, Finding
from .kinds import first_far
from .standard import AGREES, NATS


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
