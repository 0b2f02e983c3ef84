"""The collector of kernels: switches the framework's own dump, and checks at the end of the process what was dumped.

The settings are written at construction, because the framework must read them before the first graph. `open` and `shut`
only change the framework's iteration. The framework writes the files (`rank_{r}/Net/{graph}/{step}/...` below
`dump_path`), and `msprobe gather` converts them.

The framework does not report names that match no kernel, or settings that were set too late. Therefore the requested
names are compared with the kernels of the graphs at the end of the process.
"""

import atexit
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindspore.communication import GlobalComm, get_rank

from msprobe.base.checks import quoted
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.files import MAX_TABLE_BYTES, read_input
from msprobe.base.framework import AnyModel
from msprobe.base.log import log_once, logger
from msprobe.base.names import depends_on_number, unmatched, with_any_number
from msprobe.base.sections import CollectSettings
from msprobe.base.settings import Settings
from msprobe.store.layout import step_number
from msprobe.store.writer import StepFolder

from . import dump_settings, environment
from .dump_settings import NET, Machine, Plan, plan_of
from .environment import DynamicSwitch, IterationSwitch, NoSwitch, Switch
from .machine import this_machine


def rank_root(dump_path: Path, rank: int | None) -> Path:
    """Return the folder of a rank in the framework's dump; a single process is rank 0."""
    return dump_path / f"rank_{rank or 0}"


def holds_kernels(root: Path) -> bool:
    """Return whether a rank's folder contains kernels, in addition to the files that are written at compilation."""
    return (root / NET).is_dir()


def kernels_of(root: Path) -> list[str]:
    """Return the full scope names of all kernels of all compiled graphs, in the order of execution."""
    names: list[str] = []
    for file in sorted((root / "execution_order").glob("ms_execution_order_graph_*.csv")):
        names += [
            line for line in read_input(file, MAX_TABLE_BYTES).decode("utf-8", "replace").splitlines()[1:] if line
        ]
    return names


def missing_kernel_messages(root: Path, requested: tuple[str, ...], steps: set[int]) -> Iterator[str]:
    """Yield a message for each requested kernel that matched nothing, and for collected steps without kernels."""
    if not steps:
        return
    kernels = kernels_of(root)
    if not kernels:
        yield (
            f"level L2: no kernel was dumped to {root}: no graph was compiled after the debugger was constructed. "
            "Kernels of PyNative operations are not dumped: use GRAPH_MODE or @jit. Settings are read only "
            "before the first graph of a process: construct the debugger at the top of the script"
        )
        return
    unmatched_names = unmatched(requested, kernels)
    for name, near in unmatched_names.items():
        hint = f"did you mean {quoted(near)}?" if near else f"the names are in {root / 'execution_order'}"
        yield f"level L2: {quoted(name)} in list did not match any kernel; {hint}"
    if len(unmatched_names) < len(requested) or not requested:
        written = {each.name for each in (root / NET).glob("*/*")}
        if empty := sorted(step for step in steps if str(step) not in written):
            numbered = next((kernel for name in requested for kernel in kernels if depends_on_number(name, kernel)), "")
            other = (
                f", or with other numbers; {quoted(with_any_number(numbered))} selects all of them" if numbered else ""
            )
            yield (
                f"level L2: nothing was dumped in step {', '.join(map(str, empty))}: no graph with the selected "
                f"kernels ran between start() and stop(){other}"
            )


