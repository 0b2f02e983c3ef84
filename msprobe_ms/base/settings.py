"""The settings of a collection: the configuration file and the debugger's arguments, read once at its start.

The words of the file (`task`, `level`, `list`, `summary_mode`) are not used behind this module. A stage of a training
has the settings of its debugger, with what a file and arguments of its own put in their place.
"""

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

from .checks import absolute, existing, flag, folder, listed, one_of, shown, size, texts
from .digest import MD5
from .errors import SettingsError, UsageError
from .files import CONFIGURATION, NAME_LIMIT, read_input, safe_name
from .log import once
from .memo import remembered
from .not_built import IGNORED_KEYS, WITHOUT_EFFECT
from .schema import SHARES, Statistic
from .scope import DataMode, Scope, compact, holds, numbers
from .sections import (
    PRECHECK,
    SECTIONS,
    AccCheckSettings,
    CollectSettings,
    ExceptionDumpSettings,
    FreeBenchmarkSettings,
    GradProbeSettings,
    OverflowCheckSettings,
    SavingSettings,
    Section,
    StatisticsSettings,
    StructureSettings,
    TriggerSettings,
    inert,
    task_name,
)
from .setting import Where, checked, is_inert, setting, settings_of

_MONITOR = ("wg_distribution", "xy_distribution", "mv_distribution", "param_distribution", "ops")

OTHER_FILES = (
    (("npu_path", "bench_path", "target_path", "golden_path"), "a comparison's file", "'msprobe compare -i'"),
    (_MONITOR, "a monitor's configuration", "TrainerMon"),
    (("common_dump_settings", "e2e_dump_settings"), "MindSpore's own dump configuration", "MINDSPORE_DUMP_CONFIG"),
    (("framework", "dump_data_dir"), "a dump.json of a run", "'msprobe compare'"),
)
"""Keys of other tools' files, what such a file is, and who takes it."""


_JSON = (
    "JSON allows neither comments nor a comma before a closing bracket, and requires double quotes around strings "
    "and keys"
)


def read(path: object) -> dict[str, object]:
    """The top-level object of a JSON file; a byte order mark is accepted, a key that stands twice is not."""
    if not isinstance(path, str | os.PathLike):
        raise SettingsError(
            f"config_path is {shown(path)}, which is not a path; pass the path of a .json file, or None"
        )
    where = os.path.expanduser(os.fspath(path))
    if not os.path.exists(where):
        above = str(absolute(where)).removesuffix(where).rstrip("/")  # of a relative path, the working directory
        raise SettingsError(
            f"{where}: no such file; correct config_path{f' (working directory: {above})' * bool(above)}"
        )
    if not os.path.isfile(where):
        raise SettingsError(f"{where}: not a file; set config_path to a .json file")
    if not str(where).endswith(".json"):
        raise SettingsError(f"{where}: the name does not end in .json; rename the file if it contains JSON")
    try:
        text = read_input(where, CONFIGURATION).decode("utf-8-sig")
    except OSError as err:
        remedy = "write a smaller one" if err.errno == errno.EFBIG else "grant read permission to this user"
        raise SettingsError(f"{where}: cannot be read ({err.strerror or err}); {remedy}") from err
    except UnicodeDecodeError as err:
        raise SettingsError(f"{where}: byte {err.start} is not UTF-8; save the file in UTF-8") from err
    return _top(text, where)


def _top(text: str, where: object) -> dict[str, object]:
    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(found)
        if len(made) < len(found):
            twice = next(key for number, (key, _) in enumerate(found) if key in dict(found[:number]))
            raise SettingsError(f"{where}: duplicate key {shown(twice)} in one object; remove one")
        return made

    def broken(place: str, what: str) -> NoReturn:
        raise SettingsError(f"{where}{place}: not valid JSON ({what}); correct it")

    try:
        top = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as err:
        broken(f", line {err.lineno}, column {err.colno}", f"{err.msg}; {_JSON}")
    except RecursionError:
        broken("", "too deeply nested")
    except ValueError:  # the one other thing that Python cannot read
        broken("", "a number with thousands of digits")
    if not isinstance(top, dict):
        raise SettingsError(f"{where}: the file contains a {type(top).__name__}; write one object, {{...}}")
    return top


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """What is recorded of a call. `values`: records are made at all (not for task structure). `saves`: each tensor goes
    to a file. `saved`: so do the tensors of calls whose name contains one of these. `digests`: the kind of digest that
    records have, empty for none. `extra`: the optional statistics that they have. `layout`: they have strides and
    offsets.
    """

    data_mode: DataMode
    values: bool = True
    saves: bool = False
    saved: tuple[str, ...] = ()
    digests: str = ""
    extra: tuple[Statistic, ...] = ()
    layout: bool = False

    def of_records(self, saves: bool) -> dict[str, Any]:
        """The options of a describer of tensors that saves them or not."""
        return {"saves": saves, "digests": self.digests, "extra": self.extra, "layout": self.layout}

    def saves_also(self, name: str) -> bool:
        """Whether a call's tensors are saved although the task saves none."""
        return any(pattern in name for pattern in self.saved)

    @property
    def any_file(self) -> bool:
        """Whether any npy file may come."""
        return self.saves or bool(self.saved)


