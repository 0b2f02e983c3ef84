"""Run the command of a training whose debuggers have other settings: they are replaced through the environment."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import logger
from msprobe.base.settings import REPLACED_BY


class CommandFailedError(UsageError):
    """The command of the training could not be started, or ended with an error."""


def without_separator(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command that is given after `--`."""
    return words[1:] if words[:1] == ("--",) else words


def run_training(
    command: Sequence[str], settings: Mapping[str, object], file: Path, what: str = "", folder: Path | None = None
) -> None:
    """Run a command in which each debugger has these settings, which are written to `file`.

    `what` is logged before the command. `folder` is where it runs; None is the working directory. Its output goes to
    standard error. CommandFailedError if it cannot be started, or fails.
    """
    file.write_text(json.dumps(settings))
    shown = shlex.join(command)
    logger.info("%s%s", what, shown)
    environment = {**os.environ, REPLACED_BY: str(file)}
    try:
        done = subprocess.run(command, env=environment, cwd=folder, stdout=sys.stderr.fileno(), check=False)
        code = done.returncode
    except OSError as err:
        raise CommandFailedError(
            translated(
                f"{shown}: cannot be started ({err.strerror or err}); give the command of the training after --",
                f"{shown}：无法启动（{err.strerror or err}）；请在 -- 之后给出训练命令",
            )
        ) from err
    if code:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        how_zh = f"被信号 {-code} 终止" if code < 0 else f"以退出码 {code} 结束"
        raise CommandFailedError(
            translated(
                f"{shown}: the training {how}, so that there is no verdict; its output is above",
                f"{shown}：训练{how_zh}，因此没有结论；其输出见上文",
            )
        )
