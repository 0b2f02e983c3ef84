"""One execution of a kernel as an entry of dump.json (`reference/format.md`, page 7)."""

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
from msprobe.store.kernel_dump.executions import Execution
from msprobe.store.kernel_dump.values import IO, Row, Value, extreme, key, load, spelled, stem_and_number
from msprobe.store.npy import write_npy

from .ir_dataflow import Argument


def full_names(spelled: Iterable[str], known: Iterable[str], counted: Container[str] = ()) -> dict[str, str]:
    """The full name for each name as the files of one graph spell it; a name that nothing knows stands for itself.

    `known` are the graph's full names, in the order of its nodes, and `counted` the stems (as files spell them) of the
    graphs before it. The number behind `-op` is not always the same in files and graph: nodes that a late pass made (a
    Cast, an AddN, what an operator was expanded to) are numbered anew for their files, and all nodes of a later graph
    where an earlier one left off; always in the order of the nodes. So where files and graph hold as many kernels of
    one stem, their order decides. Else, as when some kernels only were dumped, equal numbers belong together, if they
    rise in the graph and no earlier graph has the stem. What is left has a name that is none of the graph's.
    """
    of_files = _by_stem(spelled)
    of_graph = _by_stem(known)
    found: dict[str, str] = {}
    for stem, files in of_files.items():
        graph = of_graph.get(stem, {})
        if len(files) == len(graph):
            found.update((files[a], graph[b]) for a, b in zip(sorted(files), graph, strict=True))
            continue
        is_known = list(graph) == sorted(graph) and stem not in counted
        whole = next((stem_and_number(name)[0] for name in graph.values()), "")
        for number, name in files.items():
            if number in graph:
                found[name] = graph[number] if is_known else name
            else:
                found[name] = f"{whole}-op{number}" if whole and number >= 0 else name
    return found


def stems(names: Iterable[str]) -> set[str]:
    """The names without their numbers, as files spell them."""
    return set(_by_stem(names))


def _by_stem(names: Iterable[str]) -> dict[str, dict[int, str]]:
    """Spelled stem -> number -> name, in the order of the arguments."""
    found: dict[str, dict[int, str]] = {}
    for name in names:
        stem, number = stem_and_number(key(name))
        found.setdefault(stem, {})[number] = name
    return found


_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class Measured:
    """A value's record so far. `file` is its name in our dump, empty without one; `wrong` why it could not be read."""

    dtype: str = ""
    shape: tuple[int, ...] | None = None
    statistic: Statistic | None = None
    row: Row | None = None
    file: str = ""
    wrong: str = ""


def measure(value: Value, target: str | None) -> Measured:
    """Read a value's file, compute its statistics and put it under the path `target`; None: the tensor is not wanted.

    For a file that is broken, or no npy, what statistic.csv has of it, and `wrong`. OSError where `target` cannot be
    written.
    """
    if value.path is None:
        return _from_row(value, "")
    if value.is_raw:
        why = "its dtype is not available in numpy, and the framework wrote the raw bytes"
        return _from_row(value, f"{value.path.name} is not an npy file: {why}")
    try:
        tensor = load(value.path)
    except DumpError as err:
        return _from_row(value, str(err))
    if target is not None:
        if tensor.is_plain:
            _place(value.path, target)
        else:
            write_npy(target, tensor.array)
    file = os.path.basename(target) if target is not None else ""
    return Measured(tensor.dtype, tensor.array.shape, statistic(tensor.array), file=file)


def _from_row(value: Value, wrong: str) -> Measured:
    row = value.row
    return Measured(spelled(value.dtype), row.shape if row else None, row=row, wrong=wrong)


def _place(path: Path, target: str) -> None:
    """Link the file; where the file system refuses (another disk, another owner, no links), copy it.

    Nobody writes into the files of a dump, so the raw file stays as it is; both names must go before its bytes do.
    """
    if not path.is_symlink():
        try:
            os.link(path, target)
            return
        except OSError as err:
            if err.errno not in _NO_LINKS:
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
    """Where a value stands in its entry. `in_place`: an argument that the kernel may have written, among the outputs;
    `unread`: an output that nothing reads, which is no result."""

    group: Group
    slot: int

    def __str__(self) -> str:
        return f"output.in_place.{self.slot}" if self.group == "in_place" else f"{self.group}.{self.slot}"


def parts(execution: Execution, arguments: Sequence[Argument], unread: Container[int]) -> list[Part]:
    """Where each value of an execution goes.

    The framework writes inputs down after the kernel ran. So an argument that the kernel may write holds what it
    left there: a result. A parameter by itself is something that was there, though the framework calls it an output.
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
    """The slot of each; where the framework counts in several levels, its rank."""
    if all(len(value.slot) == 1 for value in values):
        return [value.slot[0] for value in values]
    order = sorted(value.slot for value in values)
    return [order.index(value.slot) for value in values]


class Entry(NamedTuple):
    """The entry, and what is lost: part -> cause."""

    data: dict[str, Any]
    lost: dict[str, str]


def entry(
    places: Sequence[Part],
    measured: Sequence[Measured],
    arguments: Sequence[Argument],
    sources: Sequence[str],
    wanted: Sequence[IO],
) -> Entry:
    """The entry without `kernel`. `arguments` are what the graph says of the inputs, and `sources` the `from` of each;
    `wanted` are the sides that the framework was to write."""
    data: dict[str, Any] = {}
    lost: dict[str, str] = {}
    groups: dict[Group, dict[int, Any]] = {"input": {}, "output": {}, "in_place": {}, "unread": {}}
    for part, what in zip(places, measured, strict=True):
        record = _record(what)
        if what.wrong:
            lost[str(part)] = what.wrong
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
    data["input_args"] = _list(inputs, len(arguments) if "input" in wanted else 0)
    data["input_kwargs"] = {}
    data["output"] = {**outputs, "in_place": groups["in_place"]} if groups["in_place"] else _list(outputs, 0)
    if groups["unread"]:
        data["unread"] = groups["unread"]
    if gaps or lost:
        data["missing"] = list(dict.fromkeys([*gaps, *lost]))
    return Entry(data, lost)


def _list(records: dict[int, Any], at_least: int) -> list[Any]:
    return [records.get(n) for n in range(max([at_least - 1, *records]) + 1)]


def kernel(execution: Execution, iteration: int, lines_of: str) -> dict[str, Any]:
    """What the framework calls the kernel, and where it ran."""
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
    """The record of a tensor; None where nothing at all is known of its values."""
    if measured.statistic is None and measured.row is None:
        return None
    record: dict[str, Any] = {"type": "mindspore.Tensor", "dtype": measured.dtype}
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
            number = getattr(measured.row, each.name)
            number = extreme(number, measured.dtype) if each.rule == "extreme" else number
            if number is not None and letter in each.dtypes:
                record[each.key] = number
    if measured.file:
        record["data_name"] = measured.file
    return record
