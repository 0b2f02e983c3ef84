"""Why a pair of records has its verdict, no verdict, or its partner, as data. `judge/wording.py` writes the sentences.

No reason is built for a pair that passes by its columns; the reason of a statistic is built when it is shown.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .standard import Standard


class Why(Enum):
    """The kinds of reasons, and the fields of `Reason` that each uses."""

    @staticmethod
    def _generate_next_value_(name: str, *_: object) -> str:
        return name.lower()

    # Two values. `target` and `golden` are those of the two sides.
    VALUES = auto()  # name: the place of the record
    SHAPES = auto()
    SHAPES_TURNED = auto()  # name: the transform that converts one to the other
    SHAPES_CUT = auto()  # at: the shape that was compared
    SHAPES_FLATTENED = auto()  # at: the shape that was compared
    SHAPES_OF_FILES = auto()
    NO_COMMON_ELEMENT = auto()
    DTYPES = auto()
    DIGESTS = auto()
    COUNTS = auto()  # of elements that are NaN, inf, -inf
    STATISTIC = auto()  # name: which; excess, allowed
    STATISTIC_NON_FINITE = auto()  # name: which
    # Elements: `number` of `size` are wrong, at the index `at`.
    NON_FINITE = auto()
    NON_FINITE_SOMEWHERE = auto()  # no index
    INTEGERS = auto()  # amount: the largest difference
    SAMPLED = auto()  # amount: the relative error of the sampled elements, allowed
    ELEMENTS = auto()  # excess, amount: the largest difference, allowed
    # Across frameworks: `amount` is relative to the scale.
    SCALE = auto()  # allowed
    ALL_PARTS = auto()
    # Not comparable, on one `side` or on both.
    ONE_SIDE = auto()
    ONE_SIDE_FILE = auto()  # name: the file
    KIND_NOT_COLLECTED = auto()
    GRADIENT_LOST = auto()
    LOST = auto()
    """`side`: a value could not be collected there."""
    LOST_ON_BOTH_SIDES = auto()
    OTHER_GRADIENT = auto()  # target, golden
    SUM_COMPARED = auto()  # target, golden; name: the record of the sum that is compared
    OTHER_LEVEL = auto()  # name: the level of the other side
    UNREADABLE = auto()  # name: the failure
    FAILED = auto()  # name: the failure; names: the files
    PROCESS_DIED = auto()  # name: how; names: the files
    NOT_SAVED = auto()
    BY_STATISTICS = auto()
    PART = auto()
    NO_STATISTICS = auto()
    DIGESTS_ONLY = auto()
    DIGESTS_OF_TWO = auto()
    DIGESTS_OF_TWO_KINDS = auto()
    DAMAGED = auto()
    UNINITIALISED = auto()  # name: the operation
    UNWRITTEN = auto()
    WORKSPACE = auto()  # name: the operation
    PLACEHOLDER = auto()  # name: the operation
    FILLED = auto()  # name: the operation
    # Across frameworks: records and calls that correctly have no counterpart. `side` is a framework.
    SUM_OF_PARTS = auto()
    ONE_VALUE = auto()  # target: the value, golden: the values on the other side
    ONE_VALUE_EQUAL = auto()  # the same
    NULL = auto()
    INNER_NODE = auto()
    NOISE = auto()
    """`amount` and `excess` are the residuals of target and golden, `allowed` the bound of noise; `RESIDUAL` exceeds
    it, or is an outlier by the sign `name`. If a call was not replayed, `amount` is the relative error and `allowed`
    the error that the inputs explain. `names` has the source of the limit that decided, unless it is built in."""
    RESIDUAL = auto()
    NOISE_AMPLIFIED = auto()
    BEYOND_INPUTS = auto()
    NOISE_OF_STATISTICS = auto()
    """By statistics: `amount` is their difference, `allowed` the difference that noise explains; the next kind exceeds
    it. For an identity between them, `name` is the identity and `side` the statistic: `amount` and `excess` are its
    errors on target and golden, `allowed` the bound."""
    BEYOND_STATISTICS = auto()
    LAW_KEPT = auto()
    LAW_BROKEN = auto()
    NOISE_BEFORE = auto()
    DIES_OUT = auto()
    IGNORED = auto()  # name: the user's name for it
    USER_TOLERANCE = auto()  # amount, allowed: the absolute and relative part; names: the options
    UNSHOWN = auto()
    """An argument differs, and there is no evidence whether that has an effect."""
    WIDE_BOUND = auto()  # amount: the difference; allowed: the difference that its inputs explain
    DRIFT_SETTINGS = auto()
    """A parameter differs by drift; the kinds of `DRIFT_` are the bases on which its update was judged."""
    DRIFT_GRADIENTS = auto()
    DRIFT_UPDATES = auto()
    DRIFT_STATISTICS = auto()
    DRIFT_ONLY = auto()
    DRIFT_ROUNDED = auto()
    DRIFT_EARLIER = auto()  # the previous step is unknown: more than rounding, not more than the drift of two runs
    DRIFT_ROUNDING = auto()
    """The gradient of a parameter is rounding error on both sides, so its update is arbitrary."""
    UPDATE_DIFFERS = auto()
    """The update of a parameter differs by `excess` times the limit; `name` is the `Basis` that decided."""
    NO_RESULT = auto()
    NO_RESULT_OF_CALL = auto()
    BUFFER = auto()
    NO_RESULT_OF_GRADIENT = auto()
    DEFAULT = auto()
    OTHER_DEFAULT = auto()  # name: the argument; target: its value, golden: that of the other side
    OTHER_WAY = auto()
    NO_EFFECT = auto()
    NO_ARGUMENT = auto()
    ONE_ARGUMENT = auto()
    CELL_ARGUMENT = auto()
    NO_COUNTERPART = auto()  # name: why
    LAST_ONLY = auto()
    PASSED_THROUGH = auto()
    COMPARED_LATER = auto()
    OF_FORWARD = auto()
    NOBODY_USES = auto()
    NOT_COMPARED = auto()
    OTHER_STEP = auto()
    ZEROS = auto()
    UNNEEDED = auto()
    # Pairs that were found automatically.
    LIKENESS = auto()  # name: the property that agrees
    FUSED = auto()
    LAST_GRADIENTS = auto()
    CANDIDATES = auto()  # names: the candidates
    # A rollout.
    TEXT = auto()  # name: the text


class Cause(Enum):
    """Why a pair has no verdict; the value completes `12 pairs ...`.

    An exempt pair could not show a fault of the target, or the user ignores it, and a comparison is clean with it. Any
    other one leaves the question open, and the comparison is not clean.
    """

    UNMATCHED = "without a partner"
    NOT_COLLECTED = "not collected on one side"
    LOST_ON_BOTH_SIDES = "that could not be collected on either side"
    LOST_WITHIN = "that could not be collected on either side, where what follows is compared"
    UNREADABLE = "in files that are missing or cannot be read"
    NOT_SAVED = "without statistics, whose tensors one side did not save"
    NO_STATISTICS = "without statistics on one side"
    DIGEST_AGAINST_STATISTICS = "with digests on one side and statistics on the other"
    DIGESTS_OF_TWO_FRAMEWORKS = "with digests of two frameworks and no statistics"
    DIGESTS_OF_TWO_KINDS = "with digests of two kinds; collect both sides with the same summary_mode"
    PART = "of which one is a part of the other, which statistics cannot compare"
    OTHER_GRADIENT = "with a call's own gradient on one side and an accumulated one on the other"
    INNER_NODE = "with the gradient of an inner node of autograd on one side"
    FAILED = "whose comparison failed"
    UNUSED = "of unused values"
    UNNEEDED_GRADIENT = "of unused gradients"
    NO_COUNTERPART = "without a counterpart in the other framework"
    INTERNAL = "internal details of one framework"
    OTHER_LEVEL = "of calls that the level of the other side does not record"
    SUMMED = "with a call's own gradient on one side and an accumulated one on the other, which is compared elsewhere"
    HARMLESS = "whose difference has no effect"
    REWRITTEN = "of calls on one side only, without effect"
    IGNORED = "ignored by the user"
    UNSHOWN = "of arguments that differ, whose effect is below the noise"
    WIDE_BOUND = "whose inputs explain more than 10 %, which is inconclusive"
    EARLIER = "of parameters that earlier steps, which were not compared, made differ by more than rounding"

    @property
    def is_exempt(self) -> bool:
        """Whether the pair could not show a fault."""
        return self in (
            Cause.UNUSED,
            Cause.LOST_WITHIN,
            Cause.UNNEEDED_GRADIENT,
            Cause.NO_COUNTERPART,
            Cause.OTHER_LEVEL,
            Cause.SUMMED,
            Cause.HARMLESS,
            Cause.IGNORED,
            Cause.INTERNAL,
            Cause.REWRITTEN,
        )


CAUSES = tuple(Cause)


@dataclass(frozen=True, slots=True)
class TensorLook:
    """A tensor where the other side has another value."""

    dtype: str
    shape: tuple[int, ...] | None


class Reason(NamedTuple):  # across frameworks most rows have one, and creating a frozen dataclass takes twice as long
    """One reason. Its kind determines which fields are used; the others are empty.

    `excess`: a difference in units of the allowance. `allowed`: the standard, or a value relative to the scale.
    """

    why: Why
    side: str = ""
    name: str = ""
    names: tuple[str, ...] = ()
    target: object = None
    golden: object = None
    number: int = 0
    size: int = 0
    at: tuple[int, ...] | None = None
    excess: float = 0.0
    amount: float = 0.0
    allowed: "Standard | float" = 0.0


Reasons = tuple[Reason, ...]
"""Why a pair of records has its verdict: mostly one reason, none for a plain pass."""

DRIFT = frozenset(why for why in Why if why.name.startswith("DRIFT_"))
"""The kinds of parameters that only drifted."""


def is_open_drift(reasons: Reasons) -> bool:
    """Return whether a parameter differs by more than rounding, and the previous step is unknown."""
    return any(reason.why is Why.DRIFT_EARLIER for reason in reasons)
