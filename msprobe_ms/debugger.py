"""The debugger, whatever the framework: it decides whether a step is collected, and opens and shuts the collector.

`mindspore_debugger.py` and `pytorch_debugger.py` make it the `PrecisionDebugger` of a framework. A user's mistake is
raised here, at construction or at `start`; after the first step nothing of ours stops the training.
"""

import atexit
import platform
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache, partial, update_wrapper
from importlib.metadata import version
from os import PathLike
from typing import Any, ClassVar, Protocol

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.framework import Framework, rank
from msprobe.base.log import logger, once
from msprobe.base.settings import Settings, load
from msprobe.base.wishes import wishes_of
from msprobe.cell_dump import custom
from msprobe.cell_dump.saves import Saves
from msprobe.store.budget import Budget
from msprobe.store.home import Home
from msprobe.store.layout import TENSORS, rank_folder
from msprobe.store.write import Writer

HomeOf = Callable[[str], Home]
"""The home of a step's dump in a folder below dump_path; "" for dump_path itself."""


class Collecting(Protocol):
    """Who collects for one debugger. `open` and `shut` may alternate within a step."""

    @property
    def is_open(self) -> bool:
        """Whether calls are being recorded."""

    @property
    def in_step(self) -> bool:
        """Whether a step's dump has begun and is not finished."""

    @property
    def has_model(self) -> bool:
        """Whether a model was given, or none is needed."""

    def check(self, model: Any, token_range: Any = None) -> None:
        """Refuse what cannot be collected."""

    def open(self, model: Any, home_of: HomeOf, token_range: Any = None) -> None:
        """Start recording; a home is asked for when this begins a step. OSError where it cannot be written."""

    def expect(self, model: Any) -> None:
        """Be ready in a step that is not recorded."""

    def give_way(self) -> None:
        """Another debugger has begun to collect."""

    def shut(self) -> None:
        """Stop recording."""

    def end_step(self) -> None:
        """End the step's dump and start the numbers anew."""


