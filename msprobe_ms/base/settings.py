"""The settings of a collection: the configuration file and the arguments of the debugger, read once, at the door.

Users' words (`task`, `level`, `list`, `summary_mode`) stop here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from . import config_file, not_built
from .checks import existing, flag, folder, one_of, shown, size, texts
from .data_mode import DataMode
from .errors import SettingsError
from .fields import Where, checked, inert, is_inert, setting, settings_of
from .log import once
from .not_built import WITHOUT_EFFECT
from .sections import PRECHECK, SECTIONS, Section, StatisticsSettings, task_name
from .steps import compact, holds, numbers

WITHOUT_FILE: dict[str, object] = {"dump_path": "./dump_path"}
"""What stands in the configuration when no file is named; everything else has its default."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is collected, where it goes, and the section of the task. `dump_path` is absolute."""

    task: str = setting(task_name, "statistics")
    dump_path: Path = setting(folder)  # noqa: RUF009  # makes a field
    rank: tuple[int, ...] = setting(numbers, ())
    step: tuple[int, ...] = setting(numbers, ())
    level: str = setting(one_of("L0", "L1", "L2", "mix", "debug"), "L1")
    async_dump: bool = setting(flag, False)
    precision: str = setting(one_of("high", "low"), "low")
    extra_info: bool = setting(flag, True)
    names_from: str = setting(existing, "")
    disk_budget: int = setting(size, 0)
    gradients: str = setting(one_of("own", "hooks"), "own")
    dispatch: bool = setting(flag, False)
    jit_cells: str = setting(one_of("joined", "split", "off"), "joined")
    enable_dataloader: bool = setting(flag, False, inert=WITHOUT_EFFECT["enable_dataloader"])
    dump_enable: bool | None = setting(flag, None, inert=WITHOUT_EFFECT["dump_enable"])
    risk_level: str = setting(one_of("ALL", "CORE", "FOCUS"), "FOCUS", inert=WITHOUT_EFFECT["risk_level"])
    custom_op_namespaces: tuple[str, ...] = setting(texts, (), inert=WITHOUT_EFFECT["custom_op_namespaces"])
    section: Section = field(default_factory=StatisticsSettings)

    def takes_step(self, step: int) -> bool:
        """Whether a step is collected."""
        return holds(self.step, step)

    def takes_rank(self, rank: int | None) -> bool:
        """Whether a process is collected; one without a rank (a single card) always is."""
        return rank is None or holds(self.rank, rank)

    @property
    def last_step(self) -> int | None:
        """The step after which nothing is left to collect; None where there is no last one."""
        return self.step[-1] if self.step else None

    def described(self) -> dict[str, object]:
        """The settings in the words of the configuration file, as JSON holds them; `load` reads them back.

        Settings without effect are left out.
        """
        return {**_in_force(self, self.level), self.task: _in_force(self.section, self.level)}


def load(
    config_path: "str | PathLike[str] | None" = None,
    *,
    task: str | None = None,
    dump_path: "str | PathLike[str] | None" = None,
    level: str | None = None,
    step: list[int | str] | None = None,
) -> Settings:
    """The settings that a file and arguments mean; an argument that is not None stands in place of the file's.

    Without a file every setting has its default, and the dump goes to `./dump_path`. Raises `SettingsError` where
    something cannot be read, cannot be meant, or cannot be served by this version. A setting that has no effect
    here is noted once.
    """
    arguments = {"task": task, "dump_path": dump_path, "level": level, "step": step}
    arguments = {key: value for key, value in arguments.items() if value is not None}
    written = WITHOUT_FILE if config_path is None else config_file.read(config_path)
    origin = Origin("the default settings" if config_path is None else fspath(config_path), frozenset(arguments))
    return admitted(meant({**written, **arguments}, origin), origin)


