"""What is collected besides modules: functions, `@jit` code, and what the user registers (L1 and mix)."""

from collections.abc import Iterator
from typing import Any

import torch

from msprobe.base.patches import Patch
from msprobe.cell_dump.function_calls import FunctionCalls
from msprobe.cell_dump.mindspore_side import jit
from msprobe.cell_dump.references import Users

from . import api, collective


def _modules(root: Any) -> Iterator[Any]:
    if isinstance(root, torch.nn.Module):
        yield from root.modules()


USERS = Users(modules_of=_modules, layers=("msadapter.nn.modules.", "mindtorch.nn.modules.", "torch.nn.modules."))
"""Whose modules refer to the layer's functions."""


class Sources(FunctionCalls):
    """The sources of one collector. Their places are taken and given back with its patches."""

    users = USERS
    other_stems = ("Jit.",)
    golden = "PyTorch, or of its API on MindSpore"

    def _functions(self) -> Iterator[Patch]:
        collective.plan(self._current, self._patches)
        yield from api.plan(self._current, self._patches, self._wanted)
        jit.plan_calls(self._current, self._patches, self._wanted)

    def _stems(self) -> Iterator[str]:
        return (stem for *_, stem in api.functions())
