"""`TrainerMon`: the monitor of a training, by msprobe's configuration file (`how-to/collecting/trainer-mon.md`)."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from msprobe.base.checks import absolute_path, flag
from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModel, AnyOptimizer, AnyParameter
from msprobe.base.interrupts import uninterrupted
from msprobe.base.log import log_once, logger
from msprobe.store.monitor.events import EventWriter
from msprobe.store.monitor.layout import KINDS, OWN_STATISTICS, find_folder, new_folder, tag
from msprobe.store.monitor.writer import Row, RowWriter

from .alert_dump import AlertDump
from .alerts import Alerts, Anomaly, announce
from .anomalies import AnomalyFile
from .backend import Backend, backend_of, models_of
from .engine import Engine, MonitorPlan, Watched
from .gradients import micro_steps_of
from .names import Targets
from .parameters import Wanted
from .readings import Key
from .rules import Robust
from .settings import MonitorSettings, load, operations
from .structure import FINISHED, Stacks, write_structure
from .switch import Switch, is_dynamic

OUTPUT = "MONITOR_OUTPUT_DIR"
_DEFAULT = "./monitor_output"

_GRADIENTS = ("grad_reduced", "grad_unreduced")
_ACTIVATIONS = ("actv", "actv_grad")


def _note_deprecated(name: str, instead: str) -> None:
    log_once(f"deprecated: {name}", f"monitor: {name} is deprecated; {instead}")


class TrainerMon:
    """Writes statistics of activations, gradients, weights and moments at every update of an optimizer.

    `config_file_path` is a JSON file; `process_group` is accepted as in msprobe, where it orders anomalies of a
    pipeline. With `params_have_main_grad` the reduced gradient is a parameter's `main_grad` where it has one. `opt_ty`
    of older versions has no effect. Raises SettingsError where a setting cannot be meant.
    """

    _wrapped_optimizer: ClassVar[Any] = None

    def __init__(
        self,
        config_file_path: "str | os.PathLike[str]",
        process_group: Any = None,
        params_have_main_grad: bool = True,
        opt_ty: Any = None,
    ) -> None:
        if opt_ty is not None:
            _note_deprecated("opt_ty of TrainerMon", "omit it: the kind of optimizer is detected")
        self._path = absolute_path(os.fspath(config_file_path))
        self._settings = load(self._path)
        self._group, self._main_grad = process_group, params_have_main_grad
        self._root = absolute_path(os.environ.get(OUTPUT) or _DEFAULT)
        self._switch = Switch(self._path) if is_dynamic() else None
        self._engine: Engine | None = None
        self._writer: RowWriter | EventWriter | None = None
        self._collected, self._first, self._rank = 0, 0, 0
        self._micro_steps: int | None = None
        self._latest: dict[str, list[Row]] = {}
        self._dump: AlertDump | None = None
        self._stacks: Stacks | None = None

    # ---- what a training calls -------------------------------------------------------------------------------------

    def set_monitor(
        self,
        model: AnyModel,
        optimizer: AnyOptimizer,
        grad_acc_steps: int | None = None,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """Hook a model, or a list of them (the chunks of a virtual pipeline), and the optimizer that updates it.

        To be called once, before the first step. `grad_acc_steps` is the number of micro steps of an update; it is
        needed where updates are skipped and the training itself accumulates gradients (`gradients`). Of `dp_group` only
        the first rank writes reduced gradients, of `tp_group` only the first those of parameters that are not part of a
        split one (`tensor_model_parallel`). Steps are counted from `start_iteration`. Raises UsageError where that
        cannot be monitored.
        """
        if self._engine is not None:
            raise UsageError("set_monitor(): this monitor already has a model; create another TrainerMon")
        if isinstance(start_iteration, bool) or not isinstance(start_iteration, int) or start_iteration < 0:
            raise UsageError(f"set_monitor(): start_iteration is {start_iteration!r}; pass a non-negative integer")
        self._micro_steps = micro_steps_of(grad_acc_steps)
        backend = backend_of(model)
        backend.check(list(model) if isinstance(model, tuple) else model, optimizer)
        self._backend, self._model, self._rank = backend, model, backend.distributed.rank()
        engine = Engine(backend, self._collects, self._ended)
        left_out = _left_out(backend, tp_group, dp_group)
        self._engine = engine
        try:
            engine.watch(
                Watched(models_of(model), optimizer, left_out, *backend.distributed.collectives()), start_iteration
            )
            if self._switch is None:
                self._first = self._settings.start_step
                self._begin()
        except BaseException:
            self._engine = None
            engine.stop()
            self._remove_stacks()
            raise

    def loss(self, value: Any) -> None:
        """Note the loss of this process's own micro batch, a number or a tensor: file `local`, before any reduction."""
        if self._engine is not None:
            self._engine.loss(value)

    def stop(self) -> None:
        """Remove all hooks and close the files; the training continues without a monitor.

        An interrupt is raised before the hooks are removed or after it.
        """
        uninterrupted(self._stop)
        if self._dump is not None:
            self._dump.stop()

    def _stop(self) -> None:
        try:
            if self._engine is not None:
                self._engine.stop()
        finally:
            self._close()

    @property
    def ops(self) -> tuple[str, ...]:
        """Return the statistics that are written; may be set while the training runs."""
        return self._settings.ops

    @ops.setter
    def ops(self, value: Any) -> None:
        self._settings = replace(self._settings, ops=operations(value))
        if self._writer is not None:
            folder = self._writer.folder
            self._writer.close()
            self._writer = self._writing_to(folder)
        if self._engine is not None:
            self._engine.choose(self._plan().operations)

    def generate_wgrad_metrics(self) -> "tuple[dict[str, Any], dict[str, Any]]":
        """Return (reduced, unreduced): the statistics of gradients of the current step, or of one that has ended, as
        `{tag: {operation: value}}`; for format `api`."""
        reduced, unreduced = (self._metrics(kind) for kind in _GRADIENTS)
        return reduced, unreduced

    def generate_xy_metrics(self) -> "tuple[dict[str, Any], dict[str, Any]]":
        """Return (activations, their gradients), as `generate_wgrad_metrics`."""
        forward, backward = (self._metrics(kind) for kind in _ACTIVATIONS)
        return forward, backward

    # ---- the interface of msprobe 1.1 to 1.3 -----------------------------------------------------------------------

    def monitor_gnorm_with_ad(
        self,
        model: AnyModel,
        optimizer: AnyOptimizer = None,
        grad_acc_steps: Any = 1,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """Call `set_monitor`, as which this is known today; deprecated.

        Without an optimizer the one of `set_wrapped_optimizer` is monitored. Version 1.1 had `grad_acc_steps` before
        `optimizer`: the order is recognized by which of the two is a number.
        """
        _note_deprecated("monitor_gnorm_with_ad()", "use set_monitor(model, optimizer)")
        if isinstance(optimizer, int):
            optimizer, grad_acc_steps = (None if isinstance(grad_acc_steps, int) else grad_acc_steps), optimizer
        optimizer = self._wrapped_optimizer if optimizer is None else optimizer
        if optimizer is None:
            raise UsageError("monitor_gnorm_with_ad(): no optimizer is given; use set_monitor(model, optimizer)")
        self.set_monitor(model, optimizer, grad_acc_steps, tp_group, dp_group, start_iteration)

    @staticmethod
    def set_wrapped_optimizer(optimizer: AnyOptimizer) -> None:
        """Set the optimizer that `monitor_gnorm_with_ad` monitors where it is given none; deprecated."""
        _note_deprecated("set_wrapped_optimizer()", "use set_monitor(model, optimizer)")
        TrainerMon._wrapped_optimizer = optimizer

    def reload_xy(self, xy_distribution: bool = False) -> None:
        """Enable or disable the statistics of activations and their gradients from the current step on; deprecated."""
        _note_deprecated("reload_xy()", "set DYNAMIC_MONITOR=True and change xy_distribution in the configuration")
        before, self._settings = self._settings, replace(self._settings, xy_distribution=flag(xy_distribution))
        if self._engine is None or not self._engine.is_installed:
            return
        try:
            self._engine.install(self._plan())
        except UsageError as err:  # no data of this kind can be monitored in this model
            logger.error("monitor: reload_xy(): %s; the settings remain unchanged", err)
            self._settings = before
            self._engine.install(self._plan())

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _metrics(self, kind: str) -> dict[str, Any]:
        current = self._engine.rows() if self._engine is not None else {}
        metrics = {}
        for row in (current or self._latest).get(kind, ()):
            name = tag(row.vpp_stage, row.name, self._rank, kind, row.micro_step)
            metrics[name] = dict(zip(self._settings.ops, row.values, strict=True))
        return metrics

    def _plan(self) -> MonitorPlan:
        settings = self._settings
        own = settings.wg_distribution if settings.local is None else settings.local
        points = Wanted(
            gradients=settings.wg_distribution,
            each_micro_step=settings.monitor_mbs_grad,
            moments=settings.mv_distribution,
            weights=settings.param_distribution,
            own=own,
            direction=settings.mg_direction,
            change=settings.ur_distribution,
            main_grad=self._main_grad,
            micro_steps=self._micro_steps,
        )
        all_modules = settings.all_xy or not settings.targets
        return MonitorPlan(
            Targets(settings.targets, all_modules=all_modules),
            {kind: OWN_STATISTICS.get(kind, settings.ops) for kind in KINDS},
            forward=settings.forward or settings.print_struct,
            backward=settings.backward or settings.print_struct,
            points=points,
            collectives=settings.cc_distribution,
            features=dict(settings.l2_targets) if settings.recording_l2_features else {},
            axes=settings.sa_order,
            eps=dict.fromkeys(KINDS, settings.eps),
            short_names=settings.squash_name,
        )

    def _begin(self) -> None:
        """Begin collecting with the current settings."""
        settings, engine = self._settings, self._engine
        assert engine is not None
        plan = self._plan()
        if not plan.any:
            logger.warning(
                "monitor: %s does not enable any measurement: set xy_distribution, wg_distribution, "
                "mv_distribution, param_distribution or cc_distribution",
                self._path,
            )
        self._collected = 0
        engine.install(plan)  # first, because it raises if nothing can be monitored
        group = self._group
        self._rules = settings.alert.rules or ((Robust(),) if settings.on_alert is not None else ())
        self._alerts = Alerts(self._rules, pp_stage=0 if group is None else self._backend.distributed.group_rank(group))
        self._anomalies = AnomalyFile(self._root, self._rank) if settings.alert.dump else None
        if settings.on_alert is not None and self._dump is None:
            self._dump = AlertDump(settings.on_alert, self._backend.framework.debugger, self._model, self._root)
        self._remove_stacks()
        if settings.stack_info:
            self._stacks = Stacks(self._backend, engine.guard.hook)
            self._stacks.install(models_of(self._model), plan.choice)

    def _collects(self, step: int) -> bool:
        return self._settings.collects(step, self._first, self._collected, self._rank)

    def _ended(self, step: int, rows: dict[str, list[Row]] | None) -> None:
        engine = self._engine
        assert engine is not None
        if self._dump is not None:
            engine.guard.run("the dump of an alert", self._dump.next_step)
        self._latest = rows or {}
        if rows is not None:
            self._collected += 1
            self._take(engine, step, rows)
        if engine.is_installed and self._collected >= self._settings.collect_times:
            engine.uninstall()
            self._close()
            if self._switch is not None:
                self._switch.turn_off()
        if self._switch is not None and (settings := self._switch.enabling_settings()) is not None:
            self._turn_on(engine, settings, step + 1)

    def _turn_on(self, engine: Engine, settings: MonitorSettings, first: int) -> None:
        """Apply new settings from a step on; invalid ones are ignored."""
        before = self._settings, self._first
        was_installed, collected = engine.is_installed, self._collected
        self._settings, self._first = settings, first
        try:
            self._begin()
        except UsageError as err:
            logger.error("monitor: %s; the settings remain unchanged", err)
            self._settings, self._first = before
            self._collected = collected
            if was_installed:
                engine.install(self._plan())
        else:
            self._close_writer()

    def _take(self, engine: Engine, step: int, rows: dict[str, list[Row]]) -> None:
        if self._settings.print_struct:
            path = write_structure(self._root, self._rank, rows)
            logger.info("monitor: the structure of the modules is in %s; the training ends here", path)
            engine.finished = FINISHED
            return
        if self._settings.format != "api":
            engine.guard.run("the files", self._write, step, rows)
        if self._rules:
            engine.guard.run("the alerts", self._check, step, rows)

    def _write(self, step: int, rows: dict[str, list[Row]]) -> None:
        if self._writer is None:
            self._writer = self._opened()
        self._writer.write(step, rows)
        if self._stacks is not None:
            stacks, self._stacks = self._stacks, None
            stacks.write(self._writer.folder)

    def _opened(self) -> RowWriter | EventWriter:
        period = self._settings.append_output
        folder = find_folder(self._root, self._rank, *period) if period is not None else None
        if period is not None and folder is None:
            logger.warning(
                "monitor: append_output: %s has no folder of rank %d from %s to %s; a new folder is created",
                *(self._root, self._rank, *period),
            )
        folder = folder or new_folder(self._root, self._rank, time.time())
        if self._engine is not None:
            self._engine.guard.note_in(folder)
        logger.info("monitor: writing to %s", folder)
        return self._writing_to(folder)

    def _writing_to(self, folder: Path) -> RowWriter | EventWriter:
        settings = self._settings
        if settings.format == "tensorboard":
            return EventWriter(folder, settings.ops, self._rank)
        return RowWriter(folder, settings.ops, settings.ndigits, settings.step_count_per_record)

    def _check(self, step: int, rows: dict[str, list[Row]]) -> None:
        found: list[Anomaly] = []
        for kind, of_kind in rows.items():
            full = [row for row in of_kind if not _is_empty(row.shape)]
            targets = [Key(row.vpp_stage, row.name, row.micro_step) for row in full]
            operations = OWN_STATISTICS.get(kind, self._settings.ops)
            values = np.array([row.values for row in full], np.float64)
            found += self._alerts.check(kind, targets, values, operations, step, self._rank)
        if not found:
            return
        announce(found)
        if self._anomalies is not None:
            self._anomalies.add(found)
        if self._dump is not None:
            self._dump.arm(step + 1)

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _close(self) -> None:
        self._close_writer()
        self._remove_stacks()

    def _remove_stacks(self) -> None:
        stacks, self._stacks = self._stacks, None
        if stacks is not None:
            stacks.remove()


def _is_empty(shape: str) -> bool:
    """Return whether a tensor of this shape, as text, is empty: its statistics are NaN, which is not an alert."""
    return "0" in re.findall(r"\d+", shape)


def _left_out(backend: Backend, tp_group: Any, dp_group: Any) -> Callable[[Any], bool]:
    """Return which reduced gradients other ranks write, as a predicate of parameters."""
    of_data = dp_group is not None and backend.distributed.group_rank(dp_group) > 0
    of_tensors = tp_group is not None and backend.distributed.group_rank(tp_group) > 0

    def left_out(parameter: AnyParameter) -> bool:
        return of_data or (of_tensors and not getattr(parameter, "tensor_model_parallel", False))

    return left_out
