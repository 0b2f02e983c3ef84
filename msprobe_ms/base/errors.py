"""What can be wrong, each with a message that says what, where, and what to do now.

MsprobeError
  SettingsError     the user's configuration
  DumpError         a dump is missing, broken, or of a version we cannot read
  MappingError      a mapping file contradicts itself
  UsageError        an API was called in the wrong order
"""


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
