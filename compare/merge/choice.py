"""Read the YAML file that selects the calls and measures that are merged."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # ships without types

from msprobe.base.errors import UsageError
from msprobe.base.files import read_input
from msprobe.base.log import logger, visible
from msprobe.mapping.user_files import told

_LONGEST = 1 << 20  # bytes; a list of calls is a page
_EXAMPLE = "write a list of names or of their beginnings below `api:`, as in `- Distributed.all_reduce`"
_KEYS = ("api", "compare_index")


@dataclass(frozen=True)
class Choice:
    """`api` has parts of names, as in `Mint.add`; `compare_index` the headings of measures, empty for all."""

    api: tuple[str, ...]
    compare_index: tuple[str, ...] = ()

    def places_of(self, name: str) -> list[int]:
        """The places of the entries that a record's name contains, with a dot or the end of the name behind them."""
        text = f"{name}."
        return [at for at, entry in enumerate(self.api) if f"{entry}." in text]


def read_choice(path: Path) -> Choice:
    """Read the file; UsageError where it cannot be read or meant."""
    try:
        given: Any = yaml.safe_load(read_input(path, _LONGEST))
    except OSError as err:
        is_large = err.errno == errno.EFBIG
        hint = "name parts of names that many calls have" if is_large else "check the path behind -config"
        raise UsageError(f"{path}: cannot be read ({err.strerror or err}); {hint}") from err
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        said = told(err)[:300] if not isinstance(err, RecursionError) else "nested too deep"
        raise UsageError(f"{path}: is no YAML ({said}); {_EXAMPLE}") from err
    if not given:
        raise UsageError(f"{path}: is empty; {_EXAMPLE}")
    if not isinstance(given, dict):
        raise UsageError(f"{path}: must have the keys api and compare_index; {_EXAMPLE}")
    for key in given:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            logger.warning("%s: the key %s is ignored%s", path, visible(str(key)[:80]), hint)
    api = _texts(path, given, "api", _EXAMPLE)
    if not api:
        raise UsageError(f"{path}: api is missing or empty; {_EXAMPLE}")
    hint = "write a list of headings, as in `- Max diff`, or leave it out for all"
    return Choice(tuple(entry.rstrip(".") for entry in api), _texts(path, given, "compare_index", hint))


def _texts(path: Path, given: dict[Any, Any], key: str, hint: str) -> tuple[str, ...]:
    """A list of texts, each once; nothing where the key is missing or has no value."""
    value = given.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UsageError(f"{path}: {key} is a {type(value).__name__} and must be a list; {hint}")
    for item in value:
        if not isinstance(item, str) or not item.strip(". "):
            said = "an empty text" if isinstance(item, str) else f"a {type(item).__name__}"
            raise UsageError(f"{path}: {key} holds {said} and must be a list of texts; {hint}")
    return tuple(dict.fromkeys(item.strip() for item in value))


def check_measures(path: Path, wanted: Sequence[str], known: Sequence[str]) -> None:
    """UsageError where a measure is asked for that tables of this kind never have."""
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"they may have: {', '.join(known)}"
            raise UsageError(f"{path}: compare_index holds {name!r}, which is no measure of these tables; {hint}")
