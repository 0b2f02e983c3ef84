"""The journal of a dump (`reference/format.md`, page 6), and the files that are assembled from it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from json.encoder import encode_basestring_ascii as quote
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from msprobe.base.files import open_input, replace_atomically
from msprobe.base.memory import check_fits_in_memory
from msprobe.base.names import counterpart, parse

from . import layout

# Ends what a full disk left of a line. No complete line ends like this, so the rest of one is never taken for a whole.
TORN = b"!\n"

_LETTERS = (b"H", b"R", b"C", b"S", b"M", b"O")


def _plain(value: object) -> object:
    """Return a number of numpy as one of Python, for the encoder."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be written to a journal")


T = TypeVar("T")

# One encoder for all lines; entries are trees made by the collector, so looking for circles would be wasted time.
encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_plain).encode


def header_line(header: Mapping[str, Any], extra_info: bool, columnar: bool = False) -> bytes:
    """Return the first line: what dump.json says above its data, and the writer's own switches."""
    switches = {"extra_info": extra_info, **({"format": "columnar"} if columnar else {})}
    return f"H\t{encode(header)}\t{encode(switches)}\n".encode("ascii")


def run_line(members: Mapping[str, Any]) -> bytes:
    """Return the line with further members of the header's description of the run, which replace earlier ones."""
    return f"R\t{encode(members)}\n".encode("ascii")


def stack_line(number: int, frames: Sequence[str]) -> bytes:
    """Return a call stack, before its first use."""
    return f"S\t{number}\t{encode(list(frames))}\n".encode("ascii")


def call_line(name: str, parent: str | None, stack: int | None, entry: str | None) -> bytes:
    """Return the line of one execution of a call, or of a later part of its entry, which is JSON in ASCII without line
    ends and tabs."""
    enclosing = "" if parent is None else quote(parent)
    return f"C\t{quote(name)}\t{enclosing}\t{'' if stack is None else stack}\t{entry or ''}\n".encode("ascii")


def missing_line(name: str, part: str, cause: str) -> bytes:
    """Return the line of a value that could not be collected."""
    return f"M\t{encode({'name': name, 'part': part, 'cause': cause})}\n".encode("ascii")


def order_line(names: Sequence[str]) -> bytes:
    """Return the line with the order of calls whose lines were written in another order."""
    return f"O\t{encode(list(names))}\n".encode("ascii")


