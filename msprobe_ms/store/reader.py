"""The reader: a dump on disk, ours or the other tool's, becomes values.

Formats 0 (no `format_version`) and 1 differ in what MAY be present, so one reader serves both. The statistics are
read without touching a tensor, and one tensor without the others.

The entries of a dump.json are parsed one after the other (`stream`), so that the parsed whole never is in memory. Only
a plain file is read this way: any other, a broken one above all, is parsed as a whole (`json_object`), which says what
is wrong with it.
"""

import codecs
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.log import join_names, logger
from msprobe.base.memory import check_fits_in_memory, without_gc

from . import layout
from .flatten import ColumnsBuilder
from .folders import NAMED, is_file, is_golden, numbered
from .record import Call, Calls, Dump, Record
from .stacks_and_construct import enclosing, stacks

if TYPE_CHECKING:
    import numpy as np

    from .columnar.load import Table, TableColumns


def other_ranks(dump: Dump) -> list[Path]:
    """Return the folders of the other ranks of a dump's step."""
    own = Path(dump.folder)
    return [folder for folder in sorted(own.parent.glob("rank*")) if folder != own]


def find(path: Path) -> Path:
    """Return the `dump.json`, `debug.json` or table that `path` means; DumpError, with what is there, where it means
    none."""
    try:
        if is_golden(path):
            from .golden import dump_of  # here: most dumps are folders

            file = _in_folder(dump_of(path))
        elif path.is_file():
            file = path
        elif path.is_dir():
            file = _in_folder(path)
        else:
            raise DumpError(f"{path}: no such file or folder; give a dump.json or the folder that contains it")
    except (OSError, ValueError) as err:  # ValueError: a path that no file can have
        raise DumpError(f"{path}: cannot be opened ({err}); check the path and its permissions") from err
    if file.name == layout.JOURNAL:
        raise DumpError(_unfinished(file.parent))
    return file


def _in_folder(folder: Path) -> Path:
    for name in layout.DATA_FILES:
        if (folder / name).is_file():
            return folder / name
    if (folder / layout.JOURNAL).is_file():
        raise DumpError(_unfinished(folder))
    inner = [entry.name for entry in folder.iterdir() if entry.is_dir()]
    ranks = numbered(inner, layout.rank_number)
    if len(ranks) == 1:
        return _in_folder(folder / ranks[0])
    if ranks:
        raise DumpError(f"{folder}: contains {len(ranks)} ranks; give one of {join_names(ranks, NAMED)}")
    if steps := numbered(inner, layout.step_number):
        raise DumpError(f"{folder}: contains steps; give one of {join_names(steps, NAMED)}")
    hint = f"; it contains the folders {join_names(sorted(inner), NAMED)}" if inner else ""
    raise DumpError(f"{folder}: contains no {layout.DUMP}{hint}; give the folder of a step or of a rank")


def _unfinished(folder: Path) -> str:
    return (
        f"{folder}: contains only the journal of an unfinished dump; run `msprobe doctor {folder}` to make it readable"
    )


def may_have_halves(text: str, start: int = 0, end: int | None = None) -> bool:
    """Return whether a JSON text may contain a lone surrogate."""
    if (first := text.find("\\", start, end)) < 0:  # nearly always; one character is found much faster than three
        return False
    return text.find("\\ud", first, end) >= 0 or text.find("\\uD", first, end) >= 0


def with_whole_characters(made: Any) -> Any:
    """Replace unpaired surrogates, which cannot be encoded, with question marks."""
    return json.loads(json.dumps(made, ensure_ascii=False).encode("utf-8", "replace").decode())


