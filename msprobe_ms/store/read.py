"""The reader: a dump on disk, ours or the other tool's, becomes values.

Formats 0 (no `format_version`) and 1 differ in what MAY be present, so one reader serves both. The statistics are
read without touching a tensor, and one tensor without the others.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.base.collector import without_collector
from msprobe.base.errors import DumpError
from msprobe.base.log import logger

from . import layout
from .beside import enclosing, stacks
from .columns import Calls
from .document import json_object, json_object_or_empty
from .entries import NotPlainError, stream
from .find import find
from .folders import is_file
from .leaves import Leaves
from .record import Dump, Record

if TYPE_CHECKING:
    import numpy as np

_MADE_WITH = ("tool", "framework", "device", "python", "numpy")


def read(path: str | Path, *, structure: bool = False, stack: str | Path | None = None) -> Dump:
    """Read one step of one rank from its dump.json (or debug.json), its rank's folder, or a step with one rank.

    `structure` also accepts a dump of task `structure`, which has no records, only stacks and enclosing cells. `stack`
    is a stack.json that lies elsewhere. DumpError where nothing can be read, with what, where, and what to do.
    """
    file = find(Path(path))
    dump = read_file(file, structure=structure, stack=stack)
    if (file.parent / layout.JOURNAL).exists():
        dump = replace(dump, unfinished="its process still writes, or died")
    if dump.unfinished:
        logger.warning("%s: is unfinished (%s); calls may be missing at its end", file, dump.unfinished)
    if not dump.calls and not structure:
        logger.warning("%s: holds no calls; check `scope`, `list` and `step` of the run's configuration", file)
    return dump


def read_file(file: Path, *, structure: bool = False, stack: str | Path | None = None) -> Dump:
    """Read a dump.json (or debug.json) and what lies beside it, without a word about its journal."""
    with without_collector():
        return _read_file(file, structure, stack)


def _read_file(file: Path, structure: bool, stack: str | Path | None) -> Dump:
    text, leaves = _contents(file, structure)
    folder = file.parent
    construct = enclosing(json_object_or_empty(folder / layout.CONSTRUCT))
    frames = stacks(json_object(Path(stack)) if stack else json_object_or_empty(folder / layout.STACK))
    construct, frames = _with_texts_of(leaves.names, construct, frames)
    missing, gaps = _missing(text)
    calls = _calls(leaves, construct, frames, gaps)
    run = text.get("run")
    run = run if isinstance(run, dict) else {}
    settings = run.get("settings")
    return Dump(
        where=str(file),
        folder=str(folder),
        task=_text(text, "task"),
        level=_text(text, "level"),
        framework=_text(text, "framework") or _framework(calls),
        calls=calls,
        construct=construct,
        step=_index(run.get("step"), layout.step_number(folder.absolute().parent.name)),
        rank=_index(run.get("rank"), layout.rank_number(folder.absolute().name)),
        format_version=_version(text, file),
        missing=missing,
        run=_text(run, "id"),
        unfinished="its process died; it was rebuilt from the journal" if "rebuilt" in text else "",
        made_with={key: said for key in _MADE_WITH if (said := _text(run, key))},
        extra_info=not (isinstance(settings, dict) and settings.get("extra_info") is False),
    )


def _contents(file: Path, structure: bool) -> tuple[dict[str, Any], Leaves]:
    """What stands beside `data`, and the rows of `data`; entry by entry where that is possible."""
    leaves = Leaves()
    try:
        text = stream(file, leaves.add)
    except (NotPlainError, DumpError):
        return _whole(file, structure)
    if len(set(leaves.names)) < len(leaves.names):  # of two with one name only the last counts
        return _whole(file, structure)
    _check(file, text, structure)
    return text, leaves


def _whole(file: Path, structure: bool) -> tuple[dict[str, Any], Leaves]:
    """The same from the parsed whole: DumpError with what is wrong with it."""
    text = json_object(file)
    data = text.pop("data", None)
    _check(file, text, structure, has_data=type(data) is dict)
    leaves = Leaves()
    try:
        for name, entry in data.items():
            leaves.add(name, entry)
    except DumpError as err:
        raise DumpError(f"{file}: {err}") from None
    return text, leaves


def _check(file: Path, text: dict[str, Any], structure: bool, has_data: bool = True) -> None:
    _version(text, file)
    if not has_data:
        raise DumpError(f"{file}: has no object `data`; this is no dump, give the dump.json of a collected step")
    if _text(text, "task") == "structure" and not structure:
        raise DumpError(
            f"{file}: was collected with task `structure` and holds no records; collect again with task `statistics` "
            "or `tensor`"
        )


def load_tensor(dump: Dump, record: Record) -> "np.ndarray[Any, Any]":
    """The tensor of a record, in the dtype that was stored; DumpError when it is missing, broken or elsewhere."""
    return load_file(tensor_path(dump, record), as_dumped=not dump.tensors)


def load_file(path: Path, *, as_dumped: bool = False) -> "np.ndarray[Any, Any]":
    """The tensor in an npy, or in a `.pt`, which needs torch; DumpError when it is missing or broken.

    `as_dumped`: the framework wrote the npy, and its header is not always numpy's.
    """
    # Here: statistics are read without numpy, whose import takes 0.2 s.
    if path.suffix == ".pt":
        from .pt import load_pt

        return load_pt(path)
    if as_dumped:
        from .kernel_npy import load

        return load(path).array
    from .npy import load_npy

    return load_npy(path)


def tensor_path(dump: Dump, record: Record) -> Path:
    """Where a record's tensor is; DumpError when it has none, or one that is not opened.

    Only files in the dump's own folder are opened, whatever the dump names.
    """
    name = record.file
    if not name:
        raise DumpError(f"{dump.where}: {record.name} has no tensor; collect with task `tensor` to compare elements")
    try:
        return tensor_file(dump.folder, name, dump.tensors)
    except DumpError as err:
        raise DumpError(f"{dump.where}: {record.name}: {err}") from None


def tensor_file(dump: str | Path, name: str, tensors: str = layout.TENSORS) -> Path:
    """Where the file `name` of a dump's folder is; DumpError where it is not opened. `tensors` as in `Dump`."""
    folder = os.path.join(dump, tensors)
    path = os.path.join(folder, name)
    if not tensors:
        if not _lies_below(folder, name):
            raise DumpError(f"its file {name!r} is outside {folder}, or no plain file there; not opened")
    elif name in (".", "..") or os.path.basename(name) != name or "\0" in name or not _stays_in(path, folder):
        raise DumpError(f"its file {name!r} is outside {layout.TENSORS}; not opened")
    return Path(path)


