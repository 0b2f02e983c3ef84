"""The order in which the stages of a step were collected, as far as their dumps tell.

A dump has no clock in it, and times of files do not outlive a copy. What tells are call stacks: those of two stages
part in the code that runs the step, and the line that stands first there runs first.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from msprobe.base.errors import MsprobeError
from msprobe.base.frames import user_line
from msprobe.compare.jobs.sides import side
from msprobe.store.beside import stacks
from msprobe.store.document import json_object_or_empty
from msprobe.store.flow_roots import FlowRoot
from msprobe.store.layout import STACK

Frames = Sequence[str]

_FRAME = re.compile(r"^File (?P<file>.+?), line (?P<line>\d+), in (?P<function>[^\s,]+)", re.DOTALL)


def collected_order(names: Sequence[str], *roots: FlowRoot) -> list[str] | None:
    """The stages in the order in which a step runs them; None where no root tells, or two tell different ones."""
    told = [order for root in roots if (order := _order(names, root)) is not None]
    return told[0] if told and all(order == told[0] for order in told) else None


def _order(names: Sequence[str], root: FlowRoot) -> list[str] | None:
    first = {name: frames for name in names if name in root.stages and (frames := _first_call(root.stages[name]))}
    if len(names) < 2 or len(first) < len(names):
        return None
    behind = dict.fromkeys(names, 0)
    for one, other in combinations(names, 2):
        sign = _before(first[one], first[other])
        if not sign:
            return None
        behind[other if sign < 0 else one] += 1
    return sorted(names, key=behind.__getitem__)


def _before(one: Frames, other: Frames) -> int:
    """-1 or 1, which of two calls is made first; 0 where their stacks do not tell. Frames stand innermost first."""
    above: tuple[str, ...] = ()
    for ours, theirs in zip(reversed(one), reversed(other), strict=False):
        if ours == theirs:
            above = (ours,)
            continue
        places = [_FRAME.match(frame) for frame in (ours, theirs)]
        # Two functions of one name may stand in a file; called from one line of the framework's, they are two models.
        if None in places or not user_line((ours,)) or (above and not user_line(above)):
            return 0
        (file, line, function), (that_file, that_line, that_function) = (p.groups() for p in places if p)
        if (file, function) != (that_file, that_function) or line == that_line:
            return 0
        return -1 if int(line) < int(that_line) else 1
    return 0


def _first_call(stage: Path) -> Frames:
    """The stack of the first call of a stage's first step and rank; empty where there is none."""
    try:
        sources = side(stage).places.values()
        source = min(sources, key=lambda source: (source.step or 0, source.rank or 0))
        found: Mapping[str, Frames] = stacks(json_object_or_empty(source.paths[0].parent / STACK))
    except (MsprobeError, OSError, ValueError):  # whoever compares it says what is wrong with it
        return ()
    return next(_of(found), ())


def _of(found: Mapping[str, Frames]) -> Iterator[Frames]:
    return (frames for frames in found.values() if frames)
