"""Values of single calls that a graft replaces, and the properties of calls that grafts are chosen by."""

from collections.abc import Callable, Iterable, Iterator

from msprobe.base import names
from msprobe.base.memo import cached_by_identity
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import DIFFERENT, EQUAL
from msprobe.compare.judge.verdict import GRADES
from msprobe.store.record import INPUT, TENSOR
from msprobe.store.stacks_and_construct import Line, user_line

from .plan import EVERY, INPUTS, OUTPUTS, Graft, counterparts, is_sum, place_of
from .runs import Step

_PASS = GRADES.index("pass")


def calls_graft(step: Step, calls: Iterable[str]) -> Graft:
    """Return the graft of the outputs and the input gradients of calls."""
    return Graft(frozenset(value for name in calls for value in both_of(step, name)))


def both_of(step: Step, name: str) -> Iterator[tuple[str, str]]:
    """Return the outputs and the input gradients of a call; of a module also the gradients of all parameters inside."""
    yield names.counterpart(name, "forward"), OUTPUTS
    yield from gradients_of(step, names.counterpart(name, "backward"))
    if (module := names.parse(name)).kind == "cell":
        for other in step.comparison.target.names:
            if other.kind == "parameters_grad" and f"{other.path}.".startswith(f"{module.path}."):
                yield other.text, EVERY


def gradients_of(step: Step, name: str) -> Iterator[tuple[str, str]]:
    """Return the input gradients of a backward call. One that was recorded as the sum over all users of a tensor, or
    that has no counterpart because the two runs call different functions, is replaced where it arrives: at the call
    that returned the tensor."""
    yield name, OUTPUTS
    has_counterpart = counterparts(step).has(name, OUTPUTS)
    for side, (dump, calls, _) in step.comparison.sides.items():
        graph = step.graphs[side]
        for at in places_of(step, name):
            call = int(calls[at])
            if call < 0 or (has_counterpart and not any(is_sum(dump, row) for row in graph.outputs(call))):
                continue
            forward = dump.counterpart(call, "forward")
            for row in graph.inputs(forward) if forward >= 0 else ():
                gradient = graph.gradient(row)
                if gradient >= 0 and (is_sum(dump, gradient) or not has_counterpart):
                    kind, made = graph.origin(row)
                    if kind == "call":
                        yield from incoming(step, side, graph.call_of[made])


def inputs_where(step: Step, is_wanted: Callable[[int, int, int], bool]) -> Iterator[tuple[str, str]]:
    """Return the tensors that forward calls of both runs take and that are wanted, by the rows of pair, target and
    golden."""
    pairs = step.comparison.pairs
    for event in step.events:
        if not event.is_matched or event.direction != "forward":
            continue
        name = called(step, event)
        for row in event.rows:
            target, golden = int(pairs.target_rows[row]), int(pairs.golden_rows[row])
            if pairs.are_tensors(row) and pairs.target.columns.part[target] == INPUT and is_wanted(row, target, golden):
                yield name, place_of(pairs.target, target)


def incoming(step: Step, side: str, call: int) -> Iterator[tuple[str, str]]:
    """Return the gradients that arrive at a forward call of a side, by the target's name; also those that its backward
    returns, if the target computes none for one of its results, such as a part of a tensor that is not used."""
    dump, calls, _ = step.comparison.sides[side]
    back = dump.counterpart(call, "backward")
    if back < 0:
        return
    for place in (calls == back).nonzero()[0].tolist():
        if (at := int(step.comparison.pairs.target_calls[place])) >= 0:
            name = step.comparison.target.columns.names[at]
            yield name, INPUTS
            if any(_is_of_golden_alone(step, row) for row in step.comparison.pairs.rows(place)):
                yield name, OUTPUTS


def _is_of_golden_alone(step: Step, row: int) -> bool:
    """Return whether an input of a pair of calls is a tensor in the golden, and none in the target."""
    pairs = step.comparison.pairs
    columns, golden = pairs.golden.columns, int(pairs.golden_rows[row])
    is_there = golden >= 0 and columns.part[golden] == INPUT and columns.kind[golden] == TENSOR
    return is_there and not pairs.are_tensors(row)


def places_of(step: Step, name: str) -> list[int]:
    """Return the positions of a call of the target among the pairs."""
    at = step.comparison.target.place.get(name, -1)
    return [] if at < 0 else (step.comparison.pairs.target_calls == at).nonzero()[0].tolist()


def called(step: Step, event: Event) -> str:
    """Return the target's name of a call of both runs; an empty text for other calls."""
    at = int(step.comparison.pairs.target_calls[event.place])
    return step.comparison.target.columns.names[at] if event.is_matched and at >= 0 else ""


GOLDEN = "golden "
"""How the name of a call that only the golden run makes begins, where calls of both sides are collected: the target may
have another call of this name."""


def key_of_call(event: Event) -> str:
    """Return the name of a call, which begins with GOLDEN if only the golden run makes it."""
    return f"{GOLDEN}{event.called}" if not event.is_matched and event.side == "golden" else event.called


def differs(step: Step, event: Event) -> bool:
    """Return whether an output of a call differs."""
    comparison = step.comparison
    outputs = (row for row in event.rows if not comparison.is_input[row] and comparison.pairs.are_tensors(row))
    return any(comparison.equal[row] != EQUAL and comparison.grades[row] != _PASS for row in outputs)


def differs_at(step: Step, event: Event, place: str) -> bool:
    """Return whether the input of a call at a place differs."""
    pairs = step.comparison.pairs
    return any(
        pairs.are_tensors(row)
        and step.comparison.equal[row] == DIFFERENT
        and place_of(pairs.target, int(pairs.target_rows[row])) == place
        for row in event.rows
    )


def line_of(step: Step, event: Event) -> Line | None:
    """Return the line of the user's code that makes a forward call."""
    return _lines(step)[event.at]


@cached_by_identity
def _lines(step: Step) -> list[Line | None]:
    """Return the lines of all events of a step."""
    found: list[Line | None] = []
    for event in step.events:
        dump, calls, _ = step.comparison.sides["target" if event.is_matched else event.side]
        call = int(calls[event.place]) if event.direction == "forward" else -1
        found.append(user_line(dump.calls.stack(call)) if call >= 0 else None)
    return found


def function_of(text: str) -> str:
    """Return the function of a call, or the class of a module, by its name."""
    name = names.parse(text)
    return name.stem.rpartition(".")[2] if name.kind == "cell" else name.stem
