"""Functions that the graph compiler runs itself, while it reads code: their results are constants of the graph."""

from collections.abc import Callable
from typing import Any

from mindspore.ops.primitive import PrimitiveWithInfer


class AtCompile(PrimitiveWithInfer):
    """A function of constants that runs when a graph is compiled; where Python runs, a function that gives `eager`.

    An exception of the function ends the compilation. A graph that is captured from bytecode takes the way of Python.
    """

    def __init__(self, function: Callable[..., Any], eager: Any = None) -> None:
        super().__init__(f"msprobe_{getattr(function, '__name__', 'constant')}")
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)
        self._function, self._eager = function, eager

    def __infer__(self, *arguments: dict[str, Any]) -> dict[str, Any]:
        return {"dtype": None, "shape": None, "value": self._function(*(each["value"] for each in arguments))}

    def __call__(self, *_: Any) -> Any:
        return self._eager
