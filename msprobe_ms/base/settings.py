"""The settings of a debugger, from its configuration file and arguments.

Other modules use the fields of `Settings`, not the contents of the file. A stage of a training has the settings of its
debugger, changed by a separate file and arguments.
"""

import errno
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

from .checks import absolute_path, byte_size, existing_path, flag, one_of, output_folder, quoted, quoted_list, strings
from .digest import MD5
from .errors import SettingsError, UsageError
from .files import MAX_CONFIGURATION_BYTES, NAME_LIMIT, read_input, safe_name
from .log import log_once
from .memo import cached_by_identity
from .schema import SHARES, Statistic
from .scope import DataMode, Scope, compact_ranges, contains, parse_numbers
from .sections import (
    PRECHECK,
    SECTIONS,
    AccCheckSettings,
    CollectSettings,
    ExceptionDumpSettings,
    FreeBenchmarkSettings,
    GradProbeSettings,
    GraftSettings,
    OverflowCheckSettings,
    SavingSettings,
    Section,
    StatisticsSettings,
    StructureSettings,
    TriggerSettings,
    ineffective_settings,
    task_name,
)
from .setting import Where, checked, is_inert, setting, settings_of
from .unavailable import IGNORED_KEYS, WITHOUT_EFFECT

_MONITOR = ("wg_distribution", "xy_distribution", "mv_distribution", "param_distribution", "ops")

OTHER_FILES = (
    (("npu_path", "bench_path", "target_path", "golden_path"), "a comparison's file", "'msprobe compare -i'"),
    (_MONITOR, "a monitor's configuration", "TrainerMon"),
    (("common_dump_settings", "e2e_dump_settings"), "MindSpore's own dump configuration", "MINDSPORE_DUMP_CONFIG"),
    (("framework", "dump_data_dir"), "a dump.json of a run", "'msprobe compare'"),
)
"""Keys of files for other tools, the kind of file, and the tool."""


REPLACED_BY = "MSPROBE_SETTINGS"
"""The environment variable with the path of a configuration that replaces the file and the arguments of each debugger,
as `msprobe gate check` sets it."""


_JSON = (
    "JSON allows neither comments nor a comma before a closing bracket, and requires double quotes around strings "
    "and keys"
)


def read_config(path: object) -> dict[str, object]:
    """Return the top-level object of a JSON file, with or without byte order mark. SettingsError for duplicate keys."""
    if not isinstance(path, str | os.PathLike):
        raise SettingsError(
            f"config_path is {quoted(path)}, which is not a path; pass the path of a .json file, or None"
        )
    where = os.path.expanduser(os.fspath(path))
    if not os.path.exists(where):
        above = str(absolute_path(where)).removesuffix(where).rstrip("/")  # of a relative path, the working directory
        raise SettingsError(
            f"{where}: no such file; correct config_path{f' (working directory: {above})' * bool(above)}"
        )
    if not os.path.isfile(where):
        raise SettingsError(f"{where}: not a file; set config_path to a .json file")
    if not str(where).endswith(".json"):
        raise SettingsError(f"{where}: the name does not end in .json; rename the file if it contains JSON")
    try:
        text = read_input(where, MAX_CONFIGURATION_BYTES).decode("utf-8-sig")
    except OSError as err:
        remedy = "write a smaller one" if err.errno == errno.EFBIG else "grant read permission to this user"
        raise SettingsError(f"{where}: cannot be read ({err.strerror or err}); {remedy}") from err
    except UnicodeDecodeError as err:
        raise SettingsError(f"{where}: byte {err.start} is not UTF-8; save the file in UTF-8") from err
    return _parse_object(text, where)


