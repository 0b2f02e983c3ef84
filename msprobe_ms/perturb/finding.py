"""Results of the second runs of a training, as data."""

from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    """Changes of the inputs of the second run (`pert_mode`)."""

    IMPROVE_PRECISION = "improve_precision"
    ADD_NOISE = "add_noise"
    BIT_NOISE = "bit_noise"
    CHANGE_VALUE = "change_value"
    NO_CHANGE = "no_change"
    TO_CPU = "to_cpu"
    """The second run is on the CPU."""


class Stage(Enum):
    """The compared values: the outputs of the call, or the gradients of its inputs (`fuzz_stage`)."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Cause(Enum):
    """Reasons why a call was not run a second time, or not compared.

    | cause | the call |
    |---|---|
    | `NO_TENSOR` | no argument is a tensor |
    | `NO_INPUT` | no tensor has a floating-point dtype |
    | `EMPTY` | the input has no elements |
    | `TOO_SMALL` | all elements of the input are smaller than the noise |
    | `TOO_FEW` | the input has fewer than two elements, which cannot be permuted |
    | `FORMAT` | the mode does not apply to the input's dtype: bfloat16 with `bit_noise`, float8 |
    | `NOTHING_TO_RAISE` | every floating-point tensor is already float32 or float64 |
    | `ON_CPU` | a fix by `to_cpu` would run it again on the same device |
    | `RANDOM` | it draws random numbers |
    | `CODE` | an argument is a user's function, which would be run twice |
    | `FOREIGN` | a tensor is in a container or of a class that cannot be copied safely |
    | `TRANSFORM` | it runs inside `vmap`, `grad` or another function transform |
    | `NO_DATA` | a tensor has no elements now: its storage was freed, or it is only an initializer |
    | `NO_GRADIENT` | no input, or no output, can have a gradient |
    | `IN_PLACE` | it changes its arguments, which a fix could not undo |
    | `FAILED` | the second run raised an exception |
    """

    NO_TENSOR = "no tensor"
    NO_INPUT = "no input"
    EMPTY = "empty"
    TOO_SMALL = "too small"
    TOO_FEW = "too few"
    FORMAT = "format"
    NOTHING_TO_RAISE = "nothing to raise"
    ON_CPU = "on the CPU already"
    RANDOM = "random"
    CODE = "code"
    FOREIGN = "foreign"
    TRANSFORM = "transform"
    NO_DATA = "no data"
    NO_GRADIENT = "no gradient"
    IN_PLACE = "in place"
    FAILED = "failed"


class Skipped(Exception):  # not an error: ends the preparation of a second run that is skipped
    """This call is not run a second time."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.value)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code that calls an API; `file` is empty if it is not known."""

    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""

    def __str__(self) -> str:
        """Return `train.py:41, in loss: y = a - b`; empty without a file."""
        function = f", in {self.function}" if self.function else ""
        source = f": {self.source}" if self.source else ""
        return f"{self.file}:{self.line}{function}{source}" if self.file else ""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two outputs of a call.

    `ratio` is the larger of the largest quotients of their elements, in both directions; 8.0 if a sign flipped.
    `change` and `size` are the sums of squares of the difference and of the original. `unequal` elements differ at all;
    `non_finite` elements are finite in exactly one of the two.
    """

    ratio: float
    change: float
    size: float
    unequal: int
    non_finite: int


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The amplification of input changes by the calls of one API at one line.

    `condition` is the relative change of the outputs divided by that of the inputs, in the 2-norm: for the call
    `worst`, in `step`, where it is largest, and `typical` its median over the calls. `usual` is the median of `typical`
    over the other lines of the same API (`of_kind`), or of the run if there are fewer than two; None if this is the
    only line. `excess` is `condition` divided by it.
    """

    stem: str
    place: Place
    worst: str
    step: int
    calls: int
    condition: float
    typical: float
    usual: float | None
    of_kind: bool
    excess: float
    inconsistent: int
    max_rel: float
    non_finite: int

    @property
    def is_ill_conditioned(self) -> bool:
        """Return whether a change of the inputs costs a digit, and more than on other lines."""
        return self.condition >= AMPLIFIES and self.excess >= AMPLIFIES


AMPLIFIES = 10.0
"""From this on a change is amplified: one decimal digit is lost."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Results of one rank so far; `sensitivities` with the largest excess first."""

    rank: int | None
    mode: Mode
    stage: Stage
    steps: tuple[int, ...]
    compared: int
    inconsistent: int
    fixed: int
    skipped: tuple[tuple[Cause, int], ...]
    sensitivities: tuple[Sensitivity, ...]
