"""What comes out of a collective is the reduction of what went in: exactly of tensors, within bounds of statistics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.schema import NAMES
from msprobe.compare.core.standard import canonical, family
from msprobe.compare.ranks.collectives import RankSummary, connect, exchanges_of, word_of
from msprobe.store.reader import load_tensor
from msprobe.store.record import REDUCTION, Call, Dump, Record

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

    If the operation is not recorded, any of `_REDUCE` is accepted.
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
            if (rank, n) != min(members) or "all_reduce" not in summaries[rank].exchanges[n].word:
                continue
            found = True
            yield _judged({r: (ranks[r], calls[r][m][0]) for r, m in members}, step, summaries[rank].exchanges[n].group)
    if not found:
        yield unjudged(Why.NOTHING if any(len(ranks) > 1 for ranks in run.steps.values()) else Why.ONE_RANK)


def _exchanges(dump: Dump) -> list[tuple[int, str]]:
    """The reductions of a rank with one exchange each, as all but batches of messages have."""
    made = ((at, word_of(name)) for at, name in enumerate(dump.columns.names))
    return [(at, word) for at, word in made if word and word != "batch_isend_irecv"]


def _judged(members: Mapping[int, tuple[Dump, int]], step: int | None, group: object) -> Judgement:
    rank = min(members)
    dump, at = members[rank]
    calls = {r: d.calls[a] for r, (d, a) in members.items()}
    pairs = {r: _tensors(call) for r, call in calls.items()}
    is_whole = len(members) > 1 and (not isinstance(group, tuple) or set(group) <= set(members))
    if not is_whole or any(pair is None for pair in pairs.values()):
        return of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.NO_RECORD)
    both = {r: pair for r, pair in pairs.items() if pair is not None}
    before, after = [pair[0] for pair in both.values()], [pair[1] for pair in both.values()]
    if family(after[0].dtype) != "float" or len({record.shape for record in (*before, *after)}) > 1:
        return of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.NO_RECORD)
    operations = {_operation(call) for call in calls.values()}
    operation = operations.pop() if len(operations) == 1 else None
    if operation is not None and operation not in _REDUCE:
        return of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.NO_RECORD)
    accepted = tuple(_REDUCE) if operation is None else (operation,)
    first = _values(after[0])
    odd = tuple(r for r, (_, out) in both.items() if _values(out) != first)
    if odd:
        return of_call(Status.VIOLATED, dump, at, step, rank, what="unequal results", place=f"ranks {odd}")
    by_tensors = _by_tensors([(members[r][0], *both[r]) for r in both], accepted)
    excess, limit = by_tensors if by_tensors is not None else _by_statistics(before, after[0], accepted)
    status = Status.HOLDS if excess <= limit else Status.VIOLATED
    return of_call(status, dump, at, step, rank, what="reduction", value=excess, limit=limit)


def _operation(call: Call) -> str | None:
    """Return the name of the operation of a reduction, `sum` by default; None if it is not recorded."""
    if call.name.startswith("Primitive."):
        return None  # an attribute of the primitive
    for record in call.records:
        if record.part == "input" and record.path in (("op",), ("1",)):
            is_operation = record.type == REDUCTION or record.path == ("op",) or record.value in _REDUCE
            return str(record.value) if is_operation and record.kind == "value" else None
    return "sum"


def _values(record: Record) -> object:
    s = record.statistics
    return record.digest or (s and tuple(map(repr, s.numbers)))


def _tensors(call: Call) -> tuple[Record, Record] | None:
    """The tensor that goes in, and the one that comes out."""
    ins = [r for r in call.records if r.part == "input" and r.kind == "tensor"]
    outs = [r for r in call.records if r.part == "output" and r.kind == "tensor"]
    return (ins[0], outs[0]) if ins and outs else None


def _by_tensors(found: Sequence[tuple[Dump, Record, Record]], operations: Sequence[str]) -> tuple[float, float] | None:
    """How far the result is from the nearest reduction, relative to what went in; and the limit of rounding."""
    try:
        before = np.stack([load_tensor(dump, one).astype(np.float64) for dump, one, _ in found])
        after = load_tensor(found[0][0], found[0][2]).astype(np.float64)
    except DumpError:
        return None
    scale = np.abs(before).sum(0) + np.finfo(np.float32).tiny
    with np.errstate(all="ignore"):
        errors = [np.abs(_REDUCE[each](before) - after) / scale for each in operations]
        distances = [float(np.nanmax(error, initial=0.0)) for error in errors]
    return min(distances), len(found) * eps_of(found[0][1].dtype)


def _by_statistics(before: Sequence[Record], after: Record, operations: Sequence[str]) -> tuple[float, float]:
    """The same by mean, extremes and norm: those of a sum are bounded by those of what went in.

    Of a product nothing is known.
    """
    four = np.array([_four(record) for record in before])
    high, low, mean, norm = _four(after)
    size = max(1, int(np.prod(after.shape or ())))
    scale = float(four[:, 3].sum()) / size**0.5 + np.finfo(np.float32).tiny
    is_finite = np.isfinite(four).all() and np.isfinite((high, low, mean, norm)).all()
    if not is_finite or operations == ("prod",):
        return 0.0, 1.0
    found = []
    for share in [{"sum": 1.0, "avg": 1.0 / len(before)}[each] for each in operations if each in ("sum", "avg")]:
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
    return max(0.0, min(found)), 4 * len(before) * eps_of(after.dtype)


def _four(record: Record) -> tuple[float, float, float, float]:
    s = record.statistics
    top, low, mean, norm = (
        float("nan") if number is None else float(number) for number in (s.numbers if s else (None,) * len(NAMES))
    )
    return top, low, mean, norm
