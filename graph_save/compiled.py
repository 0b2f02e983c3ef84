"""What compiled code of ours knows: that it is compiled, and where in a graph it stands."""

from collections.abc import Hashable, Iterable
from typing import Any

from mindspore import Tensor, int32
from mindspore.common.dtype import Type

from msprobe.at_compile import AtCompile
from msprobe.base.nested import PLAIN

CONTAINERS = ("tuple", "list", "dict")


def _in_graph() -> bool:
    return True


in_graph = AtCompile(_in_graph, eager=False)
"""Whether this is compiled code. The compiler drops what stands in the other branch, which it could not compile."""


def structure_of(flat: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The structure of a value as nested tuples, each a kind and what is inside, of what `_structure` makes of it.

    It can be looked up: constants that are equal, as 1 and True, are told apart, and foreign ones are left out.
    """
    todo: list[tuple[tuple[Any, ...], list[Any]]] = [((), [])]
    for entry in flat:
        if entry[0] in CONTAINERS:
            todo.append((entry, []))
            continue
        if entry[0] == "end":
            begun, members = todo.pop()
            entry = (*begun, tuple(members))
        elif entry[0] == "constant":
            entry = _constant(entry[1])
        todo[-1][1].append(entry)
    return todo[0][1][0]  # type: ignore[no-any-return]


def _constant(value: Any) -> tuple[Any, ...]:
    kind = type(value)
    if kind in PLAIN:
        return "constant", value, kind, repr(value)
    return ("dtype", str(value)) if issubclass(kind, Type) else ("unknown",)


class Places:
    """What a graph knows of the places where it was given an operator of ours: a number in the graph, the rest here.

    Equal places have one number, so a graph that is compiled again adds nothing.
    """

    def __init__(self) -> None:
        self._known: list[tuple[Hashable, ...]] = []
        self._numbers: dict[tuple[Hashable, ...], int] = {}

    def number(self, *what: Hashable) -> Tensor:
        """The number of a place, as the constant tensor that an operator takes."""
        number = self._numbers.setdefault(what, len(self._known))
        if number == len(self._known):
            self._known.append(what)
        return Tensor(number, int32)

    def __getitem__(self, number: Any) -> tuple[Any, ...]:
        return self._known[int(number)]
