"""What may be wrong before a training, as data."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What was found; the names are those of the JSON."""

    NEIGHBOUR = "neighbour"
    MISSING = "missing package"
    VERSION = "unsupported version"
    UNTESTED = "untested version"
    TWO_TORCHES = "two packages torch"
    NO_FRAMEWORK = "no framework"
    NO_EXTENSION = "no compiled extension"
    NOT_A_FOLDER = "no folder"
    NOT_WRITABLE = "not writable"
    LITTLE_SPACE = "little disk space"
    FEW_FILES = "few free inodes"
    BUDGET = "budget above disk space"
    NO_LOCKS = "no file locks"
    OTHER_RUN = "another run"
    REFUSED = "refused"
    DEPENDS = "refused in some modes"
    WITHOUT_EFFECT = "without effect"
    TAKEN_AS = "taken as"
    PATTERN = "pattern matches nothing"
    RANKS = "ranks that do not exist"
    STEPS = "steps that do not exist"
    NEEDS_CALL = "needs a call"


NOTES = frozenset({Kind.UNTESTED, Kind.NO_FRAMEWORK, Kind.OTHER_RUN, Kind.DEPENDS, Kind.NEEDS_CALL})
"""Findings that are worth knowing and stand in the way of nothing."""


@dataclass(frozen=True)
class Obstacle:
    """One finding. `subject`: a package, a path, or the place of a setting; `value`: what it has; `expected`: what it
    should have; `reason`: the words of whoever refuses, which nobody reads but users.
    """

    kind: Kind
    subject: str
    value: str = ""
    expected: str = ""
    reason: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether something fails or is not collected because of it."""
        return self.kind not in NOTES
