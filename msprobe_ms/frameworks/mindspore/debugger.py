"""The debugger for trainings with MindSpore, and the selection of its collector.

Depending on level and execution mode, calls from Python, cells in graphs, or kernels of the framework are collected. In
PyNative mode the cells of graphs that Python calls (`@jit`) are recorded in the same dump or, with `jit_cells` "split",
in the folder `graph`, and other calls in the folder `pynative`, as in mindstudio-probe.

A model in PyTorch's API on MindSpore (MSAdapter, MindTorch) is collected like a model of PyTorch: by its modules and
functions of `torch`. This is determined by the model, or without a model by the imported `torch`.
"""

import sys
from typing import Any, TypeAlias

import mindspore
from mindspore.communication import GlobalComm, get_rank

from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.framework import AnyModel, AnyOptimizer, roots_of
from msprobe.base.settings import Settings
from msprobe.cell_dump.collector import Collector
from msprobe.cell_dump.framework import Framework
from msprobe.cell_dump.saves import Saves
from msprobe.debugger import Debugger, StepFolderOf
from msprobe.frameworks import registry
from msprobe.frameworks.limits import unsupported_by_mindspore
from msprobe.frameworks.torch_names import torch_on_mindspore
from msprobe.grad_probe.probe import GradProbe
from msprobe.graph_save.collector import GraphCollector
from msprobe.graph_save.kernel.collector import KernelDump
from msprobe.perturb.perturber import Perturber
from msprobe.stage_control import class_or_instance_method

from .collecting import CAPABILITY as MINDSPORE
from .executors import device_target, is_graph_mode
from .jit import in_graph

AnyCollector: TypeAlias = Collector | GraphCollector | KernelDump


class PrecisionDebugger(Debugger):
    """Debugger that collects a training with MindSpore; see `how-to/collecting/collecting.md`.

    config_path : a config.json; by default all settings have their defaults.
    task, dump_path, level, step : replace settings of the file.

    Constructing a debugger with equal settings again returns the same object. If a debugger with other settings already
    writes to the same dump_path, this one writes to `{dump_path}_2`. Raises SettingsError for invalid settings.
    """

    _collectors: "Collectors | GradientProbe | FreeBenchmark"

    @property
    def _framework(self) -> str:  # type: ignore[override]  # determined when collecting begins
        return "mindtorch" if self._collectors.is_torch else "mindspore"

    @class_or_instance_method
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Save the current value of a variable, and with `save_backward` its gradients.

        variable : a tensor, a number, a string, or lists, tuples and dicts of them.
        name : name of the saved value.

        Only at level debug; no effect at other levels. See `how-to/collecting/saving.md`.
        """
        if in_graph():  # the rest is not compiled
            return
        self._save(variable, name, save_backward)

    @classmethod
    def _collectors_of(cls, settings: Settings) -> "Collectors | GradientProbe | FreeBenchmark":
        if problem := unsupported_by_mindspore(settings):
            raise SettingsError(problem)
        if settings.task == "free_benchmark":
            return FreeBenchmark(settings)
        return GradientProbe(settings) if settings.task == "grad_probe" else Collectors(settings)

    @classmethod
    def _saves_of(cls, settings: Settings) -> Saves:
        return Saves(settings, MINDSPORE)

    def _version(self) -> str:  # type: ignore[override]  # as above
        layer = f"{sys.modules['torch'].__version__} on mindspore " if self._collectors.is_torch else ""
        return f"{layer}{mindspore.__version__}"

    def _collects_graphs(self) -> bool:
        return is_graph_mode()

    def _device(self) -> str:
        return device_target()

    def _rank(self) -> int | None:
        """Return the rank of this process; None if communication is not initialized."""
        return get_rank() if GlobalComm.INITED else None


class GradientProbe(GradProbe):
    """Collector of task grad_probe, for optimizers of MindSpore or of PyTorch's API on it."""

    def __init__(self, settings: Settings) -> None:
        self.is_torch = torch_on_mindspore()
        super().__init__(settings, _report_gradients)


class FreeBenchmark(Perturber):
    """Collector of task free_benchmark, for functions of MindSpore or of PyTorch's API on it."""

    def __init__(self, settings: Settings) -> None:
        self.is_torch = torch_on_mindspore()
        super().__init__(settings, _framework_in_use())


def _framework_in_use() -> registry.Framework:
    return registry.framework("mindtorch" if torch_on_mindspore() else "mindspore")


def _report_gradients(optimizer: AnyOptimizer, probe: GradProbe) -> None:
    _framework_in_use().optimizers.report_gradients(optimizer, probe)


class Collectors:
    """The collectors of a debugger, with the interface `StepCollector`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kernels = KernelDump(settings) if settings.level == "L2" else None
        self._has_begun = False
        self._splits = settings.jit_cells == "split"
        self._create_collectors(MINDSPORE)

    def _create_collectors(self, framework: Framework) -> None:
        settings, self._framework = self._settings, framework
        self.python, self.graphs = Collector(settings, framework), GraphCollector(settings)
        self._all: list[AnyCollector] = [self._kernels] if self._kernels is not None else [self.graphs, self.python]
        self._joins = settings.level in ("L0", "mix") and settings.jit_cells != "off" and framework is MINDSPORE

    @property
    def is_torch(self) -> bool:
        """Return whether PyTorch's API on MindSpore is collected."""
        return self._framework is not MINDSPORE if self._has_begun else torch_on_mindspore()

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
            self._select_framework(model)
        if self._framework is not MINDSPORE and is_graph_mode():
            raise UsageError(
                "start(): the mode is GRAPH_MODE, but modules of PyTorch's API on MindSpore are collected only "
                "in PYNATIVE_MODE; set PYNATIVE_MODE, or collect kernels with level L2"
            )
        self._active_collector().check(model, token_range)

    def _select_framework(self, model: AnyModel) -> None:
        """Select MindSpore or PyTorch's API on it; final at the first start that collects."""
        is_cells = model is not None and all(isinstance(root, mindspore.nn.Cell) for _, root in roots_of(model))
        is_torch = torch_on_mindspore() and not is_cells
        if is_torch == (self._framework is not MINDSPORE):
            return
        if not is_torch:
            self._create_collectors(MINDSPORE)
            return
        torch_api = registry.framework("mindtorch").collecting
        torch_api.refuse(self._settings)
        self._create_collectors(torch_api)

    def open(self, model: AnyModel, folder_of: StepFolderOf, token_range: Any = None) -> None:
        self._has_begun = True
        first = self._active_collector()
        joins = first is self.python and self._joins
        if joins and self._splits:
            self.python.open(model, folder_of("pynative"), token_range)
            self.graphs.open_separately(model, folder_of("graph"))
            return
        first.open(model, folder_of(""), token_range)
        if joins and self.python.session is not None:
            self.graphs.join(model, self.python.session)

    def expect(self, model: AnyModel) -> None:
        """Prepare graphs that are compiled now, because they may run in a step that is recorded."""
        first = self._active_collector()
        if first is self.graphs:
            self.graphs.expect(model)
        elif first is self.python and self._joins:
            self.graphs.expect(model, by_python=True, joined=not self._splits)

    def yield_step(self) -> None:
        self.python.yield_step()

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
        """Stop recording; graphs first, because they may write to the dump of calls from Python."""
        for each in self._all:
            each.shut()

    def end_step(self) -> None:
        for each in self._all:
            each.end_step()

    def _active_collector(self) -> AnyCollector:
        if self._kernels is not None:
            return self._kernels
        return self.graphs if is_graph_mode() else self.python


CAPABILITY = PrecisionDebugger
