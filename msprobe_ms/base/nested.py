"""Values that a training passes around, nested in containers: read once, into a tree that can be walked safely.

Such a value may be anything: a list that holds itself, a mapping without end, a class whose methods raise. All code
that calls methods of foreign objects is in this file. The members of lists, tuples and dicts are read from where Python
stores them, whatever methods a subclass overrides; of other mappings `items` is called, of dataclasses the fields are
read, and what raises is left out. Interrupts pass (`interrupts.passes`); every other exception of foreign code is kept
from the training.

The walk is a loop, not a recursion, and bounded: `DEPTH` containers inside each other, `MEMBERS` members of one value,
containers in containers counted together. A container that is inside itself is not read again there; one at several
places is read at each of them.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

from .errors import reason
from .framework import maker
from .interrupts import passes

DEPTH = 50
"""Containers inside each other that are read, the list of a call's arguments included."""

MEMBERS = 10_000
"""Members of one value that are read."""

KEY = 200
"""Characters of a key; a longer one is cut and ends in `#` and its CRC-32."""

PLAIN = (bool, int, float, str)

Leaf: TypeAlias = tuple[str, Any]
"""A value that is no container, after its place: ("1.mask", tensor)."""


class Lost(NamedTuple):
    """A part of a value that was left out: its place, and why. `kind` is the cause without numbers and names."""

    place: str
    cause: str
    kind: str


class Tree(NamedTuple):
    """Values whose containers are plain lists and dicts with texts as keys, no two of a dict the same.

    `tensors` are those inside, depth first; `odd_keys` the places of members whose key was no text.
    """

    values: Sequence[Any]
    tensors: list[Leaf]
    lost: Sequence[Lost]
    odd_keys: Sequence[str]


# What a value is, by its type. The first two are no containers.
_OTHER, _TENSOR, _LIST, _TUPLE, _NAMED, _DICT, _ORDERED, _MAPPING, _FIELDS = range(9)

_KINDS: dict[type, int] = {
    **dict.fromkeys((*PLAIN, type(None)), _OTHER),
    **{list: _LIST, tuple: _TUPLE, dict: _DICT},
}

_PLACES = tuple(map(str, range(64)))

_name_of_type: Callable[[type], str] = type.__dict__["__name__"].__get__


def type_name(value: object) -> str:
    """The name of a value's class, whatever its metaclass makes of it."""
    return _name_of_type(type(value))


def _kind_of(value: Any) -> int:
    kind = type(value)
    try:
        known = _KINDS.get(kind)
        if known is None:
            known = _KINDS[kind] = _look(value, kind)
        return known
    except BaseException as cause:  # a class may have a metaclass of its own, with a hash of its own
        if passes(cause):
            raise
        return _OTHER


def _look(value: Any, kind: type) -> int:
    """The kind of values of a type, found once per type: `isinstance` is slow where the answer is no, because the
    frameworks' classes override it.
    """
    if issubclass(kind, PLAIN):
        return _OTHER
    if issubclass(kind, list):
        return _LIST
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        return _NAMED if type(names) is tuple and all(type(name) is str for name in names) else _TUPLE
    if issubclass(kind, dict):
        return _ORDERED if issubclass(kind, OrderedDict) else _DICT
    if maker(value) is not None:
        return _TENSOR
    if issubclass(kind, Mapping):
        return _MAPPING
    return _FIELDS if is_dataclass(kind) else _OTHER


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of any framework."""
    try:
        known = _KINDS.get(type(value))
    except BaseException as cause:  # as in `_kind_of`
        if passes(cause):
            raise
        known = None
    return (_kind_of(value) if known is None else known) == _TENSOR


def is_tuple(value: Any) -> bool:
    """Whether a value is a tuple without names of its own, of whatever class."""
    return _kind_of(value) == _TUPLE


def tree_of(values: Sequence[Any]) -> Tree:
    """A call's inputs or outputs as a tree. The values of most calls are no containers, and stay where they are."""
    tensors: list[Leaf] = []
    kinds = _KINDS
    try:
        for i, value in enumerate(values):
            kind = kinds.get(type(value))
            if kind == _TENSOR:
                tensors.append((_PLACES[i], value))
            elif kind != _OTHER:  # a container, or a type that was not met yet
                break
        else:
            return Tree(values, tensors, (), ())
    except BaseException as cause:  # more than 64 values; a type that cannot be looked up
        if passes(cause):
            raise
    walk = _Walk(DEPTH - 1)
    made = [walk.read(value, str(i)) for i, value in enumerate(values)]
    return Tree(made, walk.tensors, walk.lost, walk.odd_keys)