def _parse_object(text: str, where: object) -> dict[str, object]:
    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(found)
        if len(made) < len(found):
            twice = next(key for number, (key, _) in enumerate(found) if key in dict(found[:number]))
            raise SettingsError(f"{where}: duplicate key {quoted(twice)} in one object; remove one")
        return made

    def broken(place: str, what: str) -> NoReturn:
        raise SettingsError(f"{where}{place}: not valid JSON ({what}); correct it")

    try:
        top = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as err:
        broken(f", line {err.lineno}, column {err.colno}", f"{err.msg}; {_JSON}")
    except RecursionError:
        broken("", "too deeply nested")
    except ValueError:  # the only other error of the parser
        broken("", "a number with thousands of digits")
    if not isinstance(top, dict):
        raise SettingsError(f"{where}: the file contains a {type(top).__name__}; write one object, {{...}}")
    return top


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """Options for recording calls.

    data_mode : directions and parts that are recorded.
    values : whether records are made; False for task structure.
    saves : whether all tensors are saved to files.
    saved : patterns of calls whose tensors are saved otherwise.
    digests : kind of digest in records; empty without digests.
    extra : optional statistics in records.
    layout : whether records have strides and offsets.
    """

    data_mode: DataMode
    values: bool = True
    saves: bool = False
    saved: tuple[str, ...] = ()
    digests: str = ""
    extra: tuple[Statistic, ...] = ()
    layout: bool = False

    def of_records(self, saves: bool) -> dict[str, Any]:
        """Return the options of a describer of tensors; `saves`: whether it saves them."""
        return {"saves": saves, "digests": self.digests, "extra": self.extra, "layout": self.layout}

    def saves_also(self, name: str) -> bool:
        """Return whether the tensors of a call are saved by a pattern in `saved`."""
        return any(pattern in name for pattern in self.saved)

    @property
    def any_file(self) -> bool:
        """Return whether any tensor may be saved to a file."""
        return self.saves or bool(self.saved)


def scope_of(settings: "Settings") -> Scope:
    """Return the filter of calls by `scope` and `list`."""
    section = settings.section
    bounds, patterns = (section.scope, section.patterns) if isinstance(section, CollectSettings) else ((), ())
    return Scope(settings.level, bounds, patterns)


