"""The entry of a kernel's execution in dump.json (`reference/format.md`, page 7)."""

import errno
import os
import shutil
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msprobe.base.errors import DumpError
from msprobe.base.files import FILE_MODE, NAME_LIMIT
from msprobe.base.schema import NON_FINITE, NUMBERS
from msprobe.base.statistic import Statistic, statistic
from msprobe.store.describe import ArrayDescriber
from msprobe.store.kernel_dump.executions import Execution
from msprobe.store.kernel_dump.values import IO, Row, Value, extreme, key, load, spelled, stem_and_number
from msprobe.store.npy import write_npy

from .ir_dataflow import Argument


def full_names(
    spelled: Iterable[str], graph_names: Iterable[str], earlier_stems: Container[str] = ()
) -> dict[str, str]:
    """Return the full name of each name as spelled in the files of one graph; an unknown name is returned unchanged.

    spelled : names in files.
    graph_names : full names of the graph's kernels, in the order of its nodes.
    earlier_stems : stems, as spelled in files, of earlier graphs.

    The number after `-op` may differ between files and graph: nodes of late passes (a Cast, an AddN, the expansion of
    an operator) get new numbers in files, and the numbers of later graphs continue those of earlier ones, always in the
    order of the nodes. If files and graph have the same number of kernels with a stem, they are matched in order.
    Otherwise, for example if only some kernels were dumped, equal numbers match if they increase in the graph and no
    earlier graph has the stem. Remaining kernels get a name that is not in the graph.
    """
    in_files = _by_stem(spelled)
    in_graph = _by_stem(graph_names)
    found: dict[str, str] = {}
    for stem, files in in_files.items():
        graph = in_graph.get(stem, {})
        if len(files) == len(graph):
            found.update((files[a], graph[b]) for a, b in zip(sorted(files), graph, strict=True))
            continue
        is_reliable = list(graph) == sorted(graph) and stem not in earlier_stems
        whole = next((stem_and_number(name)[0] for name in graph.values()), "")
        for number, name in files.items():
            if number in graph:
                found[name] = graph[number] if is_reliable else name
            else:
                found[name] = f"{whole}-op{number}" if whole and number >= 0 else name
    return found


def stems(names: Iterable[str]) -> set[str]:
    """Return the names without their numbers, as spelled in files."""
    return set(_by_stem(names))


def _by_stem(names: Iterable[str]) -> dict[str, dict[int, str]]:
    """Return names by stem (as spelled in files) and number, in the order of the names."""
    found: dict[str, dict[int, str]] = {}
    for name in names:
        stem, number = stem_and_number(key(name))
        found.setdefault(stem, {})[number] = name
    return found


