"""Ranks, groups and collectives of PyTorch's API on MindSpore."""

from types import ModuleType
from typing import Any

from torch import distributed

from msprobe.frameworks.mindspore import distributed as base
from msprobe.frameworks.torch_names import COLLECTIVES


class Distributed(base.Distributed):
    """Ranks of MindSpore, groups and collectives of PyTorch's API."""

    def group_rank(self, group: Any) -> int:
        return max(int(distributed.get_rank(group)), 0) if distributed.is_initialized() else 0

    def collectives(self) -> tuple[tuple[ModuleType, ...], frozenset[str]]:
        return (distributed,), frozenset(COLLECTIVES)


CAPABILITY = Distributed()
