"""Tensors of a hostile dump: what cannot be read is `unjudged` and says why, and nothing outside the dump is opened."""

import csv
import io
import json
import os
import zipfile

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.store import npy

NAME = "Functional.relu.0.forward"
FILE = f"{NAME}.input.0.npy"
ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def write(folder, *names, shape=(2, 3)):
    """A dump of one call with a tensor for each name, and one good file."""
    leaf = {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": shape,
        "Max": 5.0,
        "Min": 0.0,
        "Mean": 2.5,
        "Norm": 7.4,
    }
    data = {NAME: {"input_args": [{**leaf, "data_name": name} for name in names], "output": [None]}}
    (folder / "dump_tensor_data").mkdir(parents=True)
    (folder / "dump.json").write_text(json.dumps({"task": "tensor", "level": "mix", "data": data}))
    np.save(folder / "dump_tensor_data" / FILE, ARRAY)
    return folder


def compare(target, golden, out, code):
    assert main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(out), "--format", "csv"]) == code
    (path,) = out.glob("*.csv")
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def golden(tmp_path):
    return write(tmp_path / "golden", FILE)


@pytest.fixture
def tensor_row(tmp_path, golden):
    """The row of the tensor after the target's file was replaced by what a function makes."""

    def run(make, code):
        target = write(tmp_path / "target", FILE)
        path = target / "dump_tensor_data" / FILE
        path.unlink()
        make(path)
        rows = compare(target, golden, tmp_path / "out", code)
        assert rows[1]["Verdict"] == "pass"  # the None behind it
        return rows[0]

    return run


def unjudged(row, *words):
    assert row["Verdict"] == "unjudged"
    assert row["Reason"].startswith("Not readable: ")
    for word in words:
        assert word in row["Reason"]


def header(shape, descr="'<f4'", version=1, order="False"):
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes((version, 0)) + len(text).to_bytes(2 if version == 1 else 4, "little") + text


LYING = {
    "negative": header("(-2, -3)") + bytes(24),
    "2**62 elements": header(f"({2**62},)"),
    "a product beyond 64 bits": header(f"({2**32}, {2**32}, 3)") + bytes(24),
    "nothing times too much": header(f"(0, {2**62}, {2**62})"),
    "nothing times a number of many digits": header("(0, 1" + "0" * 4000 + ")"),
    "70 dimensions": header("(" + "1, " * 70 + ")") + bytes(4),  # numpy 1 takes 32, numpy 2 takes 64
    "1000 dimensions": header("(" + "1, " * 1000 + ")") + bytes(4),
    "true for one": header("(True, 6)") + bytes(24),
    "fractions": header("(2.0, 3.0)") + bytes(24),
    "no tuple": header("6") + bytes(24),
    "nested signs": header("(" + "-" * 5000 + "2, 3)") + bytes(24),
    "nested brackets": header("(" * 4000 + ")" * 4000) + bytes(24),
    "a header of 5 MB": header("(2, 3)" + " " * 5_000_000, version=2) + bytes(24),
    "a header beyond the file": b"\x93NUMPY\x01\x00\xff\xffx",
    "a header of 4 GB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
    "a version to come": b"\x93NUMPY\x09\x00" + bytes(100),
    "no header": b"\x93NUMPY",
    "empty": b"",
    "cut": header("(2, 3)") + bytes(23),
    "longer": header("(2, 3)") + bytes(25),
    "text": header("(2, 3)", "'<U1'") + bytes(24),
    "objects": header("(2, 3)", "'|O'") + bytes(48),
    "records": header("(2, 3)", "[('a', '<f4'), ('b', '<i4')]") + bytes(48),
    "arrays of arrays": header("(3,)", "('<f4', (2,))") + bytes(24),
    "dates": header("(2, 3)", "'<M8[s]'") + bytes(48),
    "no dtype": header("(2, 3)", "'<f4\\x1b[31m'") + bytes(24),
    "a call for a dtype": header("(2, 3)", "__import__('os').getcwd()") + bytes(24),
}


@pytest.mark.parametrize("content", LYING.values(), ids=LYING)
def test_a_file_that_lies_is_unjudged(tensor_row, content, capsys):
    unjudged(tensor_row(lambda path: path.write_bytes(content), 1), FILE)
    assert (
        "no difference in what could be judged: 1 pairs judged, 1 not: 1 in files that are missing or cannot be read"
        in capsys.readouterr().out
    )


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"")


def npz(path):
    made = io.BytesIO()
    np.savez(made, ARRAY)
    path.write_bytes(made.getvalue())


