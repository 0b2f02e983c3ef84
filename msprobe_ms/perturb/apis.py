"""The APIs that are run a second time: all APIs of the framework, or those that the user lists."""

from collections.abc import Iterator, Sequence
from typing import Any

from msprobe.base.checks import nearest, quoted
from msprobe.base.errors import SettingsError
from msprobe.base.patches import Patches
from msprobe.cell_dump.functions import COLLECTIVE, FunctionCalls
from msprobe.cell_dump.wrappers import Current
from msprobe.frameworks.registry import Framework

Api = tuple[Any, str, str]
"""Owner of the attribute, its name, stem of the calls' names."""


def _apis(framework: Framework) -> Iterator[tuple[Any, str, str, str]]:
    """Yield the functions that can be perturbed: owner of the attribute, its name, stem of the calls, public name.

    These are all recorded functions, except those that exchange tensors between ranks or draw random numbers that
    cannot be restored.
    """
    functions = framework.functions
    for owner, name, stem in functions.apis():
        if stem.partition(".")[0] not in COLLECTIVE and not functions.is_random(owner, name):
            yield owner, name, stem, functions.public_name(owner, name, stem)


def chosen(framework: Framework, listed: Sequence[str]) -> list[Api]:
    """Return the APIs with the names in `listed`, or all if it is empty; a stem, `Functional.bmm`, is a name too.

    SettingsError, with the nearest name, for a name that the installed framework does not have, and for an API that is
    not run twice.
    """
    every = list(_apis(framework))
    if not listed:
        return [api[:3] for api in every]
    known: dict[str, list[Api]] = {}
    for owner, name, stem, public in every:
        for word in dict.fromkeys((public, stem)):
            known.setdefault(word, []).append((owner, name, stem))
    for word in listed:
        if word not in known:
            raise SettingsError(f"free_benchmark.list: {_unknown(framework, word, known)}")
    found = [api for word in listed for api in known[word]]
    return [api for at, api in enumerate(found) if api not in found[:at]]


def _unknown(framework: Framework, word: str, known: dict[str, list[Api]]) -> str:
    for owner, name, stem in framework.functions.apis():
        if word in (stem, framework.functions.public_name(owner, name, stem)):
            does = "exchanges tensors between ranks" if stem.partition(".")[0] in COLLECTIVE else "draws random numbers"
            return f"{quoted(word)} {does} and is not run a second time; remove it"
    near = _nearest(word, known)
    hint = f"; did you mean {quoted(near)}?" if near else "; write full names, for example " + quoted(next(iter(known)))
    return f"{quoted(word)} is not a collected API of the installed framework{hint}"


def _nearest(word: str, known: dict[str, list[Api]]) -> str:
    """Return the nearest name of the same namespace, or else of any namespace."""
    space, _, name = word.rpartition(".")
    same = {full.rpartition(".")[2]: full for full in known if full.rpartition(".")[0] == space}
    if found := nearest(name, same):
        return same[found]
    others = {full.rpartition(".")[2]: full for full in reversed(known)}
    return others.get(name) or nearest(word, known)


def calls_of(framework: Framework, apis: Sequence[Api], current: Current, patches: Patches) -> FunctionCalls:
    """Return the calls of these functions, without the other functions that are recorded."""
    stems = frozenset(stem for _, _, stem in apis)
    places = {(id(owner), name) for owner, name, _ in apis}

    class Chosen(framework.collecting.calls):  # type: ignore[name-defined,misc]  # a class that is known at run time
        """The chosen functions of a framework."""

        def _wants(self, owner: Any, name: str, stem: str) -> bool:
            return (id(owner), name) in places

        def _plan_memory(self) -> None:
            """Do nothing: no values are recorded."""

        def _named(self, path: str, rank: str) -> frozenset[str]:
            return stems

    return Chosen(current, patches)
