"""Versions of installed packages and what they are required to be, without importing any of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from itertools import zip_longest

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")
_PARTS = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;\s*(.*))?", re.DOTALL)
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_BOUND = re.compile(r"(===|==|~=|!=|<=|>=|<|>)\s*(\S+)")


@dataclass(frozen=True)
class Requirement:
    """`name` in `bounds`, as `>=1.23,<2`; `extra` is the extra that needs it, empty for what is always needed."""

    name: str
    bounds: str
    extra: str = ""


def installed(name: str) -> str:
    """The version of a package; empty where it is not installed."""
    try:
        return metadata.version(name) or ""
    except (metadata.PackageNotFoundError, OSError, ValueError):  # metadata of anybody may be damaged
        return ""


def requirements(name: str) -> list[Requirement]:
    """What an installed package requires; without what depends on the machine or on Python."""
    try:
        texts = metadata.requires(name) or []
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return []
    return [found for text in texts if (found := _requirement(text)) is not None]


def python_of(name: str) -> str:
    """The versions of Python that an installed package requires; empty where it does not say."""
    try:
        found = metadata.metadata(name)
        # Asked first: where the package importlib_metadata is installed, a missing key is an error.
        return str(found["Requires-Python"] or "") if "Requires-Python" in found else ""
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return ""


def folder_of(name: str) -> str:
    """The folder that an installed package lies in; empty where it is not installed."""
    try:
        return str(metadata.distribution(name).locate_file(""))
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return ""


def _requirement(text: str) -> Requirement | None:
    found = _PARTS.fullmatch(text)
    if found is None:
        return None
    name, bounds, marker = found[1], found[2].replace(" ", ""), found[3] or ""
    extra = _EXTRA.fullmatch(marker.strip())
    return None if marker and extra is None else Requirement(name, bounds, extra[1] if extra else "")


def fits(version: str, bounds: str) -> bool:
    """Whether a version lies within bounds; one that is no number fits everything.

    A release candidate counts as its release, and a local part (`+cpu`) does not count.
    """
    return all(_holds(version, operator, bound) for operator, bound in _bounds(bounds))


def _bounds(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        if found := _BOUND.fullmatch(part.strip()):
            yield found[1], found[2]


def _holds(version: str, operator: str, bound: str) -> bool:
    has, wants = release(version), release(bound)
    if not has or not wants:
        return True
    if operator in ("==", "===", "!="):
        length = len(wants) if bound.endswith(".*") else None
        is_same = compared(has[:length], wants) == 0
        if is_same and length is None and _tail(bound):
            is_same = _tail(version) == _tail(bound)
        return is_same == (operator != "!=")
    order = compared(has, wants)
    if operator == "~=":
        return order >= 0 and has[: len(wants) - 1] == wants[:-1]
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator]


def release(version: str) -> tuple[int, ...]:
    """`2.10.0rc1` is (2, 10, 0); () for what does not begin with a number."""
    found = _RELEASE.match(version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def compared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """-1, 0 or 1: 2.10 is 2.10.0."""
    for a, b in zip_longest(one, other, fillvalue=0):
        if a != b:
            return 1 if a > b else -1
    return 0


def _tail(version: str) -> str:
    """What stands behind the numbers, without the local part: `b1` of `0.5.0b1`."""
    return _RELEASE.sub("", version.partition("+")[0], count=1).lower().strip(".-_*")
