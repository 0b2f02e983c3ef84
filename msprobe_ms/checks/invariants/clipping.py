"""The norm by which gradients are clipped: it counts every gradient once, and is the same on all ranks.

The norm of all gradients is computed from the recorded norms of the gradients, by blocks: ranks with copies of one
block count once. So are the norms that known mistakes give: every copy counted, copies left out, only the gradients of
one rank or of one group. A recorded scalar after the backward that is one of these, or its square, shows which of them
the training computed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod, sqrt
from statistics import median_low

from msprobe.compare.core.exchanges import word_of
from msprobe.compare.core.standard import family
from msprobe.compare.parallel.shards import Shard
from msprobe.store.record import INPUT, OUTPUT, Dump

from .exchanges import eps_of
from .judgement import Judgement, Run, Status, Why, unjudged
from .rows import Fingerprint, fingerprint, gradients, is_constant, parameters, shard

_ROUNDING = 1e-4
"""By how much a norm in float32 may differ from that of the recorded norms, as a share."""

_CLEAR = 10
"""Two norms are told apart if they differ by this many roundings."""

_NORM_WORDS = ("norm", "vector_norm", "sqrt", "clip_grad_norm_", "get_total_norm", "clip_by_global_norm")


_MEASURES = ("norm", "vector_norm", "square", "pow", "__pow__")
"""Functions that are given each gradient for the sum of their squares."""


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A tensor of one element that a call after the backward has as input or output."""

    call: int
    value: float
    rounding: float
    is_sent: bool
    """Whether a collective sends it."""
    is_norm: bool
    """Whether it is the output of a function that computes norms."""


@dataclass
class _Trace:
    """The gradients of one rank from the backward to the optimizer.

    rows : the row of each gradient where its norm is computed, by the parameter's name.
    reduced : the parameters whose gradients were reduced over ranks by then.
    own : the rows of the gradients as the backward gave them.
    factors : by parameter, the factors by which recorded calls scaled its gradient, with the calls.
    """

    dump: Dump
    rows: dict[str, int]
    own: Mapping[str, int]
    reduced: set[str] = field(default_factory=set)
    factors: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    scalars: list[_Scalar] = field(default_factory=list)


def _trace(dump: Dump) -> _Trace:
    """Follow the gradients of a rank through collectives, and through calls that scale them."""
    columns = dump.columns
    own = gradients(dump)
    found = _Trace(dump, dict(own), own, {name for name, row in own.items() if row in columns.shards})
    names: dict[Fingerprint, str] = {
        fingerprint(dump, row): name for name, row in own.items() if not is_constant(dump, row)
    }
    end = max((columns.call_of(row) for row in own.values()), default=len(columns.names))
    for at, name in enumerate(dump.names):
        is_reduction = "all_reduce" in word_of(name.text)
        if name.direction == "backward" or name.kind == "parameters_grad" or not (is_reduction or at > end):
            continue
        ins, outs = list(columns.tensors(at, INPUT)), list(columns.tensors(at, OUTPUT))
        if at > end and name.kind != "cell":
            found.scalars += _scalars(dump, at, ins, outs)
        known = [(row, names[each]) for row in ins if (each := fingerprint(dump, row)) in names]
        pairs = zip(known, outs, strict=True) if len(known) == len(outs) else zip(known[:1], outs[:1], strict=False)
        for (before, parameter), after in pairs if len(outs) in (1, len(known)) else ():
            if columns.shape(before) != columns.shape(after):
                continue
            if is_reduction:
                found.reduced.add(parameter)
            elif (factor := _factor(dump, before, after)) is None:
                continue
            elif factor != 1.0:
                found.factors.setdefault(parameter, []).append((at, factor))
            names[fingerprint(dump, after)] = parameter
            if not found.scalars:
                found.rows[parameter] = after
    if not found.reduced:
        found.rows |= _measured(dump, own, end)
    return found


