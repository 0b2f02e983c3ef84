"""Up to where a difference is noise, and who says so: the limits that are built in, those of a calibration, or none.

A calibration is a comparison of another trusted run with the golden (`calibration.py`, `noise_file.py`). It widens a
limit where that run needs more than what is built in, and it withdraws the excuse of a precision class from kinds of
outputs that it knows to be finer: `docs/noise.md`, "Calibration".
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from math import inf
from typing import NamedTuple

FACTOR = 3.0
"""A limit is so many times the greatest that a calibration has seen: two seeds, shapes or orders of sums differ by
less. The same factor holds between the golden's residuals and the target's."""


class Source(Enum):
    """Who says up to where a difference is noise."""

    BUILT_IN = "built-in"
    CALIBRATED = "calibrated"
    EXACT = "exact"


class Kind(NamedTuple):
    """What outputs have in common that one kernel computes: `output` is its position, or the kind of cell."""

    operation: str
    direction: str
    output: str


@dataclass(frozen=True, slots=True)
class KindResidual:
    """The residuals of one kind of output within one precision class, on a trusted run.

    `eta` is the greatest of `outputs` many; `signs` are the names of those by which some of them stood out of their
    kin, although the run is trusted.
    """

    kind: Kind
    precision: str
    eta: float
    outputs: int = 1
    signs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KindAmplification:
    """The greatest relative error of a kind of output over that of its inputs, where no reference knows the call."""

    kind: Kind
    amplification: float
    outputs: int = 1


@dataclass(frozen=True, slots=True)
class Drift:
    """How far parameters are apart after the first update, in units of the built-in limit; by what that rests on."""

    basis: str
    excess: float
    parameters: int = 1


@dataclass(frozen=True)
class Limits:
    """All limits of one comparison.

    `file` is the noise.json that holds them. `sides` says how the trusted run and the golden were made: `framework`,
    and versions as their dumps have them. `first_wrong` names calls of the trusted run that are wrong by the built-in
    limits: calibrated on those, limits may hide a fault.
    """

    source: Source = Source.BUILT_IN
    file: str = ""
    residuals: tuple[KindResidual, ...] = ()
    amplifications: tuple[KindAmplification, ...] = ()
    drifts: tuple[Drift, ...] = ()
    first_wrong: tuple[str, ...] = ()
    sides: tuple[Mapping[str, str], ...] = field(default=())

    @property
    def is_exact(self) -> bool:
        """Whether no difference is noise."""
        return self.source is Source.EXACT

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Of the trusted run and of the golden."""
        return tuple(side.get("framework", "") for side in self.sides)

    def eta(self, kind: Hashable, most: float = inf) -> float | None:
        """The residual up to which outputs of a kind may be noise, by those up to `most` that the trusted run has; None
        for a kind of which it has none."""
        found = [row.eta for row in self._by_kind.get(kind, ()) if row.eta <= most]
        return FACTOR * max(found) if found else None

    def has_shown(self, kind: Hashable, sign: str, eta: float) -> bool:
        """Whether the trusted run stood out by the same sign in this kind of output, and by about as much."""
        return any(sign in row.signs and eta <= FACTOR * row.eta for row in self._by_kind.get(kind, ()))

    def amplification(self, kind: Hashable, built_in: float) -> float:
        """How many times the inputs' relative error the output's may be, where no reference knows the call."""
        return max(built_in, FACTOR * self._amplifications.get(kind, 0.0))

    def drift(self, basis: str) -> float:
        """How many times the built-in limit parameters may be apart after the first update."""
        return max([1.0, *(FACTOR * drift.excess for drift in self.drifts if drift.basis == basis)])

    @cached_property
    def _by_kind(self) -> dict[Hashable, list[KindResidual]]:
        found: dict[Hashable, list[KindResidual]] = {}
        for row in self.residuals:
            found.setdefault(row.kind, []).append(row)
        return found

    @cached_property
    def _amplifications(self) -> dict[Hashable, float]:
        return {row.kind: row.amplification for row in self.amplifications}


BUILT_IN = Limits()
EXACT = Limits(Source.EXACT)
