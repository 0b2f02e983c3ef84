"""Exceptions of msprobe. Messages state the problem, its location, and the solution.

MsprobeError
  SettingsError     the user's configuration
  DumpError         a dump is missing, broken, or of an unsupported version
  MappingError      a mapping file contradicts itself
  UsageError        an API was called in the wrong order
"""

from .interrupts import must_propagate

_MAX_REASON_LENGTH = 1000
"""Maximum number of characters of a reason."""


class MsprobeError(Exception):
    """Base class of the errors that msprobe raises."""


class SettingsError(MsprobeError):
    """Raised when a setting is invalid."""


class DumpError(MsprobeError):
    """Raised when a dump is missing, broken, or of an unsupported version."""


class MappingError(MsprobeError):
    """Raised when a mapping file contradicts itself or the dumps."""


class UsageError(MsprobeError):
    """Raised when an API or a command is called in the wrong order or with invalid arguments."""


def reason(cause: BaseException) -> str:
    """Return an exception as one line: its class and the first line of its message, without MindSpore's dashes.

    Long messages are truncated. Never raises, even if the exception's `__str__` does.
    """
    kind = type.__dict__["__name__"].__get__(type(cause))
    try:
        text = str.__str__(str(cause))[:_MAX_REASON_LENGTH]
    except BaseException as raised:  # foreign code
        if must_propagate(raised):
            raise
        return f"{kind}"
    lines = [words for line in text.splitlines() if (words := line.strip(" -"))]
    if lines and lines[0].endswith(":"):  # a heading
        lines[0] = " ".join(lines[:2])
    return f"{kind}: {lines[0]}" if lines else f"{kind}"
