"""What a debugger has collected, and a message at the end of a run that collected nothing.

Such a run looks like any other until somebody opens its dump_path, and then it has to be run again.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from .checks import shown
from .log import once
from .scope import compact
from .settings import Settings, scope_of


@dataclass
class Tally:
    """What a debugger was asked to collect so far, and what of it is on the disk.

    `starts` are the first and the last step in which `start`, or `save` at level debug, was called. `fits_step`: one of
    them is a step to collect. `fits_rank`: this rank, or that of another process, is collected. `opened`: a dump was
    begun; `any`: something is in one. Forked children have none of their own.
    """

    starts: tuple[int, int] | None = None
    fits_step: bool = False
    fits_rank: bool = True
    opened: bool = False
    any: bool = False
    pid: int = field(default_factory=os.getpid)

    def start(self, settings: Settings, step: int, processes: int) -> None:
        """Record that `start` or `save` is called in a step; `processes` is their number, 0 where it is not needed."""
        self.starts = (self.starts[0] if self.starts else step, step)
        self.fits_step |= settings.collects_step(step)
        if processes and settings.rank:
            self.fits_rank = settings.rank[0] < processes

    def is_empty(self, level: str) -> bool:
        """Whether nothing was collected. Kernels are written by the framework: a dump that was begun counts."""
        return not (self.opened if level == "L2" else self.any)


def log_nothing_collected(family: Sequence[tuple[Settings, Tally]], steps: int) -> bool:
    """Log once why nothing was collected in a run of so many steps; returns whether something was logged.

    `family` are a debugger, which is the first, and its stages: those that were started are checked, or the debugger if
    none was. Nothing is logged for a process that neither started nor ended a step, such as one that only imports the
    training, nor for one whose rank is not to be collected.
    """
    is_logged = False
    for settings, tally in [each for each in family if each[1].starts] or family[:1]:
        is_own_process = os.getpid() == tally.pid and bool(tally.starts or steps)
        if is_own_process and tally.is_empty(settings.level) and (why := _why(settings, tally, steps)):
            once(f"nothing in {settings.dump_path}", f"nothing was collected in {settings.dump_path}: {why}")
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
        wanted = shown(compact(settings.step))
        return f'"step" is {wanted}, but {call} was called only in {seen}{hint}; choose one of these steps'
    if not tally.fits_rank:
        return (
            f'"rank" is {shown(compact(settings.rank))}, but no process of this run has such a rank; choose an '
            "existing rank, or []"
        )
    if not tally.opened or settings.level == "L2":
        return ""  # the rank is not to be collected, or the disk refused, which was logged
    if not scope_of(settings).trivial:
        section = settings.section
        chosen = {"list": getattr(section, "patterns", ()), "scope": getattr(section, "scope", ())}
        named = " and ".join(f'"{key}" {shown(list(value))}' for key, value in chosen.items() if value)
        return f"{named} did not match any call; collect a step without it, and use the names from its dump.json"
    return (
        "no call was recorded between start() and stop(); pass the trained model to start(), and call start() in "
        "the training thread before the forward pass"
    )
