"""Functions whose calls go through a replacement while every name still holds the same object.

A training may look at a function as well as call it: `cfg.act is F.gelu`, `FUSED[F.gelu]`, `fn in (F.relu, F.gelu)`.
So a function of a framework is not replaced at its name; the object itself calls something else for a while:

- A function of Python gets another `__code__`, a trampoline. It has the name, file, line and free variables of the
  original, so that its source is found, and `__signature__` says its parameters.
- A function of C (`torch.relu`) and a method of C (`torch.Tensor.add`) get another definition, by the extension
  `_in_place.c`. Name, documentation, hash, equality and pickle stay those of the original.

All calls arrive, by whatever reference: an import made long before, a closure, a default argument, a dict, a `partial`.
A twin of the function does what it did before.

What cannot be changed in place is replaced at its name, as an attribute: slots of classes (`torch.Tensor.__getitem__`),
a second name of a method in its class (`torch.Tensor.__neg__`, which is `neg`), instances of classes with `__call__`,
generators and coroutines, and all functions of C where the extension could not be built. `InPlace.replaced` lists them.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, Signature, signature
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType
from typing import Any, NamedTuple
from weakref import ref

from .log import once
from .patches import INHERITED, Patch, PatchGroup, inherited, matches

try:
    from . import _in_place  # type: ignore[attr-defined]  # the optional extension, which has no Python source

    extension: Any = _in_place
except ImportError:  # it could not be built here
    extension = None

MARK = "msprobe: in place"
"""The last constant of every trampoline."""

_TARGET = 0.5
"""Stands in the pattern of trampolines for what is called."""

with warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)  # a number is not callable; it is not called either
    _MODULE = compile(f"def trampoline(*args, **kwargs): return {_TARGET}(*args, **kwargs)", "", "exec")
_PATTERN: CodeType = _MODULE.co_consts[0]

_OF_C = (BuiltinFunctionType, MethodDescriptorType)

_NO_PLAIN_CALL = CO_ASYNC_GENERATOR | CO_COROUTINE | CO_GENERATOR


def is_trampoline(code: CodeType) -> bool:
    """Return whether a code object is the one that a function has while its calls go elsewhere."""
    consts = code.co_consts
    return bool(consts) and consts[-1] is MARK


def _trampoline(original: CodeType, call: Callable[..., Any]) -> CodeType:
    names: dict[str, Any] = {"co_qualname": original.co_qualname} if hasattr(original, "co_qualname") else {}
    return _PATTERN.replace(
        co_consts=(*(call if each == _TARGET else each for each in _PATTERN.co_consts), MARK),
        co_filename=original.co_filename,
        co_firstlineno=original.co_firstlineno,
        co_name=original.co_name,
        co_freevars=original.co_freevars,  # as many as the function's closure has
        **names,
    )


class Known(NamedTuple):
    """A function that can be changed in place."""

    function: Any
    twin: Callable[..., Any]
    """Does what the function does while it is not changed."""
    signature: Signature | None
    """The signature that the function reports meanwhile; None where it reports the right one anyway."""

    @property
    def frames(self) -> int:
        """How many frames are between its caller and what it calls."""
        return 1 if isinstance(self.function, FunctionType) else 0

    @property
    def original(self) -> Any:
        """The value for `put` by which it is as it was."""
        return self.twin.__code__ if isinstance(self.function, FunctionType) else None

    def calling(self, call: Callable[..., Any]) -> Any:
        """Return the value for `put` by which it calls something else."""
        return _trampoline(self.twin.__code__, call) if isinstance(self.function, FunctionType) else call


_known: dict[int, Known] = {}
"""By the function's id; each is kept alive."""


def known(function: Any) -> Known | None:
    """Return what is needed to change a function in place; None where that is impossible."""
    found = _known.get(id(function))
    if found is None and (found := _made(function)) is not None:
        _known[id(function)] = found
    return found


def _made(function: Any) -> Known | None:
    if type(function) is FunctionType:
        code = function.__code__
        return None if code.co_flags & _NO_PLAIN_CALL or is_trampoline(code) else _of_python(function)
    if extension is not None and type(function) in _OF_C:
        try:
            return Known(function, extension.twin(function), None)
        except ValueError:
            return None
    return None


def _of_python(function: FunctionType) -> Known:
    twin = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__dict__.update(function.__dict__)
    twin.__qualname__, twin.__module__, twin.__doc__ = function.__qualname__, function.__module__, function.__doc__
    twin.__annotations__ = function.__annotations__
    says_so = "__wrapped__" in function.__dict__ or "__signature__" in function.__dict__
    return Known(function, twin, None if says_so else signature(twin))


