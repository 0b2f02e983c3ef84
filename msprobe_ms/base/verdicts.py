"""Exit codes and last lines of all commands.

| exit code | |
|---|---|
| 0 | everything requested was judged and is fine |
| 1 | something is wrong or could not be judged; the last line has the number |
| 2 | nothing could be judged, or the command was wrong |

A command counts its results in `Verdicts`, returns their `exit_code`, and ends with `last_line`. Things that a rule
does not apply to are not counted: a frozen parameter has no gradient to be judged.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .phrase import Words, and_more, joined, phrase


class Gap(Enum):
    """Common reasons why something could not be judged."""

    NO_STATISTICS = "records without statistics"
    ODD_STATISTICS = "records whose statistics are not numbers"
    DIGESTS_ONLY = "records with digests and without statistics"
    UNREADABLE_TENSOR = "tensors that cannot be read"
    NOT_COLLECTED = "parts that were not collected"
    NO_RECORDS = "dumps without a tensor"
    UNREADABLE_DUMP = "dumps that cannot be read"
    NO_DUMP = "folders of a step or rank without a dump"
    UNREADABLE_FOLDER = "folders that cannot be read"
    NO_VERDICT = "invariants without a verdict"
    NO_PARTNER = "dumps, values or parts without a counterpart that could be judged"


_CAUSES = 4
"""Maximum number of reasons in a line."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Numbers of results.

    fine, wrong : numbers of things that are fine or wrong.
    gaps : number of things that could not be judged, by reason; the value of a reason is a plural noun.
    """

    fine: int = 0
    wrong: int = 0
    gaps: Mapping[Any, int] = field(default_factory=dict)

    def __add__(self, other: "Verdicts") -> "Verdicts":
        return Verdicts(self.fine + other.fine, self.wrong + other.wrong, Counter(self.gaps) + Counter(other.gaps))

    @property
    def judged(self) -> int:
        """Return the number of things that were judged."""
        return self.fine + self.wrong

    @property
    def unjudged(self) -> int:
        """Return the number of things that could not be judged."""
        return sum(self.gaps.values())

    @property
    def total(self) -> int:
        """Return the number of all things."""
        return self.judged + self.unjudged

    @property
    def exit_code(self) -> int:
        """Return the exit code."""
        if not self.judged:
            return 2
        return 1 if self.wrong or self.unjudged else 0

    def exit_code_of(self, exit_zero: bool) -> int:
        """Return the exit code of a command with or without --exit-zero, which changes 1 to 0, but not 2."""
        return 0 if exit_zero and self.exit_code == 1 else self.exit_code


def total(several: Iterable[Verdicts]) -> Verdicts:
    """Return the sum of several verdicts."""
    found = Verdicts()
    for one in several:
        found += one
    return found


def last_line(answer: Words, verdicts: Verdicts) -> Words:
    """Return the answer, followed by the number of things that could not be judged, and the reasons."""
    if not verdicts.unjudged:
        return answer if verdicts.judged else phrase("nothing could be judged: nothing to judge was found")
    if not verdicts.judged:
        return phrase("nothing could be judged: {causes}", causes=_causes(verdicts.gaps))
    return phrase(
        "{answer}; {number} could not be judged: {causes}",
        answer=answer,
        number=verdicts.unjudged,
        causes=_causes(verdicts.gaps),
    )


def _causes(gaps: Mapping[Any, int]) -> Words:
    """Return reasons and numbers, the most frequent first: `records without statistics (12), ...`."""
    found = sorted(((cause, number) for cause, number in gaps.items() if number), key=lambda each: -each[1])
    listed = [phrase("{cause} ({number})", cause=phrase(cause.value), number=number) for cause, number in found]
    parts = joined(listed[:_CAUSES], "{before}, {after}")
    return and_more(parts, sum(number for _, number in found[_CAUSES:]))


NONE = Verdicts()
"""Verdicts of nothing."""
