"""Gradients of PyTorch: those of parameters, and those of one call."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from msprobe.base.patches import Handle
from msprobe.frameworks.interface import Refusal, Refused

from .modes import without_modes
from .statistics import total


class Gradients:
    """Gradients of PyTorch."""

    can_repeat = True

    def hook(
        self, parameter: torch.nn.Parameter, computed: Callable[[torch.Tensor], None], accumulated: Callable[[], None]
    ) -> Sequence[Handle]:
        def after(_: Any) -> None:
            accumulated()

        return [parameter.register_hook(computed), parameter.register_post_accumulate_grad_hook(after)]

    def is_accumulating(self, parameter: torch.nn.Parameter) -> bool:
        return parameter.grad is not None and bool(without_modes(_is_nonzero, parameter.grad.detach()))

    def accumulated(
        self, parameter: torch.nn.Parameter, main_grad: bool, is_moved: bool
    ) -> tuple[torch.Tensor | None, bool]:
        main = getattr(parameter, "main_grad", None) if main_grad else None
        gradient = parameter.grad
        # Megatron's fused kernels add to main_grad themselves; then .grad is a placeholder.
        if gradient is None or (main is not None and getattr(parameter, "grad_added_to_main_grad", False)):
            return main, True
        if not is_moved:
            return gradient, True
        return (gradient, False) if main is None else (without_modes(total, main.detach(), gradient.detach()), True)

    def mode(self) -> bool:
        return torch.is_grad_enabled()

    def set_mode(self, mode: bool) -> None:
        torch._C._set_grad_enabled(mode)

    def may_be_needed(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.requires_grad)

    def of_call(
        self,
        run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]],
        tensors: Sequence[torch.Tensor],
        wanted: Sequence[int],
    ) -> list[Any]:
        with torch.enable_grad():
            leaves = [tensors[place].requires_grad_() for place in wanted]
            # of each leaf another tensor, because a leaf cannot be changed in place
            outputs = run([t.clone() if place in wanted else t for place, t in enumerate(tensors)])
            outputs = [t for t in outputs if t.requires_grad]
            if not outputs or not leaves:
                raise Refused(Refusal.NO_GRADIENT)
            ones = [torch.ones_like(t) for t in outputs]
            return list(torch.autograd.grad(outputs, leaves, ones, allow_unused=True))

    def vector_jacobian(
        self, function: Callable[..., Any], inputs: Sequence[Any], incoming: Sequence[Any]
    ) -> Sequence[Any]:
        with torch.enable_grad():
            leaves = [value.requires_grad_() for value in inputs]
            pairs = [(o, g) for o, g in zip(function(*leaves), incoming, strict=True) if o.requires_grad]
            if not pairs:
                return [None] * len(leaves)
            outputs, gradients = zip(*pairs, strict=True)
            found: Sequence[Any] = torch.autograd.grad(outputs, leaves, gradients, allow_unused=True)
            return found

    def substitute(self, own: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = _Substitute.apply(own, [value])  # type: ignore[no-untyped-call]  # torch has no types
        return made


class _Substitute(torch.autograd.Function):
    """Other elements in the place of a tensor's own, with the derivative of the own ones.

    They come in a list, and without their base: a result that is an argument, or a view, may not be written to.
    """

    @staticmethod
    def forward(ctx: Any, own: torch.Tensor, value: list[torch.Tensor]) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        ctx.shape = own.shape
        return value[0].data

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> tuple[torch.Tensor | None, None]:
        if gradient is None or gradient.shape == ctx.shape:
            return gradient, None
        return gradient.new_zeros(ctx.shape), None


def _is_nonzero(tensor: torch.Tensor) -> bool:
    with torch.no_grad():
        return bool(tensor.count_nonzero()) if tensor.layout is torch.strided else tensor._nnz() > 0


CAPABILITY = Gradients()
