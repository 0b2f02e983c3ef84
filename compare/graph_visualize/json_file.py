"""The files `.vis` of msprobe 8.1: one JSON file for each rank and step, built from the rows of the database."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msprobe.base.files import replace_atomically, writing

from .colors import Task
from .database import Database
from .graph import ROOT

SOURCES = ("NPU", "Bench")
_COLUMNS = (
    "node_name, node_type, up_node, sub_nodes, precision_index, overflow_level, micro_step_id, matched_node_link, "
    "stack_info, matched_distributed, input_data, output_data, dump_data_dir"
)


def write_json(path: Path, database: Database, step: int, rank: int, head: Mapping[str, Any], task: Task) -> None:
    """Write the file of one rank; `head` has the members other than nodes."""
    database.connection.row_factory = sqlite3.Row
    graphs = {source: _graph(database, source, step, rank, task) for source in SOURCES}
    is_compared = bool(graphs["Bench"]["node"])
    made = {**graphs, **head} if is_compared else {**graphs["NPU"], **head}
    with writing(path), replace_atomically(path) as file:
        for part in json.JSONEncoder(indent=4).iterencode(made):
            file.write(part.encode())


def _graph(database: Database, source: str, step: int, rank: int, task: Task) -> dict[str, Any]:
    rows = database.connection.execute(
        f"SELECT {_COLUMNS} FROM tb_nodes LEFT JOIN tb_stack ON tb_stack.id = stack_id "
        "WHERE step = ? AND rank = ? AND data_source = ? ORDER BY node_order",
        (step, rank, source),
    )
    nodes, folder = {}, None
    for row in rows:
        nodes[row["node_name"]] = _node(row, task)
        folder = row["dump_data_dir"]
    return {"root": ROOT, "dump_data_dir": folder, "node": nodes}


def _node(row: sqlite3.Row, task: Task) -> dict[str, Any]:
    made = {
        "id": row["node_name"],
        "node_type": int(row["node_type"]),
        "output_data": json.loads(row["output_data"]),
        "input_data": json.loads(row["input_data"]),
        "upnode": row["up_node"] or "None",
        "subnodes": json.loads(row["sub_nodes"] or "[]"),
        "matched_node_link": json.loads(row["matched_node_link"]),
        "suggestions": {},
        "stack_info": json.loads(row["stack_info"] or "[]"),
        "micro_step_id": row["micro_step_id"],
        "data": dict(_data(row, task)),
    }
    if row["matched_distributed"] != "{}":
        made["matched_distributed"] = json.loads(row["matched_distributed"])
    return made


def _data(row: sqlite3.Row, task: Task) -> Iterator[tuple[str, Any]]:
    index = row["precision_index"]
    if index is not None:
        yield "precision_index", index
        if task == "md5":
            yield "Result", "pass" if index == 1 else "Different"
    if row["overflow_level"]:
        yield "overflow_level", row["overflow_level"]
