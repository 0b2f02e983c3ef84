"""The collector of graph mode: cells are planted while graphs are compiled, and one step's calls go to one dump."""

from typing import Any, Protocol

from mindspore import nn

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModel, check_model, roots_of
from msprobe.base.log import once
from msprobe.base.patches import Patches
from msprobe.base.scope import Scope
from msprobe.base.settings import Settings, collect_options, scope_of
from msprobe.executors import device_target
from msprobe.store.writer import StepFolder, StepWriter

from .calls import GraphCalls, GraphsOnly, Surroundings
from .limits import wrong_in_graphs
from .operators import has_tensor_dump, synchronize
from .planting import Planting
from .transport.reports import listen
from .transport.tensordump import Dumping


class Joined(Surroundings, Protocol):
    """A session of Python's calls, in whose dump the graphs that it calls are recorded."""

    writer: StepWriter
    scope: Scope


class GraphCollector:
    """Collects the calls of cells (L0) in graphs. `open` and `shut` may alternate within a step."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._wishes = collect_options(settings)
        mode = self._wishes.data_mode
        self._planting = Planting(mode.forward and self._wishes.values, mode.backward)
        self._compiling, self._calling = Patches(), Patches()
        self._planting.plan(self._compiling, self._calling)
        self._scope = scope_of(settings)
        self._calls: GraphCalls | None = None
        self._writer: StepWriter | None = None
        self._dumping = Dumping(settings.dump_path) if has_tensor_dump() else None

    @property
    def is_open(self) -> bool:
        """Whether calls are being recorded."""
        return self._calls is not None and self._calls.listens

    @property
    def in_step(self) -> bool:
        """Whether a step's dump has begun and is not finished."""
        return self._calls is not None

    @property
    def has_model(self) -> bool:
        """Whether a model is known."""
        return self._planting.any

    def check(self, model: AnyModel, token_range: Any = None) -> None:
        """Refuse what cannot be collected in graphs."""
        level = self._settings.level
        if wrong := wrong_in_graphs(level, self._settings.task, device_target()):
            raise UsageError(f"start(): {wrong}")
        if token_range is not None:
            raise UsageError(
                "start(): token_range counts calls from Python and is not available in graph mode; omit it"
            )
        if model is not None:
            check_model(model, nn.Cell)
        elif not self._planting.any:
            raise UsageError(f'start(): the model cannot be None when level is "{level}"; pass the network: start(net)')

    def open(self, model: AnyModel, step_folder: StepFolder, token_range: Any = None) -> None:
        """Start recording; `step_folder` is used when this begins a step."""
        if self._settings.level == "mix":
            once(
                "mix in graph mode",
                'level "mix" in graph mode: APIs are not called from Python, so only cells are recorded',
            )
        self.expect(model)
        self._open(step_folder)

    def open_separately(self, model: AnyModel, step_folder: StepFolder) -> None:
        """Record the graphs that Python calls in a dump of their own."""
        self.expect(model, by_python=True)
        self._open(step_folder)

    def join(self, model: AnyModel, session: Joined) -> None:
        """Record the graphs that Python calls in the session of Python's calls."""
        self.expect(model, by_python=True, joined=True)
        if self._calls is None:
            self._calls = GraphCalls(self._wishes, session.writer, session.scope, session)
        self._resume(self._calls)

    def expect(self, model: AnyModel, *, by_python: bool = False, joined: bool = False) -> None:
        """Plant graphs that are compiled from here on, also in a step that is not recorded: a later one may be.

        `by_python`: Python calls them, and runs their backward. `joined`: it records the cell that it calls itself.
        """
        self._planting.is_called_by_python, self._planting.leaves_root = by_python, joined
        for prefix, root in [] if model is None else roots_of(model):
            self._planting.take(prefix, root)
        if self._dumping is not None:
            self._dumping.begin()
        self._compiling.install()

    def _open(self, step_folder: StepFolder) -> None:
        if self._calls is None:
            self._writer = step_folder.open()
            self._calls = GraphCalls(self._wishes, self._writer, self._scope, GraphsOnly())
        self._resume(self._calls)

    def _resume(self, calls: GraphCalls) -> None:
        synchronize()  # a graph of before may still run
        calls.listens = True
        listen(calls)
        self._calling.install()

    @property
    def is_interrupted(self) -> bool:
        """Whether an interrupt ended the step that has begun."""
        return self._calls is not None and self._calls.is_interrupted

    def interrupted(self, cause: str) -> None:
        """Have the step's dump say that it was interrupted."""
        if self._calls is not None:
            self._calls.interrupted(cause)

    def recover(self) -> None:
        """Take out what a start or a stop that an interrupt ended has left in place."""
        if not self.is_open:
            self._remove()

    def shut(self) -> None:
        """Stop recording calls; gradients of calls already made may still arrive until `end_step`."""
        self._remove()
        if self._calls is None:
            return
        synchronize()
        self._calls.listens = False
        self._calls.flush()
        if self._writer is not None:
            self._calls.guard("step", "files", self._writer.assemble)
            if not self._planting.is_called_by_python:  # what is not here may stand in the dump of Python's calls
                self._warn_of_unseen(self._calls)

    def end_step(self) -> None:
        """End the step's dump and start the numbers anew."""
        self._remove()
        if self._calls is not None:
            self._close(self._calls)
        if self._dumping is not None:
            self._dumping.next_step()

    def _remove(self) -> None:
        self._calling.remove()
        self._compiling.remove()

    def _close(self, calls: GraphCalls) -> None:
        synchronize()
        listen(None)
        if self._dumping is not None:
            calls.listens = True
            calls.guard("step", "tensors", self._dumping.finish, calls)
        calls.flush()
        if not self._planting.is_called_by_python:
            calls.guard("step", "parameters_grad", calls.miss_optimizer)
        for cause in self._planting.refused:
            calls.guard("step", "graph", calls.lack, cause)
        if self._writer is not None:
            calls.guard("step", "files", self._writer.close)
            self._scope.reset()
        self._calls = self._writer = None

    def _warn_of_unseen(self, calls: GraphCalls) -> None:
        if not calls.any and not self._planting.refused:
            what = "start(): no call of the model's cells was recorded in graphs since start()"
            once(what, f"{what}; a graph that was compiled earlier is not recorded: call start() before its first run")
        self._scope.log_unmatched()
