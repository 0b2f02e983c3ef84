"""What can be packed without a running training: the environment, the packages, and the settings in scripts.

Secrets are left out (`msprobe.base.redaction`).
"""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from msprobe.base import redaction
from msprobe.base.errors import UsageError
from msprobe.base.files import read_input, user_path
from msprobe.base.object_text import object_text, without_addresses
from msprobe.base.version import tool
from msprobe.mapping.user_files import load
from msprobe.store import config_pack

from .shell import TooLong, joined, options_of

_YAML = (".yaml", ".yml", ".json")
_SHELL = (".sh", ".bash")
_SCRIPT = 1 << 20  # bytes of a shell script
_MOST = 100_000  # settings of one file: in yaml a few lines can stand for billions
_DEEPEST = 50

KNOWN_VARIABLES = ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""Their values may be names of devices, which look like keys."""


def as_json(value: object) -> bytes:
    """The bytes of a JSON entry."""
    return json.dumps(value, indent=1, ensure_ascii=False, default=object_text).encode("utf-8", "replace")


def entries(paths: Iterable[Path], **about: object) -> dict[str, bytes]:
    """The entries of a pack that need no training. UsageError for a script that cannot be read."""
    found = {
        config_pack.ABOUT: as_json({"tool": tool(), "format_version": config_pack.FORMAT_VERSION, **about}),
        config_pack.ENV: as_json(environment(os.environ)),
        config_pack.PIP: "".join(f"{name}={version}\n" for name, version in packages().items()).encode(),
    }
    if settings := of_scripts(paths):
        found[config_pack.STATIC] = as_json(settings)
    return found


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables, secrets marked in their place."""
    return {
        name: redaction.variable(name, value, is_known=name in KNOWN_VARIABLES)
        for name, value in sorted(variables.items())
    }


def packages() -> dict[str, str]:
    """The version of every installed distribution; of several that are called alike the one that is imported."""
    found: dict[str, tuple[str, str]] = {}
    for each in distributions():
        name = each.metadata["Name"] if each.metadata is not None else None  # a damaged one has none
        if name:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), (name, each.version))
    return {name: version for _, (name, version) in sorted(found.items())}


def of_scripts(paths: Iterable[Path]) -> dict[str, object]:
    """The settings of all scripts; a name that they set to several values has all. UsageError as of `entries`."""
    return joined((name, redaction.setting(name, value)) for path in paths for name, value in _of_script(path))


def _of_script(path: Path) -> Iterator[tuple[str, object]]:
    suffix = path.suffix.lower()
    if suffix in _YAML:
        return _of_yaml(path)
    if suffix in _SHELL:
        return _of_shell(path)
    raise UsageError(f"{path}: is neither a shell script (.sh) nor a configuration (.yaml, .yml, .json)")


def _of_shell(path: Path) -> Iterator[tuple[str, object]]:
    path = user_path(path)
    try:
        text = read_input(path, _SCRIPT).decode("utf-8-sig", "replace")
    except OSError as err:
        raise UsageError(f"{path}: cannot be read ({err.strerror or err}); give the script that launches") from err
    try:
        yield from options_of(text)
    except (TooLong, RecursionError) as err:
        raise UsageError(f"{path}: its variables grow beyond what a command line can hold; correct the script") from err


def _of_yaml(path: Path) -> Iterator[tuple[str, object]]:
    held = load(path, "the configuration of the training")
    for count, (name, value) in enumerate(leaves(held)):
        if count == _MOST:
            raise UsageError(f"{path}: has more than {_MOST} settings; give the configuration of one training")
        yield name, value


def leaves(held: object) -> Iterator[tuple[str, object]]:
    """Every value that holds no others, and every empty container, by its path of keys and of places in lists."""
    waiting: list[tuple[str, object, int]] = [("", held, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        if isinstance(value, dict | list | tuple) and value and depth < _DEEPEST:
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            prefix = f"{name}." if name else ""
            waiting += reversed([(f"{prefix}{key}", each, depth + 1) for key, each in inner])
        else:
            yield name, plain(value)


def plain(value: Any) -> object:
    """A value as JSON has it; what JSON has no form for becomes text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return without_addresses(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return [] if value in ([], ()) else {} if value == {} else object_text(value)[:1000]
