"""Run a training whose debugger collects what a gate needs: its settings are replaced through the environment."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import logger
from msprobe.base.scope import compact_ranges
from msprobe.base.settings import REPLACED_BY
from msprobe.checks.dumps import dumps_of

DUMP = "dump"


@dataclass(frozen=True)
class Collection:
    """What is collected of a run: task `tensor` or `statistics`, the level, and the steps."""

    task: str = "tensor"
    level: str = "mix"
    steps: tuple[int, ...] = (0, 1, 2)

    def settings(self, folder: Path) -> dict[str, object]:
        """Return the configuration of the debugger that writes to a folder."""
        return {
            "task": self.task,
            "level": self.level,
            "step": list(self.steps),
            "dump_path": str(folder),
            "format": "packed" if self.task == "tensor" else "json",
        }

    def described(self) -> dict[str, object]:
        """Return the collection as a golden file has it."""
        return {"task": self.task, "level": self.level, "steps": compact_ranges(self.steps)}


class CommandFailedError(UsageError):
    """The command of the training could not be started, or ended with an error."""


@contextmanager
def collected(
    command: Sequence[str], collection: Collection, what: str = "", folder: Path | None = None
) -> Iterator[Path]:
    """Run a command, and give the folder of the run that it collected, which may be empty; it is removed afterwards.

    `folder` is where it runs; None is the working directory. Its output goes to standard error. CommandFailedError
    if it cannot be started, or fails.
    """
    with TemporaryDirectory(prefix="msprobe-gate-") as temporary:
        dump = Path(temporary).resolve() / DUMP
        dump.mkdir()
        file = dump.with_name("settings.json")
        file.write_text(json.dumps(collection.settings(dump)))
        logger.info("%s%s", what, shlex.join(command))
        _run(command, {**os.environ, REPLACED_BY: str(file)}, folder)
        yield dump


def _run(command: Sequence[str], environment: dict[str, str], folder: Path | None) -> None:
    shown = shlex.join(command)
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


def is_empty(run: Path) -> bool:
    """Return whether nothing was collected into a folder."""
    return not any(run.iterdir())


def steps_of(run: Path) -> set[tuple[int | None, int]]:
    """Return step and rank of each dump of a run; empty if nothing was collected."""
    return set() if run.is_dir() and is_empty(run) else {(each.step, each.rank) for each in dumps_of(run)}
