"""Ranks, groups and collectives of MindSpore."""

from importlib import import_module
from types import ModuleType
from typing import Any

from mindspore.communication import GlobalComm, get_group_rank_from_world_rank, get_group_size, get_rank

from msprobe.frameworks.torch_names import COLLECTIVES

_COMM_FUNC = frozenset(
    str.split("""
    all_gather_into_tensor all_reduce all_to_all_single_with_output_shape all_to_all_with_output_shape barrier
    batch_isend_irecv broadcast gather_into_tensor irecv isend recv reduce reduce_scatter_tensor scatter_tensor send
    """)
)


class Distributed:
    """Ranks, groups and collectives of MindSpore."""

    def is_initialized(self) -> bool:
        return bool(GlobalComm.INITED)

    def rank(self) -> int:
        return int(get_rank()) if GlobalComm.INITED else 0

    def size(self) -> int:
        return int(get_group_size()) if GlobalComm.INITED else 1

    def group_rank(self, group: Any) -> int:
        return int(get_group_rank_from_world_rank(self.rank(), group)) if GlobalComm.INITED else 0

    def collectives(self) -> tuple[tuple[ModuleType, ...], frozenset[str]]:
        modules = [import_module("mindspore.communication.comm_func"), import_module("mindspore.mint.distributed")]
        return tuple(modules), _COMM_FUNC | frozenset(COLLECTIVES)


CAPABILITY = Distributed()
