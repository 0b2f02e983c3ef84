"""The user's mapping of APIs (`-am`): which function stands for which, and which argument for which.

```yaml
- ms_api: Functional.flash_attention_score
  pt_api: NPU.npu_fusion_attention
  ms_args: [0, 1, 2, 3]           # places behind ".input."
  pt_args: [0, 1, 2, head_num]
  ms_output: [0]                  # also ms_outputs; behind ".output."
  pt_output: [0]
  transforms: {0: "transpose(0, 2, 1, 3)"}   # ours: brings an argument of ms_args into the other layout
```

`ms_parameters`/`pt_parameters` and `ms_parameters_grad`/`pt_parameters_grad` likewise. A list, or one bare map.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.base.checks import nearest, shown
from msprobe.base.errors import MappingError, UsageError
from msprobe.base.log import logger

from .yaml_file import load

Place = tuple[str, ...]

_PARTS = {
    "input": ("args",),
    "output": ("output", "outputs"),
    "parameters": ("parameters",),
    "parameters_grad": ("parameters_grad",),
}
"""Part of a call: the endings of the keys that speak of it."""

_KEYS = (
    "ms_api",
    "pt_api",
    "transforms",
    *(f"{s}_{e}" for ends in _PARTS.values() for e in ends for s in ("ms", "pt")),
)


@dataclass(frozen=True)
class ApiRule:
    """`ms_api` is `pt_api`, both stems (`Functional.softmax`). `places` holds, by part, the target's place of each
    record and the golden's; a part that is not in it keeps its places. `transforms` are of the target's inputs."""

    ms_api: str
    pt_api: str
    places: Mapping[str, Mapping[Place, Place]] = field(default_factory=dict)
    transforms: Mapping[Place, str] = field(default_factory=dict)
    where: str = ""

    def place(self, part: str, path: Place) -> Place | None:
        """Where the golden has what the target has at a place; None where the rule leaves it out on purpose."""
        known = self.places.get(part)
        if known is None:
            return path
        for length in range(len(path), 0, -1):
            if path[:length] in known:
                return known[path[:length]] + path[length:]
        return None


def read_apis(path: Path) -> tuple[ApiRule, ...]:
    """The rules of a file. UsageError for what cannot be meant; an entry with lists of two lengths is left out with a
    warning, as msprobe does."""
    held = load(path, "the mapping of APIs")
    entries = [held] if isinstance(held, Mapping) else held
    if not isinstance(entries, list):
        raise UsageError(f"{path}: must be a list of rules with ms_api and pt_api, not {shown(held)}")
    made: dict[str, ApiRule] = {}
    for number, entry in enumerate(entries, 1):
        where = f"{path}: rule {number}"
        rule = _rule(entry, where)
        if rule is None:
            continue
        if rule.ms_api in made:
            raise UsageError(f"{where}: {rule.ms_api} has a rule already ({made[rule.ms_api].where}); remove one")
        made[rule.ms_api] = rule
    return tuple(made.values())


def _rule(entry: object, where: str) -> ApiRule | None:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where}: must be a map with ms_api and pt_api, not {shown(entry)}")
    for key in entry:
        if key not in _KEYS:
            near = nearest(str(key), _KEYS)
            remedy = f"did you mean {near}?" if near else f"known are {', '.join(_KEYS)}"
            raise UsageError(f"{where}: unknown key {shown(key)}; {remedy}")
    apis = []
    for key in ("ms_api", "pt_api"):
        value = entry.get(key)
        if not (isinstance(value, str) and value.count(".") >= 1 and all(value.split("."))):
            raise UsageError(f"{where}: {key} must be a name such as Functional.softmax, not {shown(value)}")
        apis.append(value)
    where = f"{where} ({apis[0]})"
    places: dict[str, dict[Place, Place]] = {}
    for part, endings in _PARTS.items():
        ours, theirs = (_listed(entry, side, endings, where) for side in ("ms", "pt"))
        if ours is None and theirs is None:
            continue
        if ours is None or theirs is None:
            there = "pt" if ours is None else "ms"
            raise UsageError(f"{where}: only {there}_{endings[0]} is given; write the list of the other side too")
        if len(ours) != len(theirs):
            logger.warning(
                "%s: ms_%s has %d places, pt_%s %d; the rule is left out: make both equally long",
                *(where, endings[0], len(ours), endings[0], len(theirs)),
            )
            return None
        places[part] = dict(zip(ours, theirs, strict=True))
        if len(places[part]) < len(ours) or len(set(theirs)) < len(theirs):
            raise UsageError(f"{where}: a place stands twice in ms_{endings[0]} or pt_{endings[0]}; remove one")
    return ApiRule(apis[0], apis[1], places, _transforms(entry.get("transforms"), where), where)


def _listed(entry: Mapping[Any, Any], side: str, endings: tuple[str, ...], where: str) -> list[Place] | None:
    given = [f"{side}_{ending}" for ending in endings if f"{side}_{ending}" in entry]
    if not given:
        return None
    if len(given) > 1:
        raise UsageError(f"{where}: {given[0]} and {given[1]} are the same thing; give one")
    value = entry[given[0]]
    if not isinstance(value, list):
        raise UsageError(f"{where}: {given[0]} must be a list of places, as in [0, 1, axis], not {shown(value)}")
    return [_place(item, f"{where}: {given[0]}") for item in value]


def _place(item: object, where: str) -> Place:
    if (isinstance(item, str) or (type(item) is int and item >= 0)) and all(str(item).split(".")):
        return tuple(str(item).split("."))
    raise UsageError(f"{where}: {shown(item)} is no place; write a number from 0 on, or the name of an argument")


def _transforms(given: object, where: str) -> dict[Place, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f'{where}: transforms must be a map of places, as in {{1: "transpose(1, 0)"}}')
    return {_place(key, f"{where}: transforms"): checked(text, f"{where}: transforms") for key, text in given.items()}


def checked(text: object, where: str) -> str:
    """A transform's text; UsageError where it is none."""
    if not isinstance(text, str):
        raise UsageError(f'{where}: {shown(text)} is no transform; write one such as "transpose(1, 0)"')
    from .transform import parse  # here: whoever gives no transform needs no numpy

    try:
        parse(text)
    except MappingError as err:
        raise UsageError(f"{where}: {err}") from err
    return text
