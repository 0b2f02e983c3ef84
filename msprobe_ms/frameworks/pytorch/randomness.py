"""Random numbers of PyTorch. Calls that draw can be executed again with the same numbers: all states are restored."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

from msprobe.frameworks.torch_settings import RANDOM_FUNCTIONS


class Random:
    """Random numbers of PyTorch."""

    functions = RANDOM_FUNCTIONS

    def is_traced(self) -> bool:
        return bool(torch.compiler.is_compiling())

    def states(self, tensors: Sequence[torch.Tensor]) -> bytes:
        with torch._C.DisableTorchFunction():
            return b"".join(state.numpy().tobytes() for _, state in states_of(tensors))

    @contextmanager
    def restored(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        states = states_of(tensors)
        try:
            yield
        finally:
            restore(states)


States: TypeAlias = list[tuple[Callable[[Any], None], Any]]
"""Functions that restore generators, each with the state."""


def states_of(tensors: Sequence[torch.Tensor]) -> States:
    """Return the states of the generators that a call with these tensors may use."""
    states: States = [(torch.set_rng_state, torch.get_rng_state())]
    for kind in devices_of(tensors):
        if kind != "cpu":
            module = torch.get_device_module(kind)
            states.append((module.set_rng_state, module.get_rng_state()))
    return states


def restore(states: States) -> None:
    """Restore the states of generators."""
    for set_state, state in states:
        set_state(state)


def devices_of(tensors: Sequence[torch.Tensor]) -> list[str]:
    """Return the types of the devices of tensors, each once."""
    return list(dict.fromkeys(tensor.device.type for tensor in tensors))


CAPABILITY = Random()
