"""A face whose names are loaded when they are asked for, so that what stands below it loads without them."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def later(face: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of the module `face`: `homes` says for each of its names the module that holds it.

    A name is kept in the face after its first use. AttributeError for any other name; what importing its home raises
    comes through as it is.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        found: object = getattr(import_module(homes[name]), name)
        setattr(sys.modules[face], name, found)
        return found

    return load
