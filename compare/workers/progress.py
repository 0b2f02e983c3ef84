"""Progress of long work, on standard error: a bar on a terminal, otherwise a line from time to time."""

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
"""Number of calls or records from which on progress is shown: fewer take a second or two."""


def progress(items: Iterable[Item], total: int, title: str) -> Generator[Item, None, None]:
    """Yield the items, and show how many of `total` have been yielded.

    On a terminal this is a bar of tqdm (extra `fast`), if that is installed; otherwise a log line at most every ten
    seconds. Standard output is not used. Closing this closes `items`, if that is a generator.
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
    """Return the items with their progress, if there are enough of them for the user to wait."""
    return progress(items, len(items), title) if len(items) >= MANY else items


@contextmanager
def _counter(total: int, title: str) -> Iterator[Callable[[], object]]:
    """Yield a function to be called for each item."""
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
