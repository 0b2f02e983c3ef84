"""The calls of a unit that a report displays: those of a comparison, or of a single dump, by number."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from msprobe.base.names import Name, parse
from msprobe.compare.match.pairs import Ints, Pairs
from msprobe.store.record import Dump


@dataclass(frozen=True)
class Side:
    """One dump, and its call for each number, -1 for none."""

    dump: Dump
    calls: Ints

    @cached_property
    def number(self) -> Ints:
        """Return by call of the dump its number, the first of several; -1 if it is not displayed."""
        found = np.full(len(self.dump.columns.names), -1, np.int64)
        shown = np.flatnonzero(self.calls >= 0)[::-1]
        found[self.calls[shown]] = shown  # the first of several remains
        return found

    @cached_property
    def parents(self) -> list[int]:
        """Return by call of the dump the call around it, -1 at the top.

        A backward call without a recorded one is inside the backward of the call around its forward; gradients of
        parameters are inside their cell's last backward, or if there are several of them, in the next one.
        """
        dump = self.dump
        found = list(dump.parents)
        backward: dict[str, list[int]] = {}
        for at, name in enumerate(dump.names):
            if name.kind == "cell" and name.direction == "backward":
                backward.setdefault(name.stem, []).append(at)
        for at, name in enumerate(dump.names):
            if found[at] >= 0:
                continue
            if name.kind == "parameters_grad":
                calls = backward.get(name.stem, [-1])
                following = [call for call in calls if call > at] if len(dump.gradients[name.stem]) > 1 else []
                found[at] = following[0] if following else calls[-1]
            elif name.direction == "backward" and (forward := dump.counterpart(at, "forward")) >= 0:
                around = dump.parents[forward]
                found[at] = dump.counterpart(around, "backward") if around >= 0 else -1
        return found


@dataclass(frozen=True)
class UnitCalls:
    """All calls of a unit in execution order: of a comparison those of both sides, of a single dump the target's.

    `family` is their type: `dump`, `kernels`, or saves.
    """

    target: Side
    golden: Side | None
    family: str = "dump"

    @classmethod
    def of_pairs(cls, pairs: Pairs, family: str) -> "UnitCalls":
        """Return the calls of a comparison: call n is pair n."""
        return cls(Side(pairs.target, pairs.target_calls), Side(pairs.golden, pairs.golden_calls), family)

    @classmethod
    def of_dump(cls, dump: Dump, family: str) -> "UnitCalls":
        """Return the calls of a dump."""
        return cls(Side(dump, np.arange(len(dump.columns.names))), None, family)

    def __len__(self) -> int:
        return len(self.target.calls)

    def side(self, number: int) -> tuple[Side, int]:
        """Return the side whose name a call has, and its position in that dump."""
        call = int(self.target.calls[number])
        if call >= 0 or self.golden is None:
            return self.target, call
        return self.golden, int(self.golden.calls[number])

    @cached_property
    def names(self) -> Sequence[str]:
        """Return the target's names; the golden's for calls that only the golden makes."""
        return [side.dump.columns.names[at] for side, at in map(self.side, range(len(self)))]

    @cached_property
    def parsed(self) -> Sequence[Name]:
        """Return the parsed names."""
        return [parse(name) for name in self.names]

    @cached_property
    def parents(self) -> Sequence[int]:
        """Return the number of the call around each, -1 at the top."""
        found = []
        for number in range(len(self)):
            side, at = self.side(number)
            parent = side.parents[at]
            around = int(side.number[parent]) if parent >= 0 else -1
            found.append(around if around != number else -1)
        return found

    def around(self, number: int) -> list[int]:
        """Return the calls around a call, innermost first."""
        found: dict[int, None] = {}
        while (number := self.parents[number]) >= 0 and number not in found:
            found[number] = None
        return list(found)

    def stack(self, number: int, *, of_golden: bool = False) -> tuple[str, ...]:
        """Return the lines of a call's stack, innermost first; a backward call has its forward's."""
        side = self.golden if of_golden else self.target
        at = -1 if side is None else int(side.calls[number])
        if side is None or at < 0:
            return ()
        return side.dump.calls.stack(at) or side.dump.calls.stack(side.dump.forward(at))
