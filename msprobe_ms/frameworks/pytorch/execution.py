"""Executing calls of PyTorch again."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from msprobe.base.patches import Patches
from msprobe.cell_dump.wrappers import Current

from . import compiled
from .modes import enter_again, entered_modes, leave_modes
from .randomness import devices_of, restore, states_of


class Execution:
    """Executes calls of PyTorch again."""

    has_places = True

    def place(self, device: int) -> torch.device:
        """Return the accelerator with this number, or the CPU without accelerators."""
        has_accelerator = hasattr(torch, "accelerator") and torch.accelerator.is_available()
        accelerator = torch.accelerator.current_accelerator() if has_accelerator else None
        kind = "cpu" if accelerator is None else accelerator.type
        return torch.device("cpu") if kind == "cpu" else torch.device(kind, device)

    def check(self) -> None:
        """Do nothing: calls can always be executed again."""

    def guard(self, current: Current, guards: Patches, patches: Patches) -> None:
        compiled.plan(current, guards, patches)

    def autocast_dtype(self, tensors: Sequence[torch.Tensor]) -> Any:
        return next((_autocast_dtype(kind) for kind in devices_of(tensors) if _autocasts(kind)), None)

    @contextmanager
    def in_full_precision(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        with ExitStack() as stack:
            for kind in devices_of(tensors):
                if _autocasts(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            yield

    @contextmanager
    def unnoticed(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """Also hide the block from the user's hooks on saved tensors."""
        with torch._C.DisableTorchFunction(), torch.no_grad():  # first, because reading the states calls functions
            states = states_of(tensors)
            modes = entered_modes()
            try:
                if modes:
                    leave_modes()
                with torch.autograd.graph.saved_tensors_hooks(_same, _same):
                    yield
            finally:
                if modes:
                    enter_again(modes)
                restore(states)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _autocasts(kind: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(kind))
    except TypeError:  # before PyTorch 2.4
        return bool(torch.is_autocast_cpu_enabled() if kind == "cpu" else torch.is_autocast_enabled())


def _autocast_dtype(kind: str) -> Any:
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(kind)
    return torch.get_autocast_cpu_dtype() if kind == "cpu" else torch.get_autocast_gpu_dtype()


CAPABILITY = Execution()
