"""Dataclass fields that are settings of a configuration file.

The metadata of a field has its key in the file, the check of its value, and, if the setting has no effect, the reason.
`msprobe.options` adds options of the command line and keyword arguments.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any

from .checks import Check, nearest, quoted, quoted_list
from .errors import SettingsError

Where = Callable[[str], str]


def setting(
    check: Check,
    default: Any = MISSING,
    *,
    key: str = "",
    inert: str = "",
    when: Callable[[Any], bool] | None = None,
    read_at: tuple[str, ...] = (),
    **more: object,
) -> Any:
    """Return a dataclass field that a file can set.

    check : check of its value.
    default : default value; required without.
    key : key in the file, by default the name of the field.
    inert : the reason if the setting has no effect.
    when : values for which it has no effect, by default all.
    read_at : levels at which it has an effect.
    more : added to the metadata of the field. With `is_optional`, the default is omitted in the settings of a dump.
    """
    metadata = {"check": check, "key": key, "inert": inert, "when": when, "read_at": read_at, **more}
    return field(default=default, metadata=metadata)


def settings_of(cls: type) -> "dict[str, Field[Any]]":
    """Return the fields that the file can set, by key."""
    return {each.metadata["key"] or each.name: each for each in fields(cls) if "check" in each.metadata}


def checked(
    cls: type, contents: Mapping[str, object], where: Where, elsewhere: Mapping[str, str], also: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the checked values of the fields of `cls`.

    contents : the contents of the file; null means that a key is absent.
    where : location of a key, for messages.
    elsewhere : location of keys that are valid elsewhere.
    also : other valid keys.

    SettingsError for other keys and invalid values.
    """
    known = settings_of(cls)
    for key in contents:
        if key not in (*known, *also):
            names = tuple(dict.fromkeys((*known, *also)))
            raise SettingsError(f"{where(key)}: {_unknown(key, names, elsewhere)}")
    values = {}
    for key, each in known.items():
        if contents.get(key) is not None:
            try:
                values[each.name] = each.metadata["check"](contents[key])
            except SettingsError as err:
                raise type(err)(f"{where(key)}: {err}") from err
    return values


def _unknown(key: str, known: tuple[str, ...], elsewhere: Mapping[str, str]) -> str:
    if key in elsewhere:
        return f"the setting {quoted(key)} is not valid here; move it to {elsewhere[key]}"
    if near := nearest(key, (*known, *elsewhere)):
        place = "" if near in known else f" in {elsewhere[near]}"
        return f"unknown setting {quoted(key)}; did you mean {quoted(near)}{place}?"
    return (
        f"unknown setting {quoted(key)}; remove it, or choose from "
        f"{quoted_list(known) or 'none: this section has no settings'}"
    )


def is_inert(each: "Field[Any]", level: str) -> bool:
    """Return whether a setting has no effect at a level, for all or some of its values."""
    return bool(each.metadata["inert"]) and level not in each.metadata["read_at"]
