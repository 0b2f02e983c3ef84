"""What a training imports whatever its framework is: `from msprobe.core import SingleSave`."""

from msprobe.single_save import SingleSave

__all__ = ["SingleSave"]
