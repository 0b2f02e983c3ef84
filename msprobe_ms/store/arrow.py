"""pyarrow, which this format needs and nothing else does."""

from collections.abc import Callable
from typing import Any

from msprobe.base.errors import DumpError, MsprobeError

INSTALL = "pip install 'msprobe-ms[columnar]'"
"""What brings it."""


def pyarrow_problem() -> str:
    """Return why this process has no pyarrow that can be used; "" where it has one."""
    try:
        import pyarrow
        import pyarrow.parquet  # a build without it would fail only when a dump is written
    except ImportError as err:
        return f"pyarrow cannot be imported ({err})"
    return "" if pyarrow.Codec.is_available("zstd") else "this pyarrow was built without zstd"


def require_pyarrow(what: str, error: Callable[[str], MsprobeError] = DumpError) -> Any:
    """Return the module `pyarrow`; an error that says what needs it and how to install it if there is none."""
    if cause := pyarrow_problem():
        raise error(f"{what}, and {cause}; run: {INSTALL}")
    import pyarrow

    return pyarrow  # with `parquet`, which `pyarrow_problem` has imported
