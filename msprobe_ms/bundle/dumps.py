"""Which files of a side are packed, and what of them: dumps as JSON with npy files, saves and kernels file by file.

A dump is read twice: first its texts are noted (`read_texts`), then it is written without what `privacy` replaces
(`write_side`). Columnar and packed dumps and tensors of torch become JSON and npy files. Names of calls, of
parameters and of what they are made of are written as they are, for they are what is compared.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import open_input, open_text, safe_name
from msprobe.compare.jobs.plan import Place, Side
from msprobe.store import layout
from msprobe.store.conversion import is_packed
from msprobe.store.folders import TREES, walk
from msprobe.store.kernel_dump.files import MAPPING
from msprobe.store.kernel_dump.values import STATISTIC
from msprobe.store.npy import write_npy
from msprobe.store.reader import beside, entries_of, json_object, load_file, tensor_file

from .privacy import Privacy

Array = np.ndarray[Any, Any]

_KEPT_ABOVE = ("task", "level", "framework", "format_version", "rebuilt")
_KEPT_OF_RUN = ("tool", "framework", "device", "python", "numpy", "step", "rank", "stage", "layout", "frozen", "model")
_KEPT_IN_RECORD = ("type", "dtype", "md5", "gradient", "from", "class_type", "op", "group_id")
_LITERAL = ("slice", "ellipsis", "uninitialized")
_NAMES_A_PLACE = re.compile(rf"step\d+|rank\d*|proc\d+|{'|'.join(TREES)}")
_ABOVE_KERNELS = re.compile(r"(?:rank|step)_\d+")
_MOST_ABOVE = 4  # folders above a path that tell its step, rank, network and graph


@dataclass
class Tensors:
    """Copies tensors into the folder of a packed dump, or leaves them out.

    `mode` is `none`, `original` or `scrambled`. Scrambled tensors with the same number of elements have the same
    permutation. `copied` and `skipped` count tensors; `left_out` has those that could not be read.
    """

    mode: str = "none"
    left_out: dict[str, str] = field(default_factory=dict)
    copied: int = 0
    skipped: int = 0

    def __post_init__(self) -> None:
        self._permutation = lru_cache(8)(self._permuted)
        self._seed = secrets.randbits(128)

    def _permuted(self, size: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
        return np.random.default_rng([self._seed, size]).permutation(size)

    def scrambled(self, array: Array) -> Array:
        """Return the elements in another order, in the same shape."""
        flat = np.ascontiguousarray(array).reshape(-1)
        made: Array = flat[self._permutation(flat.size)].reshape(array.shape)
        return made

    def copy(self, file: Path, into: Path, where: str, *, as_dumped: bool = False) -> None:
        """Write a tensor as npy; one that cannot be read is noted as left out."""
        try:
            array = load_file(file, as_dumped=as_dumped)
        except DumpError as err:
            self.left_out[where] = str(err)
            return
        into.parent.mkdir(parents=True, exist_ok=True)
        write_npy(str(into), self.scrambled(array) if self.mode == "scrambled" else array)
        self.copied += 1


@dataclass(frozen=True)
class Packed:
    """A side as it is packed: its name, what it holds, the files of its dumps with the folders that they go to, and the
    path of the side within its folder."""

    name: str
    side: Side
    dumps: Mapping[Path, str]
    within: str
    empty: tuple[str, ...] = ()

    @property
    def is_of_dumps(self) -> bool:
        """Return whether this side holds dumps, and not single files of tensors."""
        return self.side.family == "dump"


def packed_side(name: str, side: Side, is_chosen: Callable[[Place], bool]) -> Packed:
    """Return what of a side is packed: the places that are chosen.

    UsageError for a dump whose process has not closed it: its journal is not packed.
    """
    above = _above(side)
    root = side.path if side.path.is_dir() else side.path.parent
    folder_above = above if side.path.is_dir() else above.parent
    places = {place: source for place, source in side.places.items() if is_chosen(place)}
    dumps: dict[Path, str] = {}
    for source in places.values():
        for path in source.paths:
            if side.family == "dump" and path.is_dir():
                raise UsageError(f"{path}: contains an unfinished dump; run `msprobe doctor {path}` first")
            folder = path.parent if side.family == "dump" else path
            dumps[path] = (folder_above / os.path.relpath(folder, root)).as_posix()
    empty = tuple(
        (folder_above / os.path.relpath(path, root)).as_posix()
        for place, path in side.empty.items()
        if is_chosen(place)
    )
    within = above if side.path.is_dir() else above.parent / _written_name(side.path.name)
    return Packed(name, side, dumps, "" if within == Path() else within.as_posix(), empty)


def _above(side: Side) -> Path:
    """Return the last folders of a path that tell a step, a rank or a graph; a reader looks at their names."""
    path = side.path
    parts = path.absolute().parts
    tail = (path.name,) if not path.is_dir() else ()
    folders = parts[1 : len(parts) - len(tail)]
    kept: list[str] = []
    if side.family == "kernels":
        near = folders[-_MOST_ABOVE:]
        at = next((at for at, name in enumerate(near) if _ABOVE_KERNELS.fullmatch(name)), len(near))
        kept = list(near[at:])
    else:
        for name in reversed(folders[-_MOST_ABOVE:]):
            if not _NAMES_A_PLACE.fullmatch(name):
                break
            kept.insert(0, name)
    return Path(*kept, *tail)


def _written_name(name: str) -> str:
    return {layout.DUMP_TABLE: layout.DUMP, layout.DEBUG_TABLE: layout.DEBUG}.get(name, name)


def format_of(packed: Packed) -> str:
    """Return how the dumps of a side are stored: `json`, `packed`, `columnar`, or the kind of files that they are."""
    if not packed.is_of_dumps:
        return packed.side.family
    return " and ".join(sorted({_format_of(file) for file in packed.dumps}))


def _format_of(file: Path) -> str:
    return "columnar" if file.name in layout.TABLES else "packed" if is_packed(file) else "json"


def read_texts(packed: Packed, privacy: Privacy) -> None:
    """Note the texts of all dumps of a side. A dump that cannot be read is passed over here."""
    if not packed.is_of_dumps:
        return
    noted = _Walk(privacy.see_argument, privacy.see, lambda name: None)
    for file in packed.dumps:
        try:
            members, entries = entries_of(file)
            for _, frames in _stack_groups(file):
                for frame in frames:
                    privacy.see_frame(frame, packed.name)
        except (DumpError, OSError):
            continue
        for key, value in members.items():
            if key not in _KEPT_ABOVE:
                privacy.see_setting(key, value)
        for entry in entries.values():
            noted.entry(entry)


def write_side(packed: Packed, folder: Path, privacy: Privacy, tensors: Tensors) -> dict[str, str]:
    """Write a side into `folder / name`. Return what was left out, with the reason."""
    root, left_out = folder / packed.name, dict[str, str]()
    for inner in packed.empty:
        (root / inner).mkdir(parents=True, exist_ok=True)
    (root / packed.within if packed.side.path.is_dir() else root).mkdir(parents=True, exist_ok=True)
    for path, inner in packed.dumps.items():
        into = root / inner
        into.mkdir(parents=True, exist_ok=True)
        where = f"{packed.name}/{inner}".removesuffix("/.")
        if packed.is_of_dumps:
            _write_dump(path, into, where, packed.name, privacy, tensors, left_out)
        else:
            _write_files(packed, path, into, where, privacy, tensors)
    return left_out


def _write_dump(
    file: Path, into: Path, where: str, side: str, privacy: Privacy, tensors: Tensors, left_out: dict[str, str]
) -> None:
    name = _written_name(file.name)
    try:
        members, entries = entries_of(file)
    except DumpError as err:
        left_out[f"{where}/{name}"] = privacy.output(str(err))
        return
    copied: dict[str, str] = {}

    def tensor(data_name: str) -> str | None:
        if tensors.mode == "none":
            tensors.skipped += 1
            return None
        if data_name not in copied:
            copied[data_name] = _copy_tensor(file.parent, data_name, into, where, privacy, tensors)
        return copied[data_name]

    cleaned = _Walk(privacy.argument, privacy.key, tensor)
    above = {key: _above_data(key, value, privacy) for key, value in members.items()}
    _write_json(into / name, {**above, "data": {call: cleaned.entry(entry) for call, entry in entries.items()}})
    try:
        _write_beside(file, into, side, privacy)
    except DumpError as err:
        left_out[f"{where}/{layout.STACK} or {layout.CONSTRUCT}"] = privacy.output(str(err))
    if (file.parent / layout.JOURNAL).exists():
        (into / layout.JOURNAL).touch()  # a reader only looks whether it is there
    left_out.update({key: privacy.output(why) for key, why in tensors.left_out.items()})


def _write_beside(file: Path, into: Path, side: str, privacy: Privacy) -> None:
    """Write the call stacks and enclosing cells of a dump. A debug.json in the same folder has the same files, or, of a
    columnar dump, adds to them."""
    groups = [(calls, [privacy.frame(frame, side) for frame in frames]) for calls, frames in _stack_groups(file)]
    construct = _construct(file)
    stack_file, construct_file = into / layout.STACK, into / layout.CONSTRUCT
    if file.name in layout.TABLES and stack_file.exists():
        groups = [*((calls, frames) for calls, frames in json_object(stack_file).values()), *groups]
        stack_file.unlink()
    if file.name in layout.TABLES and construct_file.exists():
        construct = {**json_object(construct_file), **(construct or {})}
        construct_file.unlink()
    if groups and not stack_file.exists():
        _write_json(stack_file, {str(at): group for at, group in enumerate(groups)})
    if construct is not None and not construct_file.exists():
        _write_json(construct_file, construct)


def _copy_tensor(folder: Path, name: str, into: Path, where: str, privacy: Privacy, tensors: Tensors) -> str:
    """Copy a tensor that a record names; return the name in the packed dump."""
    new = name.removesuffix(layout.PT) + layout.NPY if name.endswith(layout.PT) else name
    if privacy.text(new) != new:
        new = safe_name(privacy.text(new).replace("/", "_"))
    entry = f"{where}/{layout.TENSORS}/{new}"
    try:
        file = tensor_file(folder, name)
    except DumpError as err:  # the name leads out of the folder; so it does for the reader of the bundle
        tensors.left_out[entry] = str(err)
        return name
    if not new.endswith(layout.NPY):
        tensors.left_out[entry] = "is neither an npy nor a pt file"
        return new
    tensors.copy(file, into / layout.TENSORS / new, entry)
    return new


def _above_data(key: str, value: object, privacy: Privacy) -> object:
    if key in _KEPT_ABOVE:
        return value
    if key == "dump_data_dir":
        return None
    if key == "run" and isinstance(value, dict):
        return {
            name: each
            if name in _KEPT_OF_RUN
            else privacy.run(str(each))
            if name == "id"
            else privacy.setting(name, each)
            for name, each in value.items()
        }
    if key == "missing" and isinstance(value, list):
        return [
            {name: each if name in ("name", "part") else privacy.setting(name, each) for name, each in item.items()}
            if isinstance(item, dict)
            else item
            for item in value
        ]
    return privacy.setting(key, value)


class _Walk:
    """Walks over entries of a dump and returns them with each argument, and each key of a dict among these, changed.

    `tensor` returns the new `data_name` of a tensor, None to leave it out.
    """

    def __init__(
        self, argument: Callable[[str], str], key: Callable[[str], str], tensor: Callable[[str], str | None]
    ) -> None:
        self._argument, self._key, self._tensor = argument, key, tensor

    def entry(self, entry: Any) -> Any:
        """Return an entry, whose `missing` are names of its parts."""
        if type(entry) is not dict or type(entry.get("type")) is str:
            return self._node(entry)
        return {
            key: value
            if key in ("missing", "at")
            else {name: self._node(each) for name, each in value.items()}
            if key == "parameters" and type(value) is dict
            else self._node(value)
            for key, value in entry.items()
        }

    def _node(self, node: Any) -> Any:
        kind = type(node)
        if kind is dict:
            if type(node.get("type")) is str or "data_name" in node or "class_type" in node:
                return self._record(node)
            made = {self._key(key): self._node(value) for key, value in node.items()}
            # Two keys that became one would lose a value.
            return made if len(made) == len(node) else {key: self._node(value) for key, value in node.items()}
        if kind is list:
            return [self._node(each) for each in node]
        return self._argument(node) if kind is str else node

    def _record(self, record: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        word = record.get("type")
        is_literal = type(word) is str and (word in _LITERAL or word.endswith("dtype"))
        for key, value in record.items():
            kind = type(value)
            is_kept = key in _KEPT_IN_RECORD or (key == "value" and is_literal)
            if key == "data_name" and kind is str:
                if (name := self._tensor(value)) is not None:
                    made[key] = name
            elif is_kept or (kind is not str and kind is not dict and kind is not list):
                made[key] = value
            else:
                made[key] = self._argument(value) if kind is str else self._node(value)
        return made


def _stack_groups(file: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the calls that share a call stack, and its frames."""
    if file.name in layout.TABLES:
        shared: dict[tuple[str, ...], list[str]] = {}
        for call, frames in beside(file)[1].items():
            shared.setdefault(frames, []).append(call)
        yield from ((calls, list(frames)) for frames, calls in shared.items())
        return
    path = file.parent / layout.STACK
    if not path.exists():
        return
    for key, group in json_object(path).items():
        if type(group) is not list:
            continue
        if len(group) == 2 and type(group[0]) is type(group[1]) is list:
            names, frames_found = group
        else:
            names, frames_found = [key], group
        yield [n for n in names if type(n) is str], [frame for frame in frames_found if type(frame) is str]


