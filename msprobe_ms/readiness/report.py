"""What `msprobe doctor` says of a training that has not begun: the installation, the place, the configuration."""

import argparse
import json
from pathlib import Path

from msprobe.base.checks import folder, shown
from msprobe.base.log import visible
from msprobe.base.settings import Origin, Settings, read

from . import configuration, installation, place
from .finding import Finding, Kind
from .target import DEVICES, JIT_LEVELS, MODES, Target, device_here, framework_here, is_layer_installed, ranks_here
from .versions import requirements
from .wording import sentence, size

OPTIONS = ("config", "dump_path", "framework", "device", "mode", "jit_level", "ranks", "steps")
"""The arguments that describe a training."""

_NAMES = {"mindspore": "MindSpore", "pytorch": "PyTorch"}


def add(parser: argparse._ArgumentGroup) -> None:
    """Declare the options that describe a training."""
    parser.add_argument(
        "--config", metavar="FILE", help="the configuration of a collection; what of it is not collected"
    )
    parser.add_argument("--dump-path", metavar="DIR", help="where the training will write, instead of what FILE says")
    parser.add_argument(
        "--framework", choices=tuple(_NAMES), help="default: the one that is installed, MindSpore of both"
    )
    parser.add_argument("--device", choices=DEVICES, help="what the training computes with; default: what is here")
    parser.add_argument("--mode", choices=MODES, help="the execution mode of MindSpore; default: unknown")
    parser.add_argument("--jit-level", choices=JIT_LEVELS, help="of MindSpore's graphs; default: unknown")
    parser.add_argument("--ranks", metavar="N", type=_count, default=0, help="how many processes will train")
    parser.add_argument("--steps", metavar="N", type=_count, default=0, help="how many steps they will train")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < len(text) < 10 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Examine and print; 1 where something is wrong. SettingsError where the file cannot be read."""
    target = Target(
        framework=args.framework or framework_here(),
        device=args.device or device_here(),
        mode=args.mode or "",
        jit_level=args.jit_level or "",
        ranks=args.ranks or ranks_here(),
        steps=args.steps,
        has_torch_layer=is_layer_installed(),
    )
    found = {"installation": list(installation.examine())}
    if args.framework:
        found["installation"] += _absent(target)
    settings: Settings | None = None
    if args.config:
        settings, found["configuration"] = _configuration(args.config, args.dump_path, target)
    path = folder(args.dump_path) if args.dump_path else settings and settings.dump_path
    where = None
    if path:
        where, found["dump_path"] = _place(path, settings)
    if args.format == "json":
        print(json.dumps(_as_object(target, settings, where, found), ensure_ascii=False, indent=1))
    else:
        _print(target, settings, where, found)
    return int(any(each.is_wrong for group in found.values() for each in group))


def _absent(target: Target) -> list[Finding]:
    """The framework that was named, if it is not installed."""
    package = {"mindspore": "mindspore", "pytorch": "torch"}[target.framework]
    if package in installation.described():
        return []
    bounds = next((each.bounds for each in requirements(installation.SELF) if each.name == package), "")
    return [Finding(Kind.MISSING, package, expected=bounds, reason=f"collecting {_NAMES[target.framework]}")]


def _configuration(file: str, dump_path: str | None, target: Target) -> tuple[Settings | None, list[Finding]]:
    contents = read(file)
    arguments = {} if dump_path is None else {"dump_path": dump_path}
    return configuration.examine({**contents, **arguments}, Origin(file, frozenset(arguments)), target)


def _place(path: Path, settings: Settings | None) -> tuple[place.Place | None, list[Finding]]:
    try:
        found = place.place_of(path)
    except OSError as err:
        return None, [Finding(Kind.NOT_WRITABLE, str(path), reason=err.strerror or str(err))]
    return found, list(place.examine(found, settings.disk_budget if settings else 0))


def _print(
    target: Target, settings: Settings | None, where: place.Place | None, found: dict[str, list[Finding]]
) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in installation.described().items())
    print(visible(f"installation: {versions}; device {target.device}"))
    _print_findings(found["installation"])
    if "configuration" in found:
        what = "cannot be meant"
        if settings is not None:
            level = "" if settings.task == "grad_probe" else f" at level {shown(settings.level)}"
            what = f"task {shown(settings.task)}{level}, {_NAMES[target.framework]} on {target.device}"
        print(visible(f"configuration: {what}"))
        _print_findings(found["configuration"])
    if where is not None:
        print(visible(f"dump_path: {where.path}, {size(where.free)} free"))
    _print_findings(found.get("dump_path", []))
    every = [each for group in found.values() for each in group if each.is_wrong]
    print(visible(f"{len(every)} found; the first: {sentence(every[0])}" if every else "nothing is wrong"))


def _print_findings(found: list[Finding]) -> None:
    for each in sorted(found, key=lambda one: not one.is_wrong):
        print(visible(f"  {'WRONG' if each.is_wrong else 'note'}: {sentence(each)}"))


def _as_object(
    target: Target, settings: Settings | None, where: place.Place | None, found: dict[str, list[Finding]]
) -> dict[str, object]:
    findings = [
        {
            "part": part,
            "kind": each.kind.value,
            "is_wrong": each.is_wrong,
            "subject": each.subject,
            "value": each.value,
            "expected": each.expected,
            "reason": each.reason,
            "sentence": sentence(each),
        }
        for part, group in found.items()
        for each in group
    ]
    return {
        "is_fine": not any(each["is_wrong"] for each in findings),
        "versions": installation.described(),
        "framework": target.framework,
        "device": target.device,
        "settings": None if settings is None else settings.described(),
        "dump_path": None if where is None else {"path": str(where.path), "free_bytes": where.free},
        "findings": findings,
    }
