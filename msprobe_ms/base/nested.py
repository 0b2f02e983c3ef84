"""Reads nested containers of a training into a tree of plain lists and dicts, which is safe to traverse.

A value may be any object: a list that contains itself, an infinite mapping, a class whose methods raise. All code that
calls methods of user objects is in this module. Members of lists, tuples and dicts are read without methods that
subclasses may override; of other mappings `items` is called, of dataclasses the fields are read, and members that raise
are omitted. Interrupts are passed on (`interrupts.must_propagate`); other exceptions of user code are caught.

The traversal is a loop, not a recursion, and bounded: at most `MAX_DEPTH` nested containers, and `MAX_MEMBERS` members
of one value, including those of nested containers. A container inside itself is not read again; a container at several
places is read at each place.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

from .errors import reason
from .framework import framework_of
from .interrupts import must_propagate

MAX_DEPTH = 50
"""Maximum number of nested containers, including the list of arguments of a call."""

MAX_MEMBERS = 10_000
"""Maximum number of members of one value."""

MAX_KEY_LENGTH = 200
"""Maximum number of characters of a key; a longer key is truncated and ends in `#` and its CRC-32."""

PLAIN = (bool, int, float, str)

Leaf: TypeAlias = tuple[str, Any]
"""The place and value of an object that is not a container: ("1.mask", tensor)."""


class Lost(NamedTuple):
    """A part of a value that was omitted, with its place and cause. `kind` is the cause without numbers and names."""

    place: str
    cause: str
    kind: str


class Tree(NamedTuple):
    """Values whose containers are lists and dicts with unique strings as keys.

    values : the converted values.
    tensors : tensors in them, depth first.
    lost : omitted parts.
    odd_keys : places of members whose key was not a string.
    """

    values: Sequence[Any]
    tensors: list[Leaf]
    lost: Sequence[Lost]
    odd_keys: Sequence[str]


# Kinds of values, by type. The first two are not containers.
_OTHER, _TENSOR, _LIST, _TUPLE, _NAMED, _DICT, _ORDERED, _MAPPING, _FIELDS = range(9)

_KINDS: dict[type, int] = {
    **dict.fromkeys((*PLAIN, type(None)), _OTHER),
    **{list: _LIST, tuple: _TUPLE, dict: _DICT},
}

_INDEX_TEXTS = tuple(map(str, range(64)))

_new_tree: Callable[[type[Tree], tuple[Any, ...]], Tree] = tuple.__new__
"""Makes a tree in a third of the time that its class needs: this is done twice for each call that is collected."""

_name_of_type: Callable[[type], str] = type.__dict__["__name__"].__get__


def type_name(value: object) -> str:
    """Return the name of the class of a value, without calling its metaclass."""
    return _name_of_type(type(value))


def _kind_of(value: Any) -> int:
    kind = type(value)
    try:
        known = _KINDS.get(kind)
        if known is None:
            known = _KINDS[kind] = _classify(value, kind)
        return known
    except BaseException as cause:  # a metaclass may override `__hash__`
        if must_propagate(cause):
            raise
        return _OTHER


def _classify(value: Any, kind: type) -> int:
    """Determine the kind of values of a type, once per type: `isinstance` is slow for False, because classes of the
    frameworks override it."""
    if issubclass(kind, PLAIN):
        return _OTHER
    if issubclass(kind, list):
        return _LIST
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        return _NAMED if type(names) is tuple and all(type(name) is str for name in names) else _TUPLE
    if issubclass(kind, dict):
        return _ORDERED if issubclass(kind, OrderedDict) else _DICT
    if framework_of(value) is not None:
        return _TENSOR
    if issubclass(kind, Mapping):
        return _MAPPING
    return _FIELDS if is_dataclass(kind) else _OTHER


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of any framework."""
    try:
        known = _KINDS.get(type(value))
    except BaseException as cause:  # as in `_kind_of`
        if must_propagate(cause):
            raise
        known = None
    return (_kind_of(value) if known is None else known) == _TENSOR


def is_tuple(value: Any) -> bool:
    """Return whether a value is a tuple, but not a named tuple."""
    return _kind_of(value) == _TUPLE


def tree_of(values: Sequence[Any]) -> Tree:
    """Return the inputs or outputs of a call as a tree; `values` itself if it has no containers, as for most calls."""
    tensors: list[Leaf] = []
    kinds = _KINDS
    try:
        for i, value in enumerate(values):
            kind = kinds.get(type(value))
            if kind == _TENSOR:
                tensors.append((_INDEX_TEXTS[i], value))
            elif kind != _OTHER:  # a container, or a new type
                break
        else:
            return _new_tree(Tree, (values, tensors, (), ()))
    except BaseException as cause:  # more than 64 values, or a type whose hash raises
        if must_propagate(cause):
            raise
    reader = _TreeReader(MAX_DEPTH - 1)
    made = [reader.read(value, str(i)) for i, value in enumerate(values)]
    return Tree(made, reader.tensors, reader.lost, reader.odd_keys)


