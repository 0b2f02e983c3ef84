"""Groups of options that the commands of the gate share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.options.declaration import OptionGroup, option, positional
from msprobe.options.kinds import PATH, REST
from msprobe.training_command import without_separator

from .recording import Collection, collected

LIMITS = ("auto", "built-in", "calibrated", "mindformers")
"""The presets of limits; the last one is a row of `training.PRESETS`."""


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class GoldenFile(OptionGroup):
    """The golden file."""

    TITLE: ClassVar[tuple[str, str]] = ("golden", "标杆")

    golden: Path = option(
        PATH,
        "--golden",
        metavar="FILE",
        required=True,
        help="the golden file, NAME.golden",
        zh="golden 文件，NAME.golden",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class RunSource(OptionGroup):
    """The run: a command, or a dump of one."""

    TITLE: ClassVar[tuple[str, str]] = ("run", "运行")

    target: Path | None = option(
        PATH,
        "--target",
        metavar="DIR",
        help="use this dump of a run instead of a command",
        zh="使用已有的 dump，不运行命令",
    )
    command: tuple[str, ...] = positional(
        REST,
        "-- COMMAND",
        default=(),
        help="the training, whose debugger collects; its settings are replaced",
        zh="训练命令；其中调试器的设置会被替换",
    )

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words of the command."""
        return without_separator(self.command)

    @property
    def source(self) -> tuple[str, ...]:
        """Return the words of a command line that give this run again."""
        return ("--", *self.words) if self.words else ("--target", str(self.target))

    def check(self) -> None:
        """Raise UsageError unless exactly one of the two is given."""
        if bool(self.words) == (self.target is not None):
            raise UsageError(
                translated(
                    "give either the command of the training after --, or --target DIR",
                    "请在 -- 之后给出训练命令，或给出 --target DIR（二者之一）",
                )
            )
        super().check()

    @contextmanager
    def run(self, collection: Collection, what: str = "") -> Iterator[Path]:
        """Give the folder of the run: the dump that is given, or what the command collects."""
        if self.target is not None:
            yield self.target
            return
        with collected(self.words, collection, what) as folder:
            yield folder
