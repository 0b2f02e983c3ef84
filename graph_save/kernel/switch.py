"""Kernel dump as the debugger drives it: the doors of `cell_dump.collector.Collector`, behind them the framework.

Everything is settled when it is constructed, for then the framework must read its settings. `open` and `shut` only move
the framework's iteration. The framework writes the files (`rank_{r}/Net/{graph}/{step}/...` below `dump_path`), and
`msprobe gather` makes a dump of ours of them.
"""

import atexit
import json
import os
from pathlib import Path
from typing import Any

from mindspore.communication import GlobalComm, get_rank

from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.log import logger, once
from msprobe.base.sections import CollectSettings
from msprobe.base.settings import Settings
from msprobe.store.home import Home
from msprobe.store.layout import step_number

from . import api_capture, arrival, environment
from .dump_settings import Plan
from .iterations import Always, Iterations, Parking, Switch
from .machine import Machine, this_machine
from .route import plan_of


class KernelDump:
    """Has the framework dump the kernels of the steps between `open` and `shut`.

    SettingsError and UsageError where the framework would not, among them that it is too late in this process.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._steps: set[int] = set()
        self._open = self._in_step = False
        self._root: Path | None = None
        self._is_fresh = False
        machine = this_machine()
        self._iterations: Iterations | None = None
        if api_capture.serves(settings, machine):
            once(
                "api capture",
                f"level L2: the capture of the kernels of {api_capture.asked_api(settings)} ends at its door: this "
                "version cannot switch the dump of the Ascend runtime on; its settings are written at each step",
            )
            return
        plan = plan_of(settings, machine)
        for note in plan.notes:
            once(f"kernel dump {note}", note)
        self._iterations = self._begin(plan, machine)
        atexit.register(self._finish)

    def _begin(self, plan: Plan, machine: Machine) -> Iterations:
        if machine.whole_graph and os.environ.get("GRAPH_OP_RUN") == "1":
            raise UsageError(
                "level L2 at jit_level O2: Must run in graph mode, not kbk mode; "
                "unset GRAPH_OP_RUN, or use jit_level O0"
            )
        folder = self._settings.dump_path
        environment.check(folder)
        rank = _rank_so_far()
        if rank is not None and arrival.was_written(earlier := arrival.rank_root(folder, rank)):
            raise _of_an_earlier_run(earlier)
        self._is_fresh = rank is not None
        file = folder / plan.file
        try:
            self._write(file, plan)
        except OSError as err:
            why = err.strerror or err
            raise UsageError(
                f"PrecisionDebugger: {file} cannot be written: {why}; free some space, or choose another dump_path"
            ) from err
        take_back = environment.tell(file, plan.acl)
        iterations = _iterations(plan, machine)
        if iterations.first is not None:
            try:
                environment.read_now(iterations.first)
            except SettingsError:
                take_back()
                raise
        logger.info("kernels are dumped by the framework as %s says; msprobe gather reads them", file)
        return iterations

    def _write(self, file: Path, plan: Plan) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f"{file.name}.{os.getpid()}")  # ranks write the same text to the same place
        beside.write_text(json.dumps({**plan.contents, "msprobe": self._settings.described()}, indent=2))
        beside.replace(file)

    @property
    def is_open(self) -> bool:
        """Whether kernels are being dumped."""
        return self._open

    @property
    def in_step(self) -> bool:
        """Whether a step has begun and is not finished."""
        return self._in_step

    @property
    def has_model(self) -> bool:
        """Always: kernels are dumped whatever network runs them."""
        return True

    def check(self, model: Any, token_range: Any = None) -> None:
        """Refuse what cannot be collected at this level; any model is accepted, and none is needed."""
        if token_range is not None:
            raise UsageError("start(): token_range is not known at level L2; leave it out")

    def open(self, model: Any, home: Home, token_range: Any = None) -> None:
        """Dump from here on, into the iteration that has the number of the step."""
        step = step_number(home.folder.parent.name)
        assert step is not None, "the folder of a step"
        rank = int(get_rank()) if GlobalComm.INITED else None  # the framework's own, whatever `start` was told
        if self._iterations is None:
            self._open = self._in_step = True
            api_capture.write(self._settings.dump_path, step, rank)
            return
        root = arrival.rank_root(self._settings.dump_path, rank)
        if self._by_step and not self._is_fresh and arrival.holds_kernels(root):  # the rank is known now
            raise _of_an_earlier_run(root)
        self._is_fresh = True
        self._open = self._in_step = True
        self._root = root
        self._steps.add(step)
        self._iterations.begin(step)

    def shut(self) -> None:
        """Dump nothing from here on. Waits for what was asked for before."""
        if self._open and self._iterations is not None:
            self._iterations.end()
        self._open = False

    def end_step(self) -> None:
        """End the step."""
        self.shut()
        self._in_step = False

    @property
    def _by_step(self) -> bool:
        return not isinstance(self._iterations, Always)

    def _finish(self) -> None:
        self.end_step()
        section = self._settings.section
        if self._by_step and self._root is not None and isinstance(section, CollectSettings):
            for complaint in arrival.complaints(self._root, section.patterns, self._steps):
                logger.warning(complaint)


def _of_an_earlier_run(root: Path) -> UsageError:
    return UsageError(
        f"PrecisionDebugger: {root} holds kernels of an earlier run, and the framework would write among them; "
        "move it away, or choose another dump_path"
    )


def _iterations(plan: Plan, machine: Machine) -> Iterations:
    if not plan.by_step:
        return Always()
    return Parking() if machine.device == "CPU" else Switch()


def _rank_so_far() -> int | None:
    """This process's rank before communication is initialised: what its launcher says; None where that is not told."""
    if GlobalComm.INITED:
        return int(get_rank())
    said = os.environ.get("RANK_ID") or os.environ.get("OMPI_COMM_WORLD_RANK") or ""
    if said.isdigit():
        return int(said)
    return None if "MS_ROLE" in os.environ else 0
