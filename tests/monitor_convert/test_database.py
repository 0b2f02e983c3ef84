"""`msprobe data2db`: the tables of the database by values worked out by hand."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe.cli import main
from msprobe.monitor_convert.database import NAME, tags_of


@pytest.fixture
def monitor(tmp_path):
    folder = tmp_path / "monitor" / "Dec03_10-00-00-rank1-bbbbbbbb"
    folder.mkdir(parents=True)
    (folder / "grad_reduced_0-9.csv").write_text(
        "vpp_stage,name,step,max,norm,shape,dtype\n"
        "0,layers.3.w,0,1e30,0.5,(),F\n0,layers.3.w,1,-inf,nan,(),F\n0,layers.3.w,3,0.25,1.0,(),F\n"
    )
    (folder / "actv_0-9.csv").write_text(
        "vpp_stage,name,step,micro_step,mean,shape,dtype\n"
        "1,fc.input,1,0,2.0,(),F\n1,fc.input,1,1,3.0,(),F\n1,fc.input,3,0,4.0,(),F\n"
    )
    (folder / "other_0-9.csv").write_text("vpp_stage,name,step,norm,shape,dtype\n0,all_reduce.input,0,1.0,(),F\n")
    return tmp_path / "monitor"


def convert(monitor, tmp_path, *options):
    """Rows of every table."""
    assert main(["data2db", "--db", str(tmp_path / "db"), "--data", str(monitor), *options]) == 0
    with closing(sqlite3.connect(tmp_path / "db" / NAME)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: (
                [column[1] for column in database.execute(f"PRAGMA table_info({name})")],
                database.execute(f"SELECT * FROM {name}").fetchall(),
            )
            for name in names
        }


def test_every_table(monitor, tmp_path, capsys):
    tables = convert(monitor, tmp_path, "--micro_step", "false")
    assert capsys.readouterr().out == f"{tmp_path / 'db' / NAME}\n"
    assert [path.name for path in (tmp_path / "db").iterdir()] == [NAME]
    targets = [(1, "fc.input", 1, 0), (2, "fc.input", 1, 1), (3, "layers.3.w", 0, 0), (4, "all_reduce.input", 0, 0)]
    assert tables == {
        "monitoring_targets": (["target_id", "target_name", "vpp_stage", "micro_step"], targets),
        "monitoring_metrics": (["metric_id", "metric_name"], [(1, "actv"), (2, "grad_reduced"), (3, "other")]),
        "monitoring_tags": (
            ["tag_id", "tag_name", "category", "metric_id"],
            [
                (1, "fc", "module", 1),
                (2, "input", "module", 1),
                (3, "layers", "module", 2),
                (4, "layers.3", "layer", 2),
                (5, "w", "module", 2),
                (6, "all_reduce", "module", 3),
                (7, "input", "module", 3),
            ],
        ),
        "tag_target_mapping": (
            ["tag_id", "target_id"],
            [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (4, 3), (5, 3), (6, 4), (7, 4)],
        ),
        "global_stats": (
            ["min_step", "max_step", "max_rank", "actv", "grad_reduced", "other"],
            [(0, 3, 1, "mean", "norm,max", "norm")],
        ),
        "trend_data": (
            ["rank", "step", "target_id", "metric_id", "norm", "max", "mean"],
            [
                (1, 0, 3, 2, 0.5, 1e9, None),
                (1, 0, 4, 3, 1.0, None, None),
                (1, 1, 1, 1, None, None, 2.0),
                (1, 1, 2, 1, None, None, 3.0),
                (1, 1, 3, 2, None, -1e9 - 1, None),
                (1, 3, 1, 1, None, None, 4.0),
                (1, 3, 3, 2, 1.0, 0.25, None),
            ],
        ),
    }


def test_micro_steps_become_steps(monitor, tmp_path):
    """Step 0 has one, step 1 two, step 3 one: they begin at 0, 1 and 3. That is the default."""
    tables = convert(monitor, tmp_path)
    assert convert(monitor, tmp_path, "--micro_step", "true") == tables
    assert tables["monitoring_targets"][1] == [
        (1, "fc.input", 1, 0),
        (2, "layers.3.w", 0, 0),
        (3, "all_reduce.input", 0, 0),
    ]
    assert [row[1:3] for row in tables["trend_data"][1]] == [(0, 2), (0, 3), (1, 1), (1, 2), (2, 1), (3, 1), (3, 2)]
    assert tables["global_stats"][1][0][:3] == (0, 3, 1)


def test_names_are_mapped(monitor, tmp_path):
    mapping = tmp_path / "names.json"
    mapping.write_text(json.dumps({"layers.3": "blocks.3", "fc.input": "in", "w": "not at the beginning"}))
    tables = convert(monitor, tmp_path, "--mapping", str(mapping))
    assert {row[1] for row in tables["monitoring_targets"][1]} == {"in", "blocks.3.w", "all_reduce.input"}


def test_an_older_database_is_replaced(monitor, tmp_path):
    first = convert(monitor, tmp_path)
    assert convert(monitor, tmp_path) == first


def test_what_cannot_be_done_is_refused(monitor, tmp_path, capsys):
    broken = tmp_path / "broken.json"
    broken.write_text("[")
    options = ["data2db", "--db", str(tmp_path / "db"), "--data"]
    for words in (
        [*options, str(monitor), "--format", "dump"],
        [*options, str(tmp_path / "none")],
        [*options, str(monitor), "--mapping", str(broken)],
        ["data2db", "--db", str(broken / "x"), "--data", str(monitor)],
    ):
        assert main(words) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "db").exists()


def test_a_number_joins_the_word_before_it():
    of_layers = [("layers", "module"), ("layers.3", "layer"), ("fc", "module"), ("fc.2", "layer")]
    assert list(tags_of("layers.3.1.fc.2")) == of_layers
    assert list(tags_of("0.weight")) == [("weight", "module")]


TAGS = """SELECT metric_name, tag_name, category, target_name FROM monitoring_tags
    JOIN tag_target_mapping USING (tag_id) JOIN monitoring_targets USING (target_id)
    JOIN monitoring_metrics USING (metric_id) ORDER BY 1, 2, 3, 4"""
DATA = """SELECT rank, step, target_name, vpp_stage, t.micro_step, metric_name, norm FROM trend_data
    JOIN monitoring_targets t USING (target_id) JOIN monitoring_metrics USING (metric_id) ORDER BY 2, 6, 3, 5"""


@pytest.mark.parametrize("micro_step", ["true", "false"])
def test_the_database_says_what_that_of_msprobe_says(micro_step, tmp_path):
    """`expected.json` has the answers of the database that mindstudio-probe 26.2.0 made of the same files."""
    sample = Path(__file__).parents[1] / "samples" / "monitor" / "26.2.0" / "data2db"
    convert(sample / "in", tmp_path, "--micro_step", micro_step)
    expected = json.loads((sample / "expected.json").read_text())[micro_step]
    with closing(sqlite3.connect(tmp_path / "db" / NAME)) as database:
        for query, name in ((TAGS, "tags"), (DATA, "data")):
            assert [list(row) for row in database.execute(query)] == expected[name]
