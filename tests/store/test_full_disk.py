"""A disk that is full: the collector is told, what stood there stays, and it goes on when there is room again."""

import contextlib
import errno
import json
import os
import resource
import subprocess
from pathlib import Path

import numpy as np
import pytest

from msprobe import doctor
from msprobe.store.journal import call_line
from msprobe.store.reader import load_tensor, read
from msprobe.store.writer import Writer

HEADER = {"task": "tensor", "level": "mix", "framework": "mindspore"}
LARGE = json.dumps({"output": [{"type": "str", "value": "x" * 1500}]})


@contextlib.contextmanager
def no_file_larger_than(size):
    """The kernel refuses to let a file grow further: in the middle of a write, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def collect(writer, names):
    """Collect some calls as a collector does: a failure is noted down, the training goes on."""
    failed = []
    for name in names:
        try:
            writer.call(name, None, None, LARGE)
        except OSError as err:
            failed.append(name)
            writer.missing(name, "", os.strerror(err.errno))
    return failed


def test_a_line_that_did_not_fit_spoils_no_other(folder):
    writer = Writer(folder, HEADER)
    assert collect(writer, ["before"]) == []
    with no_file_larger_than(4000):
        failed = collect(writer, [f"full {i}" for i in range(5)])
    assert failed == ["full 1", "full 2", "full 3", "full 4"]
    assert (folder / "dump.journal").stat().st_size == 4000
    assert collect(writer, ["after", "later"]) == []
    writer.close()
    dump = read(folder)
    assert [call.name for call in dump.calls] == ["before", "full 0", "after", "later"]
    assert all(call.records[0].value == "x" * 1500 for call in dump.calls)
    assert dump.missing == tuple(f"{name}: File too large" for name in failed)


def test_a_line_torn_at_any_byte_is_not_taken_for_a_whole(tmp_path):
    line = call_line("torn", "parent", 12, '{"output":[{"type":"int","value":1}]}')
    for keep in range(1, len(line)):
        folder = tmp_path / f"step{keep}" / "rank0"
        writer = Writer(folder, HEADER)
        before = (folder / "dump.journal").stat().st_size
        with no_file_larger_than(before + keep), pytest.raises(OSError, match="File too large"):
            writer.call("torn", "parent", 12, '{"output":[{"type":"int","value":1}]}')
        writer.call("after", None, None, '{"output":[]}')
        writer.close()
        dump = read(folder)
        assert [call.name for call in dump.calls] == ["after"]
        assert dump.construct == {"after": None}


def test_a_dead_process_left_a_torn_line_behind(folder, capsys):
    writer = Writer(folder, HEADER)
    with no_file_larger_than(4000):
        collect(writer, ["a", "b", "c"])
    collect(writer, ["d"])
    del writer  # without close, as a killed process
    assert doctor.run(doctor.Options(folder=Path(folder))) == 1
    result = capsys.readouterr().out
    assert "rebuilt: 3 calls" in result
    assert "1 lines of its journal could not be read" in result
    assert [call.name for call in read(folder).calls] == ["a", "b", "d"]
    # It says so again: the loss is written in the dump.
    assert doctor.run(doctor.Options(folder=Path(folder))) == 1
    assert "1 lines of its journal could not be read" in capsys.readouterr().out


def test_what_is_missing_is_told_even_if_the_disk_stays_full_for_the_journal(folder):
    writer = Writer(folder, HEADER)
    collect(writer, ["a"])
    with no_file_larger_than(2000):
        assert collect(writer, ["b"]) == ["b"]
        writer.close()
    assert read(folder).missing == ("b: File too large",)


def test_a_failed_assembly_leaves_the_files_that_stood(folder):
    writer = Writer(folder, HEADER)
    collect(writer, ["a"])
    writer.assemble()
    before = {name: (folder / name).read_bytes() for name in ("dump.json", "stack.json", "construct.json")}
    collect(writer, ["b", "c"])
    with no_file_larger_than(3000), pytest.raises(OSError, match="File too large"):
        writer.assemble()
    assert (folder / "dump.json").read_bytes() == before["dump.json"]
    assert not list(folder.glob("*.part"))
    writer.assemble()
    assert [call.name for call in read(folder).calls] == ["a", "b", "c"]
    writer.close()


def test_a_failed_end_leaves_the_journal_to_the_doctor(folder, capsys):
    writer = Writer(folder, HEADER)
    collect(writer, ["a", "b", "c"])
    with no_file_larger_than(3000), pytest.raises(OSError, match="File too large"):
        writer.close()
    assert (folder / "dump.journal").exists()
    assert doctor.run(doctor.Options(folder=Path(folder))) == 0
    assert [call.name for call in read(folder).calls] == ["a", "b", "c"]


def record_of(name, shape):
    return {"type": "mindspore.Tensor", "dtype": "Float64", "shape": [shape], "Max": 0.0, "data_name": name}


def test_a_tensor_that_did_not_fit_leaves_nothing_and_is_noted(folder, capsys, monkeypatch):
    monkeypatch.setattr("msprobe.base.log._logged", set())
    writer = Writer(folder, HEADER)
    with no_file_larger_than(4000):
        for call, size in (("F.0.forward", 3), ("F.1.forward", 1000), ("F.2.forward", 1000)):
            name = writer.tensor(f"{call}.output.0.npy", np.zeros(size))
            writer.call(call, None, None, json.dumps({"output": [record_of(name, size), None]}))
        writer.flush()
    assert os.listdir(folder / "dump_tensor_data") == ["F.0.forward.output.0.npy"]
    assert capsys.readouterr().err.count("cannot be written (File too large)") == 1
    for end in (writer.assemble, writer.close):
        end()
        dump = read(folder)
        assert [call.records[0].file for call in dump.calls] == ["F.0.forward.output.0.npy", "", ""]
        assert [call.records[0].shape for call in dump.calls] == [(3,), (1000,), (1000,)]
        assert all(call.records[0].statistics.max == 0.0 for call in dump.calls)
        assert dump.missing == ("F.1.forward output.0: File too large", "F.2.forward output.0: File too large")


def test_a_tensor_that_did_not_fit_at_once_is_told_at_once(folder):
    writer = Writer(folder, HEADER, limit=0)
    with no_file_larger_than(4000), pytest.raises(OSError, match="File too large"):
        writer.tensor("x.npy", np.zeros(1000))
    assert os.listdir(folder / "dump_tensor_data") == []
    writer.close()


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_a_tensor_that_did_not_fit_leaves_the_one_before(folder, limit):
    writer = Writer(folder, HEADER, limit=limit)
    writer.tensor("x.npy", np.ones(3))
    writer.flush()
    with no_file_larger_than(4000):
        with contextlib.suppress(OSError):
            writer.tensor("x.npy", np.zeros(1000))
        writer.flush()
    assert os.listdir(folder / "dump_tensor_data") == ["x.npy"]
    assert np.load(folder / "dump_tensor_data" / "x.npy").tolist() == [1.0] * 3
    writer.close()


def test_a_later_tensor_of_the_same_name_that_failed_is_not_taken_for_the_earlier(folder):
    writer = Writer(folder, HEADER)
    for size in (3, 1000):
        with no_file_larger_than(4000):
            name = writer.tensor("x.npy", np.zeros(size))
            writer.flush()
        writer.call("x", None, None, json.dumps({"output": [record_of(name, size)]}))
    writer.assemble()
    assert read(folder).calls[0].records[0].file == ""
    assert read(folder).missing == ("x: File too large",)
    writer.tensor("x.npy", np.zeros(1000))
    writer.close()
    dump = read(folder)
    assert load_tensor(dump, dump.calls[0].records[0]).shape == (1000,)
    assert dump.missing == ()


def test_a_stack_that_did_not_fit_is_written_at_its_next_use(folder):
    writer = Writer(folder, HEADER)
    with no_file_larger_than(1000), pytest.raises(OSError, match="File too large"):
        writer.stack(["x" * 1500])
    writer.call("a", None, writer.stack(["x" * 1500]), '{"output":[]}')
    writer.close()
    assert read(folder).calls[0].stack == ("x" * 1500,)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 kB; needs the right to mount."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(
            f"mounting a small disk needs root: {made.stderr.strip()} (the limit on file sizes above stands in)"
        )
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_that_is_really_full(small_disk):
    writer = Writer(small_disk / "step0" / "rank0", HEADER)
    failed = []
    for i in range(60):
        try:
            name = writer.tensor(f"F.{i}.forward.output.0.npy", np.full(1000, i, np.float64))
            writer.call(f"F.{i}.forward", None, None, json.dumps({"output": [record_of(name, 1000)]}))
            if i == 10:
                writer.assemble()
        except OSError as err:  # the journal's
            failed.append(err.errno)
            writer.missing(f"F.{i}.forward", "", "disk full")
    assert set(failed) <= {errno.ENOSPC}
    writer.flush()
    written = len(os.listdir(small_disk / "step0/rank0/dump_tensor_data"))
    assert 20 < written < 40
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    # What was assembled before is untouched, and nobody else's space is taken for a torn file.
    dump = read(small_disk / "step0")
    assert [call.name for call in dump.calls] == [f"F.{i}.forward" for i in range(11)]
    # Room again, and the doctor finds everything that was written, and says what was not.
    subprocess.run(["mount", "-o", "remount,size=2m", small_disk], check=True)
    assert doctor.run(doctor.Options(folder=Path(small_disk))) == 1
    dump = read(small_disk / "step0")
    named = [call.name for call in dump.calls if call.records[0].file]
    assert named == [f"F.{i}.forward" for i in range(written)]
    for i in range(written):
        assert (load_tensor(dump, dump.calls[i].records[0]) == i).all()
    unsaved = [call.name for call in dump.calls if not call.records[0].file]
    lost = {f"{name} output.0: its process died before the tensor was written" for name in unsaved}
    assert lost <= set(dump.missing)
    # Where the disk was full in the middle of a line of the journal, that line is lost too.
    torn = {"1 lines of its journal could not be read", *(f"F.{i}.forward: disk full" for i in range(60))}
    assert set(dump.missing) - lost <= torn


@pytest.fixture
def frozen(folder):
    """Make the folder of tensors read-only; needs the right to mount, which root has, whom no mode keeps out."""
    tensors = folder / "dump_tensor_data"
    mounted = []

    def freeze():
        if os.geteuid():
            tensors.chmod(0o550)
            return
        for options in (["--bind", tensors], ["-o", "remount,ro,bind"]):
            made = subprocess.run(["mount", *options, tensors], capture_output=True, text=True)
            if made.returncode:
                pytest.skip(f"root cannot mount here, and no mode keeps it out: {made.stderr.strip()}")
            mounted.append(tensors)

    yield freeze
    if mounted:
        subprocess.run(["umount", tensors], check=True)


def test_a_folder_that_became_read_only(folder, frozen):
    writer = Writer(folder, HEADER)
    for i in range(4):
        name = writer.tensor(f"F.{i}.forward.output.0.npy", np.zeros(2))
        writer.call(f"F.{i}.forward", None, None, json.dumps({"output": [record_of(name, 2)]}))
        if i == 1:
            writer.flush()
            frozen()
    writer.close()
    dump = read(folder)
    assert [bool(call.records[0].file) for call in dump.calls] == [True, True, False, False]
    assert [text.split(": ")[0] for text in dump.missing] == ["F.2.forward output.0", "F.3.forward output.0"]
    assert os.strerror(errno.EACCES if os.geteuid() else errno.EROFS) in dump.missing[0]


def test_an_end_that_the_disk_refuses_is_noted_without_an_error(folder):
    writer = Writer(folder, HEADER)
    collect(writer, ["before"])
    with no_file_larger_than(100), pytest.raises(OSError, match="File too large"):
        writer.close()
    writer.missing("step", "assemble", "File too large")  # as a collector does: there is no dump any more to say it
    assert doctor.run(doctor.Options(folder=Path(folder))) == 0
    assert [call.name for call in read(folder).calls] == ["before"]
