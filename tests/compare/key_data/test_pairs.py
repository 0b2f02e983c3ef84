"""Which files of two trees SingleComparator compares with which, and what it says of those without a partner."""

import json

import numpy as np
import pytest
from saved_trees import GRID, compared, put, sheet

from msprobe.base import log
from msprobe.compare.key_data.pairs import find, pair
from msprobe.store.saves.single_saves import read_single, single_dumps


@pytest.fixture
def logged(monkeypatch):
    """What the log says, line by line."""
    lines = []
    for level in ("info", "warning"):
        monkeypatch.setattr(log.logger, level, lambda text, *args: lines.append(text % args))
    return lines


def test_rows_come_by_number_not_by_text(trees):
    places = [(s, r, m) for s in (1, 2, 10) for r in (2, 10) for m in (3, 11)]
    for step, rank, micro in places:
        for root in trees:
            put(root, f"x/step{step}/rank{rank}/micro_step{micro}/x.npy", GRID)
    assert [tuple(row[:3]) for row in compared(trees, "x")] == places


def test_every_element_of_a_list_and_every_key_of_a_dict_is_a_row(trees):
    for side, root in enumerate(trees):
        for member in (10, 9, "mask", "b.1", "03"):
            put(root, f"x/step0/rank0/micro_step0/x.{member}.npy", GRID + (member == "mask") * side)
    rows = compared(trees, "x")
    assert [row[3] for row in rows] == [9, 10, "03", "b.1", "mask"]
    assert [row[6] for row in rows] == [100, 100, 100, 100, 0]


def test_a_tag_with_dots_is_no_list(trees):
    for root in trees:
        put(root, "a.3/step0/rank0/a.3.npy", GRID)
    assert [row[3] for row in compared(trees, "a.3")] == [0]


def test_files_called_otherwise_go_by_the_number_before_npy(trees):
    for root in trees:
        put(root, "x/step0/rank0/resp.3.npy", GRID)
        put(root, "x/step0/rank0/other.npy", GRID)
    assert [row[3] for row in compared(trees, "x")] == [0, 3]


def test_files_of_one_id_are_all_compared_each_with_its_own(trees):
    for root in trees:
        put(root, "x/step0/rank0/micro_step0/x.npy", GRID)
        put(root, "x/step0/rank0/x.npy", GRID + 1)
        put(root, "x/step0/rank0/other.npy", GRID + 2)
    (trees[0] / "data/x/step0/rank0/other.npy").rename(trees[0] / "data/x/step0/rank0/another.npy")
    rows = compared(trees, "x")
    assert [row[:4] for row in rows] == [[0, 0, 0, 0]] * 3
    assert [row[6] for row in rows] == [100, 100, 100]


def test_saves_out_of_a_graph_are_paired_by_order_not_by_the_number_of_the_process(trees):
    for root, numbers in zip(trees, [(0, 7, 10), (3, 5, 100)], strict=True):
        for order, number in enumerate(numbers):
            put(root, f"adv/step0/rank0/adv_float32_{number}.npy", GRID + order)
    rows = compared(trees, "adv")
    assert [row[3] for row in rows] == [0, 1, 2]
    assert [row[6] for row in rows] == [100, 100, 100]


def test_lists_saved_out_of_a_graph_are_paired_by_element_and_order(trees):
    for root, start in zip(trees, (3, 40), strict=True):
        for number in range(4):  # two saves of two elements
            member = number % 2
            put(root, f"r/step0/rank0/r.{member}_int32_{start + number}.npy", np.arange(3) + number)
    rows = compared(trees, "r")
    assert [row[3] for row in rows] == ["0.0", "0.1", "1.0", "1.1"]
    assert [row[6] for row in rows] == [100] * 4


def test_a_dtype_in_the_name_does_not_part_a_pair(trees):
    put(trees[0], "x/step0/rank0/x_bfloat16_0.npy", GRID)
    put(trees[1], "x/step0/rank0/x_float32_4.npy", GRID)
    assert [row[12] for row in compared(trees, "x")] == ["pass"]


def test_a_key_that_looks_like_a_save_out_of_a_graph_is_a_key_beside_its_json(trees):
    for root in trees:
        put(root, "x/step0/rank0/x.mask_int32_3.npy", GRID)
        (root / "data/x/step0/rank0/x.json").write_text("{}")
    assert [row[3] for row in compared(trees, "x")] == ["mask_int32_3"]


