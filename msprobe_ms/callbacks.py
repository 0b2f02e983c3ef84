"""Callbacks of `mindspore.train.Model`, which collect a training that has no loop of its own.

The debugger is started at a step's begin and never before: at the begin of the training other callbacks may still
change where it resumes.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Any

from mindspore import _c_expression
from mindspore.train import Callback

from msprobe.base.checks import quoted_list
from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.log import once
from msprobe.callback_entry import Entry, entry_of
from msprobe.mindspore_debugger import PrecisionDebugger
from msprobe.model_training import cell_of, next_step
from msprobe.monitor_callback import MsprobeMonitor


class MsprobeStep(Callback):
    """Starts, stops and steps a debugger with every training step of a `Model`.

    In place of a debugger it takes what one is constructed with, in plain values as a YAML file has them:
    `config_path`, `task`, `dump_path`, `level`, `step`. Beside either, `network` names the cell to collect
    (`"backbone.blocks.0"`), `init_step` does the work of MsprobeInitStep: true, or the number of the first step, and
    `monitor` is the configuration file of a monitor that is to run as well (MsprobeMonitor), with the same numbers.

    The network is the one that `Model` was given, so that names are those of `start(network)`; a model that
    `debugger.start(model)` was given before the training stays in force. What is wrong with the settings or the model
    is raised before the first step; afterwards nothing of this stops the training. Raises UsageError for anything but
    a PrecisionDebugger, SettingsError for keywords that are unknown or cannot be meant.
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
        """Find the network. What the user's own `start(model)` opened is shut until the first step."""
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
        """Tell the debugger where a resumed training is, once, if that was asked for."""
        if self._init_step is not False and not self._is_resumed:
            found = self._init_step is True
            _resume(self._debugger, next_step(run_context.original_args()) if found else self._init_step)
        self._is_resumed = True
        if self._monitor is not None:
            self._monitor.on_train_epoch_begin(run_context)

    def on_train_step_begin(self, run_context: Any) -> None:
        """Start collecting, if this step is to be collected."""
        try:
            self._debugger.start(self._network)
        except MsprobeError as cause:
            if not self._has_begun:
                raise
            once(f"step: {cause}", f"{cause}; the training continues without the dump of this step")
        self._has_begun = self._in_step = True

    def on_train_step_end(self, run_context: Any) -> None:
        """End the step's dump; the next one has the next number."""
        self._in_step = False
        self._debugger.stop()
        self._debugger.step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Also where an exception ended the training, the framework gets its own functions back.

        A step that was cut short keeps its number: what is trained afterwards does not go on in its dump.
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
            # at level debug a debugger only counts steps for its `save`
            if other._debugger is self._debugger or "debug" not in (other._debugger.level, self._debugger.level):
                raise UsageError(
                    "this training has two MsprobeStep callbacks, but only one debugger can collect at a time; "
                    "use one callback per training"
                )


class MsprobeInitStep(Callback):
    """Gives the steps of a resumed training their own numbers: the first one is the step that comes next.

    That is `cur_step_num` where the training sets it, else the number of steps of the epochs before `initial_epoch`.
    The debugger that was constructed last gets it, and MindSpore's own kernel dump. Nothing is done in a training from
    its first step. UsageError at the training's begin where there is no debugger.
    """

    def __init__(self) -> None:
        super().__init__()
        self._debugger: Any = None

    def on_train_begin(self, run_context: Any) -> None:
        """Find the debugger."""
        method: Any = PrecisionDebugger.set_init_step  # asking the class for it raises where there is no debugger
        self._debugger = method.__self__

    def on_train_epoch_begin(self, run_context: Any) -> None:
        """Tell the number, once; here and not earlier, since the first epoch's number is not known before."""
        debugger, self._debugger = self._debugger, None
        if debugger is not None:
            _resume(debugger, next_step(run_context.original_args()))


def _debugger_of(debugger: PrecisionDebugger | None, entry: Entry) -> PrecisionDebugger:
    if debugger is None and entry.debugger:
        settings: dict[str, Any] = entry.debugger  # it checks what they hold
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
    """Number steps from `step` on, in MindSpore's own kernel dump too. A training from its first step is left alone."""
    if step == 0:
        return
    try:
        debugger.set_init_step(step)
    except UsageError:  # what the user's own `start(model)` has opened is not this step's
        debugger.step()
        debugger.set_init_step(step)
    if debugger.level != "L2":  # there the debugger moves the iterations itself
        _c_expression._set_init_iter(step)
