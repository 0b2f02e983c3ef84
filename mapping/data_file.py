"""The user's mapping of single records (`-dm`): the row's name on one side, the row's name on the other.

```yaml
Cell.fc1.Dense.forward.0.output.0: Module.fc1.Linear.forward.0.output.0
Cell.fc1.Dense.parameters_grad.weight:              # ours: with the transform that brings it into the other's layout
  to: Module.fc1.Linear.parameters_grad.weight
  transform: "transpose(1, 0)"
```
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.checks import shown
from msprobe.base.errors import UsageError

from .api_file import checked
from .yaml_file import load

NOWHERE = "N/A"
"""What stands for the golden's row where there is none; the file that the layer mapping leaves says so."""

_EXAMPLE = "Cell.fc1.Dense.forward.0.output.0: Module.fc1.Linear.forward.0.output.0"


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
        raise UsageError(f"{where}: must be a map of rows, as in `{_EXAMPLE}`, not {shown(held)}")
    return {_name(key, where): _rule(value, f"{where}: {key}") for key, value in held.items()}


def refuse_shared(rules: Mapping[str, DataRule], where: str) -> None:
    """UsageError where two rows are given one of the golden's, which only parameters of checkpoints may share."""
    taken: dict[str, str] = {}
    for row, rule in rules.items():
        if rule.to != NOWHERE and (other := taken.setdefault(rule.to, row)) != row:
            raise UsageError(f"{where}: {other} and {row} are both given {rule.to}; remove one of the two rules")


def _rule(value: object, where: str) -> DataRule:
    if not isinstance(value, Mapping):
        return DataRule(_name(value, where))
    if unknown := sorted(set(map(str, value)) - {"to", "transform"}):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; known are to and transform")
    text = value.get("transform")
    return DataRule(_name(value.get("to"), where), "" if text is None else checked(text, where))


def _name(value: object, where: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise UsageError(f"{where}: {shown(value)} is no row's name, as in `{_EXAMPLE}`")
