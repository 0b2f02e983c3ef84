"""Structures of values in graphs, known when the graph is compiled, and their JSON text with the records of tensors."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import repeat
from json.encoder import encode_basestring_ascii as quote
from typing import Any, TypeAlias

from mindspore.common.dtype import Type

from msprobe.base.nested import PLAIN

_CONTAINERS = ("tuple", "list", "dict")


Nested: TypeAlias = tuple[Any, ...]
"""A value's structure: its kind, and its members, constant or dtype."""

Flat: TypeAlias = Iterable[Nested]
"""The flat form that `compiled_calls._structure` returns: members are between a container's item and an "end" item."""


class Structure:
    """The structure of a value: `nested` consists of tuples of a kind and its content.

    Everything that does not change between runs is computed once: `_cached_structure` returns one object for all values
    with the same structure.
    """

    __slots__ = ("_format", "_places", "constants", "dtypes", "gradient_count", "has_known_shapes", "nested")

    def __init__(self, nested: Nested) -> None:
        self.nested = nested
        self.gradient_count = 0
        """Number of tensors in it that can have a gradient."""
        self.has_known_shapes = True
        """Whether the shapes of all its tensors are known at compile time; tensors of unknown shape are not sent."""
        self.constants: list[tuple[str, Any]] = []
        """Constant numbers and strings with their places."""
        self.dtypes: dict[str, str] = {}
        """Records of dtypes by place."""
        self._places: list[str] = []
        self._format = self._read(nested, "")

    def text(self, records: Mapping[str, str]) -> str:
        """Return the JSON text with the records by place; "null" for missing records."""
        return self._format % tuple(map(records.get, self._places, repeat("null")))

    def _read(self, structure: Nested, place: str) -> str:
        """Return the text as a %-format with a placeholder for each record."""
        kind = structure[0]
        if kind in _CONTAINERS:
            keys = structure[1] if kind == "dict" else range(len(structure[1]))
            inner = [
                self._read(part, f"{place}.{key}" if place else str(key))
                for key, part in zip(keys, structure[-1], strict=True)
            ]
            if kind != "dict":
                return f"[{','.join(inner)}]"
            return f"{{{','.join([f'{_escaped(quote(key))}:{text}' for key, text in zip(keys, inner, strict=True)])}}}"
        if kind == "tensor":
            self.gradient_count += str(structure[1]).startswith(("Float", "BFloat", "Complex"))
        elif kind == "constant":
            self.constants.append((place, structure[1]))
        elif kind == "dtype":
            self.dtypes[place] = json.dumps({"type": "mindspore.dtype", "value": structure[1]})
        elif kind == "unshaped":
            self.has_known_shapes = False
        self._places.append(place)
        return "%s"


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


@cache
def _cached_structure(nested: Nested) -> Structure:
    """Return the structure. Equal constants of different types (1 and True) are distinguished; others are omitted."""
    return Structure(nested)


def structure_of(flat: Flat) -> Structure:
    """Return the structure of a value from its flat form."""
    open_containers: list[tuple[Nested, list[Nested]]] = [((), [])]
    for entry in flat:
        if entry[0] in _CONTAINERS:
            open_containers.append((entry, []))
            continue
        if entry[0] == "end":
            container, members = open_containers.pop()
            entry = (*container, tuple(members))
        elif entry[0] == "constant":
            entry = _constant(entry[1])
        open_containers[-1][1].append(entry)
    return _cached_structure(open_containers[0][1][0])


def _constant(value: object) -> Nested:
    kind = type(value)
    if kind in PLAIN:
        return "constant", value, kind, repr(value)
    return ("dtype", str(value)) if issubclass(kind, Type) else ("unknown",)


@cache
def arguments(inputs: Structure, keywords: Structure) -> Structure:
    """Return the structure of all arguments as one tuple: positional arguments, then keyword arguments."""
    return _cached_structure(("tuple", (*inputs.nested[1], *keywords.nested[2])))


@cache
def results(outputs: Structure) -> Structure:
    """Return the structure of the results of a call as a tuple."""
    return outputs if outputs.nested[0] == "tuple" else _cached_structure(("tuple", (outputs.nested,)))
