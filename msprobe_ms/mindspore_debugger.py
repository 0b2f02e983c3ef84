"""The debugger of a training with MindSpore."""

import sys
from typing import Any

import mindspore
from mindspore.communication import GlobalComm, get_rank

from msprobe.base.settings import Settings
from msprobe.cell_dump.backends.mindspore.framework import FRAMEWORK
from msprobe.cell_dump.backends.mindspore.jit import in_graph
from msprobe.cell_dump.saves import Saves
from msprobe.class_or_instance import on_either
from msprobe.collector_selection import Collectors
from msprobe.debugger import Debugger


class PrecisionDebugger(Debugger):
    """Collects a training with MindSpore step by step; see `docs/collecting.md`.

    `config_path` names a config.json; `task`, `dump_path`, `level` and `step` override what it says. Constructing
    again with equal settings gives the same debugger; where a debugger with other settings writes to the same
    dump_path, this one writes beside it, to `{dump_path}_2`. Raises SettingsError where the settings cannot be meant.
    """

    _collectors: Collectors

    @property
    def _framework(self) -> str:  # type: ignore[override]  # here it is known only when collecting begins
        return "mindtorch" if self._collectors.speaks_torch else "mindspore"

    @on_either
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Save a variable of this moment under `name`, and with `save_backward` the gradients that flow back to it.

        Level debug only; at any other level this does nothing. `variable` is a tensor, a number, a text, or lists,
        tuples and dicts of them. See `docs/saving.md`.
        """
        if in_graph():  # the graph compiler reads no further
            return
        self._save(variable, name, save_backward)

    @classmethod
    def _collectors_of(cls, settings: Settings) -> Collectors:
        return Collectors(settings)

    @classmethod
    def _saves_of(cls, settings: Settings) -> Saves:
        return Saves(settings, FRAMEWORK)

    def _version(self) -> str:  # type: ignore[override]  # as above
        layer = f"{sys.modules['torch'].__version__} on mindspore " if self._collectors.speaks_torch else ""
        return f"{layer}{mindspore.__version__}"

    def _device(self) -> str:
        return str(mindspore.get_context("device_target"))

    def _rank(self) -> int | None:
        """The framework's rank of this process; None where no communication is initialised."""
        return get_rank() if GlobalComm.INITED else None
