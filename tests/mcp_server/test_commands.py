"""Processes: commands end with the task that waits for them, and the server with its agent, a signal or the session."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from event_loops import run_in_thread

from msprobe.base.errors import UsageError
from msprobe.mcp_server.commands import document_of

LIMIT = 60  # seconds

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}

WAITING = """
import os, sys, time
with open(sys.argv[1] + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""


def is_running(process):
    with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in "ZX"
    return False


def ends(condition):
    """Whether a condition becomes true."""
    last = time.monotonic() + LIMIT
    while time.monotonic() < last:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_cancelled_command_is_killed_with_the_processes_that_it_started(tmp_path):
    """`verify-collection` runs a script of the user in a process of its own."""
    script, started = tmp_path / "train.py", tmp_path / "started"
    script.write_text(WAITING)

    async def cancel():
        task = asyncio.create_task(document_of("verify-collection", [str(script), str(started)]))
        last = time.monotonic() + LIMIT
        while not started.exists() and time.monotonic() < last and not task.done():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_in_thread(cancel())
    process = int(started.read_text())
    assert ends(lambda: not is_running(process))


def test_modules_in_the_working_directory_are_not_imported(tmp_path, monkeypatch):
    for name in ("msprobe", "random", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="absent"):
        run_in_thread(document_of("diagnose", [str(tmp_path / "absent"), str(tmp_path / "absent")]))


@pytest.fixture
def server(tmp_path):
    """`msprobe mcp` that has answered the first message."""
    process = subprocess.Popen(
        [sys.executable, "-m", "msprobe", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    with process:
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "msprobe"
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("interruptible")
def test_a_signal_ends_the_server_while_it_waits_for_a_line(server, number):
    os.kill(server.pid, number)
    assert server.wait(LIMIT) == 128 + number
    assert (server.stdout.read(), server.stderr.read()) == (b"", b"")


def test_the_end_of_input_ends_the_server(server):
    output, errors = server.communicate(timeout=LIMIT)
    assert (server.returncode, output, errors) == (0, b"", b"")


def test_a_line_that_is_not_a_message_does_not_end_the_server(server):
    server.stdin.write(b"not json\n\xff\xfe\n")
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode() + b"\n")
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).encode() + b"\n")
    server.stdin.flush()
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == 2:
            assert len(message["result"]["tools"]) == 5
            break
    else:
        raise AssertionError("no answer")
