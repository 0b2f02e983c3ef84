"""Cache of values that are computed from an object, with the lifetime of the object."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import ref

_Object = TypeVar("_Object")
_Result = TypeVar("_Result")


def cached_by_identity(function: Callable[[_Object], _Result]) -> Callable[[_Object], _Result]:
    """Decorate a function of one object so that it is called once for each object.

    Objects are distinguished by identity. The result must not reference the object, because the cyclic garbage
    collector is disabled in commands.
    """
    results: dict[int, tuple[ref[_Object], _Result]] = {}

    @wraps(function)
    def cached(owner: _Object) -> _Result:
        key = id(owner)
        if key not in results:
            results[key] = ref(owner, lambda _: results.pop(key)), function(owner)
        return results[key][1]

    return cached
