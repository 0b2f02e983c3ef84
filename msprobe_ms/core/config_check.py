"""`from msprobe.core.config_check import ConfigChecker`, as in msprobe; the framework is loaded when used."""

from msprobe.config_check.checker import ConfigChecker

__all__ = ["ConfigChecker"]
