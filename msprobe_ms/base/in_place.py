"""Functions whose calls are redirected to a replacement while the function objects remain the same.

A training may use a function object without a call: `cfg.act is F.gelu`, `FUSED[F.gelu]`, `fn in (F.relu, F.gelu)`.
Therefore a function of a framework is not replaced at its name. The object itself is changed temporarily:

- A Python function gets another `__code__`, a trampoline. It has the name, file, line and free variables of the
  original, so that its source is found, and `__signature__` has its parameters.
- A C function (`torch.relu`) or C method (`torch.Tensor.add`) gets another definition, by the extension `_in_place.c`.
  Its name, documentation, hash, equality and pickle do not change.

All calls are redirected, through any reference: an earlier import, a closure, a default argument, a dict, a `partial`.
The twin of a function is a copy with the original behavior.

Functions that cannot be changed in place are replaced at their name, as an attribute: slots of classes
(`torch.Tensor.__getitem__`), a second name of a method in its class (`torch.Tensor.__neg__`, which is `neg`), instances
of classes with `__call__`, generators and coroutines, and all C functions if the extension could not be built.
`InPlace.replaced` lists them.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, Signature, signature
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType
from typing import Any, NamedTuple
from weakref import ref

from .log import log_once
from .patches import INHERITED, Patch, PatchGroup, inherited, matches

try:
    from . import _in_place  # type: ignore[attr-defined]  # the optional extension, which has no Python source

    extension: Any = _in_place
except ImportError:  # the extension was not built
    extension = None

MARK = "msprobe: in place"
"""The last constant of every trampoline."""

_CALL_PLACEHOLDER = 0.5
"""Placeholder in the pattern of trampolines for the function that is called."""

with warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)  # the pattern calls a number, but is never executed
    _MODULE = compile(f"def trampoline(*args, **kwargs): return {_CALL_PLACEHOLDER}(*args, **kwargs)", "", "exec")
_PATTERN: CodeType = _MODULE.co_consts[0]

_C_TYPES = (BuiltinFunctionType, MethodDescriptorType)

_NO_PLAIN_CALL = CO_ASYNC_GENERATOR | CO_COROUTINE | CO_GENERATOR


def is_trampoline(code: CodeType) -> bool:
    """Return whether a code object is the trampoline of a redirected function."""
    consts = code.co_consts
    return bool(consts) and consts[-1] is MARK


def _trampoline(original: CodeType, call: Callable[..., Any]) -> CodeType:
    names: dict[str, Any] = {"co_qualname": original.co_qualname} if hasattr(original, "co_qualname") else {}
    return _PATTERN.replace(
        co_consts=(*(call if each == _CALL_PLACEHOLDER else each for each in _PATTERN.co_consts), MARK),
        co_filename=original.co_filename,
        co_firstlineno=original.co_firstlineno,
        co_name=original.co_name,
        co_freevars=original.co_freevars,  # must match the closure
        **names,
    )


class Replaceable(NamedTuple):
    """A function that can be changed in place, with its twin."""

    function: Any
    twin: Callable[..., Any]
    """A copy of the function with its original behavior."""
    signature: Signature | None
    """The `__signature__` of the function while it is redirected; None if it reports the correct one itself."""

    @property
    def frames(self) -> int:
        """Number of frames between the caller and the replacement."""
        return 1 if isinstance(self.function, FunctionType) else 0

    @property
    def original(self) -> Any:
        """Return the value for `redirect` that restores the function."""
        return self.twin.__code__ if isinstance(self.function, FunctionType) else None

    def calling(self, call: Callable[..., Any]) -> Any:
        """Return the value for `redirect` that makes the function call `call`."""
        return _trampoline(self.twin.__code__, call) if isinstance(self.function, FunctionType) else call


_replaceables: dict[int, Replaceable] = {}
"""By the id of the function, which is kept alive."""


def replaceable(function: Any) -> Replaceable | None:
    """Return the data for changing a function in place; None if it cannot be changed."""
    found = _replaceables.get(id(function))
    if found is None and (found := _new_replaceable(function)) is not None:
        _replaceables[id(function)] = found
    return found


def _new_replaceable(function: Any) -> Replaceable | None:
    if type(function) is FunctionType:
        code = function.__code__
        return None if code.co_flags & _NO_PLAIN_CALL or is_trampoline(code) else _replaceable_python_function(function)
    if extension is not None and type(function) in _C_TYPES:
        try:
            return Replaceable(function, extension.twin(function), None)
        except ValueError:
            return None
    return None


def _replaceable_python_function(function: FunctionType) -> Replaceable:
    twin = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__dict__.update(function.__dict__)
    twin.__qualname__, twin.__module__, twin.__doc__ = function.__qualname__, function.__module__, function.__doc__
    twin.__annotations__ = function.__annotations__
    has_signature = "__wrapped__" in function.__dict__ or "__signature__" in function.__dict__
    return Replaceable(function, twin, None if has_signature else signature(twin))


def _redirect(
    functions: tuple[Any, ...],
    values: tuple[Any, ...],
    twins: tuple[Any, ...],
    signatures: tuple[Signature | None, ...],
    mark: str,
) -> Any:
    """Redirect every function to the value at its index in `values`.

    A value for a Python function is a code object (that of its twin to restore it), and for a C function a callable
    (None to restore it). Code that other libraries have set in the meantime is not removed. If the code or the defaults
    of a function are no longer those of its twin, no function is changed and that function is returned; otherwise None.
    """
    every = list(zip(functions, values, twins, signatures, strict=True))
    for function, value, twin, _ in every:
        code, restores = function.__code__, value is twin.__code__
        has_twin_defaults = (
            function.__defaults__ is twin.__defaults__ and function.__kwdefaults__ is twin.__kwdefaults__
        )
        if not restores and not (has_twin_defaults and (code is twin.__code__ or is_trampoline(code))):
            return function
    for function, value, twin, temporary_signature in every:
        restores = value is twin.__code__
        if restores and not is_trampoline(function.__code__):
            continue
        # The order of the following lines ensures that an interrupted change can be restored.
        if (
            restores
            and temporary_signature is not None
            and function.__dict__.get("__signature__") is temporary_signature
        ):
            del function.__dict__["__signature__"]
        function.__code__ = value
        if not restores and temporary_signature is not None:
            function.__dict__.setdefault("__signature__", temporary_signature)
    return None


redirect: Callable[..., Any] = _redirect if extension is None else extension.put


@dataclass(eq=False)
class Place:
    """A public name of a function: the module or class that contains it, and the name."""

    owner: Any
    name: str
    data: Any
    """Passed on to the factory of replacements."""
    inherits: bool
    """Whether the function may be inherited; it is then changed for all subclasses."""


Maker = Callable[[Callable[..., Any], "list[Place]", int | None], Callable[..., Any]]
"""Factory of replacements: called with the original, its places, and the number of frames between the caller and the
replacement, which is None if the replacement is an attribute at the only place.
"""


@dataclass(frozen=True)
class _Redirection:
    """Arguments of `redirect`: functions and their values, at the same index."""

    functions: tuple[Any, ...]
    values: tuple[Any, ...]
    twins: tuple[Any, ...]
    signatures: tuple[Signature | None, ...]
    originals: tuple[Any, ...]

    @classmethod
    def of(cls, calls: "Iterable[tuple[Replaceable, Any]]") -> "_Redirection":
        every = [(k.function, value, k.twin, k.signature, k.original) for k, value in calls]
        return cls(*map(tuple, zip(*every, strict=True))) if every else cls((), (), (), (), ())


class InPlace:
    """Functions that are changed in place together, and restored together; both are idempotent.

    If several objects are installed, the last one receives a call first. They may be removed in any order.
    """

    def __init__(self, make: Maker) -> None:
        self._make = make
        self._places: list[Place] = []
        self._found: list[tuple[ref[Any], dict[str, Any]]] = []
        """Owners, and their attributes when the functions were looked up."""
        self._attributes: dict[int, PatchGroup] = {}
        """Replaced attributes, by the id of the owner."""
        self._replaced: dict[int, tuple[Place, Patch]] = {}
        self.functions: dict[int, tuple[Replaceable, list[Place]]] = {}
        """The functions that are changed in place, by id."""
        self.redirection: _Redirection | None = None
        """The redirection if no other object is installed; None until the functions are looked up."""

    def add(self, owner: Any, name: str, data: Any, *, inherits: bool = False) -> Place:
        """Add the function `owner.name`. Must not be called while this is installed."""
        place = Place(owner, name, data, inherits)
        self._places.append(place)
        self.redirection = None
        return place

    def discard(self, place: Place) -> None:
        """Remove an added function. Must not be called while this is installed."""
        self._places.remove(place)
        self.redirection = None

    @property
    def replaced(self) -> list[Place]:
        """Return the places whose attribute is replaced by another object, as of the last `install`."""
        return [place for place, _ in self._replaced.values()]

    def install(self) -> None:
        """Redirect all functions that the names refer to now."""
        if self.redirection is None or not self._is_unchanged():
            self._look_up()
        for group in self._attributes.values():
            group.install()
        if self not in _installed:
            _installed.append(self)
        _apply()

    def remove(self) -> None:
        """Restore every function."""
        if self in _installed:
            _installed.remove(self)
        _apply()
        for group in self._attributes.values():
            group.remove()

    def forget(self, function: Any) -> None:
        """Look up the functions again, because another library changed this one."""
        _replaceables.pop(id(function), None)
        self._look_up()

    def _is_unchanged(self) -> bool:
        return all(
            (owner := of()) is not None and matches(owner, attribute, INHERITED) for of, attribute in self._found
        )

    def _look_up(self) -> None:
        """Look up the function of each name, and determine whether it can be changed in place."""
        self.redirection, self.functions = None, {}  # until all are looked up
        at_names: dict[int, tuple[Place, Any]] = {}
        found: dict[int, tuple[Any, dict[str, Any]]] = {}
        for place in sorted(self._places, key=_preference):
            attribute = vars(place.owner).get(place.name, INHERITED)
            function = (
                getattr(attribute, "__func__", attribute)
                if isinstance(attribute, (staticmethod, classmethod))
                else attribute
            )
            is_own = attribute is not INHERITED or not isinstance(place.owner, type)
            if attribute is INHERITED:
                function = inherited(place.owner, place.name)
            entry = replaceable(function) if is_own or place.inherits else None
            others = self.functions[id(function)][1] if id(function) in self.functions else []
            is_alias = isinstance(place.owner, type) and any(
                (each.owner, each.name) != (place.owner, place.name) for each in others
            )
            if entry is None or is_alias:
                at_names[id(place)] = place, function
            else:
                self.functions.setdefault(id(function), (entry, []))[1].append(place)
                found.setdefault(id(place.owner), (place.owner, {}))[1][place.name] = attribute
        self._found = [(ref(owner), attribute) for owner, attribute in found.values()]
        rank = {id(place): i for i, place in enumerate(self._places)}
        for _, places in self.functions.values():
            places.sort(key=lambda place: rank[id(place)])
        self._replace_at_names(at_names)
        self.redirection = _Redirection.of(
            (entry, entry.calling(self.call_of(entry, places))) for entry, places in self.functions.values()
        )

    def call_of(
        self, entry: Replaceable, places: list[Place], original: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """Return the replacement of a function; `original` is what the replacement calls, by default the twin."""
        return self._make(original or entry.twin, places, entry.frames)

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
        of_c = sum(type(function) in _C_TYPES for _, function in at_names.values())
        if extension is None and of_c:
            log_once(
                "functions of C",
                f"the C extension _in_place of msprobe was not built: {of_c} C functions are replaced by other "
                "objects during collection (`torch.relu is f` may change), and calls through references obtained "
                "earlier are not recorded; install a C compiler and reinstall msprobe",
            )

    def _at_name(self, place: Place, original: Any) -> Any:
        """Return the replacement for an attribute; static and class methods keep their kind."""
        if isinstance(original, (staticmethod, classmethod)):
            return type(original)(self._make(original.__func__, [place], None))
        return _named_as_attribute(place, self._make(original, [place], None))


def _preference(place: Place) -> tuple[bool, bool]:
    """Sort key of the names of a function: names in modules, then methods, then operators."""
    return isinstance(place.owner, type), place.name.startswith("__")


def _named_as_attribute(place: Place, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement with the `__module__` and `__qualname__` of its place.

    Pickle requires that these names refer to the same object; those of the original refer to the place of its
    definition, `torch._C._nn` for `F.gelu`. In a process without msprobe they refer to the function of the framework.
    """
    if isinstance(place.owner, type):
        call.__module__, call.__qualname__ = place.owner.__module__, f"{place.owner.__qualname__}.{place.name}"
    else:
        call.__module__, call.__qualname__ = place.owner.__name__, place.name
    return call


