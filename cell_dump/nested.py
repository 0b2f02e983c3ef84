"""Nested values: the tensors inside a call's arguments and results, where they stand, and the shape without them."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any, TypeAlias

from msprobe.base.framework import maker


class Place(str):
    """Where a tensor stands in a call's arguments or results: `1.mask`."""

    __slots__ = ()


Leaf: TypeAlias = tuple[str, Any]
"""A tensor inside a call's arguments or results, after its place: ("1.mask", tensor)."""

Skeleton: TypeAlias = Any
"""A nested value with its tensors replaced by their places, everything else by None."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bare:
    """A number, text or None that stands in a record as it is, without a type."""

    value: int | str | None


PLAIN = (bool, int, float, str)
_PLAIN_TYPES = frozenset((*PLAIN, type(None)))


_KNOWN: dict[type, bool] = {**dict.fromkeys(_PLAIN_TYPES, False), tuple: False, list: False, dict: False}


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of any framework. Asked very often, and `isinstance` is slow where the answer is no
    or the value a parameter, for the frameworks' classes have a say in it: so each type is asked about once.
    """
    kind = type(value)
    known = _KNOWN.get(kind)
    if known is None:
        known = _KNOWN[kind] = maker(value) is not None
    return known


def children(value: Any) -> Iterator[tuple[Any, Any]] | None:
    """The members of a container with their keys or positions; None where `value` is not one."""
    kind = type(value)
    if kind is tuple or kind is list:  # nearly always; the questions below are slow
        return iter(enumerate(value))
    if kind in _PLAIN_TYPES:
        return None
    if isinstance(value, Mapping):
        return iter(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return zip(value._fields, value, strict=True)
    if isinstance(value, (list, tuple)):
        return iter(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Bare)):
        return ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
    return None


def is_listed(value: Any) -> bool:
    """Whether a container becomes a JSON list (by position) and not an object (by key)."""
    return isinstance(value, (list, tuple)) and not hasattr(value, "_fields")


def leaves(value: Any, place: str = "", found: list[Leaf] | None = None) -> list[Leaf]:
    """Every tensor inside a nested value, depth first, with its place."""
    found = [] if found is None else found
    if is_tensor(value):
        found.append((place, value))
    elif (inner := children(value)) is not None:
        for k, v in inner:
            if is_tensor(v):
                found.append((f"{place}.{k}" if place else str(k), v))
            elif type(v) not in _PLAIN_TYPES:
                leaves(v, f"{place}.{k}" if place else str(k), found)
    return found


def skeleton(value: Any, place: str = "") -> Skeleton:
    """The shape of a nested value, without holding its tensors."""
    if is_tensor(value):
        return Place(place)
    inner = children(value)
    if inner is None:
        return None
    members = {str(k): skeleton(v, f"{place}.{k}" if place else str(k)) for k, v in inner}
    return list(members.values()) if is_listed(value) else members


_PLACES = tuple(Place(i) for i in range(32))


def skeletons(values: Sequence[Any]) -> list[Skeleton]:
    """The shape of a call's arguments or results."""
    return [
        (_PLACES[i] if i < 32 else Place(i))
        if is_tensor(value)
        else None
        if type(value) in _PLAIN_TYPES
        else skeleton(value, str(i))
        for i, value in enumerate(values)
    ]


def fill(shape: Skeleton, records: dict[str, str]) -> str:
    """The JSON text of a skeleton: its places replaced by `records`, null where there is none."""
    kind = type(shape)
    if kind is Place:
        return records.get(shape, "null")
    if kind is list:
        return f"[{','.join([fill(inner, records) for inner in shape])}]"
    if kind is dict:
        return f"{{{','.join([f'{quote(key)}:{fill(inner, records)}' for key, inner in shape.items()])}}}"
    return "null"
