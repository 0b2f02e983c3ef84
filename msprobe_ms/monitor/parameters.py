"""Parameters at the points of an update: unreduced gradients, what the optimizer receives, its moments, the weights.

Unreduced gradients are measured in the backward (`gradients`), where clipping, scaling or a reduction that works in
place has not yet happened; reduced ones as the update begins. What the parameters are before the update is measured
then, not taken from the end of the last one: code between two updates may change them.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from msprobe.base.framework import AnyModule
from msprobe.base.interrupts import must_propagate
from msprobe.frameworks.interface import Update

from .backend import Backend
from .gradients import OwnGradients, refuse
from .guard import Guard
from .names import Choice, shortened
from .readings import Key, Readings, pairs

REDUCED, BEFORE, AFTER = "grad_reduced", "param_origin", "param_updated"
MOMENTS = ("exp_avg", "exp_avg_sq")
LOCAL = "local"
DIRECTION = "mg_direction"
CHANGE = "update_ratio"
NORM = "grad_norm"


@dataclass(frozen=True)
class Wanted:
    """The points to measure; `own` is the norm of the gradients of this process, `direction` the share of elements of
    gradient and first moment with the same sign, `change` the size of an update relative to the weight."""

    gradients: bool = False
    each_micro_step: bool = False
    moments: bool = False
    weights: bool = False
    own: bool = False
    direction: bool = False
    change: bool = False
    main_grad: bool = True
    micro_steps: int | None = None
    """Of an update; None where it is not known."""

    @property
    def any(self) -> bool:
        """Return whether anything is measured."""
        return any((self.gradients, self.moments, self.weights, self.own, self.direction, self.change))


class Parameters:
    """The parameters of models that are monitored, by identity; `names` are those in the files."""

    def __init__(self, backend: Backend, models: Iterable[AnyModule], choice: Choice, *, short: bool) -> None:
        self.names: dict[int, Key] = {}
        self.of: dict[int, Any] = {}
        for vpp_stage, model in enumerate(models):
            known = {name: each for name, each in backend.modules.parameters(model) if each.requires_grad}
            named = shortened(known)
            for name, parameter in known.items():
                if choice.has_parameter(vpp_stage, name, named[name]) and id(parameter) not in self.names:
                    self.names[id(parameter)] = Key(vpp_stage, named[name] if short else name)
                    self.of[id(parameter)] = parameter

    def __len__(self) -> int:
        return len(self.names)


class ParameterPoints:
    """Measures at the points of an update while installed."""

    def __init__(self, backend: Backend, readings: Readings, guard: Guard, wanted: Wanted) -> None:
        self._backend, self._readings, self._guard, self._wanted = backend, readings, guard, wanted
        self._parameters: Parameters | None = None
        self._own = OwnGradients(
            *(backend, readings, guard),
            each=wanted.each_micro_step,
            sums=wanted.own or not wanted.each_micro_step,
            main_grad=wanted.main_grad,
            micro_steps=wanted.micro_steps,
        )
        self._left_out: Callable[[Any], bool] = _never
        self._copies: list[tuple[Any, Any]] = []
        self.active = False

    @property
    def active(self) -> bool:
        """Return whether the present step is measured."""
        return self._own.active

    @active.setter
    def active(self, active: bool) -> None:
        self._own.active = active

    def install(self, parameters: Parameters, left_out: Callable[[Any], bool]) -> None:
        """Hook the gradients; reduced gradients of parameters that are `left_out` are another rank's to write."""
        self._parameters, self._left_out = parameters, left_out
        if self._wanted.gradients or self._wanted.own:
            self._own.install((parameters.names[identity], each) for identity, each in parameters.of.items())

    @property
    def monitored(self) -> list[Any]:
        """Return the monitored parameters."""
        return [] if self._parameters is None else list(self._parameters.of.values())

    def before(self, update: Update) -> None:
        """Measure before the optimizer changes the parameters."""
        wanted = self._wanted
        self.conclude(update.gradients)
        if wanted.own:
            self._guard.run("the norm of the own gradients", self._own_norm)
        if wanted.gradients:
            if update.wrong:
                self._guard.run("the reduced gradients", refuse, update.wrong)
            self._add(REDUCED, [(p, gradient) for p, gradient in update.gradients if not self._left_out(p)])
        if wanted.weights:
            self._add(BEFORE, self._weights())
        if wanted.moments:
            for kind, tensors in zip(MOMENTS, (update.exp_avg, update.exp_avg_sq), strict=True):
                self._add(kind, tensors)
        if wanted.direction:
            self._guard.run("the direction of gradients", self._directions, update)
        if wanted.change:
            self._guard.run("the weights before the update", self._copy_weights)

    def conclude(self, received: Iterable[tuple[Any, Any]] = ()) -> None:
        """Conclude the gradients of an update, for which no more are computed."""
        self._guard.run("the unreduced gradients", self._own.conclude, received)

    def after(self) -> None:
        """Measure after the optimizer has changed the parameters."""
        if self._wanted.weights:
            self._add(AFTER, self._weights())
        if self._wanted.change:
            self._guard.run("the change by the update", self._changes)

    def _directions(self, update: Update) -> None:
        names = {} if self._parameters is None else self._parameters.names
        moments = {id(parameter): moment for parameter, moment in update.exp_avg}
        known = [(p, g) for p, g in update.gradients if id(p) in names and id(p) in moments and not self._left_out(p)]
        signs = [self._readings.same_sign(gradient, moments[id(p)]) for p, gradient in known]
        shares = self._readings.measure(signs, "mean")
        for (parameter, _), share in zip(known, shares, strict=True):
            self._readings.values(DIRECTION, names[id(parameter)], [share])

    def _copy_weights(self) -> None:
        self._copies = [(each, self._readings.copy(each)) for each in self.monitored]

    def _changes(self) -> None:
        copies, self._copies = self._copies, []
        names = {} if self._parameters is None else self._parameters.names
        sizes = self._readings.measure([before for _, before in copies], "norm")
        changes = self._readings.measure([self._readings.difference(*each) for each in copies], "norm")
        for (weight, _), change, size in zip(copies, changes, sizes, strict=True):
            self._readings.values(CHANGE, names[id(weight)], [change, change / size if size else math.nan])

    def _add(self, kind: str, tensors: Iterable[tuple[Any, Any]]) -> None:
        """Measure the tensors of parameters together; where one cannot be measured, each by itself."""
        found = [] if self._parameters is None else pairs(self._parameters.names, tensors)
        try:
            self._readings.add_all(kind, found)
        except Exception as cause:  # the guard logs it once, with the name of the tensor that caused it
            if must_propagate(cause):
                raise
            for key, tensor in found:
                self._guard.run(f"{kind} of {key.name}", self._readings.add, kind, key, tensor)

    def _weights(self) -> list[tuple[Any, Any]]:
        return [(each, each) for each in self.monitored]

    def _own_norm(self) -> None:
        norm = self._own.norm()
        if norm is not None:
            self._readings.values(LOCAL, Key(0, NORM, 0), [norm])

    def end_step(self) -> None:
        """Discard the measurements of the update after the optimizer has run."""
        self._own.end_step()
        self._copies.clear()

    def remove(self) -> None:
        """Remove all hooks."""
        self._own.remove()
        self._copies.clear()


def _never(_: Any) -> bool:
    return False