ELSE = {
    "a zip": (zipped, "not a readable npy file"),
    "an npz": (npz, "not a readable npy file"),
    "a folder": (os.mkdir, "not a regular file"),
    "a pipe": (os.mkfifo, "not a regular file"),
    "a symbolic link to itself": (lambda path: path.symlink_to(path.name), "cannot be opened"),
    "a symbolic link to nothing": (lambda path: path.symlink_to("nothing.npy"), "missing"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "outside dump_tensor_data"),
    "a link upwards": (lambda path: path.symlink_to("../dump.json"), "outside dump_tensor_data"),
    "a link to a folder outside": (lambda path: path.symlink_to("/"), "outside dump_tensor_data"),
}


@pytest.mark.parametrize(("make", "word"), ELSE.values(), ids=ELSE)
def test_what_is_no_plain_file_is_unjudged_and_nobody_waits_for_it(tensor_row, make, word):
    unjudged(tensor_row(make, 1), word, "dump_tensor_data")


def test_a_device_is_not_opened(tensor_row):
    def make(path):
        try:
            os.mknod(path, 0o20600, os.makedev(1, 5))  # /dev/zero, which never ends
        except PermissionError:
            pytest.skip("only root may make a device")

    unjudged(tensor_row(make, 1), "not a regular file")


LEGAL = {
    "Fortran order": lambda path: np.save(path, np.asfortranarray(ARRAY)),
    "big-endian": lambda path: np.save(path, ARRAY.astype(">f4")),
    "format 2": lambda path: path.write_bytes(header("(2, 3)", version=2) + ARRAY.tobytes()),
    "Python 2's header": lambda path: path.write_bytes(header("(2L, 3L)") + ARRAY.tobytes()),
    "a link inside": lambda path: (np.save(path.with_name("x.npy"), ARRAY), path.symlink_to("x.npy")),
    "a second name": lambda path: (np.save(path.with_name("x.npy"), ARRAY), os.link(path.with_name("x.npy"), path)),
}


@pytest.mark.parametrize("make", LEGAL.values(), ids=LEGAL)
def test_what_is_odd_and_whole_is_compared(tensor_row, make, capsys):
    assert tensor_row(make, 0)["Verdict"] == "pass"
    assert "UserWarning" not in capsys.readouterr().err


def test_other_shapes_in_the_file_than_in_the_dump_are_an_error(tensor_row):
    row = tensor_row(lambda path: np.save(path, ARRAY.T), 1)
    assert (row["Verdict"], row["Reason"]) == ("error", "Shapes of the files differ: [3, 2], golden [2, 3].")


OUTSIDE = ["../golden/dump_tensor_data/" + FILE, "{golden}/dump_tensor_data/" + FILE, "sub/x.npy", "sub/../" + FILE]
OUTSIDE += ["./" + FILE, FILE + "/", ".", "..", "a\0b.npy", "/dev/zero", "linked/" + FILE]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leaves_the_folder_is_not_opened(tmp_path, golden, name):
    """Even where the file is there and equal, so that only the refusal makes it unjudged."""
    target = write(tmp_path / "target", name.format(golden=golden))
    sub = target / "dump_tensor_data" / "sub"
    sub.mkdir()
    np.save(sub / "x.npy", ARRAY)
    (target / "dump_tensor_data" / "linked").symlink_to(golden / "dump_tensor_data")
    row = compare(target, golden, tmp_path / "out", 1)[0]
    unjudged(row, "is outside dump_tensor_data; it is not opened", str(target / "dump.json"))


NOT_THERE = [
    "\u00e9.npy",
    "e\u0301.npy",
    "..\\..\\x.npy",
    "C:\\x.npy",
    "~root.npy",
    "$HOME.npy",
    "*.npy",
    "\ud800.npy",
]


@pytest.mark.parametrize("name", NOT_THERE, ids=lambda name: ascii(name)[:20])
def test_a_name_without_a_file_is_unjudged(tmp_path, golden, name):
    target = write(tmp_path / "target", name)
    unjudged(compare(target, golden, tmp_path / "out", 1)[0], "the tensor")


def test_a_name_longer_than_a_file_system_takes_is_unjudged(tmp_path, golden):
    target = write(tmp_path / "target", "x" * 300 + ".npy")
    unjudged(compare(target, golden, tmp_path / "out", 1)[0], "xxx.npy: cannot be opened (File name too long); check")


def test_a_tensor_whose_name_is_null_is_judged_by_its_statistics(tmp_path, golden):
    target = write(tmp_path / "target", None)
    row = compare(target, golden, tmp_path / "out", 0)[0]
    assert (row["Verdict"], row["Reason"]) == ("pass", "By statistics. No tensor was saved on the target side.")


