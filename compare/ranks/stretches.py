"""The calls of one rank between its exchanges, each stretch with a digest; the earliest place at which a rank can
differ.

Stretches correspond to entries of `RankSummary.between`: the calls before the first exchange, then each exchange with
the calls after it. For two dumps with the same calls, the first stretch with different digests is the earliest that the
search over ranks can report for this rank, without reading the dumps.
"""

from collections.abc import Sequence
from hashlib import blake2b

from msprobe.compare.core.exchanges import word_of
from msprobe.compare.dataflow.events import events
from msprobe.compare.judge.judged import Comparison
from msprobe.store.digests import SIZE

from .collectives import Connected, exchanges_of
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
    """Return the first place of a call of a rank in this stretch or a later one."""
    return (connected.layers[rank, stretch - 1], 0) if stretch else (0, 1)