def _construct(file: Path) -> dict[str, Any] | None:
    if file.name in layout.TABLES:
        return dict(beside(file)[0])
    path = file.parent / layout.CONSTRUCT
    return json_object(path) if path.exists() else None


def _write_json(path: Path, made: Mapping[str, Any]) -> None:
    with open(path, "x", encoding="ascii") as file:
        # One line for each member and each call, so that the file can be searched by line.
        file.write("{")
        for at, (key, value) in enumerate(made.items()):
            file.write(f"{',' if at else ''}\n{json.dumps(key)}: ")
            if key == "data" and isinstance(value, dict):
                file.write("{")
                for number, (name, entry) in enumerate(value.items()):
                    file.write(f"{',' if number else ''}\n {json.dumps(name)}: {_compact(entry)}")
                file.write("\n}")
            else:
                file.write(_compact(value))
        file.write("\n}\n")


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _write_files(packed: Packed, folder: Path, into: Path, where: str, privacy: Privacy, tensors: Tensors) -> None:
    """Copy the tensors of saves or of a kernel dump, and the texts that tell what they are."""
    is_single, is_kernel = packed.side.family == "single saves", packed.side.family == "kernels"
    for found in walk(folder):
        for name in found.files:
            file, target = found.path / name, into / os.path.relpath(found.path, folder) / name
            entry = f"{where}/{target.relative_to(into).as_posix()}"
            if target.exists():  # folders of several places may be inside each other
                continue
            if name.endswith(layout.NPY):
                if is_kernel and tensors.mode == "original":
                    target.parent.mkdir(parents=True, exist_ok=True)  # not every header there is numpy's
                    with open_input(file) as source, open(target, "xb") as copy:
                        shutil.copyfileobj(source, copy)
                else:
                    tensors.copy(file, target, entry, as_dumped=is_kernel)
            elif name in (STATISTIC, MAPPING, layout.SAVES) or (is_single and name.endswith(".json")):
                target.parent.mkdir(parents=True, exist_ok=True)
                with open_text(file) as lines, open(target, "x", encoding="utf-8", errors="replace") as copy_of_text:
                    for line in lines:
                        text = line.rstrip("\n")
                        copy_of_text.write(privacy.output(text) + line[len(text) :])