class KernelDump:
    """Collector that has the framework dump the kernels of the steps between `open` and `shut`.

    SettingsError and UsageError if the framework cannot make the dump, for example because a graph is already compiled.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._steps: set[int] = set()
        self._open = self._in_step = False
        self._root: Path | None = None
        self._is_fresh = False
        machine = this_machine()
        self._switch: Switch | None = None
        if dump_settings.captures_one_api(settings, machine):
            log_once(
                "api capture",
                f"level L2: capturing the kernels of {dump_settings.requested_api(settings)} is not supported "
                "beyond generating its settings: this version cannot enable the dump of the Ascend runtime; the "
                "settings are written at each step",
            )
            return
        plan = plan_of(settings, machine)
        for note in plan.notes:
            log_once(f"kernel dump {note}", note)
        self._switch = self._begin(plan, machine)
        atexit.register(self._finish)

    @property
    def is_interrupted(self) -> bool:
        """Return False: the framework writes the dump, and an interrupt of Python does not end it."""
        return False

    def interrupted(self, cause: str) -> None:
        """Do nothing: the framework writes the dump."""

    def recover(self) -> None:
        """Do nothing: `open` and `shut` leave nothing in place."""

    def _begin(self, plan: Plan, machine: Machine) -> Switch:
        if machine.whole_graph and os.environ.get("GRAPH_OP_RUN") == "1":
            raise UsageError(
                "level L2 at jit_level O2: Must run in graph mode, not kbk mode; "
                "unset GRAPH_OP_RUN, or use jit_level O0"
            )
        folder = self._settings.dump_path
        environment.check(folder)
        rank = _rank_before_communication()
        if rank is not None and _was_written(earlier := rank_root(folder, rank)):
            raise _earlier_run_error(earlier)
        self._is_fresh = rank is not None
        file = folder / plan.file
        try:
            self._write(file, plan)
        except OSError as err:
            why = err.strerror or err
            raise UsageError(
                f"PrecisionDebugger: {file} cannot be written: {why}; free some space, or choose another dump_path"
            ) from err
        restore = environment.set_variables(file, plan.acl)
        switch = _switch(plan, machine)
        if switch.first_iteration is not None:
            try:
                environment.load_settings(switch.first_iteration)
            except SettingsError:
                restore()
                raise
        logger.info("the framework dumps kernels by the settings in %s; read them with msprobe gather", file)
        return switch

    def _write(self, file: Path, plan: Plan) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.{os.getpid()}")  # ranks write the same text to the same place
        temporary.write_text(json.dumps({**plan.contents, "msprobe": self._settings.described()}, indent=2))
        temporary.replace(file)

    @property
    def is_open(self) -> bool:
        """Return whether kernels are being dumped."""
        return self._open

    @property
    def in_step(self) -> bool:
        """Return whether a step has begun and is not finished."""
        return self._in_step

    @property
    def has_model(self) -> bool:
        """Return True: kernels are dumped independent of the network."""
        return True

    def check(self, model: AnyModel, token_range: Any = None) -> None:
        """Raise UsageError if `token_range` is given; the model is ignored."""
        if token_range is not None:
            raise UsageError("start(): token_range is not available at level L2; omit it")

    def open(self, model: AnyModel, step_folder: StepFolder, token_range: Any = None) -> None:
        """Start dumping, into the iteration with the number of the step."""
        step = step_number(step_folder.folder.parent.name)
        assert step is not None, "the folder of a step"
        rank = int(get_rank()) if GlobalComm.INITED else None  # the framework's, not the argument of `start`
        if self._switch is None:
            self._open = self._in_step = True
            dump_settings.write_api_capture(self._settings.dump_path, step, rank)
            return
        root = rank_root(self._settings.dump_path, rank)
        if self._by_step and not self._is_fresh and holds_kernels(root):  # The rank is known only now.
            raise _earlier_run_error(root)
        self._is_fresh = True
        self._open = self._in_step = True
        self._root = root
        self._steps.add(step)
        self._switch.begin(step)

    def shut(self) -> None:
        """Stop dumping, after waiting for queued operations."""
        if self._open and self._switch is not None:
            self._switch.end()
        self._open = False

    def end_step(self) -> None:
        """End the step."""
        self.shut()
        self._in_step = False

    @property
    def _by_step(self) -> bool:
        return not isinstance(self._switch, NoSwitch)

    def _finish(self) -> None:
        self.end_step()
        section = self._settings.section
        if self._by_step and self._root is not None and isinstance(section, CollectSettings):
            for message in missing_kernel_messages(self._root, section.patterns, self._steps):
                logger.warning(message)


def _was_written(root: Path) -> bool:
    """Return whether the framework has written to a rank's folder, in this run or an earlier one."""
    return holds_kernels(root) or (root / "execution_order").is_dir()


def _earlier_run_error(root: Path) -> UsageError:
    return UsageError(
        f"PrecisionDebugger: {root} contains kernels of an earlier run, which the framework would mix with new "
        "ones; move the folder, or choose another dump_path"
    )


def _switch(plan: Plan, machine: Machine) -> Switch:
    if not plan.by_step:
        return NoSwitch()
    return IterationSwitch() if machine.device == "CPU" else DynamicSwitch()


def _rank_before_communication() -> int | None:
    """Return the rank of this process, by its launcher if communication is not initialized; None if unknown."""
    if GlobalComm.INITED:
        return int(get_rank())
    number = os.environ.get("RANK_ID") or os.environ.get("OMPI_COMM_WORLD_RANK") or ""
    if number.isdigit():
        return int(number)
    return None if "MS_ROLE" in os.environ else 0
