"""Facts as JSON has them."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Integral, Real
from typing import Any

from msprobe.base.phrase import Phrase

from .kind import Kind


def as_data(value: object) -> Any:
    """Return a value as JSON types.

    A dataclass is an object of its fields, a named tuple one of the fields that differ from their defaults or have
    none; an enum is its value, a kind its name, a phrase its English text. NaN and infinities are the texts "nan",
    "inf" and "-inf". Any other object is its text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, str):
        return value
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, Kind):
        return value.name
    if isinstance(value, Phrase):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): as_data(one) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        defaults = getattr(value, "_field_defaults", {})
        members = zip(value._fields, value, strict=True)
        return {name: as_data(one) for name, one in members if name not in defaults or one != defaults[name]}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_data(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: as_data(getattr(value, each.name)) for each in fields(value)}
    return str(value)
