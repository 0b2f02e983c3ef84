"""The gradients of one process before any reduction: those of all micro steps of an update together.

Where they are accumulated decides how they are measured:

| accumulated | by | measured |
|---|---|---|
| in `.grad` | PyTorch | `.grad`, after each backward has added to it |
| in `main_grad` | Megatron's buffers | `main_grad` with what the backward has computed |
| elsewhere | the training itself, as with MindSpore | the gradients of the micro steps, added up here |

In the first two an update that a loss scaler skips is recognized by the buffer, which is empty afterwards. In the last
it is not: `micro_steps`, the number of micro steps of an update, then tells which gradients belong together. Where it
is not given, all since the last update do; if that is contradicted, nothing is written and the reason is noted.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyParameter, AnyTensor
from msprobe.base.log import log_once
from msprobe.base.patches import Handle
from msprobe.store.monitor.layout import STATISTICS

from .backend import Backend
from .guard import Guard
from .readings import Key, Readings

UNREDUCED = "grad_unreduced"
ACCUMULATED = "grad_accumulated"
"""The kind of the sums where `grad_unreduced` has the gradient of each micro step; it is not written."""


@dataclass(slots=True)
class _Own:
    """The gradients of one parameter since the last update."""

    key: Key
    parameter: AnyParameter
    count: int = 0
    """Gradients that were computed."""
    passed: int = -1
    """The backward pass of the last one."""
    window: int = -1
    """The update that the last one belongs to, counted from the last update that was made."""
    total: Any = None
    """Their sum, where the training accumulates them itself."""
    is_moved: bool = False
    """Whether `.grad` did not hold those before when the last one was computed."""
    accumulates: bool = False
    """Whether `.grad` has been seen to hold those before."""


class OwnGradients:
    """Measures the gradients of parameters in the backward while installed.

    `each` measures those of each micro step as `grad_unreduced`, `sums` their sum: as `grad_unreduced`, or with `each`
    for `norm` alone.
    """

    def __init__(
        self,
        backend: Backend,
        readings: Readings,
        guard: Guard,
        *,
        each: bool,
        sums: bool,
        main_grad: bool,
        micro_steps: int | None,
    ) -> None:
        self._backend, self._readings, self._guard = backend, readings, guard
        self._each, self._sums, self._main_grad, self._micro_steps = each, sums, main_grad, micro_steps
        self._kind = ACCUMULATED if each else UNREDUCED
        self._own: list[_Own] = []
        self._handles: list[Handle] = []
        self._framework_accumulates = False
        self._passes = 0
        """Backward passes since the last update."""
        self._usual: int | None = None
        """Backward passes of the update before."""
        self._began_again = self._is_concluded = False
        self.active = False

    def install(self, parameters: Iterable[tuple[Key, Any]]) -> None:
        """Hook the gradients of parameters."""
        for key, parameter in parameters:
            own = _Own(key, parameter)
            self._own.append(own)
            self._handles += self._backend.gradients.hook(parameter, *self._hooks(own))

    def _hooks(self, own: _Own) -> tuple[Callable[[Any], None], Callable[[], None]]:
        backend, guard, what = self._backend, self._guard, f"the gradient of {own.key.name}"

        def computed(gradient: AnyTensor) -> None:
            if self.active and gradient is not None and not guard.is_busy:
                backend.settle()
                guard.run(what, self._computed, own, gradient)

        def accumulated() -> None:
            if self.active and self._sums and not guard.is_busy:
                guard.run(what, self._accumulated, own)

        return computed, accumulated

    def _computed(self, own: _Own, gradient: AnyTensor) -> None:
        is_first = self._count(own)
        if self._each:
            self._readings.add(UNREDUCED, own.key._replace(micro_step=own.count - 1), gradient)
        if not self._sums:
            return
        if self._framework_accumulates and own.count > 1 and not own.accumulates:
            own.accumulates = self._backend.gradients.is_accumulating(own.parameter)
            own.is_moved = not own.accumulates
        if self._adds_up(own):
            own.total = self._readings.total(None if is_first else own.total, gradient)
        if not self._framework_accumulates:
            self._readings.add(self._kind, own.key, gradient, None if is_first else own.total)

    def _accumulated(self, own: _Own) -> None:
        gradient, is_whole = self._backend.gradients.accumulated(own.parameter, self._main_grad, own.is_moved)
        if gradient is None:
            return  # a hook of the training has removed it, and accumulates itself
        self._framework_accumulates = True
        if not is_whole and not self._known:
            self._began_again = True  # it was cleared, or moved; after an update that was skipped it is cleared
        self._readings.add(self._kind, own.key, gradient, None if is_whole or not self._known else own.total)
        if not self._adds_up(own):
            own.total = None

    def _count(self, own: _Own) -> bool:
        """Count a gradient; returns whether it is the first of its update."""
        if own.passed == self._passes - 1:
            self._passes += 1
        own.passed, own.count = self._passes - 1, own.count + 1
        window = own.passed // self._micro_steps if self._micro_steps else 0
        is_first, own.window = window != own.window, window
        return is_first

    @property
    def _known(self) -> bool:
        """Return whether updates have several micro steps, as far as detected."""
        return self._micro_steps is not None and self._micro_steps > 1

    def _adds_up(self, own: _Own) -> bool:
        """Return whether gradients must be summed here, which takes memory for a copy of each."""
        if self._framework_accumulates:
            return self._known and not own.accumulates
        return self._known if self._micro_steps is not None else self._usual != 1

    # ---- the update ------------------------------------------------------------------------------------------------

    def conclude(self, received: Iterable[tuple[Any, Any]] = ()) -> None:
        """Conclude an update whose micro steps were all measured; `received` are the gradients of the optimizer."""
        if self._is_concluded or not self._passes or not self._sums:
            return
        self._is_concluded = True
        passes, usual, given = self._passes, self._usual, self._micro_steps
        self._usual = passes
        if self._framework_accumulates:
            if self._began_again:
                _note_cleared(passes)
            return
        if given is not None:
            if passes % given:
                log_once(
                    f"monitor micro steps {given}",
                    f"monitor: an update followed {passes} backward passes, but grad_acc_steps is {given}: the "
                    "statistics of unreduced gradients cover only the last passes",
                )
            return
        why = ""
        if passes > 1 and usual not in (None, passes):  # the sum of one pass is complete
            why = f"this update followed {passes} backward passes, and the previous one {usual}"
        elif passes > 1 and self._has_dropped(received):
            why = f"this update followed {passes} backward passes and does not contain all of their gradients"
        if why:
            self._readings.discard(self._kind)
            self._guard.run("the sum of the unreduced gradients", refuse, f"{why}; pass grad_acc_steps to the monitor")

    def _has_dropped(self, received: Iterable[tuple[Any, Any]]) -> bool:
        """Return whether a sum is not finite although the optimizer receives a finite one: an update was skipped."""
        found, numbers = self._readings.numbers(self._kind)
        norms = numbers[:, STATISTICS.index("norm")]
        bad = {key for (key, _), norm in zip(found, norms, strict=True) if not math.isfinite(norm)}
        if not bad:
            return False
        keys = {id(own.parameter): own.key for own in self._own}
        suspects = [self._readings.copy(gradient) for p, gradient in received if keys.get(id(p)) in bad]
        return any(map(math.isfinite, self._readings.measure(suspects, "norm")))

    def norm(self) -> float | None:
        """Return the L2 norm over all of them; None where none was measured."""
        found, numbers = self._readings.numbers(self._kind)
        if not found:
            return None
        return math.sqrt(float(np.square(numbers[:, STATISTICS.index("norm")]).sum()))

    def end_step(self) -> None:
        """Discard the gradients of the update after the optimizer has run."""
        self._passes, self._began_again, self._is_concluded = 0, False, False
        for own in self._own:
            own.count, own.passed, own.window, own.total, own.is_moved = 0, -1, -1, None, False

    def remove(self) -> None:
        """Remove all hooks."""
        self.end_step()
        while self._handles:
            self._handles.pop().remove()


def micro_steps_of(value: Any) -> int | None:
    """Return `grad_acc_steps` as a number, None if it is not given. UsageError if it is invalid."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1 and value == int(value):
        return int(value)
    raise UsageError(f"set_monitor(): grad_acc_steps is {value!r}; pass the number of micro steps per update")


def _note_cleared(passes: int) -> None:
    log_once(
        "monitor gradients were cleared",
        f"monitor: an update followed {passes} backward passes with .grad cleared in between: only the last pass "
        "is counted, as if an update had been skipped. If gradients are accumulated elsewhere, pass "
        "grad_acc_steps",
    )


def refuse(why: str) -> None:
    raise UsageError(why)
