"""The collector of a debugger with the task `free_benchmark`: it has the chosen APIs replaced while it is open.

With `check` the training is not changed. With `fix` calls are computed in float32, or on the CPU.
"""

from functools import partial
from typing import Any

from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.framework import AnyModel, check_model, roots_of
from msprobe.base.interrupts import must_propagate, uninterrupted
from msprobe.base.log import log_once, logger
from msprobe.base.patches import Patches
from msprobe.base.sections import FreeBenchmarkSettings
from msprobe.base.settings import Settings
from msprobe.base.version import tool
from msprobe.cell_dump.wrappers import Recorder
from msprobe.frameworks.registry import Framework
from msprobe.store.free_benchmark import summary_path, write_summary
from msprobe.store.writer import StepFolder

from .apis import calls_of, chosen
from .described import described
from .finding import Mode, Place, Stage
from .ranking import MAX_LOGGED, logged
from .session import Session, Where, lost_rows, second_run_failed


class Perturber:
    """Runs calls a second time; the methods are those of `Collecting`.

    SettingsError for an API that is unknown, or a stage or mode that the framework does not have.
    """

    def __init__(self, settings: Settings, framework: Framework) -> None:
        section = settings.section
        assert isinstance(section, FreeBenchmarkSettings)
        self._framework, stage, mode = framework, Stage(section.fuzz_stage), Mode(section.pert_mode)
        if stage is Stage.BACKWARD and not framework.gradients.can_repeat:
            raise SettingsError(
                f'free_benchmark.fuzz_stage: "{stage.value}" is not available with {framework.name}; use '
                f'"{Stage.FORWARD.value}"'
            )
        if mode is Mode.TO_CPU and not framework.execution.has_places:
            raise SettingsError(
                f'free_benchmark.pert_mode: "{mode.value}" is not available with {framework.name}; use '
                f'"{Mode.IMPROVE_PRECISION.value}"'
            )
        self._session = Session(framework, mode, stage, section.handler_type == "fix")
        self._patches, self._guards = Patches(), Patches()
        self._functions = calls_of(framework, chosen(framework, section.apis), self._current, self._patches)
        self._planned = self._is_interrupted = False
        self._named: list[tuple[str, Place]] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether calls are run a second time."""
        return self._session.on

    @property
    def in_step(self) -> bool:
        """Return whether a step has begun and not ended."""
        return self._session.where is not None

    @property
    def has_model(self) -> bool:
        """Return True: no model is needed."""
        return True

    def check(self, model: AnyModel, token_range: Any = None) -> None:
        """Raise an error for settings that cannot be collected."""
        if model is not None:
            check_model(model, self._framework.collecting.module, self._framework.collecting.kind)
        if token_range is not None:
            raise UsageError('start(): task "free_benchmark" does not support token_range; omit it')
        self._framework.execution.check()

    def open(self, model: AnyModel, folder_of: Any, token_range: Any = None) -> None:
        """Begin, or continue, a step."""
        step_folder: StepFolder = folder_of("")
        uninterrupted(partial(self._install, model))
        folder = step_folder.folder
        rank = None if folder.name == "rank" else step_folder.header["run"]["rank"]
        step = step_folder.header["run"]["step"]
        self._session.resume(Where(folder.parent.parent, step, rank, step_folder.tally))

    def _install(self, model: AnyModel) -> None:
        if not self._planned:
            self._planned = True
            self._framework.execution.guard(self._current, self._guards, self._patches)
        roots = [] if model is None else [root for _, root in roots_of(model, self._framework.collecting.kind)]
        self._functions.plan(roots, "list")
        self._patches.install()
        self._guards.install()

    def expect(self, model: AnyModel) -> None:
        """Do nothing: this task compiles nothing."""

    def yield_step(self) -> None:
        """Do nothing: no state is shared with other debuggers."""

    @property
    def is_interrupted(self) -> bool:
        """Return whether an interrupt ended the step that has begun."""
        return self._is_interrupted

    def interrupted(self, cause: str) -> None:
        """Note the interrupt for `is_interrupted`; there is no dump of the step."""
        self._is_interrupted = self.in_step

    def recover(self) -> None:
        """Restore the functions of the framework, if an interrupted start or stop has left those of this tool."""
        if not self._session.on:
            self._give_back()

    def _give_back(self) -> None:
        if self._patches.installed or self._guards.installed:
            uninterrupted(self._remove)

    def _remove(self) -> None:
        self._guards.remove()
        self._patches.remove()

    def shut(self) -> None:
        """Restore the functions of the framework, and write and log the results so far."""
        self._give_back()
        if self._session.on:
            self._session.pause()
            self._report()

    def end_step(self) -> None:
        """Do the same, and start the numbering again."""
        self.shut()
        self._session.end_step()
        self._is_interrupted = False

    def _report(self) -> None:
        where = self._session.where
        if where is None:
            return
        try:
            summary = self._session.summary()
            write_summary(where.root, where.rank, described(summary, tool(), self._framework.name))
        except OSError as cause:
            path = summary_path(where.root, where.rank)
            log_once(f"free_benchmark {cause.strerror}", lost_rows(path, cause))
            return
        except Exception as cause:  # a failure of the debugger does not stop the training
            if must_propagate(cause):
                raise
            log_once("free_benchmark summary", second_run_failed("the summary", cause))
            return
        named = [(each.stem, each.place) for each in summary.sensitivities if each.is_ill_conditioned][:MAX_LOGGED]
        if summary.sensitivities and named != self._named:  # not the same in each step
            self._named = named
            for line in logged(summary.sensitivities):
                logger.warning(line)

    def _current(self) -> Recorder:
        return self._session  # type: ignore[return-value]  # it has the used attributes: see `calls_of` and `guard`
