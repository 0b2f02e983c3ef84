"""The interface behind which frameworks differ for the monitor: optimizers, gradients of parameters, statistics on a
device. How modules and tensors are hooked is the collector's (`cell_dump/framework.py`).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from msprobe.base.framework import AnyModel, AnyModule, AnyOptimizer, AnyParameter, AnyTensor
from msprobe.base.patches import Handle, Patches
from msprobe.cell_dump.framework import Framework
from msprobe.store.monitor.layout import STATISTICS

Numbers = np.ndarray[Any, Any]
"""Float64, a row for each tensor, a column for each of `layout.STATISTICS`."""


OF_NOTHING = tuple(0.0 if name == "nans" else math.nan for name in STATISTICS)
"""The statistics of a tensor without elements."""


class Removal:
    """A handle that calls `function` once."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function: Callable[[], Any] | None = function

    def remove(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()


def hook_module(
    module: AnyModule, before: Callable[[Any, Any], None], after: Callable[[Any, Any, Any], None]
) -> Sequence[Handle]:
    """Hooks on the calls of a cell or module: they return nothing, so that they change nothing."""

    def enter(_: Any, args: Any, kwargs: Any) -> None:
        before(args, kwargs)

    def leave(_: Any, args: Any, kwargs: Any, result: Any) -> None:
        after(args, kwargs, result)

    return [
        module.register_forward_pre_hook(enter, with_kwargs=True),
        module.register_forward_hook(leave, with_kwargs=True),
    ]


class Update(NamedTuple):
    """What an optimizer works with in one update, before it begins.

    `gradients` and the moments are (parameter, tensor) pairs, of the parameters that have one. `wrong` says why there
    are no gradients.
    """

    gradients: list[tuple[AnyParameter, AnyTensor]]
    exp_avg: list[tuple[AnyParameter, AnyTensor]]
    exp_avg_sq: list[tuple[AnyParameter, AnyTensor]]
    wrong: str = ""


class Backend(Protocol):
    """One framework."""

    framework: Framework
    on_device: bool
    """Whether statistics are computed by the framework and fetched when the step ends."""

    def check(self, model: AnyModel, optimizer: AnyOptimizer) -> None:
        """Refuse, before the training begins, what cannot be monitored. UsageError."""

    def rank(self) -> int:
        """This process's rank, 0 without communication."""

    def group_rank(self, group: Any) -> int:
        """This process's rank in a group of processes."""

    def parameters(self, model: AnyModel) -> Iterable[tuple[str, AnyParameter]]:
        """The trainable parameters of a model, with their names; none twice."""

    def modules(self, model: AnyModel) -> Iterable[tuple[str, AnyModule]]:
        """The modules inside a model, with their dotted names; none twice."""

    def is_training(self, module: AnyModule) -> bool:
        """Whether a module is in training mode."""

    def gradient_hooks(
        self, parameter: AnyParameter, computed: Callable[[AnyTensor], None], accumulated: Callable[[], None]
    ) -> Sequence[Handle]:
        """Have `computed(gradient)` called with each gradient that a backward computes for a parameter, and, where the
        framework accumulates gradients itself, `accumulated()` after it has, before any reduction."""

    def is_accumulating(self, parameter: AnyParameter) -> bool:
        """Whether the framework holds a gradient of a parameter other than zeros, to which it adds the next one."""

    def accumulated(self, parameter: AnyParameter, main_grad: bool, is_moved: bool) -> tuple[AnyTensor, bool]:
        """The gradient that was accumulated for a parameter, None where none is held, and whether it is the whole.

        `is_moved`: the gradients of the micro steps before are in `main_grad`, where the parameter has one.
        """

    def module_hook(
        self, module: AnyModule, before: Callable[[Any, Any], None], after: Callable[[Any, Any, Any], None]
    ) -> Sequence[Handle]:
        """Have `before(args, kwargs)` and `after(args, kwargs, result)` called at each call of a module."""

    def out_of_compiled(self, patches: Patches) -> Handle:
        """Have `patches` removed while code is compiled, or runs compiled, until the handle is removed."""

    def update_hook(
        self, optimizer: AnyOptimizer, before: Callable[[Any], None], after: Callable[[], None]
    ) -> Sequence[Handle]:
        """Have `before(gradients)`, None where the parameters hold them, and `after()` called at each update."""

    def update_of(
        self, optimizer: AnyOptimizer, gradients: Any, main_grad: bool, monitored: Sequence[AnyParameter]
    ) -> Update:
        """What the optimizer is about to work with; of `monitored` parameters also where it updates copies of them."""

    def settle(self) -> None:
        """Wait for what is computed, outside of every guard: let the training's own errors out."""

    def array(self, tensor: AnyTensor) -> Numbers:
        """The elements of a tensor, in memory that may be its own."""

    def statistics(self, tensor: AnyTensor, eps: float) -> AnyTensor:
        """The statistics of a tensor as a small tensor that stays on the device."""

    def copied(self, tensor: AnyTensor) -> AnyTensor:
        """A copy of a tensor, on the device."""

    def total(self, copy: AnyTensor, tensor: AnyTensor) -> AnyTensor:
        """A copy plus a tensor, on the device."""

    def difference(self, tensor: AnyTensor, copy: AnyTensor) -> AnyTensor:
        """A tensor minus a copy, on the device, in float32."""

    def same_sign(self, a: AnyTensor, b: AnyTensor) -> AnyTensor:
        """1 where two tensors have the same sign, else 0, on the device."""

    def fetch(self, pending: list[AnyTensor]) -> Numbers:
        """The results of `statistics`, in one transfer."""

    def text(self, tensor: AnyTensor) -> tuple[str, str]:
        """Shape and dtype as the files have them."""

    def debugger(self) -> Callable[..., Any]:
        """The class PrecisionDebugger of the framework."""
