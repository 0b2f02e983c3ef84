"""What comes out of a collective is the reduction of what went in: exactly of tensors, within bounds of statistics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.schema import NAMES
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.core.standard import canonical, family
from msprobe.compare.ranks.collectives import Exchange, RankSummary, connect, exchanges_of, fills
from msprobe.store.reader import load_tensor
from msprobe.store.record import REDUCTION, UNWRITTEN, Dump, Record

from .judgement import Judgement, Run, Status, Why, of_call, unjudged

Array = np.ndarray[Any, Any]

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-52}
"""The spacing of numbers at 1; of float32 where a dtype has no row."""


def eps_of(dtype: str) -> float:
    """The spacing of a dtype's numbers at 1."""
    return EPS.get(canonical(dtype), 2.0**-23)


_REDUCE: dict[str, Callable[[Array], Array]] = {
    "sum": lambda found: found.sum(0),
    "avg": lambda found: found.mean(0),
    "max": lambda found: found.max(0),
    "min": lambda found: found.min(0),
    "prod": lambda found: found.prod(0),
}


def collectives_reduce(run: Run) -> Iterator[Judgement]:
    """All ranks get one result of `all_reduce`: the sum of what they put in, or what else its operation is.

    Of `reduce_scatter` each rank gets its part of the result, in the order of the group. If the operation is not
    recorded, any of `_REDUCE` is accepted.
    """
    found = False
    for step, ranks in run.steps.items():
        if len(ranks) < 2:
            continue
        calls = {rank: _exchanges(dump) for rank, dump in ranks.items()}
        summaries = {
            rank: RankSummary(tuple(one for at, word in made for one in exchanges_of(ranks[rank].calls[at], word)))
            for rank, made in calls.items()
        }
        for (rank, n), members in connect(summaries).partners.items():
            exchange = summaries[rank].exchanges[n]
            if (rank, n) != min(members) or not _reduces(exchange.word):
                continue
            found = True
            yield _judged({r: (ranks[r], calls[r][m][0]) for r, m in members}, step, exchange)
    if not found:
        yield unjudged(Why.NOTHING if any(len(ranks) > 1 for ranks in run.steps.values()) else Why.ONE_RANK)


def _reduces(word: str) -> bool:
    """Return whether an exchange is a reduction; the backward of a primitive that scatters gathers."""
    return "all_reduce" in word or _scatters(word)


def _scatters(word: str) -> bool:
    return "reduce_scatter" in word and not word.endswith(" backward")


def _exchanges(dump: Dump) -> list[tuple[int, str]]:
    """The reductions of a rank with one exchange each, as all but batches of messages have."""
    made = ((at, word_of(name)) for at, name in enumerate(dump.columns.names))
    return [(at, word) for at, word in made if word and word != "batch_isend_irecv"]


@dataclass(frozen=True)
class _Part:
    """The part of one rank in a reduction: what it puts in, one tensor or a list of them, and what it gets."""

    dump: Dump
    sources: Sequence[Record]
    result: Record
    operation: str | None
    """None if it is not recorded."""


def _judged(members: Mapping[int, tuple[Dump, int]], step: int | None, exchange: Exchange) -> Judgement:
    rank, group, is_scattered = min(members), exchange.group, _scatters(exchange.word)
    dump, at = members[rank]
    order = [r for r in group if r in members] if isinstance(group, tuple) else sorted(members)
    parts = [part for r in order if (part := _part_of(members[r][0], members[r][1], exchange.word)) is not None]
    is_whole = len(members) > 1 and (not isinstance(group, tuple) or set(group) <= set(members))
    operations = {part.operation for part in parts}
    operation = operations.pop() if len(operations) == 1 else None
    results = [part.result for part in parts] if is_scattered else [part.result for part in parts[:1]]
    sizes = {sum(map(_size, records)) for records in (*(part.sources for part in parts), results)}
    is_judged = is_whole and len(parts) == len(members) and len(sizes) == 1 and operation in (None, *_REDUCE)
    if not is_judged or family(parts[0].result.dtype) != "float":
        return of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.NO_RECORD)
    first = _values(parts[0].result)
    odd = tuple(r for r, part in zip(order, parts, strict=True) if _values(part.result) != first)
    if odd and not is_scattered:
        return of_call(Status.VIOLATED, dump, at, step, rank, what="unequal results", place=f"ranks {odd}")
    accepted = tuple(_REDUCE) if operation is None else (operation,)
    by_tensors = _by_tensors(parts, results, accepted)
    excess, limit = by_tensors if by_tensors is not None else _by_statistics(parts, results, accepted)
    status = Status.HOLDS if excess <= limit else Status.VIOLATED
    return of_call(status, dump, at, step, rank, what="reduction", value=excess, limit=limit)


