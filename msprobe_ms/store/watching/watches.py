"""Which settings of a collection watch, and what for."""

from msprobe.base.sections import ExceptionDumpSettings, OverflowCheckSettings, StatisticsSettings
from msprobe.base.settings import Settings

from .exceptions import Exceptions
from .front import Watch
from .overflow import Overflows
from .trigger import Triggers


def watch_of(settings: Settings) -> Watch | None:
    """Return what a debugger with these settings watches for; None if everything is recorded, or kernels are
    collected."""
    section = settings.section
    if settings.level in ("L2", "debug"):
        return None
    if isinstance(section, OverflowCheckSettings):
        return Overflows(section.overflow_nums)
    if isinstance(section, ExceptionDumpSettings):
        return Exceptions(section)
    if isinstance(section, StatisticsSettings) and section.trigger is not None:
        return Triggers(section.trigger)
    return None
