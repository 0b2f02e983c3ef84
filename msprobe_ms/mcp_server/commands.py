"""Commands of msprobe in processes, and the JSON documents that they print."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.files import user_path
from msprobe.base.log import terminal_line
from msprobe.store.reader import with_whole_characters

# Not `-m`, which would import modules of the folder that the server runs in: a `random.py` of the user, for example.
_PROGRAM = "import sys; sys.path[:] = filter(None, sys.path); from msprobe.cli import main; sys.exit(main())"

_MAX_ERROR = 2000
"""Characters of standard error that are passed on where a command printed no document: the last ones."""

_running: "set[subprocess.Popen[bytes]]" = set()
"""The commands that are running."""


async def document_of(command: str, words: Sequence[str]) -> dict[str, Any]:
    """Run a command with `--json` and return the document that it prints.

    The command is killed if the task is cancelled. UsageError, with the message of the command, where it could not be
    carried out.
    """
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *command.split(), *words, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", "MSPROBE_LOG_LEVEL": "3"},
            start_new_session=True,
        )
    except OSError as err:
        raise MsprobeError(f"{command}: cannot be started: {err.strerror or err}") from err
    _running.add(process)
    try:
        # In a thread, which ends as soon as the process does, also if it is killed.
        printed, logged = await asyncio.to_thread(process.communicate)
    except asyncio.CancelledError:
        _kill(process)
        raise
    finally:
        _running.discard(process)
    try:
        document = with_whole_characters(json.loads(printed))
    except ValueError:
        document = None
    if not isinstance(document, dict):
        text = logged.decode("utf-8", "replace").strip()[-_MAX_ERROR:]
        raise UsageError(text or f"{command}: ended with exit code {process.returncode} and printed nothing")
    if document.get("state") == "failed":
        raise UsageError(str(document.get("answer")))
    return document


def stop_all() -> None:
    """Kill all commands that are running, with their worker processes."""
    for process in tuple(_running):
        _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and those that it started; they are a group."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def path_of(text: str, name: str) -> Path:
    """Return the path that a parameter names, absolute, so that no command takes it for an option.

    UsageError if it is empty or no file can have it.
    """
    if not text or "\0" in text:
        why = f"{terminal_line(text)} contains a NUL character" if text else "is empty"
        raise UsageError(f"{name}: {why}; give the path of a file or folder")
    return Path(os.path.abspath(user_path(text)))
