"""Environment variables and iteration of the framework's dump.

Observed with MindSpore 2.7.0 and 2.10.0 on a CPU: the graph runtime reads `MINDSPORE_DUMP_CONFIG` when it is created,
that is, when the first graph of the process is compiled. Importing MindSpore, setting the context, creating tensors and
cells, and running PyNative operations do not create it. It is created only once: settings that are set after the first
graph are ignored without an error. Optimizers compile graphs in PyNative mode too, and so do gradient functions in
graph mode. On Ascend, communication must not be initialized before either.

By default the framework counts an iteration of its dump for every run of a graph. Once an iteration is set
(`_set_init_iter`) it remains until another is set, so it is set to the step of the debugger while a step is collected.
"""

import os
from collections.abc import Callable
from pathlib import Path

import mindspore
from mindspore import _c_expression

from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.log import log_once
from msprobe.frameworks.mindspore.executors import api, executor

from .dump_settings import IDLE_ITERATION, path_problem

CONFIG = "MINDSPORE_DUMP_CONFIG"
ACL_CONFIG = "MS_ACL_DUMP_CFG_PATH"

_CACHES = ("ms_compile_cache", "function_phases", "cells_compile_cache")

_dump_folders: list[Path] = []
"""The folder of the kernel dump of this process: the framework supports one per process."""


def has_compiled_graph() -> bool:
    """Return whether a graph has been compiled, by MindSpore's caches of compiled graphs.

    False for a version that has other caches; then `missing_kernel_messages` reports after the run that the dump is
    empty.
    """
    caches = [getattr(api, name, None) for name in _CACHES]
    return any(cache if isinstance(cache, set) else any((cache or {}).values()) for cache in caches)


def check(dump_path: Path) -> None:
    """Raise SettingsError or UsageError if the framework cannot make the dump."""
    if problem := path_problem(dump_path):
        raise SettingsError(f"dump_path: {problem}")
    if _dump_folders:
        raise UsageError(
            f"PrecisionDebugger: the kernels of this process are already dumped to {_dump_folders[0]}, and the "
            "framework supports one kernel dump per process; use one debugger at level L2, and another process "
            "for other settings"
        )
    if has_compiled_graph():
        raise UsageError(
            "PrecisionDebugger: too late for level L2: MindSpore has already compiled a graph in this process, "
            "and reads the settings of its kernel dump only before the first graph; construct the debugger at "
            "the top of the script, before networks are compiled or run, optimizers run, and communication is "
            "initialized"
        )


def set_variables(file: Path, acl: bool) -> Callable[[], None]:
    """Set the variables of the framework and, with `acl`, the Ascend runtime; return a function that restores them."""
    previous = {name: os.environ.get(name) for name in (CONFIG, ACL_CONFIG)}
    if previous[CONFIG]:
        log_once(CONFIG, f"{CONFIG} was {previous[CONFIG]}; level L2 sets it to {file}")
    _dump_folders.append(file.parent)
    _set(CONFIG, str(file))
    _set(ACL_CONFIG, str(file) if acl else None)

    def restore() -> None:
        _dump_folders.clear()
        for name, value in previous.items():
            _set(name, value)

    return restore


def load_settings(iteration: int) -> None:
    """Have the framework read the settings, and set its iteration. SettingsError if the settings are invalid.

    The framework then no longer counts iterations, so an iteration of its dump is a step of the debugger, however many
    graphs a step runs.
    """
    try:
        _c_expression._set_init_iter(iteration)
    except RuntimeError as err:
        cause = str(err).partition("\n")[0]
        file = os.environ[CONFIG]
        raise SettingsError(f"level L2: the framework rejects {file}: {cause}; correct this setting") from err


def _set(name: str, value: str | None) -> None:
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value


def synchronize() -> None:
    """Wait for queued operations: graphs of `@jit` functions run asynchronously."""
    executor.sync()


class IterationSwitch:
    """Switch for CPU, where start and stop have no effect: sets an iteration that is not dumped."""

    first_iteration = IDLE_ITERATION

    def begin(self, step: int) -> None:
        """Start collecting a step."""
        synchronize()
        _c_expression._set_init_iter(step)

    def end(self) -> None:
        """Stop collecting."""
        synchronize()
        _c_expression._set_init_iter(IDLE_ITERATION)


class DynamicSwitch:
    """Switch for Ascend, by the framework's start and stop. Not tested on Ascend."""

    first_iteration = 0

    def __init__(self) -> None:
        _c_expression._dump_set_dynamic()  # From now on the dump is inactive until it is started.

    def begin(self, step: int) -> None:
        """Start collecting a step."""
        _c_expression._set_init_iter(step)
        _c_expression._dump_start()

    def end(self) -> None:
        """Stop collecting."""
        synchronize()
        mindspore.runtime.synchronize()
        _c_expression._dump_stop()


class NoSwitch:
    """Switch for dumps that cannot be started and stopped: of whole graphs, overflows and exceptions."""

    first_iteration = None

    def begin(self, step: int) -> None:
        """Do nothing: the settings select the iterations."""

    def end(self) -> None:
        """Do nothing."""


Switch = IterationSwitch | DynamicSwitch | NoSwitch
