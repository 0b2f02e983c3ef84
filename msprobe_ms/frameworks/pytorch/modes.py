"""Work that modes of the user do not see: users count, trace or place tensors on devices with them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

Result = TypeVar("Result")


def without_modes(work: Callable[..., Result], *args: Any) -> Result:
    """Return the result of `work`, executed outside of all modes."""
    with torch._C.DisableTorchFunction():
        if not torch._C._len_torch_dispatch_stack():
            return work(*args)
        modes = _entered()
        try:
            _leave()
            return work(*args)
        finally:
            _enter_again(modes)


@contextmanager
def no_modes() -> Iterator[None]:
    """Leave all modes in a block."""
    with torch._C.DisableTorchFunction():
        modes = _entered()
        try:
            _leave()
            yield
        finally:
            _enter_again(modes)


def _entered() -> list[Any]:
    return [torch._C._get_dispatch_stack_at(i) for i in range(torch._C._len_torch_dispatch_stack())]


def _leave() -> None:
    while torch._C._len_torch_dispatch_stack():
        _pop_mode()


def _enter_again(modes: list[Any]) -> None:
    """Enter the modes that are missing: an interrupt may have come before all of them were left."""
    for mode in modes[torch._C._len_torch_dispatch_stack() :]:
        _push_mode(mode)
