"""Report of `msprobe doctor` before a training: the installation, the output folder, the configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from msprobe.base.checks import output_folder, quoted
from msprobe.base.framework import FRAMEWORKS, TITLES, Framework
from msprobe.base.log import terminal_line
from msprobe.base.phrase import phrase
from msprobe.base.settings import Origin, Settings, read_config
from msprobe.base.verdicts import Verdicts
from msprobe.findings.catalogue import readiness as kinds
from msprobe.findings.document import Document, printed
from msprobe.findings.finding import Answer
from msprobe.frameworks.registry import PYTHON_PACKAGES
from msprobe.options.declaration import declared, option
from msprobe.options.groups import AnswerFormat
from msprobe.options.kinds import TEXT, one_of, whole

from . import configuration, installation, place
from .finding import Obstacle, size
from .target import DEVICES, JIT_LEVELS, MODES, Target, device_here, framework_here, is_layer_installed, ranks_here
from .versions import requirements


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(AnswerFormat):
    """The options that describe a training that has not begun."""

    TITLE: ClassVar[tuple[str, str]] = ("before a training, without DIR", "训练开始之前（不带 DIR）")

    config: str | None = option(
        TEXT,
        "--config",
        metavar="FILE",
        help="the configuration of a collection; reports what it will not collect",
        zh="采集的配置文件；报告其中不会被采集的内容",
    )
    dump_path: str | None = option(
        TEXT,
        "--dump-path",
        metavar="DIR",
        help="the output folder of the training, instead of that in FILE",
        zh="训练的输出文件夹，代替 FILE 中的设置",
    )
    framework: Framework | None = option(
        one_of(*FRAMEWORKS),
        "--framework",
        help="the framework; default: the installed one, MindSpore if both are",
        zh="框架；默认：已安装的框架，两者都有时为 MindSpore",
    )
    device: str | None = option(
        one_of(*DEVICES),
        "--device",
        help="the device of the training; default: that of this machine",
        zh="训练所用的设备；默认：本机的设备",
    )
    mode: str | None = option(
        one_of(*MODES),
        "--mode",
        help="the execution mode of MindSpore; default: unknown",
        zh="MindSpore 的执行模式；默认：未知",
    )
    jit_level: str | None = option(
        one_of(*JIT_LEVELS),
        "--jit-level",
        help="the JIT level of MindSpore's graphs; default: unknown",
        zh="MindSpore 图的 JIT 级别；默认：未知",
    )
    ranks: int = option(whole(1), "--ranks", default=0, help="number of processes of the training", zh="训练的进程数")
    steps: int = option(whole(1), "--steps", default=0, help="number of steps of the training", zh="训练的 step 数")

    @property
    def given(self) -> list[str]:
        """Return the flags of the options that are given."""
        options = declared(TrainingOptions).items()
        return [each.long_flag for name, each in options if name not in ("format", "json") and getattr(self, name)]


def run(options: TrainingOptions) -> int:
    """Examine and print; 1 where something is wrong. SettingsError where the file cannot be read."""
    target = Target(
        framework=options.framework or framework_here(),
        device=options.device or device_here(),
        mode=options.mode or "",
        jit_level=options.jit_level or "",
        ranks=options.ranks or ranks_here(),
        steps=options.steps,
        has_layer=is_layer_installed(),
    )
    found = {"installation": list(installation.examine())}
    if options.framework:
        found["installation"] += _absent(target)
    settings: Settings | None = None
    if options.config:
        settings, found["configuration"] = _configuration(options.config, options.dump_path, target)
    path = output_folder(options.dump_path) if options.dump_path else settings and settings.dump_path
    where = None
    if path:
        where, found["dump_path"] = _place(path, settings)
    answer = answer_of(found)
    exit_code = int(answer.state == "differs")
    if options.is_json:
        wrong = [sum(each.is_wrong for each in group) for group in found.values()]
        verdicts = Verdicts(sum(not number for number in wrong), sum(wrong))
        details = {
            "versions": installation.described(),
            "framework": target.framework,
            "device": target.device,
            "settings": None if settings is None else settings.described(),
            "dump_path": None if where is None else {"path": str(where.path), "free_bytes": where.free},
        }
        printed(Document("doctor", answer, verdicts, exit_code, details=details))
    else:
        _print(target, settings, where, found, answer)
    return exit_code


def answer_of(found: Mapping[str, Sequence[Obstacle]]) -> Answer:
    """Return the answer by part; notes are harmless."""
    every = [(each.as_finding(part), each.is_wrong) for part, group in found.items() for each in group]
    wrong = [finding for finding, is_wrong in every if is_wrong]
    notes = tuple(finding for finding, is_wrong in every if not is_wrong)
    if not wrong:
        return Answer("clean", phrase("nothing is wrong"), harmless=notes)
    line = phrase("{number} found; the first: {what}", number=len(wrong), what=wrong[0].reason)
    return Answer("differs", line, wrong[0], tuple(wrong[1:]), notes)


def _absent(target: Target) -> list[Obstacle]:
    """Return the requested framework as an obstacle if it is not installed."""
    package = PYTHON_PACKAGES[target.framework]
    if package in installation.described():
        return []
    bounds = next((each.bounds for each in requirements(installation.SELF) if each.name == package), "")
    return [Obstacle(kinds.MISSING, package, expected=bounds, reason=f"collecting {TITLES[target.framework]}")]


def _configuration(file: str, dump_path: str | None, target: Target) -> tuple[Settings | None, list[Obstacle]]:
    contents = read_config(file)
    arguments = {} if dump_path is None else {"dump_path": dump_path}
    return configuration.examine({**contents, **arguments}, Origin(file, frozenset(arguments)), target)


def _place(path: Path, settings: Settings | None) -> tuple[place.Place | None, list[Obstacle]]:
    try:
        found = place.place_of(path)
    except OSError as err:
        return None, [Obstacle(kinds.NOT_WRITABLE, str(path), reason=err.strerror or str(err))]
    return found, list(place.examine(found, settings.disk_budget if settings else 0))


def _print(
    target: Target,
    settings: Settings | None,
    where: place.Place | None,
    found: dict[str, list[Obstacle]],
    answer: Answer,
) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in installation.described().items())
    print(terminal_line(f"installation: {versions}; device {target.device}"))
    _print_findings(found["installation"])
    if "configuration" in found:
        what = "invalid"
        if settings is not None:
            level = "" if settings.task == "grad_probe" else f" at level {quoted(settings.level)}"
            what = f"task {quoted(settings.task)}{level}, {TITLES[target.framework]} on {target.device}"
        print(terminal_line(f"configuration: {what}"))
        _print_findings(found["configuration"])
    if where is not None:
        print(terminal_line(f"dump_path: {where.path}, {size(where.free)} free"))
    _print_findings(found.get("dump_path", []))
    print(terminal_line(str(answer.line)))


def _print_findings(found: list[Obstacle]) -> None:
    for each in sorted(found, key=lambda one: not one.is_wrong):
        print(terminal_line(f"  {'WRONG' if each.is_wrong else 'note'}: {each.message}"))
