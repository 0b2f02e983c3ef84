"""Whether `mindstudio-probe` is installed beside this tool: both install themselves as `msprobe`.

Looks at the folders' names itself, since `importlib.metadata` would make `import msprobe` several times as slow.
"""

import os
import re
import sys
from collections.abc import Iterable

NAME = "mindstudio-probe"

# Installers spell the folder with a dash, a dot or an underscore.
_METADATA = re.compile(r"mindstudio[-_.]probe-([^-]+)(?:-.*)?\.(?:dist|egg)-info", re.IGNORECASE)


def found(folders: Iterable[str] | None = None) -> str:
    """The version of the neighbour installed in one of `folders` (default: where Python looks), empty for none."""
    for folder in sys.path if folders is None else folders:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:  # an archive, or a folder that does not exist: Python passes over it too
            continue
        for name in names:
            if match := _METADATA.fullmatch(name):
                return match[1]
    return ""


def warn() -> None:
    """Say in the log, once, that the neighbour is there and what to do about it."""
    version = found()
    if version:
        from .log import once

        once(
            "neighbour",
            f"{NAME} {version} and msprobe-ms are both installed; both are imported as `msprobe` and overwrite "
            f"each other's files. Run `pip uninstall {NAME} msprobe-ms`, then install only one of them",
        )
