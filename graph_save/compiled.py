"""Functions that the graph compiler runs itself, while it reads code: their results are constants of the graph."""

from collections.abc import Callable, Hashable
from typing import Any

from mindspore import Tensor, int32
from mindspore.ops.primitive import PrimitiveWithInfer


class AtCompile(PrimitiveWithInfer):  # type: ignore[misc]  # the framework has no types
    """A function of constants that runs when a graph is compiled; where Python runs, a function that gives `eager`.

    An exception of the function ends the compilation. A graph that is captured from bytecode takes the way of Python.
    """

    def __init__(self, function: Callable[..., Any], eager: Any = None) -> None:
        super().__init__(f"msprobe_{getattr(function, '__name__', 'constant')}")
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)
        self._function, self._eager = function, eager

    def __infer__(self, *given: dict[str, Any]) -> dict[str, Any]:
        return {"dtype": None, "shape": None, "value": self._function(*(each["value"] for each in given))}

    def __call__(self, *_: Any) -> Any:
        return self._eager


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
