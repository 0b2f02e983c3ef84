"""Pieces of sentences."""

from collections.abc import Sequence


def few(names: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 4 more`: the first `most` names, and how many others there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