def tree_of_value(value: Any, place: str = "", most: int = MAX_MEMBERS, fields: bool = True) -> Tree:
    """Return one value as a tree.

    place : prefix of the places in it.
    most : maximum number of members.
    fields : whether named tuples have names and dataclasses are containers; False as in the graph compiler.
    """
    reader = _TreeReader(MAX_DEPTH, most, fields)
    made = reader.read(value, place)
    return Tree((made,), reader.tensors, reader.lost, reader.odd_keys)


def leaves_of(node: Any, place: str = "") -> Iterator[Leaf]:
    """Yield the leaves of a tree with their places, depth first."""
    members: Iterable[tuple[Any, Any]]
    if type(node) is list:
        members = enumerate(node)
    elif type(node) is dict:
        members = node.items()
    else:
        yield place, node
        return
    for key, inner in members:
        yield from leaves_of(inner, _join_place(place, key))


def with_replaced(value: Any, replaced: Mapping[int, Any]) -> Any:
    """Return a value with other objects in the places of some leaves, by the ids of the leaves.

    Containers on the way to such a leaf are copied; without one the value itself is returned. Raises whatever copying
    a container of the user raises.
    """
    return _with_replaced(value, replaced, ())


def _with_replaced(value: Any, replaced: Mapping[int, Any], above: tuple[int, ...]) -> Any:
    kind = _kind_of(value)
    if kind in (_OTHER, _TENSOR):
        return replaced.get(id(value), value)
    if id(value) in above or len(above) > MAX_DEPTH:  # inside itself, or deeper than what is read
        return value
    if kind in (_MAPPING, _FIELDS):
        names = [each.name for each in fields(type(value))] if kind == _FIELDS else []
        stored = [(name, getattr(value, name, None)) for name in names] if kind == _FIELDS else list(value.items())
    else:
        _, members = _stored(value, kind)
        stored = list(enumerate(members) if kind in (_LIST, _TUPLE) else members)
    made = [(key, _with_replaced(member, replaced, (*above, id(value)))) for key, member in stored]
    if all(new is old for (_, new), (_, old) in zip(made, stored, strict=True)):
        return value
    if kind in (_TUPLE, _NAMED):
        every = [member for _, member in made]
        return type(value)(*every) if kind == _NAMED else type(value)(every)
    whole = copy(value)
    for (key, new), (_, old) in zip(made, stored, strict=True):
        if new is old:
            continue
        if kind == _FIELDS:
            object.__setattr__(whole, key, new)  # also of a frozen dataclass
        else:
            whole[key] = new
    return whole


def _join_place(place: str, key: Any) -> str:
    return f"{place}.{key}" if place else str(key)


class _OpenContainer(NamedTuple):
    """A container that is being read: the result, its place, and the remaining members."""

    made: Any
    place: str
    members: Iterator[tuple[Any, Any]]
    container: Any  # keeps its id valid


