"""How a field of a dataclass becomes a setting of a file.

A field carries its key in the file, the check that its value must pass, and, where the setting has no effect, the
reason. `msprobe.options` adds how the same field is set on a command line and by a keyword.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any

from .checks import Check, listed, nearest, shown
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
    """A dataclass field that a file can set.

    `key` is the key in the file where it is not the field's name. `inert` is the reason why the setting has no effect:
    for all values, or only for those for which `when` is true. At the levels of `read_at` it has its effect.
    `more` is added to the field's metadata; with `is_optional` the settings of a dump do not mention the default.
    """
    metadata = {"check": check, "key": key, "inert": inert, "when": when, "read_at": read_at, **more}
    return field(default=default, metadata=metadata)


def settings_of(cls: type) -> "dict[str, Field[Any]]":
    """The fields that the file can set, by their keys in the file."""
    return {each.metadata["key"] or each.name: each for each in fields(cls) if "check" in each.metadata}


def checked(
    cls: type, contents: Mapping[str, object], where: Where, elsewhere: Mapping[str, str], also: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The checked values for the fields of `cls`; a key that is neither one of them nor in `also` is refused.

    null means that the key is absent. `elsewhere` has the right place of keys that are known elsewhere.
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
        return f"the setting {shown(key)} is not valid here; move it to {elsewhere[key]}"
    if near := nearest(key, (*known, *elsewhere)):
        place = "" if near in known else f" in {elsewhere[near]}"
        return f"unknown setting {shown(key)}; did you mean {shown(near)}{place}?"
    return (
        f"unknown setting {shown(key)}; remove it, or choose from "
        f"{listed(known) or 'none: this section has no settings'}"
    )


def is_inert(each: "Field[Any]", level: str) -> bool:
    """Whether a setting has no effect at a level, be it for some of its values only."""
    return bool(each.metadata["inert"]) and level not in each.metadata["read_at"]
