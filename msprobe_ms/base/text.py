"""Pieces of sentences."""

from collections.abc import Iterable


def few(names: Iterable[object], most: int = 3) -> str:
    """`a, b, c and 4 more`: the first `most` names, and how many others there are."""
    every = [str(name) for name in names]
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")
