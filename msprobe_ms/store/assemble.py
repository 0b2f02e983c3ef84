"""From the journal to the files that everyone reads: the entries, the stacks, the enclosing cells."""

import json
from collections.abc import Iterator
from json.encoder import encode_basestring_ascii as quote
from pathlib import Path
from typing import Any, TypeVar

from msprobe.base.files import replacing
from msprobe.base.names import counterpart, parse

from . import layout
from .journal import Journal, encode

T = TypeVar("T")


def assemble(folder: Path, journal: Journal, rebuilt: bool = False) -> None:
    """Write the JSON files of `folder` from its journal, each whole or not at all.

    Entries that came in one line go over as text, unparsed. `rebuilt` writes down that the process died before its
    step was closed. OSError when the disk refuses; the files that were there are then still there.
    """
    level = journal.header.get("level")
    for names in journal.orders:
        journal.entries = _ordered(journal.entries, names)
        journal.parents = _ordered(journal.parents, names)
    if journal.extra_info and level != "debug":
        _write(folder / layout.STACK, _object(_stacks(journal)))
        _write(folder / layout.CONSTRUCT, _object(_construct(journal) if level not in layout.FLAT_LEVELS else iter(())))
    # Last, so that a reader who finds it finds the others too.
    _write(folder / layout.data_file(str(level)), _dump(folder, journal, rebuilt))


def _ordered(of: dict[str, T], names: list[str]) -> dict[str, T]:
    """The same entries; those that are named take the places that they have together in the order of `names`."""
    turn = iter([name for name in dict.fromkeys(names) if name in of])
    named = set(names)
    return {key: of[key] for key in (next(turn) if name in named else name for name in of)}


def _write(path: Path, texts: Iterator[str]) -> None:
    with replacing(path) as file:
        for text in texts:
            file.write(text.encode("ascii"))


def _object(members: Iterator[str]) -> Iterator[str]:
    yield "{"
    gap = "\n "
    for member in members:
        yield gap + member
        gap = ",\n "
    yield "\n}\n"


def _dump(folder: Path, journal: Journal, rebuilt: bool) -> Iterator[str]:
    tensors = folder / layout.TENSORS
    header = {**journal.header}
    header.setdefault("dump_data_dir", str(tensors.absolute()) if tensors.is_dir() else None)
    yield "{\n"
    for key, value in header.items():
        yield f"{quote(key)}: {json.dumps(value)},\n"
    if rebuilt:
        yield f'"rebuilt": {json.dumps({"lost_lines": journal.malformed})},\n'
    if journal.missing:
        yield '"missing": [\n ' + ",\n ".join(journal.missing) + "\n],\n"
    yield '"data": '
    yield from _object(f"{quote(name)}: {_merged(texts)}" for name, texts in journal.entries.items())
    yield "}\n"


def _merged(texts: list[str]) -> str:
    """One entry from its parts, key by key, a later value for the same key in place of the earlier one.

    Only the lists of missing parts are joined: each part knows of its own. What a user saved (level debug) may be a
    record or a list, which has no parts: the later one stands in place of the earlier one.
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
    """Whether an entry is an object of parts, and not one record."""
    return isinstance(entry, dict) and not isinstance(entry.get("type"), str)


def _stacks(journal: Journal) -> Iterator[str]:
    """Groups of calls with one stack, numbered from 0 without a gap: old readers look for the key "0"."""
    groups: dict[int, list[str]] = {}
    for name, number in journal.stack_of.items():
        if number in journal.stacks:
            groups.setdefault(number, []).append(name)
    for place, number in enumerate(sorted(groups)):
        yield f'"{place}": [{encode(groups[number])},{journal.stacks[number]}]'


def _construct(journal: Journal) -> Iterator[str]:
    for name, parent in journal.parents.items():
        kind = parse(name)
        if kind.kind == "parameters_grad":
            continue
        if parent is not None and kind.direction == "backward":
            parent = _nearest_that_ran(parent, journal.parents)
        yield f"{quote(name)}: {'null' if parent is None else quote(parent)}"


def _nearest_that_ran(backward: str, parents: dict[str, str | None]) -> str | None:
    """The backward call itself if it ran, else the backward of the nearest enclosing cell that did.

    A cell without a differentiable input has no backward of its own; its forward knows what encloses it.
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