def _part_of(dump: Dump, at: int, word: str) -> _Part | None:
    """Return what a call puts in and gets; None if a tensor was not recorded."""
    records = dump.calls[at].records
    inputs = [record for record in records if record.part == "input"]
    outputs = [record for record in records if record.part == "output" and record.kind == "tensor"]
    arguments = list(dict.fromkeys(record.path[0] for record in inputs))
    tensors = [record for record in inputs if record.kind == "tensor"]
    buffers = {r.path[0] for r in inputs if r.type == UNWRITTEN or (r in tensors and fills(word, r.path, inputs))}
    sources = [record for record in tensors if record.path[0] not in buffers]
    if buffers:  # outputs are the arguments after the call
        place = str(arguments.index(min(buffers, key=arguments.index)))
        outputs = [record for record in outputs if record.path[0] == place]
    if not sources or not outputs:
        return None
    if not _scatters(word):
        del sources[1:]
    operation = _operation(dump.columns.names[at], inputs, "2" if buffers else "1")
    return _Part(dump, sources, outputs[0], operation)


def _operation(name: str, inputs: Sequence[Record], position: str) -> str | None:
    """Return the name of the operation of a reduction, `sum` by default; None if it is not recorded."""
    if name.startswith("Primitive."):
        return None  # an attribute of the primitive
    for record in inputs:
        if record.path in (("op",), (position,)):
            is_operation = record.type == REDUCTION or record.path == ("op",) or record.value in _REDUCE
            return str(record.value) if is_operation and record.kind == "value" else None
    return "sum"


def _size(record: Record) -> int:
    return prod(record.shape or ())


def _values(record: Record) -> object:
    s = record.statistics
    return record.digest or (s and tuple(map(repr, s.numbers)))


def _by_tensors(
    parts: Sequence[_Part], results: Sequence[Record], operations: Sequence[str]
) -> tuple[float, float] | None:
    """How far the result is from the nearest reduction, relative to what went in; and the limit of rounding."""
    try:
        before = np.stack([_joined([load_tensor(part.dump, one) for one in part.sources]) for part in parts])
        after = _joined([load_tensor(part.dump, one) for part, one in zip(parts, results, strict=False)])
    except DumpError:
        return None
    scale = np.abs(before).sum(0) + np.finfo(np.float32).tiny
    with np.errstate(all="ignore"):
        errors = [np.abs(_REDUCE[each](before) - after) / scale for each in operations]
        distances = [float(np.nanmax(error, initial=0.0)) for error in errors]
    return min(distances), len(parts) * eps_of(results[0].dtype)


def _joined(arrays: Sequence[Array]) -> Array:
    return np.concatenate([array.astype(np.float64).ravel() for array in arrays])


def _by_statistics(parts: Sequence[_Part], results: Sequence[Record], operations: Sequence[str]) -> tuple[float, float]:
    """The same by mean, extremes and norm: those of a sum are bounded by those of what went in.

    Of a product nothing is known.
    """
    four = np.array([_four_of_all(part.sources) for part in parts])
    high, low, mean, norm = _four_of_all(results)
    size = max(1, sum(map(_size, results)))
    scale = float(four[:, 3].sum()) / size**0.5 + np.finfo(np.float32).tiny
    is_finite = np.isfinite(four).all() and np.isfinite((high, low, mean, norm)).all()
    if not is_finite or operations == ("prod",):
        return 0.0, 1.0
    found = []
    for share in [{"sum": 1.0, "avg": 1.0 / len(parts)}[each] for each in operations if each in ("sum", "avg")]:
        bounds = (
            abs(mean - share * four[:, 2].sum()),
            high - share * four[:, 0].sum(),
            share * four[:, 1].sum() - low,
            (norm - share * four[:, 3].sum()) / size**0.5,
        )
        found.append(max(bounds) / scale)
    if "max" in operations:
        found.append(abs(high - four[:, 0].max()) / scale)
    if "min" in operations:
        found.append(abs(low - four[:, 1].min()) / scale)
    return max(0.0, min(found)), 4 * len(parts) * eps_of(results[0].dtype)


def _four_of_all(records: Sequence[Record]) -> tuple[float, float, float, float]:
    """Return maximum, minimum, mean and norm of all elements of some tensors; empty ones do not count."""
    found = [(_size(record), *_four(record)) for record in records if _size(record)]
    if not found:
        return (float("nan"),) * 4
    sizes, highs, lows, means, norms = (np.array(numbers, np.float64) for numbers in zip(*found, strict=True))
    mean = float((sizes * means).sum() / sizes.sum())
    return float(highs.max()), float(lows.min()), mean, float(np.sqrt((norms**2).sum()))


def _four(record: Record) -> tuple[float, float, float, float]:
    s = record.statistics
    top, low, mean, norm = (
        float("nan") if number is None else float(number) for number in (s.numbers if s else (None,) * len(NAMES))
    )
    return top, low, mean, norm
