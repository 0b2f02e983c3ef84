"""SingleComparator: what two runs saved by name, compared; what the sheets say, what is refused."""

import os

import numpy as np
import pytest
from saved_trees import F32, GRID, HEADINGS, compared, one, put, sheet

from msprobe.base.errors import UsageError
from msprobe.compare.key_data import pairs
from msprobe.core import SingleComparator
from msprobe.store.detect import kind_of


def test_the_sheet_has_the_documented_headings_and_ours_behind_them(trees):
    put(trees[0], "loss/step0/rank0/loss.npy", GRID)
    put(trees[1], "loss/step0/rank0/loss.npy", GRID)
    (path,) = SingleComparator.compare(*trees, trees[0].parent / "out")
    assert path.name == "loss.xlsx"
    assert sheet(path) == [HEADINGS, [0, 0, 0, 0, "[3, 4]", "[3, 4]", 100, None, 0, 0, 100, 100, "pass", None]]


def test_the_verdict_is_by_the_standard_of_the_dtype(trees):
    near = GRID * (1 + 1e-6)
    assert one(trees, near, GRID)[8:] == ["pass", None]
    verdict, reason = one(trees, GRID * F32(1.01), GRID)[8:]
    assert verdict == "error"
    assert "beyond 1.3e-06*|golden| + 1e-05" in reason


def test_a_width_that_differs_is_judged_by_the_coarser_and_said(trees):
    wide = np.array([0.1, 2.0])
    assert one(trees, wide.astype(np.float16), wide)[8:] == ["pass", "Dtypes differ: float16, golden float64."]
    assert one(trees, wide, wide.astype(np.float16))[8:] == ["pass", "Dtypes differ: float64, golden float16."]


def test_a_kind_that_differs_is_an_error(trees):
    assert one(trees, np.array([1, 2]), np.array([1.0, 2]))[8:] == ["error", "Dtypes differ: int64, golden float64."]


def test_shapes_that_differ_are_cut_said_and_an_error(trees):
    row = one(trees, np.ones((2, 3)), np.ones((3, 2)))
    assert row[:2] == ["[2, 3]", "[3, 2]"]
    assert row[8:] == ["error", "Shapes differ: [2, 3], golden [3, 2]; compared in [2, 2]."]
    row = one(trees, np.ones((2, 3)), np.ones(4))
    assert row[9] == "Shapes differ: [2, 3], golden [4]; compared in [4] of the flattened tensors."
    row = one(trees, np.ones((0, 3)), np.ones((2, 3)))
    assert row[2:8] == [None] * 6
    assert row[8:] == [
        "error",
        "Shapes differ: [0, 3], golden [2, 3]; compared in [0, 3]. The tensors have no common element.",
    ]


def test_a_tree_that_the_other_tool_saved_is_read_whole(samples, tmp_path):
    saved = samples / "single_save"
    sheets = SingleComparator.compare(saved, saved, tmp_path, 1)
    verdicts = [row[12] for path in sheets for row in sheet(path)[1:]]
    assert verdicts == ["pass"] * len(list(saved.rglob("*.npy")))
    assert [path.stem for path in sheets] == sorted(path.name for path in (saved / "data").iterdir())


def test_a_broken_file_is_a_row_and_the_others_go_on(trees):
    for root in trees:
        for step in (0, 1, 2):
            put(root, f"x/step{step}/rank0/x.npy", GRID)
    (trees[1] / "data/x/step0/rank0/x.npy").write_bytes(b"\x93NUMPY no more")
    np.save(trees[0] / "data/x/step2/rank0/x.npy", np.array(["text"]))
    rows = compared(trees, "x")
    assert [row[12] for row in rows] == ["unjudged", "pass", "unjudged"]
    assert "not a readable npy file" in rows[0][13]
    assert rows[0][4:6] == ["[3, 4]", None]
    assert "not numbers" in rows[2][13]


def test_a_failure_that_nobody_foresaw_is_a_row(trees, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(pairs, "measure_symmetric", fail)
    assert one(trees, GRID, GRID)[8:10][0] == "unjudged"


def test_a_file_that_is_a_link_or_a_pipe_is_a_row_and_not_opened(trees):
    for root in trees:
        put(root, "x/step0/rank0/x.0.npy", GRID)
    (trees[0] / "data/x/step0/rank0/x.1.npy").symlink_to(trees[1] / "data/x/step0/rank0/x.0.npy")
    os.mkfifo(trees[0] / "data/x/step0/rank0/x.2.npy")
    rows = compared(trees, "x")
    assert [(row[3], row[12]) for row in rows] == [(0, "pass"), (1, "unjudged"), (2, "unjudged")]
    assert all("is not a regular file; it is not opened" in row[13] for row in rows[1:])


def test_names_of_folders_and_keys_stay_harmless(trees):
    for root in trees:
        put(root, "=1+1/step0/rank0/=1+1.=cmd().npy", GRID)
        put(root, "a/b/step0/rank/b.npy", GRID)
    out = trees[0].parent / "out"
    paths = SingleComparator.compare(*trees, out)
    assert [path.parent for path in paths] == [out, out]
    assert sheet(paths[0])[1][3] == "'=cmd()"
    assert paths[1].name.startswith("a_b.")


def test_a_folder_without_data_is_refused_with_the_remedy(tmp_path, trees):
    with pytest.raises(UsageError, match=r"has no folder data; give"):
        SingleComparator.compare(tmp_path / "nowhere", trees[1])


def test_two_empty_trees_are_refused(trees):
    with pytest.raises(UsageError, match="neither contains tensors in"):
        SingleComparator.compare(*trees)


@pytest.mark.parametrize("processes", [0, -1, 2.0, True, "8"])
def test_a_number_of_processes_that_cannot_be_meant_is_refused(processes, trees):
    with pytest.raises(UsageError, match="num_processes is"):
        SingleComparator.compare(*trees, num_processes=processes)


def test_an_output_that_cannot_be_written_is_said(trees, tmp_path):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="give another output_path"):
        SingleComparator.compare(*trees, tmp_path / "file")


def test_the_sheets_are_no_key_data_themselves(trees):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    put(trees[1], "x/step0/rank0/x.npy", GRID)
    out = trees[0].parent / "out"
    SingleComparator.compare(*trees, out, 1)
    assert kind_of(trees[0]).word == "single saves"
    assert kind_of(out.parent).word != "single saves"