def json_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file; DumpError with the place where it is broken."""
    try:
        with open_input(file) as opened:
            check_fits_in_memory(opened, file)
            text = opened.read().decode("utf-8-sig")
        made = json.loads(text)
        if may_have_halves(text):
            made = with_whole_characters(made)
    except OSError as err:
        raise DumpError(f"{file}: cannot be read ({err.strerror or err}); check the path and its permissions") from err
    except json.JSONDecodeError as err:
        if not text.strip():
            raise DumpError(
                f"{file}: is empty; its process died, look for a {layout.JOURNAL} in the same folder"
            ) from None
        raise DumpError(
            f"{file}: is not valid JSON at line {err.lineno}, column {err.colno} ({err.msg}); copy it again, or "
            "collect again"
        ) from None
    except RecursionError:
        raise DumpError(f"{file}: is nested too deeply; the file is damaged") from None
    except MemoryError:
        raise DumpError(f"{file}: does not fit into the memory of this machine; use a larger machine") from None
    except ValueError as err:  # no UTF-8, or a number of thousands of digits
        raise DumpError(f"{file}: is not valid JSON ({err}); give the dump.json of a collected step") from err
    if not isinstance(made, dict):
        raise DumpError(f"{file}: does not contain a JSON object; give the dump.json of a collected step")
    return made


def json_object_or_empty(file: Path) -> dict[str, Any]:
    """Return the object in an optional file; a broken one is logged and left out."""
    if not file.exists():
        return {}
    try:
        return json_object(file)
    except DumpError as err:
        logger.warning("%s; it is ignored", err)
        return {}


_PIECE = 1 << 20  # bytes
_TAIL = 1 << 14  # characters
_MAX_ENTRY_LENGTH = 1 << 30  # characters of one entry; whatever has a longer one is no dump
_SPACE = re.compile(r"[ \t\n\r]*")
# What is nearly always between two values of an object.
_NEXT_KEY = re.compile(r'[ \t\n\r]*,[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*')
# What may follow a value or a key. Anything else means that the value goes on, in text that was not read yet.
_ENDS = frozenset(",:}")


class NotPlainError(Exception):
    """The file is broken, odd, or no dump; read it whole."""


def stream(
    file: Path, take: Callable[[str, Any], None], scan: Callable[[str, int], int] | None = None
) -> dict[str, Any]:
    """Call `take` with name and value of each member of the file's `data`, and return the file's other members.

    `scan` may take members that follow one by itself: it is given a JSON text and the place where that member ended,
    and returns the place where the last that it took ended. NotPlainError where anything is odd, whatever was taken
    until then; a name may be taken twice.
    """
    others: dict[str, Any] = {}
    has_data = False
    try:
        with open_input(file) as opened:
            text = _Text(opened)
            for key in text.each_key():
                if key != "data":
                    others[key] = text.value()
                    continue
                if has_data:
                    raise NotPlainError
                has_data = True
                for name in text.each_key():
                    take(name, text.value())
                    if scan is not None:
                        text.pass_on(scan)
            if not has_data or not text.is_at_end():
                raise NotPlainError
    # RecursionError: nested without end. MemoryError: one entry is too large. ValueError: no UTF-8.
    except (OSError, ValueError, RecursionError, MemoryError) as err:
        raise NotPlainError from err
    return others


def entries_of(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the members of a dump.json other than `data`, and its entries, unchanged; also those of a table."""
    found: dict[str, Any] = {}
    if file.name in layout.TABLES:
        from .columnar.records import read_records

        records = read_records(file)
        return records.above.members, records.entries()
    try:
        return stream(file, found.__setitem__), found
    except NotPlainError:
        members = json_object(file)
        data = members.pop("data", None)
        return members, data if isinstance(data, dict) else {}


def beside(file: Path) -> tuple[dict[str, str | None], dict[str, tuple[str, ...]]]:
    """Return the cell around each call, and the stacks, that lie in the folder of a dump.json, or are in a table."""
    if file.name in layout.TABLES:
        from .columnar.load import read_table

        table = read_table(file)
        return table.construct, table.stacks
    folder = file.parent
    construct = enclosing(json_object_or_empty(folder / layout.CONSTRUCT))
    return construct, stacks(json_object_or_empty(folder / layout.STACK))


_IN_JSON = 20  # times the size of a table; of large dumps up to forty times


def size_in_json(file: Path) -> int:
    """Return the bytes of a dump.json, or those that a table's records would take in one, about."""
    size = file.stat().st_size
    return size * _IN_JSON if file.name in layout.TABLES else size


