"""Which lines of source stand for the names of a kernel dump, by the text of one graph."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import make_folder, open_text, replacing
from msprobe.base.names import PARAMETER
from msprobe.graph_save.gather.entry import full_names
from msprobe.graph_save.gather.ir_dataflow import Flow
from msprobe.graph_save.gather.trace import parse
from msprobe.store.folders import walk
from msprobe.store.kernel_dump.files import WITHOUT_KERNELS, Content, content
from msprobe.store.kernel_dump.values import STATISTIC, is_kernel_file, key
from msprobe.store.stacks_and_construct import user_line

_FRAME = re.compile(r"File (?P<file>.+?), line (?P<line>\d+), in .+?, \n (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """What a graph says of a kernel: its full name, its lines as text (innermost first), the innermost line of the
    user's, and whose lines they are where the kernel has none of its own. All empty where the graph does not know it.
    """

    scope: str = ""
    stack: str = ""
    user: str = ""
    lines_of: str = ""


class Graph:
    """The kernels of one graph's text (`graph_build_0.ir`, `anf_after_graph_build`, the trace of a kernel dump)."""

    def __init__(self, path: Path) -> None:
        """DumpError where the file cannot be read, or names no kernel."""
        try:
            with open_text(path) as lines:
                self._flow = Flow(parse(lines))
        except OSError as err:
            raise DumpError(
                f"{path}: cannot be read ({err.strerror or err}); give the .ir file of the dumped graph"
            ) from err
        if not self._flow.trace.nodes:
            raise DumpError(
                f"{path}: contains no kernels (`# Fullname with scope: (...)`); give the text of the graph after "
                "the last pass, such as graph_build_0_0129.ir or anf_after_graph_build_0.ir"
            )

    def sources(self, spelled: Iterable[str]) -> dict[str, Source]:
        """What is known of each name, as the files of one folder spell it.

        A name is looked up as `msprobe gather` does it. Where that finds none, as with the name of a kernel that was
        fused of several, the longest full name that stands whole in it is taken.
        """
        named = full_names(spelled, self._flow.trace.nodes)
        return {name: self._source(full, name) for name, full in named.items()}

    def _source(self, full: str, name: str) -> Source:
        nodes = self._flow.trace.nodes
        if full not in nodes:
            full = self._longest_in(key(name))
            if not full:
                return Source()
        lines = self._flow.lines(full)
        line = user_line(lines.frames)
        return Source(
            scope=full,
            stack="\n".join(map(_one_line, lines.frames)),
            user=f"{line.file}:{line.number}" if line else "",
            lines_of="" if lines.of == full else lines.of,
        )

    def _longest_in(self, name: str) -> str:
        for spelled, full in self._by_length:
            # `-op1` does not stand in `-op10`; a name that is the whole was looked up, and is not to be trusted.
            at = name.find(spelled)
            if at >= 0 and spelled != name and not name[at + len(spelled) :][:1].isdecimal():
                return full
        return ""

    @cached_property
    def _by_length(self) -> list[tuple[str, str]]:
        """Spelled and full names, longest first."""
        return sorted(((key(full), full) for full in self._flow.trace.nodes), key=lambda pair: -len(pair[0]))


def _one_line(frame: str) -> str:
    """A frame as the graph's text has it: `In file net.py:22/ y = self.fc(x)`."""
    found = _FRAME.fullmatch(frame)
    return f"In file {found['file']}:{found['line']}/ {found['text']}" if found else frame


FILE_PATH, CODE_STACK, SCOPE_NAME = "File Path", "Code Stack", "Scope Name"
"""The reference's columns."""

USER_LINE, LINES_OF = "User Line", "Lines Of"
"""Ours: the innermost line outside the framework, and the kernel whose lines stand for one that has none."""

_ADDED = (CODE_STACK, SCOPE_NAME, USER_LINE, LINES_OF)
_OP_NAME, _OP_TYPE = "Op Name", "Op Type"

Row = dict[str, str]


@dataclass
class Mapped:
    """What was written, and which kernels have no lines: `without_line` are in the graph, `unknown` are not."""

    files: list[Path] = field(default_factory=list)
    values: int = 0
    mapped: int = 0
    parameters: int = 0
    without_line: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def count(self, name: str, op_type: str, source: Source) -> None:
        """Enter one value. A parameter is no kernel, and no line made it."""
        self.values += 1
        if source.stack:
            self.mapped += 1
        elif op_type == PARAMETER:
            self.parameters += 1
        elif source.scope:
            self.without_line[source.scope] = None
        else:
            self.unknown[name] = None


