"""SIGTERM: tensors that wait are written, and the process dies of the signal as it would without us."""

import signal
import subprocess
import sys

import numpy as np
import pytest

CHILD = """
import ctypes, os, signal, sys, threading, time
from pathlib import Path
import numpy as np
from msprobe.store.writer import Writer
before = signal.getsignal(signal.SIGTERM)
HOW = sys.argv[1]
if HOW == "handler before":
    signal.signal(signal.SIGTERM, lambda *_: (print("mine", flush=True), sys.exit(3)))
writer = Writer(Path("dump"), {"task": "tensor", "level": "L1"})
values = np.arange(1 << 18, dtype=np.float32)
for number in range(200):
    writer.tensor(f"t{number}.npy", values + number)
if HOW == "handler after":
    signal.signal(signal.SIGTERM, lambda *_: (print("mine", flush=True), sys.exit(3)))
if HOW == "closed":
    writer.close()
    assert signal.getsignal(signal.SIGTERM) is before is signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1
if HOW == "in a call of C":  # the main thread never comes back to Python
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    ctypes.CDLL(None).sleep(60)
if HOW == "child":  # a worker that its parent terminates, as loaders of data do
    if (child := os.fork()) == 0:
        time.sleep(60)
    time.sleep(0.1)
    os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
    time.sleep(0.1)
    os._exit(5)
if HOW == "command":  # nothing of ours is inherited
    inner = __import__("subprocess").Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    time.sleep(0.5)
    inner.terminate()
    assert inner.wait() == -signal.SIGTERM
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("default", -signal.SIGTERM),
        ("closed", -signal.SIGTERM),
        ("in a call of C", -signal.SIGTERM),
        ("command", -signal.SIGTERM),
        ("handler before", 3),
        ("handler after", 3),
        ("child", 5),
    ],
)
def test_what_waits_is_written_and_the_end_is_as_without_us(how, code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, how], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr
    assert done.stdout == ("mine\n" if how.startswith("handler") else "")
    if how == "child":  # it left by os._exit: what the thread had not written by then is lost
        return
    for number in range(200):
        found = np.load(tmp_path / "dump" / "dump_tensor_data" / f"t{number}.npy")
        assert np.array_equal(found, np.arange(1 << 18, dtype=np.float32) + number)
