"""Names of parameters and modules as the monitor writes them, and which of them the settings choose."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

_CUT = re.compile(r"layers?\.|embeddings?\.|final|output|norm")


def shortened(names: Iterable[str]) -> dict[str, str]:
    """Return each name without the part before `layer(s).`, `embedding(s).`, `final`, `output` or `norm`, by full name.

    Names that would become equal, and names without such a word, are unchanged.
    """
    names = list(names)
    short = {name: name[found.start() :] if (found := _CUT.search(name)) else name for name in names}
    count = Counter(short.values())
    return {name: each if count[each] == 1 else name for name, each in short.items()}


class Choice(Protocol):
    """The selection of parameters and modules; `vpp_stage` is the number of the model in a list of models."""

    def has_parameter(self, vpp_stage: int, name: str, short: str) -> bool: ...
    def has_module(self, vpp_stage: int, name: str) -> bool: ...


class Targets:
    """`targets` of TrainerMon: beginnings of parameters' names, whole names of modules, each perhaps with `{vpp}:`."""

    def __init__(self, keys: Iterable[str], *, all_modules: bool = False) -> None:
        self._keys = tuple(keys)
        self._all_modules = all_modules or not self._keys

    def has_parameter(self, vpp_stage: int, name: str, short: str) -> bool:
        return not self._keys or any(each.startswith(self._keys) for each in (name, short, f"{vpp_stage}:{name}"))

    def has_module(self, vpp_stage: int, name: str) -> bool:
        return self._all_modules or name in self._keys or f"{vpp_stage}:{name}" in self._keys


class Substrings:
    """`targets` of TrainerMonitorV2: parts of modules' names; every parameter is monitored."""

    def __init__(self, parts: Iterable[str]) -> None:
        self._parts = tuple(parts)

    def has_parameter(self, vpp_stage: int, name: str, short: str) -> bool:
        return True

    def has_module(self, vpp_stage: int, name: str) -> bool:
        return not self._parts or any(part in name for part in self._parts)
