"""The debugger, independent of the framework: decides whether a step is collected, and controls the collector.

The `debugger` of each framework derives `PrecisionDebugger` from it. Errors of the user are raised at
construction or in the first `start`; after it, no error of this package stops the training.
"""

import atexit
import logging
import os
import platform
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from msprobe.base.checks import output_folder, quoted
from msprobe.base.errors import MsprobeError, SettingsError, UsageError, reason
from msprobe.base.framework import AnyModel, Framework, Roots, frozen_parameters, weak_roots
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once, logger
from msprobe.base.sections import AccCheckSettings
from msprobe.base.settings import REPLACED_BY, Settings, collect_options, load, stage_settings, with_unique_dump_path
from msprobe.base.tally import Tally, log_nothing_collected
from msprobe.base.version import tool
from msprobe.cell_dump import functions
from msprobe.cell_dump.saves import Saves
from msprobe.frameworks import process
from msprobe.gate_process import golden_file, judge
from msprobe.grad_probe.probe import Destination, GradProbe
from msprobe.stage_control import Clock, Service, ServiceConfig, class_or_instance_method, serialized
from msprobe.store.arrow import require_pyarrow
from msprobe.store.folders import holds_dump
from msprobe.store.layout import TENSORS, rank_folder
from msprobe.store.run_folder import RunFolder, leave, stage_folder
from msprobe.store.watching.front import Watch
from msprobe.store.watching.watches import watch_of
from msprobe.store.writer import Budget, StepFolder, StepWriter

MAX_DUMP_PATHS = 32
"""Maximum number of folders set by `service.config.dump_path` whose debuggers are kept."""

StepFolderOf = Callable[[str], StepFolder]
"""Function from a subfolder of dump_path ("" for dump_path) to the folder and header of a step's dump."""


class StepCollector(Protocol):
    """Interface of collectors. `open` and `shut` may alternate within a step."""

    @property
    def is_open(self) -> bool:
        """Return whether calls are being recorded."""

    @property
    def in_step(self) -> bool:
        """Return whether the dump of a step has begun and is not finished."""

    @property
    def has_model(self) -> bool:
        """Return whether a model was passed, or none is needed."""

    def check(self, model: AnyModel, token_range: Any = None) -> None:
        """Raise UsageError for what cannot be collected."""

    def open(self, model: AnyModel, folder_of: StepFolderOf, token_range: Any = None) -> None:
        """Start recording; `folder_of` is called if this begins a step. OSError if the folder cannot be written."""

    def expect(self, model: AnyModel) -> None:
        """Prepare in a step that is not recorded."""

    def yield_step(self) -> None:
        """Yield the rest of the step to another debugger that has begun to collect."""

    @property
    def is_interrupted(self) -> bool:
        """Return whether an interrupt ended the current step."""

    def interrupted(self, cause: str) -> None:
        """Record in the dump of the step that it was interrupted."""

    def recover(self) -> None:
        """Remove patches that an interrupted start() or stop() left in place."""

    def shut(self) -> None:
        """Stop recording."""

    def end_step(self) -> None:
        """Finish the dump of the step and reset the numbers of calls."""


