"""Counts what a debugger has collected, and logs a message at the end of a run that collected nothing.

Without the message the user notices an empty dump_path only after the run.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from .checks import quoted
from .log import log_once
from .scope import compact_ranges
from .settings import Settings, scope_of


@dataclass
class Tally:
    """Requests to collect so far, and their results.

    starts : first and last step in which `start`, or `save` at level debug, was called.
    fits_step : whether one of these steps is collected.
    fits_rank : whether a process of this run has a rank that is collected.
    opened : whether a dump was begun.
    any : whether a dump contains a call.
    pid : process id; forked children are not counted.
    """

    starts: tuple[int, int] | None = None
    fits_step: bool = False
    fits_rank: bool = True
    opened: bool = False
    any: bool = False
    pid: int = field(default_factory=os.getpid)

    def start(self, settings: Settings, step: int, processes: int) -> None:
        """Record that `start` or `save` is called in a step; `processes` is the number of processes, or 0."""
        self.starts = (self.starts[0] if self.starts else step, step)
        self.fits_step |= settings.collects_step(step)
        if processes and settings.rank:
            self.fits_rank = settings.rank[0] < processes

    def is_empty(self, level: str) -> bool:
        """Return whether nothing was collected. Kernel dumps, written by the framework, count when they are begun."""
        return not (self.opened if level == "L2" else self.any)


def log_nothing_collected(family: Sequence[tuple[Settings, Tally]], steps: int) -> bool:
    """Log once why nothing was collected in a run of `steps` steps; return whether something was logged.

    `family` is a debugger and its stages. Those that were started are checked, or the debugger if none was. Nothing is
    logged for a process that neither started nor ended a step, such as one that only imports the training, or whose
    rank is not collected.
    """
    is_logged = False
    for settings, tally in [each for each in family if each[1].starts] or family[:1]:
        is_own_process = os.getpid() == tally.pid and bool(tally.starts or steps)
        if is_own_process and tally.is_empty(settings.level) and (why := _why(settings, tally, steps)):
            log_once(f"nothing in {settings.dump_path}", f"nothing was collected in {settings.dump_path}: {why}")
            is_logged = True
    return is_logged


def _why(settings: Settings, tally: Tally, steps: int) -> str:
    call = "save()" if settings.level == "debug" else "start()"
    if settings.task == "grad_probe":
        call = "the monitored optimizer"
    if tally.starts is None and settings.task == "grad_probe":
        return "no optimizer was called after monitor(); call debugger.monitor(optimizer) right after constructing it"
    if tally.starts is None:
        also = "; use start() for other levels" if settings.level == "debug" else ""
        return f"{call} was never called; call it in every step, before step(){also}"
    if not tally.fits_step:
        first, last = tally.starts
        seen = f"the steps {first} to {last}" if last > first else f"step {first}"
        hint = (
            ""
            if steps or settings.task == "grad_probe"
            else "; step() was never called: call it at the end of each step"
        )
        wanted = quoted(compact_ranges(settings.step))
        return f'"step" is {wanted}, but {call} was called only in {seen}{hint}; choose one of these steps'
    if not tally.fits_rank:
        return (
            f'"rank" is {quoted(compact_ranges(settings.rank))}, but no process of this run has such a rank; choose an '
            "existing rank, or []"
        )
    if not tally.opened or settings.level == "L2":
        return ""  # the rank is not collected, or writing failed, which was logged
    if not scope_of(settings).trivial:
        section = settings.section
        chosen = {"list": getattr(section, "patterns", ()), "scope": getattr(section, "scope", ())}
        named = " and ".join(f'"{key}" {quoted(list(value))}' for key, value in chosen.items() if value)
        return f"{named} did not match any call; collect a step without it, and use the names from its dump.json"
    return (
        "no call was recorded between start() and stop(); pass the trained model to start(), and call start() in "
        "the training thread before the forward pass"
    )
