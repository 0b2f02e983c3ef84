"""The order in which the stages of a step were collected, as far as their dumps tell.

A dump says as which of its step's stages it was begun (`run.stage`). One that does not, of an older version or of
debuggers that know nothing of each other, has no clock in it, and times of files do not outlive a copy. What tells
then are call stacks: those of two stages part in the code that runs the step, and the line that stands first there
runs first.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Literal, TypeVar

from msprobe.base.errors import MsprobeError
from msprobe.base.frames import user_line
from msprobe.compare.jobs.sides import side
from msprobe.store.beside import stacks
from msprobe.store.document import json_object_or_empty
from msprobe.store.flow_roots import FlowRoot
from msprobe.store.head import read_head
from msprobe.store.layout import STACK

T = TypeVar("T")
Frames = Sequence[str]
Dumps = Mapping[tuple[int, int], Path]
"""The dumps of a stage by rank and step."""

_FRAME = re.compile(r"^File (?P<file>.+?), line (?P<line>\d+), in (?P<function>[^\s,]+)", re.DOTALL)
_STEPS = 2  # so many are asked: in its first one a debugger does not know yet that it will have stages


@dataclass(frozen=True, slots=True)
class Told:
    """Stages in the order in which a step runs them, and what told it: all their dumps, or the lines that call them."""

    names: tuple[str, ...]
    by: Literal["dumps", "lines"]


def collected_order(names: Sequence[str], *roots: FlowRoot) -> Told | None:
    """The order in which a step runs these stages; None where no root tells, or two tell different ones."""
    told = [order for root in roots if (order := _order(names, root)) is not None]
    if len({order.names for order in told}) != 1:
        return None
    return min(told, key=lambda order: order.by != "dumps")


def _order(names: Sequence[str], root: FlowRoot) -> Told | None:
    paths = [root.stages[name] for name in names if name in root.stages]
    if len(names) < 2 or len(paths) < len(names):
        return None
    dumps = [_dumps(path) for path in paths]
    if order := _sorted(names, dumps, _begun_before):
        return Told(order, "dumps")
    if order := _sorted(names, [_first_call(each) for each in dumps], _called_before):
        return Told(order, "lines")
    return None


def _sorted(names: Sequence[str], known: Sequence[T], before: Callable[[T, T], int]) -> tuple[str, ...]:
    """The names by what is known of each; empty where it does not tell of every two which is first."""
    behind = dict.fromkeys(names, 0)
    for (one, of_one), (other, of_other) in combinations(zip(names, known, strict=True), 2):
        sign = before(of_one, of_other)
        if not sign:
            return ()
        behind[other if sign < 0 else one] += 1
    if len(set(behind.values())) < len(names):  # a circle
        return ()
    return tuple(sorted(names, key=behind.__getitem__))


def _begun_before(one: Dumps, other: Dumps) -> int:
    """-1 or 1, which of two stages is begun first in a step that has both; 0 where their dumps do not tell."""
    for place in islice(sorted(one.keys() & other.keys()), _STEPS):
        ours, theirs = _turn(one[place]), _turn(other[place])
        if ours is not None and theirs is not None:
            return (ours > theirs) - (ours < theirs)
    return 0


def _called_before(one: Frames, other: Frames) -> int:
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


def _turn(file: Path) -> int | None:
    """As which of its step's stages a dump was begun, from 0; None where it does not say."""
    turn = read_head(file).run.get("stage")
    return turn if type(turn) is int else None


def _first_call(dumps: Dumps) -> Frames:
    """The stack of the first call of a stage's first step; empty where there is none."""
    if not dumps:
        return ()
    try:
        found = stacks(json_object_or_empty(dumps[min(dumps)].parent / STACK))
    except (MsprobeError, OSError, ValueError):  # whoever compares it says what is wrong with it
        return ()
    return next((frames for frames in found.values() if frames), ())


def _dumps(stage: Path) -> Dumps:
    """None where a stage cannot be looked into."""
    try:
        places = side(stage).places
    except MsprobeError:  # whoever compares it says why
        return {}
    return {(place.rank or 0, place.step or 0): source.paths[0] for place, source in places.items()}
