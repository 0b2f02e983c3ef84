"""`store/async_writer.py`: tensors are written while the training goes on, and none is lost or mixed up on the way."""

import json
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from msprobe import doctor
from msprobe.base.errors import DumpError, UsageError
from msprobe.store import async_writer
from msprobe.store.async_writer import AsyncWriter
from msprobe.store.npy import write_npy
from msprobe.store.reader import load_tensor, read
from msprobe.store.writer import Writer

pytestmark = pytest.mark.part(2)

HEADER = {"task": "tensor", "level": "mix", "framework": "mindspore"}


class Gate:
    """Holds the thread before its first file until it is opened."""

    def __init__(self, monkeypatch):
        self.arrived, self._open = threading.Event(), threading.Event()
        monkeypatch.setattr(async_writer, "write_npy", self._write)

    def _write(self, path, array):
        if threading.current_thread() is not threading.main_thread():
            self.arrived.set()
            assert self._open.wait(60)
        write_npy(path, array)

    def open(self):
        self._open.set()


@pytest.fixture
def gate(monkeypatch):
    made = Gate(monkeypatch)
    yield made
    made.open()


@pytest.fixture
def run_child(tmp_path):
    """Run a script that collects into a folder; its exit code and what it said."""

    def run(script, *arguments):
        command = [sys.executable, "-W", "error", "-c", PREFACE + script, tmp_path / "step0" / "rank0", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    return run


PREFACE = """
import json, os, signal, sys, threading
from pathlib import Path
from types import SimpleNamespace
import numpy as np
from msprobe.store import async_writer
from msprobe.store.writer import Writer

folder = Path(sys.argv[1])
real = async_writer.write_npy

def collect(writer, numbers, size=1000):
    for i in numbers:
        name = writer.tensor(f"F.{i}.forward.output.0.npy", np.full(size, i, np.float32))
        leaf = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [size], "data_name": name}
        writer.call(f"F.{i}.forward", None, None, json.dumps({"output": [leaf]}))

def start(**options):
    return Writer(folder, {"task": "tensor", "level": "mix"}, **options)
"""


def check_dump(where, count):
    """Every call stands in the dump, every tensor that it names is whole and right; the numbers of the others."""
    dump = read(where)
    assert [call.name for call in dump.calls] == [f"F.{i}.forward" for i in range(count)]
    lost = []
    for i, call in enumerate(dump.calls):
        if call.records[0].file:
            assert (load_tensor(dump, call.records[0]) == i).all()
        else:
            lost.append(i)
    assert [text.split(" ")[0] for text in dump.missing] == [f"F.{i}.forward" for i in lost]
    return lost


def test_the_caller_may_use_its_memory_again(folder, gate):
    array = np.arange(4.0)
    odd = np.arange(24, dtype=">i2").reshape(2, 3, 4).T[::2]
    expected = odd.copy()
    writer = Writer(folder, HEADER)
    writer.tensor("x.npy", array)
    writer.tensor("odd.npy", odd)
    array[:] = -1
    odd[:] = -1
    gate.open()
    writer.close()
    assert np.load(folder / "dump_tensor_data/x.npy").tolist() == [0.0, 1.0, 2.0, 3.0]
    written = np.load(folder / "dump_tensor_data/odd.npy")
    assert (written.dtype, written.tolist()) == (expected.dtype, expected.tolist())


def test_the_caller_does_not_wait_for_the_disk(folder, gate):
    writer = Writer(folder, HEADER)
    for i in range(100):
        writer.tensor(f"{i}.npy", np.full(1000, i))
    assert gate.arrived.wait(60)
    assert os.listdir(folder / "dump_tensor_data") == []
    gate.open()
    writer.flush()
    assert len(os.listdir(folder / "dump_tensor_data")) == 100
    writer.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_small_ring_mixes_nothing_up(tmp_path, seed):
    """Thousands of arrays of every size through a ring that holds a few of them."""
    dice = np.random.default_rng(seed)
    made = AsyncWriter(40_000)
    expected = {}
    for i in range(1500):
        array = dice.integers(0, 256, dice.integers(0, 6000) * dice.integers(0, 2) + dice.integers(0, 50), np.uint8)
        name = str(tmp_path / f"{i % 1400}.npy")  # some names come twice
        made.write(name, array)
        expected[name] = array
    made.drain()
    assert made.failed == {}
    for name, array in expected.items():
        assert np.load(name).tobytes() == array.tobytes()
    made.end()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "<f8", ">f8", "c16", "u8"])
