"""The debugger of any framework: it decides whether a step is collected, and opens and shuts the collector.

`mindspore_debugger` and `pytorch_debugger` make it the `PrecisionDebugger` of a framework. A user's mistake is raised
here, at construction or at `start`; after the first step nothing of ours stops the training.
"""

import atexit
import logging
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
from msprobe.base.framework import AnyModel, Framework, Roots, frozen_parameters, rank, size, weak_roots
from msprobe.base.interrupts import passes
from msprobe.base.log import logger, once
from msprobe.base.sections import AccCheckSettings
from msprobe.base.settings import Settings, collect_options, load, stage_settings, with_unique_dump_path
from msprobe.base.tally import Tally, log_nothing_collected
from msprobe.base.version import tool
from msprobe.cell_dump import functions
from msprobe.cell_dump.saves import Saves
from msprobe.grad_probe.probe import Destination, GradProbe
from msprobe.stage_control import Clock, Service, ServiceConfig, in_turn, on_either
from msprobe.store.arrow import need
from msprobe.store.folders import holds_dump
from msprobe.store.layout import TENSORS, rank_folder
from msprobe.store.run_folder import RunFolder, leave, stage_folder
from msprobe.store.watching.front import Watch
from msprobe.store.watching.watches import watch_of
from msprobe.store.writer import Budget, StepFolder, StepWriter

PLACES = 32
"""The number of folders that `service.config.dump_path` named and that are kept; a new one in each step is no stage."""

StepFolderOf = Callable[[str], StepFolder]
"""The folder and header of a step's dump in a folder below dump_path; "" for dump_path itself."""


class Collecting(Protocol):
    """What a debugger needs of its collector. `open` and `shut` may alternate within a step."""

    @property
    def is_open(self) -> bool:
        """Whether calls are being recorded."""

    @property
    def in_step(self) -> bool:
        """Whether a step's dump has begun and is not finished."""

    @property
    def has_model(self) -> bool:
        """Whether a model was given, or none is needed."""

    def check(self, model: AnyModel, token_range: Any = None) -> None:
        """Refuse what cannot be collected."""

    def open(self, model: AnyModel, folder_of: StepFolderOf, token_range: Any = None) -> None:
        """Start recording; `folder_of` is called when this begins a step. OSError where it cannot be written."""

    def expect(self, model: AnyModel) -> None:
        """Be ready in a step that is not recorded."""

    def give_way(self) -> None:
        """Another debugger has begun to collect."""

    @property
    def is_interrupted(self) -> bool:
        """Whether an interrupt ended the step that has begun."""

    def interrupted(self, cause: str) -> None:
        """Have the step's dump say that it was interrupted."""

    def recover(self) -> None:
        """Take out what a start or a stop that an interrupt ended has left in place."""

    def shut(self) -> None:
        """Stop recording."""

    def end_step(self) -> None:
        """End the step's dump and start the numbers anew."""