class Debugger:
    """Base class of debuggers; a subclass for each framework provides the collectors."""

    _framework: ClassVar[Framework]
    _known: ClassVar[dict[Settings, "Debugger"]]
    _latest: ClassVar["Debugger | None"]
    _classes: ClassVar[list["type[Debugger]"]] = []

    def __init_subclass__(cls) -> None:
        cls._known, cls._latest = {}, None
        cls._classes.append(cls)
        # Registered after the framework is imported, so that it runs before the exit handlers of the framework: open
        # dumps may reference its tensors.
        atexit.register(_end_all)

    def __new__(
        cls,
        config_path: "str | PathLike[str] | None" = None,
        task: str | None = None,
        dump_path: "str | PathLike[str] | None" = None,
        level: str | None = None,
        step: list[int | str] | None = None,
    ) -> "Debugger":
        settings = load(config_path, task=task, dump_path=dump_path, level=level, step=step)
        known = cls._known.get(settings)
        cls._latest = debugger = cls._create(settings) if known is None or known._parent is not None else known
        if debugger._is_over:
            message = (
                f"has collected its last step, {settings.last_step}; set_init_step(0) restarts the counting of steps"
            )
            if debugger._has_found_all:
                message = "has found the requested number of calls and does not collect more in this run"
            log_once(f"over {settings.dump_path}", f"PrecisionDebugger: this debugger {message}", logging.INFO)
        return debugger

    @classmethod
    def _create(cls, settings: Settings, parent: "Debugger | None" = None) -> "Debugger":
        """Create a debugger. A stage shares the clock with its parent, and the disk budget if both have the same."""
        requested, settings = (
            settings,
            with_unique_dump_path(settings, {each._settings.dump_path: each._description for each in _all()}),
        )
        # Before the debugger is registered, because the constructor of a kernel dump may raise.
        if settings.level == "debug":  # works without start()
            _check_format(settings)
        collectors = cls._collectors_of(settings)
        debugger = cls._known[requested] = super().__new__(cls)
        debugger._requested, debugger._settings = requested, settings
        debugger._collectors = collectors
        debugger._budget = Budget(settings.disk_budget) if settings.disk_budget else None
        if parent is not None and parent._settings.disk_budget == settings.disk_budget:
            debugger._budget = parent._budget
        debugger._watch = _watch_of(settings)
        debugger._saves = cls._saves_of(settings)
        debugger._clock = Clock() if parent is None else parent._clock
        debugger._parent, debugger._stages, debugger._redirected = parent, {}, {}
        debugger._tally = Tally()
        debugger._active = debugger._started = debugger
        return debugger

    _requested: Settings
    _settings: Settings
    _collectors: StepCollector
    _saves: Saves
    _watch: Watch | None
    _budget: Budget | None
    _clock: Clock
    _parent: "Debugger | None"
    _stages: "dict[str, Debugger]"
    _redirected: "dict[Path, Debugger]"
    _active: "Debugger"
    _started: "Debugger"
    _tally: Tally
    _service: Service | None = None
    _has_started = False
    _handled = 0
    """The id of the exception that was being handled in the last call of start()."""
    _has_logged_end = False
    _roots: Roots = ()

    @class_or_instance_method
    @serialized
    def start(self, model: AnyModel = None, token_range: Any = None, rank_id: int | None = None) -> None:
        """Start collecting, if this step and rank are collected.

        model : the network, or a list, tuple or dict of networks; required for levels L0 and mix, at least in the first
            start. The root itself is not collected.
        token_range : two numbers; only these runs of the model since `start`, counted from 0, are collected, as in the
            generation of tokens.
        rank_id : replaces the rank of the framework.

        No effect at level debug, where `save` works without start, and with task grad_probe, which uses `monitor`.
        """
        self._active._start(model, token_range, rank_id)
        self._started = self._active
        if self._service is not None:
            self._service.first_start = False

    def _start(self, model: AnyModel, token_range: Any, rank_id: int | None) -> None:
        for each in _all():
            each._collectors.recover()
        if self._clock.is_ending:
            (self._parent or self)._finish_step()
        self._handled = id(sys.exc_info()[1])
        if self._is_over or self._settings.level == "debug" or isinstance(self._collectors, GradProbe):
            return
        try:
            self._begin(model, token_range, rank_id)
        except MsprobeError as cause:
            if not self._has_started:
                raise
            self._collectors.shut()
            log_once(
                f"{self._settings.dump_path}: {cause}", f"{cause}; the training continues without the dump of this step"
            )
        except BaseException as cause:
            self._has_started = True
            self._note_interrupt(cause)
            raise
        self._has_started = True

    def _note_interrupt(self, cause: BaseException | None) -> None:
        """Record in the dumps that the step was interrupted, if `cause`, which is being raised, is an interrupt."""
        if cause is not None and id(cause) != self._handled and must_propagate(cause):
            for each in (self._parent or self)._with_stages():
                each._interrupted(f"{reason(cause)} ended the step before it was completely collected")

    def _interrupted(self, cause: str) -> None:
        self._collectors.interrupted(cause)
        self._saves.interrupted(cause)

    def _begin(self, model: AnyModel, token_range: Any, rank_id: int | None) -> None:
        _check_format(self._settings)
        self._collectors.check(model, token_range)
        if rank_id is not None and (isinstance(rank_id, bool) or not isinstance(rank_id, int) or rank_id < 0):
            raise UsageError(f"start(): rank_id is {rank_id!r}; pass a non-negative integer, or omit it")
        for other in _all():
            if other._collectors.is_open:
                which = "this debugger" if other is self else f"the debugger of {other._settings.dump_path}"
                if not self._has_started:
                    raise UsageError(f"start(): {which} is already started; call its stop() first")
                log_once(
                    f"{other._settings.dump_path} not stopped",
                    f"start(): {which} had not been stopped, possibly because an exception ended a batch; it is "
                    "stopped now. Call stop() in a `finally` block if batches may fail",
                )
                other._interrupted("start() was called again before stop(), possibly after an exception")
                other._shut()
        own_rank = self._rank() if rank_id is None else rank_id
        self._tally.start(self._settings, self._step, process.size(self._framework) if rank_id is None else 0)
        if not self._collects(own_rank):
            if self._settings.collects_rank(own_rank or 0):
                self._collectors.expect(model)
            return
        if model is not None:
            self._roots = weak_roots(model)
        try:
            self._collectors.open(model, partial(self._step_folder, own_rank), token_range)
        except OSError as cause:
            where, why = self._settings.dump_path, cause.strerror or cause
            raise UsageError(
                f"start(): {where} cannot be written: {why}; free some space, or choose another dump_path"
            ) from cause
        for other in _all():
            if other is not self:
                other._collectors.yield_step()
        self._announce(own_rank)

    @property
    def level(self) -> str:
        """Return the level: "L0", "L1", "L2", "mix" or "debug"."""
        return self._settings.level

    @property
    def has_model(self) -> bool:
        """Return whether a model was passed to `start`."""
        return self._active._collectors.has_model

    @class_or_instance_method
    @serialized
    def stop(self) -> None:
        """Stop collecting calls, and write the dump. Gradients of collected calls are recorded until `step`."""
        self._note_interrupt(sys.exc_info()[1])
        try:
            self._shut()
            if self._started is not self:
                self._started._shut()
        except BaseException as cause:
            self._note_interrupt(cause)
            raise

    def _shut(self) -> None:
        self._collectors.shut()
        if self._parent is not None:  # the rest of the step belongs to other stages
            self._collectors.yield_step()

    @class_or_instance_method
    @serialized
    def step(self) -> None:
        """End the training step: finish its dump and reset the numbers of calls; the next `start` begins the next step.

        The step of all stages ends too. No effect with task grad_probe, whose steps are calls of the optimizer.
        """
        if isinstance(self._collectors, GradProbe) and not self._stages:
            self._collectors.remind()
            return
        if self._parent is not None:
            log_once(
                f"step of {self._settings.dump_path}",
                f"step() of the stage in {self._settings.dump_path} has no effect: the steps of a stage follow "
                f"its debugger; call step() of the debugger of {self._parent._settings.dump_path} once per "
                "training step",
            )
            return
        self._note_interrupt(sys.exc_info()[1])
        self._finish_step()
        for root in [root for root, each in self._redirected.items() if each is not self._active][:-MAX_DUMP_PATHS]:
            self._known.pop(self._redirected.pop(root)._requested, None)
        if not self._has_logged_end and all(each._is_over for each in self._with_stages()):
            self._has_logged_end = True
            if self._log_nothing_collected() or all(each._has_found_all for each in self._with_stages()):
                return
            last = max(each._settings.last_step or 0 for each in self._with_stages())
            logger.info(
                "msprobe ends successfully. The last step to collect was %d; further calls to start(), stop() "
                "and step() are ignored",
                last,
            )

    def _finish_step(self) -> None:
        """End the step. If this is interrupted, the next start or step ends the same step."""
        self._clock.is_ending = True
        for each in self._with_stages():
            each._end_step()
        self._clock.end()

    @class_or_instance_method
    def stage(self, name: str, config_path: "str | PathLike[str] | None" = None, **settings: Any) -> "Debugger":
        """Return the debugger of a part of each step, which writes to `{dump_path}/{name}/step{n}/rank{r}`.

        name : name of the stage and its folder.
        config_path : configuration file whose fields replace the settings of this debugger.
        settings : fields that replace both.

        A stage does not count steps: `step()` of this debugger ends the step of all stages. Further calls without
        settings, or with equal ones, return the same object. Raises SettingsError for invalid settings, UsageError for
        an invalid name, or for the name of a stage with other settings. See `how-to/collecting/rl-flows.md`.
        """
        if self._parent is not None:
            raise UsageError(
                f"stage(): {self._settings.dump_path} is a stage itself; call stage({name!r}) of the debugger of "
                f"{self._parent._settings.dump_path}"
            )
        known = self._stages.get(name) if isinstance(name, str) else None
        if known is not None and config_path is None and not settings:
            return known
        requested = stage_settings(self._settings, name, config_path, settings)
        if known is None:
            known = self._stage_of(name, requested)
        elif known._requested != requested:
            raise UsageError(
                f"stage(): {quoted(name)} already exists with other settings; pass settings only in the first call "
                f"of stage({name!r}), or choose another name"
            )
        return known

    def _stage_of(self, name: str, settings: Settings) -> "Debugger":
        stage = self._stages[name] = self._create(settings, parent=self)
        return stage

    @property
    def service(self) -> Service:
        """Return the interface by which RL frameworks control stages; see `how-to/collecting/rl-flows.md`."""
        if self._service is None:
            self._service = Service(ServiceConfig(lambda: self._active._settings.dump_path, self._redirect), self.stop)
        return self._service

    def _redirect(self, path: object) -> None:
        """Write later starts to another folder, in the steps of this debugger."""
        try:
            root = output_folder(path)
        except SettingsError as err:
            raise SettingsError(f"service.config.dump_path: {err}") from err
        if self._parent is not None:
            raise UsageError(
                f"service.config.dump_path: {self._settings.dump_path} is a stage; set the dump_path of the "
                f"debugger of {self._parent._settings.dump_path}"
            )
        known = {each._settings.dump_path: each for each in self._with_stages()}
        known |= {each._requested.dump_path: each for each in self._with_stages()}
        if root not in known:
            if self._settings.level == "L2":
                raise UsageError(
                    "service.config.dump_path: the dump_path cannot be changed while kernels are dumped (level L2); "
                    "do not set it"
                )
            known[root] = self._redirected[root] = self._create(replace(self._settings, dump_path=root), parent=self)
        self._active = known[root]

    def _log_nothing_collected(self) -> bool:
        return log_nothing_collected([(each._settings, each._tally) for each in self._with_stages()], self._clock.ended)

    def _retire(self) -> None:
        """Finish open dumps, and release the folder for other debuggers."""
        for each in self._with_stages():
            each._end_step()
        self._log_nothing_collected()
        for each in self._with_stages():
            self._known.pop(each._requested, None)

    @property
    def _description(self) -> str:
        return "another debugger, with other settings," if self._parent is None else "a stage of a debugger"

    def _with_stages(self) -> "list[Debugger]":
        return [self, *self._stages.values(), *self._redirected.values()]

    @class_or_instance_method
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Save the current value of a variable, at level debug, and with `save_backward` its gradients."""
        self._save(variable, name, save_backward)

    @class_or_instance_method
    def set_init_step(self, step: int) -> None:
        """Number steps from `step` on. Call it between two steps, for example before the training loop."""
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise UsageError(f"set_init_step(): {step!r} is not a step; pass a non-negative integer")
        if self._parent is not None:
            raise UsageError(
                f"set_init_step(): {self._settings.dump_path} is a stage, which does not count steps; call "
                f"set_init_step() of the debugger of {self._parent._settings.dump_path}"
            )
        self._note_interrupt(sys.exc_info()[1])
        if self._clock.is_ending:
            self._finish_step()
        debuggers = self._with_stages()
        if any(each._collectors.is_interrupted for each in debuggers):
            for each in debuggers:
                each._end_step()
        if any(each._collectors.in_step for each in debuggers):
            raise UsageError("set_init_step(): a step is being collected; call stop() and step() first")
        self._clock.begin(step)

    @class_or_instance_method
    def register_custom_api(self, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Collect `module.api` too, as `{api_prefix}.{api}.{n}`; the default prefix is the name of the module.

        For levels L1 and mix. UsageError if there is no such function.
        """
        functions.register_custom_api(module, api, api_prefix)

    @class_or_instance_method
    def restore_custom_api(self, module: Any, api: str) -> None:
        """Stop collecting `module.api`."""
        functions.restore_custom_api(module, api)

    @class_or_instance_method
    def monitor(self, opt: Any) -> None:
        """Monitor an optimizer: task grad_probe records the gradients that it receives, at each of its calls.

        Call it once, after the optimizer is created; with PyTorch the model may be passed too. No effect with other
        tasks. UsageError, which is also a ValueError, if `opt` is not an optimizer, or if dump_path cannot be written.
        See `how-to/collecting/grad-probe.md`.
        """
        if isinstance(self._collectors, GradProbe):
            self._collectors.monitor(opt, self._destination())
            return
        cause = f"monitor {self._settings.dump_path}"
        log_once(
            cause,
            f'monitor(): task "{self._settings.task}" does not monitor optimizers; the call has no effect, as in '
            "msprobe",
        )

    @class_or_instance_method
    def gate(self, golden: "str | PathLike[str]", *, update: str = "") -> int:
        """End the collection, and return the exit code of `msprobe gate check` for its dump.

        golden : the golden file; the suffix `.golden` may be omitted.
        update : a reason; if it is given, the golden is written instead of checked.

        Call it once, after the training: `sys.exit(debugger.gate("goldens/gpt-tiny"))`. Returns 0 without a check if a
        command of the gate, such as `msprobe gate check`, has started this training and checks it. UsageError if there
        is no golden, for a training with several ranks, or if neither tensors nor statistics were collected. See
        `how-to/checking/gate.md`.
        """
        root = self._parent or self
        if root._settings.task not in ("tensor", "statistics"):
            raise UsageError(
                f'gate(): task "{root._settings.task}" has no values of calls; use task "tensor" or "statistics"'
            )
        if process.size(self._framework) > 1:
            raise UsageError(
                "gate(): other ranks may still be writing; when all have ended, run: "
                f"msprobe gate check --golden {golden_file(golden)} --target {root._settings.dump_path}"
            )
        if REPLACED_BY in os.environ:
            return 0
        dump = root._own_folder(root._rank()).folder
        root._retire()
        return judge(golden_file(golden), dump, update)

    @class_or_instance_method
    def forward_backward_dump_end(self) -> None:
        """Alias of `stop`, kept for compatibility."""
        self.stop()

    @classmethod
    @abstractmethod
    def _collectors_of(cls, settings: Settings) -> StepCollector:
        """Return the collector for these settings. SettingsError if they are not supported."""

    @classmethod
    @abstractmethod
    def _saves_of(cls, settings: Settings) -> Saves:
        """Return the writer of saved variables."""

    @classmethod
    @abstractmethod
    def _version(cls) -> str:
        """Return the version of the framework."""

    def _device(self) -> str:
        """Return the device, if the framework has one for all tensors."""
        return ""

    def _collects_graphs(self) -> bool:
        """Return whether compiled graphs are collected now, in which calls are not visible to Python."""
        return False

    def _rank(self) -> int | None:
        return process.rank(self._framework)

    def _save(self, variable: Any, name: str, save_backward: bool) -> None:
        active, own_rank = self._active, self._rank()
        if active._settings.level != "debug":
            return
        active._tally.start(active._settings, active._step, process.size(active._framework))
        if not active._is_over and active._collects(own_rank):
            try:
                active._saves.save(variable, name, save_backward, lambda: active._open_saves(own_rank))
            except BaseException as cause:
                self._note_interrupt(cause)
                raise

    def _destination(self) -> Destination:
        def counted(step: int, is_written: bool) -> None:
            self._tally.start(self._settings, step, process.size(self._framework))
            self._tally.opened |= is_written
            self._tally.any |= is_written

        return Destination(
            root=lambda: self._own_folder(self._rank()).folder,
            rank=lambda: self._rank() or 0,
            first_step=lambda: self._step,
            counted=counted,
        )

    def _end_step(self) -> None:
        self._collectors.end_step()
        self._saves.end_step()

    @property
    def _step(self) -> int:
        return self._clock.step

    @property
    def _is_over(self) -> bool:
        """Return whether the last step to collect has passed, or the requested number of calls was found."""
        last = self._settings.last_step
        return (last is not None and self._clock.step > last) or self._has_found_all

    @property
    def _has_found_all(self) -> bool:
        """Return whether a collection that watches calls has found the requested number."""
        return self._watch is not None and self._watch.is_over

    def _collects(self, rank: int | None) -> bool:
        return self._settings.collects_step(self._step) and self._settings.collects_rank(rank or 0)

    def _open_saves(self, rank: int | None) -> StepWriter:
        writer = self._step_folder(rank).open()
        self._announce(rank)
        return writer

    def _announce(self, rank: int | None) -> None:
        if not self._tally.opened:
            logger.info("dump data will be saved in %s", self._own_folder(rank).folder)
        self._tally.opened = True

    def _step_folder(self, rank: int | None, part: str = "") -> StepFolder:
        own = self._own_folder(rank)
        folder = rank_folder(own.folder / part, self._step, rank)
        if not self._collectors.in_step and holds_dump(folder):
            # This process wrote it, and has reset the numbers of steps.
            leave(self._settings.dump_path, self._run_root)
            return self._step_folder(rank, part)
        header = self._header(folder, rank, own.run)
        return StepFolder(folder, header, self._settings, self._budget, self._tally, self._watch)

    def _header(self, folder: Path, rank: int | None, run: str) -> dict[str, Any]:
        """Return the header of the dump of a step (`reference/format.md`, page 2).

        `run` is the id of the run. A debugger without stages has no `stage`.
        """
        settings, device, stage = self._settings, self._device(), self._clock.position_of(self)
        has_stage = self._parent is not None or len(self._with_stages()) > 1
        return {
            "task": settings.recorded_task,
            "level": settings.level,
            "framework": self._framework,
            "dump_data_dir": str(folder / TENSORS) if collect_options(settings).any_file else None,
            "run": {
                "tool": tool(),
                **({"id": run} if run else {}),
                "framework": f"{self._framework} {self._version()}",
                **({"device": device} if device else {}),
                "python": platform.python_version(),
                "numpy": np.__version__,
                "step": self._step,
                "rank": rank or 0,
                **({"stage": stage} if has_stage else {}),
                **({"frozen": frozen} if (frozen := self._frozen()) else {}),
                "settings": settings.described(),
            },
        }

    def _frozen(self) -> Sequence[str]:
        return frozen_parameters(self._roots)

    def _own_folder(self, rank: int | None) -> RunFolder:
        path = self._settings.dump_path
        if self._settings.level == "L2":  # the framework received its path before the rank was known
            return RunFolder(path, "")
        return stage_folder(path, self._run_root, rank, self._settings.saves_pt)

    @property
    def _run_root(self) -> Path:
        return (self._parent or self)._settings.dump_path


def _check_format(settings: Settings) -> None:
    """Raise SettingsError if the format of the dump requires a package that is not installed."""
    if settings.format == "columnar" and settings.level != "L2":
        require_pyarrow(f'format "columnar" writes {settings.dump_path} with pyarrow', SettingsError)


def _watch_of(settings: Settings) -> Watch | None:
    """Return the watch of a debugger; the task that computes in float64 is imported only if it is selected."""
    if isinstance(settings.section, AccCheckSettings):
        from msprobe.precheck.training.watch import Checks

        return Checks.of(settings.section)
    return watch_of(settings)


def _all() -> Iterator[Debugger]:
    """Yield all debuggers of this process, of all frameworks."""
    for of_framework in Debugger._classes:
        yield from list(of_framework._known.values())


def _end_all() -> None:
    """Finish open dumps at the end of the process, and log debuggers that collected nothing."""
    for debugger in _all():
        debugger._end_step()
    for debugger in _all():
        if debugger._parent is None:
            debugger._log_nothing_collected()
