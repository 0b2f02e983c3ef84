"""What tests of several rooms share: how a script is started on several ranks."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

LIMIT = 300  # seconds


@pytest.fixture(scope="session")
def options():
    """What `msrun` is told wherever it runs, for so many ranks."""
    return options_of


@pytest.fixture(scope="session")
def msrun():
    """Start a script on ranks that are processes of their own: `msrun(script, *arguments, folder=where, count=2)`.

    They run in `folder`, and their logs are there. Fails with what they said unless all of them end well.
    """
    return start


def options_of(count):
    return [f"--worker_num={count}", f"--local_worker_num={count}", "--join=True"]


def start(script, *arguments, folder, count=2):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ["--master_addr=127.0.0.1", f"--master_port={port}", f"--cluster_time_out={LIMIT}"]
    place.append(f"--log_dir={folder / 'logs'}")
    command = [sys.executable, "-m", "mindspore.parallel.cluster.run", *options_of(count), *place, script, *arguments]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # msrun starts whatever `python` is first
    with subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        start_new_session=True,
        env={**os.environ, "PATH": path, "MSPROBE_LOG_LEVEL": "2", "GLOG_v": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired as cause:
            said = str(cause)
        finally:
            with suppress(ProcessLookupError):  # the session of our own launch: msrun and its ranks, if any are left
                os.killpg(process.pid, signal.SIGKILL)
    logs = "".join(f"\n{log.name}: {log.read_text()[-3000:]}" for log in sorted((folder / "logs").glob("worker*")))
    assert process.returncode == 0, f"{said[-3000:]}{logs}"
