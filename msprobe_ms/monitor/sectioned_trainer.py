"""`TrainerMonitorV2`: the same measurements with the interface and files of msprobe 26's second monitor."""

import os
from typing import Any

from msprobe.base.checks import absolute_path
from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModel, AnyOptimizer
from msprobe.base.interrupts import uninterrupted
from msprobe.base.log import logger
from msprobe.store.monitor.layout import KINDS, OWN_STATISTICS, scoped_folder
from msprobe.store.monitor.scoped_writer import ScopedWriter
from msprobe.store.monitor.writer import Row

from .backend import backend_of, models_of
from .engine import Engine, MonitorPlan, Watched
from .names import Substrings
from .parameters import Wanted
from .sectioned_settings import load
from .settings import Collectives


class TrainerMonitorV2:
    """Writes statistics of a training, a file for each monitor; `config_path` is a JSON file with sections.

    `fr` overrides the file's `framework`; the model decides. Raises SettingsError where a setting cannot be meant.
    """

    def __init__(self, config_path: "str | os.PathLike[str]", fr: str | None = None) -> None:
        self._settings = load(absolute_path(os.fspath(config_path)))
        self._named = fr or self._settings.framework
        self._engine: Engine | None = None
        self._writer: ScopedWriter | None = None
        self._collected = self._rank = 0

    def start(self, model: AnyModel, optimizer: AnyOptimizer = None, **ctx: Any) -> None:
        """Hook a model, or a list of them, and the optimizer. UsageError where that cannot be monitored.

        Without an optimizer, or with `patch_optimizer_step: false`, `step()` ends a step; gradients and weights are
        then measured there, without an optimizer unreduced gradients alone. Of `ctx`, `start_iteration` is the number
        of the first step.
        """
        if self._engine is not None:
            raise UsageError("start(): this monitor is already started; call stop() first")
        settings, backend = self._settings, backend_of(model)
        if optimizer is not None:
            backend.check(list(model) if isinstance(model, tuple) else model, optimizer)
        self._rank = backend.distributed.rank()
        engine = Engine(backend, self._collects, self._ended)
        patches = settings.patch_optimizer_step
        engine.ends_with_update = optimizer is not None and patches is not False
        if optimizer is None and (settings.monitors.optimizer.enabled or settings.monitors.param.enabled):
            logger.warning(
                "monitor: moments and weights are not measured without an optimizer; call start(model, optimizer)"
            )
        watched = Watched(models_of(model), optimizer, lambda _: False, *backend.distributed.collectives())
        self._engine = engine
        try:
            engine.watch(watched, int(ctx.get("start_iteration", 0)))
            engine.install(self._plan())
        except BaseException:
            self._engine = None
            engine.stop()
            raise

    def step(self) -> None:
        """End a step; no effect if the update of the optimizer ends it."""
        if self._engine is not None and not self._engine.ends_with_update:
            self._engine.end_step()

    def stop(self) -> None:
        """Remove all hooks and close the files; an interrupt is raised before or after it."""
        uninterrupted(self._stop)

    def _stop(self) -> None:
        try:
            if self._engine is not None:
                self._engine.stop()
        finally:
            self._engine = None
            self._close()

    def _plan(self) -> MonitorPlan:
        monitors = self._settings.monitors
        per_monitor = monitors.operations()
        gradients, cc = monitors.weight_grad, monitors.cc
        here = not cc.module_ranks or self._rank in cc.module_ranks
        return MonitorPlan(
            Substrings(monitors.module.targets),
            {kind.name: OWN_STATISTICS.get(kind.name) or per_monitor.get(kind.monitor, ()) for kind in KINDS.values()},
            forward=monitors.module.enabled,
            backward=monitors.module.enabled,
            points=Wanted(
                gradients=gradients.enabled,
                each_micro_step=gradients.monitor_mbs_grad,
                micro_steps=gradients.grad_acc_steps,
                moments=monitors.optimizer.enabled and monitors.optimizer.mv_distribution,
                weights=monitors.param.enabled and monitors.param.param_distribution,
            ),
            collectives=Collectives(
                enable=cc.enabled and here,
                codeline=cc.cc_codeline,
                pre_hook=cc.cc_pre_hook,
                log_only=cc.cc_log_only,
            ),
            eps={
                kind.name: section.eps for kind in KINDS.values() if (section := getattr(monitors, kind.monitor, None))
            },
            short_names=False,
        )

    def _collects(self, step: int) -> bool:
        return self._settings.collects(step, self._collected, self._rank)

    def _ended(self, step: int, rows: dict[str, list[Row]] | None) -> None:
        engine = self._engine
        if engine is None:
            return
        if rows is not None:
            self._collected += 1
            engine.guard.run("the files", self._write, engine, step, rows)
        if engine.is_installed and self._collected >= self._settings.collect_times:
            engine.uninstall()
            self._close()

    def _write(self, engine: Engine, step: int, rows: dict[str, list[Row]]) -> None:
        settings = self._settings
        if self._writer is None:
            folder = scoped_folder(settings.output_dir, self._rank)
            self._writer = ScopedWriter(
                folder, settings.monitors.operations(), settings.ndigits, settings.step_count_per_record
            )
            engine.guard.note_in(folder)
        known = settings.monitors.operations()
        self._writer.write(
            step,
            {
                kind: [row._replace(name=_scoped(kind, row.name)) for row in of_kind]
                for kind, of_kind in rows.items()
                if KINDS[kind].monitor in known
            },
        )

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


_GRADIENT_SIDES = {"input": "grad_input", "output": "grad_output"}


def _scoped(kind: str, name: str) -> str:
    """Return a row's name in the second form: `fc.input.0`, `fc.grad_output.0`, `fc.weight.exp_avg`."""
    if kind in ("exp_avg", "exp_avg_sq"):
        return f"{name}.{kind}"
    if kind not in ("actv", "actv_grad"):
        return name
    module, _, side = name.rpartition(".")
    word, _, number = side.partition("_")
    return f"{module}.{_GRADIENT_SIDES[word] if kind == 'actv_grad' else word}.{number or 0}"
