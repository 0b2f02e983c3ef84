"""Read the user's mapping files: the corresponding names of target and golden.

APIs (`-am`): a list of rules, or one bare map. Places are the part of a name after `.input.` or `.output.`;
`ms_outputs`, `ms_parameters` and `ms_parameters_grad` are lists of the same kind.

```yaml
- ms_api: Functional.flash_attention_score
  pt_api: NPU.npu_fusion_attention
  ms_args: [0, 1, 2, 3]
  pt_args: [0, 1, 2, head_num]
  ms_output: [0]
  pt_output: [0]
  transforms: {0: "transpose(0, 2, 1, 3)"}   # of this tool: converts an argument of ms_args to the other layout
```

Cells (`-cm`): path and class of one side, path and class of the other.

```yaml
backbone.embed.VocabEmbedding: language_model.embedding.word_embeddings.VocabParallelEmbedding
```

Records (`-dm`): the row's name on one side, the row's name on the other.

```yaml
Cell.fc1.Dense.forward.0.output.0: Module.fc1.Linear.forward.0.output.0
Cell.fc1.Dense.parameters_grad.weight:              # of this tool: with the transform to the other layout
  to: Module.fc1.Linear.parameters_grad.weight
  transform: "transpose(1, 0)"
```

Layers (`-lm`): by class of the parent, the child's path on both sides.

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

from msprobe.base.checks import nearest, quoted
from msprobe.base.errors import MappingError, UsageError
from msprobe.base.files import MAX_CONFIGURATION_BYTES, read_input, user_path
from msprobe.base.log import logger

OPTIONS = ("api_mapping", "cell_mapping", "layer_mapping", "data_mapping")
NOWHERE = "N/A"
"""The golden's row if there is none, in the file that the layer mapping writes."""

TOP = "TopLayer"
_OLD_TOP = "Cell"
_CELL_EXAMPLE = "fc1.Dense: fc1.Linear"
_DATA_EXAMPLE = "Cell.fc1.Dense.forward.0.output.0: Module.fc1.Linear.forward.0.output.0"
_LAYER_EXAMPLE = "backbone: language_model.encoder"

_ENDINGS = {
    "input": ("args",),
    "output": ("output", "outputs"),
    "parameters": ("parameters",),
    "parameters_grad": ("parameters_grad",),
}
"""By part of a call: the endings of the keys of an API rule that list its places."""

_LISTS = (f"{side}_{ending}" for endings in _ENDINGS.values() for ending in endings for side in ("ms", "pt"))
_KEYS = ("ms_api", "pt_api", "transforms", *_LISTS)

Place = tuple[str, ...]
"""The place of a record in its call, or of a cell below another: the parts of a dotted path."""


@dataclass(frozen=True)
class ApiRule:
    """`ms_api` corresponds to `pt_api`, both stems (`Functional.softmax`). `places` has by part the target's place of
    each record and the golden's; a part that is not in it keeps its places. `transforms` are those of the target's
    inputs."""

    ms_api: str
    pt_api: str
    places: Mapping[str, Mapping[Place, Place]] = field(default_factory=dict)
    transforms: Mapping[Place, str] = field(default_factory=dict)
    where: str = ""

    def place(self, part: str, path: Place) -> Place | None:
        """Return the golden's place for a place of the target; None if the rule deliberately leaves it out."""
        known = self.places.get(part)
        if known is None:
            return path
        for length in range(len(path), 0, -1):
            if path[:length] in known:
                return known[path[:length]] + path[length:]
        return None


@dataclass(frozen=True, slots=True)
class DataRule:
    """The golden's row, and the transform of the target's tensor to its layout."""

    to: str
    transform: str = ""


@dataclass(frozen=True)
class LayerRules:
    """By class of the parent, the child's path with its counterpart; only names that differ are listed."""

    by_class: Mapping[str, Mapping[Place, Place]] = field(default_factory=dict)

    def of(self, type_name: str, first: str) -> list[tuple[Place, Place]]:
        """Return the rules of a class for child paths that begin with `first`, longest first; the last keeps the
        name."""
        rules = [rule for rule in self.by_class.get(type_name, {}).items() if rule[0][0] == first]
        return [*sorted(rules, key=lambda rule: -len(rule[0])), ((first,), (first,))]


