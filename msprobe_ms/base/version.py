"""The version of the installed package."""

from functools import cache


@cache
def installed() -> str:
    """Return the version; empty if the package is not installed. Cached, because reading it is slow."""
    from importlib.metadata import PackageNotFoundError, version  # lazy: slow import

    try:
        return version("msprobe-ms")
    except PackageNotFoundError:
        return ""


def tool() -> str:
    """Return the name and version of this tool for headers of files: `msprobe-ms 1.2.0`."""
    return f"msprobe-ms {installed()}".rstrip()
