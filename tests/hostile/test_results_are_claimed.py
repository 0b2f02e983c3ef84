"""Results of processes that write to one folder at once, or were killed there: nothing is lost, mixed up or left."""

import csv
import json
import os
import re
import subprocess
import sys

import pytest

from msprobe.base.files import creating, remove_stale_files, replace_atomically, temporary_file
from msprobe.cli import main

pytestmark = pytest.mark.slow

# The command, but for one line: the process is killed while it writes the table of the second of two ranks.
KILLED = """
import os, signal, sys
from msprobe.cli import main
from msprobe.compare.tables import csv_file
made, times = csv_file.stretches, []
def stretches(*args):
    times.append(0)
    for number, columns in enumerate(made(*args)):
        if len(times) == 2 and number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        yield columns
csv_file.stretches = stretches
sys.exit(main(sys.argv[1:]))
"""
WAITS = """
import sys
from pathlib import Path
from msprobe.base.files import temporary_file
with temporary_file(Path(sys.argv[1])) as part:
    print(part.path, flush=True)
    sys.stdin.read()
"""


def dump(folder, calls):
    leaf = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2]}
    leaf |= {"Max": 5.0, "Min": 0.0, "Mean": 2.5, "Norm": 7.4}
    data = {f"Functional.relu.{n}.forward": {"output": [leaf]} for n in range(calls)}
    folder.mkdir(parents=True)
    (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": "mix", "data": data}))
    return folder


def rows(path):
    with open(path, newline="", encoding="utf-8") as lines:
        return len(list(csv.reader(lines))) - 1


def compare(side, out, form="csv"):
    return ["compare", "-tp", str(side), "-gp", str(side), "-o", str(out), "--format", form, "--workers", "1"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_comparisons_started_together_write_a_table_each(tmp_path, form):
    side = dump(tmp_path / "dump", 300)
    command = [sys.executable, "-m", "msprobe", *compare(side, tmp_path / "out", form)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
    for each in running:
        out, err = each.communicate(timeout=120)
        assert each.returncode == 0, err
        assert out.splitlines()[-1] == b"no difference: 300 pairs judged, 0 unjudged"
    found = list((tmp_path / "out").iterdir())
    assert len(found) == 6
    assert all(re.fullmatch(rf"compare_result_\d{{14}}\.{form}", path.name) for path in found)
    if form == "csv":
        assert [rows(path) for path in found] == [300] * 6
    else:
        from openpyxl import load_workbook

        assert [load_workbook(path)["compare"].max_row for path in found] == [301] * 6


def test_a_killed_comparison_given_again_completes_its_set(tmp_path):
    for rank in (0, 1):
        dump(tmp_path / "run" / "step0" / f"rank{rank}", 6000)
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *compare(tmp_path / "run", out)], capture_output=True, timeout=120
    )
    assert done.returncode == -9
    files = sorted(path.name for path in out.rglob("*") if path.is_file())
    (table,) = [name for name in files if name.endswith(".csv")]
    second = re.search(r"\d{14}", table)[0]
    assert sum(name.endswith(".part") for name in files) == 1
    # Another task is not mistaken for it, and leaves its claim alone.
    assert main(compare(tmp_path / "run" / "step0" / "rank0", out)) == 0
    assert main(compare(tmp_path / "run", out)) == 0
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file() and second in path.name)
    assert found == [
        f"compare_summary_{second}.json",
        f"step0/compare_result_rank0_{second}.csv",
        f"step0/compare_result_rank1_{second}.csv",
    ]
    assert [rows(out / name) for name in found[1:]] == [6000, 6000]
    assert len([path for path in out.rglob("*") if path.is_file()]) == 4
    # Done is done: the same command once more is a comparison of its own.
    assert main(compare(tmp_path / "run", out)) == 0
    assert len(list(out.rglob("compare_summary_*"))) == 2


def test_a_temporary_file_goes_with_its_process_and_not_before(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(tmp_path / "x.csv")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    part = child.stdout.readline().decode().strip()
    remove_stale_files(tmp_path)
    assert os.path.exists(part)
    child.kill()
    child.communicate()
    assert os.path.exists(part)
    (tmp_path / "mine.part").touch()
    remove_stale_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.part"]


def test_a_result_that_is_there_is_not_replaced(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("mine")
    with pytest.raises(FileExistsError), creating(path) as file:
        file.write(b"yours")
    assert path.read_text() == "mine"
    with replace_atomically(path) as file:
        file.write(b"new")
    assert path.read_text() == "new"
    with temporary_file(tmp_path / ("n" * 255)) as part:
        assert part.path.exists()
    assert list(tmp_path.iterdir()) == [path]


def test_a_mapping_that_somebody_may_have_edited_stays(tmp_path, capsys):
    sides = [str(dump(tmp_path / side, 3)) for side in ("target", "golden")]
    (tmp_path / "m.cell.yaml").write_text("mine")
    assert main(["mapping", "suggest", *sides, "-o", str(tmp_path / "m.yaml")]) == 2
    assert "m.cell.yaml: already exists; choose another path with -o, or remove it" in capsys.readouterr().err
    assert (tmp_path / "m.cell.yaml").read_text() == "mine"
