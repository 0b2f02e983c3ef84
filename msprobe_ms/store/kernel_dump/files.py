"""Read the framework's own kernel dumps: the rank, graph and iteration of each folder, and its dump.

```
rank_{r}/{net}/{graph}/{iteration}        kernel by kernel (jit_level O0, O1)
rank_{r}/{time}/step_{iteration}          whole graphs (jit_level O2)
{r}/{net}/{graph}/{iteration}             older layouts
{r}/{anything}/{iteration}
```

A folder holds npy files, or a statistic.csv instead of them. `msprobe gather` makes a richer dump of the same files,
with full names, source lines and dataflow; this reader needs nothing but the files themselves, so that dumps that were
only copied from somewhere can be compared too.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.log import logger
from msprobe.base.names import PARAMETER
from msprobe.base.schema import NUMBERS
from msprobe.store.folders import is_file, look, printable, walk
from msprobe.store.record import Call, Calls, Dump, Record, Statistics, statistics_from

from .executions import Execution, executions
from .values import (
    STATISTIC,
    Value,
    csv_rows,
    extreme,
    from_file,
    header_of,
    is_kernel_file,
    key,
    read_table,
    spelled,
    stem_and_number,
)

MAPPING = "mapping.csv"
"""Short file name -> original name, where names were longer than a file system takes."""

ORDERS, GRAPHS, METADATA = "execution_order", "graphs", ".dump_metadata"
"""What lies in a rank's folder beside its kernels."""

WITHOUT_KERNELS = frozenset((ORDERS, GRAPHS, METADATA, "dump_tensor_data", "debug_files"))

