"""One dump from JSON and npy files to the columnar format or to packed tensors, and back.

Each conversion returns what it could not carry, by name with the reason. The source stays as it is.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import make_folder, read_input
from msprobe.base.log import join_names

from . import layout
from .columnar.records import journal_of, read_records, write_records
from .journal import Journal, assemble, encode, files_of
from .npy import examine, is_written_alike, load_npy, write_npy
from .reader import entries_of, json_object, read_file, tensor_file
from .record import Dump
from .stacks_and_construct import enclosing, stacks
from .tensor_pack.pack import Pack
from .tensor_pack.packed import find_packed, index_of, names_in
from .tensor_pack.plain import PlainPack
from .torch_files import examine_pt

Array = np.ndarray[Any, Any]

_BESIDE = (layout.STACK, layout.CONSTRUCT)

Lost = dict[str, str]
"""By the name of a tensor or file: why it was not carried, or is damaged as it was before."""


def to_columnar(file: Path, out: Path) -> Lost:
    """Write a dump.json or debug.json, and the other files of the dump, into the folder `out` as a columnar dump.

    What the format cannot represent is copied: npy files in forms that msprobe-ms does not write, tensors of torch, and
    other files in unknown forms. DumpError if the dump cannot be read; OSError.
    """
    folder = file.parent
    journal, rebuilt = journal_of_json(file)
    make_folder(out)
    write_records(out, journal, rebuilt)
    made = dict(files_of(folder, journal, rebuilt))
    for name in _BESIDE:
        if (folder / name).is_file() and ("".join(made.get(name, ())).encode("ascii") != read_input(folder / name)):
            shutil.copyfile(folder / name, out / name)
    into, lost = out / layout.TENSORS, Lost()
    pack: Pack | None = None
    for path, array in _arrays(folder, into, lost):
        pack = pack or Pack(into)
        pack.write_narrow(path, array)
    if pack is not None:
        pack.close()
    return _with_what_is_missing(out, lost)


def to_packed(file: Path, out: Path) -> Lost:
    """Write a dump.json or debug.json, and the other files of the dump, into the folder `out`, and its tensors into one
    file.

    Tensors of torch, and npy files in forms that msprobe-ms does not write, are copied. DumpError if a tensor cannot be
    read; OSError.
    """
    make_folder(out)
    _copy((file.name, *_BESIDE), file.parent, out)
    into, failed, lost = out / layout.TENSORS, dict[str, str](), Lost()
    pack: PlainPack | None = None
    for path, array in _arrays(file.parent, into, lost):
        pack = pack or PlainPack(into, failed)
        pack.write_now(path, array)
        if failed:
            raise OSError(f"{path}: cannot be written ({failed.popitem()[1]}); free some space")
    if pack is not None:
        pack.close()
    return _with_what_is_missing(out, lost)


def to_json(file: Path, out: Path) -> Lost:
    """Write a columnar or packed dump into the folder `out` as JSON and npy files.

    DumpError if the dump cannot be read; OSError.
    """
    folder = file.parent
    records = read_records(file) if file.name in layout.TABLES else None
    make_folder(out)
    tensors, into, lost = folder / layout.TENSORS, out / layout.TENSORS, Lost()
    if tensors.is_dir():
        make_folder(into)
        _unpack(tensors, into, lost)
    for tensor in _tensors(folder):
        _copy_tensor(tensor, into, lost)
    if records is not None:
        assemble(out, journal_of(records), rebuilt=records.above.lost_lines is not None)
    _copy((*(() if records else (file.name,)), *_BESIDE), folder, out)
    return _with_what_is_missing(out, lost)


def split(folder: Path, dump: Dump) -> int:
    """Put an npy file into the place of each tensor that the pack of a dump's folder holds; the pack goes at last.

    Returns how many; 0 without a pack. DumpError if a tensor cannot be read, or one that the dump names is not there;
    OSError. Then the pack stays as it was.
    """
    tensors = folder / layout.TENSORS
    if not os.path.lexists(tensors / layout.PACK_INDEX):
        return 0
    made, lost = folder / f"{layout.TENSORS}.part", Lost()
    shutil.rmtree(made, ignore_errors=True)  # left by a process that died here
    try:
        make_folder(made)
        names = _unpack(tensors, made, lost)
        for name in missing_tensors(dump):
            lost.setdefault(name, "the tensor is missing")
        if lost:
            raise DumpError(
                f"{len(lost)} entries cannot be converted: "
                f"{join_names([f'{name}: {why}' for name, why in lost.items()])}"
            )
        for name in names:
            if not os.path.lexists(tensors / name):  # else it goes before the pack already
                os.replace(made / name, tensors / name)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    os.unlink(tensors / layout.PACK_INDEX)
    os.unlink(tensors / layout.PACK)
    return len(names)


def missing_tensors(dump: Dump) -> list[str]:
    """Return the tensors that a dump names and that are neither files nor in its pack."""
    folder = Path(dump.folder, dump.tensors)
    packed = names_in(folder)
    missing = []
    for name in dict.fromkeys(filter(None, dump.columns.file)):
        try:
            if name not in packed and not tensor_file(dump.folder, name, dump.tensors).exists():
                missing.append(name)
        except DumpError:  # a name that leads elsewhere is not opened
            missing.append(name)
    return missing


def _with_what_is_missing(out: Path, lost: Lost) -> Lost:
    """Return what was lost, and what the new dump names and lacks; DumpError if it cannot be read."""
    dump = read_file(next(out / name for name in layout.DATA_FILES if (out / name).is_file()), structure=True)
    for name in missing_tensors(dump):
        lost.setdefault(name, "the tensor is missing")
    for name in _BESIDE:
        if (out / name).is_file():
            try:
                json_object(out / name)
            except DumpError as err:
                lost[name] = str(err)
    return lost


def is_packed(file: Path) -> bool:
    """Return whether the tensors of a dump.json or debug.json are in a pack, be it damaged."""
    tensors = file.parent / layout.TENSORS
    return any(os.path.lexists(tensors / name) for name in (layout.PACK, layout.PACK_INDEX))


def _unpack(tensors: Path, into: Path, lost: Lost) -> list[str]:
    """Write the tensors of a pack as npy files into another folder; return the names of those that were written."""
    _note_damaged_lines(tensors, lost)
    written = []
    for name in names_in(tensors):
        try:
            packed = find_packed(_checked(tensors, name), is_strict=True)
            assert packed is not None  # its index has the name
            array = packed.whole()
        except DumpError as err:
            if not os.path.lexists(tensors / name):  # else that file goes before the pack
                lost[name] = str(err)
            continue
        write_npy(str(into / name), array)
        written.append(name)
    return written


def _note_damaged_lines(tensors: Path, lost: Lost) -> None:
    if number := index_of(tensors).damaged:
        lost[layout.PACK_INDEX] = f"{number} line{'s are' if number > 1 else ' is'} damaged"


def _checked(tensors: Path, name: str) -> Path:
    if name in ("", ".", "..") or os.path.basename(name) != name or "\0" in name:
        raise DumpError(f"{tensors / layout.PACK_INDEX}: lists a tensor {name!r}, which is not a file name")
    return tensors / name


def _copy(names: Iterable[str], folder: Path, out: Path) -> None:
    for name in names:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)


def _arrays(folder: Path, into: Path, lost: Lost) -> Iterator[tuple[str, Array]]:
    """Return the tensors of a dump with their paths in another folder, to which all others are copied."""
    tensors = folder / layout.TENSORS
    _note_damaged_lines(tensors, lost)
    files = {path.name: path for path in _tensors(folder)}
    for name in names_in(tensors):
        try:
            files.setdefault(name, _checked(tensors, name))
        except DumpError as err:
            lost[name] = str(err)
    for name, path in files.items():
        make_folder(into)
        is_file = path.exists()
        if is_file and not _is_ours(path):
            _copy_tensor(path, into, lost)
            continue
        try:
            packed = None if is_file else find_packed(path, is_strict=True)
            array = load_npy(path) if packed is None else packed.whole()
        except DumpError as err:
            lost[name] = str(err)
            continue
        yield str(into / name), array


def _copy_tensor(tensor: Path, into: Path, lost: Lost) -> None:
    """Copy a file as it is, and note if it is damaged."""
    shutil.copyfile(tensor, into / tensor.name)
    try:
        examine_tensor(tensor)
    except DumpError as err:
        lost[tensor.name] = f"{err}; it was copied unchanged"


def examine_tensor(path: Path) -> tuple[int, ...] | None:
    """Return the shape of a whole file; None for torch's, which only torch can tell. DumpError if it is not whole."""
    if path.suffix == ".pt":
        examine_pt(path)
        return None
    return examine(path).shape


def _tensors(folder: Path) -> Iterator[Path]:
    """Return the files of tensors in the folder of a dump; what is not a plain file, or a link out of their folder, is
    left out."""
    tensors = folder / layout.TENSORS
    names = sorted(os.listdir(tensors)) if tensors.is_dir() else ()
    for name in names:
        path = tensors / name
        is_inside = not path.is_symlink() or os.path.dirname(os.path.realpath(path)) == os.path.realpath(tensors)
        if name not in (layout.PACK, layout.PACK_INDEX) and path.is_file() and is_inside:
            yield path


def _is_ours(tensor: Path) -> bool:
    try:
        return tensor.suffix == ".npy" and is_written_alike(tensor)
    except DumpError:  # a broken file is one of the facts about a dump
        return False


def journal_of_json(file: Path) -> tuple[Journal, bool]:
    """Return the journal that a dump.json could have been made of, text by text where this tool wrote it, and whether
    it was rebuilt from one. Another layout of the same values becomes ours."""
    folder = file.parent
    members, entries = entries_of(file)
    if not entries and "data" not in json_object(file):
        raise DumpError(f"{file}: has no object `data`, so it is not a dump; give the dump.json of a collected step")
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