@dataclass(frozen=True)
class UserMapping:
    """The rules of the user. An empty one changes nothing.

    `cells` is None without `-cm`; empty, with `-cm` alone, it pairs cells of equal path and class. The same applies to
    `layers` and `-lm`. The most specific rule for a record is used: data, then layers, cells, APIs.
    """

    apis: tuple[ApiRule, ...] = ()
    cells: Mapping[str, str] | None = None
    layers: LayerRules | None = None
    data: Mapping[str, DataRule] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.apis or self.data) or self.cells is not None or self.layers is not None


NONE = UserMapping()


def user_mapping(options: Mapping[str, object], prefix: str = "") -> UserMapping:
    """Return the rules of the four options: each a path, True for the option without a file, or for `data_mapping` a
    dict. None, False and an empty text: the option is missing. `prefix` precedes the option's name in messages (`--`,
    or `compare: `).

    Raise a UsageError if a value, or the content of a file, is invalid.
    """
    found: dict[str, Any] = {}
    for option in OPTIONS:
        value, is_data = options.get(option), option == "data_mapping"
        if value is None or value is False or value == "":
            continue
        if is_data and value is True:
            raise UsageError(f"{prefix}{option}: give the path of a YAML file that pairs rows")
        if value is True or (is_data and isinstance(value, Mapping)):
            found[option] = value
        elif isinstance(value, str | os.PathLike):
            found[option] = user_path(value)
        else:
            also = ", or a dict" if is_data else ""
            raise UsageError(f"{prefix}{option}: must be the path of a YAML file{also}, not {quoted(value)}")
    where = {option: str(value) for option, value in found.items() if isinstance(value, Path)}
    api, cell, layer, data = (found.get(option) for option in OPTIONS)
    rows = read_data(data) if isinstance(data, Path) else _data_rules(data or {}, f"{prefix}data_mapping")
    _refuse_shared(rows, where.get("data_mapping", f"{prefix}data_mapping"))
    return UserMapping(
        apis=read_apis(api) if isinstance(api, Path) else (),
        cells={} if cell is True else cell and read_cells(cell),
        layers=LayerRules() if layer is True else layer and read_layers(layer),
        data=rows,
        where=where,
    )


def load(path: Path, what: str) -> Any:
    """Return the content of a YAML file; `what` describes its purpose.

    Raise a UsageError if it cannot be read, is not YAML, is empty, or has a duplicate key.
    """
    import yaml  # type: ignore[import-untyped]  # ships without types; and only who maps needs it

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # the base has no types
        """Duplicate keys raise an error: otherwise the last would be used silently."""

    def mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        loader.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            is_key = isinstance(key, Hashable)
            if not is_key or key in found:
                wrong = f"duplicate key {key!r}; remove one" if is_key else f"{key!r} cannot be a key"
                raise yaml.constructor.ConstructorError(None, None, wrong, key_node.start_mark)
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        text = read_input(path, MAX_CONFIGURATION_BYTES).decode("utf-8-sig")
    except OSError as err:
        raise UsageError(f"{path}: {what} cannot be read ({err.strerror or err}); check the path") from err
    except UnicodeDecodeError as err:
        raise UsageError(f"{path}: {what} is not UTF-8 text ({err.reason}); save it as UTF-8") from err
    try:
        held = yaml.load(text, Loader)  # a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise UsageError(f"{path}: {what} is not valid YAML: {one_line(err)}; correct the file") from err
    if held is None:
        raise UsageError(f"{path}: {what} is empty; fill the file, or omit it")
    return held


def one_line(err: Exception) -> str:
    """Return an error of the YAML reader in one line, without the file, whose name the reader does not have."""
    return " ".join(re.sub(r'in "<(?:unicode|byte) string>",', "at", str(err)).split())


def _map(held: object, where: str, wanted: str) -> Mapping[Any, Any]:
    if not isinstance(held, Mapping):
        raise UsageError(f"{where}: must be a map {wanted}, not {quoted(held)}")
    return held