def _stays_in(path: str, folder: str) -> bool:
    """Whether what `path` is, or links to, lies in `folder`; the folder itself may be a link to a larger disk."""
    return not os.path.islink(path) or os.path.dirname(os.path.realpath(path)) == os.path.realpath(folder)


def _lies_below(folder: str, name: str) -> bool:
    """Whether a relative path stays below `folder`, through no link, and leads to no pipe or device."""
    parts = name.split("/")
    if "\0" in name or not {"", ".", ".."}.isdisjoint(parts):
        return False
    path = folder
    for part in parts:
        path = os.path.join(path, part)
        if os.path.islink(path):
            return False
    return is_file(Path(path)) or not os.path.lexists(path)


def _version(text: dict[str, Any], file: Path) -> int:
    version = text.get("format_version", 0)
    if type(version) is not int or version < 0:
        raise DumpError(f"{file}: its format_version is {str(version)[:40]!r}, not a number; the file is damaged")
    if version > layout.FORMAT_VERSION:
        raise DumpError(
            f"{file}: has format {version}, and this msprobe reads up to {layout.FORMAT_VERSION}; install a newer one"
        )
    return version


def _calls(
    leaves: Leaves,
    construct: dict[str, str | None],
    frames: dict[str, tuple[str, ...]],
    gaps: dict[str, list[str]],
) -> Calls:
    columns, missing = leaves.columns(), leaves.missing
    lost: dict[int, tuple[str, ...]] = {}
    for place, name in enumerate(columns.names) if gaps else ():
        if name in gaps:
            own = missing.get(place, [])
            missing[place] = own + [part for part in gaps[name] if part not in own]
            lost[place] = tuple(gaps[name])
    told = {place: tuple(parts) for place, parts in missing.items() if parts}
    return Calls(columns, construct, frames, told, frozenset(leaves.recomputed), lost)


def _with_texts_of(
    names: list[str], construct: dict[str, str | None], frames: dict[str, tuple[str, ...]]
) -> tuple[dict[str, str | None], dict[str, tuple[str, ...]]]:
    """The same maps with each name kept once in memory: names are a quarter of a dump."""
    once: dict[str | None, str] = {name: name for name in names}
    for name in construct:
        once.setdefault(name, name)
    return (
        {once[name]: once.get(parent, parent) for name, parent in construct.items()},
        {once.get(name, name): stack for name, stack in frames.items()},
    )


def _missing(text: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """What could not be collected, as sentences and as call -> parts."""
    said: list[str] = []
    gaps: dict[str, list[str]] = {}
    items = text.get("missing")
    for item in items if type(items) is list else []:
        if type(item) is not dict:
            continue
        name, part, cause = (_text(item, key) for key in ("name", "part", "cause"))
        gaps.setdefault(name, []).append(part)
        said.append(f"{name} {part}: {cause}" if part else f"{name}: {cause}")
    rebuilt = text.get("rebuilt")
    if type(rebuilt) is dict:
        lost = rebuilt.get("lost_lines")
        if type(lost) is int and lost > 0:
            said.append(f"{lost} lines of its journal could not be read")
    return tuple(said), gaps


def _framework(calls: Calls) -> str:
    """The framework that the first tensor names, for dumps that do not say theirs."""
    columns = calls.columns
    known = {}
    for number, (kind, _, _) in enumerate(columns.looks):
        for word, framework in (("mindspore", "mindspore"), ("torch", "pytorch")):
            if kind.startswith(word):
                known[number] = framework
    return next((known[look] for look in columns.look if look in known), "")


def _text(text: dict[str, Any], key: str) -> str:
    value = text.get(key)
    return value if type(value) is str else ""


def _index(told: Any, named: int | None) -> int | None:
    return told if type(told) is int and told >= 0 else named
