"""Digests of the content of a dump, and the state of its files when they were computed.

Two dumps with equal digests hold the same calls, with the same values, in the same order, under the same header, and
their tensors are bitwise equal: comparing either of them with a third dump has the same result. The digests do not
cover the path of a dump, its run, the versions that wrote it, its call stacks, and the layout of its JSON.
"""

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input

from . import layout
from .npy import packed_at
from .reader import tensor_file
from .record import TENSOR, Dump

SIZE = 16
"""Bytes of a digest: equal by chance once in 10^38."""

_PIECE = 1 << 20  # bytes


def digest_of(parts: Iterator[bytes]) -> bytes:
    """Return one digest of many texts, which also depends on the boundaries between them."""
    found = blake2b(digest_size=SIZE)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def call_digests(dump: Dump) -> list[bytes]:
    """Return a digest of each call, with everything that its entry says and the elements of its tensors."""
    return [digest_of(_call(dump, at)) for at in range(len(dump.columns.names))]


def _call(dump: Dump, at: int) -> Iterator[bytes]:
    columns, calls = dump.columns, dump.calls
    rows = columns.rows(at)
    here = slice(rows.start, rows.stop)
    yield _text(columns.names[at], calls.missing(at), calls.lost.get(at, ()), calls.is_recompute(at), dump.parent(at))
    yield bytes(columns.part[here]) + bytes(columns.kind[here]) + bytes(columns.gradient[here])
    for numbers in columns.numbers.T:
        yield numbers[here].tobytes()
    for name, column in columns.shares.items():
        yield name.encode()
        yield column[here].tobytes()
    for row in rows:
        look = columns.looks[columns.look[row]]
        yield _text(columns.path_of(row), look, columns.digest[row], columns.file[row], columns.source[row])
        if columns.kind[row] != TENSOR or row in columns.odd or row in columns.non_finite or row in columns.named:
            rare = columns.odd.get(row, ""), columns.values.get(row, ""), columns.non_finite.get(row)
            yield _text(*rare, columns.named.get(row))
        if row in columns.layout:
            yield _text(*columns.layout[row])
        if columns.file[row]:
            yield _elements(dump, columns.file[row])


def _text(*values: Any) -> bytes:
    # Of numbers every digit, and of texts every character: what prints alike is alike.
    return repr(values).encode("utf-8", "surrogatepass")


def _elements(dump: Dump, name: str) -> bytes:
    """Return the digest of a tensor's file, or of what a pack has under its name; of one that cannot be read, what is
    wrong with it."""
    found = blake2b(digest_size=SIZE)
    try:
        path = tensor_file(dump.folder, name, dump.tensors)
        if packed := packed_at(path):
            found.update(_text("packed", str(packed.dtype), packed.shape))
            for start in range(0, packed.size, _PIECE):
                found.update(packed.part(start, min(start + _PIECE, packed.size)).tobytes())
            return found.digest()
        with open_input(path) as file:
            while piece := file.read(_PIECE):
                found.update(piece)
    except (DumpError, OSError) as err:
        return f"not read: {type(err).__name__}".encode()
    return found.digest()


def structure_digest(dump: Dump) -> bytes:
    """Return the digest of a dump's header, of its calls in order, and of the cells that enclose them."""
    head = (
        *(dump.task, dump.level, dump.framework, dump.step, dump.rank, dump.format_version, dump.missing),
        *(dump.unfinished, dump.extra_info, sorted(dump.frozen)),
    )
    return digest_of(iter((_text(*head), _text(dump.columns.names), _text(list(dump.construct.items())))))


def dump_digest(structure: bytes, calls: list[bytes]) -> bytes:
    """Return the digest of a whole dump from the digests of its parts."""
    return digest_of(iter((structure, *calls)))


def files_state(file: Path) -> str:
    """Return the sizes and times of all files that the digests of a dump.json were made of, as a digest; a file that is
    written again, comes or goes changes it, the place of the dump does not. OSError if the dump is not there."""
    os.stat(file)
    folder = file.parent
    names = [file.name, layout.CONSTRUCT, layout.JOURNAL]
    tensors = folder / layout.TENSORS
    if tensors.exists():
        names += sorted(f"{layout.TENSORS}/{name}" for name in os.listdir(tensors))
    found = [(name, _state(folder / name)) for name in names]
    return blake2b(repr(found).encode("utf-8", "surrogateescape"), digest_size=SIZE).hexdigest()


def _state(path: Path) -> tuple[int, int] | None:
    """Return the size and time of a file; None if it does not exist, or is a broken link."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns
