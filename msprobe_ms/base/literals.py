"""Python literals in files, such as the header of an npy, parsed while other threads parse.

Python 3.11 counts the depth of its parser for all threads together (CPython issue 106905): if the garbage collector
lets another thread run while one parses, and that one parses too, both raise SystemError for a correct text.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_ATTEMPTS = 10
"""Measured: one in 100,000 is disturbed if four threads do nothing but parse."""


def parsed(parse: Callable[[], T]) -> T:
    """Return what `parse` returns, which parses Python; it is called again if another thread disturbed it."""
    for _ in range(_ATTEMPTS):
        with suppress(SystemError):
            return parse()
    return parse()
