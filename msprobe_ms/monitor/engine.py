"""Measures a training step by step: hooks are set and removed together, a step ends with the optimizer's update.

The step of every row is the number of the update that it leads to. The monitor that owns the engine receives what a
step has measured, and writes, alerts and counts; all of it runs inside a guard, so a failure is logged and the
training continues.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModule, AnyOptimizer, framework_of
from msprobe.base.interrupts import uninterrupted
from msprobe.base.log import logger
from msprobe.base.patches import Handle
from msprobe.base.statistic import widen
from msprobe.store.monitor.writer import Row

from .activations import Activations
from .backend import Backend
from .collectives import CollectiveCalls
from .features import ORDERS, Features
from .gradients import UNREDUCED
from .guard import Guard
from .names import Choice
from .parameters import LOCAL, ParameterPoints, Parameters, Wanted
from .readings import Key, Readings
from .settings import Collectives

LOSS = "loss"


@dataclass(frozen=True)
class MonitorPlan:
    """The measurements of an engine; `operations` are the statistics of each kind."""

    choice: Choice
    operations: Mapping[str, Sequence[str]]
    forward: bool = False
    backward: bool = False
    points: Wanted = field(default=Wanted())
    collectives: Collectives = field(default=Collectives())
    features: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Modules by the hook of `features`."""
    axes: str = ORDERS[0]
    """Of q and k."""
    eps: Mapping[str, float] = field(default_factory=dict)
    """The threshold of `zeros` by kind, if it is not the default."""
    short_names: bool = True

    @property
    def any(self) -> bool:
        """Return whether anything is measured."""
        points = self.points
        return self.forward or self.backward or self.collectives.enable or bool(self.features) or points.any


@dataclass(frozen=True)
class Watched:
    """The training: its models in order, the optimizer, and which reduced gradients other ranks write."""

    models: list[AnyModule]
    optimizer: AnyOptimizer
    left_out: Callable[[Any], bool]
    collective_modules: tuple[ModuleType, ...] = ()
    collective_names: frozenset[str] = frozenset()


