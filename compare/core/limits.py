"""The limits up to which a difference is noise: built in, of a calibration, or none.

A calibration is a comparison of another trusted run with the golden (`compare/jobs/calibration.py`), stored in a
noise.json (format.md, page 9). It raises a limit if that run needs more than the built-in one, and it removes the
allowance of a precision class from kinds of outputs that are known to be finer: `noise.md`, "Calibration".
"""

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

from msprobe.base.errors import UsageError
from msprobe.base.files import MAX_CONFIGURATION_BYTES, read_input, replace_atomically

NOISE = "noise.json"

_VERSION = 1
_SIDES = ("calibrated_on", "golden")
_REMEDY = "give a file written by `msprobe compare --calibrate CLEAN`"

FACTOR = 3.0
"""A limit is this multiple of the greatest value in a calibration: two seeds, shapes or orders of sums differ by less.
The same factor applies between the golden's residuals and the target's."""


class LimitSource(Enum):
    """Sources of the limits of noise."""

    BUILT_IN = "built-in"
    CALIBRATED = "calibrated"
    EXACT = "exact"


class Kind(NamedTuple):
    """The kind of outputs that one kernel computes: `output` is the position, or the kind of cell."""

    operation: str
    direction: str
    output: str


@dataclass(frozen=True, slots=True)
class KindResidual:
    """The residuals of one kind of output within one precision class, on a trusted run.

    `eta` is the greatest of `outputs` residuals; `signs` are the names of the signs by which some of them were outliers
    among their peers, although the run is trusted.
    """

    kind: Kind
    precision: str
    eta: float
    outputs: int = 1
    signs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KindAmplification:
    """The greatest ratio of the relative error of a kind of output to that of its inputs, if there is no reference for
    the call."""

    kind: Kind
    amplification: float
    outputs: int = 1


RUNNING_STATISTICS = "running statistics"
"""The basis of the drift of parameters that no optimizer updates."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The drift of parameters after the first update, in units of the built-in limit, by the basis of that limit."""

    basis: str
    excess: float
    parameters: int = 1


