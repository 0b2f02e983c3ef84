"""`from msprobe.core.single_save.single_saver import SingleSave`, as in msprobe 8.1."""

from msprobe.single_save import SingleSave

__all__ = ["SingleSave"]
