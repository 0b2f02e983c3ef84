"""What has to be equal on all ranks of a data-parallel training, and what must not."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msprobe.compare.core.exchanges import word_of
from msprobe.compare.parallel.shards import Shard
from msprobe.store.record import INPUT, TENSOR, Dump

from .judgement import Judgement, Run, Status, Why, unjudged
from .rows import Fingerprint, fingerprint, gradients, is_constant, parameters, shard


def parameters_equal(run: Run) -> Iterator[Judgement]:
    """Parameters that were equal on all ranks in an earlier step, or whose gradients are reduced, stay equal.

    Of distributed parameters, ranks that have the same block of the tensor must have the same elements.
    """
    if not any(len(ranks) > 1 for ranks in run.steps.values()):
        yield unjudged(Why.ONE_RANK)
        return
    known: set[str] = set()
    reported: set[str] = set()
    has_copies = has_shards = False
    for step, ranks in run.steps.items():
        reduced = {rank: _reduced(dump) for rank, dump in ranks.items()}
        rows = {rank: parameters(dump) for rank, dump in ranks.items()}
        shared = [name for name in next(iter(rows.values())) if all(name in found for found in rows.values())]
        is_pipeline = any(_sends(dump) for dump in ranks.values())
        for name in shared:
            prints = {rank: fingerprint(dump, rows[rank][name]) for rank, dump in ranks.items()}
            shards = {rank: each for rank, dump in ranks.items() if (each := shard(dump, rows[rank][name])) is not None}
            if len(shards) == len(ranks):
                copies = list(_copies(shards).values())
                has_shards = True
                has_copies = has_copies or any(len(each) > 1 for each in copies)
                odd = tuple(rank for each in copies for rank in _odd_ones({rank: prints[rank] for rank in each}))
                if odd and name not in reported:
                    reported.add(name)
                    yield Judgement(Status.VIOLATED, name, step=step, ranks=odd, what="replica")
                elif not odd and any(len(each) > 1 for each in copies):
                    yield Judgement(Status.HOLDS, name, step=step)
                continue
            has_copies = True
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
    if not has_copies:
        yield unjudged(Why.NOT_REPLICATED if has_shards else Why.NOTHING)


def _copies(shards: Mapping[int, Shard]) -> dict[object, list[int]]:
    """The ranks that have copies of one block of a parameter."""
    found: dict[object, list[int]] = {}
    for rank, each in shards.items():
        found.setdefault((each.whole, each.block, each.term), []).append(rank)
    return found


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
    """Where gradients are summed up over ranks one by one, each of them is.

    The gradient of a distributed parameter is reduced when it is recorded. Next to such parameters, one that is not
    distributed must have the same gradient on all ranks.
    """
    if not any(len(ranks) > 1 for ranks in run.steps.values()):
        yield unjudged(Why.ONE_RANK)
        return
    is_judged = False
    reported: set[str] = set()
    for step, ranks in run.steps.items():
        if any(_is_distributed(dump) for dump in ranks.values()):
            for one in _beside_distributed(step, ranks, reported):
                is_judged = True
                yield one
            continue
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


def _is_distributed(dump: Dump) -> bool:
    """Whether gradients of parameters are shards."""
    return any(shard(dump, row) is not None for row in gradients(dump).values())


def _beside_distributed(step: int | None, ranks: Mapping[int, Dump], reported: set[str]) -> Iterator[Judgement]:
    rows = {rank: gradients(dump) for rank, dump in ranks.items()}
    summed = {rank: _reduced(dump) for rank, dump in ranks.items()}
    for name in next(iter(rows.values())):
        there = {rank: found[name] for rank, found in rows.items() if name in found}
        shards = [shard(ranks[rank], row) for rank, row in there.items()]
        prints = {rank: fingerprint(ranks[rank], row) for rank, row in there.items()}
        if all(each is not None for each in shards):
            is_sum = any(each.term for each in shards if each is not None)
            yield unjudged(Why.PARTIAL, name) if is_sum else Judgement(Status.HOLDS, name, step=step)
        elif len(set(prints.values())) == 1 or all(each in summed[rank] for rank, each in prints.items()):
            yield Judgement(Status.HOLDS, name, step=step)
        elif name not in reported:
            reported.add(name)
            yield Judgement(Status.VIOLATED, name, step=step, ranks=_odd_ones(prints), what="own gradient")


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
        if len(ranks) < 2:
            continue
        if any(_is_distributed(dump) for dump in ranks.values()):
            if not all(_scatters_gradients(dump, len(ranks)) for dump in ranks.values()):
                continue
        # ranks with shards of one model take the same batch
        elif _shards(ranks) or not all(_is_data_parallel(dump) for dump in ranks.values()):
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


def _scatters_gradients(dump: Dump, size: int) -> bool:
    """Whether all ranks share gradients by reduce-scatters, as FSDP does: all gradients are shards on one mesh."""
    meshes = {each.mesh for row in gradients(dump).values() if (each := shard(dump, row)) is not None}
    is_one = len(meshes) == 1 and all(len(mesh) == size for mesh in meshes)
    return is_one and any("reduce_scatter" in word_of(name) for name in dump.columns.names)


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