def _put(
    functions: tuple[Any, ...],
    values: tuple[Any, ...],
    twins: tuple[Any, ...],
    signatures: tuple[Signature | None, ...],
    mark: str,
) -> Any:
    """Make every function call the value at its index in `values`, all together.

    A value is a code object for a function of Python, that of its twin to restore it; for a function of C a callable,
    or None to restore it. A code that somebody else has put there meanwhile is not taken away. Nothing is changed where
    a trampoline would stand instead of one, or where the defaults are no longer those of the twin: then that function
    is returned, else None.
    """
    every = list(zip(functions, values, twins, signatures, strict=True))
    for function, value, twin, _ in every:
        code, restores = function.__code__, value is twin.__code__
        as_twin = function.__defaults__ is twin.__defaults__ and function.__kwdefaults__ is twin.__kwdefaults__
        if not restores and not (as_twin and (code is twin.__code__ or is_trampoline(code))):
            return function
    for function, value, twin, meanwhile in every:
        restores = value is twin.__code__
        if restores and not is_trampoline(function.__code__):
            continue
        # what is interrupted in between is restored as long as the code is ours
        if restores and meanwhile is not None and function.__dict__.get("__signature__") is meanwhile:
            del function.__dict__["__signature__"]
        function.__code__ = value
        if not restores and meanwhile is not None:
            function.__dict__.setdefault("__signature__", meanwhile)
    return None


put: Callable[..., Any] = _put if extension is None else extension.put


@dataclass(eq=False)
class Place:
    """A public name of a function: the module or class that has it, and its name there."""

    owner: Any
    name: str
    data: Any
    """Passed on to the maker of replacements."""
    inherits: bool
    """Whether a class may have it from another one, which then is changed for all of its classes."""


Maker = Callable[[Callable[..., Any], "list[Place]", int | None], Callable[..., Any]]
"""Makes a replacement of an original that was found at these places.

The last argument says how many frames are between the function's caller and the replacement; None where the replacement
is put at the name of the one place that is given.
"""


@dataclass(frozen=True)
class _Arrangement:
    """Functions and what each of them is to call, at the same index."""

    functions: tuple[Any, ...]
    values: tuple[Any, ...]
    twins: tuple[Any, ...]
    signatures: tuple[Signature | None, ...]
    originals: tuple[Any, ...]

    @classmethod
    def of(cls, calls: "Iterable[tuple[Known, Any]]") -> "_Arrangement":
        every = [(k.function, value, k.twin, k.signature, k.original) for k, value in calls]
        return cls(*map(tuple, zip(*every, strict=True))) if every else cls((), (), (), (), ())


