"""What replaying a call gives: residuals per candidate, or the cause why it could not be replayed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Residual:
    """How far one recorded output is from the float64 reference on the call's own recorded inputs.

    `part` and `path` name the record. `count` is how many elements were looked at: all, or those of the sampled rows of
    a very large call. The figures are those of `residual.measured`, which has their formulas.
    """

    part: str
    path: tuple[str, ...]
    count: int
    eta: float
    peak: float
    bias: float
    slope: float
    relative: float


@dataclass(frozen=True)
class Replayed:
    """A call that was executed again.

    `operation` is one canonical name for both frameworks: calls of one kind share it. `moves_data`: the call only
    copies, arranges or casts its inputs, so that its outputs must be equal to the reference (rounded to their dtype).
    `residuals` are per candidate of what the record does not tell (`eps=1e-05`); the only key is "" where there is
    nothing to choose. `is_exhaustive` is False where the candidates are the usual values of an option and the call may
    have had another one (an epsilon, a stride, any attribute of a primitive): a residual that is large under every
    candidate then says nothing.
    """

    operation: str
    moves_data: bool
    residuals: Mapping[str, tuple[Residual, ...]]
    is_exhaustive: bool = True


class Cause(Enum):
    """Why a call was not replayed."""

    NO_TORCH = "torch is not installed"
    UNKNOWN_OPERATION = "no operation is known under this name"
    COMMUNICATION = "a collective: other ranks take part"
    RANDOM = "the output depends on random numbers"
    UNINITIALISED = "the output is uninitialised memory"
    MISSING_TENSOR = "a tensor of the call was not recorded, or cannot be read"
    MISSING_FORWARD = "the forward of this backward call is not in the dump"
    ACCUMULATED_GRADIENT = "a gradient is the sum over all users of a tensor"
    NOTHING_TO_MEASURE = "the call has no output, or passes no gradient, that could be measured"
    UNSUPPORTED_ARGUMENT = "an argument has no counterpart in the reference"
    UNKNOWN_CELL = "a cell whose class has no description"
    NOT_A_CALL = "a record that is no call of a function or cell"
    OTHER_SHAPE = "the reference has another shape than the record"
    TOO_LARGE = "the call is too large, and has no sample"
    FAILED = "the reference raised"


@dataclass(frozen=True)
class NotReplayed:
    """A call that was not replayed, and why; `detail` names the argument, the record or the exception's class."""

    cause: Cause
    detail: str = ""
