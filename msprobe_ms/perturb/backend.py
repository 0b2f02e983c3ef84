"""The interface behind which the frameworks differ: how a tensor is read and copied, and how a call is run quietly.

The modules of `backends` implement it; nothing else in this package knows a framework.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from msprobe.base.framework import AnyTensor
from msprobe.base.patches import Patches
from msprobe.base.statistic import Array
from msprobe.cell_dump.framework import Framework
from msprobe.cell_dump.functions import COLLECTIVE
from msprobe.cell_dump.wrappers import Current

from .finding import Mode, Stage
from .formats import Format, format_of


class Backend:
    """One framework, as second runs need it. Methods that get tensors may raise `Skipped`."""

    stages: ClassVar[tuple[Stage, ...]] = (Stage.FORWARD, Stage.BACKWARD)
    """What can be compared."""

    modes: ClassVar[tuple[Mode, ...]] = tuple(mode for mode in Mode if mode is not Mode.TO_CPU)
    """How the second run may differ."""

    framework: ClassVar[Framework]
    """The same framework as the collector of calls sees it."""

    @classmethod
    def apis(cls) -> Iterator[tuple[Any, str, str, str]]:
        """What can be perturbed: owner of the attribute, its name, stem of the calls' names, public name.

        All that the collector records, but for what exchanges tensors between ranks or draws random numbers in a way
        that cannot be taken back.
        """
        for owner, name, stem in cls.framework.calls.functions():
            if stem.partition(".")[0] not in COLLECTIVE and not cls.is_random(owner, name):
                yield owner, name, stem, cls.public_name(owner, name, stem)

    @classmethod
    def public_name(cls, owner: Any, name: str, stem: str) -> str:
        """The full name by which users call an API: `mindspore.ops.bmm`, `torch.Tensor.add`."""
        raise NotImplementedError

    @staticmethod
    def is_random(owner: Any, name: str) -> bool:
        """Whether an API draws random numbers from a generator whose state cannot be restored."""
        return False

    @staticmethod
    def check() -> None:
        """UsageError where calls cannot be seen now."""

    @classmethod
    def guard(cls, current: Current, guards: Patches, patches: Patches) -> None:
        """Plan into `guards` what keeps `patches` out of compiled code."""
        raise NotImplementedError

    def grad_mode(self) -> Any:
        """Whether the framework records gradients now, as `set_grad_mode` takes it."""
        raise NotImplementedError

    def set_grad_mode(self, mode: Any) -> None:
        """Have it record gradients as it did."""
        raise NotImplementedError

    # ---- tensors ---------------------------------------------------------------------------------------------------

    def refuse(self, tensors: Sequence[AnyTensor]) -> None:
        """Skipped where one of a call's tensors cannot be read or copied, or the call is run by a transform."""
        raise NotImplementedError

    def format(self, tensor: AnyTensor) -> Format | None:
        """The format of a dense floating-point tensor; None for every other tensor."""
        return format_of(tensor.dtype)

    def values(self, tensor: AnyTensor) -> Array:
        """The elements of a tensor that has a format, perhaps in its own memory; of bfloat16 as float32."""
        raise NotImplementedError

    def with_values(self, values: Array, like: AnyTensor) -> AnyTensor:
        """A tensor of dtype, layout and device of `like`, without gradient, that has these values."""
        raise NotImplementedError

    def copy(self, tensor: AnyTensor) -> AnyTensor:
        """A tensor of its own memory, with the same values and layout, without gradient."""
        raise NotImplementedError

    def raised(self, tensor: AnyTensor, *, recorded: bool = False) -> AnyTensor:
        """A tensor as float32; `recorded`, its gradient flows back to `tensor`."""
        raise NotImplementedError

    def on_cpu(self, tensor: AnyTensor, *, recorded: bool = False) -> AnyTensor:
        """A tensor with the same values on the CPU, in memory of its own; `recorded`, its gradient flows back."""
        raise NotImplementedError

    def is_on_cpu(self, tensor: AnyTensor) -> bool:
        """Whether a tensor is on the CPU already."""
        raise NotImplementedError

    def cast(self, tensor: AnyTensor, like: AnyTensor) -> AnyTensor:
        """A tensor in the dtype and on the device of another one, recorded for gradients."""
        raise NotImplementedError

    def memory(self, tensor: AnyTensor) -> tuple[int, int]:
        """The addresses between which a tensor's elements stand; equal ones for a tensor without elements."""
        raise NotImplementedError

    def needs_gradient(self, tensor: AnyTensor) -> bool:
        """Whether gradients of a tensor may be wanted by the training."""
        raise NotImplementedError

    # ---- runs ------------------------------------------------------------------------------------------------------

    def lower_format(self, tensors: Sequence[AnyTensor]) -> Format | None:
        """The format that functions compute in by themselves at this place (autocast), if it is below float32."""
        return None

    def in_full_precision(self, tensors: Sequence[AnyTensor]) -> AbstractContextManager[Any]:
        """Inside, functions compute in the dtype of their arguments."""
        raise NotImplementedError

    def unnoticed(self, tensors: Sequence[AnyTensor]) -> AbstractContextManager[Any]:
        """Inside, nothing is recorded for gradients; random generators are afterwards as before."""
        raise NotImplementedError

    def generators(self, tensors: Sequence[AnyTensor]) -> bytes:
        """The state of the random generators that a call with these tensors may draw from."""
        raise NotImplementedError

    def gradients(
        self, run: Callable[[Sequence[AnyTensor]], list[AnyTensor]], tensors: Sequence[AnyTensor], wanted: Sequence[int]
    ) -> list[Any]:
        """The gradients of some tensors, by their places, for all-ones output gradients; None where none arrives.

        `run` makes of tensors in the place of `tensors` the outputs of a call. Skipped where no gradient can be had.
        """
        raise NotImplementedError