@dataclass
class Journal:
    """A journal, read. Texts that go into the dump as they are stay encoded.

    `parents` holds every executed call in order of its first line; `entries` the entry texts of the collected ones,
    several where a call came in parts; `orders` has lists of calls, which are put into the order of the list; `names`
    has each name of a call once. `columnar`: the dump is to be a table of Parquet.
    `malformed` counts lines that say nothing (a full disk tore them); `cut` says that the last line has no end, because
    the process died while it wrote it.
    """

    header: dict[str, Any] = field(default_factory=dict)
    extra_info: bool = True
    columnar: bool = False
    stacks: dict[int, str] = field(default_factory=dict)
    stack_of: dict[str, int] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    entries: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    orders: list[list[str]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    malformed: int = 0
    cut: bool = False


def read_journal(path: Path, verify: bool = False) -> Journal:
    """Read a journal; with `verify` every entry is also parsed, and one that is no JSON counts as malformed.

    OSError if it is no plain file or cannot be read, MemoryError where it is larger than the memory.
    """
    journal = Journal()
    with open_input(path) as lines:
        check_fits_in_memory(lines, path)
        for line in lines:
            if not line.endswith(b"\n"):
                journal.cut = True
                journal.malformed += line[:1] not in _LETTERS  # no line of ours that was being written
                break
            try:
                text = line[:-1].decode("ascii")
                usual = None if verify else _USUAL.fullmatch(text)
                if usual is None:
                    _add_line(journal, text.split("\t"), verify)
                else:
                    name, parent, stack, entry = usual.groups()
                    _add_call(journal, (name, parent, None if stack is None else int(stack), entry))
            except (ValueError, RecursionError):  # what a line can be broken by: fields, numbers, texts, nesting
                journal.malformed += 1
    return journal


Call = tuple[str, str | None, int | None, str | None]
"""Name, parent, number of the stack and entry: what `call_line` takes."""


def journal_of_lines(header: Mapping[str, Any], extra_info: bool, columnar: bool, lines: list[bytes | Call]) -> Journal:
    """See `read_journal`, of what is known: what the first line says, calls, and other lines as they were written."""
    journal = Journal(dict(header), extra_info, columnar)
    entries, stack_of, parents, names = journal.entries, journal.stack_of, journal.parents, journal.names
    at = 0
    while (at := add_calls(entries, stack_of, parents, names, lines, at)) < len(lines):
        line = lines[at]
        assert isinstance(line, bytes)
        fields = line[:-1].decode("ascii").split("\t")
        if fields[0] == "S":  # not parsed to be sure that it can be
            journal.stacks[int(fields[1])] = fields[2]
        else:
            _add_line(journal, fields, False)
        at += 1
    return journal


def add_calls(
    entries: dict[str, list[str]],
    stack_of: dict[str, int],
    parents: dict[str, str | None],
    names: dict[str, str],
    lines: Sequence[bytes | Call],
    at: int,
) -> int:
    """Add the calls that are in order from a place on; return the place after them."""
    for place in range(at, len(lines)):
        line = lines[place]
        if not isinstance(line, tuple):
            return place
        name, parent, stack, entry = line
        # a cell's name is in the line of each call inside it
        name = names.setdefault(name, name)
        if entry:
            entries.setdefault(name, []).append(entry)
        if stack is not None:
            stack_of.setdefault(name, stack)
        if parents.get(name) is None:
            parents[name] = None if parent is None else names.setdefault(parent, parent)
    return len(lines)


# A call whose names have nothing to unescape, as most have; its groups are name, parent, stack and entry.
_USUAL = re.compile(r'C\t"([^"\\\t]*)"\t(?:"([^"\\\t]*)")?\t([0-9]{1,18})?\t(\{[^\t]*\})?')


def _add_call(journal: Journal, call: Call) -> None:
    add_calls(journal.entries, journal.stack_of, journal.parents, journal.names, [call], 0)


def _add_line(journal: Journal, fields: list[str], verify: bool) -> None:
    match fields:
        case ["C", quoted, quoted_parent, stack, entry]:
            name, parent = _unquote(quoted), _unquote(quoted_parent) if quoted_parent else None
            number = int(stack) if stack else None
            if entry:
                # What a user saves may be any value; what is called has parts.
                _check_entry(entry, verify, journal.header.get("level") == "debug")
            _add_call(journal, (name, parent, number, entry))
        case ["S", number, frames]:
            _loaded(frames, list)
            journal.stacks[int(number)] = frames
        case ["M", item]:
            _loaded(item, dict)
            journal.missing.append(item)
        case ["O", names]:
            order = _loaded(names, list)
            if not all(isinstance(name, str) for name in order):
                raise ValueError("an order must be a list of names")
            journal.orders.append(order)
        case ["R", members]:
            run = journal.header.get("run")
            journal.header["run"] = {**(run if isinstance(run, dict) else {}), **_loaded(members, dict)}
        case ["H", header, switches] if not journal.header:
            journal.header = _loaded(header, dict)
            said = _loaded(switches, dict)
            journal.extra_info = said.get("extra_info") is not False
            journal.columnar = said.get("format") == "columnar"
        case _:
            raise ValueError("not a line of a journal")


def _check_entry(entry: str, verify: bool, any_value: bool) -> None:
    """Raise ValueError unless an entry is a complete object, or with `any_value` a complete JSON value."""
    if verify:
        _loaded(entry, object if any_value else dict)
    elif entry[-1] == "!" if any_value else (entry[0], entry[-1]) != ("{", "}"):
        raise ValueError("an entry must be a complete object")


def _unquote(text: str) -> str:
    # Most names have nothing to unescape, and the parser costs ten times as much.
    if len(text) > 1 and text[0] == text[-1] == '"' and "\\" not in text and text.count('"') == 2:
        return text[1:-1]
    return _loaded(text, str)


def _loaded(text: str, kind: type[T]) -> T:
    """Return the JSON value of a text; ValueError if it is of another kind."""
    made = json.loads(text)
    if not isinstance(made, kind):
        raise ValueError(f"this is not a {kind.__name__}")
    return made


def assemble(folder: Path, journal: Journal, rebuilt: bool = False) -> None:
    """Write the JSON files of `folder` from its journal, each whole or not at all.

    Entries that came in one line go over as text, unparsed. `rebuilt` writes down that the process died before its step
    was closed. OSError if writing fails; the files that were there are then still there.
    """
    for name, texts in files_of(folder, journal, rebuilt):
        _write(folder / name, texts)


def files_of(folder: Path, journal: Journal, rebuilt: bool = False) -> Iterator[tuple[str, Iterator[str]]]:
    """Return the JSON files of a dump by their names, each as the texts that it consists of."""
    level = journal.header.get("level")
    in_order(journal)
    if journal.extra_info and level != "debug":
        yield layout.STACK, _object_text(_stacks(journal))
        yield (
            layout.CONSTRUCT,
            _object_text(_construct(journal) if level not in layout.FLAT_LEVELS else iter(())),
        )
    # Last, so that a reader who finds it finds the others too.
    yield layout.data_file(str(level)), _dump(folder, journal, rebuilt)


def in_order(journal: Journal) -> None:
    """Put the calls into the orders that lines of the journal tell."""
    for names in journal.orders:
        journal.entries = _ordered(journal.entries, names)
        journal.parents = _ordered(journal.parents, names)


def _ordered(of: dict[str, T], names: list[str]) -> dict[str, T]:
    """Return the same entries; those that are named take the places that they have together in the order of `names`."""
    turn = iter([name for name in dict.fromkeys(names) if name in of])
    named = set(names)
    return {key: of[key] for key in (next(turn) if name in named else name for name in of)}


def _write(path: Path, texts: Iterator[str]) -> None:
    with replace_atomically(path) as file:
        for text in texts:
            file.write(text.encode("ascii"))


_TOGETHER = 256
"""So many members of an object are one text."""


def _object_text(members: Iterator[str]) -> Iterator[str]:
    gap = "{\n "
    while together := list(islice(members, _TOGETHER)):
        yield gap + ",\n ".join(together)
        gap = ",\n "
    yield "{\n}\n" if gap[0] == "{" else "\n}\n"


def _dump(folder: Path, journal: Journal, rebuilt: bool) -> Iterator[str]:
    tensors = folder / layout.TENSORS
    header = {**journal.header}
    header.setdefault("dump_data_dir", str(tensors.absolute()) if tensors.is_dir() else None)
    yield "{\n"
    for key, value in header.items():
        yield f"{quote(key)}: {json.dumps(value, default=_plain)},\n"
    if rebuilt:
        yield f'"rebuilt": {json.dumps({"lost_lines": journal.malformed})},\n'
    if journal.missing:
        yield '"missing": [\n ' + ",\n ".join(journal.missing) + "\n],\n"
    yield '"data": '
    yield from _object_text(
        f"{quote(name)}: {texts[0] if len(texts) == 1 else merged(texts)}" for name, texts in journal.entries.items()
    )
    yield "}\n"


def merged(texts: list[str]) -> str:
    """Merge the parts of an entry key by key; a later value of a key replaces the earlier one.

    Only the lists of missing parts are joined: each part lists its own missing ones. What a user saved (level
    debug) may be a record or a list, which has no parts: the later one replaces the earlier one.
    """
    if len(texts) == 1:
        return texts[0]
    whole: Any = {}
    for text in texts:
        part = json.loads(text)
        if not (_has_parts(whole) and _has_parts(part)):
            whole = part
            continue
        if isinstance(whole.get("missing"), list) and isinstance(part.get("missing"), list):
            part["missing"] = whole["missing"] + part["missing"]
        whole.update(part)
    return encode(whole)


def _has_parts(entry: Any) -> bool:
    """Return whether an entry is an object of parts, and not one record."""
    return isinstance(entry, dict) and not isinstance(entry.get("type"), str)


def _stacks(journal: Journal) -> Iterator[str]:
    """Return groups of calls with the same stack, numbered from 0 without a gap, because old readers expect the key
    "0"."""
    groups: dict[int, list[str]] = {}
    for name, number in journal.stack_of.items():
        if number in journal.stacks:
            groups.setdefault(number, []).append(name)
    for place, number in enumerate(sorted(groups)):
        yield f'"{place}": [{encode(groups[number])},{journal.stacks[number]}]'


def _construct(journal: Journal) -> Iterator[str]:
    for name, parent in construct_of(journal):
        yield f"{quote(name)}: {'null' if parent is None else quote(parent)}"


def construct_of(journal: Journal) -> Iterator[tuple[str, str | None]]:
    """Return each call of construct.json, and the cell around it."""
    for name, parent in journal.parents.items():
        kind = parse(name)
        if kind.kind == "parameters_grad":
            continue
        if parent is not None and kind.direction == "backward":
            parent = _nearest_that_ran(parent, journal.parents)
        yield name, parent


def _nearest_that_ran(backward: str, parents: dict[str, str | None]) -> str | None:
    """Return the backward call itself if it ran, else the backward of the nearest enclosing cell that did.

    A cell without a differentiable input has no backward call; its forward call has the enclosing cell.
    """
    seen: set[str] = set()
    while backward not in parents:
        if backward in seen:
            return None
        seen.add(backward)
        enclosing = parents.get(counterpart(backward, "forward"))
        if enclosing is None:
            return None
        backward = counterpart(enclosing, "backward")
    return backward
