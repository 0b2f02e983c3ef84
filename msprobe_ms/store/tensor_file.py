"""The file of one tensor, opened for reading and for nothing else: no pipe waits for ever, no device never ends."""

import errno
from pathlib import Path
from typing import BinaryIO

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input

from .layout import TENSORS

AGAIN = "collect this step again"
"""What to do about the broken file of a dump."""

_MISSING = f"the tensor is missing; copy {TENSORS} beside its dump.json"


def open_tensor(path: Path, *, missing: str = _MISSING, again: str = AGAIN) -> BinaryIO:
    """The open file; DumpError where it is missing, no plain file, or may not be read.

    `missing` and `again`: what to say of a file that is not there, or no file, where it is not a dump's.
    """
    try:
        return open_input(path)
    except FileNotFoundError:
        raise DumpError(f"{path}: {missing}") from None
    except OSError as err:
        remedy = again if err.errno in (errno.EINVAL, errno.EISDIR) else "check the path and its permissions"
        raise DumpError(f"{path}: cannot be opened ({err.strerror or err}); {remedy}") from err