@dataclass(frozen=True)
class Limits:
    """All limits of one comparison.

    `file` is the noise.json that contains them. `sides` has for the trusted run and the golden `framework`, and
    versions as their dumps have them. `first_wrong` are calls of the trusted run that are wrong by the built-in limits:
    calibrated on those, limits may hide a fault.
    """

    source: LimitSource = LimitSource.BUILT_IN
    file: str = ""
    residuals: tuple[KindResidual, ...] = ()
    amplifications: tuple[KindAmplification, ...] = ()
    drifts: tuple[Drift, ...] = ()
    first_wrong: tuple[str, ...] = ()
    sides: tuple[Mapping[str, str], ...] = field(default=())

    @property
    def is_exact(self) -> bool:
        """Return whether no difference is noise."""
        return self.source is LimitSource.EXACT

    @property
    def are_of_statistics(self) -> bool:
        """Return whether they were calibrated by statistics, as `msprobe gate record --runs N` does; only these apply
        to statistics."""
        return self.source is LimitSource.CALIBRATED and not self.residuals and bool(self.amplifications)

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Return the frameworks of the trusted run and of the golden."""
        return tuple(side.get("framework", "") for side in self.sides)

    def eta(self, kind: Hashable, most: float = inf) -> float | None:
        """Return the residual up to which outputs of a kind may be noise, by residuals up to `most` of the trusted run;
        None for a kind without any."""
        found = [row.eta for row in self._by_kind.get(kind, ()) if row.eta <= most]
        return FACTOR * max(found) if found else None

    def has_shown(self, kind: Hashable, sign: str, eta: float) -> bool:
        """Return whether the trusted run had the same sign for this kind of output, with a similar residual."""
        return any(sign in row.signs and eta <= FACTOR * row.eta for row in self._by_kind.get(kind, ()))

    def amplification(self, kind: Hashable, built_in: float) -> float:
        """Return the largest ratio of the relative error of an output to that of its inputs, if there is no reference
        for the call."""
        return max(built_in, FACTOR * self._amplifications.get(kind, 0.0))

    def drift(self, basis: str) -> float:
        """Return the limit of the drift of parameters after the first update, in units of the built-in limit."""
        return max(1.0, self.drift_shown(basis) or 0.0)

    def drift_shown(self, basis: str) -> float | None:
        """Return the part of `drift` that the trusted run has shown; None if there is none."""
        return max((FACTOR * drift.excess for drift in self.drifts if drift.basis == basis), default=None)

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
EXACT = Limits(LimitSource.EXACT)


def write_noise(path: Path, limits: Limits) -> None:
    """Write the limits; a concurrent reader sees the old file or the new one. Raise an OSError if it cannot be
    written."""
    with replace_atomically(path) as file:
        file.write("\n".join(_lines(limits)).encode("utf-8", "replace") + b"\n")


def _lines(limits: Limits) -> Iterator[str]:
    """Yield one row per line, so that two files can be compared by line."""
    head = dict(zip(_SIDES, limits.sides, strict=True))
    yield "{"
    for key, value in {"noise_version": _VERSION, **head, "first_wrong": list(limits.first_wrong)}.items():
        yield f" {_json(key)}: {_json(value)},"
    residuals = [
        {
            **r.kind._asdict(),
            "class": r.precision,
            "eta": r.eta,
            "outputs": r.outputs,
            "signs": [sign.lower() for sign in r.signs],
        }
        for r in limits.residuals
    ]
    amplifications = [
        {**a.kind._asdict(), "amplification": a.amplification, "outputs": a.outputs} for a in limits.amplifications
    ]
    drifts = [{"basis": d.basis, "excess": d.excess, "parameters": d.parameters} for d in limits.drifts]
    tables = {"residuals": residuals, "amplifications": amplifications, "drifts": drifts}
    for n, (key, rows) in enumerate(tables.items(), 1):
        end = "" if n == len(tables) else ","
        yield f" {_json(key)}: ["
        yield from (f"  {_json(row)}{',' if at < len(rows) else ''}" for at, row in enumerate(rows, 1))
        yield f" ]{end}"
    yield "}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def noise_object(limits: Limits) -> Any:
    """Return the limits as JSON data, as `write_noise` writes them."""
    return json.loads("\n".join(_lines(limits)))


def read_noise(path: Path) -> Limits:
    """Return the limits in a file; raise a UsageError if it is invalid."""
    try:
        found: Any = json.loads(read_input(path, MAX_CONFIGURATION_BYTES).decode("utf-8-sig"))
    except OSError as err:
        raise UsageError(f"{path}: cannot be read ({err.strerror or err}); {_REMEDY}") from err
    except (ValueError, RecursionError) as err:
        raise UsageError(f"{path}: is not valid JSON ({err}); {_REMEDY}") from err
    return noise_of(path, found)


def noise_of(path: Path, found: Any) -> Limits:
    """Return the limits that the JSON data in a file have; raise a UsageError if they are invalid."""
    version = found.get("noise_version") if isinstance(found, dict) else None
    if type(version) is not int:
        raise UsageError(f"{path}: is not a noise.json, since noise_version is missing; {_REMEDY}")
    if version != _VERSION:
        raise UsageError(
            f"{path}: has noise_version {version}, but this version of msprobe reads {_VERSION}; calibrate again "
            "with --calibrate CLEAN, or use the version of msprobe-ms that wrote it"
        )
    try:
        return _limits(path, found)
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        what = f"{err.args[0]} is missing" if isinstance(err, KeyError) else str(err)
        raise UsageError(f"{path}: is an invalid noise.json ({what}); {_REMEDY}") from err


def _limits(path: Path, found: Mapping[str, Any]) -> Limits:
    sides = tuple({str(key): str(value) for key, value in found[side].items()} for side in _SIDES)
    if not all("framework" in side for side in sides):
        raise KeyError("framework")
    residuals = tuple(
        KindResidual(
            _kind(row),
            str(row["class"]),
            _number(row, "eta"),
            int(row["outputs"]),
            tuple(str(sign).upper() for sign in row["signs"]),
        )
        for row in found["residuals"]
    )
    amplifications = tuple(
        KindAmplification(_kind(row), _number(row, "amplification"), int(row["outputs"]))
        for row in found["amplifications"]
    )
    drifts = tuple(Drift(str(row["basis"]), _number(row, "excess"), int(row["parameters"])) for row in found["drifts"])
    wrong = tuple(str(name) for name in found["first_wrong"])
    return Limits(LimitSource.CALIBRATED, str(path), residuals, amplifications, drifts, wrong, sides)


def _kind(row: Mapping[str, Any]) -> Kind:
    return Kind(str(row["operation"]), str(row["direction"]), str(row["output"]))


def _number(row: Mapping[str, Any], key: str) -> float:
    """Return a limit; raise an error for a negative or infinite one, which would decide everything."""
    value = row[key]
    if type(value) not in (int, float) or not isfinite(value) or value < 0:
        raise ValueError(f"{key} must be a non-negative number")
    return float(value)
