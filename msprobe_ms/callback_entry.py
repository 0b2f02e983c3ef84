"""The arguments of `MsprobeStep` in plain values, as an entry of a `callbacks:` list in a YAML file has them.

Such lists are MindFormers': every key of an entry besides `type` is a keyword argument. Scalars may come as texts. No
framework is needed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from msprobe.base.checks import quoted
from msprobe.base.errors import SettingsError
from msprobe.base.sections import SECTIONS
from msprobe.base.setting import checked, setting, settings_of
from msprobe.base.settings import Settings


def _unchecked(value: object) -> object:
    """The debugger checks it, and knows more."""
    return value


def _steps(value: object) -> tuple[object, ...]:
    """A list, or one element of it, or a text of several: `0, 3-5`."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else (value,)


def _init_step(value: object) -> bool | int:
    """A truth value, or the number of the first step. 0 is the first step of all: nothing to tell."""
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
    """The check of a cell's name."""
    if isinstance(value, str):
        return value
    raise SettingsError(f'{quoted(value)} is not the name of a cell; write a name such as "backbone", in double quotes')


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The first five are the arguments of a PrecisionDebugger, None where not given; none given means a debugger is.

    `network` names a cell of the trained network, "" the network itself. `init_step` is true where the first step's
    number is to be found out, or that number. `monitor` is the configuration file of a monitor, which checks it.
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
        """The arguments given for a debugger."""
        keys = ("config_path", "task", "dump_path", "level", "step")
        return {key: value for key in keys if (value := getattr(self, key)) is not None}


def entry_of(arguments: Mapping[str, object]) -> Entry:
    """The entry from keyword arguments; null means *not given*. SettingsError for unknown ones."""
    below = (key for section in SECTIONS.values() for key in settings_of(section))
    elsewhere = dict.fromkeys((*settings_of(Settings), *SECTIONS, *below), "the file given by config_path")
    return Entry(**checked(Entry, arguments, lambda key: f"argument {quoted(key)} of MsprobeStep", elsewhere))
