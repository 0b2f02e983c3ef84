"""The file: its tables, and how it is written."""

import json
import sqlite3
import threading
from contextlib import closing

import odd_dumps
import pytest
from drawings import read

from msprobe.base.errors import UsageError
from msprobe.compare.graph_visualize import database
from msprobe.compare.graph_visualize.database import BATCH, Configuration, Database, NodeRow, created, retried

NODES = [
    "id",
    "graph_id",
    "node_order",
    "node_name",
    "node_type",
    "up_node",
    "sub_nodes",
    "precision_index",
    "overflow_level",
    "micro_step_id",
    "matched_node_link",
    "stack_id",
    "parallel_merge_info",
    "matched_distributed",
    "modified",
    "input_data",
    "output_data",
    "data_source",
    "dump_data_dir",
    "step",
    "rank",
    "is_distributed",
]
CONFIG = [
    "id",
    "graph_type",
    "task",
    "tool_tip",
    "micro_steps",
    "overflow_check",
    "node_colors",
    "rank_list",
    "step_list",
]
INDEXES = {
    "step, rank, data_source, up_node, node_order",
    "step, rank, data_source, node_name",
    "step, rank, data_source, node_order",
    "step, rank, node_order",
    "step, rank, micro_step_id, node_order",
    "step, rank, modified, matched_node_link",
    "is_distributed",
}
COLOURS = {
    "#FFFCF3": ([0, 0.3], "pass"),
    "#FFDC7F": ([0.3, 0.6], "warning"),
    "#FF704D": ([0.6, 1], "error"),
    "#C7C7C7": ([], "unmatched node"),
}


def test_tables_columns_and_indexes(draw, sample):
    path = draw("-tp", sample("ms_mix_stat")).path
    with closing(sqlite3.connect(path)) as connection:
        columns = {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in ("tb_nodes", "tb_stack", "tb_config")
        }
        made = [
            row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql != ''")
        ]
        key = [row[1] for row in connection.execute("PRAGMA table_info(tb_nodes)") if row[5]]
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    assert columns == {"tb_nodes": NODES, "tb_stack": ["id", "stack_info"], "tb_config": CONFIG}
    assert {sql.partition("(")[2].rstrip(")") for sql in made} == INDEXES
    assert key == ["id"]
    assert mode == "delete", "it opens from a folder that may not be written"


def test_one_graph_alone(draw, sample):
    drawn = draw("-tp", sample("ms_mix_stat"))
    assert drawn.path.name.startswith("build_")
    assert drawn.path.name.endswith(".vis.db")
    assert drawn.config == {
        "id": "1",
        "graph_type": "build",
        "task": "",
        "tool_tip": None,
        "micro_steps": 1,
        "overflow_check": 0,
        "node_colors": None,
        "rank_list": [0],
        "step_list": [0],
    }
    node = drawn.npu("Cell.fc1.Linear.forward.0")
    assert node["graph_id"] == "NPU_0_0"
    assert node["stack_id"] == "NPU_0_0_1", "the second stack that a node has"
    assert (node["modified"], node["parallel_merge_info"], node["data_source"]) == (0, "", "NPU")


@pytest.mark.parametrize(("kind", "task"), [("stat", "summary"), ("md5", "md5"), ("tensor", "all")])
def test_two_graphs(draw, sample, kind, task):
    drawn = draw("-tp", sample(f"ms_mix_{kind}"), "-gp", sample(f"msp_mix_{kind}"))
    assert drawn.path.name.startswith("compare_")
    assert (drawn.config["graph_type"], drawn.config["task"]) == ("compare", task)
    colors = drawn.config["node_colors"].items()
    assert {code: (entry["value"], entry["accuracy_level"]) for code, entry in colors} == COLOURS
    first = {"summary": "Max diff", "md5": "md5", "all": "Cosine"}[task]
    assert next(iter(drawn.config["tool_tip"])) == first


def test_every_rank_of_every_step_is_in_one_file(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.ranks(tmp_path / "a", steps=2))
    assert (drawn.config["rank_list"], drawn.config["step_list"]) == ([0, 1], [0, 1])
    places = {(node["step"], node["rank"]) for node in drawn.nodes.values()}
    assert places == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert drawn.npu("Module.m.M.forward.0", rank=1, step=1)["id"] == "NPU_1_1_Module.m.M.forward.0"


