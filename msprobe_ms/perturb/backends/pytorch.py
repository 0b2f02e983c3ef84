"""Second runs of PyTorch's functions.

Copies have the strides of the original, and stand at an address of the same alignment: kernels of matrices choose by
both how they sum, and a second run without any change is to give the same bits.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch's stub leaves it out
from torch.utils._python_dispatch import _pop_mode, _push_mode

from msprobe.base.framework import array_of
from msprobe.base.patches import Patches
from msprobe.base.statistic import Array
from msprobe.cell_dump.backends.pytorch import compiled
from msprobe.cell_dump.backends.pytorch.framework import FRAMEWORK
from msprobe.cell_dump.wrappers import Current
from msprobe.perturb.backend import Backend
from msprobe.perturb.finding import Cause, Mode, Skipped
from msprobe.perturb.formats import Format, format_of

_PLAIN = (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter))
_ALIGNMENT = 64
_WIDEST = 8
"""A view whose elements lie so many times as far apart as they need to is copied without the gaps."""

_is_transformed: Callable[[Any], bool] = getattr(
    getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda tensor: False
)


class PyTorch(Backend):
    """PyTorch's functions. Random ones are run with the same random numbers, for the generators are restored."""

    framework = FRAMEWORK
    modes = tuple(Mode)

    @classmethod
    def public_name(cls, owner: Any, name: str, stem: str) -> str:
        return f"torch.Tensor.{name}" if owner is torch.Tensor else f"{owner.__name__}.{name}"

    @classmethod
    def guard(cls, current: Current, guards: Patches, patches: Patches) -> None:
        compiled.plan(current, guards, patches)

    def grad_mode(self) -> bool:
        return torch.is_grad_enabled()

    def set_grad_mode(self, mode: bool) -> None:
        torch._C._set_grad_enabled(mode)

    # ---- tensors ---------------------------------------------------------------------------------------------------

    def refuse(self, tensors: Sequence[torch.Tensor]) -> None:
        with torch._C.DisableTorchFunction():  # a mode of the user would see each attribute that is read
            for tensor in tensors:
                if not isinstance(tensor, torch.Tensor):
                    raise Skipped(Cause.FOREIGN)
                if _is_transformed(tensor) or torch._C._functorch.peek_interpreter_stack() is not None:
                    raise Skipped(Cause.TRANSFORM)
                if isinstance(tensor, UninitializedTensorMixin) or tensor.is_meta or not _has_data(tensor):
                    raise Skipped(Cause.NO_DATA)
                if type(tensor) not in _PLAIN or tensor.is_nested:
                    raise Skipped(Cause.FOREIGN)

    def format(self, tensor: torch.Tensor) -> Format | None:
        return format_of(tensor.dtype) if tensor.layout is torch.strided else None

    def values(self, tensor: torch.Tensor) -> Array:
        return array_of(tensor)

    def with_values(self, values: Array, like: torch.Tensor) -> torch.Tensor:
        made = self.copy(like)
        made.copy_(torch.from_numpy(np.ascontiguousarray(values)).reshape(like.shape))  # rounds nothing: it fits
        return made

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg() or tensor.numel() == 0:
            return tensor.clone()
        span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        if span > _WIDEST * tensor.numel():
            return tensor.clone()
        item = tensor.element_size()
        buffer = torch.empty(span + 2 * _ALIGNMENT // item, dtype=tensor.dtype, device=tensor.device)
        start = (tensor.data_ptr() - buffer.data_ptr()) % _ALIGNMENT // item
        buffer[start : start + span].copy_(tensor.as_strided((span,), (1,)))
        return buffer.as_strided(tensor.shape, tensor.stride(), start)

    def raised(self, tensor: torch.Tensor, *, recorded: bool = False) -> torch.Tensor:
        return (tensor if recorded else tensor.detach()).to(torch.float32)

    def on_cpu(self, tensor: torch.Tensor, *, recorded: bool = False) -> torch.Tensor:
        if recorded:
            return tensor.to("cpu", copy=True)
        return self.copy(tensor) if self.is_on_cpu(tensor) else tensor.detach().to("cpu")

    def is_on_cpu(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.device.type == "cpu")

    def cast(self, tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return tensor.to(device=like.device, dtype=like.dtype)

    def memory(self, tensor: torch.Tensor) -> tuple[int, int]:
        if tensor.layout is not torch.strided:
            return 0, 0
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()

    def needs_gradient(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.requires_grad)

    # ---- runs ------------------------------------------------------------------------------------------------------

    def lower_format(self, tensors: Sequence[torch.Tensor]) -> Format | None:
        for kind in _devices(tensors):
            if _autocasts(kind):
                return format_of(_autocast_dtype(kind))
        return None

    @contextmanager
    def in_full_precision(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        with ExitStack() as stack:
            for kind in _devices(tensors):
                if _autocasts(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            yield

    @contextmanager
    def unnoticed(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """Modes of the user, who counts or traces with them, see nothing either; nor do his hooks of saved tensors."""
        with torch._C.DisableTorchFunction(), torch.no_grad():
            generators = _states(tensors)
            modes = [torch._C._get_dispatch_stack_at(i) for i in range(torch._C._len_torch_dispatch_stack())]
            try:
                while torch._C._len_torch_dispatch_stack():
                    _pop_mode()
                with torch.autograd.graph.saved_tensors_hooks(_same, _same):
                    yield
            finally:
                for mode in modes[torch._C._len_torch_dispatch_stack() :]:
                    _push_mode(mode)
                for restore, state in generators:
                    restore(state)

    def generators(self, tensors: Sequence[torch.Tensor]) -> bytes:
        with torch._C.DisableTorchFunction():
            return b"".join(state.numpy().tobytes() for _, state in _states(tensors))

    def gradients(
        self,
        run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]],
        tensors: Sequence[torch.Tensor],
        wanted: Sequence[int],
    ) -> list[Any]:
        with torch.enable_grad():
            leaves = [tensors[place].requires_grad_() for place in wanted]
            # of each a further tensor, for a leaf cannot be changed in place
            outputs = run([t.clone() if place in wanted else t for place, t in enumerate(tensors)])
            outputs = [t for t in outputs if t.requires_grad and self.format(t) is not None]
            if not outputs or not leaves:
                raise Skipped(Cause.NO_GRADIENT)
            ones = [torch.ones_like(t) for t in outputs]
            return list(torch.autograd.grad(outputs, leaves, ones, allow_unused=True))


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _has_data(tensor: torch.Tensor) -> bool:
    """Whether there is memory behind a tensor; sharded training sets storages free."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return True
    return tensor.untyped_storage().nbytes() > 0 and not tensor._is_zerotensor()


def _devices(tensors: Sequence[torch.Tensor]) -> list[str]:
    return list(dict.fromkeys(tensor.device.type for tensor in tensors))


def _states(tensors: Sequence[torch.Tensor]) -> list[tuple[Callable[[Any], None], Any]]:
    """The states of the default generators that a call with such tensors may use, and how each is restored."""
    states: list[tuple[Callable[[Any], None], Any]] = [(torch.set_rng_state, torch.get_rng_state())]
    for kind in _devices(tensors):
        if kind != "cpu":
            module = torch.get_device_module(kind)
            states.append((module.set_rng_state, module.get_rng_state()))
    return states


def _autocasts(kind: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(kind))
    except TypeError:  # before PyTorch 2.4
        return bool(torch.is_autocast_cpu_enabled() if kind == "cpu" else torch.is_autocast_enabled())


def _autocast_dtype(kind: str) -> Any:
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(kind)
    return torch.get_autocast_cpu_dtype() if kind == "cpu" else torch.get_autocast_gpu_dtype()
