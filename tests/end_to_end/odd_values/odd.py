"""Values that a training may pass to a layer, a function or a save, and that are hard to read.

`ODD` has for each a function that makes it anew around a tensor, and what the dump must name of it: a word of the
cause, or nothing where all of it is recorded, or is no value that dumps hold.
"""

import dataclasses
import enum
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Odd(NamedTuple):
    make: Any
    named: str = ""


@dataclasses.dataclass
class Unset:
    x: Any
    y: Any = dataclasses.field(init=False)


@dataclasses.dataclass
class Property:
    x: Any
    y: Any = dataclasses.field(init=False)

    def __getattr__(self, name):
        return getattr(self, name)  # without end


class Foreign(Mapping):
    """A mapping whose reading is somebody's code."""

    def __init__(self, x):
        self._x = x

    def __getitem__(self, key):
        return self._x

    def __iter__(self):
        return iter(("a", "b"))

    def __len__(self):
        return 2


class Endless(Foreign):
    def items(self):
        n = 0
        while True:
            yield str(n), n
            n += 1


class Raising(Foreign):
    error: Any = RuntimeError("no items today")

    def items(self):
        yield "a", self._x
        raise self.error


class Leaving(Raising):
    error = GeneratorExit()


class Panic(BaseException):
    """As libraries in Rust raise it."""


class Panicking(Raising):
    error = Panic("the library lost its head")


class NoPairs(Foreign):
    def items(self):
        return [1, 2, 3]


class NoItems(Foreign):
    items = None


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


class Speechless(Raising):
    error = Silent()


def refuse(*_, **__):
    raise RuntimeError("leave me alone")


class Hostile:
    """Nothing can be asked of it."""

    __len__ = __iter__ = __str__ = __repr__ = __hash__ = __eq__ = __bool__ = __getattribute__ = refuse  # type: ignore


class Liar:
    """Says that it is what it is not."""

    @property
    def __class__(self):
        raise RuntimeError("none of your business")


class HostileMeta(type):
    __hash__ = __eq__ = __instancecheck__ = __subclasscheck__ = __getattribute__ = refuse  # type: ignore


class OfHostile(metaclass=HostileMeta):
    pass


class HostileList(list):
    __iter__ = __len__ = __getitem__ = __str__ = __repr__ = __eq__ = __bool__ = refuse  # type: ignore


class HostileDict(dict):
    items = keys = values = __iter__ = __len__ = __getitem__ = __eq__ = __bool__ = refuse  # type: ignore


class HostileTuple(tuple):
    _fields = 5
    __iter__ = __len__ = __getitem__ = __eq__ = refuse  # type: ignore


class HostileInt(int):
    __repr__ = __str__ = __index__ = __int__ = __eq__ = __lt__ = __bool__ = __abs__ = refuse  # type: ignore
    __hash__ = int.__hash__


class HostileFloat(float):
    __repr__ = __str__ = __float__ = __eq__ = __bool__ = refuse  # type: ignore
    __hash__ = float.__hash__


class HostileText(str):
    __repr__ = __str__ = __len__ = __iter__ = encode = refuse  # type: ignore


class HostileKey:
    __str__ = __repr__ = refuse  # type: ignore


class HostileArray(np.ndarray):
    dtype = property(refuse)  # type: ignore


class Colour(enum.IntEnum):
    RED = 1


class Pair(NamedTuple):
    first: Any
    second: Any


def cycle(x):
    value = [x, 7]
    value.append(value)
    value.append({"again": value})
    return value


def mapped_cycle(x):
    value = {"x": x}
    value["me"] = value
    return value


def nested(x, depth):
    value = [x]
    for _ in range(depth):
        value = [value]
    return value


def doubled(x):
    """2 to the 40 paths."""
    value = [x]
    for _ in range(40):
        value = [value, value]
    return value


def moved(x):
    value = OrderedDict(a=1, b=x)
    value.move_to_end("a")
    return value


