"""Values that one side says once and the other element by element: `3` and `[3, 3]`."""

from collections.abc import Iterable

from msprobe.compare.reason import Reason, Why

from .pairs import Alone

Told = tuple[int, tuple[object, ...], object]
"""The number of a record, its place, and its value."""


def listed_alone(left: Iterable[Told], right: Iterable[Told], alone: dict[int, Alone]) -> None:
    """Enter those values that stand alone because the other side says them as one value, or as a list."""
    ours, theirs = list(left), list(right)
    for single, listed in ((ours, theirs), (theirs, ours)):
        elements: dict[tuple[object, ...], list[tuple[int, object]]] = {}
        for number, place, value in listed:
            elements.setdefault(place[:-1], []).append((number, value))
        for number, place, value in single:
            if not (inner := elements.get(place)):
                continue
            is_wrong = not all(equal_values(value, v) for _, v in inner)
            why = Why.ONE_VALUE if is_wrong else Why.ONE_VALUE_EQUAL
            reason = Reason(why, target=value, golden=[v for _, v in inner])
            for n in (number, *(n for n, _ in inner)):
                alone[n] = Alone(reason, is_wrong)


def equal_values(a: object, b: object) -> bool:
    """Whether two values mean the same: 1 and 1.0, a tuple and a list."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(equal_values(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b) or (a != a and b != b)
