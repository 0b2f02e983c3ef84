"""Random numbers of PyTorch. Calls that draw can be executed again with the same numbers: all states are restored."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from msprobe.frameworks.torch_settings import RANDOM_FUNCTIONS


class Random:
    """Random numbers of PyTorch."""

    functions = RANDOM_FUNCTIONS

    def is_traced(self) -> bool:
        return bool(torch.compiler.is_compiling())

    def states(self, tensors: Sequence[torch.Tensor]) -> bytes:
        with torch._C.DisableTorchFunction():
            return b"".join(state.numpy().tobytes() for _, state in _states(tensors))

    @contextmanager
    def restored(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        states = _states(tensors)
        try:
            yield
        finally:
            for restore, state in states:
                restore(state)


def _states(tensors: Sequence[torch.Tensor]) -> list[tuple[Callable[[Any], None], Any]]:
    """Return the states of the generators that a call with these tensors may use, and the functions to restore them."""
    states: list[tuple[Callable[[Any], None], Any]] = [(torch.set_rng_state, torch.get_rng_state())]
    for kind in devices_of(tensors):
        if kind != "cpu":
            module = torch.get_device_module(kind)
            states.append((module.set_rng_state, module.get_rng_state()))
    return states


def devices_of(tensors: Sequence[torch.Tensor]) -> list[str]:
    """Return the types of the devices of tensors, each once."""
    return list(dict.fromkeys(tensor.device.type for tensor in tensors))


CAPABILITY = Random()
