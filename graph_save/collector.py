"""The collector of graph mode: instruments cells while graphs are compiled, and records the calls of a step."""

from typing import Any, Protocol

from mindspore import nn

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModel, check_model, roots_of
from msprobe.base.log import log_once
from msprobe.base.patches import Patches
from msprobe.base.scope import Scope
from msprobe.base.settings import Settings, collect_options, scope_of
from msprobe.frameworks.mindspore.executors import device_target
from msprobe.store.writer import StepFolder, StepWriter

from .calls import GraphCalls, GraphOnlyContext, StepContext
from .instrumentation import Instrumentation
from .limits import unsupported_in_graphs
from .operators import has_tensor_dump, synchronize
from .transport.reports import listen
from .transport.tensordump import TensorFiles


class PythonSession(StepContext, Protocol):
    """A session that records calls from Python, and in its dump also the graphs that Python calls."""

    writer: StepWriter
    scope: Scope


class GraphCollector:
    """Collector of the calls of cells (level L0) in graphs. `open` and `shut` may alternate within a step."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._options = collect_options(settings)
        mode = self._options.data_mode
        self._instrumentation = Instrumentation(mode.forward and self._options.values, mode.backward)
        self._compile_patches, self._call_patches = Patches(), Patches()
        self._instrumentation.register_patches(self._compile_patches, self._call_patches)
        self._scope = scope_of(settings)
        self._calls: GraphCalls | None = None
        self._writer: StepWriter | None = None
        self._tensor_files = TensorFiles(settings.dump_path) if has_tensor_dump() else None

    @property
    def is_open(self) -> bool:
        """Return whether calls are being recorded."""
        return self._calls is not None and self._calls.listens

    @property
    def in_step(self) -> bool:
        """Return whether the dump of a step has begun and is not finished."""
        return self._calls is not None

    @property
    def has_model(self) -> bool:
        """Return whether a model is registered."""
        return self._instrumentation.has_model

    def check(self, model: AnyModel, token_range: Any = None) -> None:
        """Raise UsageError if the settings or arguments of `start()` are not available in graphs."""
        level = self._settings.level
        if problem := unsupported_in_graphs(level, self._settings.task, device_target()):
            raise UsageError(f"start(): {problem}")
        if token_range is not None:
            raise UsageError(
                "start(): token_range counts calls from Python and is not available in graph mode; omit it"
            )
        if model is not None:
            check_model(model, nn.Cell)
        elif not self._instrumentation.has_model:
            raise UsageError(f'start(): the model cannot be None when level is "{level}"; pass the network: start(net)')

    def open(self, model: AnyModel, step_folder: StepFolder, token_range: Any = None) -> None:
        """Start recording; `step_folder` is used if this begins a step."""
        if self._settings.level == "mix":
            log_once(
                "mix in graph mode",
                'level "mix" in graph mode: APIs are not called from Python, so only cells are recorded',
            )
        self.expect(model)
        self._open(step_folder)

    def open_separately(self, model: AnyModel, step_folder: StepFolder) -> None:
        """Start recording the graphs that Python calls, in a separate dump."""
        self.expect(model, by_python=True)
        self._open(step_folder)

    def join(self, model: AnyModel, session: PythonSession) -> None:
        """Start recording the graphs that Python calls, in the dump of the session of calls from Python."""
        self.expect(model, by_python=True, joined=True)
        if self._calls is None:
            self._calls = GraphCalls(self._options, session.writer, session.scope, session)
        self._resume(self._calls)

    def expect(self, model: AnyModel, *, by_python: bool = False, joined: bool = False) -> None:
        """Instrument graphs that are compiled from now on, also in steps that are not recorded: a later step may be.

        by_python : Python calls the graphs and runs their backward.
        joined : calls from Python are recorded too, including the cell that Python calls.
        """
        self._instrumentation.is_called_by_python, self._instrumentation.skips_root = by_python, joined
        for prefix, root in [] if model is None else roots_of(model):
            self._instrumentation.add_model(prefix, root)
        if self._tensor_files is not None:
            self._tensor_files.begin()
        self._compile_patches.install()

    def _open(self, step_folder: StepFolder) -> None:
        if self._calls is None:
            self._writer = step_folder.open()
            self._calls = GraphCalls(self._options, self._writer, self._scope, GraphOnlyContext())
        self._resume(self._calls)

    def _resume(self, calls: GraphCalls) -> None:
        synchronize()  # An earlier graph may still be running.
        calls.listens = True
        listen(calls)
        self._call_patches.install()

    @property
    def is_interrupted(self) -> bool:
        """Return whether an interrupt ended the current step."""
        return self._calls is not None and self._calls.is_interrupted

    def interrupted(self, cause: str) -> None:
        """Record in the dump of the step that it was interrupted."""
        if self._calls is not None:
            self._calls.interrupted(cause)

    def recover(self) -> None:
        """Remove patches that an interrupted start() or stop() left in place."""
        if not self.is_open:
            self._remove()

    def shut(self) -> None:
        """Stop recording calls; gradients of earlier calls may still arrive until `end_step`."""
        self._remove()
        if self._calls is None:
            return
        synchronize()
        self._calls.listens = False
        self._calls.flush()
        if self._writer is not None:
            self._calls.guard("step", "files", self._writer.assemble)
            if not self._instrumentation.is_called_by_python:  # otherwise in the dump of calls from Python
                self._warn_of_unseen(self._calls)

    def end_step(self) -> None:
        """Finish the dump of the step and reset the numbers of calls."""
        self._remove()
        if self._calls is not None:
            self._close(self._calls)
        if self._tensor_files is not None:
            self._tensor_files.next_step()

    def _remove(self) -> None:
        self._call_patches.remove()
        self._compile_patches.remove()

    def _close(self, calls: GraphCalls) -> None:
        synchronize()
        listen(None)
        if self._tensor_files is not None:
            calls.listens = True
            calls.guard("step", "tensors", self._tensor_files.finish, calls)
        calls.flush()
        if not self._instrumentation.is_called_by_python:
            calls.guard("step", "parameters_grad", calls.note_missing_optimizer)
        for cause in self._instrumentation.compile_errors:
            calls.guard("step", "graph", calls.note_uninstrumented_graph, cause)
        if self._writer is not None:
            calls.guard("step", "files", self._writer.close)
            self._scope.reset()
        self._calls = self._writer = None

    def _warn_of_unseen(self, calls: GraphCalls) -> None:
        if not calls.any and not self._instrumentation.compile_errors:
            problem = "start(): no call of the model's cells was recorded in graphs since start()"
            log_once(
                problem,
                f"{problem}; a graph that was compiled earlier is not recorded: call start() before its first run",
            )
        self._scope.log_unmatched()