def test_every_kind_of_array_arrives(tmp_path, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    made = AsyncWriter()
    made.write(str(tmp_path / "x.npy"), array)
    made.drain()
    made.end()
    written = np.load(tmp_path / "x.npy")
    assert (written.dtype, written.shape, written.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_what_holds_no_numbers_is_refused_at_once(writer):
    with pytest.raises(DumpError, match="pass a numeric array"):
        writer.tensor("x.npy", np.array([None]))


@pytest.mark.parametrize("limit", [600, 1 << 20])
def test_of_two_tensors_of_one_name_the_later_counts(folder, gate, limit):
    """Also where the earlier one waits and the later one is too large to wait."""
    writer = Writer(folder, HEADER, limit=limit)
    writer.tensor("x.npy", np.zeros(2, np.int8))
    gate.open()
    writer.tensor("x.npy", np.ones(500))
    writer.close()
    assert np.load(folder / "dump_tensor_data/x.npy").shape == (500,)


def test_a_tensor_larger_than_the_limit_is_there_at_once(folder, gate):
    writer = Writer(folder, HEADER, limit=10_000)
    writer.tensor("x.npy", np.zeros(2000))
    assert np.load(folder / "dump_tensor_data/x.npy").shape == (2000,)
    writer.close()


def test_where_no_thread_can_start_tensors_are_written_at_once(folder, monkeypatch, capsys):
    monkeypatch.setattr("msprobe.base.log._logged", set())

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    writer = Writer(folder, HEADER)
    for i in range(3):
        name = writer.tensor(f"{i}.npy", np.full(3, i))
        assert np.load(folder / "dump_tensor_data" / name).tolist() == [i] * 3
    writer.close()
    assert capsys.readouterr().err.count("can't start new thread") == 1


def test_a_closed_dump_takes_no_tensor(writer):
    writer.tensor("x.npy", np.zeros(1))
    writer.close()
    with pytest.raises(UsageError, match="closed"):
        writer.tensor("y.npy", np.zeros(1))


def test_the_thread_goes_with_the_dump(folder):
    writer = Writer(folder, HEADER)
    writer.tensor("x.npy", np.zeros(1))
    thread = writer._async_writer._thread
    writer.close()
    thread.join(60)
    assert not thread.is_alive()
    forgotten = Writer(folder, HEADER)
    forgotten.tensor("x.npy", np.ones(1))
    thread = forgotten._async_writer._thread
    del forgotten
    thread.join(60)
    assert not thread.is_alive()
    assert np.load(folder / "dump_tensor_data/x.npy").tolist() == [1.0]


@pytest.mark.always
def test_who_waits_after_the_end_is_not_kept_waiting(tmp_path, monkeypatch):
    """Each ended writer would cost the end of the process a second, and there is one for each step."""
    acquired = []

    class Lock:
        def __init__(self):
            self._lock = threading.Lock()

        def acquire(self, *args, **kwargs):
            found = self._lock.acquire(*args, **kwargs)
            acquired.append((kwargs, found))
            return found

    made = AsyncWriter()
    made.write(str(tmp_path / "x.npy"), np.ones(3))
    made.drain()
    made.end()
    made._thread.join(60)
    monkeypatch.setattr("msprobe.store.async_writer.threading", SimpleNamespace(Lock=Lock))
    made.drain()
    assert acquired == []
    assert np.load(tmp_path / "x.npy").tolist() == [1.0, 1.0, 1.0]


@pytest.mark.always
def test_who_begins_to_wait_when_the_end_was_ordered_is_woken(tmp_path):
    made = AsyncWriter()
    made.write(str(tmp_path / "x.npy"), np.ones(3))
    waiting = threading.Lock()
    waiting.acquire()
    made.end()
    made._tasks.put(waiting)
    assert waiting.acquire(timeout=60)


def test_a_json_file_names_only_what_is_whole(folder, gate):
    writer = Writer(folder, HEADER)
    name = writer.tensor("F.0.forward.output.0.npy", np.zeros(3))
    leaf = {"type": "mindspore.Tensor", "dtype": "Float64", "shape": [3], "data_name": name}
    writer.call("F.0.forward", None, None, json.dumps({"output": [leaf]}))
    done = threading.Thread(target=writer.assemble)
    done.start()
    assert gate.arrived.wait(60)
    assert not (folder / "dump.json").exists()
    gate.open()
    done.join(60)
    assert load_tensor(read(folder), read(folder).calls[0].records[0]).tolist() == [0.0] * 3
    writer.close()


@pytest.mark.slow
def test_ten_thousand_tensors_in_a_step(folder):
    writer = Writer(folder, HEADER)
    for i in range(10_000):
        name = writer.tensor(f"F.{i}.forward.output.0.npy", np.full(2, i, np.float32))
        leaf = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2], "data_name": name}
        writer.call(f"F.{i}.forward", None, None, json.dumps({"output": [leaf]}))
    writer.close()
    assert check_dump(folder, 10_000) == []


