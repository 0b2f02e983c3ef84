"""The entries that do not need a running training: the environment, the packages, and the settings in scripts.

Secrets are replaced by marks (`msprobe.base.redaction`). What is secret in one entry is secret in all of them: every
entry is made twice, the second time with the secrets of the first.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.files import read_input, user_path
from msprobe.base.object_text import object_text, without_addresses
from msprobe.base.redaction import Redactor, Strength, redacted_places
from msprobe.base.version import tool
from msprobe.mapping.user_files import load
from msprobe.store import config_pack

from .shell import TooLong, joined, options_of

_YAML = (".yaml", ".yml", ".json")
_SHELL = (".sh", ".bash")
_SCRIPT = 1 << 20  # bytes of a shell script
_SCRIPT_TEXT = 1 << 16  # characters that are searched for commands with secrets
_MOST = 100_000  # settings of one file: a few lines of yaml can expand to billions
_DEEPEST = 50


def as_json(value: object) -> bytes:
    """Return the bytes of a JSON entry."""
    return json.dumps(value, indent=1, ensure_ascii=False, default=object_text).encode("utf-8", "replace")


def entries(
    settings: Mapping[str, object],
    redactor: Redactor,
    further: Mapping[str, Mapping[str, object]] | None = None,
    **about: object,
) -> dict[str, bytes]:
    """Return the entries of a pack that need no training, with `settings` of scripts and `further` JSON entries.

    Everything is redacted by `redactor`; `pack.json` lists where. The entries of random calls are redacted already,
    as source code.
    """
    for _ in range(2):  # a secret of the last entry may be in the first one
        made: dict[str, Mapping[str, object]] = {config_pack.ENV: environment(os.environ, redactor)}
        if settings:
            made[config_pack.STATIC] = {name: redactor.setting(name, value) for name, value in settings.items()}
        for entry, held in (further or {}).items():
            is_code = config_pack.is_random(entry)
            made[entry] = held if is_code else {name: redactor.setting(name, value) for name, value in held.items()}
    redacted = {entry: places for entry, held in made.items() if (places := [*redacted_places(held)])}
    own = {"tool": tool(), "format_version": config_pack.FORMAT_VERSION, **about, config_pack.REDACTED: redacted}
    text = "".join(f"{name}={version}\n" for name, version in packages().items())
    rest = {name: as_json(held) for name, held in made.items()}
    return {
        config_pack.ABOUT: as_json(own),
        config_pack.ENV: rest.pop(config_pack.ENV),
        config_pack.PIP: text.encode(),
    } | rest


def environment(variables: Mapping[str, str], redactor: Redactor) -> dict[str, str]:
    """Return the variables without secrets."""
    return {name: redactor.variable(name, value) for name, value in sorted(variables.items())}


def packages() -> dict[str, str]:
    """Return the version of every installed distribution; of several that are called alike the one that is imported."""
    found: dict[str, tuple[str, str]] = {}
    for each in distributions():
        name = each.metadata["Name"] if each.metadata is not None else None  # a damaged one has none
        if name:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), (name, each.version))
    return {name: version for _, (name, version) in sorted(found.items())}


def of_scripts(paths: Iterable[Path], redactor: Redactor) -> dict[str, object]:
    """Return the settings of all scripts without secrets; a name that is set to several values has all of them.

    UsageError for a script that cannot be read.
    """
    return joined(pair for path in paths for pair in _of_script(path, redactor))


def _of_script(path: Path, redactor: Redactor) -> Iterator[tuple[str, object]]:
    suffix = path.suffix.lower()
    if suffix in _YAML:
        return _of_yaml(path, redactor)
    if suffix in _SHELL:
        return _of_shell(path, redactor)
    raise UsageError(f"{path}: is neither a shell script (.sh) nor a configuration (.yaml, .yml, .json)")


def _of_shell(path: Path, redactor: Redactor) -> Iterator[tuple[str, object]]:
    path = user_path(path)
    try:
        text = read_input(path, _SCRIPT).decode("utf-8-sig", "replace")
    except OSError as err:
        raise UsageError(
            f"{path}: cannot be read ({err.strerror or err}); give the launch script of the training"
        ) from err
    try:
        assigned: dict[str, list[str]] = {}
        options = [*options_of(text, assigned)]
        # An option with a harmless name may use a variable that contains a secret, or that another option uses for one.
        for name, values in assigned.items():
            redactor.setting(name, values)
        redactor.text(text[:_SCRIPT_TEXT])
        redacted = [(name, redactor.setting(name, value)) for name, value in options]
        yield from ((name, redactor.setting(name, value)) for name, value in redacted)
    except (TooLong, RecursionError) as err:
        raise UsageError(
            f"{path}: its variables exceed the maximum length of a command line; correct the script"
        ) from err


def _of_yaml(path: Path, redactor: Redactor) -> Iterator[tuple[str, object]]:
    held = load(path, "the configuration of the training")
    for count, (name, value) in enumerate(leaves(held, redactor)):
        if count == _MOST:
            raise UsageError(f"{path}: has more than {_MOST} settings; give the configuration of one training")
        yield name, value


def leaves(held: object, redactor: Redactor) -> Iterator[tuple[str, object]]:
    """Return every value that holds no others, and every empty container, without secrets.

    The name is the path of keys and of places in lists.
    """
    waiting: list[tuple[str, object, int, Strength]] = [("", held, 0, Strength.NONE)]
    while waiting:
        name, value, depth, strength = waiting.pop()
        if isinstance(value, dict | list | tuple) and value and depth < _DEEPEST:
            prefix = f"{name}." if name else ""
            inner = redactor.members(value, strength)
            waiting += reversed([(f"{prefix}{key}", each, depth + 1, own) for key, each, own in inner])
        else:
            yield str(redactor.key(name)), redactor.leaf(name, plain(value), strength)


def plain(value: Any) -> object:
    """Return a value in JSON's types; values that JSON does not support become text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return without_addresses(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return [] if value in ([], ()) else {} if value == {} else object_text(value)[:1000]
