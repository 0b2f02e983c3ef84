"""The settings of a stage of a training: those of its debugger, and what a file and arguments put in their place.

And where a debugger writes beside others of its process.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from os import PathLike, fspath
from pathlib import Path

from . import config_file
from .checks import shown
from .errors import SettingsError, UsageError
from .files import NAME_LIMIT, safe_name
from .log import once
from .settings import Origin, Settings, admitted, meant

_TAKEN = re.compile(r"step\d+|graph|pynative|tensordump")
"""Folders that a debugger itself makes below its dump_path."""


def stage_folder(root: Path, name: object) -> Path:
    """`root/name`. UsageError where this is no folder of its own."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"stage(): the name is {name!r:.80}; write a text such as 'actor_update'")
    if name in (".", "..") or safe_name(name) != name or len(name.encode()) > NAME_LIMIT:
        raise UsageError(f"stage(): {shown(name)} cannot be the name of a folder; leave out '/', and keep it short")
    if _TAKEN.fullmatch(name):
        raise UsageError(f"stage(): the debugger itself writes to a folder {shown(name)}; choose another name")
    return root / name


def stage_settings(
    above: Settings, name: str, config_path: "str | PathLike[str] | None", given: Mapping[str, object]
) -> Settings:
    """The settings of the stage `name` of a debugger with the settings `above`.

    A field of `given` stands in place of the file's, and that in place of the debugger's; the section of a task counts
    as one field. Where the stage writes is not to be chosen: a file's `dump_path` is passed over. Raises SettingsError
    as `load` does, and for a `dump_path` in `given`.
    """
    arguments = {key: value for key, value in given.items() if value is not None}
    origin = Origin(
        f"the settings of the debugger of {above.dump_path}" if config_path is None else fspath(config_path),
        frozenset(arguments),
        f"stage({shown(name)})",
    )
    root = stage_folder(above.dump_path, name)
    if "dump_path" in arguments:
        raise SettingsError(f"{origin.common('dump_path')}: a stage writes to {root}; leave it out")
    written = {} if config_path is None else config_file.read(config_path)
    settings = meant({**above.described(), **written, **arguments, "dump_path": root}, origin)
    if settings.level == "L2":
        raise SettingsError(
            f"{origin.common('level')}: kernels are dumped by the framework, of the process as a whole; "
            'choose "L0", "L1", "mix" or "debug" for a stage'
        )
    return admitted(settings, origin)


def apart(settings: Settings, taken: Mapping[Path, str]) -> Settings:
    """The same settings, with a dump_path that nobody writes to; said where that is another one than was asked for.

    `taken` are the folders that debuggers of this process write to, and who does. In every rank of a run the second
    debugger is parted from the first alike.
    """
    root = settings.dump_path
    if root not in taken:
        return settings
    free = next(path for n in count(2) if (path := root.with_name(f"{root.name}_{n}")) not in taken)
    once(
        f"parted {free}",
        f"PrecisionDebugger: {taken[root]} writes to {root}, so this one writes to {free}; give it a dump_path of its "
        "own",
    )
    return replace(settings, dump_path=free)
