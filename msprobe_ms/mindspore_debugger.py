"""The debugger of a training with MindSpore, and which collector it uses.

Python's calls, the cells of graphs, or the framework's kernels are collected, by level and execution mode. In PyNative
mode a graph that Python calls (`@jit`) has its cells recorded in the same dump; or, where the settings ask for the
split, below `graph`, and the rest below `pynative`, as the other tool does.

A model of PyTorch's API on MindSpore (MSAdapter, MindTorch) is collected as PyTorch's would be: by its modules and the
functions of `torch`. The model decides which of the two it is; without one, whether `torch` is such a layer.
"""

import sys
from typing import Any, TypeAlias

import mindspore
from mindspore.communication import GlobalComm, get_rank

from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.framework import AnyModel, AnyOptimizer, roots_of
from msprobe.base.framework_limits import unsupported_by_mindspore
from msprobe.base.settings import Settings
from msprobe.cell_dump.backends.mindspore.framework import FRAMEWORK
from msprobe.cell_dump.backends.mindspore.jit import in_graph
from msprobe.cell_dump.backends.torch_api import torch_on_mindspore
from msprobe.cell_dump.collector import Collector
from msprobe.cell_dump.framework import Framework
from msprobe.cell_dump.saves import Saves
from msprobe.debugger import Debugger, StepFolderOf
from msprobe.executors import device_target, is_graph_mode
from msprobe.grad_probe.backends.mindspore import attach
from msprobe.grad_probe.probe import GradProbe
from msprobe.graph_save.collector import GraphCollector
from msprobe.graph_save.kernel.collector import KernelDump
from msprobe.perturb.backends import mindspore as perturb
from msprobe.perturb.perturber import Perturber
from msprobe.stage_control import on_either

AnyCollector: TypeAlias = Collector | GraphCollector | KernelDump


class PrecisionDebugger(Debugger):
    """Collects a training with MindSpore step by step; see `how-to/collecting/collecting.md`.

    `config_path` names a config.json; `task`, `dump_path`, `level` and `step` override what it says. Constructing
    again with equal settings gives the same debugger; where a debugger with other settings writes to the same
    dump_path, this one writes beside it, to `{dump_path}_2`. Raises SettingsError where the settings cannot be meant.
    """

    _collectors: "Collectors | Gradients | SecondRuns"

    @property
    def _framework(self) -> str:  # type: ignore[override]  # here it is known only when collecting begins
        return "mindtorch" if self._collectors.is_torch else "mindspore"

    @on_either
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Save a variable of this moment under `name`, and with `save_backward` the gradients that flow back to it.

        Level debug only; at any other level this does nothing. `variable` is a tensor, a number, a text, or lists,
        tuples and dicts of them. See `how-to/collecting/saving.md`.
        """
        if in_graph():  # the graph compiler reads no further
            return
        self._save(variable, name, save_backward)

    @classmethod
    def _collectors_of(cls, settings: Settings) -> "Collectors | Gradients | SecondRuns":
        if wrong := unsupported_by_mindspore(settings):
            raise SettingsError(wrong)
        if settings.task == "free_benchmark":
            return SecondRuns(settings)
        return Gradients(settings) if settings.task == "grad_probe" else Collectors(settings)

    @classmethod
    def _saves_of(cls, settings: Settings) -> Saves:
        return Saves(settings, FRAMEWORK)

    def _version(self) -> str:  # type: ignore[override]  # as above
        layer = f"{sys.modules['torch'].__version__} on mindspore " if self._collectors.is_torch else ""
        return f"{layer}{mindspore.__version__}"

    def _device(self) -> str:
        return device_target()

    def _rank(self) -> int | None:
        """The framework's rank of this process; None where no communication is initialised."""
        return get_rank() if GlobalComm.INITED else None


class Gradients(GradProbe):
    """The probe of optimizers, of MindSpore or of PyTorch's API on it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, _attach)
        self.is_torch = torch_on_mindspore()


class SecondRuns(Perturber):
    """Runs functions of MindSpore, or of PyTorch's API on it, a second time."""

    def __init__(self, settings: Settings) -> None:
        self.is_torch = torch_on_mindspore()
        super().__init__(settings, _perturbed_functions(self.is_torch), "mindtorch" if self.is_torch else "mindspore")


