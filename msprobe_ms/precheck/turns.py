"""Whose turn it is: each distinct call once, before any of them is checked again. Plain data, and no clock.

Distinct calls differ in function, direction, or the dtypes and shapes of their inputs. They are checked in rounds: in a
round each that the last step had is checked once. Of the calls of one step that are alike another one takes the turn in
each round, so that no layer is left out for ever.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .judge import Status

Shape = tuple[str, str, tuple[int, ...]]
Key = tuple[str, str, tuple[Shape, ...]]
"""Function (`Mint.add`), direction, and of each tensor of the forward's inputs its place, dtype and shape."""

_ORDER = (Status.SKIP, Status.PASS, Status.WARNING, Status.ERROR)


@dataclass(slots=True)
class Turn:
    """The state of one distinct call.

    `checked`: how often. `over_budget`, `over_memory`: calls whose turn it was, and for which there was no time or
    memory left. `worst`: of its verdicts. `closed`: why it is never checked; empty for all others. `now`, `before`:
    calls in this step, and in the one before. `is_awaited`: a call has its turn, and its gradients have not come yet;
    `absent`: how often they were awaited in vain.
    """

    checked: int = 0
    over_budget: int = 0
    over_memory: int = 0
    worst: Status = Status.SKIP
    closed: str = ""
    now: int = 0
    before: int = 0
    absent: int = 0
    is_awaited: bool = False


class Turns:
    """The distinct calls of a run."""

    def __init__(self) -> None:
        self._turns: dict[Key, Turn] = {}
        self._by_function: dict[str, list[Turn]] = {}
        self._round = 0

    def __iter__(self) -> Iterator[tuple[Key, Turn]]:
        return iter(self._turns.items())

    def count(self, key: Key) -> bool:
        """Count a call; return whether it is its turn."""
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = Turn()
            self._by_function.setdefault(key[0], []).append(turn)
        place, turn.now = turn.now, turn.now + 1
        if turn.closed or turn.is_awaited or turn.checked > self._round:
            return False
        return place >= turn.checked % max(turn.before, 1)

    def __getitem__(self, key: Key) -> Turn:
        """Return the turn of a call that was counted."""
        return self._turns[key]

    def note_checked(self, key: Key, status: Status) -> None:
        """Note that a call was checked."""
        turn = self._turns[key]
        turn.checked += 1
        turn.is_awaited = False
        turn.worst = max(turn.worst, status, key=_ORDER.index)

    def is_due(self, function: str) -> bool:
        """Return whether a call of a function is due."""
        known = self._by_function.get(function)
        return known is None or any(not turn.closed and turn.checked <= self._round for turn in known)

    def note_missing(self, key: Key, most: int) -> None:
        """Note that a call received no gradients; after `most` times in a row it is assumed to have none."""
        turn = self._turns[key]
        turn.absent += 1
        if not turn.checked and turn.absent >= most:
            turn.closed = "it received no gradients"

    def end_step(self) -> None:
        """End a step; a new round begins when each of its calls has had its turn."""
        present = [
            turn
            for turn in self._turns.values()
            if turn.now and not turn.closed and (turn.checked or not turn.absent)  # no gradients: it may have none
        ]
        if present:
            self._round = min(turn.checked for turn in present)
        for turn in self._turns.values():
            turn.before, turn.now, turn.is_awaited = turn.now, 0, False

    @property
    def waiting(self) -> int:
        """Return the number of distinct calls that can be checked and were not."""
        return sum(not turn.checked and not turn.closed for turn in self._turns.values())

    @property
    def known(self) -> int:
        """Return the number of distinct calls that can be checked."""
        return sum(not turn.closed for turn in self._turns.values())
