"""`MsprobeMonitor`: the monitor for trainings with `mindspore.train.Model`, without a training loop in user code."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from mindspore.train import Callback

from msprobe.base.checks import quoted
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.sections import SECTIONS
from msprobe.base.setting import checked, setting, settings_of
from msprobe.base.settings import Settings
from msprobe.callback_entry import cell_name
from msprobe.model_training import cell_of, loss_cell_of, model_of, next_step, optimizer_of
from msprobe.monitor.settings import MonitorSettings
from msprobe.monitor.trainer import TrainerMon


def _path(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise SettingsError(f"{quoted(value)} is not a path; give the configuration file of the monitor")


def _step(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise SettingsError(f"{quoted(value)} is not a step; write the number of the first step, or omit it")


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """The arguments of the callback; without `start_iteration` the number of the first step is detected."""

    config_path: str = setting(_path, "")
    network: str = setting(cell_name, "")
    start_iteration: int | None = setting(_step, None)


_ELSEWHERE = {
    **dict.fromkeys((*settings_of(Settings), *SECTIONS), "an entry of MsprobeStep"),
    **dict.fromkeys(settings_of(MonitorSettings), "the file given by config_path"),
}


def _entry_of(arguments: Mapping[str, object]) -> _Entry:
    known = {key: where for key, where in _ELSEWHERE.items() if key not in settings_of(_Entry)}
    return _Entry(**checked(_Entry, arguments, lambda key: f"argument {quoted(key)} of MsprobeMonitor", known))


class MsprobeMonitor(Callback):
    """Callback that monitors the training of a `Model` with a TrainerMon, and records the loss of every step.

    config_path : configuration file of TrainerMon.
    network : name of the cell to monitor (`"backbone.blocks.0"`), by default the network without the wrappers with its
        loss function and its optimizer.
    start_iteration : number of the first step; by default it is detected, so that a resumed training continues its
        numbers.

    All arguments are plain values, for entries of a `callbacks:` list in a YAML file. Raises SettingsError for invalid
    arguments at construction, and UsageError before the first step if the training cannot be monitored: in graph mode,
    or without an optimizer. After it, no error of the callback stops the training.
    """

    def __init__(self, config_path: Any = None, **entry: Any) -> None:
        parsed = _entry_of({"config_path": config_path, **entry})
        super().__init__()
        if not parsed.config_path:
            raise UsageError(
                "MsprobeMonitor: config_path is missing; give the configuration file of the monitor, for example "
                '{"type": "MsprobeMonitor", "config_path": "./monitor.json"}'
            )
        self._entry = parsed
        self._monitor = TrainerMon(parsed.config_path)  # raises errors in the file
        self._is_hooked = False
        self._loss_hook: Any = None

    def on_train_begin(self, run_context: Any) -> None:
        """Find the network and the optimizer. Each training gets a new monitor."""
        if self._is_hooked:
            self._stop()
            self._monitor, self._is_hooked = TrainerMon(self._entry.config_path), False
        parameters, name = run_context.original_args(), self._entry.network
        self._optimizer = optimizer_of(parameters)
        if self._optimizer is None:
            raise UsageError(
                "MsprobeMonitor: no optimizer found in Model(optimizer=...) or in the trained network, and its "
                "updates define the steps; pass the optimizer to Model, or use TrainerMon in your own training "
                "loop"
            )
        self._network = cell_of(parameters.get("network"), name, "MsprobeMonitor") if name else model_of(parameters)

    def on_train_epoch_begin(self, run_context: Any) -> None:
        """Hook the network, once; not earlier, because the number of the first epoch is not known before."""
        if self._is_hooked:
            return
        parameters, start = run_context.original_args(), self._entry.start_iteration
        start = next_step(parameters) if start is None else start
        self._monitor.set_monitor(self._network, self._optimizer, start_iteration=start)
        self._is_hooked = True
        if (cell := loss_cell_of(parameters)) is not None:
            self._loss_hook = cell.register_forward_hook(_make_loss_hook(self._monitor))

    def on_train_end(self, run_context: Any) -> None:
        """Remove all hooks, and close the files."""
        self._stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the monitor, also if an exception ended the training."""
        self._stop()

    def _stop(self) -> None:
        hook, self._loss_hook = self._loss_hook, None
        if hook is not None:
            hook.remove()
        self._monitor.stop()


def _make_loss_hook(monitor: TrainerMon) -> Any:
    """Return a hook that records the output of the cell that computes the loss, or its first output."""

    def record_loss(_: Any, __: Any, output: Any) -> None:
        loss = output[0] if isinstance(output, tuple | list) and output else output
        monitor.loss(loss)

    return record_loss
