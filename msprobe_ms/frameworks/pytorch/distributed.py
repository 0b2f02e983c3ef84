"""Ranks, groups and collectives of PyTorch."""

from types import ModuleType
from typing import Any

from torch import distributed

from msprobe.base.framework import rank
from msprobe.frameworks.torch_names import COLLECTIVES


class Distributed:
    """Ranks, groups and collectives of PyTorch."""

    def rank(self) -> int:
        return rank("pytorch") or 0

    def group_rank(self, group: Any) -> int:
        is_ready = distributed.is_available() and distributed.is_initialized()
        return max(distributed.get_rank(group), 0) if is_ready else 0

    def collectives(self) -> tuple[tuple[ModuleType, ...], frozenset[str]]:
        return (distributed,), frozenset(COLLECTIVES)


CAPABILITY = Distributed()
