"""Align the samples and tokens of the two sides.

Samples are paired by position. If both sides have token ids and those disagree, they are paired by the ids: equal
responses first (of several equal ones, those with the closest mean log-prob), then a response with the beginning of
another (an end token that one side dropped, a truncated response), and last the remaining ones at one position. Within
a pair, tokens are in order, and additional ones of one side are cut and counted.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError

from .side import Side

Array = np.ndarray[Any, Any]

_TOKEN = np.dtype(np.int64).itemsize


@dataclass(frozen=True, eq=False)
class Aligned:
    """Pairs of samples with pairs of tokens, concatenated.

    `generated`, `recomputed`, `ids` and `other_ids` are of one length; sample i is `begins[i]:begins[i + 1]`. `sample`
    and `other_sample` are the numbers on the two sides, `sizes` the response tokens of each. `prompts` and `steps` are
    None if unknown.
    """

    generated: Array
    recomputed: Array
    starts: Array
    sample: Array
    other_sample: Array
    sizes: tuple[Array, Array]
    ids: Array | None
    other_ids: Array | None
    prompts: Array | None
    steps: Array | None
    unpaired: tuple[Array, Array]
    is_reordered: bool

    @property
    def count(self) -> int:
        """Return the number of samples."""
        return len(self.sample)

    @property
    def lengths(self) -> Array:
        """Return the number of compared tokens of each sample."""
        lengths: Array = np.diff(self.starts)
        return lengths

    def chosen(self, samples: Array) -> "Aligned":
        """Return the samples where the mask `samples` is true."""
        tokens = np.repeat(samples, self.lengths)
        per_token = ("generated", "recomputed", "ids", "other_ids")
        per_sample = ("sample", "other_sample", "prompts", "steps")
        kept: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[which]
            for names, which in ((per_token, tokens), (per_sample, samples))
            for name in names
        }
        starts = np.concatenate(([0], np.cumsum(self.lengths[samples])))
        return replace(self, starts=starts, sizes=(self.sizes[0][samples], self.sizes[1][samples]), **kept)


def align(generated: Side, recomputed: Side, prompts: Array | None = None, steps: Array | None = None) -> Aligned:
    """Pair samples and tokens; raise a UsageError if the samples of both sides cannot be related.

    `prompts` and `steps` belong to the samples of `generated`.
    """
    for what, numbers in (("prompt_lengths", prompts), ("steps", steps)):
        if numbers is not None and len(numbers) != generated.count:
            raise UsageError(f"{what}: has {len(numbers)} entries for {generated.count} samples; give one per sample")
    count = min(generated.count, recomputed.count)
    left = right = np.arange(count)
    if generated.tokens is not None and recomputed.tokens is not None:
        left, right = _by_tokens(generated, recomputed).T
    elif generated.count != recomputed.count:
        raise UsageError(
            f"generated has {generated.count} samples, recomputed {recomputed.count}; give the token ids of both, "
            "which are needed for pairing"
        )
    sizes = generated.sizes[left], recomputed.sizes[right]
    both = np.minimum(*sizes)
    at, other = _places(generated, left, both), _places(recomputed, right, both)
    return Aligned(
        generated.values[at],
        recomputed.values[other],
        np.concatenate(([0], np.cumsum(both))),
        left,
        right,
        sizes,
        None if generated.tokens is None else generated.tokens[at],
        None if recomputed.tokens is None else recomputed.tokens[other],
        None if prompts is None else prompts[left],
        None if steps is None else steps[left],
        (np.setdiff1d(np.arange(generated.count), left), np.setdiff1d(np.arange(recomputed.count), right)),
        not np.array_equal(left, right),
    )


def _places(side: Side, samples: Array, sizes: Array) -> Array | slice:
    """Return the positions of the first `sizes` tokens of these samples; a slice if that is everything, which copies
    nothing."""
    if np.array_equal(samples, np.arange(side.count)) and np.array_equal(sizes, side.sizes):
        return slice(None)
    before = np.concatenate(([0], np.cumsum(sizes)[:-1])) if len(sizes) else sizes
    return np.repeat(side.starts[:-1][samples] - before, sizes) + np.arange(sizes.sum())


def _by_tokens(generated: Side, recomputed: Side) -> Array:
    """Return pairs in the order of `generated`."""
    one, other = _texts(generated), _texts(recomputed)
    places = range(min(len(one), len(other)))
    found: dict[int, int] = {at: at for at in places if one[at] == other[at]}
    _equal(generated, recomputed, one, other, found)
    taken = set(found.values())

    def pair_at_one_place(which: Callable[[bytes, bytes], bool]) -> None:
        for at in places:
            if at not in found and at not in taken and which(one[at], other[at]):
                found[at] = at
                taken.add(at)

    pair_at_one_place(lambda a, b: bool(a and b) and (a.startswith(b) or b.startswith(a)))
    _prefixes(one, other, found, taken)
    pair_at_one_place(lambda _, __: True)  # other ids at one position: reported by the diagnosis
    return np.array(sorted(found.items()), np.int64).reshape(-1, 2)


def _texts(side: Side) -> list[bytes]:
    assert side.tokens is not None
    starts = side.starts.tolist()
    return [side.tokens[a:b].tobytes() for a, b in pairwise(starts)]


def _equal(generated: Side, recomputed: Side, one: list[bytes], other: list[bytes], found: dict[int, int]) -> None:
    """Pair equal responses at other positions; a whole group of equal ones is paired again, in the order of mean
    log-probs.

    Ids do not distinguish several equal responses; their prompts differ, and so do their log-probs.
    """
    is_found = set(found)
    loose = {text for side in (one, other) for at, text in enumerate(side) if at not in is_found}
    groups: dict[bytes, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for which, texts in enumerate((one, other)):
        for at, text in enumerate(texts):
            if text in loose:
                groups[text][which].append(at)
    for mine, theirs in groups.values():
        if not mine or not theirs:
            continue
        for at in mine:
            found.pop(at, None)
        if len(mine) > 1 or len(theirs) > 1:
            mine.sort(key=lambda at: _mean(generated, at))
            theirs.sort(key=lambda at: _mean(recomputed, at))
        found.update(zip(mine, theirs, strict=False))


def _mean(side: Side, at: int) -> float:
    values = side.values[side.starts[at] : side.starts[at + 1]]
    return float(values.mean()) if len(values) else 0.0


def _prefixes(one: list[bytes], other: list[bytes], found: dict[int, int], taken: set[int]) -> None:
    """Pair the remaining ones if one begins with the whole other: the longest such beginning first."""
    for mine, theirs, is_swapped in ((one, other, False), (other, one, True)):
        done, used = (taken, set(found)) if is_swapped else (set(found), taken)
        short: dict[bytes, list[int]] = defaultdict(list)
        for at, text in enumerate(theirs):
            if at not in used and text:
                short[text].append(at)
        in_order = sorted(short)
        for at, text in enumerate(mine):
            match = _longest_beginning(text, in_order, short) if at not in done else None
            if match is None:
                continue
            found[match if is_swapped else at] = at if is_swapped else match
            taken.add(at if is_swapped else match)


def _longest_beginning(text: bytes, in_order: list[bytes], left: dict[bytes, list[int]]) -> int | None:
    """Return and remove the longest of the texts in order that `text` begins with, and that still has samples left.

    All texts that begin with p come after p in the order. So if the last text up to a probe is not a beginning, every
    beginning is one of the common part of the two: a few steps, for any number of texts.
    """
    probe = text
    while probe:
        at = bisect_right(in_order, probe) - 1
        if at < 0:
            return None
        nearest = in_order[at]
        if not text.startswith(nearest):
            probe = text[: _in_common(text, nearest)]
        elif left[nearest]:
            return left[nearest].pop(0)
        else:
            probe = nearest[:-_TOKEN]
    return None


def _in_common(one: bytes, other: bytes) -> int:
    """Return the number of bytes that two texts have in common from their beginning on, in whole tokens."""
    size = min(len(one), len(other))
    differs = np.frombuffer(one[:size], np.int64) != np.frombuffer(other[:size], np.int64)
    return int(differs.argmax()) * _TOKEN if differs.any() else size
