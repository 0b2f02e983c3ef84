"""Tables of a monitor as TensorBoard's event files: a folder per rank and kind."""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.files import user_path, writing
from msprobe.base.log import logger
from msprobe.store.monitor.events import EventFile, Scalar
from msprobe.store.monitor.layout import KINDS, time_text
from msprobe.store.monitor.lines import Notes
from msprobe.store.monitor.reader import nothing_read, read_rank
from msprobe.store.monitor.runs import Folder, Form, find_runs
from msprobe.store.monitor.table import Table

CONVERTED = tuple(kind for kind in KINDS if kind != "other")
"""The kinds that can be converted; msprobe's converter leaves the collectives out."""

_BATCH = 4096  # rows that are written at once


@dataclass(frozen=True)
class _Task:
    """The conversion of one rank."""

    form: Form
    rank: int
    folders: tuple[Folder, ...]
    kinds: tuple[str, ...]
    output: Path


def csv2tensorboard_by_step(
    monitor_path: str | os.PathLike[str],
    time_start: str | None = None,
    time_end: str | None = None,
    process_num: int = 1,
    data_type_list: Sequence[str] | None = None,
    output_dirpath: str | os.PathLike[str] | None = None,
) -> None:
    """Write `{output}/rank{R}/{kind}/events...` from the tables in `monitor_path`.

    `time_start` and `time_end` (`Dec03_21-34-40`, both included) choose among the folders of processes. Of several runs
    the newest is converted. `data_type_list` holds kinds, all by default; ValueError for an unknown one.
    """
    kinds = CONVERTED if data_type_list is None else tuple(data_type_list)
    for kind in kinds:
        if kind not in CONVERTED:
            raise ValueError(f"data_type_list: unknown kind {kind!r}; choose from {', '.join(CONVERTED)}")
    if isinstance(process_num, bool) or not isinstance(process_num, int) or process_num < 1:
        raise ValueError(f"process_num: {process_num!r} is not a number of processes; give an integer of at least 1")
    path, notes = user_path(monitor_path), Notes()
    form, runs = find_runs(path, notes, time_start, time_end)
    if output_dirpath is None:
        output = path / f"{time_text(time.time())}-csv2tensorboard_by_step"
    else:
        output = user_path(output_dirpath)
    tasks = [_Task(form, rank, folders, kinds, output) for rank, folders in runs.items()]
    converted = 0
    for count, texts in _results(tasks, process_num):
        converted += count
        for text in texts:
            logger.warning("%s", text)
    for words in notes.texts():
        logger.warning("%s", words)
    if not converted:
        raise nothing_read(path, notes)
    logger.info("%s: %d series of event files written", output, converted)


def _results(tasks: Sequence[_Task], process_num: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    if min(process_num, len(tasks)) == 1:
        yield from map(_convert, tasks)
        return
    # A new interpreter: a copy of a process with a framework's threads may wait for ever.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(process_num, len(tasks)), context) as pool:
        yield from pool.map(_convert, tasks)


def _convert(task: _Task) -> tuple[int, tuple[str, ...]]:
    """Convert one rank; the number of its kinds, and the notes."""
    notes = Notes()
    found = read_rank(task.form, task.rank, task.folders, notes)
    tables = [table for kind, table in found.tables.items() if kind in task.kinds] if found else []
    for table in tables:
        folder = task.output / f"rank{task.rank}" / table.kind
        with writing(folder, "give another output_dirpath"):
            file = EventFile(folder)
            try:
                for scalars in _scalars(table):
                    file.add(scalars)
            finally:
                file.close()
    return len(tables), tuple(map(str, notes.texts()))


def _scalars(table: Table) -> Iterator[list[Scalar]]:
    """The numbers of a table, some rows at once; what a file does not have is NaN."""
    has_micro_step = KINDS[table.kind].has_micro_step or bool(table.micro_step.any())
    statistics = list(table.statistics)
    tags: dict[tuple[int, int], list[str]] = {}
    for start in range(0, len(table), _BATCH):
        rows = slice(start, start + _BATCH)
        columns = [table.statistics[name][rows].tolist() for name in statistics]
        leading = zip(table.target[rows].tolist(), table.micro_step[rows].tolist(), strict=True)
        scalars = []
        for at, (key, step) in enumerate(zip(leading, table.step[rows].tolist(), strict=True)):
            of_row = tags.get(key)
            if of_row is None:
                target = table.targets[key[0]]
                micro = f":micro{key[1]}" if has_micro_step else ""
                of_row = tags[key] = [f"vp{target.vpp_stage}:{target.name}{micro}/{name}" for name in statistics]
            scalars += [Scalar(tag, step, column[at]) for tag, column in zip(of_row, columns, strict=True)]
        yield scalars
