"""The reader: a dump on disk, ours or the other tool's, becomes values.

Formats 0 (no `format_version`) and 1 differ in what MAY be present, so one reader serves both. The statistics are
read without touching a tensor, and one tensor without the others.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.base.errors import DumpError
from msprobe.base.log import logger

from . import layout
from .beside import enclosing, stacks
from .document import json_object, json_object_or_empty
from .find import find
from .leaves import records
from .record import Call, Dump, Record

if TYPE_CHECKING:
    import numpy as np


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
    with _without_collector():
        return _read_file(file, structure, stack)


@contextmanager
def _without_collector() -> Iterator[None]:
    """No garbage collection for a while: everything made here lives on, and walking it again takes half the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read_file(file: Path, structure: bool, stack: str | Path | None) -> Dump:
    text = json_object(file)
    version = _version(text, file)
    data = text.get("data")
    if not isinstance(data, dict):
        raise DumpError(f"{file}: has no object `data`; this is no dump, give the dump.json of a collected step")
    task = _text(text, "task")
    if task == "structure" and not structure:
        raise DumpError(
            f"{file}: was collected with task `structure` and holds no records; collect again with task `statistics` "
            "or `tensor`"
        )
    folder = file.parent
    construct = enclosing(json_object_or_empty(folder / layout.CONSTRUCT))
    frames = stacks(json_object(Path(stack)) if stack else json_object_or_empty(folder / layout.STACK))
    missing, gaps = _missing(text)
    calls = tuple(_calls(file, data, construct, frames, gaps))
    run = text.get("run")
    run = run if isinstance(run, dict) else {}
    return Dump(
        where=str(file),
        folder=str(folder),
        task=task,
        level=_text(text, "level"),
        framework=_text(text, "framework") or _framework(calls),
        calls=calls,
        construct=construct,
        step=_index(run.get("step"), layout.step_number(folder.absolute().parent.name)),
        rank=_index(run.get("rank"), layout.rank_number(folder.absolute().name)),
        format_version=version,
        missing=missing,
        unfinished="its process died; it was rebuilt from the journal" if "rebuilt" in text else "",
    )


def load_tensor(dump: Dump, record: Record) -> "np.ndarray[Any, Any]":
    """The tensor of a record, in the dtype that was stored; DumpError when it is missing, broken or elsewhere."""
    from .npy import load_npy  # here: statistics are read without numpy, whose import takes 0.2 s

    return load_npy(tensor_path(dump, record))


def tensor_path(dump: Dump, record: Record) -> Path:
    """Where a record's tensor is; DumpError when it has none, or one that is not opened.

    Only npy files in the dump's own folder are opened, whatever the dump names.
    """
    name = record.file
    if not name:
        raise DumpError(f"{dump.where}: {record.name} has no tensor; collect with task `tensor` to compare elements")
    try:
        return tensor_file(dump.folder, name)
    except DumpError as err:
        raise DumpError(f"{dump.where}: {record.name}: {err}") from None


def tensor_file(dump: str | Path, name: str) -> Path:
    """Where the file `name` of a dump's folder is; DumpError where it is not opened."""
    folder = os.path.join(dump, layout.TENSORS)
    path = os.path.join(folder, name)
    if name.endswith(".pt"):
        raise DumpError(
            f"{path}: is a pickle of torch, which can run code and is never opened; collect with this tool, or store "
            "it with numpy.save and name the npy in dump.json"
        )
    if name in (".", "..") or os.path.basename(name) != name or "\0" in name or not _stays_in(path, folder):
        raise DumpError(f"its file {name!r} is outside {layout.TENSORS}; not opened")
    return Path(path)


def _stays_in(path: str, folder: str) -> bool:
    """Whether what `path` is, or links to, lies in `folder`; the folder itself may be a link to a larger disk."""
    return not os.path.islink(path) or os.path.dirname(os.path.realpath(path)) == os.path.realpath(folder)


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
    file: Path,
    data: dict[str, Any],
    construct: dict[str, str | None],
    frames: dict[str, tuple[str, ...]],
    gaps: dict[str, list[str]],
) -> list[Call]:
    made = []
    for name, entry in data.items():
        try:
            found = records(name, entry)
        except DumpError as err:
            raise DumpError(f"{file}: {err}") from None
        flags = entry if isinstance(entry, dict) else {}
        missing = flags.get("missing")
        parts = [part for part in missing if type(part) is str] if type(missing) is list else []
        if name in gaps:
            parts += [part for part in gaps[name] if part not in parts]
        made.append(
            Call(
                name, found, construct.get(name), frames.get(name, ()), tuple(parts), flags.get("is_recompute") is True
            )
        )
    return made


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


def _framework(calls: tuple[Call, ...]) -> str:
    """The framework that the first tensor names, for dumps that do not say theirs."""
    for call in calls:
        for record in call.records:
            for word, framework in (("mindspore", "mindspore"), ("torch", "pytorch")):
                if record.type.startswith(word):
                    return framework
    return ""


def _text(text: dict[str, Any], key: str) -> str:
    value = text.get(key)
    return value if type(value) is str else ""


def _index(told: Any, named: int | None) -> int | None:
    return told if type(told) is int and told >= 0 else named
