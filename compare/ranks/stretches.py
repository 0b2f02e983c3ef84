"""The calls of one rank between its exchanges, each stretch with a digest; how early a rank can differ by itself.

A stretch stands where `RankSummary.between` has its entry: the calls before the first exchange, then each exchange with
the calls behind it. Of two dumps with the same calls the first stretch with two digests says how early the search over
ranks can name a call of this rank at all, without a look at the dumps.
"""

from collections.abc import Sequence
from hashlib import blake2b

from msprobe.compare.dataflow.events import events
from msprobe.compare.judge.judged import Comparison
from msprobe.store.digests import SIZE

from .collectives import Connected, exchanges_of, word_of
from .search import Place


def stretches(comparison: Comparison, digests: Sequence[bytes]) -> tuple[str, ...]:
    """Return the digest of each stretch of a dump that was compared with itself, by the digests of its calls."""
    found = [blake2b(digest_size=SIZE)]
    for event in events(comparison.pairs):
        at = int(comparison.pairs.target_calls[event.place])
        word = word_of(event.called)
        made = exchanges_of(comparison.target.calls[at], word) if word else ()
        if made:
            found.append(blake2b(digest_size=SIZE))
        found[-1].update(digests[at])
        found += [blake2b(digest_size=SIZE) for _ in made[1:]]
    return tuple(each.hexdigest() for each in found)


def earliest(connected: Connected, rank: int, stretch: int) -> Place:
    """Return the first place that a call of a rank can have which stands in this stretch or a later one."""
    return (connected.layers[rank, stretch - 1], 0) if stretch else (0, 1)
