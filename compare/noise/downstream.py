"""Search forward from records of one side, through calls without a counterpart, to the nearest pairs of records."""

from collections.abc import Iterable, Iterator

from .pairs import AlignedGraphs


def steps_after(
    aligned: AlignedGraphs, side: int, *, inputs: Iterable[int] = (), outputs: Iterable[int] = ()
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the places of calls of one side that take these inputs or outputs, or values computed from them; and the
    pairs of tensors at which both sides have counterparts again."""
    graph, pair_of, unmatched = aligned.graphs[side], aligned.pair_of[side], aligned.unmatched_place[side]
    waiting, returned, seen = list(inputs), list(outputs), set[int]()
    while waiting or returned:
        if returned:
            for used in graph.users.get(graph.alias(returned.pop()), ()):
                if (pair := pair_of[used]) >= 0 and aligned.are_tensors[pair]:
                    yield None, pair
                else:
                    waiting.append(used)
            continue
        call = graph.call_of[waiting.pop()]
        if call in seen:
            continue
        seen.add(call)
        if (place := unmatched.get(call)) is not None:
            yield place, None
        for row in graph.outputs(call):
            if (pair := pair_of[row]) >= 0 and aligned.are_tensors[pair]:
                yield None, pair
            else:
                returned.append(row)


def compared_after(
    aligned: AlignedGraphs, side: int, *, inputs: Iterable[int] = (), outputs: Iterable[int] = ()
) -> Iterator[int]:
    """Yield the nearest pairs of tensors that are computed from inputs, or from outputs, of calls of one side."""
    for _, pair in steps_after(aligned, side, inputs=inputs, outputs=outputs):
        if pair is not None:
            yield pair


def calls_after(aligned: AlignedGraphs, side: int, inputs: Iterable[int]) -> set[int]:
    """Return the places of the calls without a counterpart that depend on inputs of one side."""
    return {place for place, _ in steps_after(aligned, side, inputs=inputs) if place is not None}
