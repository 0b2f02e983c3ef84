"""`~` in paths that no shell has seen, and a working directory that was deleted under a command."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from msprobe.base import checks
from msprobe.base.errors import SettingsError
from msprobe.base.settings import read_config
from msprobe.cli import OLDER, VERBS, main
from msprobe.core import SingleComparator

pytestmark = [pytest.mark.slow, pytest.mark.part(2)]


@pytest.fixture
def home(dump, tmp_path, monkeypatch):
    """A home with two dumps, and a working directory elsewhere."""
    home = tmp_path / "home"
    for side in ("target", "golden"):
        shutil.copytree(dump, home / side)
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    return home


def test_a_tilde_is_the_home_at_every_entrance(home, tmp_path):
    assert main(["compare", "-tp", "~/target", "--golden_path=~/golden", "--output_path=~/out", "--format", "csv"]) == 0
    (home / "names.yaml").write_text("Cell.a.A: Cell.a.A\n")
    message = {"npu_path": "~/target", "bench_path": "~/golden", "stack_path": "~/target/stack.json"}
    (home / "compare.json").write_text(json.dumps(message))
    options = ["-o", "~/out", "--format", "csv", "--cell_mapping=~/names.yaml"]
    assert main(["compare", "--input_path=~/compare.json", *options, "-c"]) == 0
    assert main(["compare", "~/target", "~/golden", *options]) == 0
    assert len(list((home / "out").glob("compare_result_*.csv"))) == 3
    assert main(["doctor", "~/target"]) == 0
    assert checks.output_folder("~/dump") == home / "dump"
    assert checks.existing_path("~/target") == str(home / "target")
    (home / "config.json").write_text('{"task": "tensor"}')
    assert read_config("~/config.json") == {"task": "tensor"}
    assert list((tmp_path / "cwd").iterdir()) == []


COMMANDS = {
    "acc_check": "-api_info dump.json",
    "api_precision_compare": "-npu a.csv -gpu b.csv",
    "bisect": "--good a --bad b --golden a.golden -- python train.py",
    "bundle": "target golden -o b.zip",
    "check": "dump",
    "code_mapping": "--ir graph.ir --dump_data dump",
    "compare": "-tp target -gp golden",
    "config_check": "--compare a.ckpt b.ckpt",
    "data2db": "--db out --data monitors",
    "diagnose": "target golden",
    "doctor": "dump",
    "gate accept": "--golden a.golden --all --reason why --target dump",
    "gate check": "--golden a.golden --target dump",
    "gate record": "--golden a.golden --target dump",
    "gate show": "a.golden",
    "gather": "raw -o out",
    "graft": "target golden -- python train.py",
    "graph": "-i compare.json -o out",
    "graph_visualize": "-tp target -o out",
    "mapping": "suggest target golden",
    "convert": "dump -o out --to columnar",
    "digest": "dump",
    "merge_result": "-i tables -o out -config choice.yaml",
    "monitor anomalies": "-d monitors",
    "monitor compare": "target golden",
    "multi_acc_check": "-api_info dump.json -d 0 1",
    "multi_run_ut": "-api_info dump.json -d 0 1",
    "nan_analyze": "-i dump",
    "op_generate": "-i config_op.json -o out",
    "overflow_check": "-i dump",
    "report": "target golden",
    "repro": "Mint.add.0.forward -api_info dump.json",
    "rollout_check": "both.npz",
    "run_ut": "-api_info dump.json",
    "verify-collection": "train.py",
}
GONE = """
import os, sys, tempfile
os.chdir(folder := tempfile.mkdtemp())
os.rmdir(folder)
from msprobe.cli import main
for line in sys.argv[1:]:
    print("code", main(line.split()), file=sys.stderr)
"""


def canonical(verb):
    return OLDER.get(verb, (verb,))[0]


def test_a_deleted_working_directory_is_one_line(home):
    assert {canonical(verb) for verb in COMMANDS} == VERBS.keys() - {
        "completion",
        "explain",
        "mcp",
    }  # they have no path
    lines = [f"{verb} {words}" for verb, words in COMMANDS.items()]
    lines += [f"compare -tp {home}/target -gp {home}/golden", f"mapping suggest {home}/target {home}/golden"]
    done = subprocess.run([sys.executable, "-c", GONE, *lines], capture_output=True, timeout=120, text=True)
    assert done.returncode == 0, done.stderr
    logged = [line for line in done.stderr.splitlines() if not line.startswith(("msprobe INFO", "msprobe WARNING"))]
    assert logged[1::2] == ["code 2"] * len(lines)
    assert [line.partition(":")[0] for line in logged[::2]] == [
        f"msprobe {canonical(verb)}" for verb in (*COMMANDS, "compare", "mapping")
    ]


def test_what_needs_no_working_directory_works_without(home):
    lines = [
        f"compare -tp {home}/target -gp {home}/golden -o {home}/out --format csv",
        f"doctor {home}/target",
    ]
    done = subprocess.run([sys.executable, "-c", GONE, *lines], capture_output=True, timeout=120, text=True)
    assert done.stderr.splitlines()[-1] == "code 0"
    assert done.stderr.count("code 0") == 2, done.stderr


def test_a_relative_setting_in_a_deleted_working_directory_is_refused(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    os.rmdir(tmp_path / "gone")
    with pytest.raises(SettingsError, match="is relative, but the working directory no longer exists"):
        checks.output_folder("dump")
    with pytest.raises(SettingsError, match=r'"config.json" is relative, but the working directory no longer exists'):
        read_config("config.json")


def test_key_data_of_the_home_is_compared(home):
    import numpy as np

    from msprobe.store.saves.single_saves import Place, write

    for side in ("target", "golden"):
        write(home / side, Place("loss", 0, 0, 0), np.ones(3, np.float32))
    (sheet,) = SingleComparator.compare("~/target", "~/golden", "~/sheets", 1)
    assert sheet == home / "sheets" / "loss.xlsx"
