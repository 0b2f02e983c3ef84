"""Second runs of MindSpore's functions, in PyNative mode.

What a kernel of MindSpore draws by a seed of its own cannot be taken back: such functions are left out by name. Those
of the default generator are, too, but for attention, whose dropout may be off; its state is restored.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial, wraps
from importlib import import_module
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, ops

from msprobe.base.errors import UsageError
from msprobe.base.patches import Patches
from msprobe.base.statistic import Array, widen
from msprobe.cell_dump.alias_patching import Current
from msprobe.cell_dump.backends.mindspore import jit
from msprobe.cell_dump.backends.mindspore.framework import FRAMEWORK
from msprobe.cell_dump.backends.mindspore.gradient import HAS_NODES
from msprobe.executors import api, executor
from msprobe.perturb.backend import Backend
from msprobe.perturb.finding import Cause, Skipped

_RANDOM = re.compile(
    r"(?:rand\w*|random\w*|\w*dropout\w*|\w*candidate_sampler|standard_\w+|fractional_max_pool\w+|"
    r"bernoulli|cauchy|choice_with_mask|exponential|gamma|geometric|gumbel_softmax|laplace|log_normal|"
    r"multi_head_attention_forward|multinomial|multinomial_with_replacement|normal|poisson|rrelu|shuffle|"
    r"truncated_normal|uniform)(?:_ext)?_?"
)
"""Functions that draw, or call one that does."""

_recompute = import_module("mindspore.common.recompute")  # as an attribute it is the function

_recomputations = [0]
"""How many recomputations by hooks on saved tensors run now. A gradient of ours inside would end their recording."""

_HAS_SAVED_HOOKS = hasattr(executor, "push_saved_tensor_hook")


class MindSpore(Backend):
    """MindSpore's functions."""

    framework = FRAMEWORK

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
                'start(): task "free_benchmark" runs calls of Python a second time, and in GRAPH_MODE there are none; '
                "set PYNATIVE_MODE"
            )

    @classmethod
    def guard(cls, current: Current, guards: Patches, patches: Patches) -> None:
        jit.plan(guards, patches, nullcontext)
        guards.add(_recompute._RecomputationHook, "__enter__", partial(_counting, 1))
        guards.add(_recompute._RecomputationHook, "__exit__", partial(_counting, -1))

    # ---- tensors ---------------------------------------------------------------------------------------------------

    def refuse(self, tensors: Sequence[Any]) -> None:
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise Skipped(Cause.FOREIGN)
            if tensor.has_init:
                raise Skipped(Cause.NO_DATA)

    def values(self, tensor: Any) -> Array:
        return widen(tensor.asnumpy())

    def with_values(self, values: Array, like: Any) -> Any:
        return _parameter_of(Tensor(np.ascontiguousarray(values).reshape(like.shape), like.dtype), like)

    def copy(self, tensor: Any) -> Any:
        if ms.get_context("device_target") != "CPU":
            return _parameter_of(tensor.copy(), tensor)
        return _parameter_of(Tensor(tensor.asnumpy()), tensor)

    def raised(self, tensor: Any, *, recorded: bool = False) -> Any:
        if recorded:
            return tensor.astype(ms.float32)
        return _parameter_of(Tensor(self.values(tensor).astype(np.float32)), tensor)

    def cast(self, tensor: Any, like: Any) -> Any:
        return tensor if tensor.dtype == like.dtype else tensor.astype(like.dtype)

    def memory(self, tensor: Any) -> tuple[int, int]:
        if tensor.size == 0:
            return 0, 0
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        start = int(tensor.data_ptr())
        return start, start + (last + 1) * int(tensor.itemsize)

    def needs_gradient(self, tensor: Any) -> bool:
        if isinstance(tensor, Parameter):
            return bool(tensor.requires_grad)
        return tensor._grad_node is not None if HAS_NODES else bool(executor.requires_grad())

    # ---- runs ------------------------------------------------------------------------------------------------------

    def in_full_precision(self, tensors: Sequence[Any]) -> AbstractContextManager[Any]:
        return nullcontext()

    @contextmanager
    def unnoticed(self, tensors: Sequence[Any]) -> Iterator[None]:
        state = ms.get_rng_state()
        try:
            with api._no_grad():
                yield
        finally:
            ms.set_rng_state(state)

    def generators(self, tensors: Sequence[Any]) -> bytes:
        return bytes(ms.get_rng_state().asnumpy().tobytes())

    def gradients(
        self, run: Callable[[Sequence[Any]], list[Any]], tensors: Sequence[Any], wanted: Sequence[int]
    ) -> list[Any]:
        def function(*inputs: Any) -> Any:
            others = list(tensors)
            for place, tensor in zip(wanted, inputs, strict=True):
                others[place] = tensor
            return tuple(tensor for tensor in run(others) if self.format(tensor) is not None)

        if not wanted:
            raise Skipped(Cause.NO_GRADIENT)
        if _recomputations[0]:
            raise Skipped(Cause.RECOMPUTED)
        with _recording():
            outputs, vjp = ops.vjp(function, *(tensors[place] for place in wanted))
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            if not outputs:
                raise Skipped(Cause.NO_GRADIENT)
            found = vjp(*(Tensor(np.ones(tensor.shape, np.float32), tensor.dtype) for tensor in outputs))
        return list(found) if isinstance(found, tuple) else [found]


def _counting(change: int, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def hook(*args: Any) -> Any:
        _recomputations[0] += change
        return original(*args)

    return hook


def _parameter_of(tensor: Any, like: Any) -> Any:
    """Functions that update a parameter take nothing else."""
    if not isinstance(like, Parameter):
        return tensor
    return Parameter(tensor, name=like.name, requires_grad=False)


@contextmanager
def _recording() -> Iterator[None]:
    """Inside, gradients are recorded; hooks on saved tensors, as a recomputation of the training has, see nothing."""
    before = executor.enable_grad()
    executor.set_enable_grad(True)
    if _HAS_SAVED_HOOKS:
        executor.push_saved_tensor_hook(_same, _same)
    try:
        yield
    finally:
        if _HAS_SAVED_HOOKS:
            executor.pop_saved_tensor_hook()
        executor.set_enable_grad(before)


def _same(tensor: Any) -> Any:
    return tensor