def collect_options(settings: "Settings") -> CollectOptions:
    """Return the options for recording calls."""
    section = settings.section
    if not isinstance(section, CollectSettings):
        # Kernels are collected by the framework, gradients at the optimizer; free_benchmark compares immediately.
        is_elsewhere = isinstance(section, StructureSettings | GradProbeSettings | FreeBenchmarkSettings)
        if is_elsewhere or settings.level == "L2":
            return CollectOptions(DataMode(), values=False)
        if isinstance(section, OverflowCheckSettings | ExceptionDumpSettings | AccCheckSettings):
            return CollectOptions(DataMode(), saves=True)
        if isinstance(section, GraftSettings):
            return CollectOptions(DataMode(), saves=section.record == "tensor")
        raise SettingsError(f"task: {quoted(settings.task)} cannot be collected at level {quoted(settings.level)}")
    trigger = section.trigger if isinstance(section, StatisticsSettings) else None
    return CollectOptions(
        data_mode=section.data_mode,
        saves=settings.task == "tensor" or trigger is not None,
        saved=section.tensor_list,
        digests=section.digests or (MD5 if trigger is not None and "digest" in trigger.on else ""),
        extra=tuple(each for each in SHARES if each.name in section.extra),
        layout=section.layout,
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a debugger, with the section of its task. `dump_path` is absolute."""

    task: str = setting(task_name, "statistics")
    dump_path: Path = setting(output_folder)  # noqa: RUF009  # makes a field
    rank: tuple[int, ...] = setting(parse_numbers, ())
    step: tuple[int, ...] = setting(parse_numbers, ())
    level: str = setting(one_of("L0", "L1", "L2", "mix", "debug"), "L1")
    async_dump: bool = setting(flag, False)
    precision: str = setting(one_of("high", "low"), "low")
    extra_info: bool = setting(flag, True)
    names_from: str = setting(existing_path, "")
    disk_budget: int = setting(byte_size, 0)
    format: str = setting(
        one_of("json", "packed", "columnar"),
        "json",
        inert="since the framework writes kernel dumps in its own format",
        when=lambda value: value != "json",
        read_at=("L0", "L1", "mix", "debug"),
    )
    gradients: str = setting(one_of("own", "hooks"), "own")
    dispatch: bool = setting(flag, False)
    jit_cells: str = setting(one_of("joined", "split", "off"), "joined")
    enable_dataloader: bool = setting(flag, False, inert=WITHOUT_EFFECT["enable_dataloader"])
    dump_enable: bool | None = setting(flag, None, inert=WITHOUT_EFFECT["dump_enable"])
    risk_level: str = setting(one_of("ALL", "CORE", "FOCUS"), "FOCUS", inert=WITHOUT_EFFECT["risk_level"])
    custom_op_namespaces: tuple[str, ...] = setting(strings, (), inert=WITHOUT_EFFECT["custom_op_namespaces"])
    section: Section = field(default_factory=StatisticsSettings)

    def collects_step(self, step: int) -> bool:
        """Return whether a step is collected."""
        return contains(self.step, step)

    def collects_rank(self, rank: int | None) -> bool:
        """Return whether a process is collected; always True without a rank (single process)."""
        return rank is None or contains(self.rank, rank)

    @property
    def last_step(self) -> int | None:
        """Return the last step that is collected; None without a limit."""
        return self.step[-1] if self.step else None

    @property
    def recorded_task(self) -> str:
        """Return the task in the header of the dump: of task `graft` the one whose dump it has."""
        return self.section.record if isinstance(self.section, GraftSettings) else self.task

    @property
    def saves_pt(self) -> bool:
        """Return whether tensors are saved as PyTorch files, in a dump that other versions of msprobe can read."""
        return isinstance(self.section, SavingSettings) and self.section.saves_pt

    def described(self) -> dict[str, object]:
        """Return the settings as JSON data in the form of the configuration file.

        Settings without effect are omitted.
        """
        return dict(_described(self))


def load(
    config_path: "str | PathLike[str] | None" = None,
    *,
    task: str | None = None,
    dump_path: "str | PathLike[str] | None" = None,
    level: str | None = None,
    step: list[int | str] | None = None,
) -> Settings:
    """Return the settings of a file and arguments; an argument that is not None replaces the setting of the file.

    Without a file all settings have their defaults, and the dump is written to `./dump_path`. Raises `SettingsError` if
    the file cannot be read, or a setting is invalid or not supported. Settings without effect are logged once. The
    file of `REPLACED_BY`, if the environment has one, replaces both.
    """
    if replacement := os.environ.get(REPLACED_BY):
        log_once(
            REPLACED_BY,
            f"PrecisionDebugger: {REPLACED_BY}={replacement} replaces the settings of this training",
            logging.INFO,
        )
        config_path, task, dump_path, level, step = replacement, None, None, None, None
    arguments = {"task": task, "dump_path": dump_path, "level": level, "step": step}
    arguments = {key: value for key, value in arguments.items() if value is not None}
    written = {"dump_path": "./dump_path"} if config_path is None else read_config(config_path)
    origin = Origin("the default settings" if config_path is None else fspath(config_path), frozenset(arguments))
    return log_ineffective(parse_settings({**written, **arguments}, origin), origin)


def log_ineffective(settings: Settings, origin: "Origin") -> Settings:
    """Return the settings unchanged; log, once, settings that have no effect or use much memory."""
    if settings.async_dump and settings.level != "L2":
        waits = "tensors are kept in memory, up to half of the free memory at start; collect few tensors at a time"
        log_once("async_dump", f"{origin.common('async_dump')}: {waits}")
    for owner, where in ((settings, origin.common), (settings.section, origin.inside(settings.task))):
        for key, reason in ineffective_settings(owner, settings.level):
            log_once(f"inert setting {where(key)}", f"{where(key)}: the setting has no effect here, {reason}")
    return settings


@dataclass(frozen=True)
class Origin:
    """The origin of settings, for messages.

    file : the file.
    arguments : names of arguments that replace settings of the file.
    of : the function with the arguments.
    """

    file: str
    arguments: frozenset[str] = frozenset()
    of: str = "PrecisionDebugger"

    def common(self, key: str) -> str:
        """Return the location of a common setting."""
        return f"argument {quoted(key)} of {self.of}" if key in self.arguments else f"{self.file}, {key}"

    def inside(self, section: str) -> Where:
        """Return a function from the key of a setting in a section to its location."""
        place = self.common(section) if section in self.arguments else self.file
        return lambda key: f"{place}, {section}.{key}"


def ignored_settings(contents: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Yield keys that this version ignores: section (empty at the top level), key, and reason.

    These are keys that releases of mindstudio-probe read, and in a section also keys of other sections with their
    default value.
    """
    task = contents.get("task", Settings.task)
    inner = contents.get(task) if isinstance(task, str) and task in SECTIONS else None
    yield from (("", key, why) for key in contents if (why := _ignored_reason("", key)))
    for key, value in inner.items() if isinstance(inner, Mapping) else ():
        if key in settings_of(SECTIONS[str(task)]):
            continue
        if why := _ignored_reason(str(task), key):
            yield str(task), key, why
        elif value is not None and _is_default_elsewhere(key, value):
            yield str(task), key, f"{quoted(value)} is its default in the sections that have it"


def _ignored_reason(section: str, key: str) -> str:
    row = next((row for row in IGNORED_KEYS if row.key == key and section in row.sections), None)
    return f"mindstudio-probe {row.source} reads it; {row.instead}" if row else ""


def _is_default_elsewhere(key: str, value: object) -> bool:
    """Return whether another section has this setting, and the value is its default."""
    for section in SECTIONS.values():
        if each := settings_of(section).get(key):
            with suppress(SettingsError):
                if each.metadata["check"](value) == each.default:
                    return True
    return False


def _without_ignored(contents: Mapping[str, object], origin: Origin) -> dict[str, object]:
    """Return the configuration without ignored keys, which are logged once."""
    left = dict(contents)
    for section, key, why in list(ignored_settings(contents)):
        where = origin.inside(section)(key) if section else origin.common(key)
        log_once(f"ignored setting {where}", f"{where}: the setting is ignored; {why}")
        of_section = left[section] if section else left
        assert isinstance(of_section, Mapping)
        kept = {name: value for name, value in of_section.items() if name != key}
        left = {**left, section: kept} if section else kept
    return left


def parse_settings(contents: Mapping[str, object], origin: Origin) -> Settings:
    """Return the settings of a configuration; sections of other tasks are not read."""
    contents = _without_ignored(contents, origin)
    sections = tuple(dict.fromkeys((*SECTIONS, *PRECHECK)))
    unknown = [key for key in contents if key not in (*settings_of(Settings), *sections)]
    for marks, what, taker in OTHER_FILES:
        if found := tuple(key for key in marks if key in unknown):
            raise SettingsError(
                f"{origin.file}: this looks like {what} (it has {quoted_list(found)}); pass it to {taker}, and pass "
                "the configuration of a collection to PrecisionDebugger"
            )
    # For a misplaced key: the section of the task, or the first section with this key.
    own = [name for name in (contents.get("task", Settings.task),) if isinstance(name, str) and name in SECTIONS]
    names = [*reversed(SECTIONS), *own]
    elsewhere = {key: f"section {quoted(name)}" for name in names for key in settings_of(SECTIONS[name])}
    values = checked(Settings, contents, origin.common, elsewhere, also=sections)
    if "dump_path" not in values:
        what = "the setting is missing; set it to the output folder, or pass dump_path to PrecisionDebugger"
        raise SettingsError(f"{origin.common('dump_path')}: {what}")
    task = values.get("task", Settings.task)
    written = contents.get(task)
    if written is None:
        written = {}
    if not isinstance(written, dict):
        raise SettingsError(
            f"{origin.file}, {task}: {quoted(written)} is not an object; write {{}} or an object with settings"
        )
    elsewhere |= dict.fromkeys(settings_of(Settings), "the top level of the file")
    section = SECTIONS[task](**checked(SECTIONS[task], written, origin.inside(task), elsewhere))
    settings = Settings(**values, section=section)
    if settings.task == "structure" and settings.level not in ("L0", "mix"):
        log_once(
            "structure",
            f'task "structure" records which modules contain which calls: level "{settings.level}" is treated as "mix"',
        )
        settings = replace(settings, level="mix")
    if settings.task == "grad_probe":  # collects at optimizers, independent of the level
        settings = replace(settings, level=Settings.level)
    if settings.task in ("overflow_check", "exception_dump") and settings.level == "debug":
        what = f'task "{settings.task}" works on calls, but level "debug" only saves the given tensors'
        raise SettingsError(f'{origin.common("level")}: {what}; use "L0", "L1" or "mix"')
    if settings.task == "acc_check" and settings.level not in ("L1", "mix"):
        what = f'task "acc_check" checks functions, which level {quoted(settings.level)} does not collect'
        raise SettingsError(f'{origin.common("level")}: {what}; use "L1" or "mix"')
    if isinstance(section, GraftSettings):
        if settings.level not in ("L0", "L1", "mix"):
            what = (
                f'task "graft" replaces values of calls from Python, which level {quoted(settings.level)} does not see'
            )
            raise SettingsError(f'{origin.common("level")}: {what}; use "L0", "L1" or "mix"')
        if outside := [number for number in section.steps if not settings.collects_step(number)]:
            what = f'step {outside[0]} is not collected; add it to "step", or remove it here'
            raise SettingsError(f"{origin.inside(settings.task)('steps')}: {what}")
    if settings.task == "free_benchmark" and settings.level != "L1":
        what = 'task "free_benchmark" executes individual functions a second time; write "L1"'
        raise SettingsError(f"{origin.common('level')}: {what} instead of {quoted(settings.level)}")
    if settings.saves_pt and settings.format != "json":
        what = f'"pt" writes one file per tensor, but format {quoted(settings.format)} writes all of them into one file'
        raise SettingsError(f'{origin.inside(settings.task)("file_format")}: {what}; use format "json"')
    for key, wrong in section.contradictions(settings.level, settings.async_dump):
        raise SettingsError(f"{origin.inside(settings.task)(key)}: {wrong}")
    return settings


@cached_by_identity
def _described(settings: Settings) -> dict[str, object]:
    """Return `Settings.described`, cached because it is used at every step."""
    of_task = _effective_settings(settings.section, settings.level)
    return {**_effective_settings(settings, settings.level), settings.task: of_task}


def _effective_settings(owner: object, level: str) -> dict[str, object]:
    return {
        key: _to_json(key, getattr(owner, each.name))
        for key, each in settings_of(type(owner)).items()
        if not (is_inert(each, level) and each.metadata["when"] is None)
        and not (each.metadata.get("is_optional") and getattr(owner, each.name) == each.default)
    }


def _to_json(key: str, value: Any) -> object:
    if key in ("rank", "step"):
        return compact_ranges(value)
    if isinstance(value, DataMode):
        return value.described()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, TriggerSettings):
        return {inner: _to_json(inner, getattr(value, inner)) for inner in settings_of(TriggerSettings)}
    return list(value) if isinstance(value, tuple) else value