def test_the_folder_of_a_rank_keeps_its_numbers(tmp_path, draw):
    odd_dumps.ranks(tmp_path / "a", steps=2)
    drawn = draw("-tp", tmp_path / "a" / "step1" / "rank1")
    assert (drawn.config["rank_list"], drawn.config["step_list"]) == ([1], [1])


def test_ranks_that_one_side_lacks_are_left_out(tmp_path, draw):
    sides = odd_dumps.ranks(tmp_path / "a"), odd_dumps.ranks(tmp_path / "b")
    (sides[1] / "step0" / "rank1").rename(sides[1] / "elsewhere")
    drawn = draw("-tp", sides[0], "-gp", sides[1], code=1)
    assert drawn.config["rank_list"] == [0]


def test_a_row_is_what_the_other_tool_writes(draw, sample):
    """The whole row of a leaf, against what 26.2.0 writes of the same dump (benchmarks/compat/graphs.py asks it)."""
    node = draw("-tp", sample("task_structure_mix")).npu("Mint.square.0.forward")
    assert {column: node[column] for column in NODES if column not in ("stack_id", "node_order")} == {
        "id": "NPU_0_0_Mint.square.0.forward",
        "graph_id": "NPU_0_0",
        "node_name": "Mint.square.0.forward",
        "node_type": "1",
        "up_node": "Apis_Between_Modules.0",
        "sub_nodes": [],
        "precision_index": None,
        "overflow_level": None,
        "micro_step_id": 0,
        "matched_node_link": [],
        "parallel_merge_info": "",
        "matched_distributed": {},
        "modified": 0,
        "input_data": {},
        "output_data": {},
        "data_source": "NPU",
        "dump_data_dir": None,
        "step": 0,
        "rank": 0,
        "is_distributed": 0,
    }


# ---- writing


def row(number):
    node = (f"n{number}", "NPU_0_0", number, "n", "1", "", "", None, None, 0, "[]", "s", "", "{}")
    return NodeRow(*node, 0, "{}", "{}", "NPU", None, 0, 0, 0)


CONFIGURATION = Configuration("build", "", None, 1, 0, "null", "[0]", "[0]")


def test_nodes_are_inserted_some_at_once(tmp_path):
    given = []

    def rows():
        for number in range(2 * BATCH + 1):
            given.append(number)
            yield row(number)

    with created(tmp_path / "a.vis.db") as made:
        made.add_nodes(rows())
        made.add_stacks([("s", "[]")])
        made.finish(CONFIGURATION)
    assert len(read(tmp_path / "a.vis.db").nodes) == 2 * BATCH + 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.vis.db"], "no log and no part is left"


def test_what_fails_leaves_nothing(tmp_path):
    def interrupted():
        yield row(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), created(tmp_path / "a.vis.db") as made:
        made.add_nodes(interrupted())
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="give another folder with -o"), created(tmp_path / "file" / "a.vis.db"):
        pass


def test_a_locked_database_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "FIRST_WAIT", 0.01)
    path = tmp_path / "a.db"
    with (
        closing(sqlite3.connect(path, timeout=0)) as ours,
        closing(sqlite3.connect(path, check_same_thread=False)) as other,
    ):
        made = Database(ours)
        made.create()
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.1, other.rollback)
        release.start()
        made.add_nodes([row(0)])
        release.join()
        assert ours.execute("SELECT count(*) FROM tb_nodes").fetchone() == (1,)


def test_waiting_doubles_ten_times_and_ends(monkeypatch):
    waits = []
    monkeypatch.setattr(database.time, "sleep", waits.append)

    def locked():
        raise sqlite3.OperationalError("database is locked")

    with pytest.raises(sqlite3.OperationalError):
        retried(locked)
    assert waits == [0.1 * 2**n for n in range(9)], "ten tries, nine waits between them"


def test_another_failure_is_not_tried_again(monkeypatch):
    monkeypatch.setattr(database.time, "sleep", lambda _: pytest.fail("waited"))

    def broken():
        raise sqlite3.OperationalError("no such table: x")

    with pytest.raises(sqlite3.OperationalError):
        retried(broken)


def test_hostile_names_are_text(tmp_path, draw):
    from made_dumps import forward, tensor, write

    name = "Mint.a'); DROP TABLE tb_nodes; --</script>\u202e.0.forward"
    drawn = draw("-tp", write(tmp_path / "a", {name: forward([tensor()], [tensor()])}))
    assert drawn.npu(name)["up_node"] == "DefaultModel"
    assert json.loads(json.dumps(drawn.npu(name)["output_data"]))