def admitted(settings: Settings, origin: "Origin") -> Settings:
    """The same settings, if this version serves them; says once what of them has no effect here. SettingsError else."""
    owners = ((settings, origin.common), (settings.section, origin.inside(settings.task)))
    for owner, where in owners:
        for key, message in not_built.refused(owner):
            raise SettingsError(f"{where(key)}: {message}")
    if settings.async_dump and settings.level != "L2":
        waits = "tensors wait in memory, up to half of what is free at start; collect few at a time"
        once("async_dump", f"{origin.common('async_dump')}: {waits}")
    for owner, where in owners:
        for key, reason in inert(owner, settings.level):
            once(f"inert setting {where(key)}", f"{where(key)}: the setting has no effect here, {reason}")
    return settings


@dataclass(frozen=True)
class Origin:
    """Where settings come from, for messages: a file, and the arguments, of what, that stand in place of its own."""

    file: str
    arguments: frozenset[str] = frozenset()
    of: str = "PrecisionDebugger"

    def common(self, key: str) -> str:
        """The place of a common setting."""
        return f"argument {shown(key)} of {self.of}" if key in self.arguments else f"{self.file}, {key}"

    def inside(self, section: str) -> Where:
        """The place of a setting in a section, by its key."""
        place = self.common(section) if section in self.arguments else self.file
        return lambda key: f"{place}, {section}.{key}"


def meant(given: Mapping[str, object], origin: Origin) -> Settings:
    """The settings that a configuration means, also those that this version cannot serve (`not_built`).

    Sections of other tasks are not looked at.
    """
    sections = (*SECTIONS, *PRECHECK)
    if looks := config_file.other_file([key for key in given if key not in (*settings_of(Settings), *sections)]):
        raise SettingsError(f"{origin.file}: {looks}, and a collection's configuration to PrecisionDebugger")
    values = checked(Settings, given, origin.common, _homes(), beside=sections)
    if "dump_path" not in values:
        what = "the setting is missing; name the folder to write to there, or pass dump_path to PrecisionDebugger"
        raise SettingsError(f"{origin.common('dump_path')}: {what}")
    section = _section(values.get("task", Settings.task), given, origin)
    settings = Settings(**values, section=section)
    if settings.task == "structure" and settings.level not in ("L0", "mix"):
        once("structure", f'task "structure" shows what encloses what: level "{settings.level}" is taken as "mix"')
        settings = replace(settings, level="mix")
    if settings.task == "exception_dump" and settings.level != "L2":
        what = (
            f'task "exception_dump" is of kernels, with MindSpore alone; write "L2" instead of {shown(settings.level)}'
        )
        raise SettingsError(f"{origin.common('level')}: {what}")
    for key, wrong in section.contradictions(settings.level, settings.async_dump):
        raise SettingsError(f"{origin.inside(settings.task)(key)}: {wrong}")
    return settings


def _section(task: str, given: Mapping[str, object], origin: Origin) -> Section:
    written = given.get(task)
    if written is None:
        written = {}
    if not isinstance(written, dict):
        raise SettingsError(f"{origin.file}, {task}: {shown(written)} is not an object; write {{}} or fill it")
    homes = {**_homes(), **dict.fromkeys(settings_of(Settings), "the top level of the file")}
    values = checked(SECTIONS[task], written, origin.inside(task), homes)
    return SECTIONS[task](**values)


def _homes() -> dict[str, str]:
    """For a key that stands in the wrong place: the first section that knows it."""
    return {key: f"section {shown(name)}" for name in reversed(SECTIONS) for key in settings_of(SECTIONS[name])}


def _in_force(owner: object, level: str) -> dict[str, object]:
    return {
        key: _plain(key, getattr(owner, each.name))
        for key, each in settings_of(type(owner)).items()
        if not (is_inert(each, level) and each.metadata["when"] is None)
    }


def _plain(key: str, value: Any) -> object:
    if key in ("rank", "step"):
        return compact(value)
    if isinstance(value, DataMode):
        return value.described()
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