def tree_of_one(value: Any, place: str = "", most: int = MEMBERS, fields: bool = True) -> Tree:
    """One value as a tree of so many members at `most`; the places inside begin with its own.

    Without `fields` a named tuple is a tuple like any other, as for a graph compiler, and a dataclass is no container.
    """
    walk = _Walk(DEPTH, most, fields)
    made = walk.read(value, place)
    return Tree((made,), walk.tensors, walk.lost, walk.odd_keys)


def leaves_of(node: Any, place: str = "") -> Iterator[Leaf]:
    """What is no container in a tree, depth first, each with its place."""
    members: Iterable[tuple[Any, Any]]
    if type(node) is list:
        members = enumerate(node)
    elif type(node) is dict:
        members = node.items()
    else:
        yield place, node
        return
    for key, inner in members:
        yield from leaves_of(inner, _inside(place, key))


def _inside(place: str, key: Any) -> str:
    return f"{place}.{key}" if place else str(key)


class _Open(NamedTuple):
    """A container that is being read: what it becomes, where it stands, and the members that are still to come."""

    made: Any
    place: str
    members: Iterator[tuple[Any, Any]]
    container: Any  # held, for its id distinguishes it


class _Walk:
    """Reads values one after the other."""

    def __init__(self, deepest: int, most: int = MEMBERS, has_fields: bool = True) -> None:
        self._deepest, self._most, self._has_fields = deepest, most, has_fields
        self.tensors: list[Leaf] = []
        self.lost: list[Lost] = []
        self.odd_keys: list[str] = []
        self._remaining = self._over = 0
        self._first_over = ""

    def read(self, value: Any, place: str) -> Any:
        """The tree of a value."""
        self._remaining, self._over, self._first_over = self._most, 0, ""
        made = self._loop(value, place)
        if self._over:
            cause = f"has more than {self._most} members; {self._over} of them are omitted"
            self.lost.append(Lost(self._first_over, cause, "too many members"))
        return made

    def _loop(self, value: Any, place: str) -> Any:
        root: list[Any] = []
        todo = [_Open(root, "", iter([(place, value)]), None)]
        inside: set[int] = set()
        while todo:
            into, above, members, container = todo[-1]
            for key, member in members:
                kind = _kind_of(member)
                if not self._has_fields and kind in (_NAMED, _FIELDS):
                    kind = _TUPLE if kind == _NAMED else _OTHER
                made = member
                if kind == _TENSOR:
                    self.tensors.append((_inside(above, key), member))
                elif kind != _OTHER:
                    place = _inside(above, key)
                    made = None
                    if id(member) in inside:
                        self._lose(place, "it contains itself")
                    elif len(todo) > self._deepest:
                        self._lose(place, f"nested deeper than {DEPTH}")
                    else:
                        made = [] if kind in (_LIST, _TUPLE) else {}
                        inside.add(id(member))
                        todo.append(_Open(made, place, iter(self._members(member, kind, place)), member))
                if type(into) is list:
                    into.append(made)
                else:
                    into[key] = made
                if todo[-1].members is not members:
                    break
            else:
                todo.pop()
                inside.discard(id(container))
        return root[0]

    def _lose(self, place: str, cause: str) -> None:
        self.lost.append(Lost(place, cause, cause))

    def _members(self, value: Any, kind: int, place: str) -> Iterable[tuple[Any, Any]]:
        """The members of a container with their keys or positions, as many as there is room for."""
        if kind in (_MAPPING, _FIELDS):
            pairs = self._items(value, place) if kind == _MAPPING else self._fields(value, place)
        else:
            size, stored = _stored(value, kind)
            pairs = list(islice(stored, self._remaining))
            self._leave_over(size - len(pairs), place)
            if kind in (_LIST, _TUPLE):
                self._remaining -= len(pairs)
                return enumerate(pairs)
        self._remaining -= len(pairs)
        return self._named(pairs, place)

    def _leave_over(self, count: int, place: str) -> None:
        if count > 0:
            self._first_over = self._first_over if self._over else place
            self._over += count

    def _items(self, value: Any, place: str) -> list[tuple[Any, Any]]:
        """The items of a mapping that is no dict, as far as they can be read; how many more there are is not asked."""
        pairs: list[tuple[Any, Any]] = []
        try:
            for pair in value.items():
                if len(pairs) >= self._remaining:
                    self._leave_over(1, place)
                    break
                key, member = pair
                pairs.append((key, member))
        except BaseException as cause:
            if passes(cause):
                raise
            self._lose(place, f"reading it raised {reason(cause)}")
        return pairs

    def _fields(self, value: Any, place: str) -> list[tuple[Any, Any]]:
        """The fields of a dataclass; one that has no value yet, or raises, is left out."""
        pairs: list[tuple[Any, Any]] = []
        names: list[str] = []
        try:
            names = [each.name for each in fields(type(value))]
        except BaseException as cause:
            if passes(cause):
                raise
            self._lose(place, f"reading it raised {reason(cause)}")
        for name in islice(names, self._remaining):
            try:
                pairs.append((name, getattr(value, name)))
            except BaseException as cause:
                if passes(cause):
                    raise
                pairs.append((name, None))
                self._lose(_inside(place, name), f"reading it raised {reason(cause)}")
        self._leave_over(len(names) - len(pairs), place)
        return pairs

    def _named(self, pairs: list[tuple[Any, Any]], place: str) -> list[tuple[str, Any]]:
        for key, _ in pairs:
            if type(key) is not str or len(key) > KEY or "." in key or not key.isascii():
                self.odd_keys.extend(_inside(place, _text(k)) for k, _ in pairs if not issubclass(type(k), str))
                members = [member for _, member in pairs]
                return list(zip(key_names([key for key, _ in pairs], members), members, strict=True))
        return pairs


