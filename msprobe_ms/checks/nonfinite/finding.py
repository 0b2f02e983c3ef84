"""What the search for non-finite values finds, as data; `wording.py` makes sentences of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from msprobe.base.verdicts import NONE, Verdicts
from msprobe.compare.ranks.collectives import Exchange, Node
from msprobe.findings.kind import Kind

from .values import Amount


@dataclass(frozen=True, slots=True)
class Origin:
    """A call at which non-finite values come into the records of a rank, of a kind of `findings/catalogue/nonfinite`.

    `inputs` and `outputs` are its records that are not finite. `source` names what the value comes from: the parameter,
    the call that gave uninitialised memory, a collective whose result was not recorded. `ranks` are those that are
    missing. `previous` is the step before, which had none; None where it is not known. `is_absorbed`: every recorded
    call that took its outputs gave finite values, forward and backward. `exchanges` is how many exchanges were before
    it on its rank.
    """

    rank: int
    name: str
    cell: str
    kind: Kind
    inputs: tuple[Amount, ...] = ()
    outputs: tuple[Amount, ...] = ()
    source: str = ""
    ranks: tuple[int, ...] = ()
    previous: int | None = None
    file: str = ""
    line: int | None = None
    is_absorbed: bool = False
    exchanges: int = 0
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class RankWalk:
    """One rank: its exchanges, and the origins in the order of their calls.

    `received` has, by the place of an exchange whose result is not finite, what is known of it as an origin.
    `unrecorded` are the exchanges whose result was not recorded. `masks` counts calls that fill in an infinity on
    purpose, or get one, and whose infinities nothing but finite values is made of. `unjudged` says why nothing can be
    said of this rank.
    """

    rank: int
    exchanges: tuple[Exchange, ...] = ()
    origins: tuple[Origin, ...] = ()
    received: Mapping[int, Origin] | None = None
    unrecorded: frozenset[int] = frozenset()
    masks: int = 0
    unjudged: str = ""
    verdicts: Verdicts = NONE
    """Of its records."""
    has_ended: bool = False
    """Whether the collection ended at an overflow (task `overflow_check`): later exchanges are not in the dump."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found in one step of all ranks.

    `first` are the origins whose place comes first, by rank: one, or several that are independent of each other.
    `others` are further calls at which non-finite values begin by themselves. `masks` as in `RankWalk`; `unjudged` are
    ranks with the reason.
    """

    step: int | None
    ranks: tuple[int, ...]
    first: tuple[Origin, ...] = ()
    others: tuple[Origin, ...] = ()
    masks: int = 0
    unjudged: tuple[tuple[int, str], ...] = ()
    verdicts: Verdicts = NONE
    """Of the records of all ranks; those in `first` are wrong."""
