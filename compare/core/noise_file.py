"""noise.json: the limits of a calibration as a file that is kept, shared and given again (docs/format.md, page 9)."""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.files import CONFIGURATION, read_input, replacing

from .limits import Drift, Kind, KindAmplification, KindResidual, Limits, Source

NOISE = "noise.json"

VERSION = 1

_SIDES = ("calibrated_on", "golden")
_REMEDY = "give a file that `msprobe compare --calibrate CLEAN` wrote"


def write_noise(path: Path, limits: Limits) -> None:
    """Write the limits; whoever reads the file meanwhile sees the old one or the new one. OSError where the disk
    refuses."""
    with replacing(path) as file:
        file.write("\n".join(_lines(limits)).encode("utf-8", "replace") + b"\n")


def _lines(limits: Limits) -> Iterator[str]:
    """A row on a line, so that two files can be compared by line."""
    head = dict(zip(_SIDES, limits.sides, strict=True))
    yield "{"
    for key, value in {"noise_version": VERSION, **head, "first_wrong": list(limits.first_wrong)}.items():
        yield f" {_json(key)}: {_json(value)},"
    residuals = [
        {
            **r.kind._asdict(),
            "class": r.precision,
            "eta": r.eta,
            "outputs": r.outputs,
            "signs": [s.lower() for s in r.signs],
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


def read_noise(path: Path) -> Limits:
    """The limits in a file; UsageError with what is wrong with it."""
    try:
        found: Any = json.loads(read_input(path, CONFIGURATION).decode("utf-8-sig"))
    except OSError as err:
        raise UsageError(f"{path}: cannot be read ({err.strerror or err}); {_REMEDY}") from err
    except (ValueError, RecursionError) as err:
        raise UsageError(f"{path}: is no JSON ({err}); {_REMEDY}") from err
    version = found.get("noise_version") if isinstance(found, dict) else None
    if type(version) is not int:
        raise UsageError(f"{path}: is no noise.json, it has no noise_version; {_REMEDY}")
    if version != VERSION:
        raise UsageError(
            f"{path}: noise_version {version}, and this version reads {VERSION}; calibrate again with --calibrate "
            "CLEAN, or use the version of msprobe-ms that wrote it"
        )
    try:
        return _limits(path, found)
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        raise UsageError(f"{path}: is a broken noise.json ({_said(err)}); {_REMEDY}") from err


def _said(err: Exception) -> str:
    return f"{err.args[0]} is missing" if isinstance(err, KeyError) else str(err)


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
    return Limits(Source.CALIBRATED, str(path), residuals, amplifications, drifts, wrong, sides)


def _kind(row: Mapping[str, Any]) -> Kind:
    return Kind(str(row["operation"]), str(row["direction"]), str(row["output"]))


def _number(row: Mapping[str, Any], key: str) -> float:
    """A limit; one that is negative or infinite would decide everything."""
    value = row[key]
    if type(value) not in (int, float) or not isfinite(value) or value < 0:
        raise ValueError(f"{key} must be a number from 0 on")
    return float(value)