# ---- installed objects of the process -------------------------------------------------------------------------------

_installed: list[InPlace] = []
"""The first one receives a call last."""

_applied: _Redirection | None = None
"""The redirection that may be in place, set before it is applied, so that it is restored after an interrupt."""

_combined: dict[tuple[int, ...], tuple[tuple[_Redirection, ...], _Redirection]] = {}
"""Redirections of several objects, by the ids of their parts, which are kept alive."""

_MAX_COMBINED = 16


def _apply() -> None:
    """Apply the redirection of the installed objects, and restore the previous one."""
    global _applied
    while True:
        target = _target()
        if _applied is not None and _applied is not target:
            redirect(_applied.functions, _applied.originals, _applied.twins, _applied.signatures, MARK)
        _applied = target
        if target is None:
            return
        changed = redirect(target.functions, target.values, target.twins, target.signatures, MARK)
        if changed is None:
            return
        redirect(target.functions, target.originals, target.twins, target.signatures, MARK)
        for each in _installed:
            if id(changed) in each.functions:
                each.forget(changed)


def _target() -> _Redirection | None:
    if len(_installed) < 2:
        return _installed[0].redirection if _installed else None
    parts = tuple(each.redirection for each in _installed if each.redirection is not None)
    key = tuple(map(id, parts))
    if key not in _combined:
        if len(_combined) >= _MAX_COMBINED:
            _combined.clear()
        _combined[key] = parts, _combine(_installed)
    return _combined[key][1]


def _combine(every: list[InPlace]) -> _Redirection:
    """Return the redirection in which each object receives the calls of its functions, the last object first."""
    calls: dict[int, tuple[Replaceable, Callable[..., Any]]] = {}
    for each in every:
        for key, (entry, places) in each.functions.items():
            below = calls[key][1] if key in calls else None
            calls[key] = entry, each.call_of(entry, places, below)
    return _Redirection.of((entry, entry.calling(call)) for entry, call in calls.values())
