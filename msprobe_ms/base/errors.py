"""What can be wrong, each with a message that says what, where, and what to do now.

MsprobeError
  SettingsError     the user's configuration
  DumpError         a dump is missing, broken, or of a version we cannot read
  MappingError      a mapping file contradicts itself
  UsageError        an API was called in the wrong order
"""

from .interrupts import passes

_LONGEST = 1000
"""Characters of a reason."""


class MsprobeError(Exception):
    """Every error that msprobe raises on purpose."""


class SettingsError(MsprobeError):
    """The configuration holds something that cannot be meant."""


class DumpError(MsprobeError):
    """A dump is missing, broken, or of a version that this reader does not know."""


class MappingError(MsprobeError):
    """A mapping file contradicts itself or the dumps that it should join."""


class UsageError(MsprobeError):
    """An API or a command was called in the wrong order or with the wrong kind of thing."""


def reason(cause: BaseException) -> str:
    """An exception as one line: its class and the first line of what it says, which MindSpore frames in dashes.

    Never raises, whatever the exception's own class does; cut where it would fill pages.
    """
    kind = type.__dict__["__name__"].__get__(type(cause))
    try:
        text = str.__str__(str(cause))[:_LONGEST]
    except BaseException as raised:  # foreign code
        if passes(raised):
            raise
        return f"{kind}"
    lines = [words for line in text.splitlines() if (words := line.strip(" -"))]
    if lines and lines[0].endswith(":"):  # a heading
        lines[0] = " ".join(lines[:2])
    return f"{kind}: {lines[0]}" if lines else f"{kind}"
