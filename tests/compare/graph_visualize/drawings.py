"""A drawing: its database as values, and the samples that are drawn."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "samples" / "26.2.0" / "dumps"
JSON_COLUMNS = ("sub_nodes", "matched_node_link", "matched_distributed", "input_data", "output_data")


@dataclass(frozen=True)
class Drawn:
    """One database: the rows of nodes by `id`, stacks by name, and the one row of the configuration."""

    path: Path
    nodes: dict
    stacks: dict
    config: dict

    def npu(self, name, rank=0, step=0):
        return self.nodes[f"NPU_{step}_{rank}_{name}"]

    def bench(self, name, rank=0, step=0):
        return self.nodes[f"Bench_{step}_{rank}_{name}"]

    def stack(self, node):
        return self.stacks[node["stack_id"]]


def read(path):
    """A database of nodes; what is JSON in it as values."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        nodes = {row["id"]: dict(row) for row in connection.execute("SELECT * FROM tb_nodes")}
        stacks = {row["id"]: json.loads(row["stack_info"]) for row in connection.execute("SELECT * FROM tb_stack")}
        (config,) = (dict(row) for row in connection.execute("SELECT * FROM tb_config"))
    for node in nodes.values():
        node.update({column: json.loads(node[column] or "[]") for column in JSON_COLUMNS})
    for column in ("node_colors", "rank_list", "step_list", "tool_tip"):
        config[column] = json.loads(config[column] or "null")
    return Drawn(path, nodes, stacks, config)
