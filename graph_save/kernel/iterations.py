"""The framework's dump iteration, kept at our step while a step is being collected.

Left alone the framework counts an iteration for every run of a graph. Once it is told an iteration
(`_set_init_iter`) it stays there until it is told another.
"""

import mindspore
from mindspore import _c_expression

from msprobe.executors import executor

from .dump_settings import PARKED


def settle() -> None:
    """Wait until what was asked for has run: graphs of `@jit` functions run behind the Python that calls them."""
    executor.sync()


class Parking:
    """On a CPU. The framework's start and stop do nothing there, so the iteration moves to where nothing is kept."""

    first = PARKED

    def begin(self, step: int) -> None:
        """Collect from here on, into this step."""
        settle()
        _c_expression._set_init_iter(step)

    def end(self) -> None:
        """Collect nothing from here on."""
        settle()
        _c_expression._set_init_iter(PARKED)


class Switch:
    """On Ascend, by the framework's own start and stop. Never run there."""

    first = 0

    def __init__(self) -> None:
        _c_expression._dump_set_dynamic()  # from now on nothing is dumped that is not started

    def begin(self, step: int) -> None:
        """Collect from here on, into this step."""
        _c_expression._set_init_iter(step)
        _c_expression._dump_start()

    def end(self) -> None:
        """Collect nothing from here on."""
        settle()
        mindspore.runtime.synchronize()
        _c_expression._dump_stop()


class Always:
    """Dumps that the framework does not start and stop: of whole graphs, of overflows and of exceptions."""

    first = None

    def begin(self, step: int) -> None:
        """Nothing: the settings say which iterations are dumped."""

    def end(self) -> None:
        """Nothing."""


Iterations = Parking | Switch | Always
