"""Which APIs are run a second time: all that the framework has, or those that the user lists."""

from collections.abc import Sequence
from typing import Any

from msprobe.base.checks import nearest, quoted
from msprobe.base.errors import SettingsError
from msprobe.base.patches import Patches
from msprobe.cell_dump.functions import COLLECTIVE, FunctionCalls
from msprobe.cell_dump.wrappers import Current

from .backend import Backend

Api = tuple[Any, str, str]
"""Owner of the attribute, its name, stem of the calls' names."""


def chosen(backend: type[Backend], listed: Sequence[str]) -> list[Api]:
    """The APIs with the public names in `listed`, or all where it is empty. A stem, `Functional.bmm`, is a name too.

    SettingsError, with the nearest name, for one that the installed framework does not have, and for one that is not
    run twice.
    """
    every = list(backend.apis())
    if not listed:
        return [api[:3] for api in every]
    known: dict[str, list[Api]] = {}
    for owner, name, stem, public in every:
        for word in dict.fromkeys((public, stem)):
            known.setdefault(word, []).append((owner, name, stem))
    for word in listed:
        if word not in known:
            raise SettingsError(f"free_benchmark.list: {_unknown(backend, word, known)}")
    found = [api for word in listed for api in known[word]]
    return [api for at, api in enumerate(found) if api not in found[:at]]


def _unknown(backend: type[Backend], word: str, known: dict[str, list[Api]]) -> str:
    for owner, name, stem in backend.framework.calls.functions():
        if word in (stem, backend.public_name(owner, name, stem)):
            does = "exchanges tensors between ranks" if stem.partition(".")[0] in COLLECTIVE else "draws random numbers"
            return f"{quoted(word)} {does} and is not run a second time; remove it"
    near = _nearest(word, known)
    hint = f"; did you mean {quoted(near)}?" if near else "; write full names, for example " + quoted(next(iter(known)))
    return f"{quoted(word)} is not a collected API of the installed framework{hint}"


def _nearest(word: str, known: dict[str, list[Api]]) -> str:
    """The nearest name of the same namespace, or else of any."""
    space, _, name = word.rpartition(".")
    same = {full.rpartition(".")[2]: full for full in known if full.rpartition(".")[0] == space}
    if found := nearest(name, same):
        return same[found]
    others = {full.rpartition(".")[2]: full for full in reversed(known)}
    return others.get(name) or nearest(word, known)


def calls_of(backend: type[Backend], apis: Sequence[Api], current: Current, patches: Patches) -> FunctionCalls:
    """The calls of these functions, and nothing else that the framework's collector would see."""
    stems = frozenset(stem for _, _, stem in apis)
    places = {(id(owner), name) for owner, name, _ in apis}

    class Chosen(backend.framework.calls):  # type: ignore[name-defined,misc]  # a class that is known at run time
        """The chosen functions of a framework."""

        def _wants(self, owner: Any, name: str, stem: str) -> bool:
            return (id(owner), name) in places

        def _plan_memory(self) -> None:
            """Nothing is recorded here, so it does not matter what is written."""

        def _named(self, path: str, rank: str) -> frozenset[str]:
            return stems

    return Chosen(current, patches)
