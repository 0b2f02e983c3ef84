"""The grammar of `dump.journal` (`docs/format.md`, page 6), both ways: lines are made here and read here."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as quote
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.files import open_input

from .memory import must_fit

# Ends what a full disk left of a line. No complete line ends like this, so the rest of one is never taken for a whole.
TORN = b"!\n"

_LETTERS = (b"H", b"C", b"S", b"M", b"O")


def _plain(value: object) -> object:
    """A number of numpy's as one of Python's; the encoder asks for what it does not know."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot stand in a journal")


# One encoder for all lines; entries are trees made by the collector, so looking for circles would be wasted time.
encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_plain).encode


def header_line(header: Mapping[str, Any], extra_info: bool) -> bytes:
    """The first line: what dump.json says above its data, and the writer's own switches."""
    return f"H\t{encode(header)}\t{encode({'extra_info': extra_info})}\n".encode("ascii")


def stack_line(number: int, frames: Sequence[str]) -> bytes:
    """A call stack, before its first use."""
    return f"S\t{number}\t{encode(list(frames))}\n".encode("ascii")


def call_line(name: str, parent: str | None, stack: int | None, entry: str | None) -> bytes:
    """One execution of a call, or a later part of its entry, which is JSON in ASCII without line ends and tabs."""
    enclosing = "" if parent is None else quote(parent)
    return f"C\t{quote(name)}\t{enclosing}\t{'' if stack is None else stack}\t{entry or ''}\n".encode("ascii")


def missing_line(name: str, part: str, cause: str) -> bytes:
    """Something that could not be collected."""
    return f"M\t{encode({'name': name, 'part': part, 'cause': cause})}\n".encode("ascii")


def order_line(names: Sequence[str]) -> bytes:
    """In which order calls stand, whose lines came in another one."""
    return f"O\t{encode(list(names))}\n".encode("ascii")


@dataclass
class Journal:
    """A journal, read. Texts that go into the dump as they are stay encoded.

    `parents` holds every executed call in order of its first line; `entries` the entry texts of the collected ones,
    several where a call came in parts; `orders` lists of calls that stand in the order of the list. `malformed` counts
    lines that say nothing (a full disk tore them); `cut` says that the last line has no end, because the process died
    while it wrote it.
    """

    header: dict[str, Any] = field(default_factory=dict)
    extra_info: bool = True
    stacks: dict[int, str] = field(default_factory=dict)
    stack_of: dict[str, int] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    entries: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    orders: list[list[str]] = field(default_factory=list)
    malformed: int = 0
    cut: bool = False


def read_journal(path: Path, verify: bool = False) -> Journal:
    """Read a journal; with `verify` every entry is also parsed, and one that is no JSON counts as malformed.

    OSError where it is no plain file or cannot be read, MemoryError where it is larger than the memory.
    """
    journal = Journal()
    with open_input(path) as lines:
        must_fit(lines, path)
        for line in lines:
            if not line.endswith(b"\n"):
                journal.cut = True
                journal.malformed += line[:1] not in _LETTERS  # no line of ours that was being written
                break
            try:
                _take(journal, line[:-1].decode("ascii").split("\t"), verify)
            except (ValueError, RecursionError):  # what a line can be broken by: fields, numbers, texts, nesting
                journal.malformed += 1
    return journal


def _take(journal: Journal, fields: list[str], verify: bool) -> None:
    match fields:
        case ["C", quoted, quoted_parent, stack, entry]:
            name = _unquote(quoted)
            parent = _unquote(quoted_parent) if quoted_parent else None
            number = int(stack) if stack else None
            if entry:
                # What a user saves may be any value; what is called has parts.
                _check_entry(entry, verify, journal.header.get("level") == "debug")
                journal.entries.setdefault(name, []).append(entry)
            if number is not None:
                journal.stack_of.setdefault(name, number)
            if journal.parents.get(name) is None:
                journal.parents[name] = parent
        case ["S", number, frames]:
            if not isinstance(json.loads(frames), list):
                raise ValueError("a stack is a list")
            journal.stacks[int(number)] = frames
        case ["M", item]:
            _object(item)
            journal.missing.append(item)
        case ["O", names]:
            journal.orders.append(_names(names))
        case ["H", header, switches] if not journal.header:
            journal.header = _object(header)
            journal.extra_info = _object(switches).get("extra_info") is not False
        case _:
            raise ValueError("no line of a journal")


def _check_entry(entry: str, verify: bool, any_value: bool) -> None:
    """ValueError unless an entry is a whole object, or with `any_value` a whole JSON value."""
    if verify:
        json.loads(entry) if any_value else _object(entry)
    elif entry[-1] == "!" if any_value else (entry[0], entry[-1]) != ("{", "}"):
        raise ValueError("an entry is an object, and never torn")


def _unquote(text: str) -> str:
    # Most names have nothing to unescape, and the parser costs ten times as much.
    if len(text) > 1 and text[0] == text[-1] == '"' and "\\" not in text and text.count('"') == 2:
        return text[1:-1]
    name = json.loads(text)
    if not isinstance(name, str):
        raise ValueError("a name is a JSON text")
    return name


def _names(text: str) -> list[str]:
    made = json.loads(text)
    if not isinstance(made, list) or not all(isinstance(name, str) for name in made):
        raise ValueError("an order is a list of names")
    return made


def _object(text: str) -> dict[str, Any]:
    made = json.loads(text)
    if not isinstance(made, dict):
        raise ValueError("a JSON object was expected")
    return made
