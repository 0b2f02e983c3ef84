"""The calls of a comparison as the locating sees them: in execution order, each with its givens and its results."""

from dataclasses import dataclass

from msprobe.base import names
from msprobe.compare.run import Comparison, Judged, JudgedCall
from msprobe.store.record import Call


@dataclass(frozen=True, slots=True)
class Event:
    """One pair of calls, or a call that stands on one side only.

    `givens` of a backward call are its incoming gradients (`own`) and its forward's givens and results (`inherited`).
    The gradients of a cell's parameters are results of that cell's backward: `name` is then the backward call's.
    `key` is the name, told apart from a target's call of the same name where the call is the golden's alone; `places`
    are the keys of the cells around it, innermost first, and `parents` their names.
    """

    at: int
    name: str
    key: str
    direction: names.Direction
    kind: names.Kind
    call: JudgedCall
    own: tuple[Judged, ...]
    inherited: tuple[Judged, ...]
    results: tuple[Judged, ...]
    forward: int | None
    parents: tuple[str, ...]
    places: tuple[str, ...]

    @property
    def is_matched(self) -> bool:
        """Whether both sides made this call."""
        return self.call.calls.target is not None and self.call.calls.golden is not None

    @property
    def side(self) -> str:
        """The side on which a call stands alone."""
        return "target" if self.call.calls.golden is None else "golden"


def events(comparison: Comparison) -> list[Event]:
    """All calls in execution order (of completion: children before the cell around them)."""
    backwards = _cell_backwards(comparison.calls)
    keys = _Keys(comparison.calls)
    found: list[Event] = []
    forwards: dict[str, Event] = {}
    for call, owner in _in_execution_order(comparison.calls, backwards):
        name = names.parse(call.name)
        own, results = _split(call)
        same = backwards[name.stem] if owner else [call]
        before = [f for c in same if (f := forwards.get(keys.of(c, names.counterpart(c.name, "forward"))))]
        inherited = tuple(judged for f in before for judged in (*f.own, *f.results))
        if owner:
            own = tuple(judged for c in same for judged in _split(c)[0])
        parents = _parents(comparison, call, owner)
        event = Event(
            at=len(found),
            name=owner or call.name,
            key=keys.of(call, owner or call.name),
            direction=name.direction,
            kind=name.kind,
            call=call,
            own=own,
            inherited=inherited if name.direction == "backward" else (),
            results=results,
            forward=before[0].at if before and name.direction == "backward" else None,
            parents=parents,
            places=tuple(keys.of(call, parent) for parent in parents),
        )
        found.append(event)
        if name.direction == "forward":
            forwards[event.key] = event
    return found


class _Keys:
    """One name for one pair of calls: the target's, since numbers may have shifted between the sides."""

    def __init__(self, calls: tuple[JudgedCall, ...]) -> None:
        self._of_golden = {c.calls.golden.name: c.calls.target.name for c in calls if c.calls.golden and c.calls.target}

    def of(self, call: JudgedCall, name: str) -> str:
        """The key of `name` as the side of `call` uses it."""
        if call.calls.target is not None:
            return name
        return self._of_golden.get(name, f"golden {name}")


def _cell_backwards(calls: tuple[JudgedCall, ...]) -> dict[str, list[JudgedCall]]:
    """Cell -> its backward calls, in execution order."""
    found: dict[str, list[JudgedCall]] = {}
    for call in calls:
        name = names.parse(call.name)
        if name.kind == "cell" and name.direction == "backward":
            found.setdefault(name.stem, []).append(call)
    return found


def _split(call: JudgedCall) -> tuple[tuple[Judged, ...], tuple[Judged, ...]]:
    own = tuple(j for j in call.judged if j.pair.record.part in ("input", "parameters"))
    return own, tuple(j for j in call.judged if j.pair.record.part not in ("input", "parameters"))


def _in_execution_order(
    calls: tuple[JudgedCall, ...], backwards: dict[str, list[JudgedCall]]
) -> list[tuple[JudgedCall, str]]:
    """Every call, and for the gradients of a cell's parameters the backward call that they belong to.

    The other tool reserves their place when the cell's forward ends, before any backward call. They arrive when the
    backward of the cell is about to end, so they stand before the last backward call of their cell.
    """
    ordered: list[tuple[JudgedCall, str]] = []
    waiting: dict[str, list[tuple[JudgedCall, str]]] = {}
    is_backward = False
    for call in calls:
        name = names.parse(call.name)
        if name.kind != "parameters_grad":
            is_backward = is_backward or name.direction == "backward"
            ordered += waiting.pop(call.name, [])
            ordered.append((call, ""))
            continue
        owner = backwards[name.stem][-1].name if name.stem in backwards else ""
        if is_backward:
            ordered.append((call, owner))
        else:
            waiting.setdefault(owner, []).append((call, owner))
    return ordered + waiting.pop("", [])


def _parents(comparison: Comparison, call: JudgedCall, owner: str) -> tuple[str, ...]:
    """The cells around a call, or around the backward call that owns it, on the side whose name the call has."""
    construct = (comparison.target if call.calls.target else comparison.golden).construct
    if not owner:
        return enclosing(call.calls.call, construct)
    parent = construct.get(owner)
    return _upwards(parent, construct) if parent else ()


def enclosing(call: Call, construct: dict[str, str | None]) -> tuple[str, ...]:
    """The calls of the cells around a call, innermost first."""
    parent = call.parent or construct.get(call.name)
    return _upwards(parent, construct) if parent else ()


def _upwards(parent: str | None, construct: dict[str, str | None]) -> tuple[str, ...]:
    found: list[str] = []
    while parent and parent not in found:
        found.append(parent)
        parent = construct.get(parent)
    return tuple(found)


def cell_path(parents: tuple[str, ...]) -> str:
    """Where a call stands: the dotted path of the cell around it."""
    for parent in parents[:1]:
        return names.parse(parent).path or parent
    return "the root"
