"""Broken and malicious dumps on the command line: one line that says what is wrong, exit code 2, never a traceback."""

import json
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

from msprobe.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.part(2)]

NAME = "Functional.relu.0.forward"
FILE = f"{NAME}.input.0.npy"


def msprobe(*args, **options):
    """Run the command as a user does."""
    command = [sys.executable, "-m", "msprobe", *map(str, args)]
    done = subprocess.run(command, capture_output=True, timeout=120, **options)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in done.stderr + done.stdout
    return done


@pytest.fixture
def golden(dump, tmp_path):
    """A whole dump beside the one that is spoiled."""
    return shutil.copytree(dump, tmp_path / "golden" / "step0" / "rank0")


@pytest.fixture
def compare(dump, golden, tmp_path):
    """Compare the spoiled dump with the whole one."""

    def run(target=dump):
        return msprobe("compare", "-tp", target, "-gp", golden, "-o", tmp_path / "out", "--format", "csv", cwd=tmp_path)

    return run


def rewrite(dump, function):
    path = dump / "dump.json"
    text = json.loads(path.read_text())
    function(text)
    path.write_text(json.dumps(text))


def first_leaf(text):
    return text["data"][NAME]["input_args"][0]


def nested(depth):
    return '{"task": "tensor", "data": {"F.0.forward": {"output": ' + "[" * depth + "]" * depth + "}}}"


