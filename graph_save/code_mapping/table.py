"""Maps the names in a kernel dump to source lines, by the text of one graph."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import make_folder, open_text, replace_atomically
from msprobe.base.names import PARAMETER
from msprobe.graph_save.gather.entry import full_names
from msprobe.graph_save.gather.ir_dataflow import GraphDataflow
from msprobe.graph_save.gather.trace import parse
from msprobe.store.folders import walk
from msprobe.store.kernel_dump.files import WITHOUT_KERNELS, Content, content
from msprobe.store.kernel_dump.values import STATISTIC, is_kernel_file, key
from msprobe.store.stacks_and_construct import user_line

_FRAME = re.compile(r"File (?P<file>.+?), line (?P<line>\d+), in .+?, \n (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """Source lines of a kernel; all fields are empty if the kernel is not in the graph.

    scope : full name of the kernel.
    stack : source lines as text, innermost first.
    user : innermost line of the user's code.
    lines_of : the kernel that the lines belong to, if the kernel itself has no lines.
    """

    scope: str = ""
    stack: str = ""
    user: str = ""
    lines_of: str = ""


class Graph:
    """The kernels of one graph's text (`graph_build_0.ir`, `anf_after_graph_build`, the trace of a kernel dump)."""

    def __init__(self, path: Path) -> None:
        """Read the text of a graph. DumpError if the file cannot be read or contains no kernel."""
        try:
            with open_text(path) as lines:
                self._dataflow = GraphDataflow(parse(lines))
        except OSError as err:
            raise DumpError(
                f"{path}: cannot be read ({err.strerror or err}); give the .ir file of the dumped graph"
            ) from err
        if not self._dataflow.trace.nodes:
            raise DumpError(
                f"{path}: contains no kernels (`# Fullname with scope: (...)`); give the text of the graph after "
                "the last pass, such as graph_build_0_0129.ir or anf_after_graph_build_0.ir"
            )

    def sources(self, spelled: Iterable[str]) -> dict[str, Source]:
        """Return the source of each name, as spelled in the files of one folder.

        Names are resolved as in `msprobe gather`. If that fails, as for a kernel that was fused from several, the
        longest full name that the name contains is used.
        """
        full_name_of = full_names(spelled, self._dataflow.trace.nodes)
        return {name: self._source(full, name) for name, full in full_name_of.items()}

    def _source(self, full: str, name: str) -> Source:
        nodes = self._dataflow.trace.nodes
        if full not in nodes:
            full = self._longest_in(key(name))
            if not full:
                return Source()
        lines = self._dataflow.lines(full)
        line = user_line(lines.frames)
        return Source(
            scope=full,
            stack="\n".join(map(_one_line, lines.frames)),
            user=f"{line.file}:{line.number}" if line else "",
            lines_of="" if lines.of == full else lines.of,
        )

    def _longest_in(self, name: str) -> str:
        for spelled, full in self._by_length:
            # `-op10` does not contain `-op1`; equal names were already rejected by `full_names`.
            at = name.find(spelled)
            if at >= 0 and spelled != name and not name[at + len(spelled) :][:1].isdecimal():
                return full
        return ""

    @cached_property
    def _by_length(self) -> list[tuple[str, str]]:
        """Names as spelled in files and full names, longest first."""
        return sorted(((key(full), full) for full in self._dataflow.trace.nodes), key=lambda pair: -len(pair[0]))


def _one_line(frame: str) -> str:
    """Return a frame in the form of the graph's text: `In file net.py:22/ y = self.fc(x)`."""
    match = _FRAME.fullmatch(frame)
    return f"In file {match['file']}:{match['line']}/ {match['text']}" if match else frame


FILE_PATH, CODE_STACK, SCOPE_NAME = "File Path", "Code Stack", "Scope Name"
"""Columns of mindstudio-probe."""

USER_LINE, LINES_OF = "User Line", "Lines Of"
"""Additional columns: the innermost line outside the framework, and the kernel that the lines belong to."""

_ADDED = (CODE_STACK, SCOPE_NAME, USER_LINE, LINES_OF)
_OP_NAME, _OP_TYPE = "Op Name", "Op Type"

Row = dict[str, str]


@dataclass
class MappingResult:
    """Result of mapping.

    files : written tables.
    values, mapped, parameters : numbers of values, of values with lines, and of parameters.
    without_line : kernels in the graph without lines.
    unknown : names of kernels that are not in the graph.
    """

    files: list[Path] = field(default_factory=list)
    values: int = 0
    mapped: int = 0
    parameters: int = 0
    without_line: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def count(self, name: str, op_type: str, source: Source) -> None:
        """Count one value. A parameter is not a kernel and has no source line."""
        self.values += 1
        if source.stack:
            self.mapped += 1
        elif op_type == PARAMETER:
            self.parameters += 1
        elif source.scope:
            self.without_line[source.scope] = None
        else:
            self.unknown[name] = None


