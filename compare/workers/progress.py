"""How far the work is, on standard error: a bar where somebody looks, else a line now and then."""

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from msprobe.base.log import logger

Item = TypeVar("Item")

EVERY = 10.0
"""Seconds between two lines."""

MANY = 20_000
"""Calls or records that are shown going by: fewer are gone through in a second or two."""


def progress(items: Iterable[Item], total: int, title: str) -> Generator[Item, None, None]:
    """Give the items on, and show how many of `total` have come.

    On a terminal a bar of tqdm (extra `fast`), where that is installed; else a log line at most every ten seconds.
    Standard output is left alone. Closing this closes `items`, where that is a generator.
    """
    with _counter(total, title) as one_more:
        try:
            for item in items:
                one_more()
                yield item
        finally:
            if isinstance(items, Generator):
                items.close()


def shown(items: Sequence[Item], title: str) -> Iterable[Item]:
    """Return the items with their progress, where they are so many that somebody may wait for them."""
    return progress(items, len(items), title) if len(items) >= MANY else items


@contextmanager
def _counter(total: int, title: str) -> Iterator[Callable[[], object]]:
    """A function to be called for each item."""
    if sys.stderr is not None and sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            with tqdm(total=total, desc=title, file=sys.stderr, leave=False) as bar:
                yield bar.update
            return
    start = last = time.monotonic()
    done = 0

    def one_more() -> None:
        nonlocal last, done
        done += 1
        now = time.monotonic()
        if now - last >= EVERY and done < total:
            last = now
            logger.info("%s: %d of %d, about %d s to go", title, done, total, (now - start) / done * (total - done))

    yield one_more
