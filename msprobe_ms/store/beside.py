"""What lies beside the entries: which cell encloses a call (`construct.json`), and its call stack (`stack.json`)."""

from typing import Any

from msprobe.base.log import logger
from msprobe.base.visible import visible

# Cells around cells. Whoever looks at a call looks at all that are around it.
_DEEPEST = 200


def enclosing(text: dict[str, Any]) -> dict[str, str | None]:
    """Call -> parent. A value may be `[parent, micro_step]`, and a count may stand between the names."""
    found: dict[str, str | None] = {}
    for name, parent in text.items():
        if type(parent) is list and parent:
            parent = parent[0]
        if parent is None or type(parent) is str:
            found[name] = parent
    return _without_circles(found)


def _without_circles(parents: dict[str, str | None]) -> dict[str, str | None]:
    """The same map, cut where following parents would never end, or is deeper than any network."""
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
            if depth == _DEEPEST:
                deep.append(name)
                parents[name], depth = None, 0
            depth += 1
            depths[name] = depth
    for names, fault in ((circles, "encloses itself"), (deep, f"is enclosed by more than {_DEEPEST} cells")):
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            logger.warning("construct.json: %s %s%s; taken as not enclosed", visible(names[0][:200]), fault, more)
    return parents


def stacks(text: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Call -> frames, from groups `{"0": [[calls], [frames]]}` or from the older `{"call": [frames]}`."""
    found: dict[str, tuple[str, ...]] = {}
    for key, group in text.items():
        if type(group) is not list:
            continue
        if len(group) == 2 and type(group[0]) is type(group[1]) is list:
            frames = _texts(group[1])
            found.update((name, frames) for name in group[0] if type(name) is str)
        else:
            found[key] = _texts(group)
    return found


def _texts(frames: list[Any]) -> tuple[str, ...]:
    return tuple(frame for frame in frames if type(frame) is str)
