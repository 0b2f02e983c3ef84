"""The place of the answer: whatever stands in its way, nothing half-written stays, and the reason is one line."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext

import pytest

from msprobe.cli import main
from msprobe.compare.jobs import run as carrying_out

pytestmark = [pytest.mark.slow, pytest.mark.part(3)]

NAME = "Functional.relu.0.forward"
FORMATS = ["csv", "xlsx", "json"]


def write(folder, calls=1):
    leaf = {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": [2, 3],
        "Max": 5.0,
        "Min": 0.0,
        "Mean": 2.5,
        "Norm": 7.4,
    }
    data = {f"Functional.relu.{n}.forward": {"input_args": [leaf], "output": [leaf]} for n in range(calls)}
    folder.mkdir(parents=True)
    (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": "mix", "data": data}))
    return folder


@pytest.fixture
def dump(tmp_path):
    return write(tmp_path / "dump")


def compare(dump, out, *more, form="csv"):
    return main(["compare", "-tp", str(dump), "-gp", str(dump), "-o", str(out), "--format", form, *more])


def refused(message, *words):
    (line,) = [line for line in message.err.splitlines() if not line.startswith("msprobe INFO")]
    assert line.startswith("msprobe compare: ")
    assert line.endswith("give another folder with -o")
    for word in words:
        assert str(word) in line
    assert message.out == ""


def test_a_dump_equals_itself_and_may_hold_the_answer(dump):
    before = (dump / "dump.json").read_bytes()
    for form in FORMATS:
        assert compare(dump, dump, form=form) == 0
        # What lies there now is no part of the dump.
        assert compare(dump, dump, form=form) == 0
    assert (dump / "dump.json").read_bytes() == before
    assert not list(dump.glob("*.part"))


PLACES = {
    "a file": lambda path: path.write_text("mine"),
    "a symbolic link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to a file": lambda path: (path.with_name("file").write_text("mine"), path.symlink_to("file")),
    "a device": lambda path: path.symlink_to("/dev/full"),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("make", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_place_that_is_no_folder_is_one_line(tmp_path, dump, make, below, capsys):
    out = tmp_path / "out"
    make(out)
    assert compare(dump, out / below) == 2
    refused(capsys.readouterr(), out)
    assert not (tmp_path / "nowhere").exists()
    assert not out.is_file() or out.read_bytes() in (b"mine", b"")


def test_a_link_to_a_folder_is_followed(tmp_path, dump):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    assert compare(dump, tmp_path / "out") == 0
    assert [path.suffix for path in (tmp_path / "disk").iterdir()] == [".csv"]


def test_a_name_that_no_folder_can_have_is_one_line(tmp_path, dump, capsys):
    assert compare(dump, tmp_path / ("a" * 300)) == 2
    refused(capsys.readouterr(), "File name too long")


@pytest.fixture
def same_second(monkeypatch):
    """Every result of this test has one name."""
    monkeypatch.setattr(carrying_out, "claimed", lambda *_: nullcontext("20260101000000"))


@pytest.mark.parametrize("form", FORMATS)
def test_a_result_of_the_same_name_is_replaced_whole(tmp_path, dump, same_second, form):
    out = tmp_path / "out"
    assert compare(write(tmp_path / "large", 200), out, form=form) == 0
    assert compare(dump, out, form=form) == 0
    assert compare(dump, tmp_path / "fresh", form=form) == 0
    (path,) = out.iterdir()
    small = (tmp_path / "fresh" / path.name).stat().st_size
    assert abs(path.stat().st_size - small) <= 10  # the paths in a JSON, the time in a workbook


@pytest.mark.parametrize("form", FORMATS)
def test_a_folder_of_the_name_of_the_result_is_one_line(tmp_path, dump, same_second, form, capsys):
    path = tmp_path / "out" / f"compare_result_20260101000000.{form}"
    path.mkdir(parents=True)
    assert compare(dump, tmp_path / "out", form=form) == 2
    refused(capsys.readouterr(), path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_link_laid_in_the_way_is_not_written_through(tmp_path, dump, same_second):
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    victim.write_text("mine")
    name = "compare_result_20260101000000.csv"
    (out / name).symlink_to(victim)
    assert compare(dump, out) == 0
    assert not (out / name).is_symlink()
    assert victim.read_text() == "mine"


# What happens in the middle of writing, in a process of its own that is the command but for one line.
RUN = """
import os, resource, signal, sys
from msprobe.cli import main
from msprobe.compare.jobs import outcome
from msprobe.compare.tables import csv_file
made, made_in_columns = outcome.rows, csv_file.stretches
def rows(*args):
    for number, row in enumerate(made(*args)):
        if number == 30:
            {happens}
        yield row
def stretches(*args):  # of csv; the headings stand in the file by then
    for columns in made_in_columns(*args):
        {happens}
        yield columns
outcome.rows, csv_file.stretches = rows, stretches
sys.exit(main(sys.argv[1:]))
"""


def interrupted(dump, out, form, happens):
    code = RUN.format(happens=happens)
    command = [sys.executable, "-c", code, "compare", "-tp", dump, "-gp", dump, "-o", out, "--format", form]
    done = subprocess.run([*map(str, command)], capture_output=True, timeout=120, text=True)
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("form", FORMATS)
def test_an_interrupt_in_the_middle_leaves_nothing(tmp_path, form):
    dump = write(tmp_path / "dump", 100)
    done = interrupted(dump, tmp_path / "out", form, "os.kill(os.getpid(), signal.SIGINT)")
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "msprobe compare: stopped"
    assert done.stdout == ""
    assert list(tmp_path.glob("out/*")) == []


@pytest.mark.parametrize("form", FORMATS)
def test_a_disk_that_fills_in_the_middle_leaves_nothing(tmp_path, form):
    dump = write(tmp_path / "dump", 3000)
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    done = interrupted(dump, tmp_path / "out", form, limit)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"msprobe compare: {tmp_path / 'out'}/compare_result_")
    assert line.endswith(": cannot be written (File too large); give another folder with -o")
    assert list(tmp_path.glob("out/*")) == []


def test_a_result_that_was_there_survives_a_disk_that_fills(tmp_path, monkeypatch, capsys, same_second):
    out = tmp_path / "out"
    assert compare(write(tmp_path / "dump", 3000), out) == 0
    (path,) = out.iterdir()
    whole = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        assert compare(tmp_path / "dump", out) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_bytes() == whole
    assert list(out.iterdir()) == [path]


def test_a_folder_that_may_not_be_written_is_one_line(tmp_path, dump, capsys):
    out = tmp_path / "out"
    out.mkdir(mode=0o550)
    if os.access(out, os.W_OK):
        pytest.skip("root may write every folder")
    assert compare(dump, out) == 2
    refused(capsys.readouterr(), out, "Permission denied")


def test_nothing_of_the_tools_stays_beside_the_answer(tmp_path, dump):
    shutil.copytree(dump, tmp_path / "run" / "step0" / "rank0")
    shutil.copytree(dump, tmp_path / "run" / "step0" / "rank1")
    assert compare(tmp_path / "run", tmp_path / "out", "-da") == 0
    files = [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sum(name.endswith(".csv") for name in files) == 2
    assert not any(name.startswith(".") or name.endswith(".part") for name in files)
