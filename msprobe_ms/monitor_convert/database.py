"""Tables of a monitor as a database of SQLite, with the tables that msprobe's trend page reads."""

import math
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.files import FILE_MODE, make_folder
from msprobe.base.schema import OPERATIONS
from msprobe.store.monitor.table import Output, Table

NAME = "monitor_data.trend.db"

ORDER = (*OPERATIONS, "entropy", "softmax", "softmax_max", "sr", "kernel_norm")
"""The order of the statistics in the columns; others come behind them."""

LIMIT = 1e9
"""Numbers are cut to +-1e9, as msprobe's page wants them; infinities are one beyond. NaN becomes NULL."""

Array = np.ndarray[Any, Any]

_SCHEMA = """
CREATE TABLE monitoring_targets (
    target_id INTEGER PRIMARY KEY, target_name TEXT NOT NULL, vpp_stage INTEGER NOT NULL, micro_step INTEGER NOT NULL);
CREATE TABLE monitoring_metrics (metric_id INTEGER PRIMARY KEY, metric_name TEXT NOT NULL UNIQUE);
CREATE TABLE monitoring_tags (
    tag_id INTEGER PRIMARY KEY, tag_name TEXT NOT NULL, category TEXT NOT NULL, metric_id INTEGER NOT NULL);
CREATE TABLE tag_target_mapping (
    tag_id INTEGER NOT NULL, target_id INTEGER NOT NULL, PRIMARY KEY (tag_id, target_id));
"""


def write_database(output: Output, folder: Path, by_micro_step: bool, names: Mapping[str, str]) -> Path:
    """Write `monitor_data.trend.db` into a folder, in the place of an older one; UsageError where that cannot be.

    With `by_micro_step` every micro step is a step of its own: the micro steps of all steps before, and its number.
    `names` has other names for targets, or for the modules that their names begin with.
    """
    path = folder / NAME
    part = folder / f"{NAME}.{os.urandom(4).hex()}.part"
    try:
        make_folder(folder)
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
        with closing(sqlite3.connect(part)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            _Writer(database, output, by_micro_step, names).write()
            database.commit()
        os.replace(part, path)
    except (OSError, sqlite3.Error) as err:
        raise UsageError(
            f"{path}: cannot be written ({err}); free some space, or give another folder with --db"
        ) from err
    finally:
        with suppress(OSError):
            part.unlink()
    return path


def tags_of(name: str) -> Iterator[tuple[str, str]]:
    """(tag, category) of a name's segments: each word is a `module`; a number makes a `layer` of the word just before
    it, such as `layers.3`, and by itself none."""
    word = ""
    for segment in name.split("."):
        if not segment.isdigit():
            word = segment
            yield word, "module"
        elif word:
            yield f"{word}.{segment}", "layer"
            word = ""


@dataclass
class _Writer:
    database: sqlite3.Connection
    output: Output
    by_micro_step: bool
    names: Mapping[str, str]
    _targets: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _tags: dict[tuple[str, str, int], int] = field(default_factory=dict)
    _tagged: set[tuple[int, int]] = field(default_factory=set)

    def write(self) -> None:
        tables = [(rank, table) for rank, of_rank in self.output.ranks.items() for table in of_rank.tables.values()]
        kinds = list(dict.fromkeys(table.kind for _, table in tables))
        statistics = {kind: _ordered({s for _, t in tables if t.kind == kind for s in t.statistics}) for kind in kinds}
        columns = _ordered({name for names in statistics.values() for name in names})
        self.database.executescript(_SCHEMA)
        numbers = "".join(f", {_quoted(name)} REAL" for name in columns)
        self.database.execute(
            "CREATE TABLE trend_data (rank INTEGER, step INTEGER, target_id INTEGER, metric_id INTEGER"
            f"{numbers}, PRIMARY KEY (rank, step, target_id, metric_id)) WITHOUT ROWID"
        )
        metrics = {kind: number for number, kind in enumerate(kinds, 1)}
        self._insert("monitoring_metrics", [(number, kind) for kind, number in metrics.items()])
        base = _MicroSteps([table for _, table in tables]) if self.by_micro_step else None
        low, high = math.inf, -math.inf
        for rank, table in tables:
            step = table.step if base is None else base.number(table)
            low, high = min(low, int(step.min())), max(high, int(step.max()))
            self._rows(rank, table, step, metrics[table.kind], columns)
        self._insert("monitoring_targets", [(number, *target) for target, number in self._targets.items()])
        self._insert("monitoring_tags", [(number, *tag) for tag, number in self._tags.items()])
        self._insert("tag_target_mapping", sorted(self._tagged))
        kind_columns = "".join(f", {_quoted(kind)} TEXT" for kind in kinds)
        self.database.execute(
            f"CREATE TABLE global_stats (min_step INTEGER, max_step INTEGER, max_rank INTEGER{kind_columns})"
        )
        self._insert("global_stats", [(low, high, max(self.output.ranks), *(",".join(statistics[k]) for k in kinds))])

    def _rows(self, rank: int, table: Table, step: Array, metric: int, columns: tuple[str, ...]) -> None:
        micro_step = np.zeros_like(step) if self.by_micro_step else table.micro_step
        key = micro_step * len(table.targets) + table.target
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        numbers = [self._target(table, int(table.target[at]), int(micro_step[at]), metric) for at in first.tolist()]
        target = np.array(numbers, np.int64)[which]
        nothing = np.full(len(table), np.nan)
        values = [_cut(table.statistics.get(name, nothing)) for name in columns]
        rows = zip(step.tolist(), target.tolist(), *values, strict=True)
        marks = ", ".join("?" for _ in columns)
        statement = f"INSERT OR REPLACE INTO trend_data VALUES ({rank}, ?, ?, {metric}, {marks})"
        self.database.executemany(statement, rows)

    def _target(self, table: Table, at: int, micro_step: int, metric: int) -> int:
        target = table.targets[at]
        name = self._renamed(target.name)
        number = self._targets.setdefault((name, target.vpp_stage, micro_step), len(self._targets) + 1)
        for tag, category in tags_of(name):
            tag_number = self._tags.setdefault((tag, category, metric), len(self._tags) + 1)
            self._tagged.add((tag_number, number))
        return number

    def _renamed(self, name: str) -> str:
        """The other name of the whole name, or of the longest part that it begins with."""
        for end in [len(name), *(found.start() for found in reversed(list(re.finditer(r"\.", name))))]:
            if name[:end] in self.names:
                return self.names[name[:end]] + name[end:]
        return name

    def _insert(self, table: str, rows: list[Any]) -> None:
        if rows:
            marks = ", ".join("?" for _ in rows[0])
            self.database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


class _MicroSteps:
    """The number of each micro step among those of all steps, which all ranks and kinds share."""

    def __init__(self, tables: list[Table]):
        self._steps = np.unique(np.concatenate([table.step for table in tables]))
        counts = np.ones(self._steps.size, np.int64)
        for table in tables:
            np.maximum.at(counts, np.searchsorted(self._steps, table.step), table.micro_step + 1)
        self._before = np.cumsum(counts) - counts

    def number(self, table: Table) -> Array:
        found: Array = self._before[np.searchsorted(self._steps, table.step)] + table.micro_step
        return found


def _cut(values: Array) -> list[float | None]:
    cut = np.where(np.isinf(values), np.sign(values) * (LIMIT + 1), np.clip(values, -LIMIT, LIMIT))
    return [None if value != value else value for value in cut.tolist()]


def _ordered(names: set[str]) -> tuple[str, ...]:
    return (*(name for name in ORDER if name in names), *sorted(names.difference(ORDER)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