class _TreeReader:
    """Reader of values, which collects tensors and omitted parts."""

    def __init__(self, max_depth: int, most: int = MAX_MEMBERS, has_fields: bool = True) -> None:
        self._max_depth, self._max_members, self._has_fields = max_depth, most, has_fields
        self.tensors: list[Leaf] = []
        self.lost: list[Lost] = []
        self.odd_keys: list[str] = []
        self._remaining = self._omitted = 0
        self._first_omitted = ""

    def read(self, value: Any, place: str) -> Any:
        """Return the tree of a value."""
        self._remaining, self._omitted, self._first_omitted = self._max_members, 0, ""
        made = self._read(value, place)
        if self._omitted:
            cause = f"has more than {self._max_members} members; {self._omitted} of them are omitted"
            self.lost.append(Lost(self._first_omitted, cause, "too many members"))
        return made

    def _read(self, value: Any, place: str) -> Any:
        root: list[Any] = []
        open_containers = [_OpenContainer(root, "", iter([(place, value)]), None)]
        inside: set[int] = set()
        while open_containers:
            into, above, members, container = open_containers[-1]
            for key, member in members:
                kind = _kind_of(member)
                if not self._has_fields and kind in (_NAMED, _FIELDS):
                    kind = _TUPLE if kind == _NAMED else _OTHER
                made = member
                if kind == _TENSOR:
                    self.tensors.append((_join_place(above, key), member))
                elif kind != _OTHER:
                    place = _join_place(above, key)
                    made = None
                    if id(member) in inside:
                        self._omit(place, "it contains itself")
                    elif len(open_containers) > self._max_depth:
                        self._omit(place, f"nested deeper than {MAX_DEPTH}")
                    else:
                        made = [] if kind in (_LIST, _TUPLE) else {}
                        inside.add(id(member))
                        open_containers.append(
                            _OpenContainer(made, place, iter(self._members(member, kind, place)), member)
                        )
                if type(into) is list:
                    into.append(made)
                else:
                    into[key] = made
                if open_containers[-1].members is not members:
                    break
            else:
                open_containers.pop()
                inside.discard(id(container))
        return root[0]

    def _omit(self, place: str, cause: str) -> None:
        self.lost.append(Lost(place, cause, cause))

    def _members(self, value: Any, kind: int, place: str) -> Iterable[tuple[Any, Any]]:
        """Return the members of a container with keys or positions, up to the limit."""
        if kind in (_MAPPING, _FIELDS):
            pairs = self._items(value, place) if kind == _MAPPING else self._fields(value, place)
        else:
            size, stored = _stored(value, kind)
            pairs = list(islice(stored, self._remaining))
            self._count_omitted(size - len(pairs), place)
            if kind in (_LIST, _TUPLE):
                self._remaining -= len(pairs)
                return enumerate(pairs)
        self._remaining -= len(pairs)
        return self._with_names(pairs, place)

    def _count_omitted(self, count: int, place: str) -> None:
        if count > 0:
            self._first_omitted = self._first_omitted if self._omitted else place
            self._omitted += count

    def _items(self, value: Any, place: str) -> list[tuple[Any, Any]]:
        """Return the items of a mapping other than dict, until one raises or the limit is reached."""
        pairs: list[tuple[Any, Any]] = []
        try:
            for pair in value.items():
                if len(pairs) >= self._remaining:
                    self._count_omitted(1, place)
                    break
                key, member = pair
                pairs.append((key, member))
        except BaseException as cause:
            if must_propagate(cause):
                raise
            self._omit(place, f"reading it raised {reason(cause)}")
        return pairs

    def _fields(self, value: Any, place: str) -> list[tuple[Any, Any]]:
        """Return the fields of a dataclass; fields without a value, or that raise, are omitted."""
        pairs: list[tuple[Any, Any]] = []
        names: list[str] = []
        try:
            names = [each.name for each in fields(type(value))]
        except BaseException as cause:
            if must_propagate(cause):
                raise
            self._omit(place, f"reading it raised {reason(cause)}")
        for name in islice(names, self._remaining):
            try:
                pairs.append((name, getattr(value, name)))
            except BaseException as cause:
                if must_propagate(cause):
                    raise
                pairs.append((name, None))
                self._omit(_join_place(place, name), f"reading it raised {reason(cause)}")
        self._count_omitted(len(names) - len(pairs), place)
        return pairs

    def _with_names(self, pairs: list[tuple[Any, Any]], place: str) -> list[tuple[str, Any]]:
        for key, _ in pairs:
            if type(key) is not str or len(key) > MAX_KEY_LENGTH or "." in key or not key.isascii():
                self.odd_keys.extend(_join_place(place, _key_text(k)) for k, _ in pairs if not issubclass(type(k), str))
                members = [member for _, member in pairs]
                return list(zip(key_names([key for key, _ in pairs], members), members, strict=True))
        return pairs


def _stored(value: Any, kind: int) -> tuple[int, Iterable[Any]]:
    """Return the number of members of a list, tuple or dict, and the members, with keys for dicts and named tuples."""
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
    return dict.__len__(value), list(items)  # a copy: another thread may change the dict


def key_names(keys: Sequence[Any], members: Sequence[Any]) -> list[str]:
    """Return unique names for the members of a dict, so that places inside are unique too.

    String keys are used as they are. Other keys whose text is already used get a suffix `#2`, `#3`, ...: if there are
    keys `"1"` and `1`, the second is `1#2`. In a key that could be confused with a place in another member, as `a.b` if
    there is a dict `a`, dots are replaced by `_`, and `#2` is appended.
    """
    texts = [_key_text(key) for key in keys]
    known = {text for text, member in zip(texts, members, strict=True) if _kind_of(member) > _TENSOR}
    names = [""] * len(texts)
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    # Strings first, so that names do not depend on the order of the members.
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


def _key_text(key: Any) -> str:
    """Return a key as a string that can be encoded; `<name of its class>` if `str` fails."""
    try:
        text = str.__str__(key) if issubclass(type(key), str) else f"<{type_name(key)}>"
        if not is_tensor(key) and not issubclass(type(key), str):
            text = str.__str__(str(key))
    except BaseException as cause:
        if must_propagate(cause):
            raise
        text = f"<{type_name(key)}>"
    text = escape_surrogates(text)
    return text if len(text) <= MAX_KEY_LENGTH else f"{text[:MAX_KEY_LENGTH]}#{crc32(text.encode()):08x}"


def escape_surrogates(text: str) -> str:
    """Return `text` with lone surrogates, which cannot be encoded, escaped: `\\udc80`."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
