"""Run a training whose debugger collects what a gate needs: its settings are replaced through the environment."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from msprobe.base.scope import compact_ranges
from msprobe.checks.dumps import dumps_of
from msprobe.training_command import run_training

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
        run_training(command, collection.settings(dump), dump.with_name("settings.json"), what, folder)
        yield dump


def is_empty(run: Path) -> bool:
    """Return whether nothing was collected into a folder."""
    return not any(run.iterdir())


def steps_of(run: Path) -> set[tuple[int | None, int]]:
    """Return step and rank of each dump of a run; empty if nothing was collected."""
    return set() if run.is_dir() and is_empty(run) else {(each.step, each.rank) for each in dumps_of(run)}
