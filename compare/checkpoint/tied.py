"""Weights that several layers share: a state dict of PyTorch holds them under each of its names, a checkpoint of
MindSpore under one."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b

from msprobe.base.errors import DumpError

from .parameter import Parameter


def tied(own: Mapping[str, Parameter], left: Collection[str], other: Mapping[str, Parameter]) -> list[str]:
    """Those names of `left` whose matrix is, to the bit, that of a name of `own` outside of `left`, or earlier in it,
    and that stands under fewer names in `other`.

    A matrix all of whose elements are equal says nothing. Only what looks like one of `left` is read.
    """
    looks = {_look(own[name]) for name in left if len(own[name].shape) > 1}
    names_there = Counter(_marked(other, other, looks).values())
    names_here: Counter[tuple[object, ...]] = Counter()
    found: list[str] = []
    for name, mark in _marked(own, sorted(own, key=lambda name: name in left), looks).items():  # with a partner first
        names_here[mark] += 1
        if name in left and names_here[mark] > max(1, names_there[mark]):
            found.append(name)
    return found


def _marked(
    parameters: Mapping[str, Parameter], names: Iterable[str], looks: Collection[tuple[object, ...]]
) -> dict[str, tuple[object, ...]]:
    """By name, in the order of `names`: what tells the values of each matrix of one of these looks."""
    marks: dict[str, tuple[object, ...]] = {}
    for name in names:
        look = _look(parameters[name])
        if look not in looks:
            continue
        try:
            array = parameters[name].load()
        except DumpError:
            continue  # who judges it says what is wrong with it
        if array.size and not (array == array.flat[0]).all():
            marks[name] = (look, blake2b(array.tobytes(), digest_size=16).digest())
    return marks


def _look(one: Parameter) -> tuple[object, ...]:
    return (one.shape, one.dtype)
