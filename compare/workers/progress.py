"""How far the work is, on standard error: a bar where somebody looks, else a line now and then."""

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
    with _shown(total, title) as one_more:
        try:
            for item in items:
                one_more()
                yield item
        finally:
            if isinstance(items, Generator):
                items.close()


def shown(items: Sequence[Item], title: str) -> Iterable[Item]:
    """The items with their progress, where they are so many that somebody may wait for them."""
    return progress(items, len(items), title) if len(items) >= MANY else items


def _shown(total: int, title: str) -> AbstractContextManager[Callable[[], object]]:
    if sys.stderr is not None and sys.stderr.isatty():
        try:
            return _bar(total, title)
        except ImportError:
            pass
    return _lines(total, title)


def _bar(total: int, title: str) -> AbstractContextManager[Callable[[], object]]:
    from tqdm import tqdm

    @contextmanager
    def bar() -> Iterator[Callable[[], object]]:
        with tqdm(total=total, desc=title, file=sys.stderr, leave=False) as shown:
            yield shown.update

    return bar()


@contextmanager
def _lines(total: int, title: str) -> Iterator[Callable[[], object]]:
    start = said = time.monotonic()
    done = 0

    def one_more() -> None:
        nonlocal said, done
        done += 1
        now = time.monotonic()
        if now - said >= EVERY and done < total:
            said = now
            logger.info("%s: %d of %d, about %d s to go", title, done, total, (now - start) / done * (total - done))

    yield one_more
