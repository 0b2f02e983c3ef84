"""One dump from JSON and npy files to the columnar format or to packed tensors, and back."""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

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
from .tensor_pack.plain import PlainPack

Array = np.ndarray[Any, Any]

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
    into = out / layout.TENSORS
    pack: Pack | None = None
    for path, array in _arrays(folder, into):
        pack = pack or Pack(into)
        pack.write_narrow(path, array)
    if pack is not None:
        pack.close()


def to_packed(file: Path, out: Path) -> None:
    """Write a dump.json or debug.json, and what lies beside it, into the folder `out`, and its tensors into one file.

    Tensors of torch and npy files that others wrote in a form of their own are copied. DumpError where a tensor cannot
    be read; OSError.
    """
    make_folder(out)
    _copy((file.name, *_BESIDE), file.parent, out)
    into, failed = out / layout.TENSORS, dict[str, str]()
    pack: PlainPack | None = None
    for path, array in _arrays(file.parent, into):
        pack = pack or PlainPack(into, failed)
        pack.write_now(path, array)
        if failed:
            raise OSError(f"{path}: cannot be written ({failed.popitem()[1]}); free some space")
    if pack is not None:
        pack.close()


def to_json(file: Path, out: Path) -> None:
    """Write a columnar or packed dump into the folder `out` as JSON and npy files.

    DumpError where the dump cannot be read; OSError.
    """
    folder = file.parent
    records = read_records(file) if file.name in layout.TABLES else None
    make_folder(out)
    tensors, into = folder / layout.TENSORS, out / layout.TENSORS
    if tensors.is_dir():
        make_folder(into)
        _unpack(tensors, into)
    for tensor in _tensors(folder):
        shutil.copyfile(tensor, into / tensor.name)
    if records is not None:
        assemble(out, journal_of(records), rebuilt=records.above.lost_lines is not None)
    _copy((*(() if records else (file.name,)), *_BESIDE), folder, out)


def split(folder: Path) -> int:
    """Put an npy file into the place of each tensor that the pack of a dump's folder holds; the pack goes at last.

    Returns how many; 0 without a pack. DumpError where a tensor cannot be read, OSError; then the dump stays as it was.
    """
    tensors = folder / layout.TENSORS
    if not names_in(tensors):
        return 0
    made = folder / f"{layout.TENSORS}.part"
    shutil.rmtree(made, ignore_errors=True)  # what a process that died here left
    try:
        make_folder(made)
        names = _unpack(tensors, made)
        for name in names:
            if not os.path.lexists(tensors / name):  # else it goes before the pack already
                os.replace(made / name, tensors / name)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    os.unlink(tensors / layout.PACK_INDEX)
    os.unlink(tensors / layout.PACK)
    return len(names)


def is_packed(file: Path) -> bool:
    """Whether the tensors of a dump.json or debug.json lie in a pack."""
    return bool(names_in(file.parent / layout.TENSORS))


def _unpack(tensors: Path, into: Path) -> list[str]:
    """Write the tensors of a pack as npy files into another folder; their names."""
    names = list(names_in(tensors))
    for name in names:
        packed = find_packed(_checked(tensors, name))
        if packed is not None:
            write_npy(str(into / name), packed.whole())
    return names


def _checked(tensors: Path, name: str) -> Path:
    if name in ("", ".", "..") or os.path.basename(name) != name or "\0" in name:
        raise DumpError(f"{tensors / layout.PACK_INDEX}: names a tensor {name!r}, which is no name of a file")
    return tensors / name


def _copy(names: Iterable[str], folder: Path, out: Path) -> None:
    for name in names:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)


def _arrays(folder: Path, into: Path) -> Iterator[tuple[str, Array]]:
    """The tensors of a dump with their paths in another folder, to which all others are copied."""
    tensors = folder / layout.TENSORS
    files = {path.name: path for path in _tensors(folder)}
    for name in names_in(tensors):
        files.setdefault(name, _checked(tensors, name))
    for name, path in files.items():
        make_folder(into)
        if path.exists() and not _is_ours(path):
            shutil.copyfile(path, into / name)
        else:
            yield str(into / name), load_npy(path)


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
