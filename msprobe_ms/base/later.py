"""A face whose names are loaded when they are asked for, so that what stands below it loads without them."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def later(face: str, homes: Mapping[str, str], *, needs: str = "") -> Callable[[str], object]:
    """The `__getattr__` of the module `face`: `homes` says for each of its names the module that holds it.

    A name is kept in the face after its first use. AttributeError for any other name. `needs` is the package that
    homes may need, and our extra that brings it: where it is not installed, a ModuleNotFoundError says so. Anything
    else that importing a home raises comes through as it is.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        try:
            home = import_module(homes[name])
        except ModuleNotFoundError as err:
            if not needs or err.name != needs:
                raise
            raise ModuleNotFoundError(
                f"{face}.{name} needs {needs}, which is not installed here; run `pip install 'msprobe-ms[{needs}]'`, "
                "or use the Python of your training",
                name=needs,
            ) from err
        found: object = getattr(home, name)
        setattr(sys.modules[face], name, found)
        return found

    return load
