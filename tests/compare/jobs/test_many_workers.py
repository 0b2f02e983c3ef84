"""Many dumps are compared by any number of workers, here or elsewhere, with the same answer."""

import pytest
from openpyxl import load_workbook
from three_calls import SIN

from msprobe.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_one_time")]
FOLDERS = [f"step{s}/rank{r}" for s in (0, 1) for r in (0, 1)]


@pytest.fixture
def result(tmp_path, capsys):
    """`result(target, golden, form, "--workers=1")`: what the command says, and what it writes into each file."""
    made = iter(range(1000))

    def make(target, golden, form, where):
        out = tmp_path / f"out{next(made)}"
        words = ["-tp", str(target), "-gp", str(golden), "-o", str(out), "--format", form, where]
        assert main(["compare", *words]) == 1
        files = {str(path.relative_to(out)): content(path) for path in out.rglob("*.*")}
        return capsys.readouterr().out.splitlines(), files

    return make


def content(path):
    """The bytes of a file; of a sheet, whose zip tells the time, the value and color of every cell."""
    if path.suffix != ".xlsx":
        return path.read_bytes()
    return [[(c.value, c.fill.start_color.rgb) for c in row] for sheet in load_workbook(path) for row in sheet]


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["csv", "json", "xlsx"])
def test_the_answer_is_the_same_for_any_number_of_workers(form, run, result):
    target, golden = run("t", *FOLDERS, wrong={FOLDERS[2]: SIN}), run("g", *FOLDERS)
    answers = [result(target, golden, form, f"--workers={workers}") for workers in (1, 2, 4)]
    assert answers[0] == answers[1] == answers[2]
    assert sorted(answers[0][1]) == [
        "compare_summary_20260101000000.json",
        *(f"{folder.split('/')[0]}/compare_result_{folder.split('/')[1]}_20260101000000.{form}" for folder in FOLDERS),
    ]


@pytest.fixture
def cluster():
    """The address of a Dask cluster of two worker processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="Dask comes with the extra `cluster`")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=40
    ) as made:
        yield made.scheduler_address


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["csv", "json", "xlsx"])
def test_the_answer_of_a_cluster_is_the_same(form, run, cluster, result):
    target, golden = run("t", *FOLDERS, wrong={FOLDERS[2]: SIN}, mode="tensor"), run("g", *FOLDERS, mode="tensor")
    (target / FOLDERS[1] / "dump.json").write_text("{")
    here, there = (result(target, golden, form, where) for where in ("--workers=1", f"--scheduler={cluster}"))
    assert here == there
    assert len(here[1]) == 4, "three tables and the summary"
