"""Offer compare, diagnose, explain and the calls of dumps to a coding agent.

  msprobe mcp

The command is a server of the Model Context Protocol (MCP). A coding agent starts it and communicates with it over
standard input and output; it opens no network connection. It needs the extra `mcp`: pip install "msprobe-ms[mcp]".
Exit code: 0 the agent ended the session, 2 the library is missing, 130 it was interrupted.
"""

import sys
from dataclasses import dataclass

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import logger
from msprobe.options.declaration import OptionGroup


@dataclass(frozen=True, kw_only=True)
class Options(OptionGroup):
    """The options of the command: there are none."""


def run(options: Options) -> int:
    """Serve until standard input ends. UsageError if the library `mcp` is missing."""
    try:
        from .server import serve
    except ImportError as err:
        if (err.name or "").partition(".")[0] != "mcp":
            raise
        raise UsageError(
            translated(
                "the library mcp (1.10 or later) is not installed; run: pip install 'msprobe-ms[mcp]'",
                "未安装 mcp 库（1.10 及以上）；请运行：pip install 'msprobe-ms[mcp]'",
            )
        ) from err
    if sys.stdin.isatty():
        logger.info(
            "%s",
            translated(
                "waiting for a coding agent on standard input; agents start this command themselves; Ctrl-C ends it",
                "正在标准输入上等待编程智能体；该命令由智能体自行启动；按 Ctrl-C 结束",
            ),
        )
    serve()
    return 0
