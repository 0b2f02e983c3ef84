"""Gradients of MindSpore: those of parameters, and those of one call."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, ops

from msprobe.base.patches import Handle
from msprobe.frameworks.interface import Refusal, Refused

from .autograd import HAS_NODES
from .executors import executor

try:
    from mindspore._c_expression import run_backward
except ImportError:  # an older version
    run_backward = None


class Gradients:
    """Gradients of MindSpore."""

    can_repeat = run_backward is not None and hasattr(executor, "push_saved_tensor_hook")
    """Older versions cannot compute gradients separately from those of the training."""

    def hook(
        self, parameter: Parameter, computed: Callable[[Tensor], None], accumulated: Callable[[], None]
    ) -> Sequence[Handle]:
        return [parameter.register_hook(computed)]  # gradients are results: the training accumulates them

    def is_accumulating(self, parameter: Parameter) -> bool:
        return False

    def accumulated(self, parameter: Parameter, main_grad: bool, is_moved: bool) -> tuple[Any, bool]:
        return None, False

    def mode(self) -> tuple[bool, bool]:
        return executor.grad_flag(), executor.enable_grad()

    def set_mode(self, mode: tuple[bool, bool]) -> None:
        executor.set_grad_flag(mode[0])
        executor.set_enable_grad(mode[1])

    def may_be_needed(self, tensor: Tensor) -> bool:
        if isinstance(tensor, Parameter):
            return bool(tensor.requires_grad)
        return tensor._grad_node is not None if HAS_NODES else bool(executor.requires_grad())

    def of_call(
        self, run: Callable[[Sequence[Tensor]], list[Tensor]], tensors: Sequence[Tensor], wanted: Sequence[int]
    ) -> list[Tensor | None]:
        """By the engine itself: an exception inside `vjp` would also end the recording of the training."""
        with _recording():
            leaves = [_leaf(tensors[place]) for place in wanted]
            others = list(tensors)
            for place, leaf in zip(wanted, leaves, strict=True):
                others[place] = leaf * 1  # another tensor, because a leaf cannot be changed in place
            outputs = [t for t in run(others) if t._grad_node is not None]
            if not outputs or not leaves:
                raise Refused(Refusal.NO_GRADIENT)
            ones = tuple(Tensor(np.ones(tensor.shape, np.float32), tensor.dtype) for tensor in outputs)
            found = run_backward(tuple(outputs), ones, False, False, tuple(leaves), True, accumulate_grad=False)
        return list(found)

    @cached_property
    def _gradient(self) -> Any:
        return ops.GradOperation(get_all=True, sens_param=True)

    def vector_jacobian(
        self, function: Callable[..., Any], inputs: Sequence[Tensor], incoming: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        gradient = self._gradient
        if len(incoming) == 1:
            return tuple(gradient(lambda *values: function(*values)[0])(*inputs, incoming[0]))
        return tuple(gradient(function)(*inputs, tuple(incoming)))

    def substitute(self, own: Tensor, value: Tensor) -> Tensor:
        if _Substitute is None:
            raise Refused(Refusal.NO_GRADIENT)
        made: Tensor = _Substitute.apply(own, [value])
        return made


def _substitute_class() -> Any:
    """Return the function that has other elements in the place of a tensor's own, with the derivative of the own ones;
    None if this version has no such functions."""
    try:
        from mindspore.common._grad_function import _Function
    except ImportError:
        return None

    class Substitute(_Function):  # type: ignore[misc]  # the framework has no types
        @staticmethod
        def forward(ctx: Any, own: Tensor, value: list[Tensor]) -> Tensor:
            ctx.own = tuple(own.shape), own.dtype
            return value[0]

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
            shape, dtype = ctx.own
            return gradient if tuple(gradient.shape) == shape else ops.zeros(shape, dtype), None

    return Substitute


_Substitute = _substitute_class()


def _leaf(tensor: Tensor) -> Tensor:
    leaf = Tensor(tensor) if isinstance(tensor, Parameter) else tensor
    leaf.requires_grad_(True)
    return leaf


@contextmanager
def _recording() -> Iterator[None]:
    """Record gradients in a block, without the training's hooks on saved tensors, such as those of recomputation."""
    flag, is_enabled = executor.grad_flag(), executor.enable_grad()
    executor.set_grad_flag(True)
    executor.set_enable_grad(True)
    executor.push_saved_tensor_hook(_same, _same)
    try:
        yield
    finally:
        executor.pop_saved_tensor_hook()
        executor.set_enable_grad(is_enabled)
        executor.set_grad_flag(flag)


def _same(tensor: Tensor) -> Tensor:
    return tensor


CAPABILITY = Gradients()
