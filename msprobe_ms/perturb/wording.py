"""Sentences made of what second runs found. Decisions read the fields of findings, never these."""

from collections.abc import Sequence

from msprobe.base.errors import reason
from msprobe.findings.catalogue.single_calls import ILL_CONDITIONED, INCONSISTENT
from msprobe.store.free_benchmark import TABLE, Row

from .finding import Cause, Place, Sensitivity

_CAUSES = {
    Cause.NO_TENSOR: "has no tensor among its arguments",
    Cause.NO_INPUT: "has no supported input type",
    Cause.EMPTY: "has an input without elements",
    Cause.TOO_SMALL: "has an input smaller than the noise",
    Cause.TOO_FEW: "has an input with fewer than two elements, which cannot be permuted",
    Cause.FORMAT: "has an input of a dtype that this pert_mode does not apply to",
    Cause.NOTHING_TO_RAISE: "already computes in float32 or float64",
    Cause.ON_CPU: "already has all tensors on the CPU",
    Cause.RANDOM: "draws random numbers",
    Cause.CODE: "has a function argument, which would be run twice",
    Cause.FOREIGN: "has a tensor in a container or of a class that cannot be copied",
    Cause.TRANSFORM: "is run by a transform of functions, such as vmap",
    Cause.NO_DATA: "has a tensor without data",
    Cause.NO_GRADIENT: "has no gradient between any input and output",
    Cause.IN_PLACE: "returns or modifies its own argument, which a fix cannot replace",
}


def skipped(name: str, cause: Cause) -> str:
    """Why a call is not run a second time."""
    return f"{name} {_CAUSES[cause]}; it is not run a second time"


def on_cpu_already() -> str:
    """The mode `to_cpu` where the training runs on the CPU."""
    return (
        'free_benchmark: pert_mode "to_cpu": the tensors are already on the CPU, so a second run only shows '
        "whether calls are deterministic, and a fix has no effect"
    )


def failed(name: str, cause: Exception) -> str:
    """A second run, or its comparison, raised an exception."""
    return (
        f"free_benchmark: the second run of {name} failed: {reason(cause)}; the training continues with the original "
        "result"
    )


def not_written(path: object, cause: Exception) -> str:
    """The disk refused."""
    why = getattr(cause, "strerror", None) or reason(cause)
    return f"free_benchmark: {path} cannot be written: {why}; the training continues, and the rows are lost"


def inconsistent(row: Row, place: Place) -> str:
    """An output changed too much; once per API and line."""
    where = f" at {located(place)}" if place.file else ""
    return (
        f"{row.api} is not consistent [{INCONSISTENT.code}]: max_rel {row.max_rel:.4g} by {row.mode}, {row.stage}, "
        f"step {row.step}{where}; further results of this line are only in {TABLE}"
    )


def located(place: Place) -> str:
    """`train.py:41, in loss: y = a - b`."""
    text = f"{place.file}:{place.line}"
    text += f", in {place.function}" if place.function else ""
    return text + (f": {place.source}" if place.source else "")


MOST = 3
"""Lines that the log names."""


def leaders(found: Sequence[Sensitivity]) -> list[str]:
    """The most sensitive calls, at most three, each in a line; a single line where no call amplifies much."""
    named = [each for each in found if each.is_ill_conditioned][:MOST]
    if not named:
        top = max((each.condition for each in found), default=0.0)
        return [
            f"free_benchmark: no call is an outlier; a relative change of an input is amplified at most {_times(top)}"
        ]
    code = ILL_CONDITIONED.code
    return [f"free_benchmark: {number}. {sensitive(each)} [{code}]" for number, each in enumerate(named, 1)]


def sensitive(each: Sensitivity) -> str:
    """How strongly one line amplifies a change, and beside what."""
    text = f"{each.worst} in step {each.step} amplifies a relative change of its input {_times(each.condition)}"
    if each.usual is not None:
        peers = f"other lines with {each.stem}" if each.of_kind else "the other calls of this run"
        text += f", where {peers} have {each.usual:.2g}"
    return text + (f" ({located(each.place)})" if each.place.file else "")


def _times(factor: float) -> str:
    return f"{factor:.2g} times" if factor != float("inf") else "without bound: its output was all zeros"
