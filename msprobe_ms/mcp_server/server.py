"""The server: the tools over standard input and output, by the official SDK."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import cleandoc
from typing import Any, NoReturn

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

from . import commands, tools

INSTRUCTIONS = """
msprobe finds why the numbers of a MindSpore or PyTorch training are wrong. Dumps hold the inputs and outputs of the
calls of a training. `target` is the run under suspicion, `golden` the trusted run. Begin with list_runs where the
paths are unknown. `compare` (two dumps) and `diagnose` (dumps, monitors, checkpoints, configurations in any mixture)
return findings; if `first_is_cause` is true, the first one is the cause of the others. Pass its `code` to explain, and
its place to look_at_call, once for the target and once for the golden. The place has the file and line of the user's
code.
"""


def make_server() -> "FastMCP[Any]":
    """Return the server with all tools."""
    # A higher level than the SDK's: it logs every request.
    server: FastMCP[Any] = FastMCP("msprobe", cleandoc(INSTRUCTIONS), log_level="WARNING")
    for tool, is_reader in ((each, each not in tools.WRITERS) for each in tools.TOOLS):
        hints = ToolAnnotations(readOnlyHint=is_reader, destructiveHint=False, openWorldHint=False)
        server.add_tool(tool, description=cleandoc(tool.__doc__ or ""), annotations=hints)
    return server


def serve() -> None:
    """Serve until standard input ends."""
    server = make_server()
    with _ended_by_signals(), _own_streams():
        server.run("stdio")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the process, and the commands that it runs, on SIGINT and SIGTERM.

    Without this it would wait until a line arrives: a thread of the SDK reads standard input.
    """

    def end(number: int, _: object) -> NoReturn:
        commands.stop_all()
        os._exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _own_streams() -> Iterator[None]:
    """Give copies of the standard streams to the SDK, which closes them at the end."""
    before = sys.stdin, sys.stdout
    with open(os.dup(0), encoding="utf-8") as received, open(os.dup(1), "w", encoding="utf-8") as sent:
        sys.stdin, sys.stdout = received, sent
        try:
            yield
        finally:
            sys.stdin, sys.stdout = before