MEMORY = """
import resource
writer = start()
array = np.ones((1 << 20,), np.float32)
collect(writer, [0], 1 << 20)
writer.flush()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for i in range(512):
    writer.tensor(f"{i % 2}.npy", array)  # two gigabytes, of which the disk keeps eight megabytes
writer.flush()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.slow
def test_what_waits_stays_below_the_limit(run_child):
    code, output, _ = run_child(MEMORY)
    assert code == 0
    assert int(output) < 128 + 16  # megabytes


KILLED = """
def write(path, array):
    if path.endswith("F.5.forward.output.0.npy"):
        with open(path, "wb") as file:  # half of it, as the kernel may have it when the process dies
            file.write(b"\\x93NUMPY")
        print("halfway", flush=True)
        threading.Event().wait()
    real(path, array)

async_writer.write_npy = write
writer = start()
collect(writer, range(40))
while True:
    signal.pause()
"""


def test_a_kill_while_tensors_wait_loses_those_and_no_call(tmp_path, capsys):
    command = [sys.executable, "-c", PREFACE + KILLED, tmp_path / "step0" / "rank0"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    journal = tmp_path / "step0" / "rank0" / "dump.journal"
    assert child.stdout.readline() == b"halfway\n"
    while journal.read_bytes().count(b"\nC\t") < 40:
        pass
    child.kill()
    child.stdout.close()
    assert child.wait(60) == -signal.SIGKILL
    assert doctor.run(doctor.Options(folder=tmp_path)) == 1
    result = capsys.readouterr().out
    assert (
        "rebuilt: 40 calls, 40 records, 5 tensors; LOST: 35 parts were not collected (F.5.forward output.0: " in result
    )
    assert "F.6.forward output.0: its process died before the tensor was written" in result
    assert check_dump(tmp_path / "step0", 40) == list(range(5, 40))
    # It says so again, and nothing changes any more.
    assert doctor.run(doctor.Options(folder=tmp_path)) == 1
    assert "35 parts were not collected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("end", "code"),
    [("os._exit(7)", 7), ("os.kill(os.getpid(), signal.SIGTERM); signal.pause()", -signal.SIGTERM)],
    ids=["os._exit", "SIGTERM"],
)
def test_a_sudden_end_leaves_whole_tensors(tmp_path, run_child, end, code):
    assert run_child(f"writer = start()\ncollect(writer, range(300), 20_000)\n{end}") == (code, "", "")
    doctor.run(doctor.Options(folder=tmp_path))
    lost = check_dump(tmp_path / "step0", 300)
    assert lost == list(range(300 - len(lost), 300))


@pytest.mark.parametrize(
    "end",
    [
        "sys.exit(0)",
        "raise SystemExit",
        "threading.Thread(target=lambda: collect(writer, range(300, 310))).start()",
        "import atexit; atexit.register(collect, writer, range(300, 310))",
    ],
)
def test_a_regular_end_writes_what_waits(tmp_path, run_child, end):
    assert run_child(f"writer = start()\ncollect(writer, range(300), 20_000)\n{end}") == (0, "", "")
    assert doctor.run(doctor.Options(folder=tmp_path)) == 0
    assert check_dump(tmp_path / "step0", 300 + 10 * ("310" in end)) == []


FORK = """
gate = threading.Event()