_LINK_UNSUPPORTED = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured value.

    dtype, shape : of the tensor; shape None if unknown.
    statistic : its statistics, if the file was read.
    row : its row in statistic.csv, if any.
    file : name of its file in the dump; empty without a file.
    error : why the file could not be read; empty if it was.
    """

    dtype: str = ""
    shape: tuple[int, ...] | None = None
    statistic: Statistic | None = None
    row: Row | None = None
    file: str = ""
    error: str = ""


def measure(value: Value, target: str | None) -> Measured:
    """Read the file of a value, compute its statistics and store it at `target`; None: the tensor is not stored.

    For a file that is broken or not npy, return its row in statistic.csv and an error. OSError if `target` cannot be
    written.
    """
    if value.path is None:
        return _from_row(value, "")
    if value.is_raw:
        cause = "its dtype is not available in numpy, and the framework wrote the raw bytes"
        return _from_row(value, f"{value.path.name} is not an npy file: {cause}")
    try:
        tensor = load(value.path)
    except DumpError as err:
        return _from_row(value, str(err))
    if target is not None:
        if tensor.is_plain:
            _link_or_copy(value.path, target)
        else:
            write_npy(target, tensor.array)
    file = os.path.basename(target) if target is not None else ""
    return Measured(tensor.dtype, tensor.array.shape, statistic(tensor.array), file=file)


def _from_row(value: Value, error: str) -> Measured:
    row = value.row
    return Measured(spelled(value.dtype), row.shape if row else None, row=row, error=error)


def _link_or_copy(path: Path, target: str) -> None:
    """Link the file, or copy it if links are not supported (another disk, another owner).

    Files of a dump are never modified, so the raw file does not change. Its space is freed when both links are removed.
    """
    if not path.is_symlink():
        try:
            os.link(path, target)
            return
        except OSError as err:
            if err.errno not in _LINK_UNSUPPORTED:
                raise
    folder, name = os.path.split(target)
    part = os.path.join(folder, f"{name[5 - NAME_LIMIT :]}.part")
    try:
        shutil.copyfile(path, part)
        os.chmod(part, FILE_MODE)
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


Group = Literal["input", "output", "in_place", "unread"]


@dataclass(frozen=True, slots=True)
class Part:
    """The location of a value in its entry.

    group : "input", "output", "in_place" (an argument that the kernel may have written, among the outputs) or "unread"
        (an output that no node reads, which is not a result).
    slot : number in the group.
    """

    group: Group
    slot: int

    def __str__(self) -> str:
        return f"output.in_place.{self.slot}" if self.group == "in_place" else f"{self.group}.{self.slot}"


def parts_of(execution: Execution, arguments: Sequence[Argument], unread: Container[int]) -> list[Part]:
    """Return the location of each value of an execution.

    The framework dumps inputs after the kernel ran, so an argument that the kernel may write contains a result. A
    dumped parameter is an input, although the framework labels it as an output.
    """
    if execution.is_parameter:
        return [Part("input", n) for n in range(len(execution.values))]
    made: dict[int, Part] = {}
    for side in ("input", "output"):
        at = [n for n, value in enumerate(execution.values) if value.io == side]
        for n, slot in zip(at, _slots([execution.values[n] for n in at]), strict=True):
            group: Group = execution.values[n].io
            if side == "input" and slot < len(arguments) and arguments[slot].is_written:
                group = "in_place"
            elif side == "output" and slot in unread:
                group = "unread"
            made[n] = Part(group, slot)
    return [made[n] for n in sorted(made)]


def _slots(values: Sequence[Value]) -> list[int]:
    """Return the slot of each value; if slots have several levels, their position in sorted order."""
    if all(len(value.slot) == 1 for value in values):
        return [value.slot[0] for value in values]
    order = sorted(value.slot for value in values)
    return [order.index(value.slot) for value in values]


class Entry(NamedTuple):
    """The entry, and the causes of missing values by part."""

    data: dict[str, Any]
    lost: dict[str, str]


def entry_of(
    parts: Sequence[Part],
    measured: Sequence[Measured],
    arguments: Sequence[Argument],
    sources: Sequence[str],
    wanted: Sequence[IO],
) -> Entry:
    """Return the entry without "kernel".

    parts, measured : location and measurement of each value.
    arguments, sources : arguments of the kernel in the graph, and the `from` of each.
    wanted : sides that the framework was to dump.
    """
    data: dict[str, Any] = {}
    lost: dict[str, str] = {}
    groups: dict[Group, dict[int, Any]] = {"input": {}, "output": {}, "in_place": {}, "unread": {}}
    for part, value in zip(parts, measured, strict=True):
        record = _record(value)
        if value.error:
            lost[str(part)] = value.error
        if record is not None and part.group == "input" and part.slot < len(sources) and sources[part.slot]:
            record["from"] = sources[part.slot]
        groups[part.group][part.slot] = record
    inputs, outputs = groups["input"], groups["output"]
    gaps = []
    if "input" in wanted:
        count = max([len(arguments) - 1, *inputs]) + 1
        empty = {n for n, argument in enumerate(arguments) if argument.is_empty}
        gaps += [f"input.{n}" for n in range(count) if n not in inputs and n not in empty]
    if "output" in wanted:
        gaps += [f"output.{n}" for n in range(max([-1, *outputs])) if n not in outputs and n not in groups["unread"]]
    data["input_args"] = _as_list(inputs, len(arguments) if "input" in wanted else 0)
    data["input_kwargs"] = {}
    data["output"] = {**outputs, "in_place": groups["in_place"]} if groups["in_place"] else _as_list(outputs, 0)
    if groups["unread"]:
        data["unread"] = groups["unread"]
    if gaps or lost:
        data["missing"] = list(dict.fromkeys([*gaps, *lost]))
    return Entry(data, lost)


def _as_list(records: dict[int, Any], at_least: int) -> list[Any]:
    return [records.get(n) for n in range(max([at_least - 1, *records]) + 1)]


def kernel_info(execution: Execution, iteration: int, lines_of: str) -> dict[str, Any]:
    """Return the framework's data of a kernel: its names, and where and when it ran."""
    first = execution.first
    made: dict[str, Any] = {
        "name": execution.name,
        "type": first.op_type,
        "graph": first.graph,
        "iteration": iteration,
        "gradient": execution.name.startswith("Gradients"),
        "task": first.task,
        "stream": first.stream,
        "time": execution.time,
    }
    if lines_of and lines_of != execution.name:
        made["line_of"] = lines_of
    return made


def _record(measured: Measured) -> dict[str, Any] | None:
    """Return the record of a tensor; None without statistics."""
    if measured.statistic is None and measured.row is None:
        return None
    record: dict[str, Any] = {"type": ArrayDescriber.kind, "dtype": measured.dtype}
    if measured.shape is not None:
        record["shape"] = list(measured.shape)
    if (found := measured.statistic) is not None:
        record |= {each.key: getattr(found, each.name) for each in NUMBERS}
        record |= {each.key: count for each in NON_FINITE if (count := getattr(found, each.key))}
        if type(found.max) is bool:
            record["true_count"] = found.true_count
    elif measured.row is not None:
        letter = "b" if measured.dtype == "Bool" else "f"
        for each in NUMBERS:
            number = measured.row.statistics.get(each.name)
            number = extreme(number, measured.dtype) if each.rule == "extreme" else number
            if number is not None and letter in each.dtypes:
                record[each.key] = number
    if measured.file:
        record["data_name"] = measured.file
    return record
