r"""Call stacks (`stack.json`) and the enclosing cells of calls (`construct.json`).

Frames are texts, innermost first: `File net.py, line 22, in construct, \n h = self.fc(x)`. The line that made a call is
the innermost one of the user's code: outside the framework and this tool.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from msprobe.base.log import logger, terminal_line

_FRAME = re.compile(r"^File (?P<file>.+?), line (?P<line>\d+), in ", re.DOTALL)

# Installed packages, and the tree of a framework that was built from source.
_NOT_THE_USERS = re.compile(
    r"/(?:site|dist)-packages/(?:mindspore|mindtorch|torch|torch_npu|msprobe)/"
    r"|/mindspore/python/mindspore/|/msprobe_ms/|^<"
)


class Line(NamedTuple):
    """A line of source."""

    file: str
    number: int


def frame(line: Line, function: str, source: str) -> str:
    """Return the text of a frame: the line, the function that it is in, and its source."""
    return without_secrets((f"File {line.file}, line {line.number}, in {function}, \n {source}",))[0]


@lru_cache(1 << 14)
def without_secrets(frames: tuple[str, ...]) -> tuple[str, ...]:
    """Return frames, as a dump has them, without the secrets in their source code; places are left as they are."""
    from msprobe.base import redaction  # its tables are not needed where there are no stacks

    parts = (frame.partition("\n") for frame in frames)
    return tuple(f"{place}{end}{redaction.source(code)}" for place, end, code in parts)


def user_line(stack: Iterable[str]) -> Line | None:
    """Return the innermost line of the user's code; None if the stack has none, or there is no stack."""
    for text in stack:
        found = _FRAME.match(text)
        if found and not _NOT_THE_USERS.search(found["file"].replace("\\", "/")):
            return Line(found["file"], int(found["line"]))
    return None


MAX_ENCLOSING = 200
"""Cells around cells; all of them are looked at for each call."""


def enclosing(text: dict[str, Any]) -> dict[str, str | None]:
    """Call -> parent. A value may be `[parent, micro_step]`, and a count may be between the names."""
    found: dict[str, str | None] = {}
    for name, parent in text.items():
        if type(parent) is list and parent:
            parent = parent[0]
        if parent is None or type(parent) is str:
            found[name] = parent
    return _without_circles(found)


def _without_circles(parents: dict[str, str | None]) -> dict[str, str | None]:
    """Return the same map, cut where following parents would never end, or goes deeper than any network."""
    depths: dict[str, int] = {}
    circles: list[str] = []
    deep: list[str] = []
    for start in list(parents):
        way: dict[str, None] = {}
        name: str | None = start
        last = start
        while name is not None and name not in depths and name in parents:
            if name in way:
                circles.append(name)
                parents[last] = None
                break
            way[name] = None
            last, name = name, parents[name]
        depth = 0 if name is None else depths.get(name, 0)
        for name in reversed(way):
            if depth == MAX_ENCLOSING:
                deep.append(name)
                parents[name], depth = None, 0
            depth += 1
            depths[name] = depth
    for names, fault in ((circles, "encloses itself"), (deep, f"is enclosed by more than {MAX_ENCLOSING} cells")):
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            logger.warning(
                "construct.json: %s %s%s; it is treated as not enclosed", terminal_line(names[0][:200]), fault, more
            )
    return parents


def stacks(text: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Call -> frames, from groups `{"0": [[calls], [frames]]}` or from the older `{"call": [frames]}`."""
    found: dict[str, tuple[str, ...]] = {}
    for key, group in text.items():
        if type(group) is not list:
            continue
        if len(group) == 2 and type(group[0]) is type(group[1]) is list:
            names, frames = group
        else:
            names, frames = [key], group
        texts = tuple(frame for frame in frames if type(frame) is str)
        found.update((name, texts) for name in names if type(name) is str)
    return found