def scope_of(settings: "Settings") -> Scope:
    """The calls that `scope` and `list` select."""
    section = settings.section
    bounds, patterns = (section.scope, section.patterns) if isinstance(section, CollectSettings) else ((), ())
    return Scope(settings.level, bounds, patterns)


def collect_options(settings: "Settings") -> CollectOptions:
    """What a task and its section record."""
    section = settings.section
    if not isinstance(section, CollectSettings):
        # kernels are collected by the framework, gradients at the optimizer; second runs are compared at once
        is_elsewhere = isinstance(section, StructureSettings | GradProbeSettings | FreeBenchmarkSettings)
        if is_elsewhere or settings.level == "L2":
            return CollectOptions(DataMode(), values=False)
        if isinstance(section, OverflowCheckSettings | ExceptionDumpSettings | AccCheckSettings):
            return CollectOptions(DataMode(), saves=True)
        raise SettingsError(f"task: {shown(settings.task)} cannot be collected at level {shown(settings.level)}")
    fires = section.trigger if isinstance(section, StatisticsSettings) else None
    return CollectOptions(
        data_mode=section.data_mode,
        saves=settings.task == "tensor" or fires is not None,
        saved=section.tensor_list,
        digests=section.digests or (MD5 if fires is not None and "digest" in fires.on else ""),
        extra=tuple(each for each in SHARES if each.name in section.extra),
        layout=section.layout,
    )


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
    custom_op_namespaces: tuple[str, ...] = setting(texts, (), inert=WITHOUT_EFFECT["custom_op_namespaces"])
    section: Section = field(default_factory=StatisticsSettings)

    def collects_step(self, step: int) -> bool:
        """Whether a step is collected."""
        return holds(self.step, step)

    def collects_rank(self, rank: int | None) -> bool:
        """Whether a process is collected; one without a rank (a single card) always is."""
        return rank is None or holds(self.rank, rank)

    @property
    def last_step(self) -> int | None:
        """The step after which nothing is left to collect; None where there is no last one."""
        return self.step[-1] if self.step else None

    @property
    def saves_pt(self) -> bool:
        """Whether tensors are saved as PyTorch's files, in a dump that other versions of msprobe read."""
        return isinstance(self.section, SavingSettings) and self.section.saves_pt

    def described(self) -> dict[str, object]:
        """The settings in the words of the configuration file, as JSON holds them; `load` reads them back.

        Settings without effect are left out.
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
    """The settings of a file and arguments; an argument that is not None replaces the setting of the file.

    Without a file every setting has its default, and the dump goes to `./dump_path`. Raises `SettingsError` where
    something cannot be read, is invalid, or is not supported by this version. A setting that has no effect is logged
    once.
    """
    arguments = {"task": task, "dump_path": dump_path, "level": level, "step": step}
    arguments = {key: value for key, value in arguments.items() if value is not None}
    written = {"dump_path": "./dump_path"} if config_path is None else read(config_path)
    origin = Origin("the default settings" if config_path is None else fspath(config_path), frozenset(arguments))
    return noted(parse_settings({**written, **arguments}, origin), origin)


def noted(settings: Settings, origin: "Origin") -> Settings:
    """The same settings; what has no effect, or costs memory, is logged once."""
    if settings.async_dump and settings.level != "L2":
        waits = "tensors are kept in memory, up to half of the free memory at start; collect few tensors at a time"
        once("async_dump", f"{origin.common('async_dump')}: {waits}")
    for owner, where in ((settings, origin.common), (settings.section, origin.inside(settings.task))):
        for key, reason in inert(owner, settings.level):
            once(f"inert setting {where(key)}", f"{where(key)}: the setting has no effect here, {reason}")
    return settings


@dataclass(frozen=True)
class Origin:
    """Where settings come from, for messages: a file, and the arguments (of which function) that replace its own."""

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


def ignored_settings(contents: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Keys that this version does not have and ignores: the section, empty at the top level; the key; and why.

    Releases of mindstudio-probe read them there. In a section that includes the keys of all other sections, which have
    no effect where they have their defaults.
    """
    task = contents.get("task", Settings.task)
    inner = contents.get(task) if isinstance(task, str) and task in SECTIONS else None
    yield from (("", key, why) for key in contents if (why := _why_ignored("", key)))
    for key, value in inner.items() if isinstance(inner, Mapping) else ():
        if key in settings_of(SECTIONS[str(task)]):
            continue
        if why := _why_ignored(str(task), key):
            yield str(task), key, why
        elif value is not None and _is_default_elsewhere(key, value):
            yield str(task), key, f"{shown(value)} is its default in the sections that have it"


