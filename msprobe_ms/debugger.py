"""PrecisionDebugger: what the user holds. It decides whether a step is collected, and opens and shuts the collector.

A user's mistake is raised here, at construction or at `start`; after the first step nothing of ours stops the training.
"""

import atexit
import platform
from collections.abc import Callable
from functools import lru_cache, partial, update_wrapper
from importlib.metadata import version
from os import PathLike
from typing import Any, ClassVar

import mindspore
import numpy as np
from mindspore.communication import GlobalComm, get_rank

from msprobe.base.errors import UsageError
from msprobe.base.log import logger, once
from msprobe.base.settings import Settings, load
from msprobe.base.wishes import wishes_of
from msprobe.cell_dump import custom
from msprobe.cell_dump.saves import Saves, in_graph
from msprobe.collecting import Collectors
from msprobe.store.budget import Budget
from msprobe.store.home import Home
from msprobe.store.layout import TENSORS, rank_folder
from msprobe.store.write import Writer


class _OnEither:
    """A method that may be called on the class too: it then means the debugger that was constructed last."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        update_wrapper(self, method)  # type: ignore[arg-type]  # a descriptor that carries the method's name and docstring

    def __get__(self, instance: "PrecisionDebugger | None", owner: "type[PrecisionDebugger]") -> Callable[..., Any]:
        if instance is None:
            instance = owner._latest
            if instance is None:
                raise UsageError(f"PrecisionDebugger.{self._method.__name__}: construct a PrecisionDebugger first")
        return self._method.__get__(instance, owner)  # type: ignore[no-any-return]  # bound by the function itself


class PrecisionDebugger:
    """Collects a training step by step; see `docs/collecting.md`.

    `config_path` names a config.json; `task`, `dump_path`, `level` and `step` override what it says. Constructing
    again with equal settings gives the same debugger. Raises SettingsError where the settings cannot be meant,
    UsageError where another debugger writes to the same dump_path.
    """

    _known: ClassVar[dict[Settings, "PrecisionDebugger"]] = {}
    _latest: ClassVar["PrecisionDebugger | None"] = None

    def __new__(
        cls,
        config_path: "str | PathLike[str] | None" = None,
        task: str | None = None,
        dump_path: "str | PathLike[str] | None" = None,
        level: str | None = None,
        step: list[int | str] | None = None,
    ) -> "PrecisionDebugger":
        settings = load(config_path, task=task, dump_path=dump_path, level=level, step=step)
        debugger = cls._known.get(settings)
        if debugger is None:
            for other in cls._known:
                if other.dump_path == settings.dump_path:
                    raise UsageError(
                        f"PrecisionDebugger: another debugger, with other settings, writes to {settings.dump_path}; "
                        "give this one a dump_path of its own"
                    )
            # before the debugger is known, for a kernel dump that comes too late is refused
            collectors = Collectors(settings)
            debugger = cls._known[settings] = super().__new__(cls)
            debugger._settings = settings
            debugger._collectors = collectors
            debugger._budget = Budget(settings.disk_budget) if settings.disk_budget else None
            debugger._saves = Saves(settings)
            debugger._step = 0
            debugger._over = debugger._has_collected = False
        cls._latest = debugger
        return debugger

    _settings: Settings
    _collectors: Collectors
    _saves: Saves
    _budget: Budget | None
    _step: int
    _over: bool
    _has_collected: bool

    @_OnEither
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
        for other in self._known.values():
            if other._collectors.is_open:
                which = "this debugger" if other is self else f"the debugger of {other._settings.dump_path}"
                raise UsageError(f"start(): {which} is already started; call its stop() first")
        rank = _rank() if rank_id is None else rank_id
        if not self._takes(rank):
            if self._settings.takes_rank(rank or 0):
                self._collectors.expect(model)
            return
        try:
            self._collectors.open(model, partial(self._home, rank), token_range)
        except OSError as cause:
            where, why = self._home(rank).folder, cause.strerror or cause
            message = f"start(): {where} cannot be written: {why}; free some space, or choose another dump_path"
            if not self._has_collected:
                raise UsageError(message) from cause
            once(message, f"{message}; the training goes on without the dump of this step")
            return
        self._announce()

    @property
    def level(self) -> str:
        """The level that is collected: `L0`, `L1`, `L2`, `mix`, `debug`."""
        return self._settings.level

    @property
    def has_model(self) -> bool:
        """Whether `start` was given a model."""
        return self._collectors.has_model

    @_OnEither
    def stop(self) -> None:
        """Collect no further calls; gradients of the calls made so far are recorded until `step`. Writes the dump."""
        self._collectors.shut()

    @_OnEither
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

    @_OnEither
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Save a variable of this moment under `name`, and with `save_backward` the gradients that flow back to it.

        Level debug only; at any other level this does nothing. `variable` is a tensor, a number, a text, or lists,
        tuples and dicts of them. See `docs/saving.md`.
        """
        if in_graph():  # the graph compiler reads no further
            return
        rank = _rank()
        if self._settings.level == "debug" and not self._over and self._takes(rank):
            self._saves.save(variable, name, save_backward, lambda: self._open_saves(rank))

    @_OnEither
    def set_init_step(self, step: int) -> None:
        """Number steps from `step` on; to be called between two steps, before the loop for instance."""
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise UsageError(f"set_init_step(): {step!r} is no step; write a whole number from 0 on")
        if self._collectors.in_step:
            raise UsageError("set_init_step(): a step is being collected; call stop() and step() first")
        self._step = step

    @_OnEither
    def register_custom_api(self, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Collect `module.api` too, as `{api_prefix}.{api}.{n}`; the prefix is the module's name where none is given.

        Levels L1 and mix. UsageError where there is no such function.
        """
        custom.register_custom_api(module, api, api_prefix)

    @_OnEither
    def restore_custom_api(self, module: Any, api: str) -> None:
        """Collect `module.api` no longer."""
        custom.restore_custom_api(module, api)

    @_OnEither
    def forward_backward_dump_end(self) -> None:
        """The old name of `stop`."""
        self._collectors.shut()

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
                "framework": "mindspore",
                "dump_data_dir": str(folder / TENSORS) if wishes_of(self._settings).any_file else None,
                "run": {
                    "tool": f"msprobe-ms {_version()}",
                    "framework": f"mindspore {mindspore.__version__}",
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
def _version() -> str:
    """Of this distribution; reading its metadata takes as long as some steps of a small training."""
    return version("msprobe-ms")


def _rank() -> int | None:
    """The framework's rank of this process; None where no communication is initialised."""
    return get_rank() if GlobalComm.INITED else None


def _end_all() -> None:
    """At the end of the process: what a debugger still holds open is finished."""
    for debugger in list(PrecisionDebugger._known.values()):
        debugger._end_step()


atexit.register(_end_all)