def map_dump(graph: Graph, data: Path, target: Path, *, in_place: bool = False) -> MappingResult:
    """Write the table of the values below `data` to `target`, or with `in_place` into the statistic.csv files.

    If there are npy files, tables of statistics are omitted. DumpError if `data` contains no kernel dump; UsageError if
    `in_place` is given for npy files, or if a file cannot be written.
    """
    result = MappingResult()
    folders = list(_folders(data))
    with_files = [(path, folder_content) for path, folder_content in folders if _files(folder_content)]
    if with_files:
        if in_place:
            raise UsageError(f"{data}: contains npy files, which --in-place cannot extend; omit the option")
        _write(target, (FILE_PATH, *_ADDED), _file_rows(graph, with_files, data, result))
        result.files.append(target)
        return result
    tables = [path if path.is_file() else path / STATISTIC for path, _ in folders]
    tables = [path for path in tables if path.is_file() and path.suffix == ".csv"]
    if not tables:
        raise DumpError(
            f"{data}: contains no file of a kernel dump (type.name.task.stream.time.output.0.format.npy) and no "
            f"{STATISTIC}; give the dump_path of the framework's dump, or a folder in it"
        )
    if in_place:
        for table in tables:
            columns, rows = _table_rows(graph, table, result)
            _write(table, (*columns, *_ADDED), rows)
            result.files.append(table)
        return result
    columns_of_all: dict[str, None] = {FILE_PATH: None}
    lines: list[Row] = []
    for table in tables:
        columns, rows = _table_rows(graph, table, result)
        columns_of_all |= dict.fromkeys(columns)
        lines += [{FILE_PATH: str(table.absolute()), **row} for row in rows]
    _write(target, (*columns_of_all, *_ADDED), lines)
    result.files.append(target)
    return result


def _folders(data: Path) -> Iterator[tuple[Path, Content]]:
    """Yield folders that may contain values, with their content; a single file with the content of its folder."""
    if data.is_file():
        yield data, content(data.parent, 0) if data.suffix != ".csv" else Content((), ())
        return
    if not data.is_dir():
        raise DumpError(f"{data}: no such file or folder; give the framework's dump")
    for folder in walk(data, WITHOUT_KERNELS):
        if STATISTIC in folder.files or any(is_kernel_file(name) or name.endswith(".npy") for name in folder.files):
            yield folder.path, content(folder.path, 0)


def _files(folder_content: Content) -> bool:
    return any(value.path is not None for value in folder_content.values)


def _file_rows(
    graph: Graph, folders: Sequence[tuple[Path, Content]], data: Path, result: MappingResult
) -> Iterator[Row]:
    for path, folder_content in folders:
        only = path.name if path.is_file() else ""
        sources = graph.sources({value.name for value in folder_content.values if value.op_type != PARAMETER})
        for value in folder_content.values:
            if value.path is None or (only and value.path.name != only):
                continue
            source = sources.get(value.name, Source())
            result.count(value.name, value.op_type, source)
            yield {FILE_PATH: str(value.path.absolute()), **_cells(source)}
    if not result.values:
        raise DumpError(f"{data}: not the name of a kernel dump file; give a file of the framework's dump")


def _table_rows(graph: Graph, path: Path, result: MappingResult) -> tuple[tuple[str, ...], list[Row]]:
    """Return the columns of a statistic.csv without added ones, and its rows with the added columns."""
    try:
        with open_text(path, newline="") as lines:
            rows = list(csv.reader(lines))
    except (OSError, csv.Error) as err:
        raise DumpError(f"{path}: cannot be read ({err}); check the file") from err
    # mindstudio-probe writes an empty heading at the end.
    head = [name.strip() for name in rows[0]] if rows else []
    if _OP_NAME not in head:
        raise DumpError(f"{path}: has no column {_OP_NAME}; give a statistic.csv of the framework's dump")
    columns = tuple(name for name in head if name and name not in _ADDED)
    cells = [dict(zip(head, row, strict=False)) for row in rows[1:] if row]
    sources = graph.sources({row.get(_OP_NAME, "") for row in cells if row.get(_OP_TYPE) != PARAMETER})
    extended = []
    for row in cells:
        name = row.get(_OP_NAME, "")
        source = sources.get(name, Source())
        result.count(name, row.get(_OP_TYPE, ""), source)
        extended.append({**{column: row.get(column, "") for column in columns}, **_cells(source)})
    return columns, extended


def _cells(source: Source) -> Row:
    texts = (source.stack, source.scope, source.user, source.lines_of)
    return dict(zip(_ADDED, texts, strict=True))


def _write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    try:
        make_folder(path.parent)
        with replace_atomically(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
            writer = csv.DictWriter(text, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
            text.flush()
            text.detach()
    except OSError as err:
        raise UsageError(f"{path}: cannot be written ({err.strerror or err}); give another --output") from err