class on_either:
    """A method that may be called on the class too: it then means the debugger that was constructed last."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        update_wrapper(self, method)  # type: ignore[arg-type]  # a descriptor that carries the method's name and docstring

    def __get__(self, instance: "Debugger | None", owner: "type[Debugger]") -> Callable[..., Any]:
        if instance is None:
            instance = owner._latest
            if instance is None:
                raise UsageError(f"PrecisionDebugger.{self._method.__name__}: construct a PrecisionDebugger first")
        return self._method.__get__(instance, owner)  # type: ignore[no-any-return]  # bound by the function itself


class Debugger:
    """Collects a training step by step; see `docs/collecting.md`.

    `config_path` names a config.json; `task`, `dump_path`, `level` and `step` override what it says. Constructing
    again with equal settings gives the same debugger. Raises SettingsError where the settings cannot be meant,
    UsageError where another debugger writes to the same dump_path.
    """

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
        debugger = cls._known.get(settings)
        if debugger is None:
            for other in _all():
                if other._settings.dump_path == settings.dump_path:
                    raise UsageError(
                        f"PrecisionDebugger: another debugger, with other settings, writes to {settings.dump_path}; "
                        "give this one a dump_path of its own"
                    )
            # before the debugger is known, for a kernel dump that comes too late is refused
            collectors = cls._collectors_of(settings)
            debugger = cls._known[settings] = super().__new__(cls)
            debugger._settings = settings
            debugger._collectors = collectors
            debugger._budget = Budget(settings.disk_budget) if settings.disk_budget else None
            debugger._saves = cls._saves_of(settings)
            debugger._step = 0
            debugger._over = debugger._has_collected = False
        cls._latest = debugger
        return debugger

    _settings: Settings
    _collectors: Collecting
    _saves: Saves
    _budget: Budget | None
    _step: int
    _over: bool
    _has_collected: bool

    @on_either
    def start(self, model: Any = None, token_range: Any = None, rank_id: int | None = None) -> None:
        """Collect from here on, if this step and rank are to be collected.

        `model` is the network, or a list, tuple or dict of networks; levels L0 and mix need it, at the first start at
        least. The root itself is not collected. `token_range`, two numbers, collects only these runs of the model since
        `start`, counted from 0, as in the generation of tokens. `rank_id` stands in place of the framework's rank. At
        level debug this does nothing: `save` needs no start.
        """
        if self._over or self._settings.level == "debug":
            return
        self._collectors.check(model, token_range)
        if rank_id is not None and (isinstance(rank_id, bool) or not isinstance(rank_id, int) or rank_id < 0):
            raise UsageError(f"start(): rank_id is {rank_id!r}; write a whole number from 0 on, or leave it out")
        for other in _all():
            if other._collectors.is_open:
                which = "this debugger" if other is self else f"the debugger of {other._settings.dump_path}"
                raise UsageError(f"start(): {which} is already started; call its stop() first")
        ours = self._rank() if rank_id is None else rank_id
        if not self._takes(ours):
            if self._settings.takes_rank(ours or 0):
                self._collectors.expect(model)
            return
        try:
            self._collectors.open(model, partial(self._home, ours), token_range)
        except OSError as cause:
            where, why = self._home(ours).folder, cause.strerror or cause
            message = f"start(): {where} cannot be written: {why}; free some space, or choose another dump_path"
            if not self._has_collected:
                raise UsageError(message) from cause
            once(message, f"{message}; the training goes on without the dump of this step")
            return
        for other in _all():
            if other is not self:
                other._collectors.give_way()
        self._announce()

    @property
    def level(self) -> str:
        """The level that is collected: `L0`, `L1`, `L2`, `mix`, `debug`."""
        return self._settings.level

    @property
    def has_model(self) -> bool:
        """Whether `start` was given a model."""
        return self._collectors.has_model

    @on_either
    def stop(self) -> None:
        """Collect no further calls; gradients of the calls made so far are recorded until `step`. Writes the dump."""
        self._collectors.shut()

    @on_either
    def step(self) -> None:
        """End the training step: its dump is finished, numbers start anew, the next `start` is of the next step."""
        self._end_step()
        self._step += 1
        last = self._settings.last_step
        if last is not None and self._step > last and not self._over:
            self._over = True
            logger.info(
                "msprobe ends successfully. The last step to collect was %d; start, stop and step do nothing now", last
            )

    @on_either
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Save a variable of this moment under `name`, and with `save_backward` the gradients that flow back to it.

        Level debug only; at any other level this does nothing. `variable` is a tensor, a number, a text, or lists,
        tuples and dicts of them. See `docs/saving.md`.
        """
        self._save(variable, name, save_backward)

    @on_either
    def set_init_step(self, step: int) -> None:
        """Number steps from `step` on; to be called between two steps, before the loop for instance."""
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise UsageError(f"set_init_step(): {step!r} is no step; write a whole number from 0 on")
        if self._collectors.in_step:
            raise UsageError("set_init_step(): a step is being collected; call stop() and step() first")
        self._step = step

    @on_either
    def register_custom_api(self, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Collect `module.api` too, as `{api_prefix}.{api}.{n}`; the prefix is the module's name where none is given.

        Levels L1 and mix. UsageError where there is no such function.
        """
        custom.register_custom_api(module, api, api_prefix)

    @on_either
    def restore_custom_api(self, module: Any, api: str) -> None:
        """Collect `module.api` no longer."""
        custom.restore_custom_api(module, api)

    @on_either
    def forward_backward_dump_end(self) -> None:
        """The old name of `stop`."""
        self._collectors.shut()

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

    def _rank(self) -> int | None:
        return rank(self._framework)

    def _save(self, variable: Any, name: str, save_backward: bool) -> None:
        ours = self._rank()
        if self._settings.level == "debug" and not self._over and self._takes(ours):
            self._saves.save(variable, name, save_backward, lambda: self._open_saves(ours))

    def _end_step(self) -> None:
        self._collectors.end_step()
        self._saves.end_step()

    def _takes(self, rank: int | None) -> bool:
        return self._settings.takes_step(self._step) and self._settings.takes_rank(rank or 0)

    def _open_saves(self, rank: int | None) -> Writer:
        writer = self._home(rank).open()
        self._announce()
        return writer

    def _announce(self) -> None:
        if not self._has_collected:
            logger.info("dump data will be saved in %s", self._settings.dump_path)
        self._has_collected = True

    def _home(self, rank: int | None, part: str = "") -> Home:
        folder = rank_folder(self._settings.dump_path / part, self._step, rank)
        return Home(
            folder,
            {
                "task": self._settings.task,
                "level": self._settings.level,
                "framework": self._framework,
                "dump_data_dir": str(folder / TENSORS) if wishes_of(self._settings).any_file else None,
                "run": {
                    "tool": f"msprobe-ms {_ours()}",
                    "framework": f"{self._framework} {self._version()}",
                    "python": platform.python_version(),
                    "numpy": np.__version__,
                    "step": self._step,
                    "rank": rank or 0,
                    "settings": self._settings.described(),
                },
            },
            self._settings,
            self._budget,
        )


@lru_cache(1)
def _ours() -> str:
    """Of this distribution; reading its metadata takes as long as some steps of a small training."""
    return version("msprobe-ms")


def _all() -> Iterator[Debugger]:
    """Every debugger of this process, of whatever framework."""
    for of_framework in Debugger._classes:
        yield from list(of_framework._known.values())


def _end_all() -> None:
    """At the end of the process: what a debugger still holds open is finished."""
    for debugger in _all():
        debugger._end_step()
