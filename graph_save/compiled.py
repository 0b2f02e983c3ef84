"""What compiled code of ours knows: that it is compiled, and where in a graph it stands."""

from collections.abc import Hashable
from typing import Any

from mindspore import Tensor, int32

from msprobe.at_compile import AtCompile


def _in_graph() -> bool:
    return True


in_graph = AtCompile(_in_graph, eager=False)
"""Whether this is compiled code. The compiler drops what stands in the other branch, which it could not compile."""


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
