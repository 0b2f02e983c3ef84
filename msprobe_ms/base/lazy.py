"""Modules whose attributes are imported on first use."""

import dis
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, NoReturn


def lazy_attributes(module: str, sources: Mapping[str, str], *, needs: str = "") -> Callable[[str], object]:
    """Return the `__getattr__` of `module`.

    module : name of the module.
    sources : name of the defining module, by attribute. Attributes are cached after their first use.
    needs : package that the sources may require, and the extra that installs it. If it is missing, the returned
        function raises ModuleNotFoundError; after `from module import *` an attribute raises it when it is used.

    AttributeError for other names. Other exceptions of importing a source are not changed.
    """

    def load(name: str) -> object:
        if name not in sources:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            source = import_module(sources[name])
        except ModuleNotFoundError as err:
            if not needs or err.name != needs:
                raise
            missing = _not_installed_error(f"{module}.{name}", needs)
            if _is_star_import(sys._getframe(1)):
                return Missing(missing)
            raise missing from err
        found: object = getattr(source, name)
        setattr(sys.modules[module], name, found)
        return found

    return load


def require(package: str, what: str) -> ModuleType:
    """Import a package that `what` requires. ModuleNotFoundError states how to install it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as err:
        if err.name != package:
            raise
        raise _not_installed_error(what, package) from err


def _not_installed_error(what: str, package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(
        f"{what} needs {package}, which is not installed here; run `pip install 'msprobe-ms[{package}]'`, or use the "
        "Python of your training",
        name=package,
    )


class Missing:
    """An attribute after `from module import *` whose package is not installed: any use raises the error."""

    __slots__ = ("_error",)

    def __init__(self, error: ModuleNotFoundError) -> None:
        self._error = error

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise self._error

    def __mro_entries__(self, bases: tuple[object, ...]) -> NoReturn:
        raise self._error

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # used by tools that inspect objects, for example pydoc
            raise AttributeError(name)
        raise self._error


def _is_star_import(frame: FrameType) -> bool:
    """Return whether a frame runs `from ... import *`, where a missing attribute must not affect the others."""
    if frame.f_globals.get("__name__") == "importlib._bootstrap":
        return True  # the import system first checks whether a package has the names
    code = frame.f_code.co_code
    operation = dis.opname[code[frame.f_lasti]]
    # Since Python 3.12 it shares an instruction with others, with the argument 2.
    return operation == "IMPORT_STAR" or (operation == "CALL_INTRINSIC_1" and code[frame.f_lasti + 1] == 2)
