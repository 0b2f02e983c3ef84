"""Ranks, groups and collectives of PyTorch."""

from types import ModuleType
from typing import Any

from torch import distributed

from msprobe.frameworks.torch_names import COLLECTIVES


class Distributed:
    """Ranks, groups and collectives of PyTorch."""

    def is_initialized(self) -> bool:
        return distributed.is_available() and distributed.is_initialized()

    def rank(self) -> int:
        return distributed.get_rank() if self.is_initialized() else 0

    def size(self) -> int:
        return distributed.get_world_size() if self.is_initialized() else 1

    def group_rank(self, group: Any) -> int:
        return max(distributed.get_rank(group), 0) if self.is_initialized() else 0

    def collectives(self) -> tuple[tuple[ModuleType, ...], frozenset[str]]:
        return (distributed,), frozenset(COLLECTIVES)


CAPABILITY = Distributed()
