"""What is collected besides modules: functions, and what the user registers (L1 and mix)."""

from collections.abc import Iterator
from typing import Any

import torch

from msprobe.base.patches import Patch
from msprobe.cell_dump.function_calls import FunctionCalls
from msprobe.cell_dump.references import Users

from . import api


def _modules(root: Any) -> Iterator[Any]:
    if isinstance(root, torch.nn.Module):
        yield from root.modules()


USERS = Users(modules_of=_modules, layers=("torch.nn.modules.", "torch.nn.attention.", "torch.ao.nn."))
"""Whose modules refer to PyTorch's functions."""


class Sources(FunctionCalls):
    """The sources of one collector. Their places are taken and given back with its patches."""

    users = USERS
    golden = "PyTorch"

    def _functions(self) -> Iterator[Patch]:
        yield from api.plan(self._current, self._patches, self._wanted)

    def _stems(self) -> Iterator[str]:
        return (stem for *_, stem in api.functions())
