"""Who collects a training with MindSpore: Python's calls, the cells of graphs, or the framework its kernels.

Chosen by level and execution mode.

A model of PyTorch's API on MindSpore (MSAdapter, MindTorch) is collected as PyTorch's would be: by its modules and the
functions of `torch`. Which of the two it is, the model tells; without one, whether `torch` is such a layer.

In PyNative mode a graph that Python calls (`@jit`) has its cells recorded in the same dump; or, where the settings ask
for the split, below `graph`, and the rest below `pynative`, as the other tool does.
"""

from typing import Any

import mindspore

from msprobe.base.errors import UsageError
from msprobe.base.framework import roots_of
from msprobe.base.settings import Settings
from msprobe.cell_dump.backends.mindspore.framework import FRAMEWORK
from msprobe.cell_dump.backends.torch_api import torch_on_mindspore
from msprobe.cell_dump.collector import Collector
from msprobe.cell_dump.framework import Framework
from msprobe.collector_protocol import HomeOf
from msprobe.graph_save.collector import GraphCollector
from msprobe.graph_save.kernel.collector import KernelDump


class Collectors:
    """The collectors of one debugger behind one set of doors. `open` and `shut` may alternate within a step."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kernels = KernelDump(settings) if settings.level == "L2" else None
        self._has_begun = False
        self._choose(FRAMEWORK)

    def _choose(self, framework: Framework) -> None:
        settings = self._settings
        self._framework = framework
        self.python, self.graphs = Collector(settings, framework), GraphCollector(settings)
        self._all = [self._kernels] if self._kernels is not None else [self.graphs, self.python]
        self._joins = settings.level in ("L0", "mix") and settings.jit_cells != "off" and framework is FRAMEWORK
        self._splits = settings.jit_cells == "split"

    @property
    def speaks_torch(self) -> bool:
        """Whether what is collected, or will be, is PyTorch's API on MindSpore."""
        return self._framework is not FRAMEWORK if self._has_begun else torch_on_mindspore()

    @property
    def is_open(self) -> bool:
        """Whether calls are being recorded, or kernels dumped."""
        return any(each.is_open for each in self._all)

    @property
    def in_step(self) -> bool:
        """Whether a step's dump has begun and is not finished."""
        return any(each.in_step for each in self._all)

    @property
    def has_model(self) -> bool:
        """Whether a model was given, or none is needed."""
        return any(each.has_model for each in self._all)

    def check(self, model: Any, token_range: Any = None) -> None:
        """Refuse what cannot be collected at this level in this mode."""
        if not self._has_begun and self._kernels is None:
            self._decide(model)
        if self._framework is not FRAMEWORK and mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise UsageError(
                "start(): the mode is GRAPH_MODE, and modules of PyTorch's API on MindSpore are collected in "
                "PYNATIVE_MODE only; set that, or collect kernels with level L2"
            )
        self._first().check(model, token_range)

    def open(self, model: Any, home_of: HomeOf, token_range: Any = None) -> None:
        """Start recording; a home is asked for when this begins a step. OSError where it cannot be written."""
        self._has_begun = True
        first = self._first()
        joins = first is self.python and self._joins
        if joins and self._splits:
            self.python.open(model, home_of("pynative"), token_range)
            self.graphs.open_beside(model, home_of("graph"))
            return
        first.open(model, home_of(""), token_range)
        if joins and self.python.session is not None:
            self.graphs.join(model, self.python.session)

    def expect(self, model: Any) -> None:
        """Be ready in a step that is not recorded: graphs that are compiled now may be run in one that is."""
        first = self._first()
        if first is self.graphs:
            self.graphs.expect(model)
        elif first is self.python and self._joins:
            self.graphs.expect(model, by_python=True, joined=not self._splits)

    def give_way(self) -> None:
        """Another debugger has begun to collect: what passes none of our calls is its."""
        self.python.give_way()

    def shut(self) -> None:
        """Stop recording; graphs first, for they may write where Python's calls are written."""
        for each in self._all:
            each.shut()

    def end_step(self) -> None:
        """End the step's dump and start the numbers anew."""
        for each in self._all:
            each.end_step()

    def _first(self) -> Any:
        if self._kernels is not None:
            return self._kernels
        return self.graphs if mindspore.get_context("mode") == mindspore.GRAPH_MODE else self.python

    def _decide(self, model: Any) -> None:
        """Whose modules and functions are to be collected; the last word has the first start that collects."""
        is_torch = torch_on_mindspore() and not (model is not None and all(map(_is_cell, roots_of(model))))
        if is_torch == (self._framework is not FRAMEWORK):
            return
        if not is_torch:
            self._choose(FRAMEWORK)
            return
        from msprobe.cell_dump.backends.mindtorch import framework  # here: it imports torch

        framework.refuse(self._settings)
        self._choose(framework.FRAMEWORK)


def _is_cell(root: tuple[str, Any]) -> bool:
    return isinstance(root[1], mindspore.nn.Cell)
