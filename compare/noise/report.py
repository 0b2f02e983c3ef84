"""What judging under noise found, as data: the state of every pair of records, its evidence, the precision classes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from .limits import BUILT_IN, Kind, Limits, Source
from .precision import Class, Sign


class State(IntEnum):
    """What a difference between a pair of records is.

    `ELSEWHERE`: what two blocks of two frameworks take or return, where one of them begins or ends a step later; each
    of the two tensors is compared where its call has its counterpart.
    """

    EQUAL = 0
    NOISE = 1
    PROPAGATED = 2
    DIVERGENT = 3
    UNKNOWN = 4
    HARMLESS = 5
    ELSEWHERE = 6


@dataclass(frozen=True, slots=True)
class Evidence:
    """What decided about an output, by its pair of records.

    `residual` is the target's eta, `golden_residual` the golden's, `bound` what was allowed; NaN where the call was not
    replayed, and then `apart` (the relative error of the output) was held against `explained`, ten times that of the
    inputs, or what a calibration allows. `source` is whose limit decided. `kind` is the kind of output; `amplification`
    is how many times the inputs' relative error the output's is.

    By statistics `law` and `statistic` name the identity that decided: `residual` and `golden_residual` are what it is
    off on the two sides. Without one, `apart` is by how much the statistics differ, and `explained` what noise may
    make of the inputs' differences.
    """

    sign: Sign
    is_of: Class
    residual: float
    golden_residual: float
    bound: float
    apart: float
    explained: float
    option: str = ""
    source: Source = Source.BUILT_IN
    kind: Kind | None = None
    amplification: float = math.nan
    law: str = ""
    statistic: str = ""
    is_by_statistics: bool = False


@dataclass(frozen=True, slots=True)
class PrecisionClass:
    """Operations of one side that are coarser throughout than float32: a property of the device, no error."""

    side: str
    is_of: Class
    operations: tuple[str, ...]
    calls: int


@dataclass(frozen=True, slots=True)
class Unseen:
    """What noise hides of a comparison by statistics; that elements changed places these never show.

    `outputs` is how many were judged by what their calls amplify, and `share` the median of what is noise of them, as a
    share of an output's norm or root mean square; NaN where there are none. `by_identity` is how many are explained.
    """

    share: float
    outputs: int
    by_identity: int


@dataclass(frozen=True, eq=False)
class Noise:
    """The judgement of one comparison.

    `states` has one `State` per pair of records. `is_exact`: nothing was explained by noise, so that the two runs are
    equal to the bit but for what diverges. `harmless` are the pairs of records where differences originate that die
    out. `replayed` and `not_replayed` count calls, the latter by cause. `limits` are those by which it was judged.
    `unseen` is what statistics leave open; None where elements were compared.
    """

    states: NDArray[np.uint8]
    evidence: Mapping[int, Evidence] = field(default_factory=dict)
    classes: tuple[PrecisionClass, ...] = ()
    is_exact: bool = False
    harmless: tuple[int, ...] = ()
    stretches: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    replayed: int = 0
    not_replayed: Mapping[str, int] = field(default_factory=dict)
    limits: Limits = BUILT_IN
    unseen: Unseen | None = None

    def differs(self) -> NDArray[np.bool_]:
        """Which pairs of records differ by more than noise, here or before."""
        return np.isin(self.states, (State.PROPAGATED, State.DIVERGENT))

    def diverges(self, row: int) -> bool:
        """Whether the difference of a pair of records originates here."""
        return bool(self.states[row] == State.DIVERGENT)
