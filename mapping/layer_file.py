"""The user's mapping of layers (`-lm`): by class of the parent, the child's path on both sides.

```yaml
TopLayer:                              # or Cell, its older name
  network_with_loss: module
GPT:                                   # class of the parent on the target's side
  backbone: language_model.encoder     # either path may have several parts
```
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.base.checks import shown
from msprobe.base.errors import UsageError

from .yaml_file import load, texts

TOP = "TopLayer"
_OLD_TOP = "Cell"
_EXAMPLE = "backbone: language_model.encoder"

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
        raise UsageError(f"{path}: must be a map by class, each with rules such as `{_EXAMPLE}`, not {shown(held)}")
    if TOP in held and _OLD_TOP in held:
        raise UsageError(f"{path}: {TOP} and {_OLD_TOP} are the same thing; write the rules of both under {TOP}")
    found: dict[str, dict[Parts, Parts]] = {}
    for type_name, rules in held.items():
        if not isinstance(type_name, str) or not type_name:
            raise UsageError(f"{path}: {shown(type_name)} is no name of a class; write the class of the parent")
        where = f"{path}: {type_name}"
        name = TOP if type_name == _OLD_TOP else type_name
        found[name] = {
            _parts(ours, where): _parts(theirs, where) for ours, theirs in texts(rules, where, _EXAMPLE).items()
        }
    return LayerRules(found)


def _parts(text: str, where: str) -> Parts:
    """The parts of a path, which is cut where a parenthesis opens, as names in a printed network have one."""
    parts = tuple(text.partition("(")[0].strip().split("."))
    if not all(parts):
        raise UsageError(f"{where}: {shown(text)} is no path; write names with single dots between them")
    return parts