def _measured(dump: Dump, own: Mapping[str, int], end: int) -> dict[str, int]:
    """Return the gradients of which norms are computed after the backward, where no recorded call reduced them, as DDP
    does in C++: one tensor for each parameter, of its shape. Parameters of one shape are taken in their order."""
    columns = dump.columns
    rows: dict[object, list[int]] = {}
    for at in range(end + 1, len(columns.names)):
        if dump.names[at].stem.rpartition(".")[2] in _MEASURES:
            for row in columns.tensors(at, INPUT):
                rows.setdefault(columns.shape(row), []).append(row)
    names = [name for name in parameters(dump) if name in own]
    wanted: dict[object, list[str]] = {}
    for name in names:
        wanted.setdefault(columns.shape(own[name]), []).append(name)
    if len(names) < len(own) or any(len(rows.get(shape, ())) != len(each) for shape, each in wanted.items()):
        return {}
    return {name: row for shape, each in wanted.items() for name, row in zip(each, rows[shape], strict=True)}


def _scalars(dump: Dump, at: int, ins: Sequence[int], outs: Sequence[int]) -> Iterator[_Scalar]:
    columns = dump.columns
    word = word_of(columns.names[at])
    is_norm = dump.names[at].stem.rpartition(".")[2] in _NORM_WORDS
    for row in (*ins, *outs):
        placements = columns.shards.get(row, {}).get("placements", ())
        if prod(columns.shape(row) or ()) != 1 or family(columns.dtype(row)) != "float" or "Partial" in str(placements):
            continue
        value = columns.numbers_of(row)[2]
        if isfinite(value) and value > 0:
            rounding = max(_ROUNDING, 4 * eps_of(columns.dtype(row)))
            yield _Scalar(at, value, rounding, bool(word) and row in ins, is_norm and row in outs)


def _factor(dump: Dump, before: int, after: int) -> float | None:
    """Return by what one tensor is a multiple of another, by their statistics; None where it is not."""
    old, new = dump.columns.numbers_of(before), dump.columns.numbers_of(after)
    if not all(map(isfinite, (*old, *new))) or not old[3] > 0:
        return None
    factor = new[3] / old[3]
    limit = 1e-3 * factor * max(abs(old[0]), abs(old[1]))
    return factor if all(abs(b - factor * a) <= limit for a, b in zip(old[:3], new[:3], strict=True)) else None


@dataclass(frozen=True)
class _Totals:
    """The squares of the norms that ranks may have computed.

    once : of every gradient once; None where the gradients of other ranks are terms of a mean, or of a sum.
    local : by rank, of its own gradients.
    sole : of the gradients that one rank alone has.
    copies : the parameters whose gradients several ranks have, the largest first.
    groups : the groups of ranks along the dimensions of the meshes, and that of all.
    """

    once: float | None
    local: Mapping[int, float]
    sole: float
    copies: Sequence[str]
    groups: Sequence[tuple[int, ...]]

    def of(self, ranks: Sequence[int]) -> float:
        """Return the square of the norm of the own gradients of these ranks, with every copy."""
        return sum(self.local[rank] for rank in ranks)


def _totals(traces: Mapping[int, _Trace], *, own: bool = False) -> _Totals:
    """Return the norms of the gradients as they are where norms are computed; `own`: as the backward gave them."""
    blocks: dict[tuple[str, object], list[float]] = {}
    local = dict.fromkeys(traces, 0.0)
    groups: dict[tuple[int, ...], None] = {}
    is_sum = False
    for rank, trace in traces.items():
        for name, row in (trace.own if own else trace.rows).items():
            own_shard = shard(trace.dump, row)
            square = trace.dump.columns.numbers_of(row)[3] ** 2
            if own_shard is not None:
                is_sum = is_sum or bool(own_shard.term)
                groups.update(dict.fromkeys(_groups(own_shard)))
            if isfinite(square):  # not an empty shard
                key = fingerprint(trace.dump, row) if own_shard is None else (own_shard.whole, own_shard.block)
                blocks.setdefault((name, key), []).append(square)
                local[rank] += square
    copies = {name: found[0] for (name, _), found in blocks.items() if len(found) > 1}
    is_known = not is_sum and (groups or copies)
    groups[tuple(traces)] = None
    return _Totals(
        sum(found[0] for found in blocks.values()) if is_known else None,
        local,
        sum(found[0] for found in blocks.values() if len(found) == 1),
        sorted(copies, key=copies.__getitem__, reverse=True),
        [group for group in groups if len(group) > 1 and traces.keys() >= set(group)],
    )


