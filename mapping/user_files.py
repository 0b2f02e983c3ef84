"""The user's mapping files: APIs (`-am`), cells (`-cm`), records (`-dm`) and layers (`-lm`).

The user's mapping of APIs (`-am`): which function stands for which, and which argument for which.

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

The user's mapping of cells (`-cm`): path and class of one side, path and class of the other.

```yaml
fc1.Dense: fc1.Linear
backbone.embed.VocabEmbedding: language_model.embedding.word_embeddings.VocabParallelEmbedding
```

The user's mapping of single records (`-dm`): the row's name on one side, the row's name on the other.

```yaml
Cell.fc1.Dense.forward.0.output.0: Module.fc1.Linear.forward.0.output.0
Cell.fc1.Dense.parameters_grad.weight:              # ours: with the transform that brings it into the other's layout
  to: Module.fc1.Linear.parameters_grad.weight
  transform: "transpose(1, 0)"
```

The user's mapping of layers (`-lm`): by class of the parent, the child's path on both sides.

```yaml
TopLayer:                              # or Cell, its older name
  network_with_loss: module
GPT:                                   # class of the parent on the target's side
  backbone: language_model.encoder     # either path may have several parts
```
"""

import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.base.checks import nearest, shown
from msprobe.base.errors import MappingError, UsageError
from msprobe.base.files import CONFIGURATION, read_input, user_path
from msprobe.base.log import logger


def load(path: Path, what: str) -> Any:
    """What a yaml file holds; `what` says in words what it is read for.

    UsageError where it cannot be read, is no yaml, holds nothing, or says one thing twice.
    """
    import yaml  # type: ignore[import-untyped]  # ships without types; and only who maps needs it

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # the base has no types
        """Keys that stand twice are refused: the last would win unseen."""

    def mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        loader.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} cannot be a key", key_node.start_mark)
            if key in found:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} stands twice; remove one", key_node.start_mark
                )
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        text = read_input(path, CONFIGURATION).decode("utf-8-sig")
    except OSError as err:
        raise UsageError(f"{path}: {what} cannot be read ({err.strerror or err}); check the path") from err
    except UnicodeDecodeError as err:
        raise UsageError(f"{path}: {what} is no text in UTF-8 ({err.reason}); save it as UTF-8") from err
    try:
        held = yaml.load(text, Loader)  # a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise UsageError(f"{path}: {what} is no yaml that can be read: {told(err)}; correct it there") from err
    if held is None:
        raise UsageError(f"{path}: {what} is empty; write rules into it, or leave the option out")
    return held


def told(err: Exception) -> str:
    """What the yaml reader met, in one line, and where: the file is one that the reader does not know by name."""
    return " ".join(re.sub(r'in "<(?:unicode|byte) string>",', "at", str(err)).split())


def texts(held: object, where: str, example: str) -> dict[str, str]:
    """A map of texts to texts; UsageError where it is something else."""
    if not isinstance(held, Mapping):
        raise UsageError(f"{where}: must be a map of names, as in `{example}`, not {shown(held)}")
    for key, value in held.items():
        if not (isinstance(key, str) and key and isinstance(value, str) and value):
            raise UsageError(f"{where}: {shown(key)}: {shown(value)}: both must be names, as in `{example}`")
    return dict(held)


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
        rule = _api_rule(entry, where)
        if rule is None:
            continue
        if rule.ms_api in made:
            raise UsageError(f"{where}: {rule.ms_api} has a rule already ({made[rule.ms_api].where}); remove one")
        made[rule.ms_api] = rule
    return tuple(made.values())


def _api_rule(entry: object, where: str) -> ApiRule | None:
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


_CELL_EXAMPLE = "fc1.Dense: fc1.Linear"


def read_cells(path: Path) -> dict[str, str]:
    """The rules of a file, the target's cell first; UsageError for what cannot be meant."""
    rules = texts(load(path, "the mapping of cells"), str(path), _CELL_EXAMPLE)
    found: dict[str, str] = {}
    for ours, theirs in rules.items():
        bare = bare_cell(ours), bare_cell(theirs)
        if bare[0] in found:
            raise UsageError(f"{path}: {bare[0]} stands twice, with and without `Cell.` before it; remove one")
        found[bare[0]] = bare[1]
    return found


