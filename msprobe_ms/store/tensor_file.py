"""The file of one tensor, opened for reading and for nothing else: no pipe waits for ever, no device never ends."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from msprobe.base.errors import DumpError

from .layout import TENSORS

AGAIN = "collect this step again"
"""What to do about the broken file of a dump."""

_MISSING = f"the tensor is missing; copy {TENSORS} beside its dump.json"


def open_tensor(path: Path, *, missing: str = _MISSING, again: str = AGAIN) -> BinaryIO:
    """The open file; DumpError where it is missing, no plain file, or may not be read.

    `missing` and `again`: what to say of a file that is not there, or no file, where it is not a dump's.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for ever
            raise DumpError(f"{path}: cannot be opened (it is no plain file); {again}")
        return open(path, "rb")
    except FileNotFoundError:
        raise DumpError(f"{path}: {missing}") from None
    except (OSError, ValueError) as err:  # ValueError: a name that no file can have
        why = (err.strerror if isinstance(err, OSError) else None) or err  # its text has the path once more
        raise DumpError(f"{path}: cannot be opened ({why}); check the path and its permissions") from err
