"""`from msprobe.pytorch.online_dispatch import PtdbgDispatch`, as in msprobe 1.0 to 8.1; constructing it raises."""

from . import PtdbgDispatch

__all__ = ["PtdbgDispatch"]
