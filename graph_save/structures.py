"""The structure of a value in a graph, as the compiler knew it, and its JSON text with the records of its tensors."""

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
"""What a value is made of: its kind, and what is inside: members, a constant, a dtype."""

Flat: TypeAlias = Iterable[Nested]
"""The same as `planted_calls._structure` gives it: what stands between a container and its end is inside it."""


class Structure:
    """What a value is made of: `nested` is tuples, each a kind and what is inside.

    All that does not change from run to run is worked out here, once: `_of` makes one for all values made alike.
    """

    __slots__ = ("_format", "_places", "constants", "dtypes", "flows", "is_whole", "nested")

    def __init__(self, nested: Nested) -> None:
        self.nested = nested
        self.flows = 0
        """How many gradients can flow back to what stands in it."""
        self.is_whole = True
        """Whether all its tensors are sent: the compiler knew their shapes."""
        self.constants: list[tuple[str, Any]] = []
        """Its numbers and texts, by their places."""
        self.dtypes: dict[str, str] = {}
        """The records of its dtypes, by their places."""
        self._places: list[str] = []
        self._format = self._read(nested, "")

    def text(self, records: Mapping[str, str]) -> str:
        """The JSON text with the records by their places; "null" where there is none."""
        return self._format % tuple(map(records.get, self._places, repeat("null")))

    def _read(self, structure: Nested, place: str) -> str:
        """The text as a format, with a gap for each record."""
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
            self.flows += str(structure[1]).startswith(("Float", "BFloat", "Complex"))
        elif kind == "constant":
            self.constants.append((place, structure[1]))
        elif kind == "dtype":
            self.dtypes[place] = json.dumps({"type": "mindspore.dtype", "value": structure[1]})
        elif kind == "unshaped":
            self.is_whole = False
        self._places.append(place)
        return "%s"


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


@cache
def _of(nested: Nested) -> Structure:
    """The structure; constants that are equal, as 1 and True, are distinguished, and foreign ones are left out."""
    return Structure(nested)


def structure_of(flat: Flat) -> Structure:
    """The structure of a value, of what `planted_calls._structure` makes of it."""
    todo: list[tuple[Nested, list[Nested]]] = [((), [])]
    for entry in flat:
        if entry[0] in _CONTAINERS:
            todo.append((entry, []))
            continue
        if entry[0] == "end":
            begun, members = todo.pop()
            entry = (*begun, tuple(members))
        elif entry[0] == "constant":
            entry = _constant(entry[1])
        todo[-1][1].append(entry)
    return _of(todo[0][1][0])


def _constant(value: object) -> Nested:
    kind = type(value)
    if kind in PLAIN:
        return "constant", value, kind, repr(value)
    return ("dtype", str(value)) if issubclass(kind, Type) else ("unknown",)


@cache
def arguments(inputs: Structure, keywords: Structure) -> Structure:
    """All arguments in one list: keyword arguments stand behind the rest."""
    return _of(("tuple", (*inputs.nested[1], *keywords.nested[2])))


@cache
def results(outputs: Structure) -> Structure:
    """The results of a call in one list."""
    return outputs if outputs.nested[0] == "tuple" else _of(("tuple", (outputs.nested,)))
