"""The start of a comparison, counted and not timed: what statistics to csv do not need is not loaded."""

import ast
import statistics
import subprocess
import sys

import pytest

from msprobe.compare.core.noise import median

PROBE = """
import sys
import numpy
before = set(sys.modules)
from msprobe.cli import main
code = main(sys.argv[1:])
print(sorted(set(sys.modules) - before), code)
"""

ELSEWHERE = (
    *("yaml", "socket", "subprocess", "multiprocessing", "openpyxl", "zipfile", "csv", "html", "difflib", "decimal"),
    *("msprobe.store.kernel_dump", "msprobe.store.saves", "msprobe.store.rl_roots", "msprobe.store.run_folder"),
    *("msprobe.compare.ranks", "msprobe.compare.parallel", "msprobe.compare.checkpoint", "msprobe.compare.units"),
    *("msprobe.compare.tables.sheet", "msprobe.compare.tables.json_file", "msprobe.compare.tables.highlight"),
    *("msprobe.compare.jobs.survey", "msprobe.compare.jobs.first", "msprobe.compare.jobs.calibration"),
    *(
        "msprobe.compare.updates.tracks",
        "msprobe.compare.noise.kernels",
        "msprobe.replay.replay",
        "msprobe.replay.plan",
    ),
    *("msprobe.compare.workers.pool", "msprobe.mapping.layer_tree"),
)
"""What others need: comparisons of saves, kernels, tensors, ranks or later steps, to xlsx or json, large ones."""


def test_comparing_statistics_to_csv_loads_little(builder, tmp_path):
    for side in ("t", "g"):
        made = builder(side)
        for n in range(9):
            made.call(f"Mint.exp.{n}.forward", [1.0], [2.0 + 0.5 * (side == "t" and n > 4)])
        made.write()
    sides = ["-tp", str(tmp_path / "t"), "-gp", str(tmp_path / "g"), "-o", str(tmp_path / "o"), "--format", "csv"]
    done = subprocess.run([sys.executable, "-c", PROBE, "compare", *sides], capture_output=True, text=True, check=True)
    listed, _, code = done.stdout.splitlines()[-1].rpartition(" ")
    loaded = ast.literal_eval(listed)
    assert code == "1"
    assert [m for m in loaded if any(m == each or m.startswith(f"{each}.") for each in ELSEWHERE)] == []
    ours = [m for m in loaded if m.partition(".")[0] == "msprobe"]
    assert 50 < len(ours) <= 160
    assert len(loaded) - len(ours) <= 60


@pytest.mark.parametrize("values", [[3.0], [2.0, 1.0], [5.0, 1.0, 3.0], [4.0, 1.0, 1e300, 2.5], [1, 2, 2, 9]])
def test_the_median_is_that_of_the_standard_library(values):
    assert median(iter(values)) == statistics.median(values)