class InPlace:
    """Functions that are changed in place together, and restored together; both may be repeated safely.

    Where several of these are installed, the last one sees a call first. They may be removed in any order.
    """

    def __init__(self, make: Maker) -> None:
        self._make = make
        self._places: list[Place] = []
        self._found: list[tuple[ref[Any], dict[str, Any]]] = []
        """Owners, and what stood at the names there when the functions were looked up."""
        self._attributes: dict[int, PatchGroup] = {}
        """By the owner's id; each may be installed and removed whatever is there."""
        self._replaced: dict[int, tuple[Place, Patch]] = {}
        self.functions: dict[int, tuple[Known, list[Place]]] = {}
        """The functions that are changed in place, by id."""
        self.own: _Arrangement | None = None
        """As it is where nothing else is installed; None until the functions are looked up."""

    def add(self, owner: Any, name: str, data: Any, *, inherits: bool = False) -> Place:
        """Plan to change the function `owner.name`; while nothing is installed."""
        place = Place(owner, name, data, inherits)
        self._places.append(place)
        self.own = None
        return place

    def discard(self, place: Place) -> None:
        """Forget a planned function; while nothing is installed."""
        self._places.remove(place)
        self.own = None

    @property
    def replaced(self) -> list[Place]:
        """The places whose attribute is replaced, and another object while installed, as of the last `install`."""
        return [place for place, _ in self._replaced.values()]

    def install(self) -> None:
        """Change every function that its name refers to now."""
        if self.own is None or not self._is_as_found():
            self._look_up()
        for group in self._attributes.values():
            group.install()
        if self not in _installed:
            _installed.append(self)
        _arrange()

    def remove(self) -> None:
        """Restore every function."""
        if self in _installed:
            _installed.remove(self)
        _arrange()
        for group in self._attributes.values():
            group.remove()

    def forget(self, function: Any) -> None:
        """Look the functions up anew: somebody else has changed this one."""
        _known.pop(id(function), None)
        self._look_up()

    def _is_as_found(self) -> bool:
        return all((owner := of()) is not None and matches(owner, there, INHERITED) for of, there in self._found)

    def _look_up(self) -> None:
        """Look up the object of each name, and whether it can be changed in place."""
        self.own, self.functions = None, {}  # until all is known
        at_names: dict[int, tuple[Place, Any]] = {}
        found: dict[int, tuple[Any, dict[str, Any]]] = {}
        for place in sorted(self._places, key=_preference):
            there = vars(place.owner).get(place.name, INHERITED)
            function = getattr(there, "__func__", there) if isinstance(there, (staticmethod, classmethod)) else there
            is_own = there is not INHERITED or not isinstance(place.owner, type)
            if there is INHERITED:
                function = inherited(place.owner, place.name)
            how = known(function) if is_own or place.inherits else None
            others = self.functions[id(function)][1] if id(function) in self.functions else []
            is_second = isinstance(place.owner, type) and any(
                (each.owner, each.name) != (place.owner, place.name) for each in others
            )
            if how is None or is_second:
                at_names[id(place)] = place, function
            else:
                self.functions.setdefault(id(function), (how, []))[1].append(place)
                found.setdefault(id(place.owner), (place.owner, {}))[1][place.name] = there
        self._found = [(ref(owner), there) for owner, there in found.values()]
        rank = {id(place): i for i, place in enumerate(self._places)}
        for _, places in self.functions.values():
            places.sort(key=lambda place: rank[id(place)])
        self._replace_at_names(at_names)
        self.own = _Arrangement.of(
            (how, how.calling(self.call_of(how, places))) for how, places in self.functions.values()
        )

    def call_of(
        self, how: Known, places: list[Place], original: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """Return what a function is to call; `original` where another `InPlace` is to see the call next."""
        return self._make(original or how.twin, places, how.frames)

    def _replace_at_names(self, at_names: dict[int, tuple[Place, Any]]) -> None:
        for key in self._replaced.keys() - at_names.keys():
            place, patch = self._replaced.pop(key)
            patch.remove()
            self._attributes[id(place.owner)].discard(patch)
        for key, (place, _) in at_names.items():
            if key not in self._replaced:
                patch = Patch(place.owner, place.name, partial(self._at_name, place))
                self._attributes.setdefault(id(place.owner), PatchGroup(place.owner)).add(patch)
                self._replaced[key] = place, patch
        of_c = sum(type(function) in _OF_C for _, function in at_names.values())
        if extension is None and of_c:
            once(
                "functions of C",
                f"the C extension _in_place of msprobe was not built: {of_c} C functions are replaced by other "
                "objects during collection (`torch.relu is f` may change), and calls through references obtained "
                "earlier are not recorded; install a C compiler and reinstall msprobe",
            )

    def _at_name(self, place: Place, original: Any) -> Any:
        """Return the replacement for an attribute; what a class holds stays the kind of method that it was."""
        if isinstance(original, (staticmethod, classmethod)):
            return type(original)(self._make(original.__func__, [place], None))
        return _standing_at(place, self._make(original, [place], None))


def _preference(place: Place) -> tuple[bool, bool]:
    """Of several names of one function those of modules come first, then those of methods, then operators."""
    return isinstance(place.owner, type), place.name.startswith("__")


def _standing_at(place: Place, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement, with the `__module__` and `__qualname__` of its place.

    Pickle accepts a function only where it finds that very object by these two names; the original's are those of the
    place it was defined in, `torch._C._nn` for `F.gelu`. A process without msprobe has the framework's own there.
    """
    if isinstance(place.owner, type):
        call.__module__, call.__qualname__ = place.owner.__module__, f"{place.owner.__qualname__}.{place.name}"
    else:
        call.__module__, call.__qualname__ = place.owner.__name__, place.name
    return call


# ---- all that are installed in this process -------------------------------------------------------------------------

_installed: list[InPlace] = []
"""The first one sees a call last."""

_current: _Arrangement | None = None
"""The arrangement that may be in place now, noted before it is put there, so that an interrupt leaves none in place."""

_together: dict[tuple[int, ...], tuple[tuple[_Arrangement, ...], _Arrangement]] = {}
"""Arrangements of several, by the ids of those they are made of, which are kept alive."""

_MOST_TOGETHER = 16


def _arrange() -> None:
    """Put in place what is installed, whatever is there."""
    global _current
    while True:
        wanted = _wanted()
        if _current is not None and _current is not wanted:
            put(_current.functions, _current.originals, _current.twins, _current.signatures, MARK)
        _current = wanted
        if wanted is None:
            return
        changed = put(wanted.functions, wanted.values, wanted.twins, wanted.signatures, MARK)
        if changed is None:
            return
        put(wanted.functions, wanted.originals, wanted.twins, wanted.signatures, MARK)
        for each in _installed:
            if id(changed) in each.functions:
                each.forget(changed)


def _wanted() -> _Arrangement | None:
    if len(_installed) < 2:
        return _installed[0].own if _installed else None
    parts = tuple(each.own for each in _installed if each.own is not None)
    key = tuple(map(id, parts))
    if key not in _together:
        if len(_together) >= _MOST_TOGETHER:
            _together.clear()
        _together[key] = parts, _chained(_installed)
    return _together[key][1]


def _chained(every: list[InPlace]) -> _Arrangement:
    """Return the arrangement in which each of several sees the calls of its functions, the last one first."""
    calls: dict[int, tuple[Known, Callable[..., Any]]] = {}
    for each in every:
        for key, (how, places) in each.functions.items():
            below = calls[key][1] if key in calls else None
            calls[key] = how, each.call_of(how, places, below)
    return _Arrangement.of((how, how.calling(call)) for how, call in calls.values())