class _Text:
    """A JSON text of which only a window is in memory; `errors` as of `bytes.decode`."""

    def __init__(self, file: BinaryIO, errors: str = "strict") -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors).decode
        self._scan = json.JSONDecoder().raw_decode
        self._window, self._at = "", 0
        self._has_ended = self._has_halves = False

    def each_key(self) -> Iterator[str]:
        """Return the keys of the object that follows; each value must be read before the next key."""
        self._pass_sign("{")
        is_first = True
        while True:
            if not is_first and (plain := _NEXT_KEY.match(self._window, self._at)) and plain.end() < len(self._window):
                self._at = plain.end()
                yield plain[1]
                continue
            if self._sign() == "}":
                break
            if not is_first:
                self._pass_sign(",")
            is_first = False
            if self._sign() != '"':
                raise NotPlainError
            key = self.value()
            self._pass_sign(":")
            yield key
        self._at += 1

    def value(self) -> Any:
        """Return the value that follows, whole."""
        self._sign()
        while True:
            try:
                made, end = self._scan(self._window, self._at)
            except ValueError:  # a mistake, or only cut off where the window ends
                self._read_on()
                continue
            after = _after_space(self._window, end)
            if after < len(self._window) and self._window[after] in _ENDS:
                break
            self._read_on()
        if self._has_halves and may_have_halves(self._window, self._at, end):
            made = with_whole_characters(made)
        self._at = after
        return made

    def pass_on(self, scan: Callable[[str, int], int]) -> None:
        """Pass the members that `scan` takes, of those that are in memory."""
        self._at = scan(self._window, self._at)
        if len(self._window) - self._at < _TAIL:  # its last entry is cut off: an error would count all lines before it
            self._window, self._at = self._window[self._at :], 0

    def _pass_sign(self, sign: str) -> None:
        if self._sign() != sign:
            raise NotPlainError
        self._at += 1

    def is_at_end(self) -> bool:
        """Return whether nothing but white space follows."""
        try:
            self._sign()
        except NotPlainError:
            return True
        return False

    def _sign(self) -> str:
        """Return the next character that is no white space; it is not passed."""
        self._at = _after_space(self._window, self._at)
        while self._at == len(self._window):
            self._read_on()
            self._at = _after_space(self._window, self._at)
        return self._window[self._at]

    def _read_on(self) -> None:
        """Drop what was passed from the window, and append the next piece of the file: at least as much as is left in
        the window, so that an entry of any size is scanned a few times only."""
        if self._has_ended or len(self._window) > _MAX_ENTRY_LENGTH:
            raise NotPlainError
        piece = self._file.read(max(_PIECE, len(self._window) - self._at))
        self._has_ended = not piece
        self._window = self._window[self._at :] + self._decode(piece, self._has_ended)
        self._at = 0
        self._has_halves = may_have_halves(self._window)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None  # it may be of no length
    return found.end()


_HEAD = 1 << 18
"""Bytes that are read of a dump.json for its header; what is above the data is small."""


@dataclass(frozen=True)
class Head:
    """The header of a dump; empty where it does not say. `run` has tool, framework, python, numpy, step and rank;
    `settings` are those of the collection, in the words of the configuration file."""

    task: str = ""
    level: str = ""
    framework: str = ""
    run: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def read_head(file: Path) -> Head:
    """Return the header of a dump.json; an empty one of a file that cannot be read, which its reader will say."""
    members: dict[str, Any] = {}
    if file.name in layout.TABLES:
        from .columnar.records import read_above

        with suppress(DumpError):
            members = read_above(file).members
        return _head(members)
    try:
        with open_input(file) as opened:
            text = _Text(BytesIO(opened.read(_HEAD)), "replace")
        for key in text.each_key():
            if key == "data":
                break
            members[key] = text.value()
    except (OSError, ValueError, RecursionError, NotPlainError):
        return Head()
    return _head(members)


def _head(members: dict[str, Any]) -> Head:
    run = members.get("run")
    run = run if isinstance(run, dict) else {}
    settings = run.get("settings")
    task, level, framework = (_text(members, key) for key in ("task", "level", "framework"))
    return Head(task, level, framework, run, settings if isinstance(settings, dict) else {})


_MADE_WITH = ("tool", "framework", "device", "python", "numpy")


def read(path: str | Path, *, structure: bool = False, stack: str | Path | None = None) -> Dump:
    """Read one step of one rank from its dump.json (or debug.json), its rank's folder, or a step with one rank.

    `structure` also accepts a dump of task `structure`, which has no records, only stacks and enclosing cells. `stack`
    is a stack.json in another folder. DumpError if nothing can be read, with what, where, and what to do.
    """
    file = find(Path(path))
    dump = read_file(file, structure=structure, stack=stack)
    if (file.parent / layout.JOURNAL).exists():
        dump = replace(dump, unfinished="its process is still writing, or died")
    if dump.unfinished:
        logger.warning("%s: is unfinished (%s); calls may be missing at the end", file, dump.unfinished)
    if not dump.calls and not structure and dump.task != "overflow_check":  # which holds those that overflow
        logger.warning("%s: contains no calls; check `scope`, `list` and `step` of the run's configuration", file)
    return dump


