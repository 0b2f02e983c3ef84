"""The version of this package, as it is installed."""

from functools import cache


@cache
def installed() -> str:
    """The version's number; empty for sources that are not installed. Read once, for that takes as long as a small step
    of a training."""
    from importlib.metadata import PackageNotFoundError, version  # here: importing it takes longer than all of `base`

    try:
        return version("msprobe-ms")
    except PackageNotFoundError:
        return ""


def tool() -> str:
    """What wrote a file, as its header says it: `msprobe-ms 1.2.0`."""
    return f"msprobe-ms {installed()}".rstrip()
