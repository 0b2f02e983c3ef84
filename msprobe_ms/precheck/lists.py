"""Which APIs of a dump are checked: by white and black list, from the command line or the user's configuration."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.checks import nearest
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.files import read_input
from msprobe.base.sections import PRECHECK

from .check import Api


@dataclass(frozen=True)
class Lists:
    """Entries are an API (`Mint.add.0`), a function (`Mint.add`), or a plain name (`add`) of any family.

    An empty white list means every API.
    """

    white: tuple[str, ...] = ()
    black: tuple[str, ...] = ()

    def chosen(self, apis: Sequence[Api]) -> list[Api]:
        """The APIs to be checked, in their order; UsageError for an entry of the white list that means none."""
        words = {api.name: _words(api.name) for api in apis} if self.white else {}
        for entry in self.white:
            if not any(entry in found for found in words.values()):
                near = nearest(entry, sorted({word for found in words.values() for word in found}))
                raise UsageError(
                    f"white_list: the dump has no API {entry!r}" + (f"; did you mean {near}?" if near else "")
                )
        return [api for api in apis if self.has(api)]

    def has(self, api: Api) -> bool:
        """Whether an API is to be checked."""
        if not self.white and not self.black:
            return True
        words = _words(api.name)
        return (not self.white or not words.isdisjoint(self.white)) and words.isdisjoint(self.black)


def _words(name: str) -> set[str]:
    stem = name.rpartition(".")[0]
    return {name, stem, stem.rpartition(".")[2]}


def split(text: str) -> tuple[str, ...]:
    """The entries of an option, separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def from_configuration(path: str) -> Lists:
    """`white_list` and `black_list` of the section `run_ut` or `acc_check` of a config.json."""
    file = Path(path)
    try:
        content = json.loads(read_input(file))
    except (OSError, ValueError) as err:
        raise SettingsError(f"{file}: cannot be read ({err}); give the config.json of msprobe") from err
    section: object = next((content[key] for key in PRECHECK if isinstance(content, dict) and key in content), {})
    return Lists(*(_entries(file, section, key) for key in ("white_list", "black_list")))


def _entries(file: Path, section: object, key: str) -> tuple[str, ...]:
    found: Iterable[object] = section.get(key, []) if isinstance(section, dict) else ()
    if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
        raise SettingsError(f"{file}: {key} is {found!r}; make it a list of names of APIs")
    return tuple(found)
