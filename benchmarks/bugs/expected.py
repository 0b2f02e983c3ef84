"""From the places of a fault to the names of records in the two dumps of a case."""

import json
import re
from pathlib import Path
from typing import Any

from fault import Fault, Place

# Layers of the frameworks whose inside is written differently there: across frameworks the layer is as good a name as
# a call inside it.
_LAYERS = {"Dense", "Linear", "LayerNorm", "BatchNorm2d", "Conv2d", "Embedding"}
_CELL = re.compile(r"(?:Cell|Module)\.(?P<path>.+)\.(?P<kind>\w+)\.(?P<direction>forward|backward)\.(?P<run>\d+)$")
_CALL = re.compile(r"(?P<stem>.+)\.(?P<number>\d+)\.(?P<direction>forward|backward)$")


_STATISTICS = ("shape", "Max", "Min", "Mean", "Norm")


class Records:
    """The calls of one dump in their order, each with the cell around it."""

    def __init__(self, step: Path) -> None:
        rank = next(path for path in (step / "rank", step / "rank0") if path.exists())
        self._data: dict[str, Any] = json.loads((rank / "dump.json").read_text())["data"]
        self.names = list(self._data)
        self._around: dict[str, str | None] = json.loads((rank / "construct.json").read_text())

    def find(self, place: Place) -> list[str]:
        """The names that a place means; of `STEM.DIRECTION` the nth inside that cell, by default the first."""
        if place.what == "*" and place.path is None:
            return ["*"]
        if place.what == "itself":
            return [name for name in self.names if self._is_cell(name, place)]
        if place.path is None:
            return [name for name in self.names if name == place.what]
        inside = [name for name in self.names if self._is_in(name, place)]
        if place.what in ("*", "*.backward"):
            return [name for name in inside if name.endswith("backward" if place.what != "*" else "forward")]
        what, _, nth = place.what.partition("#")
        found = [name for name in inside if _stem(name) == what]
        return found[int(nth or 0) :][:1]

    def layer(self, name: str) -> list[str]:
        """The layer of a framework around a call and all calls in it, of the call's direction; else nothing."""
        around = self._around.get(name)
        cell = _CELL.match(around or "")
        if not cell or cell["kind"] not in _LAYERS:
            return []
        return [around, *(other for other in self.names if self._around.get(other) == around)]

    def cells_that_show(self, name: str, other: "Records") -> list[str]:
        """Of a call whose inside is not recorded: the cell around it, with the gradients of its parameters, and the
        next one in there, which receives it: the first that receives other statistics than in the run `other`."""
        if _CELL.match(name):
            return [name, *self._parameters_of(name)]
        around = self._around.get(name)
        after = self.names[self.names.index(name) + 1 :]
        cells = [cell for cell in after if _CELL.match(cell) and self._around.get(cell) == around]
        receivers = [cell for cell in cells if cell in other.names and self._received(cell) != other._received(cell)]
        return [*([around, *self._parameters_of(around)] if around else []), *(receivers or cells)[:1]]

    def _received(self, name: str) -> list[Any]:
        call = self._data[name]
        found = [*call.get("input_args", ()), *call.get("input_kwargs", {}).values(), *call.get("input", ())]
        return [[one.get(key) for key in _STATISTICS] for one in found if isinstance(one, dict)]

    def _parameters_of(self, cell: str) -> list[str]:
        """The record of the gradients of a cell's parameters, which its backward call makes."""
        stem, direction, _ = cell.rsplit(".", 2)
        gradients = f"{stem}.parameters_grad"
        return [gradients] if direction == "backward" and gradients in self.names else []

    def path(self, name: str) -> str:
        """The path of the cell around a call, as the answer of a comparison gives it."""
        cell = _CELL.match(self._around.get(name) or "")
        return cell["path"] if cell else ""

    def _is_cell(self, name: str, place: Place) -> bool:
        cell = _CELL.match(name)
        return bool(cell) and cell["path"] == place.path and cell["direction"] == "forward" and _runs(cell, place)

    def _is_in(self, name: str, place: Place) -> bool:
        if _CELL.match(name) or name.endswith(".parameters_grad"):
            return False
        cell = _CELL.match(self._around.get(name) or "")
        if not cell:
            return not place.path
        return cell["path"] == place.path and _runs(cell, place)


def _runs(cell: re.Match[str], place: Place) -> bool:
    return int(cell["run"]) == place.run


def _stem(name: str) -> str | None:
    call = _CALL.match(name)
    return f"{call['stem']}.{call['direction']}" if call else None


def names_of(fault: Fault, task: str, target: Path, golden: Path, is_torch: bool) -> list[str]:
    """The names of records that may be named first; ValueError where the dumps hold none."""
    sides = {"target": Records(target)}
    sides["torch" if is_torch else "golden"] = Records(golden)
    found: list[str] = []
    for place in fault.places_of(task):
        records = sides.get(place.side)
        if records is None:
            continue
        names = records.find(place)
        if is_torch:
            names += [other for name in names for other in records.layer(name)]
        found += names
    if not found:
        raise ValueError(f"{fault.name}: no record of {target} or {golden} is at {fault.places}")
    return sorted(set(found), key=found.index)
