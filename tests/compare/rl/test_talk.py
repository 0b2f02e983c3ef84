"""What is said of the work on standard error, beside the answer: little, and with `MSPROBE_LOG_LEVEL=0` all of it."""

import logging

import pytest

from msprobe.base.log import logger
from msprobe.cli import main
from msprobe.compare.jobs.plan import side

STAGES = ("reference_compute_log_prob", "actor_update")


@pytest.fixture
def log(roots, tmp_path, capsys):
    """`log(level)`: the lines of a comparison of two runs with two stages of one and of three steps."""

    def run(level):
        for root in roots:
            for step in range(3):
                root.save(step).dump(STAGES[1], step)
            root.dump(STAGES[0])
        before = logger.level
        logger.setLevel(level)
        try:
            assert main(["compare", *(str(root.path) for root in roots), "-o", str(tmp_path / "out")]) == 0
        finally:
            logger.setLevel(before)
        return capsys.readouterr().err.splitlines()

    return run


def test_each_stage_has_one_line(log, tmp_path):
    lines = log(logging.INFO)
    out = tmp_path / "out"
    assert lines[0].startswith("msprobe INFO: target: ")
    assert lines[1:-1] == [
        f"msprobe INFO: stage {STAGES[0]}: 1 dump, in {out / STAGES[0]}",
        f"msprobe INFO: stage {STAGES[1]}: 3 dumps, in {out / STAGES[1]}",
    ]
    assert lines[-1].startswith(f"msprobe INFO: the tables are in {out}, ")


def test_the_rest_is_there_for_who_asks(log, tmp_path):
    detail = [line for line in log(logging.DEBUG) if line.startswith("msprobe DEBUG: ")]
    assert any("; 3 comparisons" in line for line in detail)
    assert any(f"the table is in {tmp_path / 'out' / STAGES[0]}" in line for line in detail)
    assert any("target: MindSpore, statistics, level L0" in line for line in detail)


def test_what_is_walked_beside_the_steps_of_the_debugger_itself_is_not_said_to_be_skipped(roots, log):
    """Configurations, key data and stages; a file that nobody compares is, and all of them in a plain comparison."""
    for root in roots:
        root.dump("").configure(lr=0.1)
    (roots[1].path / "notes.txt").write_text("")
    skipped = [line for line in log(logging.INFO) if "skipped" in line]
    assert skipped == [f"msprobe INFO: {roots[1].path}: skipped, since these are neither steps nor ranks: notes.txt"]
    (summary,) = side(roots[0].path, "kernels").skipped
    assert summary.endswith(f": actor_update, data, {STAGES[0]}, configurations.json")


def test_what_is_skipped_is_said_still(roots, log):
    roots[0].save(0)
    folder = roots[0].path / STAGES[1] / "step0"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("")
    assert any("skipped, since these are neither steps nor ranks: notes.txt" in line for line in log(logging.INFO))
