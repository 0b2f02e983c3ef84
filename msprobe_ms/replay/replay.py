"""One recorded call executed again in float64, and the residual of what was recorded.

`replay(dump, number)` needs a dump of task `tensor`; torch is imported when the first call is replayed. It is
deterministic, and raises nothing: whatever stands in the way is a `NotReplayed`.
"""

import warnings
from collections.abc import Callable

from msprobe.store.record import Dump

from .plan import plan_of
from .recorded import CannotReplay, RecordedCall, call_of
from .result import Cause, NotReplayed, Replayed

__all__ = ["answered", "replay"]


def replay(dump: Dump, at: int) -> Replayed | NotReplayed:
    """The residuals of the call at a place of a dump's `calls`, forward or backward; or why there are none."""
    return answered(lambda: call_of(dump, at))


def answered(called: Callable[[], RecordedCall]) -> Replayed | NotReplayed:
    """The residuals of a call; `called` puts it together, and raises CannotReplay where that is not possible."""
    try:
        call = called()
        plan = plan_of(call)
        try:
            from .reference.compute import computed  # here: it imports torch
        except ModuleNotFoundError as err:
            if err.name != "torch":
                raise
            return NotReplayed(Cause.NO_TORCH)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return computed(call, plan)
    except CannotReplay as err:
        return err.answer
    except Exception as err:  # a foreign dump may hold any arguments, and torch raises what it likes
        return NotReplayed(Cause.FAILED, type(err).__name__)
