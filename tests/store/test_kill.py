"""A process may be killed at any moment: the calls that it had finished are there, and no tensor is half there."""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from msprobe import doctor
from msprobe.store.reader import load_tensor, read

CHILD = Path(__file__).with_name("child_writer.py")
_spec = importlib.util.spec_from_file_location("child_writer", CHILD)
child_writer = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(child_writer)


def run_and_kill(folder, seed, *words):
    """Kill a collecting process at a random moment; the calls that it had reported.

    A third of the seeds kills among the calls, a third around an assembly, a third while a new file is being written.
    """
    dice = random.Random(seed)
    child = subprocess.Popen([sys.executable, CHILD, folder, str(seed), *words], stdout=subprocess.PIPE)
    among_calls = seed % 3 == 0
    wanted = b"call " if among_calls else b"assemble\n"
    left = dice.randint(1, 40 if among_calls else 8)
    seen = []
    for line in child.stdout:
        seen.append(line)
        left -= line.startswith(wanted)
        if left == 0:
            break
    end = time.perf_counter() + dice.random() * (0.002 if among_calls else 0.01)
    while time.perf_counter() < end or (seed % 3 == 2 and not list(folder.glob("*.part"))):
        pass
    child.send_signal(signal.SIGKILL)
    seen += child.stdout.readlines()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return [int(line.split()[1]) for line in seen if line.startswith(b"call ") and line.endswith(b"\n")]


_JSON = {"construct.json", "dump.json", "stack.json"}
FILES = {"json": _JSON, "packed": _JSON, "columnar": {"dump.parquet"}}


@pytest.mark.sample(8)
@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("seed", range(50))
def test_every_reported_call_survives_a_kill(tmp_path, seed, form, capsys):
    if form == "columnar":
        pytest.importorskip("pyarrow", reason="the format is written through it")
    folder = tmp_path / "step0" / "rank0"
    reported = run_and_kill(folder, seed, form)
    assert "dump.journal" in os.listdir(folder)
    code = doctor.run(doctor.Options(folder=tmp_path))
    found = capsys.readouterr().out
    assert "rebuilt" in found
    assert {*os.listdir(folder)} - {"dump_tensor_data"} == FILES[form]
    dump = read(tmp_path / "step0")
    filling = [call for call in dump.calls if call.name.startswith("Functional.fill.")]
    assert [call.records[0].value for call in filling] == list(range(child_writer.FILLING))
    calls = {call.name: call for call in dump.calls[len(filling) :]}
    # The one that was under way may have been finished and not reported.
    assert len(reported) <= len(calls) <= len(reported) + 1
    lost = []
    for i in range(len(calls)):
        call = calls[f"Functional.relu.{i}.forward"]
        argument, result = call.records
        # A tensor that still waited is gone, and said to be; every other one is whole.
        if argument.file:
            assert load_tensor(dump, argument).tobytes() == child_writer.tensor_of(seed, i).tobytes()
        else:
            lost.append(f"{call.name} input.0")
        assert argument.shape == child_writer.tensor_of(seed, i).shape
        assert result.value == i
        assert call.stack == (f"frame {i % 3}",)
    assert [text.split(": ")[0] for text in dump.missing] == lost
    assert (code, "LOST" in found) == ((1, True) if lost else (0, False))
    if form == "packed":  # a call's tensors are written before its line: of a finished call none is lost
        assert lost == []


ORPHAN = """
import os, signal, sys
from pathlib import Path
from msprobe.store.writer import Writer
writer = Writer(Path(sys.argv[1]), {"task": "statistics", "level": "mix"})
writer.call("A", None, None, '{"output":[]}')
parent = os.getpid()
if os.fork() == 0:  # a data loader, which outlives its training
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)
os.kill(parent, signal.SIGKILL)
"""


def test_a_child_that_outlives_its_parent_does_not_hold_the_dump(tmp_path, capsys):
    folder = tmp_path / "step0" / "rank0"
    child = subprocess.Popen([sys.executable, "-c", ORPHAN, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.wait(60) == -signal.SIGKILL
        assert child.stdout.readline() == b"ready\n"
        assert doctor.run(doctor.Options(folder=tmp_path)) == 0
        assert "rebuilt: 1 calls" in capsys.readouterr().out
    finally:
        child.stdin.close()
        child.stdout.close()
