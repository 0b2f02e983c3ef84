"""The probe of one debugger: the optimizers that it watches, and the files of their steps.

It is the debugger's collector for the task `grad_probe`. It does not stop or change the training: a failure is
logged once, and that row or step is omitted.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.checks import quoted
from msprobe.base.errors import UsageError, reason
from msprobe.base.framework import AnyModel, AnyOptimizer
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import join_names, log_once, logger
from msprobe.base.sections import GradProbeSettings
from msprobe.base.settings import Settings
from msprobe.base.statistic import Array
from msprobe.store.monitor.gradient_files import (
    merged,
    rank_folder,
    read_summary,
    summary_path,
    write_direction,
    write_summary,
)

from .gradient import Cell, header, positive, row


@dataclass(frozen=True)
class Destination:
    """The output of a probe: the folder of tables, the rank, and the number of the first step."""

    root: Callable[[], Path]
    rank: Callable[[], int]
    first_step: Callable[[], int]
    counted: Callable[[int, bool], None]
    """Called with the step of each update, and whether its table was written."""


class Watch:
    """The updates of one optimizer: `begin`, `take` of each gradient, `end`. None of them raises."""

    def __init__(self, probe: "GradProbe", prefix: str) -> None:
        self._probe, self._prefix = probe, prefix
        self._first, self._updates, self._step = -1, 0, 0
        self._folder: Path | None = None
        self._rows: list[list[Cell]] = []

    def wants(self, name: str) -> bool:
        """Return whether the gradient of a parameter is to be taken."""
        chosen = self._probe.section.param_list
        return not chosen or name in chosen

    def begin(self) -> bool:
        """Begin an update; return whether this step and rank are collected."""
        first = self._probe.destination.first_step()
        if first != self._first:  # the steps are counted again
            self._first, self._updates = first, 0
        self._step, self._updates = first + self._updates, self._updates + 1
        self._folder, self._rows = None, []
        settings = self._probe.settings
        try:
            rank = self._probe.destination.rank()
            self._probe.destination.counted(self._step, False)
            if settings.collects_step(self._step) and settings.collects_rank(rank):
                self._folder = rank_folder(self._probe.destination.root(), rank)
        except Exception as cause:  # a failure of the debugger does not stop the training
            if must_propagate(cause):
                raise
            self._lost(f"the table of step {self._step} cannot be created", cause)
        return self._folder is not None

    def take(self, name: str, array: Callable[[], Array]) -> None:
        """Record the gradient of a parameter; `array` gives its elements, which are not kept."""
        if self._folder is None:
            return
        section, name = self._probe.section, f"{self._prefix}{name}"
        try:
            gradient = array()
            cells = row(section, name, gradient)
            if section.grad_level != "L0":
                write_direction(self._folder, self._step, name, positive(gradient))
            self._rows.append(cells)
        except OSError as cause:  # no table: it would promise files that are not there
            self._folder = None
            self._lost(f"step {self._step}", cause)
        except Exception as cause:  # a failure of the debugger does not stop the training
            if must_propagate(cause):
                raise
            self._lost(f"the gradient of {name}", cause)

    def end(self) -> None:
        """End an update, whose gradients were all taken."""
        folder, self._folder = self._folder, None
        if folder is None:
            return
        rows, self._rows = self._rows, []
        try:
            self._probe.write(folder, self._step, rows)
            self._probe.destination.counted(self._step, True)
        except Exception as cause:  # a failure of the debugger does not stop the training
            if must_propagate(cause):
                raise
            self._lost(f"the table of step {self._step}", cause)

    def _lost(self, what: str, cause: Exception) -> None:
        kind = cause.strerror if isinstance(cause, OSError) else reason(cause)  # without the path, which has the step
        log_once(f"grad_probe {kind}", f"grad_probe: {what} is lost: {reason(cause)}; the training continues")


class GradProbe:
    """The collector of a debugger with the task `grad_probe`; `start`, `stop` and `step` collect nothing by it."""

    is_open = in_step = is_interrupted = False

    def __init__(self, settings: Settings, attach: "Callable[[Any, GradProbe], None]") -> None:
        """Create a probe; `attach` reports gradients of an optimizer to its watches and raises NotAnOptimizerError."""
        assert isinstance(settings.section, GradProbeSettings)
        self.settings, self.section = settings, settings.section
        self._attach = attach
        self._optimizers: list[Any] = []
        self._finishers: list[Callable[[], None]] = []
        self._watches = 0
        self._names: Counter[str] = Counter()
        self.destination: Destination

    def monitor(self, optimizer: AnyOptimizer, destination: Destination) -> None:
        """Watch an optimizer from its next call on."""
        self.destination = destination
        if any(each is optimizer for each in self._optimizers):
            log_once(
                f"monitored twice {id(optimizer)}",
                "monitor(): this optimizer is already monitored; the call has no effect",
            )
            return
        self._attach(optimizer, self)
        self._optimizers.append(optimizer)
        try:
            root = destination.root()
        except OSError as cause:
            where = self.settings.dump_path
            raise UsageError(
                f"monitor(): {where} cannot be written: {cause.strerror or cause}; free some space, or choose another "
                "dump_path"
            ) from cause
        logger.info("grad_probe: gradients will be saved in %s", root)

    def watch(self, names: list[str]) -> Watch:
        """Return the watch of one more optimizer, whose parameters have these names.

        Where another optimizer of this probe has one of the names, all of these get a prefix in the files.
        """
        self._watches += 1
        prefix = ""
        if any(self._names[name] for name in names):
            prefix = f"optimizer{self._watches}."
            logger.warning(
                "monitor(): the name %s is also used by another optimizer; the parameters of this one are named %s...",
                join_names(name for name in names if self._names[name]),
                prefix,
            )
        self._names.update(names)
        unknown = [name for name in self.section.param_list if name not in names]
        if len(unknown) == len(self.section.param_list) > 0:
            logger.warning(
                "monitor(): no name in grad_probe.param_list (%s) is a parameter of this optimizer, which has %s",
                quoted(list(self.section.param_list)),
                join_names(names, 5),
            )
        elif unknown:
            logger.warning("monitor(): grad_probe.param_list: this optimizer does not have %s", join_names(unknown, 5))
        return Watch(self, prefix)

    def write(self, folder: Path, step: int, rows: list[list[Cell]]) -> None:
        """Write the table of a step; rows of other optimizers that are in it stay."""
        path, known = summary_path(folder, step), dict[str, list[str]]()
        if self._watches > 1 and path.exists():
            known = {each[0]: each for each in read_summary(path)[1]}
        write_summary(folder, step, header(self.section), merged(known, rows))

    def at_stop(self, finish: Callable[[], None]) -> None:
        """Call a function when the debugger is stopped, and at the end of the process."""
        self._finishers.append(finish)

    def remind(self) -> None:
        """Log once, at the end of a training step, that no optimizer is watched."""
        if not self._optimizers:
            what = f"no optimizer {self.settings.dump_path}"
            log_once(
                what,
                'task "grad_probe" does not record anything yet: call debugger.monitor(optimizer) after constructing '
                "the optimizer",
            )

    # ---- the interface of collectors ---------------------------------------------------------------------

    @property
    def has_model(self) -> bool:
        """Return whether an optimizer is watched."""
        return bool(self._optimizers)

    def check(self, model: AnyModel, token_range: Any = None) -> None:
        """Do nothing: a model is not needed."""

    def open(self, model: AnyModel, folder_of: Any, token_range: Any = None) -> None:
        """Do nothing: optimizers report their updates."""

    def expect(self, model: AnyModel) -> None:
        """Do nothing: this task compiles nothing."""

    def yield_step(self) -> None:
        """Do nothing: no state is shared with other debuggers."""

    def interrupted(self, cause: str) -> None:
        """Do nothing: there is no dump of the step."""

    def recover(self) -> None:
        """Do nothing: `open` replaces nothing."""

    def shut(self) -> None:
        """Finish the files of the updates so far."""
        for finish in self._finishers:
            finish()

    def end_step(self) -> None:
        """Do nothing: steps are counted by the calls of the optimizer."""
        self.shut()
