"""Where a table's first bad row points: three lines for the file that msprobe 8.1 calls the advisor's.

The class of the advice follows from the row's name alone, so it is a hint where to look, not a finding; which call is
wrong first, and whether its difference began there, is what `msprobe.compare.locate` says.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.files import replacing

SUSPICIOUS = frozenset({"No", "Different", "Warning"})
"""The words of msprobe 8.1 for a row that is bad: by tensors, by digests, by statistics."""

_ALL_WELL = (
    "No row is bad by msprobe 8.1's rules, which pass much: by statistics, whatever differs by less than half. What "
    "differs by the standard of its dtype is in the columns Verdict and Reason."
)
_GIVEN = (
    "The call was already given a value that differs. Look at the call that made it, further up; see whether an "
    "in-place operation wrote over it after it was made; if neither explains it, suspect memory that something else "
    "wrote to."
)
_FORWARD = "Nothing that this call was given stood out, and this does: look into how it computes forward."
_PARAMETER = (
    "A parameter of this call differs before anything was computed with it. See that both sides start from the same "
    "weights, and how the optimizer changed it since."
)
_GIVEN_BACKWARD = (
    "The gradient that arrived here differs. Gradients are made from forward results: compare those of this call and "
    "of the calls behind it first."
)
_BACKWARD = "No gradient that arrived here stood out, and this one does: look into how the call computes backward."
_ANY_ORDER = (
    " Calls of this kind may add up in another order in each run: switch on the framework's deterministic mode, "
    "collect both sides again, and see whether the difference stays."
)
_RUNNING_STATISTICS = (
    "The second input of a batch normalisation differs, which is a statistic that it keeps or a parameter of it. See "
    "that both sides set affine, track_running_stats and momentum alike and start from the same values."
)
_NO_DIRECTION = "A value that was saved by name differs. See where it is computed, and save what goes into it too."

_MAY_VARY = ("conv2d", "conv3d", "matmul", "nllloss", "layernorm", "lstm")

# A row's name: `Mint.add.0.forward.input.1`; for a cell the number stands behind the direction.
_PLACE = re.compile(
    r"(?P<call>.+?)\.(?P<direction>forward|backward)(?:\.[0-9]+)?"
    r"\.(?P<part>input|kwargs|parameters|output)(?:\.(?P<path>.+))?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Advice:
    """The first suspicious row, counted from 0, with its name and what to do; no row where all is well."""

    line: int | None
    suspect: str
    text: str


def advise(rows: Iterable[tuple[int, str, str]]) -> Advice:
    """The advice for the first row whose verdict is suspicious; a row is its number from 0, its name, its verdict.

    Rows are taken as they come, and none behind the first suspicious one is looked at.
    """
    for number, name, verdict in rows:
        if verdict in SUSPICIOUS:
            return Advice(number, name, advice_on(name))
    return Advice(None, "", _ALL_WELL)


def advice_on(name: str) -> str:
    """What to look at when the record of this name is the first that differs."""
    place = _PLACE.fullmatch(name)
    if place is None:
        return _BACKWARD + _order(name) if ".parameters_grad" in name else _NO_DIRECTION
    call, is_input = place["call"], place["part"] in ("input", "kwargs")
    if is_input and "batchnorm" in _folded(call) and place["path"] == "1":
        return _RUNNING_STATISTICS
    if place["direction"] == "backward":
        return _GIVEN_BACKWARD if is_input else _BACKWARD + _order(call)
    if place["part"] == "parameters":
        return _PARAMETER
    return _GIVEN if is_input else _FORWARD + _order(call)


def write_advice(path: Path, advice: Advice) -> None:
    """Write the three lines; OSError where the disk refuses."""
    line = "NA" if advice.line is None else str(advice.line)
    suspect = "NA" if advice.line is None else _one_line(advice.suspect)
    with replacing(path) as file:
        text = f"Line: {line}\nSuspect Nodes: {suspect}\nExpert Advice: {advice.text}\n"
        file.write(text.encode("utf-8", "replace"))


def _order(call: str) -> str:
    folded = _folded(call)
    return _ANY_ORDER if any(word in folded for word in _MAY_VARY) else ""


def _folded(call: str) -> str:
    """`layer_norm`, `LayerNorm` and `Layernorm` are one."""
    return call.lower().replace("_", "")


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
