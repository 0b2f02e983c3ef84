"""Public modules whose names are loaded on first use."""

import dis
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, NoReturn


def later(module: str, sources: Mapping[str, str], *, needs: str = "") -> Callable[[str], object]:
    """The `__getattr__` of `module`: `sources` has for each of its names the module that defines it.

    A name is kept after its first use. AttributeError for any other name. `needs` is the package that sources may need,
    and our extra that installs it: where it is missing, ModuleNotFoundError says so; after `from module import *` it
    is raised when a name is used. Other exceptions of importing a source pass unchanged.
    """

    def load(name: str) -> object:
        if name not in sources:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            source = import_module(sources[name])
        except ModuleNotFoundError as err:
            if not needs or err.name != needs:
                raise
            missing = _not_installed(f"{module}.{name}", needs)
            if _is_star_import(sys._getframe(1)):
                return Missing(missing)
            raise missing from err
        found: object = getattr(source, name)
        setattr(sys.modules[module], name, found)
        return found

    return load


def needed(package: str, what: str) -> ModuleType:
    """Import a package that `what` needs. ModuleNotFoundError with what to install."""
    try:
        return import_module(package)
    except ModuleNotFoundError as err:
        if err.name != package:
            raise
        raise _not_installed(what, package) from err


def _not_installed(what: str, package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"{what} needs {package}, which is not installed here; run `pip install 'msprobe-ms[{package}]'`, or use the "
        "Python of your training",
        name=package,
    )


class Missing:
    """The value of a name after `from module import *` if its package is not installed: any use raises the error."""

    __slots__ = ("_error",)

    def __init__(self, error: ModuleNotFoundError) -> None:
        self._error = error

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise self._error

    def __mro_entries__(self, bases: tuple[object, ...]) -> NoReturn:
        raise self._error

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # inspection of any object, by pydoc for example, asks for these
            raise AttributeError(name)
        raise self._error


def _is_star_import(frame: FrameType) -> bool:
    """Whether a frame runs `from ... import *`: one name that cannot be had must not take away the others."""
    if frame.f_globals.get("__name__") == "importlib._bootstrap":
        return True  # of any import from a package it first looks whether the names are there
    code = frame.f_code.co_code
    operation = dis.opname[code[frame.f_lasti]]
    # Python 3.12 made it one of several that share an operation; 2 is its number there
    return operation == "IMPORT_STAR" or (operation == "CALL_INTRINSIC_1" and code[frame.f_lasti + 1] == 2)
