"""What is installed: versions that go together, the other tool beside, the compiled extensions."""

import platform
from collections.abc import Iterator
from importlib import import_module

from msprobe.base import conflicting_package
from msprobe.findings.catalogue import readiness as kinds

from .finding import Obstacle
from .versions import Requirement, compared, fits, folder_of, installed, python_of, release, requirements

SELF = "msprobe-ms"

FRAMEWORKS = {"mindspore": "mindspore", "torch": "torch", "mindtorch": "msadapter"}
"""The package that each extra of a framework is about."""

TESTED = {
    "python": ("3.10", "3.12"),
    "mindspore": ("2.7.0", "2.10.0"),
    "msadapter": ("0.5.0b1", "0.5.0b1"),
    "torch": ("2.13.0", "2.13.0"),
}
"""The oldest and the newest version that tests have run with: docs/en/reference/support.md."""

EXTENSIONS = (
    "msprobe.base._statistic",
    "msprobe.cell_dump._gradients",
    "msprobe.compare.measure._measure",
    "msprobe.compare.tables._cells",
    "msprobe.graph_save._operators",
    "msprobe.store._entries",
)
_TOOLS = ("docs",)
"""Extras that no training uses."""


def described() -> dict[str, str]:
    """The versions of what matters, of what is installed."""
    names = (SELF, "numpy", "mindspore", "torch", "msadapter")
    return {"Python": platform.python_version()} | {name: found for name in names if (found := installed(name))}


def examine() -> Iterator[Obstacle]:
    """What is wrong with the installation."""
    if found := conflicting_package.installed_version():
        yield Obstacle(kinds.NEIGHBOUR, conflicting_package.NAME, found)
    yield from _python()
    yield from _packages()
    if "msadapter" in described() and "torch" in described() and folder_of("torch") == folder_of("msadapter"):
        yield Obstacle(kinds.TWO_TORCHES, "torch", installed("torch"), installed("msadapter"))
    yield from _untested()
    if not any(map(installed, FRAMEWORKS.values())):
        yield Obstacle(kinds.NO_FRAMEWORK, "")
    yield from _extensions()


def _python() -> Iterator[Obstacle]:
    has = platform.python_version()
    for name in (SELF, *FRAMEWORKS.values()):
        if not fits(has, wanted := python_of(name)):
            yield Obstacle(kinds.VERSION, "Python", has, wanted, name)


def _packages() -> Iterator[Obstacle]:
    """Packages that are missing or have another version than this one, or a framework, requires."""
    seen: set[tuple[str, str]] = set()
    own = [(SELF, each) for each in requirements(SELF) if _applies(each)]
    others = [(name, each) for name in FRAMEWORKS.values() for each in requirements(name) if each.name == "numpy"]
    for owner, each in own + others:
        has = installed(each.name)
        is_needed = not each.extra or each.extra in FRAMEWORKS
        if (has and fits(has, each.bounds)) or not (has or is_needed) or (each.name, each.bounds) in seen:
            continue
        seen.add((each.name, each.bounds))
        by = f"{owner}[{each.extra}]" if each.extra else owner
        yield Obstacle(kinds.VERSION if has else kinds.MISSING, each.name, has, each.bounds, by)


def _applies(each: Requirement) -> bool:
    """Whether a requirement counts here: those of a framework's extra where the framework is installed."""
    return each.extra not in _TOOLS and (each.extra not in FRAMEWORKS or bool(installed(FRAMEWORKS[each.extra])))


def _untested() -> Iterator[Obstacle]:
    for name, (oldest, newest) in TESTED.items():
        has = platform.python_version() if name == "python" else installed(name)
        number = release(has)[: len(release(newest))]
        if number and (compared(number, release(newest)) > 0 or compared(number, release(oldest)) < 0):
            span = oldest if oldest == newest else f"{oldest} to {newest}"
            yield Obstacle(kinds.UNTESTED, "Python" if name == "python" else name, has, span)


def _extensions() -> Iterator[Obstacle]:
    for name in EXTENSIONS:
        try:
            import_module(name)
        except ImportError as err:
            yield Obstacle(kinds.NO_EXTENSION, name, reason=str(err))
