"""The file `.vis.db`: every node of every step and rank as rows of SQLite, with the tables that msprobe's plugin reads.

| table | content |
|---|---|
| `tb_nodes` | one row per node of either side (`NPU` is the target, `Bench` the golden) |
| `tb_stack` | each call stack of a rank's step once |
| `tb_config` | one row: the type of the comparison, the colors, the ranks and steps |

Nodes are written as they are created, so that only one rank is in memory.
"""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msprobe.base.errors import UsageError
from msprobe.base.files import make_folder, temporary_file

Made = TypeVar("Made")

BATCH = 1000
"""Number of rows that are inserted together."""

TRIES = 10
FIRST_WAIT = 0.1  # seconds; doubled after each try
_SCHEMA = """
CREATE TABLE tb_nodes (
    id TEXT PRIMARY KEY, graph_id TEXT NOT NULL, node_order INTEGER NOT NULL, node_name TEXT NOT NULL,
    node_type TEXT NOT NULL, up_node TEXT, sub_nodes TEXT, precision_index INTEGER, overflow_level TEXT,
    micro_step_id INTEGER NOT NULL, matched_node_link TEXT, stack_id TEXT, parallel_merge_info TEXT,
    matched_distributed TEXT, modified INTEGER NOT NULL, input_data TEXT, output_data TEXT, data_source TEXT,
    dump_data_dir TEXT, step INTEGER NOT NULL, rank INTEGER NOT NULL, is_distributed INTEGER);
CREATE TABLE tb_stack (id TEXT PRIMARY KEY, stack_info TEXT);
CREATE TABLE tb_config (
    id TEXT PRIMARY KEY, graph_type TEXT NOT NULL, task TEXT, tool_tip TEXT, micro_steps INTEGER,
    overflow_check INTEGER, node_colors TEXT NOT NULL, rank_list TEXT NOT NULL, step_list TEXT NOT NULL);
"""
_INDEXES = """
CREATE INDEX index1 ON tb_nodes (step, rank, data_source, up_node, node_order);
CREATE INDEX index2 ON tb_nodes (step, rank, data_source, node_name);
CREATE INDEX index3 ON tb_nodes (step, rank, data_source, node_order);
CREATE INDEX index4 ON tb_nodes (step, rank, node_order);
CREATE INDEX index5 ON tb_nodes (step, rank, micro_step_id, node_order);
CREATE INDEX index6 ON tb_nodes (step, rank, modified, matched_node_link);
CREATE INDEX index7 ON tb_nodes (is_distributed);
"""


class NodeRow(NamedTuple):
    """One row of `tb_nodes`; members that are JSON there are texts of it here."""

    id: str
    graph_id: str
    node_order: int
    node_name: str
    node_type: str
    up_node: str
    sub_nodes: str
    precision_index: float | None
    overflow_level: str | None
    micro_step_id: int
    matched_node_link: str
    stack_id: str
    parallel_merge_info: str
    matched_distributed: str
    modified: int
    input_data: str
    output_data: str
    data_source: str
    dump_data_dir: str | None
    step: int
    rank: int
    is_distributed: int


class Configuration(NamedTuple):
    """The row of `tb_config`."""

    graph_type: str
    task: str
    tool_tip: str | None
    micro_steps: int
    overflow_check: int
    node_colors: str
    rank_list: str
    step_list: str


class Database:
    """A database while it is written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def create(self) -> None:
        """Make the tables."""
        retried(lambda: self.connection.executescript(_SCHEMA))

    def add_nodes(self, nodes: Iterable[NodeRow]) -> None:
        """Append nodes, several at a time."""
        self._insert("tb_nodes", len(NodeRow._fields), nodes)

    def add_stacks(self, stacks: Iterable[tuple[str, str]]) -> None:
        """Append nodes, several at a time."""
        self._insert("tb_stack", 2, stacks)

    def link(self, links: Iterable[tuple[str, str]]) -> None:
        """Enter the exchanges of nodes: the JSON, and the `id` of the node."""
        statement = "UPDATE tb_nodes SET matched_distributed = ? WHERE id = ?"
        for batch in _batches(links):
            self._commit(statement, batch)

    def finish(self, configuration: Configuration) -> None:
        """Enter the configuration, and make the indexes."""
        self._insert("tb_config", len(Configuration._fields) + 1, [("1", *configuration)])
        retried(lambda: self.connection.executescript(_INDEXES))

    def _insert(self, table: str, width: int, rows: Iterable[tuple[Any, ...]]) -> None:
        statement = f"INSERT INTO {table} VALUES ({', '.join('?' * width)})"
        for batch in _batches(rows):
            self._commit(statement, batch)

    def _commit(self, statement: str, batch: list[tuple[Any, ...]]) -> None:
        def once() -> None:
            with self.connection:
                self.connection.executemany(statement, batch)

        retried(once)


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    batch: list[tuple[Any, ...]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def retried(do: Callable[[], Made]) -> Made:
    """Call a function; if another process has locked the database, again after a delay, which doubles each time."""
    for attempt in range(TRIES):
        try:
            return do()
        except sqlite3.OperationalError as err:
            if attempt == TRIES - 1 or not any(word in str(err) for word in ("locked", "busy")):
                raise
            time.sleep(FIRST_WAIT * 2**attempt)
    raise AssertionError("unreachable")


@contextmanager
def created(path: Path, keeps: bool = True) -> Iterator[Database]:
    """Yield a database that gets its name when it is complete; raise a UsageError if it cannot be written.

    `keeps`: False for a temporary one, which is removed at the end.
    """
    try:
        make_folder(path.parent)
        with temporary_file(path) as part:
            try:
                with closing(sqlite3.connect(part.path, timeout=0)) as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute("PRAGMA synchronous = OFF")  # the file has another name until it is complete
                    database = Database(connection)
                    database.create()
                    yield database
                    # A reader of a read-only folder could not open a file with a log next to it.
                    connection.execute("PRAGMA journal_mode = DELETE")
                if keeps:
                    os.replace(part.path, path)
            finally:
                for end in ("-wal", "-shm"):
                    with suppress(OSError):
                        part.path.with_name(part.path.name + end).unlink()
    except (OSError, sqlite3.Error) as err:
        why = getattr(err, "strerror", None) or err
        raise UsageError(f"{path}: cannot be written ({why}); free some space, or give another folder with -o") from err


def as_json(made: object) -> str:
    """Return JSON in the form of the plugin's files: one line, escaped."""
    return json.dumps(made)