def with_structure_calls(dump: Dump) -> Dump:
    """Return a dump of task `structure` with the calls that its construct.json names, without records.

    Any other dump is returned as it is.
    """
    if dump.task != "structure":
        return dump
    calls = (Call(name, (), parent, dump.calls.stack_of(name)) for name, parent in dump.construct.items())
    return replace(dump, calls=Calls.of(calls))


@without_gc()
def read_file(file: Path, *, structure: bool = False, stack: str | Path | None = None) -> Dump:
    """Read a dump.json (or debug.json, or a table) and the other files of the dump, except a journal."""
    folder = file.parent
    builder: ColumnsBuilder | TableColumns
    if file.name in layout.TABLES:
        table = _table(file, structure)
        text, builder, construct, frames = table.members, table.columns, table.construct, table.stacks
        if stack:
            frames = stacks(json_object(Path(stack)))
    else:
        text, builder = _contents(file, structure)
        construct = enclosing(json_object_or_empty(folder / layout.CONSTRUCT))
        frames = stacks(json_object(Path(stack)) if stack else json_object_or_empty(folder / layout.STACK))
        # Each name once in memory: names are a quarter of a dump.
        once: dict[str | None, str] = {name: name for name in (*construct, *builder.names)}
        construct = {once[name]: once.get(parent, parent) for name, parent in construct.items()}
        frames = {once.get(name, name): stack for name, stack in frames.items()}
    missing, gaps = _missing(text)
    calls = _calls(builder, construct, frames, gaps)
    head = _head(text)
    return Dump(
        where=str(file),
        folder=str(folder),
        task=head.task,
        level=head.level,
        framework=head.framework or _framework(calls),
        calls=calls,
        construct=construct,
        step=_index(head.run.get("step"), layout.step_number(folder.absolute().parent.name)),
        rank=_index(head.run.get("rank"), layout.rank_number(folder.absolute().name)),
        format_version=_version(text, file),
        missing=missing,
        run=_text(head.run, "id"),
        unfinished="its process died; it was rebuilt from the journal" if "rebuilt" in text else "",
        frozen=_texts(head.run, "frozen"),
        made_with={key: version for key in _MADE_WITH if (version := _text(head.run, key))},
        extra_info=head.settings.get("extra_info") is not False,
    )


def _table(file: Path, structure: bool) -> "Table":
    """Return the same of a table, including what a dump.json has in other files."""
    # Here: it imports numpy and pyarrow.
    from .columnar.load import read_table

    table = read_table(file)
    _check(file, table.members, structure)
    return table


def _contents(file: Path, structure: bool) -> tuple[dict[str, Any], ColumnsBuilder]:
    """Return the members other than `data`, and the rows of `data`; entry by entry if that is possible."""
    builder = ColumnsBuilder()
    try:
        text = stream(file, builder.add, builder.scan)
    except (NotPlainError, DumpError):
        return _whole(file, structure)
    if len(set(builder.names)) < len(builder.names):  # of two entries with one name only the last counts
        return _whole(file, structure)
    _check(file, text, structure)
    return text, builder


def _whole(file: Path, structure: bool) -> tuple[dict[str, Any], ColumnsBuilder]:
    """Return the same from the file parsed as a whole; DumpError with what is wrong with it."""
    text = json_object(file)
    data = text.pop("data", None)
    _check(file, text, structure, has_data=type(data) is dict)
    builder = ColumnsBuilder()
    try:
        for name, entry in data.items():
            builder.add(name, entry)
    except DumpError as err:
        raise DumpError(f"{file}: {err}") from None
    return text, builder


def _check(file: Path, text: dict[str, Any], structure: bool, has_data: bool = True) -> None:
    _version(text, file)
    if not has_data:
        raise DumpError(f"{file}: has no object `data`, so it is not a dump; give the dump.json of a collected step")
    if _text(text, "task") == "structure" and not structure:
        raise DumpError(
            f"{file}: was collected with task `structure` and contains no records; collect again with task "
            "`statistics` or `tensor`"
        )