def test_what_stands_on_one_side_only_is_a_row_and_is_counted(trees, logged):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    put(trees[1], "x/step0/rank0/x.npy", GRID)
    put(trees[0], "x/step1/rank0/x.npy", GRID)
    put(trees[1], "x/step0/rank1/x.npy", GRID)
    put(trees[1], "only/step0/rank0/only.npy", GRID)
    rows = compared(trees, "x")
    assert [row[:6] for row in rows] == [
        [0, 0, 0, 0, "[3, 4]", "[3, 4]"],
        [0, 1, 0, 0, None, "[3, 4]"],
        [1, 0, 0, 0, "[3, 4]", None],
    ]
    assert [row[12] for row in rows] == ["pass", "unjudged", "unjudged"]
    assert rows[1][6:12] == [None] * 6
    assert rows[1][13].startswith("Only on the golden (second folder) side: ")
    assert rows[2][13].startswith("Only on the target (first folder) side: ")
    (only,) = sheet(trees[0].parent / "out" / "only.xlsx")[1:]
    assert only[12] == "unjudged"
    assert logged[-1].startswith(
        "4 tensors of 2 tags: 1 pass, 0 warning, 0 error, 3 unjudged; 3 of them on one side only"
    )


def test_files_in_no_place_are_said(trees, logged):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    put(trees[0], "x/step0/astray.npy", GRID)
    put(trees[0], "x/step0/rank0/deeper/astray.npy", GRID)
    compared(trees, "x")
    assert "2 npy files are not in data/<tag>/step<n>/rank<n>/" in logged[0]


def test_links_are_followed_and_circles_are_not(trees):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    (trees[1] / "data" / "x").symlink_to(trees[0] / "data" / "x")
    (trees[0] / "data" / "x" / "round").symlink_to(trees[0] / "data")
    assert [row[12] for row in compared(trees, "x")] == ["pass"]


def index(root, inside, *lines):
    """An index of (name, count, number, file)."""
    folder = root / "data" / inside
    folder.mkdir(parents=True, exist_ok=True)
    expected = [dict(zip(("name", "count", "id", "data_name"), line, strict=True), type="t") for line in lines]
    (folder / "saves.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in expected))


def test_an_index_says_the_order_where_both_have_one(trees):
    """Gradients arrive in the order of the backward pass, which two runs need not share."""
    for root, values in zip(trees, [(0, 1), (1, 0)], strict=True):
        for number, value in enumerate(values):
            put(root, f"z/step0/rank0/z_grad_float32_{number}.npy", GRID + value)
    assert [row[6] for row in compared(trees, "z")] == [0, 0]
    index(trees[0], "z/step0/rank0", *(("z_grad", n, n, f"z_grad_float32_{n}.npy") for n in (0, 1)))
    assert [row[6] for row in compared(trees, "z")] == [0, 0]
    index(trees[1], "z/step0/rank0", *(("z_grad", 1 - n, n, f"z_grad_float32_{n}.npy") for n in (0, 1)))
    rows = compared(trees, "z")
    assert [row[3] for row in rows] == ["0.z_grad", "1.z_grad"]
    assert [row[6] for row in rows] == [100, 100]


def test_what_an_index_names_elsewhere_is_not_opened_and_said(trees, capsys):
    np.save(trees[0] / "secret.npy", GRID)
    for root in trees:
        put(root, "z/step0/rank0/z_float32_0.npy", GRID)
        names = ("z_float32_0.npy", "../../../../secret.npy", str(trees[0] / "secret.npy"), "gone.npy")
        index(root, "z/step0/rank0", *(("z", n, n, name) for n, name in enumerate(names)))
    assert [(row[3], row[12]) for row in compared(trees, "z")] == [(0, "pass")]
    assert "3 saves in its index have no file and are skipped" in capsys.readouterr().err


def test_a_number_behind_the_tag_is_an_id(trees):
    for root in trees:
        for number in (0, 1, 10):
            put(root, f"x/step0/rank0/micro_step0/x{number}.npy", GRID + number)
    assert [row[3] for row in compared(trees, "x")] == [0, 1, 10]


EVERYTHING = (
    *("x/step0/rank0/x", "x/step0/rank/x", "x/step0/rank0/micro_step0/x", "x/step0/rank0/micro_step3/x.7"),
    *("a/b/step0/rank1/b", "a/b/step1/rank1/b_float32_3", "a/b/step1/rank1/b_float32_30", "a/b/step1/rank1/b.k_int8_5"),
    *("d/step0/rank0/d.mask", "d/step0/rank0/d.b.1", "d/step0/rank0/d2", "d/step0/rank0/else.3", "d/step0/rank0/other"),
    *("c.3/step0/proc7/c.3_bool_1", "c.3/step0/proc7/c.3", "c.3/step0/proc7/none_float8_e4m3fn_4"),
)


def test_the_command_and_the_sheets_read_the_same_files(trees):
    for name in EVERYTHING:
        put(trees[0], f"{name}.npy", GRID)
    tree = find(trees[0])
    by_sheets = [str(both.target.relative_to(tree.data)) for both in pair(tree, tree)]
    dumps = [read_single(folders, *at) for at, folders in single_dumps(trees[0]).items()]
    by_command = [record.file for dump in dumps for call in dump.calls for record in call.records]
    assert sorted(by_sheets) == sorted(by_command) == sorted(f"{name}.npy" for name in EVERYTHING)
