"""A configuration file, before its training: all mistakes at once, and what of it will not be collected here.

Who refuses in the training is asked here: the settings' own checks, and the limits of graph mode, kernel dumps and
PyTorch. So a task that this version learns needs no change of this module.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msprobe.base.checks import quoted
from msprobe.base.errors import MsprobeError, SettingsError
from msprobe.base.log import logger
from msprobe.base.scope import compact_ranges
from msprobe.base.sections import ineffective_settings
from msprobe.base.settings import OTHER_FILES, Origin, Settings, ignored_settings, parse_settings
from msprobe.cell_dump.functions import stems_of
from msprobe.findings.catalogue import readiness as kinds
from msprobe.frameworks.limits import COMPILES_GRAPHS, DISPATCHES_SINCE, dispatch_requirement, unsupported
from msprobe.frameworks.registry import PYTHON_PACKAGES
from msprobe.graph_save.kernel.dump_settings import Machine, captures_one_api, path_problem, plan_of
from msprobe.graph_save.limits import unsupported_in_graphs

from .finding import Obstacle
from .patterns import unmatched_patterns
from .target import Target
from .versions import compared, installed, release

_DECISIVE = ("task", "level")
"""Without these nobody knows what else was meant."""


def examine(contents: Mapping[str, object], origin: Origin, target: Target) -> tuple[Settings | None, list[Obstacle]]:
    """The settings, None where they cannot be guessed, and what is wrong with them on a target."""
    settings, found = _read(contents, origin)
    if settings is None:
        return None, found
    found += _taken_otherwise(contents, settings, origin)
    found += _without_effect(settings, origin)
    found += _ignored(contents, origin)
    found += _limits(settings, origin, target)
    found += _places(settings, target, origin)
    found += unmatched_patterns(settings, target, origin)
    found += _calls_needed(settings, origin)
    return settings, list(dict.fromkeys(found))


@contextmanager
def _silence() -> Iterator[None]:
    """What the settings say in the log while they are read is among the findings."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _read(contents: Mapping[str, object], origin: Origin) -> tuple[Settings | None, list[Obstacle]]:
    """The settings without what is wrong in them, and each mistake."""
    found: list[Obstacle] = []
    is_known, left = True, dict(contents)
    while True:
        wrong = _mistake(left, origin)
        if not wrong:
            with _silence():
                return (parse_settings(left, origin) if is_known else None), found
        found.append(Obstacle(kinds.REFUSED, origin.file, reason=wrong))
        if _is_of_another_tool(left):
            return None, found
        key, mended = next(
            ((key, each) for key, each in _reduced(left) if _mistake(each, origin) != wrong), ("task", None)
        )
        is_known = is_known and key not in _DECISIVE
        if mended is None:
            return None, found
        left = mended


def _is_of_another_tool(contents: Mapping[str, object]) -> bool:
    return any(key in contents for marks, _, _ in OTHER_FILES for key in marks)


def _mistake(contents: Mapping[str, object], origin: Origin) -> str:
    try:
        with _silence():
            parse_settings(contents, origin)
    except SettingsError as err:
        return str(err)
    return ""