def _why_ignored(section: str, key: str) -> str:
    row = next((row for row in IGNORED_KEYS if row.key == key and section in row.sections), None)
    return f"mindstudio-probe {row.source} reads it; {row.instead}" if row else ""


def _is_default_elsewhere(key: str, value: object) -> bool:
    """Whether another section has such a setting, and this value is its default."""
    for section in SECTIONS.values():
        if each := settings_of(section).get(key):
            with suppress(SettingsError):
                if each.metadata["check"](value) == each.default:
                    return True
    return False


def _without_ignored(contents: Mapping[str, object], origin: Origin) -> dict[str, object]:
    """The configuration without the keys that are ignored, each of which is logged once."""
    left = dict(contents)
    for section, key, why in list(ignored_settings(contents)):
        where = origin.inside(section)(key) if section else origin.common(key)
        once(f"ignored setting {where}", f"{where}: the setting is ignored; {why}")
        of_section = left[section] if section else left
        assert isinstance(of_section, Mapping)
        kept = {name: value for name, value in of_section.items() if name != key}
        left = {**left, section: kept} if section else kept
    return left


def parse_settings(contents: Mapping[str, object], origin: Origin) -> Settings:
    """The settings of a configuration; other tasks' sections are not read."""
    contents = _without_ignored(contents, origin)
    sections = tuple(dict.fromkeys((*SECTIONS, *PRECHECK)))
    unknown = [key for key in contents if key not in (*settings_of(Settings), *sections)]
    for marks, what, taker in OTHER_FILES:
        if found := tuple(key for key in marks if key in unknown):
            raise SettingsError(
                f"{origin.file}: this looks like {what} (it has {listed(found)}); pass it to {taker}, and pass "
                "the configuration of a collection to PrecisionDebugger"
            )
    # For a misplaced key: the section of the task, or the first section that knows it.
    own = [name for name in (contents.get("task", Settings.task),) if isinstance(name, str) and name in SECTIONS]
    names = [*reversed(SECTIONS), *own]
    elsewhere = {key: f"section {shown(name)}" for name in names for key in settings_of(SECTIONS[name])}
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
            f"{origin.file}, {task}: {shown(written)} is not an object; write {{}} or an object with settings"
        )
    elsewhere |= dict.fromkeys(settings_of(Settings), "the top level of the file")
    section = SECTIONS[task](**checked(SECTIONS[task], written, origin.inside(task), elsewhere))
    settings = Settings(**values, section=section)
    if settings.task == "structure" and settings.level not in ("L0", "mix"):
        once(
            "structure",
            f'task "structure" records which modules contain which calls: level "{settings.level}" is treated as "mix"',
        )
        settings = replace(settings, level="mix")
    if settings.task == "grad_probe":  # collects at optimizers, and reads no level
        settings = replace(settings, level=Settings.level)
    if settings.task in ("overflow_check", "exception_dump") and settings.level == "debug":
        what = f'task "{settings.task}" works on calls, but level "debug" only saves the given tensors'
        raise SettingsError(f'{origin.common("level")}: {what}; use "L0", "L1" or "mix"')
    if settings.task == "acc_check" and settings.level not in ("L1", "mix"):
        what = f'task "acc_check" checks functions, which level {shown(settings.level)} does not collect'
        raise SettingsError(f'{origin.common("level")}: {what}; use "L1" or "mix"')
    if settings.task == "free_benchmark" and settings.level != "L1":
        what = 'task "free_benchmark" executes individual functions a second time; write "L1"'
        raise SettingsError(f"{origin.common('level')}: {what} instead of {shown(settings.level)}")
    if settings.saves_pt and settings.format != "json":
        what = f'"pt" writes one file per tensor, but format {shown(settings.format)} writes all of them into one file'
        raise SettingsError(f'{origin.inside(settings.task)("file_format")}: {what}; use format "json"')
    for key, wrong in section.contradictions(settings.level, settings.async_dump):
        raise SettingsError(f"{origin.inside(settings.task)(key)}: {wrong}")
    return settings


