"""How a field of a frozen dataclass becomes a setting of the configuration file.

A field carries what the file calls it, the check that its value must pass, and, where this collector has no use for it,
the reason.
"""

from collections.abc import Callable, Iterator, Mapping
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
) -> Any:
    """A dataclass field that the file can set.

    `key` is the file's word where it is not the field's name. `inert` is the reason why the setting has no effect here:
    never, or only for those values of which `when` says so. At the levels of `read_at` it has its effect.
    """
    metadata = {"check": check, "key": key, "inert": inert, "when": when, "read_at": read_at}
    return field(default=default, metadata=metadata)


def key_of(each: "Field[Any]") -> str:
    """What the file calls a field."""
    return str(each.metadata["key"] or each.name)


def settings_of(cls: type) -> "dict[str, Field[Any]]":
    """The fields that the file can set, by the file's words."""
    return {key_of(each): each for each in fields(cls) if "check" in each.metadata}


def checked(
    cls: type, given: Mapping[str, object], where: Where, homes: Mapping[str, str], beside: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The values for the fields of `cls`, checked; a key that is neither one of them nor of those `beside` is refused.

    null means *not given*. `homes` tells of keys that are known elsewhere where that is.
    """
    known = settings_of(cls)
    for key in given:
        if key not in (*known, *beside):
            raise SettingsError(f"{where(key)}: {_unknown(key, (*known, *beside), homes)}")
    values = {}
    for key, each in known.items():
        if given.get(key) is not None:
            try:
                values[each.name] = each.metadata["check"](given[key])
            except SettingsError as err:
                raise SettingsError(f"{where(key)}: {err}") from err
    return values


def _unknown(key: str, known: tuple[str, ...], homes: Mapping[str, str]) -> str:
    if key in homes:
        return f"the setting {shown(key)} has no place here; move it to {homes[key]}"
    if near := nearest(key, (*known, *homes)):
        place = "" if near in known else f" in {homes[near]}"
        return f"unknown setting {shown(key)}; did you mean {shown(near)}{place}?"
    return (
        f"unknown setting {shown(key)}; remove it, or choose from {listed(known) or 'nothing: this section is empty'}"
    )


def is_inert(each: "Field[Any]", level: str) -> bool:
    """Whether a setting has no effect at a level, be it for some of its values only."""
    return bool(each.metadata["inert"]) and level not in each.metadata["read_at"]


def inert(owner: object, level: str) -> Iterator[tuple[str, str]]:
    """The settings of `owner` that are not at their default and have no effect: the file's word, and why."""
    for key, each in settings_of(type(owner)).items():
        value, when = getattr(owner, each.name), each.metadata["when"]
        if is_inert(each, level) and (when(value) if when else value != each.default):
            yield key, each.metadata["inert"]
