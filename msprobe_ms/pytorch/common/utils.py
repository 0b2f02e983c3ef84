"""`from msprobe.pytorch.common.utils import seed_all`, as in msprobe 8.1."""

from msprobe.pytorch import seed_all

__all__ = ["seed_all"]
