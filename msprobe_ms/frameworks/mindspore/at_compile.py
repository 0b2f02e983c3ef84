"""Functions that run when a graph is compiled; their results are constants of the graph."""

from collections.abc import Callable
from typing import Any

from mindspore.ops.primitive import PrimitiveWithInfer


class AtCompile(PrimitiveWithInfer):
    """A function of constants that runs when a graph is compiled; called from Python, it returns `eager`.

    An exception of the function ends the compilation. In a graph captured from bytecode it is called from Python.
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
