"""What a user says himself of which name is which: four kinds of files, alone or together, in one value."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.base.checks import shown
from msprobe.base.errors import UsageError
from msprobe.base.files import user_path

from .api_file import ApiRule, read_apis
from .cell_file import read_cells
from .data_file import DataRule, data_rules, read_data, refuse_shared
from .layer_file import LayerRules, read_layers

OPTIONS = ("api_mapping", "cell_mapping", "layer_mapping", "data_mapping")


@dataclass(frozen=True)
class UserMapping:
    """The rules of the user. An empty one says nothing, and changes nothing.

    `cells` is None without `-cm`; empty, with `-cm` alone, it pairs cells of equal path and class. So it is with
    `layers` and `-lm`. Of one record the most particular rule counts: data, then layers, cells, APIs.
    """

    apis: tuple[ApiRule, ...] = ()
    cells: Mapping[str, str] | None = None
    layers: LayerRules | None = None
    data: Mapping[str, DataRule] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.apis or self.data) or self.cells is not None or self.layers is not None


NONE = UserMapping()


def user_mapping(given: Mapping[str, object], say: str = "") -> UserMapping:
    """What the four options say: a path, True for the option without a file, or for `data_mapping` a dict. None, False
    and an empty text: not given. `say` stands before the option's name in messages (`--`, or `compare: `).

    UsageError where a value, or what a file holds, cannot be meant.
    """
    found: dict[str, object] = {}
    for option in OPTIONS:
        value = given.get(option)
        if value is None or value is False or value == "":
            continue
        if option == "data_mapping" and isinstance(value, Mapping):
            found[option] = value
        elif value is True:
            if option == "data_mapping":
                raise UsageError(f"{say}{option}: give the path of a yaml file that pairs rows")
            found[option] = None
        elif isinstance(value, str | os.PathLike):
            found[option] = user_path(value)
        else:
            also = ", or a dict" if option == "data_mapping" else ""
            raise UsageError(f"{say}{option}: must be the path of a yaml file{also}, not {shown(value)}")
    where = {option: str(value) for option, value in found.items() if isinstance(value, Path)}
    api, cell, layer, data = (found.get(option) for option in OPTIONS)
    rules: Mapping[str, DataRule] = {}
    if isinstance(data, Mapping):
        rules = data_rules(data, f"{say}data_mapping")
    elif isinstance(data, Path):
        rules = read_data(data)
    refuse_shared(rules, where.get("data_mapping", f"{say}data_mapping"))
    return UserMapping(
        apis=read_apis(api) if isinstance(api, Path) else (),
        cells=(read_cells(cell) if isinstance(cell, Path) else {}) if "cell_mapping" in found else None,
        layers=(read_layers(layer) if isinstance(layer, Path) else LayerRules()) if "layer_mapping" in found else None,
        data=rules,
        where=where,
    )
