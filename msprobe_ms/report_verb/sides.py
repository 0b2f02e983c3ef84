"""What is reported of the paths that a report is asked for."""

from enum import Enum
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.language import translated
from msprobe.store.detect import kind_of
from msprobe.store.monitor.lines import Notes
from msprobe.store.monitor.runs import find_runs


class What(Enum):
    """The command whose answer a report shows."""

    COMPARE = "compare"
    MONITOR = "monitor"
    CONFIG_CHECK = "config_check"
    DUMP = "dump"
    OVERFLOW_CHECK = "overflow_check"
    CHECK = "check"
    FOUND = "what is found"
    """Of one dump: the first of the two checks that finds something, else the dump."""


OF_TWO = (What.COMPARE, What.MONITOR, What.CONFIG_CHECK)


def what_of(target: Path, golden: Path | None, chosen: str | None) -> What:
    """What is reported; UsageError where what was chosen takes another number of sides, or the sides are of two kinds.

    A side that is nothing known is the matter of the command that reads it.
    """
    if chosen is not None:
        what = What(chosen)
        if (what in OF_TWO) is (golden is None):
            sides = "two sides: msprobe report A B" if what in OF_TWO else "one dump: msprobe report DIR"
            sides_zh = "两侧：msprobe report A B" if what in OF_TWO else "一份 dump：msprobe report DIR"
            raise UsageError(translated(f"--as {chosen} takes {sides}", f"--as {chosen} 需要{sides_zh}"))
        return what
    if golden is None:
        if is_monitor(target):
            raise UsageError(
                translated(
                    f"{target}: is the output of a monitor; give two of them, the trusted one last",
                    f"{target}：是监控输出；请给出两份，标杆在后",
                )
            )
        return What.FOUND
    kinds = [_kind(path) for path in (target, golden)]
    if kinds[0] is not kinds[1]:
        text = " and ".join(f"{path} for {kind.value}" for path, kind in zip((target, golden), kinds, strict=True))
        raise UsageError(
            f"the inputs are of different kinds: {text}; give two inputs of one kind, or choose one with --as"
        )
    return kinds[0]


def _kind(path: Path) -> What:
    if path.suffix.lower() == ".zip":
        return What.CONFIG_CHECK
    return What.MONITOR if is_monitor(path) else What.COMPARE


def is_monitor(path: Path) -> bool:
    """Whether a folder holds what a monitor wrote, and no dump."""
    try:
        if kind_of(path).word != "npy":
            return False
    except (DumpError, OSError):
        pass
    try:
        find_runs(path, Notes())
    except (DumpError, OSError, ValueError):
        return False
    return True