ODD = {
    "cycle": Odd(cycle, "contains itself"),
    "mapped cycle": Odd(mapped_cycle, "contains itself"),
    "deep": Odd(lambda x: nested(x, 120), "nested deeper than 50"),
    "deeper than Python": Odd(lambda x: nested(x, 5000), "nested deeper than 50"),
    "doubled": Odd(doubled, "members"),
    "many": Odd(lambda x: [x, *range(100_000)], "90001 of them are omitted"),
    "many keys": Odd(lambda x: {"x": x, **{str(i): i for i in range(20_000)}}, "10001 of them are omitted"),
    "unset field": Odd(Unset, "AttributeError"),
    "field without end": Odd(Property, "RecursionError"),
    "mapping": Odd(Foreign),
    "endless items": Odd(Endless, "members"),
    "raising items": Odd(Raising, "no items today"),
    "generator's exit": Odd(Leaving, "GeneratorExit"),
    "panic": Odd(Panicking, "lost its head"),
    "no pairs": Odd(NoPairs, "TypeError"),
    "no items": Odd(NoItems, "TypeError"),
    "speechless": Odd(Speechless, "Silent"),
    "hostile": Odd(lambda x: [x, Hostile()]),
    "liar": Odd(lambda x: [x, Liar()]),
    "hostile class": Odd(lambda x: [x, OfHostile, OfHostile.__new__(OfHostile) if False else 0]),
    "of a hostile class": Odd(lambda x: [x, object.__new__(OfHostile)]),
    "hostile list": Odd(lambda x: HostileList([x, 1])),
    "hostile dict": Odd(lambda x: HostileDict(x=x)),
    "hostile tuple": Odd(lambda x: HostileTuple((x, 1))),
    "hostile numbers": Odd(lambda x: [x, HostileInt(3), HostileFloat(0.5), HostileText("t")]),
    "hostile keys": Odd(lambda x: {HostileKey(): x, HostileKey(): 1, HostileText("t"): 2, None: 3, (1, 2): 4}),
    "hostile array": Odd(lambda x: [x, np.arange(3.0).view(HostileArray)], "leave me alone"),
    "huge number": Odd(lambda x: [x, 10**5000, -(10**5000), {10**5000: 1}, slice(0, 10**5000)], "bits"),
    "large number": Odd(lambda x: [x, 2**100, -(2**2000)]),
    "half a surrogate": Odd(lambda x: {chr(0xDC80): x, chr(0xD800): chr(0xDCFF), "b": [b"\xff", bytearray(b"x")]}),
    "long text": Odd(lambda x: [x, "y" * 1_000_000], "string of more than"),
    "long key": Odd(lambda x: {"k" * 100_000: x, "k" * 100_001: 1}),
    "one text twice": Odd(lambda x: {1: x, "1": x + x, 1.5: 2, "1.5": 3}),
    "dots": Odd(lambda x: {"a.b": x, "a": {"b": x + x}, "a.0": 1}),
    "enum": Odd(lambda x: [x, Colour.RED, {Colour.RED: Colour}]),
    "class of another script": Odd(lambda x: [x, type('Zähl"er', (int,), {})(5)]),
    "object array": Odd(lambda x: [x, np.array([1, None, x.shape], dtype=object), np.array(["a"]), np.float128(1)]),
    "numpy": Odd(lambda x: [x, np.float16(0.5), np.int8(3), np.bool_(True), np.datetime64("2020"), np.ma.array([1.0])]),
    "sets and others": Odd(lambda x: [x, {1, 2}, frozenset(), range(3), iter([x]), (i for i in "ab"), ..., 1j, print]),
    "shared": Odd(lambda x: [Pair(x, [x]), Pair(x, (x,)), moved(x)]),
    "nothing": Odd(lambda x: [x, [], {}, (), None, float("nan"), float("inf"), -0.0, True, ""]),
}
"""By a word for each."""

LARGE = ("doubled", "many", "many keys", "endless items")
"""Those of thousands of members; once is enough."""
