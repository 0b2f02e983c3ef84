"""Methods that may be called on the debugger's class too, as msprobe's users write `PrecisionDebugger.start()`."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from msprobe.base.errors import UsageError


class on_either:
    """A method that may be called on the class too: it then means the debugger that was constructed last."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]  # a descriptor that carries the method's name and docstring

    def __get__(self, instance: Any, owner: Any) -> Callable[..., Any]:
        if instance is None:
            instance = owner._latest
            if instance is None:
                raise UsageError(f"PrecisionDebugger.{self.method.__name__}: construct a PrecisionDebugger first")
        return self.method.__get__(instance, owner)  # type: ignore[no-any-return]  # bound by the function itself
