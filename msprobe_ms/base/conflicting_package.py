"""Detects an installed `mindstudio-probe`, which has the same import name `msprobe`.

Searches folder names directly, because `importlib.metadata` would make `import msprobe` several times slower.
"""

import os
import re
import sys
from collections.abc import Iterable

NAME = "mindstudio-probe"

# The name of the folder has a dash, a dot or an underscore, depending on the installer.
_METADATA = re.compile(r"mindstudio[-_.]probe-([^-]+)(?:-.*)?\.(?:dist|egg)-info", re.IGNORECASE)


def installed_version(folders: Iterable[str] | None = None) -> str:
    """Return the version of `mindstudio-probe` in one of `folders` (default: `sys.path`); empty if not installed."""
    for folder in sys.path if folders is None else folders:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:  # an archive, or a folder that does not exist
            continue
        for name in names:
            if match := _METADATA.fullmatch(name):
                return match[1]
    return ""


def warn_if_installed() -> None:
    """Log, once, if `mindstudio-probe` is installed, and what to do."""
    version = installed_version()
    if version:
        from .log import log_once

        log_once(
            "neighbour",
            f"{NAME} {version} and msprobe-ms are both installed; both are imported as `msprobe` and overwrite "
            f"each other's files. Run `pip uninstall {NAME} msprobe-ms`, then install only one of them",
        )
