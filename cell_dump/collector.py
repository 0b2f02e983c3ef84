"""The collector of PyNative runs: patches while it is open, one session a step.

`open` and `shut` may alternate within a step; the records go on in the same dump. `end_step` ends the step's dump.
"""

from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.scope import Scope
from msprobe.base.sections import CollectSettings
from msprobe.base.settings import Settings
from msprobe.store.write import Writer

from . import api, jit
from .cell import CellCalls, check_model, named_cells
from .patches import Patches
from .session import Session


class Collector:
    """Collects the calls of cells (L0), of APIs (L1), or of both (mix)."""

    def __init__(self, settings: Settings) -> None:
        if not isinstance(settings.section, CollectSettings):
            raise UsageError(f'task "{settings.task}" is not collected by hooks')
        self._settings = settings
        self._section = settings.section
        self._session: Session | None = None
        self._scope = Scope(settings.level, self._section.scope, self._section.patterns)
        self._patches = Patches()
        self._guards = Patches()
        self._cells = CellCalls(self._current)
        self._planned = False

    @property
    def is_open(self) -> bool:
        """Whether calls are being recorded."""
        return self._session is not None and self._session.on

    def check(self, model: Any) -> None:
        """Refuse a model that cannot be collected at this level."""
        check_model(model, self._settings.level)

    def open(self, model: Any, folder: Path, header: dict[str, Any]) -> None:
        """Start recording; `folder` and `header` are used when this begins a step."""
        if not self._planned:
            self._planned = True
            if self._settings.level in ("L1", "mix"):
                api.plan(self._current, self._patches)
            jit.plan(self._guards, self._patches)
        if model is not None and self._settings.level in ("L0", "mix"):
            self._cells.add(named_cells(model), self._patches)
        if self._session is None:
            writer = Writer(folder, header, extra_info=self._settings.extra_info)
            self._session = Session(self._settings, self._section, writer, self._scope)
        if self._section.data_mode.parameters_grad:
            self._cells.hook_parameters(self._session)
        self._patches.install()
        self._guards.install()
        self._session.on = True

    def shut(self) -> None:
        """Stop recording calls; gradients of calls already made may still arrive until `end_step`."""
        self._guards.remove()
        self._patches.remove()
        if self._session is not None:
            self._session.pause()

    def end_step(self) -> None:
        """End the step's dump and start the numbers anew."""
        self._guards.remove()
        self._patches.remove()
        self._cells.unhook_parameters()
        if self._session is not None:
            self._session.close()
            self._session = None
        self._scope.reset()

    def _current(self) -> Session | None:
        return self._session
