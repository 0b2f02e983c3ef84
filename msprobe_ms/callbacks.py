"""Callbacks of `mindspore.train.Model`, for trainings without a training loop in user code.

The debugger is started at the begin of a step, not at the begin of the training, where other callbacks may still change
the step at which it resumes.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Any

from mindspore import _c_expression
from mindspore.train import Callback

from msprobe.base.checks import quoted_list
from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.log import log_once
from msprobe.callback_entry import Entry, entry_of
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger
from msprobe.model_training import cell_of, next_step
from msprobe.monitor_callback import MsprobeMonitor


class MsprobeStep(Callback):
    """Callback that starts, stops and steps a debugger at every training step of a `Model`.

    debugger : a PrecisionDebugger. Alternatively, pass its arguments as plain values, as in a YAML file: `config_path`,
        `task`, `dump_path`, `level`, `step`.
    network : name of the cell to collect (`"backbone.blocks.0"`), by default the network of the `Model`, so that names
        are those of `start(network)`. A model that was passed to `debugger.start(model)` before the training is used.
    init_step : the same as MsprobeInitStep: True, or the number of the first step.
    monitor : configuration file of a monitor that also runs (MsprobeMonitor), with the same numbers of steps.

    Errors in settings or the model are raised before the first step; after it, no error stops the training. Raises
    UsageError if `debugger` is not a PrecisionDebugger, SettingsError for unknown or invalid keywords.
    """

    def __init__(self, debugger: PrecisionDebugger | None = None, **entry: Any) -> None:
        parsed = entry_of(entry)
        super().__init__()
        self._debugger = _debugger_of(debugger, parsed)
        self._init_step, self._is_resumed = parsed.init_step, False
        self._cell = parsed.network
        self._uses_network = debugger is None or bool(parsed.network)
        self._network: Any = None
        self._has_begun = self._in_step = False
        self._monitor = _monitor_of(parsed)

    def on_train_begin(self, run_context: Any) -> None:
        """Find the network, and stop a debugger that the user has started, until the first step."""
        parameters = run_context.original_args()
        if self._monitor is not None:
            self._monitor.on_train_begin(run_context)
        self._check_single(parameters.get("list_callback") or ())
        self._debugger.stop()
        self._has_begun = self._is_resumed = False
        self._uses_network |= not self._debugger.has_model
        if self._uses_network:
            self._network = cell_of(parameters.get("network"), self._cell, "MsprobeStep")

    def on_train_epoch_begin(self, run_context: Any) -> None:
        """Set the number of the first step of a resumed training, once, with `init_step`."""
        if self._init_step is not False and not self._is_resumed:
            found = self._init_step is True
            _resume(self._debugger, next_step(run_context.original_args()) if found else self._init_step)
        self._is_resumed = True
        if self._monitor is not None:
            self._monitor.on_train_epoch_begin(run_context)

    def on_train_step_begin(self, run_context: Any) -> None:
        """Start collecting, if this step is collected."""
        try:
            self._debugger.start(self._network)
        except MsprobeError as cause:
            if not self._has_begun:
                raise
            log_once(f"step: {cause}", f"{cause}; the training continues without the dump of this step")
        self._has_begun = self._in_step = True

    def on_train_step_end(self, run_context: Any) -> None:
        """Finish the dump of the step, and begin the next step."""
        self._in_step = False
        self._debugger.stop()
        self._debugger.step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the functions of the framework, also if an exception ended the training.

        An interrupted step keeps its number, so that a later training does not continue its dump.
        """
        if self._in_step:
            self.on_train_step_end(None)
        self._debugger.stop()
        if self._monitor is not None:
            self._monitor.on_train_end(None)

    def _check_single(self, callbacks: Iterable[Any]) -> None:
        others = [each for each in callbacks if isinstance(each, MsprobeStep)]
        if self in others:
            others.remove(self)
        for other in others:
            # At level debug a debugger only counts steps for `save`.
            if other._debugger is self._debugger or "debug" not in (other._debugger.level, self._debugger.level):
                raise UsageError(
                    "this training has two MsprobeStep callbacks, but only one debugger can collect at a time; "
                    "use one callback per training"
                )


class MsprobeInitStep(Callback):
    """Callback that continues the numbers of steps in a resumed training.

    The number of the first step is `cur_step_num` if the training sets it, otherwise the number of steps of the epochs
    before `initial_epoch`. It is set in the debugger that was constructed last, and in MindSpore's kernel dump. It has
    no effect on a training from its first step. UsageError at the begin of the training if there is no debugger.
    """

    def __init__(self) -> None:
        super().__init__()
        self._debugger: Any = None

    def on_train_begin(self, run_context: Any) -> None:
        """Find the debugger that was constructed last."""
        method: Any = PrecisionDebugger.set_init_step  # raises UsageError without a debugger
        self._debugger = method.__self__

    def on_train_epoch_begin(self, run_context: Any) -> None:
        """Set the number, once; not earlier, because the number of the first epoch is not known before."""
        debugger, self._debugger = self._debugger, None
        if debugger is not None:
            _resume(debugger, next_step(run_context.original_args()))


def _debugger_of(debugger: PrecisionDebugger | None, entry: Entry) -> PrecisionDebugger:
    if debugger is None and entry.debugger:
        settings: dict[str, Any] = entry.debugger  # checked by PrecisionDebugger
        return PrecisionDebugger(**settings)
    if not isinstance(debugger, PrecisionDebugger):
        raise UsageError(
            f"MsprobeStep: {debugger!r:.80} is not a PrecisionDebugger; pass MsprobeStep(PrecisionDebugger(...)), "
            "or the arguments of PrecisionDebugger such as level and dump_path"
        )
    if entry.debugger:
        raise UsageError(
            f"MsprobeStep: {quoted_list(tuple(entry.debugger))} cannot be combined with a debugger; pass them to "
            "PrecisionDebugger"
        )
    return debugger


def _monitor_of(entry: Entry) -> MsprobeMonitor | None:
    if entry.monitor is None:
        return None
    first = {} if entry.init_step is True else {"start_iteration": int(entry.init_step)}
    return MsprobeMonitor(config_path=entry.monitor, network=entry.network, **first)


def _resume(debugger: PrecisionDebugger, step: int) -> None:
    """Number steps from `step` on, also in MindSpore's kernel dump. No effect for step 0."""
    if step == 0:
        return
    try:
        debugger.set_init_step(step)
    except UsageError:  # the user has started the debugger, in another step
        debugger.step()
        debugger.set_init_step(step)
    if debugger.level != "L2":  # at level L2 the debugger sets the iterations
        _c_expression._set_init_iter(step)
