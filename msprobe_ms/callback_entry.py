"""Arguments of `MsprobeStep` as plain values, for entries of a `callbacks:` list in a YAML file of MindFormers.

All keys of an entry except `type` are keyword arguments. Scalars may be strings. Imports no framework.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from msprobe.base.checks import quoted
from msprobe.base.errors import SettingsError
from msprobe.base.sections import SECTIONS
from msprobe.base.setting import checked, setting, settings_of
from msprobe.base.settings import Settings


def _unchecked(value: object) -> object:
    """Return the value unchanged: the debugger checks it."""
    return value


def _steps(value: object) -> tuple[object, ...]:
    """Check steps: a list, a single element, or a text such as `0, 3-5`."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else (value,)


def _init_step(value: object) -> bool | int:
    """Check `init_step`: a boolean, or the number of the first step."""
    word = value.strip().lower() if isinstance(value, str) else value
    if word in ("true", "false"):
        return word == "true"
    if isinstance(word, str) and word.isascii() and word.isdigit() and len(word) < 20:
        return int(word)
    if isinstance(word, int) and word >= 0:
        return word
    raise SettingsError(
        f"{quoted(value)} is neither a boolean nor a step; write true, false, or the number of the first step"
    )


def cell_name(value: object) -> str:
    """Check the name of a cell."""
    if isinstance(value, str):
        return value
    raise SettingsError(f'{quoted(value)} is not the name of a cell; write a name such as "backbone", in double quotes')


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The checked arguments of an entry.

    config_path, task, dump_path, level, step : arguments of PrecisionDebugger, or None.
    network : name of a cell of the trained network; "" for the network itself.
    init_step : True to detect the number of the first step, or the number.
    monitor : configuration file of a monitor, which checks it.
    """

    config_path: object = setting(_unchecked, None)
    task: object = setting(_unchecked, None)
    dump_path: object = setting(_unchecked, None)
    level: object = setting(_unchecked, None)
    step: tuple[object, ...] | None = setting(_steps, None)
    network: str = setting(cell_name, "")
    init_step: bool | int = setting(_init_step, False)
    monitor: object = setting(_unchecked, None)

    @property
    def debugger(self) -> dict[str, object]:
        """Return the given arguments of PrecisionDebugger."""
        keys = ("config_path", "task", "dump_path", "level", "step")
        return {key: value for key in keys if (value := getattr(self, key)) is not None}


def entry_of(arguments: Mapping[str, object]) -> Entry:
    """Return the entry of keyword arguments, where None means not given. SettingsError for unknown arguments."""
    below = (key for section in SECTIONS.values() for key in settings_of(section))
    elsewhere = dict.fromkeys((*settings_of(Settings), *SECTIONS, *below), "the file given by config_path")
    return Entry(**checked(Entry, arguments, lambda key: f"argument {quoted(key)} of MsprobeStep", elsewhere))
