"""Environment variables and iteration of the framework's dump, set at the right moment.

Found with MindSpore 2.7.0 and 2.10.0 on a CPU: the runtime of graphs reads `MINDSPORE_DUMP_CONFIG` when it is built,
that is, when the first graph of the process is compiled. Importing MindSpore, setting the context, making tensors and
cells, and running PyNative operations do not build it. Later it is not built again: settings that come after the first
graph are read without any complaint, and nothing is dumped. Optimizers compile graphs in PyNative mode too, and so do
gradient functions in graph mode. On Ascend, communication must not be initialised before either.

By itself the framework counts an iteration of its dump for every run of a graph. Once an iteration is set
(`_set_init_iter`) it stays there until another is set: so it is kept at our step while a step is being collected.
"""

import os
from collections.abc import Callable
from pathlib import Path

import mindspore
from mindspore import _c_expression

from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.log import once
from msprobe.executors import api, executor

from .dump_settings import PARKED, wrong_path

CONFIG = "MINDSPORE_DUMP_CONFIG"
ACL_CONFIG = "MS_ACL_DUMP_CFG_PATH"

_CACHES = ("ms_compile_cache", "function_phases", "cells_compile_cache")

_dump_folders: list[Path] = []
"""The folder of this process's kernel dump: the framework takes one in the life of a process."""


def a_graph_was_compiled() -> bool:
    """Whether the runtime of graphs has been built, as far as Python sees: the caches of compiled graphs say.

    A version that keeps them elsewhere answers no; then the check after the run (`complaints`) says that nothing came.
    """
    caches = [getattr(api, name, None) for name in _CACHES]
    return any(cache if isinstance(cache, set) else any((cache or {}).values()) for cache in caches)


def check(dump_path: Path) -> None:
    """Refuse a dump that the framework would not make. SettingsError, UsageError."""
    if wrong := wrong_path(dump_path):
        raise SettingsError(f"dump_path: {wrong}")
    if _dump_folders:
        raise UsageError(
            f"PrecisionDebugger: the kernels of this process are already dumped to {_dump_folders[0]}, and the "
            "framework supports one kernel dump per process; use one debugger at level L2, and another process "
            "for other settings"
        )
    if a_graph_was_compiled():
        raise UsageError(
            "PrecisionDebugger: too late for level L2: MindSpore has already compiled a graph in this process, "
            "and reads the settings of its kernel dump only before the first graph; construct the debugger at "
            "the top of the script, before networks are compiled or run, optimizers run, and communication is "
            "initialized"
        )


def set_variables(file: Path, acl: bool) -> Callable[[], None]:
    """Name the settings to the framework and, with `acl`, to the Ascend runtime; returns a function that undoes it."""
    before = {name: os.environ.get(name) for name in (CONFIG, ACL_CONFIG)}
    if before[CONFIG]:
        once(CONFIG, f"{CONFIG} was {before[CONFIG]}; level L2 sets it to {file}")
    _dump_folders.append(file.parent)
    _set(CONFIG, str(file))
    _set(ACL_CONFIG, str(file) if acl else None)

    def take_back() -> None:
        _dump_folders.clear()
        for name, value in before.items():
            _set(name, value)

    return take_back


def read_now(iteration: int) -> None:
    """Have the framework read the settings, and begin at this iteration. SettingsError where it cannot read them.

    Since it then counts iterations no longer itself, an iteration of its dump is a step of ours, however many graphs
    the step runs, and however often.
    """
    try:
        _c_expression._set_init_iter(iteration)
    except RuntimeError as err:
        why = str(err).partition("\n")[0]
        file = os.environ[CONFIG]
        raise SettingsError(f"level L2: the framework rejects {file}: {why}; correct this setting") from err


def _set(name: str, value: str | None) -> None:
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value


def settle() -> None:
    """Wait until what was asked for has run: graphs of `@jit` functions run behind the Python that calls them."""
    executor.sync()


class Parking:
    """On a CPU. The framework's start and stop do nothing there, so the iteration moves to where nothing is kept."""

    first = PARKED

    def begin(self, step: int) -> None:
        """Collect from here on, into this step."""
        settle()
        _c_expression._set_init_iter(step)

    def end(self) -> None:
        """Collect nothing from here on."""
        settle()
        _c_expression._set_init_iter(PARKED)


class Switch:
    """On Ascend, by the framework's own start and stop. Never run there."""

    first = 0

    def __init__(self) -> None:
        _c_expression._dump_set_dynamic()  # from now on nothing is dumped that is not started

    def begin(self, step: int) -> None:
        """Collect from here on, into this step."""
        _c_expression._set_init_iter(step)
        _c_expression._dump_start()

    def end(self) -> None:
        """Collect nothing from here on."""
        settle()
        mindspore.runtime.synchronize()
        _c_expression._dump_stop()


class Always:
    """Dumps that the framework does not start and stop: of whole graphs, of overflows and of exceptions."""

    first = None

    def begin(self, step: int) -> None:
        """Nothing: the settings say which iterations are dumped."""

    def end(self) -> None:
        """Nothing."""


Iterations = Parking | Switch | Always
