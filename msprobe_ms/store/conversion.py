"""One dump from JSON and npy files to the columnar format, and back."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError
from msprobe.base.files import make_folder, read_input

from . import layout
from .columnar.records import journal_of, read_records, write_records
from .journal import Journal, assemble, encode, files_of
from .npy import is_written_alike, load_npy, write_npy
from .reader import entries_of, json_object
from .stacks_and_construct import enclosing, stacks
from .tensor_pack.pack import Pack
from .tensor_pack.packed import find_packed, names_in

_BESIDE = (layout.STACK, layout.CONSTRUCT)


def to_columnar(file: Path, out: Path) -> None:
    """Write a dump.json or debug.json, and what lies beside it, into the folder `out` as a columnar dump.

    What the format cannot hold as it is, is copied: npy files that others wrote in a form of their own, tensors of
    torch, and what lies beside the dump in a form of its own. DumpError where the dump cannot be read; OSError.
    """
    folder = file.parent
    journal, rebuilt = _journal_of_json(file)
    make_folder(out)
    write_records(out, journal, rebuilt)
    made = dict(files_of(folder, journal, rebuilt))
    for name in _BESIDE:
        if (folder / name).is_file() and ("".join(made.get(name, ())).encode("ascii") != read_input(folder / name)):
            shutil.copyfile(folder / name, out / name)
    pack: Pack | None = None
    for tensor in _tensors(folder):
        into = out / layout.TENSORS
        make_folder(into)
        if not _is_ours(tensor):
            shutil.copyfile(tensor, into / tensor.name)
            continue
        if pack is None:
            pack = Pack(into)
        pack.write_narrow(str(into / tensor.name), load_npy(tensor))


def to_json(file: Path, out: Path) -> None:
    """Write the table of a columnar dump, and its tensors, into the folder `out` as JSON and npy files.

    DumpError where the dump cannot be read; OSError.
    """
    folder = file.parent
    records = read_records(file)
    make_folder(out)
    tensors, into = folder / layout.TENSORS, out / layout.TENSORS
    if tensors.is_dir():
        make_folder(into)
    for name in names_in(tensors):
        if name in ("", ".", "..") or os.path.basename(name) != name or "\0" in name:
            raise DumpError(f"{tensors / layout.PACK_INDEX}: names a tensor {name!r}, which is no name of a file")
        packed = find_packed(tensors / name)
        if packed is not None:
            write_npy(str(into / name), packed.whole())
    for tensor in _tensors(folder):
        shutil.copyfile(tensor, into / tensor.name)
    assemble(out, journal_of(records), rebuilt=records.above.lost_lines is not None)
    for name in _BESIDE:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)


def _tensors(folder: Path) -> Iterator[Path]:
    """The files of tensors beside a dump; what is no plain file is left out."""
    tensors = folder / layout.TENSORS
    names = sorted(os.listdir(tensors)) if tensors.is_dir() else ()
    for name in names:
        path = tensors / name
        if name not in (layout.PACK, layout.PACK_INDEX) and path.is_file() and not path.is_symlink():
            yield path


def _is_ours(tensor: Path) -> bool:
    try:
        return tensor.suffix == ".npy" and is_written_alike(tensor)
    except DumpError:  # a broken file is one of the facts about a dump
        return False


def _journal_of_json(file: Path) -> tuple[Journal, bool]:
    """The journal that a dump.json could have been made of, text by text where this tool wrote it, and whether it was
    rebuilt from one. Another layout of the same values becomes ours."""
    folder = file.parent
    members, entries = entries_of(file)
    if not entries and "data" not in json_object(file):
        raise DumpError(f"{file}: has no object `data`; this is no dump, give the dump.json of a collected step")
    rebuilt = members.pop("rebuilt", None)
    missing = members.pop("missing", [])
    journal = Journal(header=members, missing=[encode(item) for item in missing])
    journal.extra_info = any((folder / name).is_file() for name in _BESIDE)
    if isinstance(rebuilt, dict) and isinstance(lost := rebuilt.get("lost_lines"), int):
        journal.malformed = lost
    _add_beside(journal, folder)
    journal.entries = {name: [encode(entry)] for name, entry in entries.items()}
    return journal, rebuilt is not None


def _add_beside(journal: Journal, folder: Path) -> None:
    construct, stack = (_object_beside(folder / name) for name in (layout.CONSTRUCT, layout.STACK))
    if all(parent is None or type(parent) is str for parent in construct.values()):
        journal.parents = construct
    else:
        journal.parents = enclosing(construct)
    numbers: dict[str, int] = {}
    for name, frames in stacks(stack).items():
        text = encode(list(frames))
        number = numbers.setdefault(text, len(numbers))
        journal.stacks[number] = text
        journal.stack_of[name] = number


def _object_beside(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return json_object(path)
    except DumpError:  # broken: it is copied as it is, and read without
        return {}