def map_dump(graph: Graph, data: Path, target: Path, *, in_place: bool = False) -> Mapped:
    """Write the table of the values below `data` to `target`, or into the statistic.csv files themselves.

    Where there is any npy file, tables of statistics are left out. DumpError where `data` holds nothing of a kernel
    dump; UsageError where `in_place` is asked for and there is no statistic.csv to write into, or it cannot be written.
    """
    found = Mapped()
    folders = list(_folders(data))
    with_files = [(path, held) for path, held in folders if _files(held)]
    if with_files:
        if in_place:
            raise UsageError(f"{data}: contains npy files, which --in-place cannot extend; omit the option")
        _write(target, (FILE_PATH, *_ADDED), _of_files(graph, with_files, data, found))
        found.files.append(target)
        return found
    tables = [path if path.is_file() else path / STATISTIC for path, _ in folders]
    tables = [path for path in tables if path.is_file() and path.suffix == ".csv"]
    if not tables:
        raise DumpError(
            f"{data}: contains no file of a kernel dump (type.name.task.stream.time.output.0.format.npy) and no "
            f"{STATISTIC}; give the dump_path of the framework's dump, or a folder in it"
        )
    if in_place:
        for table in tables:
            columns, rows = _of_table(graph, table, found)
            _write(table, (*columns, *_ADDED), rows)
            found.files.append(table)
        return found
    together: dict[str, None] = {FILE_PATH: None}
    lines: list[Row] = []
    for table in tables:
        columns, rows = _of_table(graph, table, found)
        together |= dict.fromkeys(columns)
        lines += [{FILE_PATH: str(table.absolute()), **row} for row in rows]
    _write(target, (*together, *_ADDED), lines)
    found.files.append(target)
    return found


def _folders(data: Path) -> Iterator[tuple[Path, Content]]:
    """The folders that may hold values; of a file its folder, of which the file alone is written down."""
    if data.is_file():
        yield data, content(data.parent, 0) if data.suffix != ".csv" else Content((), ())
        return
    if not data.is_dir():
        raise DumpError(f"{data}: no such file or folder; give the framework's dump")
    for folder in walk(data, WITHOUT_KERNELS):
        if STATISTIC in folder.files or any(is_kernel_file(name) or name.endswith(".npy") for name in folder.files):
            yield folder.path, content(folder.path, 0)


def _files(held: Content) -> bool:
    return any(value.path is not None for value in held.values)


def _of_files(graph: Graph, folders: Sequence[tuple[Path, Content]], data: Path, found: Mapped) -> Iterator[Row]:
    for path, held in folders:
        only = path.name if path.is_file() else ""
        sources = graph.sources({value.name for value in held.values if value.op_type != PARAMETER})
        for value in held.values:
            if value.path is None or (only and value.path.name != only):
                continue
            source = sources.get(value.name, Source())
            found.count(value.name, value.op_type, source)
            yield {FILE_PATH: str(value.path.absolute()), **_cells(source)}
    if not found.values:
        raise DumpError(f"{data}: not the name of a kernel dump file; give a file of the framework's dump")


def _of_table(graph: Graph, path: Path, found: Mapped) -> tuple[tuple[str, ...], list[Row]]:
    """The columns of a statistic.csv, without those that were added before, and its rows with ours beside."""
    try:
        with open_text(path, newline="") as lines:
            rows = list(csv.reader(lines))
    except (OSError, csv.Error) as err:
        raise DumpError(f"{path}: cannot be read ({err}); check the file") from err
    # The reference leaves an empty heading behind, which is none.
    head = [name.strip() for name in rows[0]] if rows else []
    if _OP_NAME not in head:
        raise DumpError(f"{path}: has no column {_OP_NAME}; give a statistic.csv of the framework's dump")
    columns = tuple(name for name in head if name and name not in _ADDED)
    cells = [dict(zip(head, row, strict=False)) for row in rows[1:] if row]
    sources = graph.sources({row.get(_OP_NAME, "") for row in cells if row.get(_OP_TYPE) != PARAMETER})
    made = []
    for row in cells:
        name = row.get(_OP_NAME, "")
        source = sources.get(name, Source())
        found.count(name, row.get(_OP_TYPE, ""), source)
        made.append({**{column: row.get(column, "") for column in columns}, **_cells(source)})
    return columns, made


def _cells(source: Source) -> Row:
    texts = (source.stack, source.scope, source.user, source.lines_of)
    return dict(zip(_ADDED, texts, strict=True))


def _write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    try:
        make_folder(path.parent)
        with replacing(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
            writer = csv.DictWriter(text, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
            text.flush()
            text.detach()
    except OSError as err:
        raise UsageError(f"{path}: cannot be written ({err.strerror or err}); give another --output") from err
