"""Reading a mapping file that a user wrote: every mistake is said with the file, the place in it, and the remedy."""

import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from msprobe.base.checks import shown
from msprobe.base.errors import UsageError
from msprobe.base.files import CONFIGURATION, read_input


def load(path: Path, what: str) -> Any:
    """What a yaml file holds; `what` says in words what it is read for.

    UsageError where it cannot be read, is no yaml, holds nothing, or says one thing twice.
    """
    import yaml  # type: ignore[import-untyped]  # ships without types; and only who maps needs it

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # the base has no types
        """Keys that stand twice are refused: the last would win unseen."""

    def mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        loader.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} cannot be a key", key_node.start_mark)
            if key in found:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} stands twice; remove one", key_node.start_mark
                )
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        text = read_input(path, CONFIGURATION).decode("utf-8-sig")
    except OSError as err:
        raise UsageError(f"{path}: {what} cannot be read ({err.strerror or err}); check the path") from err
    except UnicodeDecodeError as err:
        raise UsageError(f"{path}: {what} is no text in UTF-8 ({err.reason}); save it as UTF-8") from err
    try:
        held = yaml.load(text, Loader)  # a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise UsageError(f"{path}: {what} is no yaml that can be read: {told(err)}; correct it there") from err
    if held is None:
        raise UsageError(f"{path}: {what} is empty; write rules into it, or leave the option out")
    return held


def told(err: Exception) -> str:
    """What the yaml reader met, in one line, and where: the file is one that the reader does not know by name."""
    return " ".join(re.sub(r'in "<(?:unicode|byte) string>",', "at", str(err)).split())


def texts(held: object, where: str, example: str) -> dict[str, str]:
    """A map of texts to texts; UsageError where it is something else."""
    if not isinstance(held, Mapping):
        raise UsageError(f"{where}: must be a map of names, as in `{example}`, not {shown(held)}")
    for key, value in held.items():
        if not (isinstance(key, str) and key and isinstance(value, str) and value):
            raise UsageError(f"{where}: {shown(key)}: {shown(value)}: both must be names, as in `{example}`")
    return dict(held)
