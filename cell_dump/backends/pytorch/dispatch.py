"""Every operation that the framework dispatches, also in backward: `Aten.{its name}.0.forward`.

Finer than functions: what is computed inside a recorded function or module, and in the backward, appears call by call,
with statistics of arguments and results and the innermost recorded call as its parent. It has no gradients: the
operations of the backward are calls of their own.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from msprobe.cell_dump.alias_patching import Current

MODES = torch._C._is_torch_function_mode_enabled, torch._C._len_torch_dispatch_stack
"""Whether there are modes that see functions, and such that see operations."""


def apart(work: Callable[..., Any], *args: Any) -> Any:
    """Do some work unseen by the modes that are entered now: users count, trace or place on devices with them."""
    with torch._C.DisableTorchFunction():
        modes = [_pop_mode() for _ in range(torch._C._len_torch_dispatch_stack())]
        try:
            return work(*args)
        finally:
            for mode in reversed(modes):
                _push_mode(mode)


class Dispatch:
    """The mode, entered while a collection is open; to be joined to patches."""

    def __init__(self, current: Current) -> None:
        self._current = current
        self._mode: Any = None

    def install(self) -> None:
        """Enter the mode."""
        if self._mode is None:
            self._mode = _Mode(self._current)
            self._mode.__enter__()

    def remove(self) -> None:
        """Leave the mode; where the user is inside a mode of his own, ours stays below it and does nothing."""
        if self._mode is not None and _innermost() is self._mode:
            self._mode.__exit__(None, None, None)
            self._mode = None


def _innermost() -> Any:
    depth = torch._C._len_torch_dispatch_stack()
    return torch._C._get_dispatch_stack_at(depth - 1) if depth else None


class _Mode(TorchDispatchMode):
    """Hands each operation to the session that records."""

    def __init__(self, current: Current) -> None:
        super().__init__()
        self._current = current

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        session = self._current()
        if session is None:
            return func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]  # type: ignore[attr-defined]  # an operation's overload
        operands = (*args, *(kwargs or {}).values())
        return session.call_inner(f"Aten.{name}", operands, lambda: func(*args, **(kwargs or {})))