_RANK = re.compile(r"rank_(\d{1,9})")
_STEP = re.compile(r"step_(\d{1,9})")
_INT = re.compile(r"(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Place:
    """One folder of kernel files; `root` is the rank's."""

    path: Path
    root: Path
    rank: int
    graph: int
    iteration: int


def rank_of(folder: str) -> int | None:
    """Return the rank in a folder's name; None for any other name."""
    found = _RANK.fullmatch(folder)
    return int(found[1]) if found else None


def place_of(folder: Path) -> Place | None:
    """Return rank, graph and iteration of a folder from its absolute path; None if it has no known layout."""
    parts = folder.parts
    if len(parts) < 5:
        return None
    if step := _STEP.fullmatch(parts[-1]):
        rank = _RANK.fullmatch(parts[-3])
        return Place(folder, folder.parents[1], int(rank[1]), 0, int(step[1])) if rank else None
    if not _INT.fullmatch(parts[-1]):
        return None
    iteration = int(parts[-1])
    graph = int(parts[-2]) if _INT.fullmatch(parts[-2]) else 0
    if rank := _RANK.fullmatch(parts[-4]) or _INT.fullmatch(parts[-4]):
        return Place(folder, folder.parents[2], int(rank[1]), graph, iteration)
    if rank := _INT.fullmatch(parts[-3]):
        return Place(folder, folder.parents[1], int(rank[1]), 0, iteration)
    return None


def holds_kernels(files: Iterable[str]) -> bool:
    """Return whether one of a folder's files is a kernel's, or a table of them."""
    return any(name in (STATISTIC, MAPPING) or is_kernel_file(name) for name in files)


def kernel_dumps(root: Path) -> dict[tuple[int, int], tuple[Path, ...]]:
    """Return the folders of each kernel dump below `root`, one for each graph, by (rank, iteration) in numeric order.

    `root` may also be a rank's folder or one below. A folder whose path says no rank and iteration is left out.
    """
    found: dict[tuple[int, int], list[Place]] = {}
    for folder in walk(root.absolute(), WITHOUT_KERNELS):
        place = place_of(folder.path)
        if place is not None and holds_kernels(folder.files):
            found.setdefault((place.rank, place.iteration), []).append(place)
    return {
        at: tuple(place.path for place in sorted(found[at], key=lambda place: (place.graph, place.path)))
        for at in sorted(found)
    }


_MAX_NAME_LENGTH = 4096  # characters; no kernel's scope is longer


@dataclass(frozen=True)
class Content:
    """What one folder holds: its values, and the names of files that are no kernel's."""

    values: tuple[Value, ...]
    foreign: tuple[str, ...]


def content(folder: Path, graph: int) -> Content:
    """Read the names of a folder's files, its mapping.csv and its statistic.csv; no tensor is opened."""
    rows = csv_rows(folder / MAPPING, "files with hashed names cannot be distinguished")
    long_names = {row[0].strip(): row[1].strip() for row in rows if len(row) >= 2 and len(row[1]) <= _MAX_NAME_LENGTH}
    found: list[Value] = []
    foreign: list[str] = []
    for name in look(folder).files:
        if name in (STATISTIC, MAPPING):
            continue
        whole = long_names.get(name) or long_names.get(name.removesuffix(".npy")) or name
        value = from_file(folder / name, whole, graph)
        if value is None:
            foreign.append(name)
        else:
            found.append(value)
    table = {value.identity: value for value in read_table(folder / STATISTIC, graph)}
    for at, value in enumerate(found if table else ()):
        if line := table.pop(value.identity, None):
            found[at] = replace(value, row=line.row)  # of use where the file is no npy, or broken
    return Content((*found, *table.values()), tuple(foreign))


def read_kernels(folders: Sequence[Path], rank: int | None, step: int | None) -> Dump:
    """Return the dump of one rank and iteration, whose folders `kernel_dumps` found; DumpError if they hold no kernel.

    Calls are named `Kernel.Default_fc-Dense.MatMul.0.forward` after the name in the files, with `.round1` and so on
    after the type from the second execution in the iteration on, by time. If one name has several task ids, each is a
    separate kernel, and `.task{id}` follows the type. The dump's task is `tensor` if there are files, else
    `statistics`.
    """
    common = Path(os.path.commonpath(folders))
    values: list[Value] = []
    foreign: list[Path] = []
    for number, folder in enumerate(folders):
        place = place_of(folder.absolute())
        found = content(folder, place.graph if place else number)
        values += found.values
        foreign += [folder / name for name in found.foreign]
    if not values:
        raise DumpError(
            f"{common}: contains no values of kernels; give the dump_path of a kernel dump, whose files have "
            "names such as `type.name.task.stream.time.input.0.format.npy`, or whose statistic.csv has one line "
            "per value"
        )
    if foreign:
        logger.warning(
            "%s: %d files do not belong to a kernel dump and are skipped (%s)", common, len(foreign), foreign[0].name
        )
    values, names = _with_display_names(values)
    runs = executions(values, names, {})
    return Dump(
        where=str(common),
        folder=str(common),
        task="tensor" if any(value.path is not None for value in values) else "statistics",
        level="L2",
        framework="mindspore",
        calls=Calls.of(Call(run.call, tuple(_records(run, common))) for run in runs),
        step=step,
        rank=rank,
        tensors="",
    )


def _with_display_names(values: Iterable[Value]) -> tuple[list[Value], dict[tuple[int, str], str]]:
    """Return the values, with the task in the name where one name has several, and what each name becomes in its
    call's.

    The name of a call depends on the file's name only: not on a list of kernels that one dump has and the other
    has not. Its last part is the type, where `msprobe gather` has it too.
    """
    tasks: dict[str, set[int]] = {}
    spelled_alike = [replace(value, name=key(value.name)) for value in values]
    for value in spelled_alike:
        tasks.setdefault(value.name, set()).add(value.task)
    made: list[Value] = []
    names: dict[tuple[int, str], str] = {}
    for value in spelled_alike:
        stem, number = stem_and_number(value.name)
        suffix = f"-op{number}" if number >= 0 else ""
        shown = "/".join(stem.rsplit("_", 1)) if value.op_type != PARAMETER and not stem.endswith("_") else stem
        if len(tasks[value.name]) > 1:
            value = replace(value, name=f"{stem}/task{value.task}{suffix}")
            shown += f"/task{value.task}"
        made.append(value)
        names[value.graph, value.name] = printable(f"{shown}{suffix}")
    return made, names


def _records(run: Execution, common: Path) -> Iterator[Record]:
    """Yield one record for each value, inputs before outputs, by slot; values of parameters are inputs."""
    values = sorted(run.values, key=lambda value: (value.io, value.slot))
    for at, value in enumerate(values):
        part = "input" if run.is_parameter else value.io
        path = (str(at),) if run.is_parameter else tuple(map(str, value.slot))
        dtype, shape = _look(value)
        yield Record(
            ".".join((run.call, part, *path)),
            part,
            path,
            "tensor",
            "mindspore.Tensor",
            dtype,
            shape,
            _statistics(value),
            file=str(value.path.relative_to(common)) if value.path is not None else "",
        )


def _look(value: Value) -> tuple[str, tuple[int, ...] | None]:
    """Return dtype and shape from the file's header, else from its name or its line in statistic.csv."""
    if value.path is not None and not value.is_raw and is_file(value.path):
        with suppress(DumpError):  # who compares the tensor opens it again, and says what is wrong with it
            return header_of(value.path)
    return spelled(value.dtype), value.row.shape if value.row else None


def _statistics(value: Value) -> Statistics | None:
    """Return the statistics in statistic.csv; None if it has no line, or no column of statistics."""
    row = value.row
    if row is None or all(number is None for number in row.statistics.values()):
        return None
    dtype = spelled(value.dtype)
    letter = "b" if dtype == "Bool" else "f"
    numbers = []
    for each in NUMBERS:
        number = row.statistics.get(each.name) if letter in each.dtypes else None
        numbers.append(extreme(number, dtype) if each.rule == "extreme" else number)
    return statistics_from(*numbers)
