"""`GradComparator`: the share of equal signs, by hand, of files that are written by hand."""

import csv
import struct
import sys

import numpy as np
import pytest

from msprobe import GradComparator
from msprobe.base import log
from msprobe.base.errors import DumpError, UsageError

pytestmark = pytest.mark.part(3)

HEADERS = ["param_name,max,min,norm,shape", "Param_name,Max,Min,Norm,Shape"]


def write(folder, steps, header=HEADERS[0]):
    """`{step: {name: signs}}` as the probe writes it."""
    for step, signs in steps.items():
        (folder / f"step{step}").mkdir(parents=True, exist_ok=True)
        lines = [header]
        for name, each in signs.items():
            array = np.array(each)
            lines.append(f'{name},1.0,-1.0,1.0,"{list(array.shape)}"')
            np.save(folder / f"step{step}" / f"{name}.npy", array)
        (folder / f"grad_summary_{step}.csv").write_text("\n".join(lines) + "\n", "utf-8-sig")
    return folder


def rows(folder):
    with open(folder / "similarities.csv", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


ONE = {0: {"w": [[True, False], [True, True]], "b": [True, True]}, 2: {"w": [[True] * 2] * 2, "b": [False, True]}}
OTHER = {0: {"w": [[True, False], [True, False]], "b": [True, True]}, 2: {"w": [[False] * 2] * 2, "b": [False, True]}}


@pytest.mark.parametrize("header", HEADERS)
def test_shares_of_equal_signs_by_parameter_and_pooled_by_elements(tmp_path, header):
    GradComparator.compare(write(tmp_path / "a", ONE, header), write(tmp_path / "b", OTHER), tmp_path / "out")
    assert rows(tmp_path / "out") == [
        *(["step", "0", "2"], ["w", "0.75", "0.0"], ["b", "1.0", "1.0"]),
        ["summary", str(5 / 6), str(2 / 6)],
    ]


def test_against_numpy(tmp_path):
    rng = np.random.default_rng(0)
    sides = [{s: {f"p{n}": rng.random((n + 1, 3)) < 0.5 for n in range(4)} for s in range(5)} for _ in range(2)]
    folders = [write(tmp_path / name, side) for name, side in zip("ab", sides, strict=True)]
    GradComparator.compare(*folders, tmp_path / "out")
    found = {row[0]: [float(cell) for cell in row[1:]] for row in rows(tmp_path / "out")}
    for n in range(4):
        assert found[f"p{n}"] == [np.mean(sides[0][s][f"p{n}"] == sides[1][s][f"p{n}"]) for s in range(5)]
    for s in range(5):
        pooled = [np.concatenate([each[s][f"p{n}"].ravel() for n in range(4)]) for each in sides]
        assert found["summary"][s] == pytest.approx(np.mean(pooled[0] == pooled[1]), abs=1e-15)


def test_ranks_that_both_have(tmp_path, capsys):
    for side, ranks in (("a", (0, 1, 2)), ("b", (1, 2, 3))):
        for rank in ranks:
            write(tmp_path / side / f"rank{rank}", ONE if side == "a" else OTHER)
    GradComparator.compare_distributed(tmp_path / "a", str(tmp_path / "b"), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["rank1", "rank2"]
    assert rows(tmp_path / "out" / "rank2")[1] == ["w", "0.75", "0.0"]
    said = capsys.readouterr().err
    assert "the ranks 0 are not on the other side" in said
    assert "the ranks 3 are not on the other side" in said


def test_steps_and_parameters_of_one_side_are_left_out(tmp_path, capsys):
    one = {0: {"w": [True]}, 1: {"w": [True]}, 7: {"w": [True], "x": [True]}}
    other = {1: {"w": [True], "y": [False]}, 7: {"w": [False]}, 9: {"w": [True]}}
    GradComparator.compare(write(tmp_path / "a", one), write(tmp_path / "b", other), tmp_path / "out")
    assert rows(tmp_path / "out") == [["step", "1", "7"], ["w", "1.0", "0.0"], ["summary", "1.0", "0.0"]]
    said = capsys.readouterr().err
    assert "step 1: y only on one side" in said
    assert "step 7: x only on one side" in said


def test_steps_are_in_the_order_of_their_numbers(tmp_path):
    steps = {step: {"w": [True]} for step in (10, 2, 0)}
    GradComparator.compare(write(tmp_path / "a", steps), write(tmp_path / "b", steps), tmp_path / "out")
    assert rows(tmp_path / "out")[0] == ["step", "0", "2", "10"]


def test_a_parameter_that_comes_later_has_nan_before(tmp_path):
    steps = {0: {"w": [True]}, 1: {"w": [True], "late": [True]}}
    GradComparator.compare(write(tmp_path / "a", steps), write(tmp_path / "b", steps), tmp_path / "out")
    assert rows(tmp_path / "out")[2] == ["late", "nan", "1.0"]


@pytest.mark.always
def test_an_empty_tensor_is_zero_and_has_no_weight(tmp_path):
    steps = {0: {"empty": np.zeros((0, 3), bool), "w": [True, False]}}
    GradComparator.compare(write(tmp_path / "a", steps), write(tmp_path / "b", steps), tmp_path / "out")
    assert rows(tmp_path / "out")[1:] == [["empty", "0.0"], ["w", "1.0"], ["summary", "1.0"]]


# ---- errors


def test_nothing_in_common_is_a_runtime_error(tmp_path):
    write(tmp_path / "a" / "rank0", {0: {"w": [True]}})
    write(tmp_path / "b" / "rank1", {1: {"w": [True]}})
    with pytest.raises(RuntimeError, match="no matched ranks for comparison") as caught:
        GradComparator.compare_distributed(tmp_path / "a", tmp_path / "b", tmp_path / "out")
    assert isinstance(caught.value, DumpError)
    with pytest.raises(RuntimeError, match="no matched steps for comparison"):
        GradComparator.compare(tmp_path / "a" / "rank0", tmp_path / "b" / "rank1", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_shape_is_a_runtime_error_and_another_dtype_a_type_error(tmp_path):
    write(tmp_path / "a", {0: {"w": [True, True]}})
    write(tmp_path / "b", {0: {"w": [[True, True]]}})
    write(tmp_path / "c", {0: {"w": [1.0, 0.0]}})
    with pytest.raises(RuntimeError, match="w at step 0: the shapes are \\[2\\] and \\[1, 2\\]") as caught:
        GradComparator.compare(tmp_path / "a", tmp_path / "b", tmp_path / "out")
    assert isinstance(caught.value, DumpError)
    with pytest.raises(TypeError, match="w at step 0: the signs are float64") as other:
        GradComparator.compare(tmp_path / "a", tmp_path / "c", tmp_path / "out")
    assert isinstance(other.value, DumpError)


def test_level_l0_has_no_signs_to_compare(tmp_path):
    for side in "ab":
        write(tmp_path / side, {0: {"w": [True]}})
        (tmp_path / side / "step0" / "w.npy").unlink()
    with pytest.raises(DumpError, match="grad_level L1 or L2"):
        GradComparator.compare(tmp_path / "a", tmp_path / "b", tmp_path / "out")


DAMAGED = {
    "empty": b"",
    "npy": b"\x93NUMPY",
    "table": b"some,other,table\n",
    "bytes": b"\xff\xfe\x00",
    "quote": b'"open',
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_table_is_named(tmp_path, content):
    write(tmp_path / "a", ONE)
    write(tmp_path / "b", OTHER)
    (tmp_path / "b" / "grad_summary_0.csv").write_bytes(content)
    with pytest.raises(DumpError, match=r"grad_summary_0\.csv"):
        GradComparator.compare(tmp_path / "a", tmp_path / "b", tmp_path / "out")


def test_a_table_names_no_file_outside_of_its_folder(tmp_path):
    for side in "ab":
        write(tmp_path / side / "rank0", ONE)
        np.save(tmp_path / side / "outside.npy", np.array([True]))
        table = tmp_path / side / "rank0" / "grad_summary_0.csv"
        table.write_text(table.read_text("utf-8-sig") + '../../outside,1,1,1,"[1]"\n', "utf-8-sig")
    with pytest.raises(DumpError, match="missing"):
        GradComparator.compare(tmp_path / "a" / "rank0", tmp_path / "b" / "rank0", tmp_path / "out")


@pytest.mark.parametrize("path", ["gone", "file"])
def test_a_path_without_output_is_named(tmp_path, path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DumpError, match=path):
        GradComparator.compare(tmp_path / path, tmp_path / path, tmp_path / "out")


def test_an_output_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UsageError, match="output_dir"):
        GradComparator.compare(write(tmp_path / "a", ONE), write(tmp_path / "b", OTHER), tmp_path / "out")


# ---- pictures


def test_a_picture_of_every_row(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures come with the extra `monitor`")
    names = {"fc.weight": [True], "层.$x_$": [False], "n" * 240: [True]}
    sides = [write(tmp_path / side, {0: names, 1: names}) for side in "ab"]
    GradComparator.compare(*sides, tmp_path / "out")
    pictures = list((tmp_path / "out" / "similarities_picture").iterdir())
    assert len(pictures) == 4
    assert {"fc.weight_similarities.png", "层.$x_$_similarities.png", "summary_similarities.png"} < {
        path.name for path in pictures
    }
    for picture in pictures:
        raw = picture.read_bytes()
        assert raw[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", raw[16:24]) == (800, 450)


def test_without_matplotlib_the_table_and_a_note(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [
        name for name in sys.modules if name.startswith(("matplotlib.", "msprobe.compare.grad_probe.pictures"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("msprobe.compare.grad_probe.pictures", raising=False)
    monkeypatch.setattr(log, "_logged", set())
    GradComparator.compare(write(tmp_path / "a", ONE), write(tmp_path / "b", OTHER), tmp_path / "out")
    assert len(rows(tmp_path / "out")) == 4
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["similarities.csv"]
    assert "msprobe-ms[monitor]" in capsys.readouterr().err


def test_star_import_has_it():
    names = {}
    exec("from msprobe import *", names)
    assert names["GradComparator"] is GradComparator
