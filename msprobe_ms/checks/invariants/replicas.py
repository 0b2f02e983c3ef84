"""What has to be equal on all ranks of a data-parallel training, and what must not."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msprobe.compare.ranks.collectives import word_of
from msprobe.store.record import INPUT, TENSOR, Dump

from .judgement import (
    Fingerprint,
    Judgement,
    Run,
    Status,
    Why,
    fingerprint,
    gradients,
    is_constant,
    parameters,
    unjudged,
)


def parameters_equal(run: Run) -> Iterator[Judgement]:
    """Parameters that were equal on all ranks in an earlier step, or whose gradients are reduced, stay equal."""
    if not any(len(ranks) > 1 for ranks in run.steps.values()):
        yield unjudged(Why.ONE_RANK)
        return
    known: set[str] = set()
    reported: set[str] = set()
    for step, ranks in run.steps.items():
        reduced = {rank: _reduced(dump) for rank, dump in ranks.items()}
        rows = {rank: parameters(dump) for rank, dump in ranks.items()}
        shared = [name for name in next(iter(rows.values())) if all(name in found for found in rows.values())]
        is_pipeline = any(_sends(dump) for dump in ranks.values())
        for name in shared:
            prints = {rank: fingerprint(dump, rows[rank][name]) for rank, dump in ranks.items()}
            if len(set(prints.values())) == 1:
                # what is constant at the start is equal also on ranks that have shards, or layers of their own
                if not is_pipeline and not is_constant(next(iter(ranks.values())), rows[next(iter(ranks))][name]):
                    known.add(name)
                yield Judgement(Status.HOLDS, name, step=step)
            elif name in reported:
                continue
            elif name in known or _is_reduced(name, ranks, reduced):
                reported.add(name)
                yield Judgement(Status.VIOLATED, name, step=step, ranks=_odd_ones(prints), what="parameter")
            else:
                yield unjudged(Why.SHARDS, name)


_MESSAGES = ("send", "recv", "isend", "irecv", "batch_isend_irecv")


def _sends(dump: Dump) -> bool:
    """Whether a rank sends to single others, as the stages of a pipeline do: layers of one name are not one layer."""
    return any(word_of(name) in _MESSAGES for name in dump.columns.names)


def _odd_ones(prints: Mapping[int, Fingerprint]) -> tuple[int, ...]:
    """The ranks that are not like most; of two halves the later."""
    most = Counter(prints.values()).most_common(1)[0][0]
    return tuple(rank for rank, each in prints.items() if each != most)


def _reduced(dump: Dump) -> set[Fingerprint]:
    """What goes into the sums over ranks."""
    columns = dump.columns
    found: set[Fingerprint] = set()
    for at, name in enumerate(columns.names):
        if "all_reduce" in word_of(name):
            found.update(fingerprint(dump, row) for row in columns.tensors(at, INPUT))
    return found


def _is_reduced(name: str, ranks: Mapping[int, Dump], reduced: Mapping[int, set[Fingerprint]]) -> bool:
    for rank, dump in ranks.items():
        row = gradients(dump).get(name)
        if row is None or fingerprint(dump, row) not in reduced[rank]:
            return False
    return True


def gradients_reduced(run: Run) -> Iterator[Judgement]:
    """Where gradients are summed up over ranks one by one, each of them is."""
    if not any(len(ranks) > 1 for ranks in run.steps.values()):
        yield unjudged(Why.ONE_RANK)
        return
    is_judged = False
    reported: set[str] = set()
    for step, ranks in run.steps.items():
        shards = _shards(ranks)
        for rank, dump in ranks.items():
            found = _reduced(dump)
            prints = {name: fingerprint(dump, row) for name, row in gradients(dump).items()}
            left = [name for name, each in prints.items() if each not in found]
            if not prints or 2 * len(left) >= len(prints):
                continue
            is_judged = True
            for name in prints:
                if name not in left:
                    yield Judgement(Status.HOLDS, name, step=step)
                elif name.rpartition(".")[0] in shards:
                    yield unjudged(Why.SHARDS, name)
                elif name not in reported:
                    reported.add(name)
                    yield Judgement(Status.VIOLATED, name, step=step, ranks=(rank,), what="gradient")
    if not is_judged:
        yield unjudged(Why.NOT_MATCHED)


def _shards(ranks: Mapping[int, Dump]) -> set[str]:
    """The cells of which a parameter differs over ranks: experts, or shards, that have groups of their own."""
    prints: dict[str, set[Fingerprint]] = {}
    for dump in ranks.values():
        for name, row in parameters(dump).items():
            prints.setdefault(name, set()).add(fingerprint(dump, row))
    return {name.rpartition(".")[0] for name, found in prints.items() if len(found) > 1}


def batches_differ(run: Run) -> Iterator[Judgement]:
    """Ranks whose gradients are summed up have batches of their own."""
    is_judged = False
    for step, ranks in run.steps.items():
        # ranks with shards of one model take the same batch
        if len(ranks) < 2 or _shards(ranks) or not all(_is_data_parallel(dump) for dump in ranks.values()):
            continue
        prints = {rank: batch for rank, dump in ranks.items() if (batch := _batch(dump))}
        if len(prints) < len(ranks):
            continue
        is_judged = True
        alike = [rank for rank, each in prints.items() if Counter(prints.values())[each] > 1]
        status = Status.VIOLATED if alike else Status.HOLDS
        yield Judgement(status, step=step, ranks=tuple(alike), what="batch")
        if alike:
            return
    if not is_judged:
        yield unjudged(Why.NOT_MATCHED if any(len(r) > 1 for r in run.steps.values()) else Why.ONE_RANK)


def _is_data_parallel(dump: Dump) -> bool:
    found = _reduced(dump)
    prints = [fingerprint(dump, row) for row in gradients(dump).values()]
    return bool(prints) and 2 * sum(each in found for each in prints) > len(prints)


def _batch(dump: Dump) -> tuple[Fingerprint, ...]:
    """What the outermost cells get that no recorded call made: position numbers, masks, and the batch."""
    columns = dump.columns
    found: list[Fingerprint] = []
    for at, name in enumerate(dump.names):
        if name.kind == "cell" and name.direction == "forward" and dump.parents[at] < 0:
            rows = [row for row in columns.rows(at) if columns.part[row] == INPUT and columns.kind[row] == TENSOR]
            found += [fingerprint(dump, row) for row in rows if not columns.source[row].startswith(("call ", "param"))]
    return tuple(found)