@pytest.mark.parametrize("is_golden", [False, True])
@pytest.mark.parametrize("name", ["", 5, 0, [FILE], [], {"a": 1}, {}, True, False])
def test_what_is_no_name_is_no_word_that_the_tensor_was_not_saved(tmp_path, golden, name, is_golden):
    """The statistics of both records agree: nothing but the file could show a difference."""
    sides = write(tmp_path / "target", name), golden
    rows = compare(*(reversed(sides) if is_golden else sides), tmp_path / "out", 1)
    unjudged(rows[0], str(sides[0] / "dump_tensor_data"), str(name))


def test_the_link_to_the_tensors_is_followed_and_nothing_else_is_said(tmp_path, golden, capsys):
    target = write(tmp_path / "target", FILE)
    (target / "dump_tensor_data").rename(tmp_path / "large disk")
    np.save(tmp_path / "large disk" / FILE, ARRAY + 1)
    (target / "dump_tensor_data").symlink_to(tmp_path / "large disk")
    assert compare(target, golden, tmp_path / "out", 1)[0]["Verdict"] == "error"
    assert "is a symbolic link to a folder" not in capsys.readouterr().err


def test_the_folder_of_the_tensors_may_be_a_link(tmp_path, golden):
    target = write(tmp_path / "target", FILE)
    (target / "dump_tensor_data").rename(tmp_path / "large disk")
    (target / "dump_tensor_data").symlink_to(tmp_path / "large disk")
    assert compare(target, golden, tmp_path / "out", 0)[0]["Verdict"] == "pass"


def test_the_dump_may_be_a_link(tmp_path, golden):
    (tmp_path / "link").symlink_to(write(tmp_path / "target", FILE))
    assert compare(tmp_path / "link", golden, tmp_path / "out", 0)[0]["Verdict"] == "pass"


def test_two_records_may_name_one_file(tmp_path):
    target, golden = write(tmp_path / "target", FILE, FILE), write(tmp_path / "golden", FILE, FILE)
    rows = compare(target, golden, tmp_path / "out", 0)
    assert [row["Verdict"] for row in rows] == ["pass", "pass", "pass"]
    np.save(target / "dump_tensor_data" / FILE, ARRAY + 1)
    rows = compare(target, golden, tmp_path / "again", 1)
    assert [row["Verdict"] for row in rows] == ["error", "error", "pass"]


def test_a_file_that_shrinks_while_it_is_read_is_unjudged(tmp_path, monkeypatch):
    large = np.arange(600_000, dtype=np.float32)
    sides = [write(tmp_path / side, FILE, shape=(600_000,)) for side in ("target", "golden")]
    for side in sides:
        np.save(side / "dump_tensor_data" / FILE, large)
    path = sides[0] / "dump_tensor_data" / FILE
    whole = npy.NpyFile.part

    def part(self, start, stop):
        if self.path == path:
            os.truncate(path, 1_000_000)
        return whole(self, start, stop)

    monkeypatch.setattr(npy.NpyFile, "part", part)
    unjudged(compare(*sides, tmp_path / "out", 1)[0], FILE, "was truncated while it was read")


@pytest.mark.parametrize("name", ["stack.json", "construct.json"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "folder", "device"]
)
def test_a_companion_that_is_no_plain_file_is_left_out(tmp_path, golden, name, make, capsys):
    target = write(tmp_path / "target", FILE)
    make(target / name)
    assert compare(target, golden, tmp_path / "out", 0)[0]["Verdict"] == "pass"
    logged = capsys.readouterr().err
    assert f"{target / name}: cannot be read (it is not a regular file" in logged


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "device"])
@pytest.mark.parametrize("part", ["", "dump.json"], ids=["folder", "file"])
def test_a_dump_that_is_no_plain_file_is_one_line(tmp_path, golden, make, part, capsys):
    target = write(tmp_path / "target", FILE)
    (target / "dump.json").unlink()
    make(target / "dump.json")
    assert main(["compare", "-tp", str(target / part), "-gp", str(golden), "-o", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"msprobe compare: {target / 'dump.json'}: ")
    assert captured.out == ""
    assert not (tmp_path / "out").exists()


def test_a_folder_that_may_not_be_read_is_one_line(tmp_path, golden, capsys):
    target = write(tmp_path / "target", FILE)
    target.chmod(0)
    try:
        if os.access(target, os.R_OK):
            pytest.skip("root may read every folder")
        assert main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "out")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"msprobe compare: {target}: ")
        assert "check the path and its permissions" in line
    finally:
        target.chmod(0o750)