def _reduced(contents: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """The contents without one setting each, those of sections first; and with a dump_path, if that is missing."""
    for section, inner in contents.items():
        keys: dict[str, object] = inner if isinstance(inner, dict) else {}
        for key in keys:
            yield key, {**contents, section: {name: value for name, value in keys.items() if name != key}}
    if "dump_path" not in contents:
        yield "dump_path", {**contents, "dump_path": "./dump_path"}
    for key in contents:
        yield key, {name: value for name, value in contents.items() if name != key}


def _taken_otherwise(contents: Mapping[str, object], settings: Settings, origin: Origin) -> Iterator[Obstacle]:
    level = contents.get("level")
    if level is not None and level != settings.level and settings.task == "structure":
        yield Obstacle(kinds.TAKEN_AS, origin.common("level"), quoted(level), quoted(settings.level))


def _without_effect(settings: Settings, origin: Origin) -> Iterator[Obstacle]:
    for owner, where in ((settings, origin.common), (settings.section, origin.inside(settings.task))):
        for key, reason in ineffective_settings(owner, settings.level):
            yield Obstacle(kinds.WITHOUT_EFFECT, where(key), reason=reason)


def _ignored(contents: Mapping[str, object], origin: Origin) -> Iterator[Obstacle]:
    for section, key, why in ignored_settings(contents):
        yield Obstacle(kinds.WITHOUT_EFFECT, origin.inside(section)(key) if section else origin.common(key), reason=why)


def _limits(settings: Settings, origin: Origin, target: Target) -> Iterator[Obstacle]:
    """What the framework does not support."""
    framework = target.framework
    if wrong := unsupported(framework, settings):
        yield Obstacle(kinds.REFUSED, origin.file, reason=wrong)
    has = installed(PYTHON_PACKAGES[framework])
    if settings.dispatch and has and compared(release(has), DISPATCHES_SINCE[framework]) < 0:
        needed = dispatch_requirement(framework)
        reason = f"dispatch needs {needed} or newer"
        yield Obstacle(kinds.REFUSED, origin.common("dispatch"), has, needed.partition(" ")[2], reason)
    if framework not in COMPILES_GRAPHS:
        return
    if settings.level == "L2":
        yield from _kernels(settings, origin, target)
    elif settings.level != "debug" and settings.task != "grad_probe":
        yield from _graphs(settings, origin, target)


def _kernels(settings: Settings, origin: Origin, target: Target) -> Iterator[Obstacle]:
    """What the framework's kernel dump refuses on all machines that the target may be, or on some."""
    if wrong := path_problem(settings.dump_path):
        yield Obstacle(kinds.REFUSED, origin.common("dump_path"), reason=wrong)
    refused: dict[Machine, str] = {}
    notes: list[set[str]] = []
    for machine in target.machines:
        if captures_one_api(settings, machine):
            notes.append({"the kernels of one API: this version cannot switch the dump of the Ascend runtime on"})
            continue
        try:
            notes.append(set(plan_of(settings, machine).notes))
        except MsprobeError as err:
            refused[machine] = str(err)
    for reason in dict.fromkeys(refused.values()):
        modes = ", ".join(sorted({_mode(machine) for machine, text in refused.items() if text == reason}))
        yield Obstacle(kinds.DEPENDS if notes else kinds.REFUSED, origin.file, modes, reason=reason)
    for reason in sorted(set.intersection(*notes)) if notes else ():
        yield Obstacle(kinds.WITHOUT_EFFECT, origin.file, reason=reason)


def _mode(machine: Machine) -> str:
    return f"graph mode at jit_level {machine.jit_level}" if machine.graph else "PyNative mode"


def _graphs(settings: Settings, origin: Origin, target: Target) -> Iterator[Obstacle]:
    wrong = unsupported_in_graphs(settings.level, settings.task, target.device)
    if target.mode != "pynative" and wrong:
        kind = kinds.REFUSED if target.mode == "graph" else kinds.DEPENDS
        yield Obstacle(kind, origin.common("level"), "graph mode", reason=wrong)
    elif target.mode == "graph" and settings.level == "mix":
        yield Obstacle(kinds.TAKEN_AS, origin.common("level"), '"mix"', '"L0"', "no API is called from Python there")


def _places(settings: Settings, target: Target, origin: Origin) -> Iterator[Obstacle]:
    """Ranks and steps that do not exist, and a dump that names cannot be taken from."""
    if target.ranks and (absent := tuple(rank for rank in settings.rank if rank >= target.ranks)):
        is_all = len(absent) == len(settings.rank)
        reason = "nothing will be collected" if is_all else ""
        yield Obstacle(kinds.RANKS, origin.common("rank"), quoted(compact_ranges(absent)), str(target.ranks), reason)
    if target.steps and (absent := tuple(step for step in settings.step if step >= target.steps)):
        is_all = len(absent) == len(settings.step)
        reason = "nothing will be collected" if is_all else ""
        yield Obstacle(kinds.STEPS, origin.common("step"), quoted(compact_ranges(absent)), str(target.steps), reason)
    if settings.names_from:
        try:
            stems_of(settings.names_from)
        except SettingsError as err:
            yield Obstacle(kinds.REFUSED, origin.common("names_from"), reason=str(err))


def _calls_needed(settings: Settings, origin: Origin) -> Iterator[Obstacle]:
    if settings.task == "grad_probe":
        yield Obstacle(kinds.NEEDS_CALL, origin.common("task"), quoted(settings.task), "monitor(optimizer)")
    elif settings.level == "debug":
        yield Obstacle(kinds.NEEDS_CALL, origin.common("level"), quoted(settings.level), "save(value, name)")