def _perturbed_functions(is_torch: bool) -> type[perturb.MindSpore]:
    if not is_torch:
        return perturb.MindSpore
    from msprobe.perturb.backends.mindtorch import MindTorch  # here: it imports torch

    return MindTorch


def _attach(optimizer: AnyOptimizer, probe: GradProbe) -> None:
    if isinstance(optimizer, mindspore.nn.Cell) or not torch_on_mindspore():
        attach(optimizer, probe)
        return
    from msprobe.grad_probe.backends import pytorch  # here: it imports torch

    pytorch.attach(optimizer, probe)


class Collectors:
    """The collectors of one debugger, as one; the methods are those of `Collecting`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kernels = KernelDump(settings) if settings.level == "L2" else None
        self._has_begun = False
        self._splits = settings.jit_cells == "split"
        self._choose(FRAMEWORK)

    def _choose(self, framework: Framework) -> None:
        settings, self._framework = self._settings, framework
        self.python, self.graphs = Collector(settings, framework), GraphCollector(settings)
        self._all: list[AnyCollector] = [self._kernels] if self._kernels is not None else [self.graphs, self.python]
        self._joins = settings.level in ("L0", "mix") and settings.jit_cells != "off" and framework is FRAMEWORK

    @property
    def is_torch(self) -> bool:
        """Whether what is collected, or will be, is PyTorch's API on MindSpore."""
        return self._framework is not FRAMEWORK if self._has_begun else torch_on_mindspore()

    @property
    def is_open(self) -> bool:
        return any(each.is_open for each in self._all)

    @property
    def in_step(self) -> bool:
        return any(each.in_step for each in self._all)

    @property
    def has_model(self) -> bool:
        return any(each.has_model for each in self._all)

    def check(self, model: AnyModel, token_range: Any = None) -> None:
        if not self._has_begun and self._kernels is None:
            self._choose_by(model)
        if self._framework is not FRAMEWORK and is_graph_mode():
            raise UsageError(
                "start(): the mode is GRAPH_MODE, but modules of PyTorch's API on MindSpore are collected only "
                "in PYNATIVE_MODE; set PYNATIVE_MODE, or collect kernels with level L2"
            )
        self._first().check(model, token_range)

    def _choose_by(self, model: AnyModel) -> None:
        """Whose modules and functions are to be collected; final at the first start that collects."""
        is_cells = model is not None and all(isinstance(root, mindspore.nn.Cell) for _, root in roots_of(model))
        is_torch = torch_on_mindspore() and not is_cells
        if is_torch == (self._framework is not FRAMEWORK):
            return
        if not is_torch:
            self._choose(FRAMEWORK)
            return
        from msprobe.cell_dump.backends.mindtorch import framework  # here: it imports torch

        framework.refuse(self._settings)
        self._choose(framework.FRAMEWORK)

    def open(self, model: AnyModel, folder_of: StepFolderOf, token_range: Any = None) -> None:
        self._has_begun = True
        first = self._first()
        joins = first is self.python and self._joins
        if joins and self._splits:
            self.python.open(model, folder_of("pynative"), token_range)
            self.graphs.open_separately(model, folder_of("graph"))
            return
        first.open(model, folder_of(""), token_range)
        if joins and self.python.session is not None:
            self.graphs.join(model, self.python.session)

    def expect(self, model: AnyModel) -> None:
        """Graphs that are compiled now may be run in a step that is recorded."""
        first = self._first()
        if first is self.graphs:
            self.graphs.expect(model)
        elif first is self.python and self._joins:
            self.graphs.expect(model, by_python=True, joined=not self._splits)

    def give_way(self) -> None:
        self.python.give_way()

    @property
    def is_interrupted(self) -> bool:
        return any(each.is_interrupted for each in self._all)

    def interrupted(self, cause: str) -> None:
        for each in self._all:
            each.interrupted(cause)

    def recover(self) -> None:
        for each in self._all:
            each.recover()

    def shut(self) -> None:
        """Graphs first, for they may write where Python's calls are written."""
        for each in self._all:
            each.shut()

    def end_step(self) -> None:
        for each in self._all:
            each.end_step()

    def _first(self) -> AnyCollector:
        if self._kernels is not None:
            return self._kernels
        return self.graphs if is_graph_mode() else self.python
