"""Second runs of MindSpore's functions, in PyNative mode.

What a kernel of MindSpore draws by a seed of its own cannot be taken back: such functions are left out by name. Those
of the default generator are, too, but for attention, whose dropout may be off; its state is restored.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor

from msprobe.base.errors import UsageError
from msprobe.base.patches import Patches
from msprobe.base.statistic import Array, widen
from msprobe.cell_dump.backends.mindspore import jit
from msprobe.cell_dump.backends.mindspore.framework import FRAMEWORK
from msprobe.cell_dump.backends.mindspore.gradient import HAS_NODES
from msprobe.cell_dump.wrappers import Current
from msprobe.executors import api, executor
from msprobe.perturb.backend import Backend
from msprobe.perturb.finding import Cause, Skipped, Stage

try:
    from mindspore._c_expression import run_backward
except ImportError:  # an older version
    run_backward = None

_RANDOM = re.compile(
    r"(?:rand\w*|random\w*|\w*dropout\w*|\w*candidate_sampler|standard_\w+|fractional_max_pool\w+|"
    r"bernoulli|cauchy|choice_with_mask|exponential|gamma|geometric|gumbel_softmax|laplace|log_normal|"
    r"multi_head_attention_forward|multinomial|multinomial_with_replacement|normal|poisson|rrelu|shuffle|"
    r"truncated_normal|uniform)(?:_ext)?_?"
)
"""Functions that draw, or call one that does."""

_HAS_ENGINE = run_backward is not None and hasattr(executor, "push_saved_tensor_hook")
"""Whether gradients can be had apart from those of the training; older versions have no such engine."""


class MindSpore(Backend):
    """MindSpore's functions."""

    framework = FRAMEWORK
    stages = (Stage.FORWARD, Stage.BACKWARD) if _HAS_ENGINE else (Stage.FORWARD,)

    @classmethod
    def public_name(cls, owner: Any, name: str, stem: str) -> str:
        return f"mindspore.Tensor.{name}" if owner is Tensor else f"{owner.__name__}.{name}"

    @staticmethod
    def is_random(owner: Any, name: str) -> bool:
        return _RANDOM.fullmatch(name) is not None

    @staticmethod
    def check() -> None:
        if ms.get_context("mode") == ms.GRAPH_MODE:
            raise UsageError(
                'start(): task "free_benchmark" runs calls a second time from Python, which is not possible in '
                "GRAPH_MODE; set PYNATIVE_MODE"
            )

    @classmethod
    def guard(cls, current: Current, guards: Patches, patches: Patches) -> None:
        jit.plan(guards, patches, nullcontext)

    # ---- tensors ---------------------------------------------------------------------------------------------------

    def refuse(self, tensors: Sequence[object]) -> None:
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise Skipped(Cause.FOREIGN)
            if tensor.has_init:
                raise Skipped(Cause.NO_DATA)

    def values(self, tensor: Tensor) -> Array:
        return widen(tensor.asnumpy())

    def with_values(self, values: Array, like: Tensor) -> Tensor:
        return _parameter_of(Tensor(np.ascontiguousarray(values).reshape(like.shape), like.dtype), like)

    def copy(self, tensor: Tensor) -> Tensor:
        if ms.get_context("device_target") != "CPU":
            return _parameter_of(tensor.copy(), tensor)
        return _parameter_of(Tensor(tensor.asnumpy()), tensor)

    def raised(self, tensor: Tensor, *, recorded: bool = False) -> Tensor:
        if recorded:
            return tensor.astype(ms.float32)
        return _parameter_of(Tensor(self.values(tensor).astype(np.float32)), tensor)

    def cast(self, tensor: Tensor, like: Tensor) -> Tensor:
        return tensor if tensor.dtype == like.dtype else tensor.astype(like.dtype)

    def memory(self, tensor: Tensor) -> tuple[int, int]:
        if tensor.size == 0:
            return 0, 0
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        start = int(tensor.data_ptr())
        return start, start + (last + 1) * int(tensor.itemsize)

    def needs_gradient(self, tensor: Tensor) -> bool:
        if isinstance(tensor, Parameter):
            return bool(tensor.requires_grad)
        return tensor._grad_node is not None if HAS_NODES else bool(executor.requires_grad())

    # ---- runs ------------------------------------------------------------------------------------------------------

    def grad_mode(self) -> tuple[bool, bool]:
        return executor.grad_flag(), executor.enable_grad()

    def set_grad_mode(self, mode: tuple[bool, bool]) -> None:
        executor.set_grad_flag(mode[0])
        executor.set_enable_grad(mode[1])

    def in_full_precision(self, tensors: Sequence[Tensor]) -> AbstractContextManager[Any]:
        return nullcontext()

    @contextmanager
    def unnoticed(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        state = ms.get_rng_state()
        try:
            with api._no_grad():
                yield
        finally:
            ms.set_rng_state(state)

    def generators(self, tensors: Sequence[Tensor]) -> bytes:
        return bytes(ms.get_rng_state().asnumpy().tobytes())

    def gradients(
        self, run: Callable[[Sequence[Tensor]], list[Tensor]], tensors: Sequence[Tensor], wanted: Sequence[int]
    ) -> list[Tensor | None]:
        """By the engine itself, not by `vjp`: what raises inside of that ends the recording of the training too."""
        with _recording():
            leaves = [self._leaf(tensors[place]) for place in wanted]
            others = list(tensors)
            for place, leaf in zip(wanted, leaves, strict=True):
                others[place] = leaf * 1  # a further tensor, for a leaf cannot be changed in place
            outputs = [t for t in run(others) if self.format(t) is not None and t._grad_node is not None]
            if not outputs or not leaves:
                raise Skipped(Cause.NO_GRADIENT)
            ones = tuple(Tensor(np.ones(tensor.shape, np.float32), tensor.dtype) for tensor in outputs)
            found = run_backward(tuple(outputs), ones, False, False, tuple(leaves), True, accumulate_grad=False)
        return list(found)

    @staticmethod
    def _leaf(tensor: Tensor) -> Tensor:
        leaf = Tensor(tensor) if isinstance(tensor, Parameter) else tensor
        leaf.requires_grad_(True)
        return leaf


def _parameter_of(tensor: Tensor, like: Tensor) -> Tensor:
    """Functions that update a parameter take nothing else."""
    if not isinstance(like, Parameter):
        return tensor
    return Parameter(tensor, name=like.name, requires_grad=False)


@contextmanager
def _recording() -> Iterator[None]:
    """Inside, gradients are recorded; hooks on saved tensors, as a recomputation of the training has, see nothing."""
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
