"""The columns of the table, in order, with their explanations; `reference/compare-table.md` prints this table."""

from collections.abc import Sequence
from dataclasses import dataclass

from msprobe.base.schema import NUMBERS, SHARES
from msprobe.compare.judge.judged import Comparison, Mode


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, and its explanation.

    For a sheet: its width, whether texts like `12.5%` are written as numbers, and whether it is in a collapsed group.
    """

    title: str
    text: str
    width: int = 14
    percent: bool = False
    folded: bool = False


_NAMES = (
    Column("NPU Name", "the target's record (NPU is the historic word for the target, Bench for the golden)", 50),
    Column("Bench Name", "the matched golden record; `N/A` without one", 20),
    Column("NPU Dtype", "dtype of the target's tensor, Python type of any other value", 11, folded=True),
    Column("Bench Dtype", "the same of the golden", 11, folded=True),
    Column("NPU Tensor Shape", "shape of the target's tensor, `[]` for a single value", 16, folded=True),
    Column("Bench Tensor Shape", "the same of the golden", 16, folded=True),
)

_TENSOR = (
    Column("Cosine", "cosine of the angle between the two tensors; `unsupported` for one element or none", 11),
    Column("EucDist", "L2 norm of the difference", 11),
    Column("MaxAbsErr", "largest absolute difference", 11),
    Column("MaxRelativeErr", "largest difference relative to the golden element", 15),
    Column("One Thousandth Err Ratio", "share of elements with a relative difference below 0.001", 12),
    Column("Five Thousandths Err Ratio", "share of elements with a relative difference below 0.005", 12),
)

_FIRST, *_OTHERS = NUMBERS
_STATISTICS = (
    Column(_FIRST.titles[0], f"target's {_FIRST.noun} minus golden's", 11),
    *(Column(each.titles[0], f"the same of the {each.noun}", 11) for each in _OTHERS),
    Column(
        _FIRST.titles[1],
        f"the difference relative to the golden's {_FIRST.noun}, in percent; `N/A` where that is 0",
        15,
        percent=True,
    ),
    *(Column(each.titles[1], f"the same of the {each.noun}", 15, percent=True) for each in _OTHERS),
)

_OF_VALUES = "; the value itself if it is not a tensor"
_VALUES = (
    Column(f"NPU {_FIRST.titles[2]}", f"the target's {_FIRST.noun}{_OF_VALUES}", 11, folded=True),
    *(Column(f"NPU {each.titles[2]}", f"the target's {each.noun}", 11, folded=True) for each in _OTHERS),
    *(Column(f"Bench {each.titles[2]}", f"the golden's {each.noun}", 11, folded=True) for each in NUMBERS),
)

_DIGESTS = (
    Column("NPU MD5", "the target's digest (a CRC-32, despite the heading; after `crc32c:` a CRC-32C)"),
    Column("BENCH MD5", "the golden's digest"),
)

_ACCURACY = Column(
    "Accuracy Reached or Not", "msprobe 8.1's rule: `No` for Cosine < 0.99 with MaxAbsErr > 0.001, and beyond", 11
)
_RESULT_STATISTICS = Column("Result", "msprobe 8.1's rule: `Warning` where a statistic differs by more than half", 9)
_RESULT_DIGESTS = Column("Result", "`pass` for equal digests, `Different`, `N/A` without a golden or digest", 9)
_MESSAGE = Column("Err_message", "the message of msprobe 8.1 for the row", 18)
_STACK = Column("NPU_Stack_Info", "the call's stack, innermost first, on the first row of the call; only with `-s`", 30)
_FILES = Column("Data_name", "the two npy files; `-1` for none", 40, folded=True)

_MEASURES = (
    Column("Scale Error", "largest absolute difference divided by the golden's largest finite absolute value", 11),
    Column("Max Error Index", "index of the element with the largest absolute difference", 14, folded=True),
    Column("Bias", "signed mean of target minus golden: near 0 for rounding, not for a wrong formula", 11),
    Column("Max ULP", "largest difference in units in the last place of the golden's element", 10),
)

_OURS = (
    Column("Verdict", "`pass`, `warning`, `error`, or `unjudged`; pairs that were not judged never pass", 10),
    Column("Reason", "the reason; empty for a simple pass", 60),
    Column("Begins", "`begins` where a difference starts, `received` where it was propagated, else empty", 10),
    Column(
        "Matched by",
        "`name`, `renumbered` (shifted numbers), `structure` (another name at the same place), `mapping` (given "
        "by the user), `fuzzy`; empty without a counterpart",
        11,
    ),
)

NOISE = (
    Column("Residual", "error of the target's kernel on its own inputs, if the call was executed again", 10),
    Column("Noise", "the residual up to which the difference is noise; empty if not used", 10),
    Column("Class", "precision of the target's kernel, estimated from its residual", 12),
    Column("Limits", "source of the limit: `built-in`, `calibrated`, or `exact`", 10),
)
"""Only if differences were judged under noise, after the columns of this tool."""

GUESSES = (
    Column("Match Confidence", "confidence of an automatically found pair, above 0 and at most 1", 10),
    Column("Match Reason", "evidence for the pair; without a counterpart, candidates for the call", 40),
)
"""Only across frameworks, after all others."""


def optional(names: Sequence[str]) -> tuple[Column, ...]:
    """Return two columns for each optional statistic of these names, which are displayed and never judged; `layout` is
    one."""
    texts = {each.name: each.noun for each in SHARES} | {"layout": "strides and storage offset in elements"}
    return tuple(
        Column(f"{side} {name}", f"the {of}'s {texts[name]}; empty if not recorded", 11)
        for name in names
        for side, of in (("NPU", "target"), ("Bench", "golden"))
    )


def columns(
    mode: Mode,
    with_stack: bool,
    with_guesses: bool = False,
    with_noise: bool = False,
    names: Sequence[str] = (),
) -> tuple[Column, ...]:
    """Return the columns of one comparison: those of msprobe 8.1, then those of this tool; those of noise if it was
    judged, those of guesses if pairs were guessed, and the optional statistics of these names."""
    stack = (_STACK,) if with_stack else ()
    if mode == "tensor":
        found = (*_NAMES, *_TENSOR, *_VALUES, _ACCURACY, _MESSAGE, *stack, _FILES, *_MEASURES, *_OURS)
    elif mode == "digest":
        found = (*_NAMES, *_DIGESTS, _RESULT_DIGESTS, *stack, *_OURS)
    else:
        found = (*_NAMES, *_STATISTICS, *_VALUES, _RESULT_STATISTICS, _MESSAGE, *stack, *_OURS)
    return (*found, *(NOISE if with_noise else ()), *(GUESSES if with_guesses else ()), *optional(names))


def optional_names(comparison: Comparison) -> list[str]:
    """Return the optional statistics that either side has, and `layout` if one has layouts."""
    sides = comparison.target.columns, comparison.golden.columns
    names = [each.name for each in SHARES if any(each.name in side.shares for side in sides)]
    return [*names, *["layout"] * any(side.layout for side in sides)]


def columns_of(comparison: Comparison, with_stack: bool) -> tuple[Column, ...]:
    """Return the columns of a comparison, by its result."""
    has_noise = comparison.noise_of_tensors is not None
    has_guesses = bool(comparison.pairs.notes.guesses)
    return columns(comparison.mode, with_stack, has_guesses, has_noise, optional_names(comparison))
