"""By which name a function is called: read from the code of its caller, once for each place in it.

A function may have several public names: `torch.conv2d` and `torch.nn.functional.conv2d` are one object, as are
`ops.relu` and `mint.nn.functional.relu`. The call is recorded under the name that the training wrote, also where the
same code assigns it to a variable first. Where that is a reference of another kind (`self.act(x)`, a dict, a
`partial`), the name itself decides if it is one of the public names, then whether the caller belongs to the same
namespace, then the order of the namespaces.

Modules of a framework call the functions that their own functions are made of by private references. These are no calls
of the training, and not recorded, except in the modules that count as users, the layers. What a framework calls for
somebody else, by a local variable, an attribute or a closure, is the user's.
"""

import dis
import sys
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from msprobe.base.in_place import is_trampoline
from msprobe.frameworks.libraries import LIBRARIES

_ROOTS = frozenset(
    [
        "LOAD_CLASSDEREF",
        "LOAD_DEREF",
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_GLOBAL",
        "LOAD_NAME",
        "LOAD_FROM_DICT_OR_DEREF",
    ]
)
_GLOBALS = frozenset(["LOAD_GLOBAL", "LOAD_NAME"])
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])

_SILENT = frozenset(["CACHE", "EXTENDED_ARG", "KW_NAMES", "NOP"])

_MAX_PLACES = 100_000
"""Places in code that are remembered; a training that makes code as it goes would fill the memory."""


@dataclass(frozen=True)
class Users:
    """Which modules of a framework call functions as its users do.

    `layers` are beginnings of modules' names, `aliases` whole names. A function may be public in two namespaces; what
    begins with `second` belongs to the second one.
    """

    layers: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    second: str = "\0"

    def has(self, module: str) -> bool:
        """Return whether a module of this name counts as a user."""
        return not _is_framework(module) or module in self.aliases or module.startswith(self.layers)


class Name(NamedTuple):
    """A public name of a function, and how its calls are recorded; `stem` is None where they are not."""

    owner: Any
    name: str
    stem: str | None


class Reference(NamedTuple):
    """How code refers to what it calls: a variable and names of attributes; none where it is anything else."""

    is_global: bool
    chain: tuple[str, ...]


_UNKNOWN = Reference(False, ())