def write(path, array):
    gate.wait()
    real(path, array)

async_writer.write_npy = write
writer = start(limit=30_000)
collector = threading.Thread(target=collect, args=(writer, range(20)))  # more than fits: it waits, with every lock held
collector.start()
while writer._async_writer._allocated < 26_000:
    pass
child = os.fork()
if child == 0:
    collect(writer, range(20, 40))
    writer.flush()
    writer.assemble()
    writer.close()
    sys.exit(7)  # as a data loader may end, through the whole of Python's end
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
gate.set()
collector.join()
writer.close()
"""


def test_a_child_forked_while_tensors_wait_writes_nothing_and_does_not_hang(tmp_path, run_child):
    assert run_child(FORK) == (0, "", "")
    assert check_dump(tmp_path / "step0", 20) == []


SIGNALS = """
writer = start(limit=100_000)
times = 0

def handle(*_):
    global times
    times += 1
    if times < 20:  # on a slow machine one may take longer than the pause: the collecting must come to its end
        signal.setitimer(signal.ITIMER_REAL, 0.001)  # the next one may come while this one still works
    writer.assemble()

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.001)
collect(writer, range(1000))
signal.setitimer(signal.ITIMER_REAL, 0)
writer.close()
assert times > 5
"""


def test_a_signal_handler_may_ask_for_the_files_at_any_moment(tmp_path, run_child):
    assert run_child(SIGNALS) == (0, "", "")
    assert check_dump(tmp_path / "step0", 1000) == []


WAITING = """
writer = async_writer.AsyncWriter(20_000)
times = 0

def handle(*_):
    global times
    times += 1
    if times < 2000:
        signal.setitimer(signal.ITIMER_REAL, 0.0002)
    writer.drain()

folder.mkdir(parents=True)
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0002)
given = 0
while times < 2000:
    writer.write(str(folder / f"{given % 50}.npy"), np.zeros(1000, np.float32))  # every fifth one waits for the ring
    given += 1
writer.drain()
assert given > 50 and len(os.listdir(folder)) == 50
"""


def test_who_waits_for_the_disk_may_be_interrupted_by_who_waits_too(run_child):
    """At every place of the waiting: there was one where the thread and both of them waited for ever."""
    assert run_child(WAITING) == (0, "", "")


THREADS = """
writer = start(limit=50_000)
threads = [threading.Thread(target=collect, args=(writer, range(n, 400, 4))) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
writer.close()
"""


def test_several_threads_may_give_tensors(tmp_path, run_child):
    assert run_child(THREADS) == (0, "", "")
    dump = read(tmp_path / "step0")
    assert len(dump.calls) == 400
    for call in dump.calls:
        assert (load_tensor(dump, call.records[0]) == int(call.name.split(".")[1])).all()


UNBOUNDED = """
gate = threading.Event()

def write(path, array):
    gate.wait()
    real(path, array)

async_writer.write_npy = write
writer = start(limit=None)
collect(writer, range(200), 1 << 18)  # 200 megabytes, of which none is written yet
gate.set()
writer.close()
"""


@pytest.mark.slow
def test_without_a_limit_nothing_waits_for_the_disk(tmp_path, run_child):
    assert run_child(UNBOUNDED) == (0, "", "")
    assert check_dump(tmp_path / "step0", 200) == []