def load_tensor(dump: Dump, record: Record) -> "np.ndarray[Any, Any]":
    """Return the tensor of a record, in the dtype that was stored; DumpError when it is missing, broken or
    elsewhere."""
    return load_file(tensor_path(dump, record), as_dumped=not dump.tensors)


def load_file(path: Path, *, as_dumped: bool = False) -> "np.ndarray[Any, Any]":
    """Return the tensor in an npy, or in a `.pt`, which needs torch; DumpError when it is missing or broken.

    `as_dumped`: the framework wrote the npy, and its header is not always numpy's.
    """
    # Here: statistics are read without numpy, whose import takes 0.2 s.
    if path.suffix == ".pt":
        from .torch_files import load_pt

        return load_pt(path)
    if as_dumped:
        from .kernel_dump.values import load

        return load(path).array
    from .npy import load_npy

    return load_npy(path)


def tensor_path(dump: Dump, record: Record) -> Path:
    """Return where a record's tensor is; DumpError when it has none, or one that is not opened.

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
    """Return where the file `name` of a dump's folder is; DumpError if it is not opened. `tensors` as in `Dump`."""
    folder = os.path.join(dump, tensors)
    path = os.path.join(folder, name)
    if not tensors:
        if not _lies_below(folder, name):
            raise DumpError(f"its file {name!r} is outside {folder}, or is not a regular file; it is not opened")
        return Path(path)
    is_bare = name not in (".", "..") and os.path.basename(name) == name and "\0" not in name
    # The folder itself may be a link to a larger disk; a file may be a link to another one in the folder.
    if not is_bare or (os.path.islink(path) and os.path.dirname(os.path.realpath(path)) != os.path.realpath(folder)):
        raise DumpError(f"its file {name!r} is outside {layout.TENSORS}; it is not opened")
    return Path(path)


def _lies_below(folder: str, name: str) -> bool:
    """Return whether a relative path stays below `folder`, through no link, and leads to no pipe or device."""
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
            f"{file}: has format {version}, but this version of msprobe reads up to {layout.FORMAT_VERSION}; "
            "install a newer version"
        )
    return version


def _calls(
    builder: "ColumnsBuilder | TableColumns",
    construct: dict[str, str | None],
    frames: dict[str, tuple[str, ...]],
    gaps: dict[str, list[str]],
) -> Calls:
    columns, missing = builder.columns(), builder.missing
    lost: dict[int, tuple[str, ...]] = {}
    for place, name in enumerate(columns.names) if gaps else ():
        if name in gaps:
            own = missing.get(place, [])
            missing[place] = own + [part for part in gaps[name] if part not in own]
            lost[place] = tuple(gaps[name])
    all_missing = {place: tuple(parts) for place, parts in missing.items() if parts}
    return Calls(columns, construct, frames, all_missing, frozenset(builder.recomputed), lost)


def _missing(text: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the values that could not be collected, as sentences and as parts by call."""
    sentences: list[str] = []
    gaps: dict[str, list[str]] = {}
    items = text.get("missing")
    for item in items if type(items) is list else []:
        if type(item) is not dict:
            continue
        name, part, cause = (_text(item, key) for key in ("name", "part", "cause"))
        gaps.setdefault(name, []).append(part)
        sentences.append(f"{name} {part}: {cause}" if part else f"{name}: {cause}")
    rebuilt = text.get("rebuilt")
    if type(rebuilt) is dict:
        lost = rebuilt.get("lost_lines")
        if type(lost) is int and lost > 0:
            sentences.append(f"{lost} lines of its journal could not be read")
    return tuple(sentences), gaps


def _framework(calls: Calls) -> str:
    """Return the framework that the first tensor names, for dumps that do not say theirs."""
    columns = calls.columns
    words = {"mindspore": "mindspore", "torch": "pytorch"}
    known = {n: words[word] for n, (kind, _, _) in enumerate(columns.looks) for word in words if kind.startswith(word)}
    return next((known[look] for look in columns.look if look in known), "")


def _text(text: dict[str, Any], key: str) -> str:
    value = text.get(key)
    return value if type(value) is str else ""


def _texts(text: dict[str, Any], key: str) -> frozenset[str]:
    value = text.get(key)
    return frozenset(each for each in value if type(each) is str) if type(value) is list else frozenset()


def _index(stored: Any, named: int | None) -> int | None:
    return stored if type(stored) is int and stored >= 0 else named
