"""The checked APIs of a dump: white and black list, from the command line or the user's configuration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.checks import nearest
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.files import read_input
from msprobe.base.log import join_names, logger
from msprobe.base.sections import PRECHECK, AccCheckSettings
from msprobe.base.setting import settings_of

from .check import Api


@dataclass(frozen=True)
class Lists:
    """Entries are an API (`Mint.add.0`), a function (`Mint.add`), or a plain name (`add`) of any family.

    An empty white list means every API.
    """

    white: tuple[str, ...] = ()
    black: tuple[str, ...] = ()

    def chosen(self, apis: Sequence[Api]) -> list[Api]:
        """Return the APIs to be checked, in their order; UsageError for an entry of the white list that means none."""
        words = {api.name: _words(api.name) for api in apis} if self.white else {}
        for entry in self.white:
            if not any(entry in found for found in words.values()):
                near = nearest(entry, sorted({word for found in words.values() for word in found}))
                raise UsageError(
                    f"white_list: the dump has no API {entry!r}" + (f"; did you mean {near}?" if near else "")
                )
        return [api for api in apis if self.has(api)]

    def has(self, api: Api) -> bool:
        """Return whether an API is checked."""
        if not self.white and not self.black:
            return True
        words = _words(api.name)
        return (not self.white or not words.isdisjoint(self.white)) and words.isdisjoint(self.black)


def _words(name: str) -> set[str]:
    stem = name.rpartition(".")[0]
    return {name, stem, stem.rpartition(".")[2]}


def split(text: str) -> tuple[str, ...]:
    """Return the entries of an option, separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


_LISTS = ("white_list", "black_list")
_OTHERS = ("error_data_path",)
"""Keys of a section that configurations for msprobe may have besides; error data is saved below -o."""


def from_configuration(path: str) -> Lists:
    """Return `white_list` and `black_list` of a config.json: of sections `run_ut` and `acc_check`, and the top level.

    SettingsError for a file that cannot be read, a list of another type, and a misspelled key. Missing lists, and
    entries that are not used, are logged.
    """
    file = Path(path)
    try:
        content = json.loads(read_input(file))
    except (OSError, ValueError) as err:
        raise SettingsError(f"{file}: cannot be read ({err}); give the config.json of msprobe") from err
    if not isinstance(content, dict):
        raise SettingsError(f"{file}: is not a JSON object; give the config.json of msprobe")
    known = (*settings_of(AccCheckSettings), *_OTHERS)
    places: list[tuple[str, dict[str, object]]] = [("", content)]
    for name in PRECHECK:
        section = content.get(name)
        if section is not None and not isinstance(section, dict):
            raise SettingsError(f"{file}, {name}: {section!r} is not an object; write {{}} or fill it")
        places += [(f"{name}.", section)] if section else []
    for name, held in places:
        for key in held:
            # A section has these keys only; the top level may have those of other tools.
            near = nearest(key, known if name else _LISTS)
            if key not in known and near:
                raise SettingsError(f"{file}, {name}{key}: unknown setting; did you mean {near!r}?")
            if name and key not in known:
                logger.warning(
                    "%s, %s%s: unknown setting, ignored; choose from %s", file, name, key, join_names(known, 9)
                )
        if name and "error_data_path" in held:
            logger.warning("%s, %serror_data_path: ignored; error data is saved below -o", file, name)
    found = {key: [entry for name, held in places for entry in _entries(file, name, held, key)] for key in _LISTS}
    if not any(key in held for _, held in places for key in _LISTS):
        logger.warning("%s: has no white_list or black_list; all APIs are checked", file)
    return Lists(*(tuple(dict.fromkeys(found[key])) for key in _LISTS))


def _entries(file: Path, place: str, held: Mapping[str, object], key: str) -> list[str]:
    found = held.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
        raise SettingsError(f"{file}: {place}{key} is {found!r}; write a list of API names")
    return found
