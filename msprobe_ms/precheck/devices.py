"""Two devices side by side: the errors of one against float64, divided by those of the other.

An output that is off by more than the standard allows may still be as good as the same kernel elsewhere, and one within
the standard may be far worse. The ratios are those of the benchmark and ULP standards (`standards`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from msprobe.base import names
from msprobe.replay.operations import operation, plain_name

from .judge import Status
from .standards import LIMITS, RATIOS, STANDARDS, ULP_FAR_SHARE, ULP_MEAN, ULP_NEAR_SHARE, Criterion

Row = Mapping[str, str]


class Cause(Enum):
    """Why an output is as it is."""

    WITHIN = "within the limit"
    STANDARD = "only this device does not meet the standard"
    RATIO = "the error is a multiple of the error of the other device"
    ABSENT = "the other file does not have the output"
    TORN = "a row of a file has more or fewer fields than the header"
    ONLY_GOLDEN = "only the other file has the output"
    NO_NUMBERS = "an error could not be measured"


@dataclass(frozen=True, slots=True)
class Compared:
    """One output on both devices. `ratios`: of each error by its column; `exceeded`: the column that decided."""

    name: str
    dtype: str
    criterion: Criterion
    status: Status
    cause: Cause
    ratios: Mapping[str, float]
    exceeded: str = ""


def compared(target: Sequence[Row], golden: Sequence[Row]) -> list[Compared]:
    """Return every output of the target's details with that of the same name in the golden's, in the target's order."""
    others = {row["API Name"]: row for row in golden}
    return [_compared(row, others.get(row["API Name"])) for row in target]


def _compared(row: Row, other: Row | None) -> Compared:
    name, dtype = row["API Name"], row["Tested Dtype"]
    call = names.parse(name.partition(".output.")[0])
    known = operation(plain_name(call.stem.rpartition(".")[2]))
    criterion = STANDARDS.get(known.name, Criterion.BENCHMARK) if known is not None else Criterion.BENCHMARK
    if dtype not in LIMITS:
        criterion = Criterion.BINARY

    def found(status: Status, cause: Cause, ratios: Mapping[str, float] | None = None, exceeded: str = "") -> Compared:
        return Compared(name, dtype, criterion, status, cause, ratios or {}, exceeded)

    if criterion is Criterion.ACCUMULATIVE:  # is of one device alone
        criterion = Criterion.BENCHMARK
    if criterion in (Criterion.BINARY, Criterion.ABSOLUTE, Criterion.THOUSANDTH, Criterion.DROPOUT):
        if row["Status"] not in (Status.PASS.value, Status.WARNING.value, Status.ERROR.value):
            return found(Status.SKIP, Cause.NO_NUMBERS)
        status = Status(row["Status"])
        return found(status, Cause.STANDARD if status is Status.ERROR else Cause.WITHIN)
    if other is None:
        return found(Status.SKIP, Cause.ABSENT)
    least = LIMITS[dtype].denominator
    if criterion is Criterion.ULP:
        mean, share = _number(row, "Mean ULP"), _number(row, "ULP Share")
        if mean is None or share is None:
            return found(Status.SKIP, Cause.NO_NUMBERS)
        is_half = dtype in ("float16", "bfloat16")
        ratio = _ratio(row, other, "ULP Share" if is_half else "Mean ULP", least)
        ratios = {} if ratio is None else {"ULP": ratio}
        alone = share < ULP_NEAR_SHARE if is_half else mean < ULP_MEAN or share < ULP_FAR_SHARE
        if alone or (ratio is not None and ratio < 1):
            return found(Status.PASS, Cause.WITHIN, ratios)
        return found(Status.ERROR, Cause.RATIO, ratios, "ULP")
    ratios = {key: value for key in RATIOS if (value := _ratio(row, other, key, least)) is not None}
    if not ratios:
        return found(Status.SKIP, Cause.NO_NUMBERS)
    exceeded = next((key for key, value in ratios.items() if value > RATIOS[key]), "")
    return found(Status.ERROR if exceeded else Status.PASS, Cause.RATIO if exceeded else Cause.WITHIN, ratios, exceeded)


def _number(row: Row, key: str) -> float | None:
    try:
        return float(row[key])
    except ValueError:
        return None


def _ratio(row: Row, other: Row, key: str, least: float) -> float | None:
    """Return target / max(golden, least denominator); None if one is not a number."""
    a, b = _number(row, key), _number(other, key)
    return None if a is None or b is None else a / max(b, least)
