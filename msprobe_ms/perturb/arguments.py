"""The arguments of a call: the tensors in them, which of them is perturbed, and the same arguments with other tensors.

Lists, tuples, named tuples and dicts are decomposed and rebuilt, so that a call that changes its containers
changes no one else's. A tensor inside of anything else cannot be replaced; such a call is skipped.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from msprobe.base.framework import AnyTensor
from msprobe.base.nested import is_tensor, tree_of

from .finding import Cause, Skipped

_CODE = (FunctionType, BuiltinFunctionType, MethodType)
_SEQUENCES = (list, tuple)
_MAPPINGS = (dict, OrderedDict)


@dataclass(frozen=True)
class Arguments:
    """Positional and keyword arguments; tensors are numbered in their order, from 0."""

    positional: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def tensors(self) -> list[Any]:
        """Return all tensors. Skipped where one could not be replaced, or an argument is code of the user."""
        values = [*self.positional, *self.keywords.values()]
        tree = tree_of(values)
        if tree.lost:  # for example one that contains itself
            raise Skipped(Cause.FOREIGN)
        found = list(_leaves(values))
        tensors = [value for value in found if is_tensor(value)]
        if len(tree.tensors) != len(tensors):
            raise Skipped(Cause.FOREIGN)
        if any(isinstance(value, _CODE) for value in found):
            raise Skipped(Cause.CODE)
        return tensors

    def target(self, is_floating: Callable[[Any], bool]) -> range:
        """Return the places, among all tensors, of those of the argument that is perturbed.

        That is the first positional argument that is a floating-point tensor or a container with one, or else the
        first such keyword argument. Skipped where there is none.
        """
        at = 0
        for value in (*self.positional, *self.keywords.values()):
            tensors = [leaf for leaf in _leaves([value]) if is_tensor(leaf)]
            if any(map(is_floating, tensors)):
                return range(at, at + len(tensors))
            at += len(tensors)
        raise Skipped(Cause.NO_INPUT if at else Cause.NO_TENSOR)

    def replaced(self, tensors: Sequence[AnyTensor]) -> "Arguments":
        """Return the same arguments with other tensors, in containers of their own."""
        others = iter(tensors)
        positional = tuple(_rebuilt(value, others) for value in self.positional)
        return Arguments(positional, {key: _rebuilt(value, others) for key, value in self.keywords.items()})


def _leaves(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if type(value) in _MAPPINGS:
            yield from _leaves(list(value.values()))
        elif _is_sequence(value):
            yield from _leaves(value)
        else:
            yield value


def _is_sequence(value: Any) -> bool:
    return type(value) in _SEQUENCES or (isinstance(value, tuple) and hasattr(type(value), "_fields"))


def _rebuilt(value: Any, tensors: Iterator[Any]) -> Any:
    if is_tensor(value):
        return next(tensors)
    if type(value) in _MAPPINGS:
        return type(value)((key, _rebuilt(member, tensors)) for key, member in value.items())
    if _is_sequence(value):
        members = [_rebuilt(member, tensors) for member in value]
        return type(value)(*members) if hasattr(type(value), "_fields") else type(value)(members)
    return value


def rebuilt(result: Any, tensors: Sequence[AnyTensor]) -> Any:
    """Return a call's result with other tensors, in the same structure."""
    others = iter(tensors)
    if isinstance(result, tuple) and not _is_sequence(result):  # torch.return_types, which take one iterable
        return type(result)([_rebuilt(member, others) for member in result])
    return _rebuilt(result, others)


def outputs_of(result: Any) -> list[tuple[int | None, Any]]:
    """Return the tensors of a result, each with its place in it: None where the result is one tensor."""
    if is_tensor(result):
        return [(None, result)]
    members: list[Any] = []
    if type(result) in _MAPPINGS:
        members = list(result.values())
    elif isinstance(result, tuple | list):
        members = list(result)
    return [(place, leaf) for place, member in enumerate(members) for leaf in _leaves([member]) if is_tensor(leaf)]