UNREADABLE = {
    "truncated": lambda dump: os.truncate(dump / "dump.json", 200),
    "empty": lambda dump: (dump / "dump.json").write_text(""),
    "garbage": lambda dump: (dump / "dump.json").write_bytes(bytes(range(256))),
    "a list": lambda dump: (dump / "dump.json").write_text("[1, 2]"),
    "no data": lambda dump: (dump / "dump.json").write_text('{"task": "tensor"}'),
    "data is a list": lambda dump: (dump / "dump.json").write_text('{"task": "tensor", "data": []}'),
    "an entry is a number": lambda dump: (dump / "dump.json").write_text('{"task": "tensor", "data": {"F": 5}}'),
    "of the future": lambda dump: rewrite(dump, lambda text: text.update(format_version=99)),
    "structure": lambda dump: rewrite(dump, lambda text: text.update(task="structure", data={})),
    "nested": lambda dump: (dump / "dump.json").write_text(nested(300)),
    "nested too deeply": lambda dump: (dump / "dump.json").write_text(nested(100_000)),
    "a folder": lambda dump: ((dump / "dump.json").unlink(), (dump / "dump.json").mkdir()),
    "gone": lambda dump: shutil.rmtree(dump),
    "only a journal": lambda dump: (dump / "dump.json").rename(dump / "dump.journal"),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("spoil", UNREADABLE.values(), ids=UNREADABLE)
def test_a_side_that_cannot_be_read_is_one_line(dump, compare, spoil, tmp_path):
    spoil(dump)
    done = compare()
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("msprobe compare: ")
    assert str(dump) in line
    assert not list(tmp_path.glob("out/*"))


def test_two_ranks_of_one_step_are_named(dump, compare):
    shutil.copytree(dump, dump.parent / "rank1")
    done = compare(dump.parent)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "rank0" in line
    assert "rank1" in line


class Bomb:
    """Says so when a pickle of it is opened."""

    def __reduce__(self):
        return (os.mkdir, ("opened",))


def data_name(name):
    return lambda dump: rewrite(dump, lambda text: first_leaf(text).update(data_name=name))


def content(make):
    def spoil(dump):
        path = dump / "dump_tensor_data" / FILE
        path.unlink()
        make(path)

    return spoil


WITHOUT_TENSOR = {
    "missing": content(lambda path: None),
    "cut": content(lambda path: (np.save(path, np.zeros((2, 3), np.float32)), os.truncate(path, 140))),
    "pickled": content(lambda path: path.write_bytes(pickle.dumps(Bomb()))),
    "objects": content(lambda path: np.save(path, np.array([Bomb()] * 6).reshape(2, 3), allow_pickle=True)),
    "huge header": content(
        lambda path: path.write_bytes(
            b"\x93NUMPY\x01\x00\x4d\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1000000), }"
        )
    ),
    "a link outwards": content(lambda path: path.symlink_to("/etc/passwd")),
    "a path outwards": data_name("../../../../../../../../etc/passwd"),
    "an absolute path": data_name("/etc/passwd"),
    "a pickle of torch": data_name("x.pt"),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("spoil", WITHOUT_TENSOR.values(), ids=WITHOUT_TENSOR)
def test_a_tensor_that_cannot_be_read_is_a_verdict(dump, compare, spoil, tmp_path):
    spoil(dump)
    done = compare()
    assert done.returncode == 1
    assert done.stdout
    assert "root:" not in done.stdout + done.stderr
    assert not (tmp_path / "opened").exists()
    assert len(list((tmp_path / "out").glob("*.csv"))) == 1


ODD = {
    "statistics are texts": lambda text: first_leaf(text).update(Max="5", Min=[0], Mean={"a": 1}, Norm=True),
    "statistics are enormous": lambda text: first_leaf(text).update(
        Max=10**400, Min=-(10**400), Mean=1e308, Norm=1e308
    ),
    "statistics are not finite": lambda text: first_leaf(text).update(Max=float("nan"), Min=-float("inf"), Mean=None),
    "the shape is a text": lambda text: first_leaf(text).update(shape="[2, 3]"),
    "the dtype is a list": lambda text: first_leaf(text).update(dtype=["Float32"]),
    "the type is unknown": lambda text: first_leaf(text).update(type="something.Else"),
    "the leaf is a number": lambda text: text["data"][NAME].update(input_args=5),
    "values are trees": lambda text: text["data"][NAME].update(output=[{"type": "int", "value": [{"a": [None]}]}]),
    "half a character": lambda text: text["data"].update(
        {"F\ud800.0.forward": {"output": [{"type": "str", "value": "\udfff"}]}}
    ),
    "control characters": lambda text: text["data"].update({"F\n\x00\x1b[31m.0.forward": {"output": [None]}}),
    "a long name": lambda text: text["data"].update({"F" * 100_000 + ".0.forward": {"output": [None]}}),
    "a formula": lambda text: text["data"].update({"=1+1.0.forward": {"output": [{"type": "str", "value": "=1+1"}]}}),
    "no task": lambda text: text.pop("task"),
    "the task is a list": lambda text: text.update(task=["tensor"]),
    "the level is a number": lambda text: text.update(level=0),
    "no calls": lambda text: text["data"].clear(),
}


@pytest.mark.sample(40)
@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
@pytest.mark.parametrize("table", ["csv", "xlsx", "json"])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_odd_values_are_compared_or_refused(dump, golden, tmp_path, change, table, task, capsys):
    for folder in (dump, golden):
        rewrite(folder, lambda text: text.update(task=task))
    rewrite(dump, change)
    # In this process, because whatever is not caught fails the test here as well, and sooner.
    code = main(["compare", "-tp", str(dump), "-gp", str(golden), "-o", str(tmp_path / "out"), "--format", table])
    captured = capsys.readouterr()
    if code == 2 and captured.out:  # compared, and no pair has a verdict
        assert "0 pairs judged" in captured.out.splitlines()[-1]
    elif code == 2:
        (line,) = [line for line in captured.err.splitlines() if not line.startswith("msprobe WARNING")]
        assert line.startswith("msprobe compare: ")
    else:
        assert code in (0, 1)
        assert len(list((tmp_path / "out").glob(f"*.{table}"))) == 1
        # What stands in a dump cannot steer the terminal.
        assert "\x1b" not in captured.out


@pytest.mark.parametrize("name", ["stack.json", "construct.json"])
@pytest.mark.parametrize("text", ["{", "[]", '{"0": 5}'])
def test_a_broken_companion_does_not_stop_the_comparison(dump, compare, name, text):
    (dump / name).write_text(text)
    assert compare().returncode in (0, 1)


def test_cells_that_enclose_each_other_do_not_hang_the_comparison(dump, compare):
    cell = "Cell.a.A.forward.0"
    (dump / "construct.json").write_text(json.dumps({NAME: cell, cell: NAME}))
    rewrite(dump, lambda text: first_leaf(text).update(Max=6.0))
    (dump / "dump_tensor_data" / FILE).unlink()
    assert compare().returncode == 1


def test_paths_with_spaces_and_chinese_characters(dump, golden, tmp_path):
    target = tmp_path / "我的 训练" / "step0" / "rank0"
    shutil.copytree(dump, target)
    done = msprobe("compare", "-tp", target, "-gp", golden, "-o", tmp_path / "输 出", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "输 出").glob("*.csv"))) == 1
    (target / "dump.json").unlink()
    (target / "dump.journal").write_text("")
    done = msprobe("compare", "-tp", target, "-gp", golden, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert f"msprobe doctor {target}" in done.stderr


def test_the_doctor_answers_in_lines(dump, tmp_path):
    os.truncate(dump / "dump.json", 100)
    done = msprobe("doctor", tmp_path)
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"{dump}: unreadable")
    done = msprobe("doctor", tmp_path / "absent")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("msprobe doctor: ")


def test_the_doctor_survives_every_spoiled_dump(dump, tmp_path):
    for number, spoil in enumerate([*UNREADABLE.values(), *WITHOUT_TENSOR.values()]):
        spoil(shutil.copytree(dump, tmp_path / "many" / f"step{number}" / "rank0"))
    for number, change in enumerate(ODD.values(), 100):
        rewrite(shutil.copytree(dump, tmp_path / "many" / f"step{number}" / "rank0"), change)
    done = msprobe("doctor", tmp_path / "many")
    assert done.returncode == 1
    assert done.stderr == ""
