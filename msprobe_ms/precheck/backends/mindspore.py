"""Calls of MindSpore, executed in PyNative mode."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import mindspore
from mindspore import Tensor, context, ops

from msprobe.cell_dump.backends.mindspore.api import functions
from msprobe.precheck import executor
from msprobe.precheck.executor import CannotRun, contiguous
from msprobe.replay.recorded import Array, Named, RecordedCall


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    return {stem: getattr(owner, name) for owner, name, stem in functions()}


class Executor(executor.Executor):
    """MindSpore on the current device."""

    def __init__(self, device: int = 0) -> None:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        if context.get_context("device_target") != "CPU":
            mindspore.set_device(context.get_context("device_target"), device)
        self._gradient = ops.GradOperation(get_all=True, sens_param=True)

    def function(self, call: RecordedCall) -> Callable[..., Any]:
        """The function, or an object of a primitive's class with its defaults."""
        if call.stem.startswith("Primitive."):
            owner = getattr(ops, call.stem.rpartition(".")[2], None)
            if not (isinstance(owner, type) and issubclass(owner, ops.Primitive)):
                raise CannotRun(f"mindspore.ops has no primitive {call.stem.rpartition('.')[2]}")
            made: Callable[..., Any] = owner()
            return made
        found = _functions().get(call.stem)
        if found is None:
            raise CannotRun(f"MindSpore {mindspore.__version__} has no {call.stem}")
        return found

    def tensor(self, array: Array, dtype: str) -> Tensor:
        """A tensor of its own memory."""
        kind = getattr(mindspore, "bool_" if dtype == "bool" else dtype)
        return Tensor(contiguous(array), kind)

    def array(self, tensor: Tensor) -> Array:
        """The elements; here errors of the kernel come to light."""
        found = tensor.float() if tensor.dtype == mindspore.bfloat16 else tensor
        return found.asnumpy().copy()

    def dtype(self, tensor: Tensor) -> str:
        """`float32`, `bool`."""
        return str(tensor.dtype).lower().rstrip("_")

    def is_tensor(self, value: object) -> bool:
        """Whether it is one of MindSpore's."""
        return isinstance(value, Tensor)

    def named(self, value: Named) -> Any:
        """A dtype of MindSpore."""
        name = value.text.rpartition(".")[2].lower()
        return getattr(mindspore, "bool_" if name == "bool" else name, None) if "dtype" in value.kind else None

    def copied(self, tensor: Tensor) -> Tensor:
        """A copy within the graph of gradients."""
        return tensor.copy()

    def vector_jacobian(
        self, function: Callable[..., Any], inputs: Sequence[Tensor], incoming: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        """By `GradOperation`."""
        if len(incoming) == 1:
            return tuple(self._gradient(lambda *values: function(*values)[0])(*inputs, incoming[0]))
        return tuple(self._gradient(function)(*inputs, tuple(incoming)))