def bare_cell(stem: str) -> str:
    """Path and class, without the `Cell.` or `Module.` of a whole stem."""
    first, _, rest = stem.partition(".")
    return rest if first in ("Cell", "Module") and rest else stem


NOWHERE = "N/A"
"""What stands for the golden's row where there is none; the file that the layer mapping leaves says so."""

_DATA_EXAMPLE = "Cell.fc1.Dense.forward.0.output.0: Module.fc1.Linear.forward.0.output.0"


@dataclass(frozen=True, slots=True)
class DataRule:
    """The golden's row, and what brings the target's tensor into its layout."""

    to: str
    transform: str = ""


def read_data(path: Path) -> dict[str, DataRule]:
    """The rules of a file by the target's row; UsageError for what cannot be meant."""
    return data_rules(load(path, "the mapping of records"), str(path))


def data_rules(held: object, where: str) -> dict[str, DataRule]:
    """The rules that a file, or a dict in Python, holds."""
    if not isinstance(held, Mapping):
        raise UsageError(f"{where}: must be a map of rows, as in `{_DATA_EXAMPLE}`, not {shown(held)}")
    return {_name(key, where): _data_rule(value, f"{where}: {key}") for key, value in held.items()}


def refuse_shared(rules: Mapping[str, DataRule], where: str) -> None:
    """UsageError where two rows are given one of the golden's, which only parameters of checkpoints may share."""
    taken: dict[str, str] = {}
    for row, rule in rules.items():
        if rule.to != NOWHERE and (other := taken.setdefault(rule.to, row)) != row:
            raise UsageError(f"{where}: {other} and {row} are both given {rule.to}; remove one of the two rules")


def _data_rule(value: object, where: str) -> DataRule:
    if not isinstance(value, Mapping):
        return DataRule(_name(value, where))
    if unknown := sorted(set(map(str, value)) - {"to", "transform"}):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; known are to and transform")
    text = value.get("transform")
    return DataRule(_name(value.get("to"), where), "" if text is None else checked(text, where))


def _name(value: object, where: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise UsageError(f"{where}: {shown(value)} is no row's name, as in `{_DATA_EXAMPLE}`")


TOP = "TopLayer"
_OLD_TOP = "Cell"
_LAYER_EXAMPLE = "backbone: language_model.encoder"

Parts = tuple[str, ...]


@dataclass(frozen=True)
class LayerRules:
    """By class of the parent, the child's path with its counterpart; only names that differ are listed."""

    by_class: Mapping[str, Mapping[Parts, Parts]] = field(default_factory=dict)

    def of(self, type_name: str, first: str) -> list[tuple[Parts, Parts]]:
        """The rules of a class for a child path that begins so, longest first, behind them that it keeps its name."""
        rules = [rule for rule in self.by_class.get(type_name, {}).items() if rule[0][0] == first]
        return [*sorted(rules, key=lambda rule: -len(rule[0])), ((first,), (first,))]


def read_layers(path: Path) -> LayerRules:
    """The rules of a file; UsageError for what cannot be meant."""
    held = load(path, "the mapping of layers")
    if not isinstance(held, Mapping):
        raise UsageError(
            f"{path}: must be a map by class, each with rules such as `{_LAYER_EXAMPLE}`, not {shown(held)}"
        )
    if TOP in held and _OLD_TOP in held:
        raise UsageError(f"{path}: {TOP} and {_OLD_TOP} are the same thing; write the rules of both under {TOP}")
    found: dict[str, dict[Parts, Parts]] = {}
    for type_name, rules in held.items():
        if not isinstance(type_name, str) or not type_name:
            raise UsageError(f"{path}: {shown(type_name)} is no name of a class; write the class of the parent")
        where = f"{path}: {type_name}"
        name = TOP if type_name == _OLD_TOP else type_name
        found[name] = {
            _parts(ours, where): _parts(theirs, where) for ours, theirs in texts(rules, where, _LAYER_EXAMPLE).items()
        }
    return LayerRules(found)


def _parts(text: str, where: str) -> Parts:
    """The parts of a path, which is cut where a parenthesis opens, as names in a printed network have one."""
    parts = tuple(text.partition("(")[0].strip().split("."))
    if not all(parts):
        raise UsageError(f"{where}: {shown(text)} is no path; write names with single dots between them")
    return parts


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