class CallSites:
    """Finds the stem of the calls of functions."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._known: dict[tuple[int, int, int], str | None] = {}
        self._kept: dict[int, object] = {}  # so that an identity is never used again for another one

    def stem_of(self, names: tuple[Name, ...], frames: int) -> str | None:
        """Return the stem for a call of the function with these names; None if it is not to be recorded.

        `frames` is the number of frames between the function's caller and the caller of this method.
        """
        frame = sys._getframe(frames + 2)
        key = id(names), id(frame.f_code), frame.f_lasti
        try:
            return self._known[key]
        except KeyError:
            return self._found(names, frame)

    def _found(self, names: tuple[Name, ...], frame: FrameType | None) -> str | None:
        while frame is not None and is_inserted(frame):  # another tool of ours sees the function's calls, too
            frame = frame.f_back
        if frame is None:
            return self._likeliest(names, "", "")
        if len(self._known) >= _MAX_PLACES:
            self._known.clear()
            self._kept.clear()
        code = frame.f_code
        self._kept[id(code)], self._kept[id(names)] = code, names
        key = id(names), id(code), frame.f_lasti
        self._known[key] = stem = self._stem(names, frame)
        return stem

    def _stem(self, names: tuple[Name, ...], frame: FrameType) -> str | None:
        caller = frame.f_globals.get("__name__")
        caller = caller if type(caller) is str else ""
        reference = reference_at(frame.f_code, frame.f_lasti)
        name = reference.chain[-1] if reference.chain else ""
        namespace, owner = _namespace(reference, frame, caller)
        for each in names:
            if each.name == name and vars(each.owner) is namespace:
                return each.stem
        if len(reference.chain) == 1:
            for assigned in references_assigned(frame.f_code, name):
                namespace, _ = _namespace(assigned, frame, caller)
                for each in names:
                    if each.name == assigned.chain[-1] and vars(each.owner) is namespace:
                        return each.stem
        is_private = reference.is_global and _is_framework(caller) and not self._users.has(owner)
        return None if is_private else self._likeliest(names, name, owner)

    def _likeliest(self, names: tuple[Name, ...], name: str, module: str) -> str | None:
        """Return the stem of the name that a reference in a module resembles most, among those that are recorded."""
        second = self._users.second

        def distance(each: Name) -> tuple[bool, bool]:
            return each.name != name, each.owner.__name__.startswith(second) != module.startswith(second)

        wanted = [each for each in names if each.stem is not None]
        return min(wanted, key=distance).stem if wanted else None


def _is_framework(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES


def _namespace(reference: Reference, frame: FrameType, caller: str) -> tuple[dict[str, Any] | None, str]:
    """Return the variables of the module that a reference names, and its name; None if it is not all modules.

    The name is then that of the last module, or of the caller's.
    """
    if len(reference.chain) < 2:
        return (frame.f_globals if reference.is_global else None), caller
    root, *between = reference.chain[:-1]
    value: Any = frame.f_globals.get(root) if reference.is_global else frame.f_locals.get(root)
    module = caller
    for name in (*between, None):
        if not isinstance(value, ModuleType):
            return None, module
        module = value.__name__
        if name is not None:
            value = vars(value).get(name)
    return vars(value), module


@lru_cache(64)
def _instructions(code: CodeType) -> list[dis.Instruction]:
    return [each for each in dis.get_instructions(code) if each.opname not in _SILENT]


def reference_at(code: CodeType, at: int) -> Reference:
    """Return how the code refers to what it calls by the instruction at this offset.

    The call and the reference to its function begin at the same column; of what begins there and ends before the call,
    the reference ends last. Python 3.10 does not know columns: there it is found by the height of the stack.
    """
    instructions = _instructions(code)
    # a frame that waits for another Python frame is at the end of the call's cache entries
    here = bisect_right(instructions, at, key=attrgetter("offset")) - 1
    if here < 0:
        return _UNKNOWN
    last = _by_column(instructions, here) if sys.version_info >= (3, 11) else _by_height(instructions, here)
    return _reference(instructions, last)


def references_assigned(code: CodeType, variable: str) -> list[Reference]:
    """Return the references that the code assigns to a variable."""
    every = _instructions(code)
    ends = [i - 1 for i, each in enumerate(every) if each.opname.startswith("STORE_") and each.argval == variable]
    return [found for end in ends if (found := _reference(every, end)).chain]


def _reference(instructions: list[dis.Instruction], last: int | None) -> Reference:
    """Return the reference whose last part is loaded by the instruction at an index."""
    names: list[str] = []
    while last is not None and last >= 0 and instructions[last].opname in _ATTRIBUTES:
        names.append(str(instructions[last].argval))
        last -= 1
    if last is None or last < 0 or instructions[last].opname not in _ROOTS:
        return Reference(False, (*names[:1],))
    names.append(str(instructions[last].argval))
    return Reference(instructions[last].opname in _GLOBALS, tuple(reversed(names)))


def _by_column(instructions: list[dis.Instruction], call: int) -> int | None:
    of_call = instructions[call].positions  # type: ignore[attr-defined]  # from Python 3.11 on
    if of_call is None or of_call.col_offset is None:
        return None
    found, end = None, (-1, -1)
    for i in range(call):
        of = instructions[i].positions  # type: ignore[attr-defined]  # from Python 3.11 on
        if of is None or (of.lineno, of.col_offset) != (of_call.lineno, of_call.col_offset):
            continue
        here = of.end_lineno or 0, of.end_col_offset or 0
        if end <= here < (of_call.end_lineno or 0, of_call.end_col_offset or 0):
            found, end = i, here
    return found


def _by_height(instructions: list[dis.Instruction], call: int) -> int | None:
    """Return the index of what puts the function on the stack, where no jump is between it and its call."""
    name, count = instructions[call].opname, instructions[call].arg or 0
    if name == "CALL_FUNCTION_EX":
        count = 1 + (count & 1)
    elif name == "CALL_FUNCTION_KW":
        count += 1
    elif name not in ("CALL_FUNCTION", "CALL_METHOD"):
        return None
    above = 0  # what is on the stack above the function
    for i in range(call - 1, -1, -1):
        if above == count:
            return i
        above += dis.stack_effect(instructions[i].opcode, instructions[i].arg, jump=False)
    return None


def is_inserted(frame: FrameType) -> bool:
    """Return whether a frame is there because of msprobe; globals of code that `exec` runs may have no name."""
    name = frame.f_globals.get("__name__")
    return (type(name) is str and name.startswith("msprobe.")) or is_trampoline(frame.f_code)
