"""Every operation that the framework dispatches, also in backward: `Dispatch.{its name}.0.forward`.

Finer than functions and primitives: what is computed inside a recorded function or cell, and most of the backward,
appears call by call, with statistics of arguments and results and the innermost recorded call as its parent. It has no
gradients: the operations of the backward are calls of their own. The framework tells this from MindSpore 2.9 on.

The framework does not tell of: basic indexing (`x[0]`, `x[:, 1]`) and other views, operations in place (`add_`,
`x[0] = 1`), anything inside `@jit` code and optimizers that are such, some kernels of the backward (those of
LayerNorm and BiasAdd), and other threads. While the user is inside a mode of his own that he entered after `start`,
that one alone is told; `start` and `stop` stand on the same side of such a `with`.
"""

from typing import Any

import mindspore
from mindspore import utils
from mindspore.ops import Primitive

from msprobe.base.errors import UsageError
from msprobe.cell_dump.alias_patching import Current

AVAILABLE = hasattr(utils, "MsDispatchMode")


def check() -> None:
    """Refuse where the framework is too old."""
    if not AVAILABLE:
        raise UsageError(
            f"start(): dispatch needs MindSpore 2.9 or newer, and this is {mindspore.__version__}; "
            "set dispatch to false, or update MindSpore"
        )


class Dispatch:
    """The mode, entered while a collection is open; to be joined to patches."""

    def __init__(self, current: Current) -> None:
        check()
        self._mode = _mode(current)
        self._depth = 0

    def install(self) -> None:
        """Enter the mode, unless it could not be left last time."""
        if not self._depth:
            self._mode.__enter__()
            self._depth = _stack().depth()

    def remove(self) -> None:
        """Leave the mode; where the user is inside a mode of his own, ours stays below it and does nothing."""
        if self._depth and _stack().depth() == self._depth:
            self._mode.__exit__(None, None, None)
            self._depth = 0


def _stack() -> Any:
    from mindspore._c_expression import _DispatchGuardStack  # here: older versions have none

    return _DispatchGuardStack


def _mode(current: Current) -> Any:
    class Mode(utils.MsDispatchMode):  # type: ignore[misc]  # the framework has no types
        """Hands each operation to the session that records."""

        def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
            session = current()
            if session is None:
                return func(*args)
            return session.call_inner(f"Dispatch.{func.name}", operands(args), lambda: func(*args))

    return Mode()


def operands(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What an operation computes with; an older kind of operation comes as (primitive, name, its arguments)."""
    if len(args) == 3 and isinstance(args[0], Primitive) and isinstance(args[2], (tuple, list)):
        return tuple(args[2])
    return tuple(args)
