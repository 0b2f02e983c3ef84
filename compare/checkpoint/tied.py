"""Weights that several layers share: a state dict of PyTorch holds them under each of its names, a checkpoint of
MindSpore under one."""

from collections.abc import Collection, Mapping
from hashlib import blake2b

from msprobe.base.errors import DumpError

from .parameter import Parameter


def tied(own: Mapping[str, Parameter], left: Collection[str]) -> list[str]:
    """Those names of `left` whose matrix is, to the bit, that of a name of `own` outside of `left`, or earlier in it.

    A matrix all of whose elements are equal says nothing. Only what looks like one of `left` is read.
    """
    looks = {_look(own[name]) for name in left if len(own[name].shape) > 1}
    known: set[tuple[object, ...]] = set()
    found: list[str] = []
    for name in sorted(own, key=lambda name: name in left):  # what has a partner first; else in order
        one = own[name]
        if _look(one) not in looks:
            continue
        try:
            array = one.load()
        except DumpError:
            continue  # who judges it says what is wrong with it
        if not array.size or (array == array.flat[0]).all():
            continue
        mark = (_look(one), blake2b(array.tobytes(), digest_size=16).digest())
        if mark in known and name in left:
            found.append(name)
        known.add(mark)
    return found


def _look(one: Parameter) -> tuple[object, ...]:
    return (one.shape, one.dtype)
