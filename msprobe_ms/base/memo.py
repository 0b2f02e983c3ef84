"""What is worked out of an object once, and forgotten together with it."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import ref

_Of = TypeVar("_Of")
_Result = TypeVar("_Result")


def remembered(function: Callable[[_Of], _Result]) -> Callable[[_Of], _Result]:
    """A function of one object that is called once for each object.

    The result must not hold the object: nobody looks for circles while a command runs. Objects are told apart by
    identity, however they are compared.
    """
    known: dict[int, tuple[ref[_Of], _Result]] = {}

    @wraps(function)
    def found(of: _Of) -> _Result:
        key = id(of)
        if key not in known:
            known[key] = ref(of, lambda _: known.pop(key)), function(of)
        return known[key][1]

    return found
