"""The debugger for trainings with PyTorch."""

from collections.abc import Sequence
from typing import Any

import torch

from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.framework import AnyModel
from msprobe.base.log import log_once
from msprobe.base.settings import Settings
from msprobe.cell_dump.collector import PythonCalls
from msprobe.cell_dump.saves import Saves
from msprobe.debugger import Debugger
from msprobe.frameworks.limits import unsupported_by_pytorch
from msprobe.frameworks.registry import framework
from msprobe.grad_probe.probe import GradProbe
from msprobe.perturb.perturber import Perturber

from .collecting import CAPABILITY as PYTORCH
from .compiled import is_running, uncompiled
from .modes import without_modes
from .optimizers import CAPABILITY as OPTIMIZERS


class PrecisionDebugger(Debugger):
    """Debugger that collects a training with PyTorch; see `how-to/collecting/collecting.md`.

    config_path : a config.json; by default all settings have their defaults.
    task, dump_path, level, step : replace settings of the file.

    Constructing a debugger with equal settings again returns the same object. If a debugger with other settings already
    writes to the same dump_path, this one writes to `{dump_path}_2`. Raises SettingsError for invalid settings.
    """

    _framework = "pytorch"

    @classmethod
    def _collectors_of(cls, settings: Settings) -> "PythonCalls | GradProbe | Perturber":
        if settings.task == "grad_probe":
            return GradProbe(settings, OPTIMIZERS.report_gradients)
        if problem := unsupported_by_pytorch(settings):
            raise SettingsError(problem)
        if settings.task == "free_benchmark":
            return Perturber(settings, framework("pytorch"))
        return PythonCalls(settings, PYTORCH)

    @uncompiled
    def _start(self, model: AnyModel, token_range: Any, rank_id: int | None) -> None:
        super()._start(model, token_range, rank_id)

    def _begin(self, model: AnyModel, token_range: Any, rank_id: int | None) -> None:
        if is_running():
            raise UsageError(
                "start(): called inside code compiled by torch.compile, where collecting would require compiling "
                "another graph; call start() and stop() outside of compiled code"
            )
        super()._begin(model, token_range, rank_id)

    @classmethod
    def _saves_of(cls, settings: Settings) -> Saves:
        return Saves(settings, PYTORCH)

    @classmethod
    def _version(cls) -> str:
        return str(torch.__version__)

    def _frozen(self) -> Sequence[str]:
        return without_modes(super()._frozen)


def module_dump(module: torch.nn.Module, dump_name: str) -> None:
    """Do nothing at levels L0 and mix, which record modules anyway, as in msprobe 8.1; deprecated.

    UsageError at other levels, where msprobe 8.1 records only this module.
    """
    debugger = PrecisionDebugger._latest
    instead = 'use level "L0" or "mix", and the module\'s name in "list", for example "list": ["Module.layers.0."]'
    if debugger is not None and debugger.level not in ("L0", "mix"):
        raise UsageError(f"module_dump() is not available at level {debugger.level!r}; {instead}")
    log_once("deprecated: module_dump", f"module_dump() and module_dump_end() have no effect at this level; {instead}")


def module_dump_end() -> None:
    """Do nothing: see `module_dump`; deprecated."""


class PtdbgDispatch:
    """Not available: the comparison of each operator with a CPU at run time, as in msprobe 1.0 to 8.1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UsageError('PtdbgDispatch is not available; task "acc_check" checks each call while the training runs')


CAPABILITY = PrecisionDebugger