class Debugger:
    """Collects a training step by step; a subclass for each framework provides its collectors."""

    _framework: ClassVar[Framework]
    _known: ClassVar[dict[Settings, "Debugger"]]
    _latest: ClassVar["Debugger | None"]
    _classes: ClassVar[list["type[Debugger]"]] = []

    def __init_subclass__(cls) -> None:
        cls._known, cls._latest = {}, None
        cls._classes.append(cls)
        # Here, where the framework is imported already: what was registered last ends first, and what is still open
        # may hold tensors that the framework's own end takes away.
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
        cls._latest = debugger = cls._made(settings) if known is None or known._above is not None else known
        if debugger._is_over:
            message = (
                f"has collected its last step, {settings.last_step}; set_init_step(0) restarts the counting of steps"
            )
            if debugger._has_found_all:
                message = "has found the requested number of calls and does not collect more in this run"
            once(f"over {settings.dump_path}", f"PrecisionDebugger: this debugger {message}", logging.INFO)
        return debugger

    @classmethod
    def _made(cls, settings: Settings, above: "Debugger | None" = None) -> "Debugger":
        """A new debugger; below another it shares the clock, and the disk budget where that is set for both."""
        requested, settings = (
            settings,
            with_unique_dump_path(settings, {each._settings.dump_path: each._who for each in _all()}),
        )
        # before the debugger is known, for a kernel dump that comes too late is refused
        if settings.level == "debug":  # which needs no start
            _check_format(settings)
        collectors = cls._collectors_of(settings)
        debugger = cls._known[requested] = super().__new__(cls)
        debugger._requested, debugger._settings = requested, settings
        debugger._collectors = collectors
        debugger._budget = Budget(settings.disk_budget) if settings.disk_budget else None
        if above is not None and above._settings.disk_budget == settings.disk_budget:
            debugger._budget = above._budget
        debugger._watch = _watch_of(settings)
        debugger._saves = cls._saves_of(settings)
        debugger._clock = Clock() if above is None else above._clock
        debugger._above, debugger._stages, debugger._places = above, {}, {}
        debugger._tally = Tally()
        debugger._place = debugger._started = debugger
        return debugger

    _requested: Settings
    _settings: Settings
    _collectors: Collecting
    _saves: Saves
    _watch: Watch | None
    _budget: Budget | None
    _clock: Clock
    _above: "Debugger | None"
    _stages: "dict[str, Debugger]"
    _places: "dict[Path, Debugger]"
    _place: "Debugger"
    _started: "Debugger"
    _tally: Tally
    _service: Service | None = None
    _has_started = False
    _handled = 0
    """The id of the exception that was being handled when the last start was called."""
    _has_logged_end = False
    _roots: Roots = ()

    @on_either
    @in_turn
    def start(self, model: AnyModel = None, token_range: Any = None, rank_id: int | None = None) -> None:
        """Collect from here on, if this step and rank are to be collected.

        `model` is the network, or a list, tuple or dict of networks; levels L0 and mix need it, at the first start at
        least. The root itself is not collected. `token_range`, two numbers, collects only these runs of the model since
        `start`, counted from 0, as in the generation of tokens. `rank_id` stands in place of the framework's rank. At
        level debug this does nothing: `save` needs no start; nor with task grad_probe, where `monitor` does.
        """
        self._place._start(model, token_range, rank_id)
        self._started = self._place
        if self._service is not None:
            self._service.first_start = False

    def _start(self, model: AnyModel, token_range: Any, rank_id: int | None) -> None:
        for each in _all():
            each._collectors.recover()
        if self._clock.is_ending:
            (self._above or self)._finish_step()
        self._handled = id(sys.exc_info()[1])
        if self._is_over or self._settings.level == "debug" or isinstance(self._collectors, GradProbe):
            return
        try:
            self._begin(model, token_range, rank_id)
        except MsprobeError as cause:
            if not self._has_started:
                raise
            self._collectors.shut()
            once(
                f"{self._settings.dump_path}: {cause}", f"{cause}; the training continues without the dump of this step"
            )
        except BaseException as cause:
            self._has_started = True
            self._note_interrupt(cause)
            raise
        self._has_started = True

    def _note_interrupt(self, cause: BaseException | None) -> None:
        """Have the dump say that the step was interrupted, where `cause`, which is on its way, is an interrupt."""
        if cause is not None and id(cause) != self._handled and passes(cause):
            for each in (self._above or self)._family():
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
                once(
                    f"{other._settings.dump_path} not stopped",
                    f"start(): {which} had not been stopped, possibly because an exception ended a batch; it is "
                    "stopped now. Call stop() in a `finally` block if batches may fail",
                )
                other._interrupted("start() was called again before stop(), possibly after an exception")
                other._shut()
        ours = self._rank() if rank_id is None else rank_id
        self._tally.start(self._settings, self._step, size(self._framework) if rank_id is None else 0)
        if not self._collects(ours):
            if self._settings.collects_rank(ours or 0):
                self._collectors.expect(model)
            return
        if model is not None:
            self._roots = weak_roots(model)
        try:
            self._collectors.open(model, partial(self._step_folder, ours), token_range)
        except OSError as cause:
            where, why = self._settings.dump_path, cause.strerror or cause
            raise UsageError(
                f"start(): {where} cannot be written: {why}; free some space, or choose another dump_path"
            ) from cause
        for other in _all():
            if other is not self:
                other._collectors.give_way()
        self._announce(ours)

    @property
    def level(self) -> str:
        """The level that is collected: `L0`, `L1`, `L2`, `mix`, `debug`."""
        return self._settings.level

    @property
    def has_model(self) -> bool:
        """Whether `start` was given a model."""
        return self._place._collectors.has_model

    @on_either
    @in_turn
    def stop(self) -> None:
        """Collect no further calls; gradients of the calls made so far are recorded until `step`. Writes the dump."""
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
        if self._above is not None:  # the rest of the step is of other stages, collected or not
            self._collectors.give_way()

    @on_either
    @in_turn
    def step(self) -> None:
        """End the training step: its dump is finished, numbers start anew, the next `start` is of the next step.

        The step of all its stages ends too. With task grad_probe, whose steps are an optimizer's calls, nothing ends.
        """
        if isinstance(self._collectors, GradProbe) and not self._stages:
            self._collectors.remind()
            return
        if self._above is not None:
            once(
                f"step of {self._settings.dump_path}",
                f"step() of the stage in {self._settings.dump_path} has no effect: the steps of a stage follow "
                f"its debugger; call step() of the debugger of {self._above._settings.dump_path} once per "
                "training step",
            )
            return
        self._note_interrupt(sys.exc_info()[1])
        self._finish_step()
        for root in [root for root, each in self._places.items() if each is not self._place][:-PLACES]:
            self._known.pop(self._places.pop(root)._requested, None)
        if not self._has_logged_end and all(each._is_over for each in self._family()):
            self._has_logged_end = True
            if self._log_nothing_collected() or all(each._has_found_all for each in self._family()):
                return
            last = max(each._settings.last_step or 0 for each in self._family())
            logger.info(
                "msprobe ends successfully. The last step to collect was %d; further calls to start(), stop() "
                "and step() are ignored",
                last,
            )

    def _finish_step(self) -> None:
        """End the step; where an interrupt ends this call, the next start, or step, ends that same step."""
        self._clock.is_ending = True
        for each in self._family():
            each._end_step()
        self._clock.end()

    @on_either
    def stage(self, name: str, config_path: "str | PathLike[str] | None" = None, **settings: Any) -> "Debugger":
        """The debugger of a part of each step, which writes to `{dump_path}/{name}/step{n}/rank{r}`.

        Its settings are this debugger's; fields of the configuration in the file `config_path` stand in their place,
        and `settings` in the place of both. It counts no steps: `step()` of this debugger ends the step of all its
        stages. Asked for again, without settings or with equal ones, a stage is the same object. Raises SettingsError
        where the settings cannot be meant, UsageError where the name cannot be a folder, or is that of a stage with
        other settings. See `how-to/collecting/rl-flows.md`.
        """
        if self._above is not None:
            raise UsageError(
                f"stage(): {self._settings.dump_path} is a stage itself; call stage({name!r}) of the debugger of "
                f"{self._above._settings.dump_path}"
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
        stage = self._stages[name] = self._made(settings, above=self)
        return stage

    @property
    def service(self) -> Service:
        """The names by which msprobe's debugger is driven from stage to stage; see `how-to/collecting/rl-flows.md`."""
        if self._service is None:
            self._service = Service(ServiceConfig(lambda: self._place._settings.dump_path, self._redirect), self.stop)
        return self._service

    def _redirect(self, path: object) -> None:
        """What is started from here on writes below another folder, in the steps of this debugger."""
        try:
            root = output_folder(path)
        except SettingsError as err:
            raise SettingsError(f"service.config.dump_path: {err}") from err
        if self._above is not None:
            raise UsageError(
                f"service.config.dump_path: {self._settings.dump_path} is a stage; set the dump_path of the "
                f"debugger of {self._above._settings.dump_path}"
            )
        known = {each._settings.dump_path: each for each in self._family()}
        known |= {each._requested.dump_path: each for each in self._family()}
        if root not in known:
            if self._settings.level == "L2":
                raise UsageError(
                    "service.config.dump_path: the dump_path cannot be changed while kernels are dumped (level L2); "
                    "do not set it"
                )
            known[root] = self._places[root] = self._made(replace(self._settings, dump_path=root), above=self)
        self._place = known[root]

    def _log_nothing_collected(self) -> bool:
        return log_nothing_collected([(each._settings, each._tally) for each in self._family()], self._clock.ended)

    def _retire(self) -> None:
        """Finish what is open; another debugger may write here from now on."""
        for each in self._family():
            each._end_step()
        self._log_nothing_collected()
        for each in self._family():
            self._known.pop(each._requested, None)

    @property
    def _who(self) -> str:
        return "another debugger, with other settings," if self._above is None else "a stage of a debugger"

    def _family(self) -> "list[Debugger]":
        return [self, *self._stages.values(), *self._places.values()]

    @on_either
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Save a variable of this moment, at level debug, and with `save_backward` its gradients: page saving."""
        self._save(variable, name, save_backward)

    @on_either
    def set_init_step(self, step: int) -> None:
        """Number steps from `step` on; to be called between two steps, before the loop for instance."""
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise UsageError(f"set_init_step(): {step!r} is not a step; pass a non-negative integer")
        if self._above is not None:
            raise UsageError(
                f"set_init_step(): {self._settings.dump_path} is a stage, which does not count steps; call "
                f"set_init_step() of the debugger of {self._above._settings.dump_path}"
            )
        self._note_interrupt(sys.exc_info()[1])
        if self._clock.is_ending:
            self._finish_step()
        family = self._family()
        if any(each._collectors.is_interrupted for each in family):
            for each in family:
                each._end_step()
        if any(each._collectors.in_step for each in family):
            raise UsageError("set_init_step(): a step is being collected; call stop() and step() first")
        self._clock.begin(step)

    @on_either
    def register_custom_api(self, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Collect `module.api` too, as `{api_prefix}.{api}.{n}`; the prefix is the module's name where none is given.

        Levels L1 and mix. UsageError where there is no such function.
        """
        functions.register_custom_api(module, api, api_prefix)

    @on_either
    def restore_custom_api(self, module: Any, api: str) -> None:
        """Collect `module.api` no longer."""
        functions.restore_custom_api(module, api)

    @on_either
    def monitor(self, opt: Any) -> None:
        """Watch an optimizer: task grad_probe records the gradients that it receives, at each of its calls.

        To be called once, right after the optimizer was made; with PyTorch the model may be given too. With any other
        task this does nothing. UsageError, which is a ValueError too, for what is no optimizer, or where dump_path
        cannot be written. See `how-to/collecting/grad-probe.md`.
        """
        if isinstance(self._collectors, GradProbe):
            self._collectors.monitor(opt, self._destination())
            return
        cause = f"monitor {self._settings.dump_path}"
        once(
            cause,
            f'monitor(): task "{self._settings.task}" does not monitor optimizers; the call has no effect, as in '
            "msprobe",
        )

    @on_either
    def forward_backward_dump_end(self) -> None:
        """The old name of `stop`."""
        self.stop()

    @classmethod
    @abstractmethod
    def _collectors_of(cls, settings: Settings) -> Collecting:
        """Who collects by these settings. SettingsError where nobody can."""

    @classmethod
    @abstractmethod
    def _saves_of(cls, settings: Settings) -> Saves:
        """Who writes what the user saves."""

    @classmethod
    @abstractmethod
    def _version(cls) -> str:
        """The framework's version."""

    def _device(self) -> str:
        """What computes, where the framework has one for all."""
        return ""

    def _rank(self) -> int | None:
        return rank(self._framework)

    def _save(self, variable: Any, name: str, save_backward: bool) -> None:
        place, ours = self._place, self._rank()
        if place._settings.level != "debug":
            return
        place._tally.start(place._settings, place._step, size(place._framework))
        if not place._is_over and place._collects(ours):
            try:
                place._saves.save(variable, name, save_backward, lambda: place._open_saves(ours))
            except BaseException as cause:
                self._note_interrupt(cause)
                raise

    def _destination(self) -> Destination:
        def counted(step: int, is_written: bool) -> None:
            self._tally.start(self._settings, step, size(self._framework))
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
        """Whether the last step to collect has passed, or as much was found as was asked for."""
        last = self._settings.last_step
        return (last is not None and self._clock.step > last) or self._has_found_all

    @property
    def _has_found_all(self) -> bool:
        """Whether a collection that watches has found as many calls as were asked for."""
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
            # this process itself wrote it, and numbers its steps anew
            leave(self._settings.dump_path, self._run_root)
            return self._step_folder(rank, part)
        header = self._header(folder, rank, own.run)
        return StepFolder(folder, header, self._settings, self._budget, self._tally, self._watch)

    def _header(self, folder: Path, rank: int | None, run: str) -> dict[str, Any]:
        """How a step's dump was made: what it says above its data (`reference/format.md`, page 2).

        `run` distinguishes the dumps of one run from those of another. A debugger without stages has no `stage`.
        """
        settings, device, stage = self._settings, self._device(), self._clock.turn_of(self)
        has_stage = self._above is not None or len(self._family()) > 1
        return {
            "task": settings.task,
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
        if self._settings.level == "L2":  # the framework got its path before the rank was known
            return RunFolder(path, "")
        return stage_folder(path, self._run_root, rank, self._settings.saves_pt)

    @property
    def _run_root(self) -> Path:
        return (self._above or self)._settings.dump_path


def _check_format(settings: Settings) -> None:
    """SettingsError where the dump's format needs what is not installed."""
    if settings.format == "columnar" and settings.level != "L2":
        need(f'format "columnar" writes {settings.dump_path} with pyarrow', SettingsError)


def _watch_of(settings: Settings) -> Watch | None:
    """What a debugger watches for; the task that computes in float64 is imported only where it is chosen."""
    if isinstance(settings.section, AccCheckSettings):
        from msprobe.precheck.training.watch import Checks

        return Checks.of(settings.section)
    return watch_of(settings)


def _all() -> Iterator[Debugger]:
    """Every debugger of this process, of whatever framework."""
    for of_framework in Debugger._classes:
        yield from list(of_framework._known.values())


def _end_all() -> None:
    """At the end of the process: what a debugger still holds open is finished, and what collected nothing is logged."""
    for debugger in _all():
        debugger._end_step()
    for debugger in _all():
        if debugger._above is None:
            debugger._log_nothing_collected()
