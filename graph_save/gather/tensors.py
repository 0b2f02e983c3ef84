"""The values of the framework become records: read, measured, and put into our dump without changing them."""

import errno
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.files import FILE_MODE, NAME_LIMIT
from msprobe.base.statistic import Statistic, statistic
from msprobe.store.kernel_npy import load
from msprobe.store.kernel_value import Row, Value, spelled
from msprobe.store.npy import write_npy

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class Measured:
    """A value's record so far. `file` is its name in our dump, empty without one; `wrong` why it could not be read."""

    dtype: str = ""
    shape: tuple[int, ...] | None = None
    statistic: Statistic | None = None
    row: Row | None = None
    file: str = ""
    wrong: str = ""


def measure(value: Value, target: str | None) -> Measured:
    """Read a value's file, compute its statistics and put it under the path `target`; None: the tensor is not wanted.

    A file that is broken, or no npy, gives what statistic.csv has of it, and `wrong`. OSError where `target` cannot be
    written.
    """
    if value.path is None:
        return _from_row(value, "")
    if value.is_raw:
        why = "its dtype has no numpy form, and the framework left the bytes as they were"
        return _from_row(value, f"{value.path.name} is no npy: {why}")
    try:
        tensor = load(value.path)
    except DumpError as err:
        return _from_row(value, str(err))
    if target is not None:
        if tensor.is_plain:
            _place(value.path, target)
        else:
            write_npy(target, tensor.array)
    file = os.path.basename(target) if target is not None else ""
    return Measured(tensor.dtype, tensor.array.shape, statistic(tensor.array), file=file)


def _from_row(value: Value, wrong: str) -> Measured:
    row = value.row
    return Measured(spelled(value.dtype), row.shape if row else None, row=row, wrong=wrong)


def _place(path: Path, target: str) -> None:
    """Link the file; where the file system refuses (another disk, another owner, no links), copy it.

    Nobody writes into the files of a dump, so the raw file stays as it is; both names must go before its bytes do.
    """
    if not path.is_symlink():
        try:
            os.link(path, target)
            return
        except OSError as err:
            if err.errno not in _NO_LINKS:
                raise
    folder, name = os.path.split(target)
    part = os.path.join(folder, f"{name[5 - NAME_LIMIT :]}.part")
    try:
        shutil.copyfile(path, part)
        os.chmod(part, FILE_MODE)
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
