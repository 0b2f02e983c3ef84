"""Calls of PyTorch, on the CPU or the accelerator that PyTorch has here."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from msprobe.cell_dump.backends.pytorch.api import functions
from msprobe.precheck import executor
from msprobe.precheck.executor import CannotRun, contiguous
from msprobe.replay.recorded import Array, Named, RecordedCall


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    return {stem: getattr(owner, name) for owner, name, stem in functions()}


class Executor(executor.Executor):
    """PyTorch."""

    def __init__(self, device: int = 0) -> None:
        has_accelerator = hasattr(torch, "accelerator") and torch.accelerator.is_available()
        accelerator = torch.accelerator.current_accelerator() if has_accelerator else None
        kind = "cpu" if accelerator is None else accelerator.type
        self._device = torch.device("cpu") if kind == "cpu" else torch.device(kind, device)

    def function(self, call: RecordedCall) -> Callable[..., Any]:
        """The function of that name."""
        found = _functions().get(call.stem)
        if found is None:
            raise CannotRun(f"PyTorch {torch.__version__} has no {call.stem}")
        return found

    def tensor(self, array: Array, dtype: str) -> torch.Tensor:
        """A tensor of its own memory."""
        return torch.from_numpy(contiguous(array)).to(self._device, getattr(torch, dtype))

    def array(self, tensor: torch.Tensor) -> Array:
        """The elements."""
        plain = tensor.detach().to("cpu")
        found: Array = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy().copy()
        return found

    def dtype(self, tensor: torch.Tensor) -> str:
        """`float32`."""
        return str(tensor.dtype).rpartition(".")[2]

    def is_tensor(self, value: Any) -> bool:
        """Whether it is one of PyTorch's."""
        return isinstance(value, torch.Tensor)

    def named(self, value: Named) -> Any:
        """A dtype; memory formats and devices are left out."""
        found = getattr(torch, value.text.rpartition(".")[2].lower(), None)
        return found if isinstance(found, torch.dtype) else None

    def copied(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy within the graph of gradients."""
        return tensor.clone()

    def vector_jacobian(
        self, function: Callable[..., Any], inputs: Sequence[Any], incoming: Sequence[Any]
    ) -> Sequence[Any]:
        """By autograd."""
        with torch.enable_grad():
            leaves = [value.requires_grad_() for value in inputs]
            pairs = [(o, g) for o, g in zip(function(*leaves), incoming, strict=True) if o.requires_grad]
            if not pairs:
                return [None] * len(leaves)
            outputs, gradients = zip(*pairs, strict=True)
            found: Sequence[Any] = torch.autograd.grad(outputs, leaves, gradients, allow_unused=True)
            return found
