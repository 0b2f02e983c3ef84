"""Errors that a rank receives from others: those of what the other ranks contribute to an exchange.

They are read from the dumps of the other ranks of the same step, next to those that are compared, and only for an
exchange whose own inputs do not explain its result.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.memo import cached_by_identity
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.core.noise import DRIFT, OPAQUE
from msprobe.compare.dataflow.events import Event
from msprobe.store.reader import find, other_ranks, read
from msprobe.store.record import INPUT, Dump

from .pairs import AlignedGraphs
from .summary import Summary, deviation, summary_of

_MOST = 16
"""Number of other ranks that are read; their greatest error stands for that of all."""

_RECEIVED = "recv"
_SENT = "send"


def explained_by_ranks(
    aligned: AlignedGraphs, event: Event, row: int, error: float, noise: float
) -> tuple[float, float]:
    """Return the relative error of a result of an exchange, and that which the inputs of all ranks explain.

    `error` is that of the inputs of this rank, and `noise` the greatest of this rank so far. Those of the other ranks
    count up to ten times that, or up to `DRIFT`: a larger one may be a fault of that rank. Without their dumps they are
    0. Both results are relative to the greatest tensor that takes part, because a sum may cancel out.
    """
    word = word_of(event.called)
    inputs = [at for at in event.rows if aligned.is_input[at] and aligned.are_tensors[at]]
    own = max((aligned.size(at) for at in inputs), default=0.0) if _RECEIVED not in word else 0.0
    most = max(OPAQUE * noise, DRIFT)
    others = [(one, size) for pair in _other_ranks(aligned) for one, size in _contributed(*pair, event.called, word)]
    if any(one > most for one, _ in others):
        others = []
    scale = max([own, aligned.size(row), *(size for _, size in others)])
    if not scale:
        return aligned.distance(row), error
    received = error * own + sum(one * size for one, size in others)
    return aligned.difference(row) / scale, received / scale


@cached_by_identity
def _other_ranks(aligned: AlignedGraphs) -> list[tuple[Dump, Dump]]:
    """Return the dumps of other ranks of this step that both sides have."""
    golden, found = Path(aligned.pairs.golden.folder).parent, []
    for folder in other_ranks(aligned.pairs.target):
        if not (golden / folder.name).is_dir():
            continue
        try:
            found.append((read(find(folder)), read(find(golden / folder.name))))
        except DumpError:  # the comparison of that rank reports it
            continue
        if len(found) == _MOST:
            break
    return found


def _contributed(target: Dump, golden: Dump, call: str, word: str) -> Iterator[tuple[float, float]]:
    """Yield relative error and norm of the tensors that another rank contributes to an exchange.

    Those of the call of the same name; for a message, all that the rank sends.
    """
    names = [call]
    if _RECEIVED in word:
        names = [name for name in golden.columns.names if _SENT in word_of(name)]
    for name in names:
        sides = [_inputs(dump, name) for dump in (target, golden)]
        for path, theirs in sides[1].items():
            if (mine := sides[0].get(path)) is not None and mine.size == theirs.size:
                error = deviation(mine, theirs).spread
                if math.isfinite(error):
                    yield error, theirs.norm


def _inputs(dump: Dump, name: str) -> dict[tuple[str, ...], Summary]:
    """Return the statistics of the tensors that a call received, by their paths."""
    call = dump.place.get(name, -1)
    if call < 0:
        return {}
    columns = dump.columns
    found = {columns.path_of(row): summary_of(columns, row) for row in columns.rows(call) if columns.part[row] == INPUT}
    return {path: one for path, one in found.items() if one is not None}
