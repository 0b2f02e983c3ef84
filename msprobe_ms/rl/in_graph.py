"""Functions that the graph compiler of MindSpore reads instead of `MsProbe`'s methods for key data.

The compiler cannot read those: it has no class methods. Of any function it reads the innermost `__wrapped__`, and looks
its names up in `__module__`, which it imports. So these functions cost nothing where Python runs, and this module needs
no MindSpore: the names below are those of `compiled_data`.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled_as(compiled: Callable[..., Any]) -> Callable[[Function], Function]:
    """Return a decorator that has the compiler read another function; Python calls the decorated one."""

    def marked(function: Function) -> Function:
        function.__signature__ = signature(function)  # type: ignore[attr-defined]  # which follows `__wrapped__` too
        function.__wrapped__ = compiled  # type: ignore[attr-defined]  # as `functools.wraps` sets it
        compiled.__module__ = f"{__package__}.compiled_data"
        return function

    return marked


def save_data(name, data=None):  # type: ignore[no-untyped-def]  # compiled code
    """Save data in a graph, as `MsProbe.save_data`."""
    if is_wanted(name):  # type: ignore[name-defined]  # noqa: F821  # a name of `compiled_data`
        insert_save("MsProbe", name, name, data)  # type: ignore[name-defined]  # noqa: F821  # as above


def save_string_list(name, strings=None):  # type: ignore[no-untyped-def]  # compiled code
    """Do nothing in a graph except logging: strings are constants there."""
    skip_strings(name)  # type: ignore[name-defined]  # noqa: F821  # as above
    return None  # the compiler warns about a function without a return, and fails to name one of a class
