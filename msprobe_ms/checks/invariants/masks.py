"""Classify the masks of attention: which positions a query sees, and whether that is the form of a correct mask."""

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

_SMALLEST = 3
"""Positions below which every form is that of a correct mask."""


class MaskShape(Enum):
    """The form of a mask; the values of wrong ones are what a judgement carries as `what`."""

    RIGHT = "right"
    SHOWS_LATER = "shows what comes later"
    HIDES_THE_PAST = "hides the past"
    HIDES_ITSELF = "hides itself"
    UNKNOWN = "unknown"


_WRONG = MaskShape.SHOWS_LATER, MaskShape.HIDES_THE_PAST, MaskShape.HIDES_ITSELF


def classified(hidden: NDArray[Any]) -> MaskShape:
    """Return the form of masks `[..., queries, keys]`, True where a key is hidden from a query.

    Each mask of a batch is looked at: padding differs from sequence to sequence. The worst form counts. Masks that are
    not square are correct: nothing tells which key is at the position of which query.
    """
    length = hidden.shape[-1] if hidden.ndim > 1 else 0
    if length < _SMALLEST or hidden.shape[-2] != length:
        return MaskShape.RIGHT
    each = {one.tobytes(): one for one in np.asarray(hidden, bool).reshape(-1, length, length)}
    found = {_form(one) for one in each.values()}
    return next((form for form in (*_WRONG, MaskShape.UNKNOWN) if form in found), MaskShape.RIGHT)


def later_positions(hidden: NDArray[Any]) -> Mask:
    """Return where square masks `[..., queries, keys]` show a later key to a query that is not padding."""
    each = np.asarray(hidden, bool).reshape(-1, *hidden.shape[-2:])
    shown = [np.triu(~one & ~_padded_queries(one)[:, None], 1) for one in each]
    return np.array(shown, bool).reshape(hidden.shape)


def _form(hidden: Mask) -> MaskShape:
    """Return the form of one square mask, by the positions that are not padding."""
    queries, keys = ~_padded_queries(hidden), ~hidden.all(0)
    known = queries[:, None] & keys[None, :]
    later, earlier = np.triu(known, 1), np.tril(known, -1)
    hides_later, hides_earlier = hidden & later, hidden & earlier
    shown = later & ~hidden
    if hides_earlier.any() and (hides_earlier == earlier).all() and not hides_later.any():
        return MaskShape.HIDES_THE_PAST if shown.any() else MaskShape.RIGHT
    if not hides_later.any():
        return MaskShape.RIGHT  # of both directions, with padding
    if not shown.any():
        itself = np.diag(np.diag(hidden))
        is_shown = bool((earlier & ~hidden).any())
        return MaskShape.HIDES_ITSELF if is_shown and _all_of(itself, np.diag(queries & keys)) else MaskShape.RIGHT
    if np.array_equal(hides_later, hides_earlier.T) or _are_blocks(~hidden & known):
        return MaskShape.RIGHT  # a window or documents of both directions; a prefix or images in a causal mask
    ahead, back = _reach(shown), _reach((earlier & ~hidden).T)
    if not hides_earlier.any() or (_is_banded(shown, later) and ahead < back):
        return MaskShape.SHOWS_LATER
    return MaskShape.UNKNOWN


def _padded_queries(hidden: Mask) -> Mask:
    """Return which queries are padding: all keys are hidden from them, or all shown, and no other query sees them."""
    whole = ~hidden.any(1)
    unseen = hidden[~whole].all(0) if not whole.all() else np.zeros(len(whole), bool)
    padded: Mask = hidden.all(1) | (whole & unseen)
    return padded


def _all_of(found: Mask, wanted: Mask) -> bool:
    return bool(wanted.any() and found[wanted].all())


def _are_blocks(seen: Mask) -> bool:
    """Return whether the later keys that are seen make up whole blocks along the diagonal, of three positions or more.

    A block of two is what a mask is that shows one next position.
    """
    rest = np.triu(seen, 1)
    while rest.any():
        first = int(np.flatnonzero(rest.any(1))[0])
        last = int(np.flatnonzero(rest[first])[-1])
        block = rest[first : last + 1, first : last + 1]
        if last - first + 1 < _SMALLEST or not np.array_equal(block, np.triu(np.ones_like(block), 1)):
            return False
        rest = rest.copy()
        rest[first : last + 1, first : last + 1] = False
    return True


def _reach(shown: Mask) -> int:
    """Return the distance of the farthest position that is shown above the diagonal."""
    rows, columns = np.nonzero(shown)
    return int(np.max(columns - rows, initial=0))


def _is_banded(shown: Mask, later: Mask) -> bool:
    """Return whether what is seen depends on the distance alone."""
    distance = np.arange(len(shown))[None, :] - np.arange(len(shown))[:, None]
    return np.array_equal(shown, later & np.isin(distance, np.unique(distance[shown])))