def _stored(value: Any, kind: int) -> tuple[int, Iterable[Any]]:
    """The number of members of a list, tuple or dict, and the members; of a dict or named tuple with their keys."""
    if kind == _LIST:
        return list.__len__(value), list.__iter__(value)
    if kind == _TUPLE:
        return tuple.__len__(value), tuple.__iter__(value)
    if kind == _NAMED:
        names = type(value)._fields
        size = tuple.__len__(value)
        keys = names if len(names) == size else map(str, range(size))
        return size, zip(keys, tuple.__iter__(value), strict=False)
    items = OrderedDict.items(value) if kind == _ORDERED else dict.items(value)
    return dict.__len__(value), list(items)  # at once: another thread may be changing it


def key_names(keys: Sequence[Any], members: Sequence[Any]) -> list[str]:
    """The texts by which the members of one dict are recorded, no two the same, and no two places inside either.

    A text keeps its own, and whatever else has the text of a key that came before gets `#2`, `#3`... behind it: `1`
    beside `"1"` is `1#2`. A key with dots that could be a place inside of another member, as `a.b` beside a dict `a`,
    has them replaced by `_`, and `#2` behind it.
    """
    texts = [_text(key) for key in keys]
    known = {text for text, member in zip(texts, members, strict=True) if _kind_of(member) > _TENSOR}
    names = [""] * len(texts)
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    # Texts first, so that the names do not depend on the order of the members.
    for i in sorted(range(len(texts)), key=lambda each: not issubclass(type(keys[each]), str)):
        text = name = texts[i]
        if "." in text and any(text[:at] in known for at, sign in enumerate(text) if sign == "."):
            text = text.replace(".", "_")
            name = f"{text}#2"
        while name in taken:
            numbers[text] = numbers.get(text, 1) + 1
            name = f"{text}#{numbers[text]}"
        taken.add(name)
        names[i] = name
    return names


def _text(key: Any) -> str:
    """A key as a text that a file can hold; `<name of its class>` where it gives none."""
    try:
        text = str.__str__(key) if issubclass(type(key), str) else f"<{type_name(key)}>"
        if not is_tensor(key) and not issubclass(type(key), str):
            text = str.__str__(str(key))
    except BaseException as cause:
        if passes(cause):
            raise
        text = f"<{type_name(key)}>"
    text = whole(text)
    return text if len(text) <= KEY else f"{text[:KEY]}#{crc32(text.encode()):08x}"


def whole(text: str) -> str:
    """`text` with each half of a surrogate pair, which no file can hold, spelled out: `\\udc80`."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