@remembered
def _described(settings: Settings) -> dict[str, object]:
    """It is asked at every step, and stays the same."""
    of_task = _in_force(settings.section, settings.level)
    return {**_in_force(settings, settings.level), settings.task: of_task}


def _in_force(owner: object, level: str) -> dict[str, object]:
    return {
        key: _plain(key, getattr(owner, each.name))
        for key, each in settings_of(type(owner)).items()
        if not (is_inert(each, level) and each.metadata["when"] is None)
        and not (each.metadata.get("is_optional") and getattr(owner, each.name) == each.default)
    }


def _plain(key: str, value: Any) -> object:
    if key in ("rank", "step"):
        return compact(value)
    if isinstance(value, DataMode):
        return value.described()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, TriggerSettings):
        return {inner: _plain(inner, getattr(value, inner)) for inner in settings_of(TriggerSettings)}
    return list(value) if isinstance(value, tuple) else value


_TAKEN = re.compile(r"step\d+|graph|pynative|tensordump")
"""Folders that a debugger itself makes below its dump_path."""


def stage_folder(root: Path, name: object) -> Path:
    """`root/name`. UsageError where this is no folder of its own."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"stage(): the name is {name!r:.80}; pass a string such as 'actor_update'")
    if name in (".", "..") or safe_name(name) != name or len(name.encode()) > NAME_LIMIT:
        raise UsageError(f"stage(): {shown(name)} is not a valid folder name; remove '/', and use a short name")
    if _TAKEN.fullmatch(name):
        raise UsageError(f"stage(): {shown(name)} is the name of a folder of the debugger; choose another name")
    return root / name


def stage_settings(
    above: Settings, name: str, config_path: "str | PathLike[str] | None", changes: Mapping[str, object]
) -> Settings:
    """The settings of the stage `name` of a debugger with the settings `above`.

    A field of `changes` replaces the file's, and that the debugger's; the section of a task counts as one field. Where
    the stage writes cannot be chosen: a file's `dump_path` is ignored. Raises SettingsError as `load` does, and for a
    `dump_path` in `changes`.
    """
    arguments = {key: value for key, value in changes.items() if value is not None}
    origin = Origin(
        f"the settings of the debugger of {above.dump_path}" if config_path is None else fspath(config_path),
        frozenset(arguments),
        f"stage({shown(name)})",
    )
    root = stage_folder(above.dump_path, name)
    if "dump_path" in arguments:
        raise SettingsError(f"{origin.common('dump_path')}: a stage writes to {root}; omit it")
    written = {} if config_path is None else read(config_path)
    settings = parse_settings({**above.described(), **written, **arguments, "dump_path": root}, origin)
    if settings.level == "L2":
        raise SettingsError(
            f'{origin.common("level")}: the framework dumps the kernels of the whole process; choose "L0", '
            '"L1", "mix" or "debug" for a stage'
        )
    return noted(settings, origin)


def apart(settings: Settings, taken: Mapping[Path, str]) -> Settings:
    """The same settings with a free dump_path; logged where that is not the one that was asked for.

    `taken` has the folders that debuggers of this process write to, and which debugger. In every rank of a run the
    second debugger gets the same other folder.
    """
    root = settings.dump_path
    if root not in taken:
        return settings
    free = next(path for n in count(2) if (path := root.with_name(f"{root.name}_{n}")) not in taken)
    once(
        f"parted {free}",
        f"PrecisionDebugger: {taken[root]} already writes to {root}, so this debugger writes to {free}; set "
        "another dump_path",
    )
    return replace(settings, dump_path=free)
