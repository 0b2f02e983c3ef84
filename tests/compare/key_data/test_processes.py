"""SingleComparator in several processes: the same rows, also where one of them dies."""

import os
import subprocess
import sys

import pytest
from saved_trees import GRID, put, sheet

from msprobe.compare.key_data import comparator
from msprobe.compare.key_data.pairs import Key, Pair, find, pair


@pytest.fixture
def _two_workers(monkeypatch):
    """Small batches, and two processors to give them to."""
    monkeypatch.setattr(comparator, "BATCH", 1)
    monkeypatch.setattr(comparator, "cores", lambda: 2)


@pytest.mark.usefixtures("_two_workers")
def test_rows_are_the_same_for_any_number_of_processes(trees):
    for side, root in enumerate(trees):
        for step in range(4):
            put(root, f"x/step{step}/rank0/x.npy", GRID + side * step)
    put(trees[0], "x/step9/rank0/x.npy", GRID)
    pairs = pair(*map(find, trees))
    assert comparator.judge_pairs(pairs, 8) == comparator.judge_pairs(pairs, 1)


class Deadly:
    """Whoever receives it ends."""

    def __reduce__(self):
        return os._exit, (3,)

    def stat(self):
        raise FileNotFoundError


@pytest.mark.slow
@pytest.mark.usefixtures("_two_workers")
@pytest.mark.parametrize("batch", [1, 2])
def test_a_worker_that_dies_costs_its_pair_only(batch, trees, monkeypatch):
    for root in trees:
        for step in range(3):
            put(root, f"x/step{step}/rank0/x.npy", GRID)
    monkeypatch.setattr(comparator, "_PAIRS", batch)
    monkeypatch.setattr(comparator, "BATCH", 1 << 30)
    pairs = pair(*map(find, trees))
    pairs[1] = Pair(Key("x", 1, 0, 0, (0,)), Deadly(), None)
    rows = comparator.judge_pairs(pairs, 2)
    assert [row.key.step for row in rows] == [0, 1, 2]
    assert [row.verdict.grade for row in rows] == ["pass", "unjudged", "pass"]
    assert "the worker process died" in rows[1].verdict.reason


SCRIPT = """
import sys
print("begins")
from msprobe.core import SingleComparator
assert not {"openpyxl", "xlsxwriter", "mindspore", "torch", "concurrent.futures.process"} & set(sys.modules)
from msprobe.compare.key_data import comparator
comparator.BATCH = 1
comparator.cores = lambda: 2
print(len(SingleComparator.compare("a", "b")))
"""


def test_a_script_without_a_guard_runs_once(trees):
    for root in trees:
        for tag in "xy":
            put(root, f"{tag}/step0/rank0/{tag}.npy", GRID)
    (trees[0].parent / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=trees[0].parent, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["begins", "2"]
    assert sheet(trees[0].parent / "msprobe_compare_output" / "y.xlsx")[1][12] == "pass"