class Engine:
    """Hooks of one monitor. `collects(step)` returns whether a step is measured, `ended(step, rows)` receives its rows
    (None where it was not measured)."""

    def __init__(
        self,
        backend: Backend,
        collects: Callable[[int], bool],
        ended: Callable[[int, dict[str, list[Row]] | None], None],
    ) -> None:
        self._backend, self._collects, self._ended = backend, collects, ended
        self.guard = Guard()
        self.step = 0
        self.ends_with_update = True
        self.finished = ""
        """The exception that ends the training, if the user selected that (`print_struct`)."""
        self._loss = 0
        self._parts: _Parts | None = None
        self._update: list[Handle] = []

    @property
    def is_installed(self) -> bool:
        """Return whether anything but the optimizer is hooked."""
        return self._parts is not None

    def watch(self, watched: Watched, start: int) -> None:
        """Count the updates of an optimizer from `start` on; nothing is measured yet."""
        self.step = self.guard.step = start
        self._watched = watched
        if watched.optimizer is not None:
            uninterrupted(self._hook_optimizer)

    def _hook_optimizer(self) -> None:
        self._update += self._backend.optimizers.hook(self._watched.optimizer, self._before, self._after)

    def install(self, plan: MonitorPlan) -> None:
        """Set the hooks of a plan; measuring begins with the current step, if that is measured."""
        uninterrupted(partial(self._install, plan))

    def _install(self, plan: MonitorPlan) -> None:
        self._uninstall()
        self._parts = _Parts(self._backend, self.guard, plan, self._watched)
        self._activate()

    def choose(self, operations: Mapping[str, Sequence[str]]) -> None:
        """Return other statistics from the current step on; all are measured anyway."""
        if self._parts is not None:
            self._parts.plan = replace(self._parts.plan, operations=operations)

    def uninstall(self) -> None:
        """Remove all hooks except those of the optimizer."""
        if self._parts is not None:
            uninterrupted(self._uninstall)

    def _uninstall(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.remove()

    def stop(self) -> None:
        """Remove all hooks."""
        uninterrupted(self._stop)

    def _stop(self) -> None:
        self._uninstall()
        while self._update:
            self._update.pop().remove()

    def loss(self, value: Any) -> None:
        """Note this process's own loss of a micro step: a number or a tensor, whose elements' mean counts."""
        parts = self._parts
        if parts is None or not parts.active:
            return
        self._backend.settle()
        self.guard.run("the loss", self._note_loss, parts, value)

    def _note_loss(self, parts: "_Parts", value: Any) -> None:
        array = np.asarray(value) if framework_of(value) is None else widen(self._backend.array(value))
        parts.readings.values(LOCAL, Key(0, LOSS, self._loss), [float(array.astype(np.float64).mean())])
        self._loss += 1

    def end_step(self) -> None:
        """Write the measurements after the optimizer has run, and begin the next step."""
        self.guard.run("the step", self._end)
        if self.finished:
            raise RuntimeError(self.finished)

    def rows(self) -> dict[str, list[Row]]:
        """Return the measurements of the current step so far."""
        parts = self._parts
        return (self.guard.run("the step", parts.rows) or {}) if parts is not None and parts.active else {}

    def _before(self, gradients: Any) -> None:
        parts = self._parts
        if parts is not None and parts.active and not self.guard.is_busy:
            self._backend.settle()
            self.guard.run("the update", parts.before, self._backend, self._watched.optimizer, gradients)

    def _after(self) -> None:
        if self.guard.is_busy:
            return
        parts = self._parts
        try:
            if parts is not None and parts.active:
                self._backend.settle()
                self.guard.run("the update", parts.points.after)
        finally:  # the parameters are updated: the step has ended even after an interrupt
            if self.ends_with_update:
                self.end_step()

    def _end(self) -> None:
        parts, step = self._parts, self.step
        rows = None
        try:
            if parts is not None and parts.active:
                parts.points.conclude()
                rows = self.guard.run("the step", parts.rows)
        finally:
            uninterrupted(self._next_step)
        try:
            self._ended(step, rows)
        finally:
            self.guard.step = self.step
            self._activate()

    def _next_step(self) -> None:
        """Discard the remains of the step that has ended."""
        if self._parts is not None:
            self._parts.end_step()
        self._loss = 0
        self.step += 1
        self._activate()

    def _activate(self) -> None:
        if self._parts is not None:
            self._parts.activate(self._collects(self.step))


class _Parts:
    """The hooks of one plan."""

    def __init__(self, backend: Backend, guard: Guard, plan: MonitorPlan, watched: Watched) -> None:
        self.plan = plan
        self.active = False
        self.readings = Readings(backend, plan.eps)
        self.points = ParameterPoints(backend, self.readings, guard, plan.points)
        self._activations: Activations | None = None
        self._collectives: CollectiveCalls | None = None
        self._features: Features | None = None
        try:
            self._install(backend, guard, watched)
        except BaseException:
            self.remove()
            raise

    def _install(self, backend: Backend, guard: Guard, watched: Watched) -> None:
        plan = self.plan
        parameters = Parameters(backend, watched.models, plan.choice, short=plan.short_names)
        self.points.install(parameters, watched.left_out)
        modules = 0
        if plan.forward or plan.backward:
            self._activations = Activations(backend, self.readings, guard, forward=plan.forward, backward=plan.backward)
            modules = self._activations.install(watched.models, plan.choice)
        if plan.features:
            self._features = Features(backend, self.readings, guard, plan.axes)
            modules += self._features.install(watched.models, plan.features)
        if plan.collectives.enable:
            self._collectives = CollectiveCalls(backend, self.readings, guard, plan.collectives)
            self._collectives.install(watched.collective_modules, watched.collective_names)
        logger.info("monitor: %d parameters and %d modules are monitored", len(parameters), modules)
        if not len(parameters) and not modules and not plan.collectives.enable:
            raise UsageError(
                "set_monitor(): no name in targets is a parameter or a module; use names from "
                "model.named_parameters() or cells_and_names(), or {} for all"
            )

    def activate(self, active: bool) -> None:
        """Begin or stop measuring."""
        self.active = self.points.active = active
        for part in (self._activations, self._collectives, self._features):
            if part is not None:
                part.active = active

    def before(self, backend: Backend, optimizer: AnyOptimizer, gradients: Any) -> None:
        """Measure before the optimizer runs."""
        main_grad, monitored = self.plan.points.main_grad, self.points.monitored
        self.points.before(backend.optimizers.update_of(optimizer, gradients, main_grad, monitored))

    def rows(self) -> dict[str, list[Row]]:
        """Return the measurements of the step, without gradients that only the norm needs."""
        rows = self.readings.rows(self.plan.operations)
        if not self.plan.points.gradients:
            rows.pop(UNREDUCED, None)
        return rows

    def end_step(self) -> None:
        """Discard the measurements of the step."""
        self.readings.clear()
        for part in (self.points, self._activations, self._collectives, self._features):
            if part is not None:
                part.end_step()

    def remove(self) -> None:
        """Remove all hooks."""
        self.activate(False)
        for part in (self.points, self._activations, self._collectives, self._features):
            if part is not None:
                part.remove()