def _groups(of: Shard) -> Iterator[tuple[int, ...]]:
    """Return the ranks along each dimension of a shard's mesh."""
    place = 0
    for size, at in zip(of.sizes, of.at, strict=True):
        place = place * size + at
    for axis, size in enumerate(of.sizes):
        stride = prod(of.sizes[axis + 1 :])
        first = place - of.at[axis] * stride
        yield tuple(of.mesh[first + n * stride] for n in range(size))


def _matching(trace: _Trace, square: float, once: float | None = None, *, after: int | None = None) -> int:
    """Return the place of the last scalar of a rank that is a norm, or its square; with `after`, of the first one after
    that place. -1 if there is none, or if the norm is that of `once` but for rounding."""
    norm = sqrt(square)
    places = reversed(range(len(trace.scalars))) if after is None else range(after + 1, len(trace.scalars))
    for at in places:
        each = trace.scalars[at]
        if once is not None and abs(norm - sqrt(once)) <= _CLEAR * each.rounding * sqrt(once):
            continue
        if abs(each.value - norm) <= each.rounding * norm or abs(each.value - square) <= 2 * each.rounding * square:
            return at
    return -1


def norms_count_once(run: Run) -> Iterator[Judgement]:
    """A norm of the gradients of all ranks counts each gradient once, also one of which several ranks have a copy."""
    yield from _judged(run, _norm)


def clips_alike(run: Run) -> Iterator[Judgement]:
    """Gradients are clipped by a norm of those of all ranks, and each by one factor on all ranks."""
    yield from _judged(run, _clip)


def _judged(run: Run, judge: Callable[[int | None, Mapping[int, _Trace]], Iterator[Judgement]]) -> Iterator[Judgement]:
    if not any(len(ranks) > 1 for ranks in run.steps.values()):
        yield unjudged(Why.ONE_RANK)
        return
    judged: list[Judgement] = []
    for step, ranks in run.steps.items():
        traces = {rank: _trace(dump) for rank, dump in ranks.items()}
        traces = {rank: trace for rank, trace in traces.items() if trace.own}
        if len(traces) > 1 and _have_one_model(traces):
            judged += judge(step, traces)
        if any(one.status is Status.VIOLATED for one in judged):
            break
    yield from judged or [unjudged(Why.NO_NORM)]


def _have_one_model(traces: Mapping[int, _Trace]) -> bool:
    """Whether the ranks train one model together: there are shards or collectives, or their parameters are equal."""
    if any(trace.dump.columns.shards or any(map(word_of, trace.dump.columns.names)) for trace in traces.values()):
        return True
    found = [
        {name: fingerprint(trace.dump, row) for name, row in parameters(trace.dump).items()}
        for trace in traces.values()
    ]
    return all(each == found[0] for each in found)


