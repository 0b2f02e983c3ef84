"""Executing calls of MindSpore again, in PyNative mode."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import mindspore as ms
from mindspore import Tensor, context

from msprobe.base.errors import UsageError
from msprobe.base.patches import Patches
from msprobe.cell_dump.wrappers import Current

from . import jit
from .executors import api
from .randomness import CAPABILITY as RANDOM


class Execution:
    """Executes calls of MindSpore again."""

    has_places = False

    def place(self, device: int) -> Any:
        ms.set_context(mode=ms.PYNATIVE_MODE)
        if context.get_context("device_target") != "CPU":
            ms.set_device(context.get_context("device_target"), device)
        return None

    def check(self) -> None:
        if ms.get_context("mode") == ms.GRAPH_MODE:
            raise UsageError(
                'start(): task "free_benchmark" runs calls a second time from Python, which is not possible in '
                "GRAPH_MODE; set PYNATIVE_MODE"
            )

    def guard(self, current: Current, guards: Patches, patches: Patches) -> None:
        jit.plan(guards, patches, nullcontext)

    def autocast_dtype(self, tensors: Sequence[Tensor]) -> Any:
        return None

    def in_full_precision(self, tensors: Sequence[Tensor]) -> AbstractContextManager[Any]:
        return nullcontext()

    @contextmanager
    def unnoticed(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        with RANDOM.restored(tensors), api._no_grad():
            yield


CAPABILITY = Execution()