def _names(held: object, where: str, example: str) -> Mapping[str, str]:
    """Return a map of names to names; raise a UsageError for anything else."""
    for key, value in _map(held, where, f"of names, for example `{example}`").items():
        if not (isinstance(key, str) and key and isinstance(value, str) and value):
            raise UsageError(f"{where}: {quoted(key)}: {quoted(value)}: both must be names, for example `{example}`")
    return held  # type: ignore[return-value] # every key and value was checked


def read_apis(path: Path) -> tuple[ApiRule, ...]:
    """Return the rules of a file; raise a UsageError if it is invalid. An entry with lists of different lengths is left
    out with a warning, as in msprobe."""
    held = load(path, "the mapping of APIs")
    entries = [held] if isinstance(held, Mapping) else held
    if not isinstance(entries, list):
        raise UsageError(f"{path}: must be a list of rules with ms_api and pt_api, not {quoted(held)}")
    made: dict[str, ApiRule] = {}
    for number, entry in enumerate(entries, 1):
        where = f"{path}: rule {number}"
        rule = _api_rule(_map(entry, where, "with ms_api and pt_api"), where)
        if rule is not None and rule.ms_api in made:
            raise UsageError(f"{where}: {rule.ms_api} already has a rule ({made[rule.ms_api].where}); remove one")
        if rule is not None:
            made[rule.ms_api] = rule
    return tuple(made.values())


def _api_rule(entry: Mapping[Any, Any], where: str) -> ApiRule | None:
    for key in entry:
        if key not in _KEYS:
            near = nearest(str(key), _KEYS)
            remedy = f"did you mean {near}?" if near else f"choose from {', '.join(_KEYS)}"
            raise UsageError(f"{where}: unknown key {quoted(key)}; {remedy}")
    for key in ("ms_api", "pt_api"):
        value = entry.get(key)
        if not (isinstance(value, str) and "." in value and all(value.split("."))):
            raise UsageError(f"{where}: {key} must be a name such as Functional.softmax, not {quoted(value)}")
    where = f"{where} ({entry['ms_api']})"
    places: dict[str, dict[Place, Place]] = {}
    for part, endings in _ENDINGS.items():
        ms, pt = (f"{side}_{endings[0]}" for side in ("ms", "pt"))
        ours, theirs = (_listed(entry, side, endings, where) for side in ("ms", "pt"))
        if ours is None and theirs is None:
            continue
        if ours is None or theirs is None:
            raise UsageError(
                f"{where}: only {(pt if ours is None else ms)} is given; also write the list of the other side"
            )
        if len(ours) != len(theirs):
            message = "%s: %s has %d places, %s %d; the rule is ignored: give both the same length"
            logger.warning(message, where, ms, len(ours), pt, len(theirs))
            return None
        places[part] = dict(zip(ours, theirs, strict=True))
        if len(places[part]) < len(ours) or len(set(theirs)) < len(theirs):
            raise UsageError(f"{where}: duplicate place in {ms} or {pt}; remove one")
    transforms = entry.get("transforms")
    where_transforms = f"{where}: transforms"
    if not isinstance(transforms, Mapping | None):
        raise UsageError(f'{where_transforms} must be a map of places, for example {{1: "transpose(1, 0)"}}')
    checked = {
        _place(k, where_transforms): _transform(text, where_transforms) for k, text in (transforms or {}).items()
    }
    return ApiRule(entry["ms_api"], entry["pt_api"], places, checked, where)


def _listed(entry: Mapping[Any, Any], side: str, endings: tuple[str, ...], where: str) -> list[Place] | None:
    keys = [f"{side}_{ending}" for ending in endings if f"{side}_{ending}" in entry]
    if not keys:
        return None
    if len(keys) > 1:
        raise UsageError(f"{where}: {keys[0]} and {keys[1]} have the same meaning; give only one")
    value = entry[keys[0]]
    if not isinstance(value, list):
        raise UsageError(f"{where}: {keys[0]} must be a list of places, for example [0, 1, axis], not {quoted(value)}")
    return [_place(item, f"{where}: {keys[0]}") for item in value]