def _norm(step: int | None, traces: Mapping[int, _Trace]) -> Iterator[Judgement]:
    """Judge by the last recorded scalar that is a norm; what comes before is a part of it."""
    totals = _totals(traces)
    if not totals.once:
        return
    right = {rank: _matching(trace, totals.once) for rank, trace in traces.items()}
    wrong = [("replicas left out", tuple(traces), totals.sole)] if totals.copies else []
    for group in sorted(totals.groups, key=len, reverse=True):
        square = totals.of(group)
        wrong.append(("counted" if square > totals.once else "shards left out", group, square))
    for what, ranks, square in wrong:
        if square > 0 and all(_matching(traces[rank], square, totals.once) > right[rank] for rank in ranks):
            subject = totals.copies[0] if what != "shards left out" and totals.copies else ""
            first = traces[ranks[0]]
            place = _call(first, _matching(first, square, totals.once, after=right[ranks[0]]))
            ratio = sqrt(square / totals.once)
            yield Judgement(Status.VIOLATED, subject, "", place, step, ranks, what, ratio, 1.0)
            return
    if max(right.values()) >= 0:
        yield Judgement(Status.HOLDS, step=step)


def _call(trace: _Trace, at: int) -> str:
    """The name of the call of a scalar."""
    return trace.dump.columns.names[trace.scalars[at].call]


def _clip(step: int | None, traces: Mapping[int, _Trace]) -> Iterator[Judgement]:
    """Judge the factors, and the norms where factors are not recorded."""
    factors = list(_by_factors(step, traces))
    yield from factors
    if any(one.status is Status.VIOLATED for one in factors):
        return
    totals = _totals(traces)
    if totals.once and any(_matching(trace, totals.once) >= 0 for trace in traces.values()):
        yield Judgement(Status.HOLDS, step=step)
        return
    for each in (totals, _totals(traces, own=True)):
        norms = {rank: sqrt(square) for rank, square in each.local.items() if square > 0}
        found = {rank: _matching(traces[rank], each.local[rank], after=-1) for rank in norms}
        if len(found) < 2 or min(found.values()) < 0 or any(_is_sent(traces[rank], each.local[rank]) for rank in found):
            continue
        rounding = max(traces[rank].scalars[at].rounding for rank, at in found.items())
        largest = max(norms, key=norms.__getitem__)
        ratio = norms[largest] / min(norms.values())
        if ratio > 1 + _CLEAR * rounding:
            subject = _call(traces[largest], found[largest])
            yield Judgement(Status.VIOLATED, subject, "", "", step, tuple(found), "local norm", ratio, 1.0)
            return
    last = {rank: [one for one in trace.scalars if one.is_norm][-1:] for rank, trace in traces.items()}
    if all(last.values()):
        values = [one.value for (one,) in last.values()]
        if max(values) <= (1 + max(one.rounding for (one,) in last.values())) * min(values):
            yield Judgement(Status.HOLDS, step=step)


def _is_sent(trace: _Trace, square: float) -> bool:
    """Whether a collective reduces the norm of a rank's own gradients."""
    sent = _Trace(trace.dump, {}, {}, scalars=[one for one in trace.scalars if one.is_sent])
    return _matching(sent, square) >= 0


_FACTORS_DIFFER = 1e-3
"""By how much the factors of ranks may differ by rounding, as a share."""


def _by_factors(step: int | None, traces: Mapping[int, _Trace]) -> Iterator[Judgement]:
    """Judge the factors by which calls scale gradients after they were reduced."""
    for name in dict.fromkeys(name for trace in traces.values() for name in trace.factors):
        having = {
            rank: trace
            for rank, trace in traces.items()
            if name in trace.own and not is_constant(trace.dump, trace.own[name])
        }
        is_reduced = all(name in trace.reduced for trace in having.values())
        is_copy = len({fingerprint(trace.dump, trace.own[name]) for trace in having.values()}) == 1
        if len(having) < 2 or not (is_reduced or is_copy):
            continue
        found = {rank: prod(factor for _, factor in trace.factors.get(name, ())) for rank, trace in having.items()}
        middle = median_low(found.values())
        odd = tuple(rank for rank, factor in found.items() if abs(factor - middle) > _FACTORS_DIFFER * middle)
        if not odd:
            yield Judgement(Status.HOLDS, name, step=step)
            continue
        ratio = max(found.values()) / min(found.values())
        yield Judgement(Status.VIOLATED, name, step=step, ranks=odd, what="factor", value=ratio, limit=1.0)
