"""Work that modes of the user do not see: users count, trace or place tensors on devices with them."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

Result = TypeVar("Result")


def without_modes(work: Callable[..., Result], *args: Any) -> Result:
    """Return the result of `work`, executed outside of all modes."""
    with torch._C.DisableTorchFunction():
        if not torch._C._len_torch_dispatch_stack():
            return work(*args)
        modes = entered_modes()
        try:
            leave_modes()
            return work(*args)
        finally:
            enter_again(modes)


def entered_modes() -> list[Any]:
    """Return the modes that are entered, the outermost first."""
    count = torch._C._len_torch_dispatch_stack()
    return [torch._C._get_dispatch_stack_at(i) for i in range(count)] if count else []


def leave_modes() -> None:
    """Leave all modes."""
    while torch._C._len_torch_dispatch_stack():
        _pop_mode()


def enter_again(modes: list[Any]) -> None:
    """Enter the modes that are missing: an interrupt may have come before all of them were left."""
    for mode in modes[torch._C._len_torch_dispatch_stack() :]:
        _push_mode(mode)