def _place(item: object, where: str) -> Place:
    if (isinstance(item, str) or (type(item) is int and item >= 0)) and all(str(item).split(".")):
        return tuple(str(item).split("."))
    raise UsageError(
        f"{where}: {quoted(item)} is not a place; write a non-negative integer, or the name of an argument"
    )


def _transform(text: object, where: str) -> str:
    """Return the text of a transform; raise a UsageError if it is not one."""
    if not isinstance(text, str):
        raise UsageError(f'{where}: {quoted(text)} is not a transform; write a transform such as "transpose(1, 0)"')
    from .transform import parse  # here: without a transform numpy is not needed

    try:
        parse(text)
    except MappingError as err:
        raise UsageError(f"{where}: {err}") from err
    return text


def read_cells(path: Path) -> dict[str, str]:
    """Return the rules of a file, the target's cell first; raise a UsageError if it is invalid."""
    found: dict[str, str] = {}
    for ours, theirs in _names(load(path, "the mapping of cells"), str(path), _CELL_EXAMPLE).items():
        cell = bare_cell(ours)
        if cell in found:
            raise UsageError(f"{path}: duplicate {cell}, with and without the prefix `Cell.`; remove one")
        found[cell] = bare_cell(theirs)
    return found


def bare_cell(stem: str) -> str:
    """Return path and class, without the `Cell.` or `Module.` of a whole stem."""
    first, _, rest = stem.partition(".")
    return rest if first in ("Cell", "Module") and rest else stem


def read_data(path: Path) -> dict[str, DataRule]:
    """Return the rules of a file by the target's row; raise a UsageError if it is invalid."""
    return _data_rules(load(path, "the mapping of records"), str(path))


def _data_rules(held: object, where: str) -> dict[str, DataRule]:
    rules = _map(held, where, f"of rows, for example `{_DATA_EXAMPLE}`")
    return {_row(key, where): _data_rule(value, f"{where}: {key}") for key, value in rules.items()}


def _data_rule(value: object, where: str) -> DataRule:
    if not isinstance(value, Mapping):
        return DataRule(_row(value, where))
    if unknown := sorted(set(map(str, value)) - {"to", "transform"}):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; choose from to and transform")
    text = value.get("transform")
    return DataRule(_row(value.get("to"), where), "" if text is None else _transform(text, where))


def _row(value: object, where: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise UsageError(f"{where}: {quoted(value)} is not the name of a row, for example `{_DATA_EXAMPLE}`")


def _refuse_shared(rules: Mapping[str, DataRule], where: str) -> None:
    """Raise a UsageError if two rows have one row of the golden's, which only parameters of checkpoints may share."""
    taken: dict[str, str] = {}
    for row, rule in rules.items():
        if rule.to != NOWHERE and (other := taken.setdefault(rule.to, row)) != row:
            raise UsageError(f"{where}: {other} and {row} are both mapped to {rule.to}; remove one of the two rules")


def read_layers(path: Path) -> LayerRules:
    """Return the rules of a file; raise a UsageError if it is invalid."""
    held = _map(load(path, "the mapping of layers"), str(path), f"by class, each with rules such as `{_LAYER_EXAMPLE}`")
    if TOP in held and _OLD_TOP in held:
        raise UsageError(f"{path}: {TOP} and {_OLD_TOP} have the same meaning; write all rules under {TOP}")
    found: dict[str, dict[Place, Place]] = {}
    for type_name, rules in held.items():
        if not isinstance(type_name, str) or not type_name:
            raise UsageError(f"{path}: {quoted(type_name)} is not a class name; write the class of the parent")
        where = f"{path}: {type_name}"
        found[TOP if type_name == _OLD_TOP else type_name] = {
            _scope(ours, where): _scope(theirs, where) for ours, theirs in _names(rules, where, _LAYER_EXAMPLE).items()
        }
    return LayerRules(found)


def _scope(text: str, where: str) -> Place:
    """Return the parts of a path, split at parentheses too, as in the names of a printed network."""
    parts = tuple(text.partition("(")[0].strip().split("."))
    if not all(parts):
        raise UsageError(f"{where}: {quoted(text)} is not a path; write names separated by single dots")
    return parts
