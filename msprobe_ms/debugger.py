"""PrecisionDebugger: what the user holds. It decides whether a step is collected, and opens and shuts the collector.

A user's mistake is raised here, at construction or at `start`; after the first step nothing of ours stops the training.
"""

import atexit
import platform
from collections.abc import Callable
from functools import update_wrapper
from importlib.metadata import version
from os import PathLike
from typing import Any, ClassVar

import mindspore
import numpy as np
from mindspore.communication import GlobalComm, get_rank

from msprobe.base.errors import UsageError
from msprobe.base.log import logger, once
from msprobe.base.settings import Settings, load
from msprobe.cell_dump.collector import Collector
from msprobe.store.layout import TENSORS, rank_folder


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
            debugger = cls._known[settings] = super().__new__(cls)
            debugger._settings = settings
            debugger._collector = Collector(settings)
            debugger._step = 0
            debugger._over = debugger._has_collected = False
        cls._latest = debugger
        return debugger

    _settings: Settings
    _collector: Collector
    _step: int
    _over: bool
    _has_collected: bool

    @_OnEither
    def start(self, model: Any = None) -> None:
        """Collect from here on, if this step and rank are to be collected.

        `model` is the network, or a list or tuple of networks; levels L0 and mix need it. The root itself is not
        collected.
        """
        if self._over:
            return
        self._collector.check(model)
        for other in self._known.values():
            if other._collector.is_open:
                which = "this debugger" if other is self else f"the debugger of {other._settings.dump_path}"
                raise UsageError(f"start(): {which} is already started; call its stop() first")
        rank = get_rank() if GlobalComm.INITED else None
        if not self._settings.takes_step(self._step) or not self._settings.takes_rank(rank or 0):
            return
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise UsageError(
                "start(): graph mode (GRAPH_MODE) is not collected by this version; "
                "use mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
            )
        folder = rank_folder(self._settings.dump_path, self._step, rank)
        try:
            self._collector.open(model, folder, self._header(rank, str(folder / TENSORS)))
        except OSError as cause:
            why = cause.strerror or cause
            message = f"start(): {folder} cannot be written: {why}; free some space, or choose another dump_path"
            if not self._has_collected:
                raise UsageError(message) from cause
            once(message, f"{message}; the training goes on without the dump of this step")
            return
        if not self._has_collected:
            logger.info("dump data will be saved in %s", self._settings.dump_path)
        self._has_collected = True

    @_OnEither
    def stop(self) -> None:
        """Collect no further calls; gradients of the calls made so far are recorded until `step`. Writes the dump."""
        self._collector.shut()

    @_OnEither
    def step(self) -> None:
        """End the training step: its dump is finished, numbers start anew, the next `start` is of the next step."""
        self._collector.end_step()
        self._step += 1
        last = self._settings.last_step
        if last is not None and self._step > last and not self._over:
            self._over = True
            logger.info(
                "msprobe ends successfully. The last step to collect was %d; start, stop and step do nothing now", last
            )

    @_OnEither
    def forward_backward_dump_end(self) -> None:
        """The old name of `stop`."""
        self._collector.shut()

    def _header(self, rank: int | None, tensors: str) -> dict[str, Any]:
        return {
            "task": self._settings.task,
            "level": self._settings.level,
            "framework": "mindspore",
            "dump_data_dir": tensors if self._settings.task == "tensor" else None,
            "run": {
                "tool": f"msprobe-ms {version('msprobe-ms')}",
                "framework": f"mindspore {mindspore.__version__}",
                "python": platform.python_version(),
                "numpy": np.__version__,
                "step": self._step,
                "rank": rank or 0,
                "settings": self._settings.described(),
            },
        }


def _end_all() -> None:
    """At the end of the process: what a debugger still holds open is finished."""
    for debugger in list(PrecisionDebugger._known.values()):
        debugger._collector.end_step()


atexit.register(_end_all)
