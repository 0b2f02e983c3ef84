"""The rule for exit codes and last lines that all commands share.

| exit code | |
|---|---|
| 0 | everything that was asked for was judged and is fine |
| 1 | something is wrong or could not be judged; the last line has the number |
| 2 | nothing could be judged, or the command was wrong |

A command counts what it was asked to judge in a `Verdicts`, returns its `exit_code`, and ends with `last_line`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .phrase import Words, phrase


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How many of the things that were asked for are fine, are wrong, and could not be judged."""

    fine: int = 0
    wrong: int = 0
    unjudged: int = 0

    def __add__(self, other: "Verdicts") -> "Verdicts":
        return Verdicts(self.fine + other.fine, self.wrong + other.wrong, self.unjudged + other.unjudged)

    @property
    def judged(self) -> int:
        """How many have a verdict."""
        return self.fine + self.wrong

    @property
    def total(self) -> int:
        """How many were asked for."""
        return self.judged + self.unjudged

    @property
    def exit_code(self) -> int:
        """The exit code by the rule above."""
        if not self.judged:
            return 2
        return 1 if self.wrong or self.unjudged else 0

    def exit_code_of(self, exit_zero: bool) -> int:
        """The same for a command with --exit-zero, which turns 1 into 0, and never 2."""
        return 0 if exit_zero and self.exit_code == 1 else self.exit_code


def total(several: Iterable[Verdicts]) -> Verdicts:
    """The sum of several counts."""
    found = Verdicts()
    for one in several:
        found += one
    return found


def last_line(answer: Words, verdicts: Verdicts, things: Words, why: Words) -> Words:
    """An answer, completed by how many `things` could not be judged, and why."""
    number, among = verdicts.unjudged, verdicts.total
    if not among:
        return phrase("nothing could be judged: {why}", why=why)
    if not verdicts.judged:
        return phrase("nothing could be judged of {among} {things}: {why}", among=among, things=things, why=why)
    if not number:
        return answer
    return phrase(
        "{answer}; {number} of {among} {things} could not be judged: {why}",
        answer=answer,
        number=number,
        among=among,
        things=things,
        why=why,
    )
