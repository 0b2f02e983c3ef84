"""Callbacks of `mindspore.train.Model`: a training that has no loop of its own is collected all the same.

The debugger is started at a step's begin and never before: at the begin of the training other callbacks may still
change where it resumes.
"""

from types import TracebackType
from typing import Any

from mindspore import _c_expression
from mindspore.train import Callback

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.log import once
from msprobe.mindspore_debugger import PrecisionDebugger


class MsprobeStep(Callback):  # type: ignore[misc]  # the framework has no types
    """Starts, stops and steps a debugger with every training step of a `Model`.

    The network is the one that `Model` was given, so that names are those of `start(network)`; a model that
    `debugger.start(model)` was given before the training stays in force. What is wrong with the debugger's settings or
    the model is raised before the first step; afterwards nothing of this stops the training. Raises UsageError for
    anything but a PrecisionDebugger.
    """

    def __init__(self, debugger: PrecisionDebugger) -> None:
        if not isinstance(debugger, PrecisionDebugger):
            raise UsageError(
                f"MsprobeStep: {debugger!r:.80} is no PrecisionDebugger; pass one: MsprobeStep(PrecisionDebugger(...))"
            )
        super().__init__()
        self._debugger = debugger
        self._network: Any = None
        self._has_begun = False

    def on_train_begin(self, run_context: Any) -> None:
        """Find the network. What the user's own `start(model)` opened is shut until the first step."""
        self._debugger.stop()
        self._has_begun = False
        if self._network is not None or not self._debugger.has_model:
            self._network = run_context.original_args().get("network")

    def on_train_step_begin(self, run_context: Any) -> None:
        """Start collecting, if this step is to be collected."""
        try:
            self._debugger.start(self._network)
        except MsprobeError as cause:
            if not self._has_begun:
                raise
            once(f"step: {cause}", f"{cause}; the training goes on without the dump of this step")
        self._has_begun = True

    def on_train_step_end(self, run_context: Any) -> None:
        """End the step's dump; the next one has the next number."""
        self._debugger.stop()
        self._debugger.step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Also where an exception ended the training, the framework gets its own functions back."""
        self._debugger.stop()


class MsprobeInitStep(Callback):  # type: ignore[misc]  # the framework has no types
    """Gives the steps of a resumed training their own numbers: the first one is the step that comes next.

    That is `cur_step_num` where the training was told so, else the steps of the epochs that `initial_epoch` leaves out.
    It is told to the debugger that was constructed last, and to MindSpore's own kernel dump. A training from its first
    step is left alone. UsageError at the training's begin where there is no debugger.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tell: Any = None

    def on_train_begin(self, run_context: Any) -> None:
        """Find the debugger."""
        self._tell = PrecisionDebugger.set_init_step  # asking the class for it raises where there is no debugger

    def on_train_epoch_begin(self, run_context: Any) -> None:
        """Tell the number, once; here and not earlier, since the first epoch's number is not known before."""
        tell, self._tell = self._tell, None
        if tell is None:
            return
        parameters = run_context.original_args()
        step = parameters.cur_step_num or (parameters.cur_epoch_num - 1) * parameters.batch_num
        if step > 0:
            PrecisionDebugger.step()  # what the user's own `start(model)` has opened is not this step's
            tell(step)
            if tell.__self__.level != "L2":  # there the debugger moves the iterations itself
                _c_expression._set_init_iter(step)
