"""The calls between `start` and `stop`: each is run a second time in addition to the training's own run, and compared.

Errors in this module are logged once per API and cause, and never reach the training.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.errors import reason
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once, logger
from msprobe.base.nested import tree_of
from msprobe.base.phrase import Phrase, phrase
from msprobe.base.tally import Tally
from msprobe.cell_dump.forward import outcome, results_of
from msprobe.findings.catalogue.single_calls import INCONSISTENT
from msprobe.frameworks.interface import Refused
from msprobe.frameworks.registry import Framework
from msprobe.store.free_benchmark import TABLE, Row, append

from .comparison import relative
from .finding import Cause, Mode, Place, Skipped, Stage, Summary
from .places import Places
from .ranking import Line, ranked
from .second_run import Compared, SecondRun, SecondRuns

_USUAL = (Cause.NO_TENSOR, Cause.NOTHING_TO_RAISE, Cause.ON_CPU)
_UNSUPPORTED = (Cause.NO_INPUT, Cause.NO_GRADIENT)

_SKIPPED = {
    Cause.NO_TENSOR: "has no tensor among its arguments",
    Cause.NO_INPUT: "has no supported input type",
    Cause.EMPTY: "has an input without elements",
    Cause.TOO_SMALL: "has an input smaller than the noise",
    Cause.TOO_FEW: "has an input with fewer than two elements, which cannot be permuted",
    Cause.FORMAT: "has an input of a dtype that this pert_mode does not apply to",
    Cause.NOTHING_TO_RAISE: "already computes in float32 or float64",
    Cause.ON_CPU: "already has all tensors on the CPU",
    Cause.RANDOM: "draws random numbers",
    Cause.CODE: "has a function argument, which would be run twice",
    Cause.FOREIGN: "has a tensor in a container or of a class that cannot be copied",
    Cause.TRANSFORM: "is run by a transform of functions, such as vmap",
    Cause.NO_DATA: "has a tensor without data",
    Cause.NO_GRADIENT: "has no gradient between any input and output",
    Cause.IN_PLACE: "returns or modifies its own argument, which a fix cannot replace",
}
"""Why a call is not run a second time, for the log."""


@dataclass(frozen=True)
class Where:
    """The open step: the folder of its rows, its number, the rank, and the record of whether there was anything."""

    root: Path
    step: int
    rank: int | None
    tally: Tally | None


@dataclass(frozen=True)
class _Call:
    """A call that is running."""

    name: str
    stem: str
    place: Place


class Session:
    """Implements the recorder of `wrappers.recorded`; one for a debugger, over all steps."""

    def __init__(self, framework: Framework, mode: Mode, stage: Stage, fixes: bool) -> None:
        self.mode, self.stage, self._fixes = mode, stage, fixes
        self._gradients, self._wait_for = framework.gradients, framework.collecting.settle
        self.on = self.busy = False
        self.where: Where | None = None
        self._runs = SecondRuns(framework, mode, stage, outcome)
        self._places = Places()
        self._lines: dict[tuple[str, Place], Line] = {}
        self._numbers: Counter[str] = Counter()
        self._steps: set[int] = set()
        self._counts: Counter[str] = Counter()
        self._skipped: Counter[Cause] = Counter()
        self._thread = threading.get_ident()

    # ---- between start and stop ------------------------------------------------------------------------------------

    def resume(self, where: Where) -> None:
        """Begin to run the calls of this thread a second time."""
        self.where, self._thread, self.busy, self.on = where, threading.get_ident(), False, True
        self._steps.add(where.step)

    def pause(self) -> None:
        """Stop running calls a second time."""
        self.on = False

    def end_step(self) -> None:
        """Start the numbering again."""
        self.on, self.where = False, None
        self._numbers.clear()

    def listens(self) -> bool:
        """Return whether a call is to be run a second time: not inside another run, and not in another thread."""
        return self.on and not self.busy and threading.get_ident() == self._thread

    def waited(self, handle: Any) -> None:
        """Do nothing: exchanges between ranks are not run a second time."""

    # ---- a call ----------------------------------------------------------------------------------------------------

    def call_api(self, stem: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an API for the training, and a second time for us. What it returns or raises is passed on untouched.

        A fix is the one exception: the result is that of the second run.
        """
        grad_mode = self._gradients.mode()
        self.busy = True
        try:
            tree = self._guarded(tree_of, [*args, *kwargs.values()] if kwargs else args)
            if tree is not None:
                self._wait_for(tree.tensors)  # outside of every guard, because errors of the training must reach it
            if self.where is not None and self.where.tally is not None:
                self.where.tally.any = True
            number = self._numbers[stem]
            self._numbers[stem] += 1
            call = _Call(f"{stem}.{number}", stem, self._places.of_caller())
            work = self._fix if self._fixes else self._check
            result = work(call, function, args, kwargs)
            if self._guarded(lambda: not tree_of(results_of(outcome(args, result))).tensors):
                self._numbers[stem] -= 1  # it does not compute on tensors, and is ignored as in a dump
            return result
        except BaseException:  # an interrupt may have ended the second run with gradients off
            self._gradients.set_mode(grad_mode)
            raise
        finally:
            self.busy = False

    call_collective = call_api

    def _check(self, call: _Call, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        second = self._attempt(call, self._runs.before, function, args, kwargs)
        result = function(*args, **kwargs)
        if second is not None:
            self._settle(args, result)
            compared = self._attempt(call, self._runs.after, second, outcome(args, result))
            if compared is not None:
                self._guarded(self._record, call, second, compared)
        return result

    def _fix(self, call: _Call, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before = self._attempt(call, self._runs.generators, args, kwargs)
        result = function(*args, **kwargs)
        if before is None:
            return result
        self._settle(args, result)
        fixed = self._attempt(call, self._runs.fixed, function, args, kwargs, outcome(args, result), before)
        if fixed is None:
            return result
        self._counts["fixed"] += 1
        return fixed

    def _settle(self, args: tuple[Any, ...], result: Any) -> None:
        tree = self._guarded(tree_of, results_of(outcome(args, result)))
        if tree is not None:
            self._wait_for(tree.tensors)  # outside of every guard, as above

    def _attempt(self, call: _Call, work: Callable[..., Any], *args: Any) -> Any:
        """Return the result of `work`; None if the call is skipped or this tool fails."""
        try:
            return work(*args)
        except (Skipped, Refused) as skip:
            cause = skip.cause if isinstance(skip, Skipped) else Cause[skip.reason.name]
            self._skipped[cause] += 1
            if cause not in _USUAL:
                level = logging.WARNING if cause in _UNSUPPORTED else logging.INFO
                log_once(
                    f"free_benchmark {call.stem} {cause}",
                    f"{call.name} {_SKIPPED[cause]}; it is not run a second time",
                    level,
                )
        except Exception as error:  # a failure of the debugger does not stop the training
            if must_propagate(error):
                raise
            self._skipped[Cause.FAILED] += 1
            log_once(f"free_benchmark {call.stem} {type(error).__name__}", second_run_failed(call.name, error))
        return None

    def _guarded(self, work: Callable[..., Any], *args: Any) -> Any:
        try:
            return work(*args)
        except Exception as cause:  # a failure of the debugger does not stop the training
            if must_propagate(cause):
                raise
            log_once(f"free_benchmark {reason(cause)}", f"free_benchmark: {reason(cause)}; the training continues")
            return None

    def _record(self, call: _Call, second: SecondRun, compared: tuple[Compared, ...]) -> None:
        where = self.where
        if where is None:
            return
        self._counts["compared"] += 1
        line = self._lines.get((call.stem, call.place))
        if line is None:
            line = self._lines[call.stem, call.place] = Line(call.stem, call.place)
        line.calls += 1
        found = [each.found for each in compared]
        line.non_finite += sum(each.non_finite for each in found)
        if second.input_change > 0 and compared:
            change = relative(sum(each.change for each in found), sum(each.size for each in found))
            line.add(call.name, where.step, change / second.input_change)
        rows = [self._row(call, where, each) for each in compared if each.max_rel is not None]
        if not rows:
            return
        is_first = not line.inconsistent
        line.inconsistent += len(rows)
        line.max_rel = max(line.max_rel, *(row.max_rel for row in rows))
        self._counts["inconsistent"] += len(rows)
        if is_first:
            logger.error(str(_inconsistent(rows[0], call.place)))
        try:
            append(where.root, rows)
        except OSError as cause:
            log_once(f"free_benchmark {cause.strerror}", lost_rows(where.root / TABLE, cause))

    def _row(self, call: _Call, where: Where, each: Compared) -> Row:
        assert each.max_rel is not None
        return Row(
            *(where.rank, self.mode.value, self.stage.value, where.step, call.name, each.max_rel),
            *(each.dtype, each.shape, each.place),
        )

    # ---- what was found --------------------------------------------------------------------------------------------

    def summary(self) -> Summary:
        """Return the summary so far."""
        return Summary(
            rank=self.where.rank if self.where else None,
            mode=self.mode,
            stage=self.stage,
            steps=tuple(sorted(self._steps)),
            compared=self._counts["compared"],
            inconsistent=self._counts["inconsistent"],
            fixed=self._counts["fixed"],
            skipped=tuple(sorted(self._skipped.items(), key=lambda each: each[0].value)),
            sensitivities=ranked(self._lines.values()),
        )


def _inconsistent(row: Row, place: Place) -> Phrase:
    """Return the message about an output that changed too much; it is logged once per API and line."""
    return INCONSISTENT.sentence(
        api=row.api,
        code=INCONSISTENT.code,
        max_rel=row.max_rel,
        mode=row.mode,
        stage=row.stage,
        step=row.step,
        place=phrase(" at {place}", place=place) if place.file else "",
        table=TABLE,
    )


def second_run_failed(name: str, cause: Exception) -> str:
    """Return the message about a second run, or its comparison, that raised an exception."""
    return (
        f"free_benchmark: the second run of {name} failed: {reason(cause)}; the training continues with the original "
        "result"
    )


def lost_rows(path: object, cause: Exception) -> str:
    """Return the message about a table that could not be written."""
    why = getattr(cause, "strerror", None) or reason(cause)
    return f"free_benchmark: {path} cannot be written: {why}; the training continues, and the rows are lost"
