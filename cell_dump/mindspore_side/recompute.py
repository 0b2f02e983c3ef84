"""MindSpore's recomputation: where it begins, and how it ends early."""

from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from typing import Any

from msprobe.base.patches import Patches
from msprobe.cell_dump.recompute import first_run, plan_hooks, second_run
from msprobe.cell_dump.recorded import Current

# By its full name: `mindspore.common.recompute` as an attribute is the function.
_framework = import_module("mindspore.common.recompute")

_EarlyStop: type[BaseException] | None = getattr(_framework, "_StopRecomputationError", None)

# What the kind by hooks keeps of a first run: two names in the course of time.
_KEEPERS = ("_RecomputeHandle", "_RecomputeState")


def is_early_stop(cause: BaseException) -> bool:
    """Whether an exception is the way in which a recomputation ends when it has what it needs."""
    return _EarlyStop is not None and isinstance(cause, _EarlyStop)


def plan(current: Current, guards: Patches) -> None:
    """Plan patches of the framework's recomputation that tell the session when a second run begins and ends."""
    guards.add(_framework._RecomputeCell, "construct", partial(first_run, current))
    guards.add(_framework._RecomputeCell, "bprop", partial(second_run, current, _again))
    for name in _KEEPERS:
        if hasattr(_framework, name):
            plan_hooks(current, guards, getattr(_framework, name), _framework._RecomputationHook, _again)


def _again(session: Any, owner: Any) -> AbstractContextManager[None]:
    return session.position.second_run(owner)  # type: ignore[no-any-return]  # the session's