_RESERVED = re.compile(r"step\d+|graph|pynative|tensordump")
"""Names of folders that a debugger creates in its dump_path."""


def stage_folder(root: Path, name: object) -> Path:
    """Return `root/name`. UsageError if the name is not a valid name of a folder, or reserved."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"stage(): the name is {name!r:.80}; pass a string such as 'actor_update'")
    if name in (".", "..") or safe_name(name) != name or len(name.encode()) > NAME_LIMIT:
        raise UsageError(f"stage(): {quoted(name)} is not a valid folder name; remove '/', and use a short name")
    if _RESERVED.fullmatch(name):
        raise UsageError(f"stage(): {quoted(name)} is the name of a folder of the debugger; choose another name")
    return root / name


def stage_settings(
    above: Settings, name: str, config_path: "str | PathLike[str] | None", changes: Mapping[str, object]
) -> Settings:
    """Return the settings of the stage `name` of a debugger with the settings `above`.

    A field in `changes` replaces the field of the file, which replaces that of the debugger; the section of a task is
    one field. The output folder is fixed: `dump_path` in the file is ignored. Raises SettingsError as `load`, and for
    `dump_path` in `changes`. With `REPLACED_BY` a stage has the settings of its debugger.
    """
    if os.environ.get(REPLACED_BY):
        config_path, changes = None, {}
    arguments = {key: value for key, value in changes.items() if value is not None}
    origin = Origin(
        f"the settings of the debugger of {above.dump_path}" if config_path is None else fspath(config_path),
        frozenset(arguments),
        f"stage({quoted(name)})",
    )
    root = stage_folder(above.dump_path, name)
    if "dump_path" in arguments:
        raise SettingsError(f"{origin.common('dump_path')}: a stage writes to {root}; omit it")
    written = {} if config_path is None else read_config(config_path)
    settings = parse_settings({**above.described(), **written, **arguments, "dump_path": root}, origin)
    if settings.level == "L2":
        raise SettingsError(
            f'{origin.common("level")}: the framework dumps the kernels of the whole process; choose "L0", '
            '"L1", "mix" or "debug" for a stage'
        )
    return log_ineffective(settings, origin)


def with_unique_dump_path(settings: Settings, taken: Mapping[Path, str]) -> Settings:
    """Return the settings with an unused dump_path; log if it differs from the requested one.

    `taken` has the folders that debuggers of this process write to, and the names of these debuggers. The result is the
    same in all ranks of a run.
    """
    root = settings.dump_path
    if root not in taken:
        return settings
    free = next(path for n in count(2) if (path := root.with_name(f"{root.name}_{n}")) not in taken)
    log_once(
        f"parted {free}",
        f"PrecisionDebugger: {taken[root]} already writes to {root}, so this debugger writes to {free}; set "
        "another dump_path",
    )
    return replace(settings, dump_path=free)
