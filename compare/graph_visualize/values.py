"""The records of a call as the plugin lists them: every member of the dump's own record, as text.

| record | members |
|---|---|
| a tensor | those of the dump, `data_name` (`-1` without a file), `requires_grad` (`null` if unknown) |
| a number, a text... | those of the dump, the value as `Max`, `Min`, `Mean` and `Norm`, its Python type as `dtype` |
| a group of ranks | those of the dump, `data_name` |
| nothing | `value`: `null` |
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.base import redaction
from msprobe.base.schema import KEYS
from msprobe.store.record import INPUT, OUTPUT, PARAMETERS, PARTS, Columns

Item = dict[str, str]

_NOTHING = "null"
_NO_FILE = "-1"
_MEMBERS = {
    INPUT: ("input_args", "input_kwargs", "input"),
    PARAMETERS: ("parameters",),
    OUTPUT: ("output",),
}
"""The members of the entry of a call that contain the records of a part; gradients of parameters are its members
themselves."""


@dataclass(frozen=True, slots=True)
class Style:
    """How records are listed: with their digests; `is_old`: as in msprobe 8.1, which writes floats with six decimals
    and omits `requires_grad`."""

    with_digest: bool = False
    is_old: bool = False

    @property
    def dropped(self) -> frozenset[str]:
        """Return the members of a record that are not listed."""
        return _DROPPED[self.with_digest, self.is_old]

    def text(self, value: object) -> str:
        """Return a value as text."""
        return rounded(value) if self.is_old and type(value) is float else text(value)


_DROPPED = {
    (with_digest, is_old): frozenset([*["md5"] * (not with_digest), *["requires_grad"] * is_old])
    for with_digest in (False, True)
    for is_old in (False, True)
}


def text(value: object) -> str:
    """Return a value as text without secrets; without single quotes, which would end the string in the plugin's
    page."""
    if isinstance(value, str):
        value = redaction.text(value)
    return _NOTHING if value is None else str(value).replace("'", "")


def rounded(value: float) -> str:
    """Return a float as msprobe 8.1 prints it: with six decimals, for a number with an exponent in its mantissa."""
    return f"{value:.6e}" if "e" in str(value) else str(round(value, 6))


def item(leaf: object, style: Style) -> Item:
    """Return the listed members of one record of a dump.json."""
    if leaf is None:
        return {"value": _NOTHING}
    if not isinstance(leaf, Mapping):
        leaf = {"type": type(leaf).__name__, "value": leaf}
    dropped, written = style.dropped, style.text if style.is_old else text
    shown = {str(key): written(value) for key, value in leaf.items() if key not in dropped}
    shown.setdefault("data_name", _NO_FILE)
    if "group_ranks" in leaf:
        return shown
    if not style.is_old:
        shown.setdefault("requires_grad", _NOTHING)
    if "value" in leaf:
        kind = shown.get("type", "")
        value = leaf["value"]
        shown.update(dict.fromkeys(KEYS, style.text(value)))
        shown["dtype"] = kind if kind in ("slice", "ellipsis") else text(type(value))
        shown["shape"] = "[]"
    return shown


def items(columns: Columns, call: int, entry: Any, style: Style) -> Iterator[tuple[int, str, Item]]:
    """Yield row, name and content of each record of a call; `entry` is the call's entry in dump.json."""
    for row in columns.rows(call):
        leaf = _leaf(entry, columns.part[row], columns.path_of(row))
        yield row, text(columns.row_name(row, call)), item(leaf, style)


def _leaf(entry: Any, part: int, path: tuple[str, ...]) -> Any:
    """Return the record at a path; the list around the gradient of one parameter is not part of it."""
    for member in _MEMBERS.get(part, ("",)):
        node = entry.get(member) if member else entry
        for key in path:
            if isinstance(node, list) and len(node) == 1 and part not in _MEMBERS:
                node = node[0]
            node = _child(node, key)
        if part not in _MEMBERS and isinstance(node, list) and len(node) == 1:
            node = node[0]
        if node is not _ABSENT:
            return node
    return None


_ABSENT = object()


def _child(node: Any, key: str) -> Any:
    if isinstance(node, Mapping):
        return node.get(key, _ABSENT)
    if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
        return node[int(key)]
    return _ABSENT


def is_output(part: int) -> bool:
    """Return whether records of a part are outputs; parameters and their gradients are listed with the inputs."""
    return PARTS[part] == "output"


def requires_grad(columns: Columns, row: int, entries: Mapping[str, Any]) -> bool | None:
    """Return whether a tensor requires a gradient, as far as the dump contains it; msprobe writes it with PyTorch."""
    call = columns.call_of(row)
    leaf = _leaf(entries.get(columns.names[call]), columns.part[row], columns.path_of(row))
    found = leaf.get("requires_grad") if isinstance(leaf, Mapping) else None
    return found if isinstance(found, bool) else None
