"""Replace collected functions, also where users imported them before: `from mindspore.ops import relu`.

Replacing `ops.relu`, or `torch.nn.functional.relu`, does not reach such a reference. So while a collection is open each
of them is replaced too, and put back afterwards. Looked at are the variables of users' modules and the attributes of
the model's cells, there also the members of lists, dicts and tuples, and what a `functools.partial` calls. The
framework's own layers and other names of its namespaces count as users; the modules that the functions are made of do
not.

Not seen are references inside closures, default arguments, class attributes, attributes of other objects than the
model's cells, containers within containers, and those in a cell or container that was changed after its model's first
`start`. A module is looked at again only when it has got more or fewer variables.

Pickle takes a function only where its name leads to that very object. So what holds a reference that is not seen can be
pickled while nothing is collected, if it is to a function of a framework that is defined where it is replaced
(`torch.nn.functional.relu`, not `gelu`); and a copy made meanwhile, of a model that has ours, only meanwhile.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from types import ModuleType
from typing import Any
from weakref import ref

from msprobe.base.patches import Installable, Patch, PatchGroup

Stems = frozenset[str] | None
"""The stems that are wanted; None where all are."""

Current = Callable[[], Any]
"""Returns the `Session` that records, or None."""


def recorded(
    stem: str, current: Current, original: Callable[..., Any], *, method: str = "call_api"
) -> Callable[..., Any]:
    """`original`, whose outermost calls go through a session's `method` while one listens."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        session = current()
        # what a recorded function calls comes here most often
        if session is None or session.busy or not session.listens():
            return original(*args, **kwargs)
        return getattr(session, method)(stem, original, args, kwargs)

    return call


def standing_at(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]], original: Any) -> Callable[..., Any]:
    """The replacement that `make` makes of `original`, with the `__module__` and `__qualname__` of its new place.

    References to it may be pickled meanwhile: a whole model by `torch.save`, a message to another process. Pickle
    accepts a function only where it finds that very object by these two names; the original's are those of the place
    it was defined in, `torch._C._nn` for `F.gelu`. In a process without msprobe the place has the framework's own
    function.
    """
    call = make(original)
    if isinstance(owner, type):
        call.__module__, call.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
    else:
        call.__module__, call.__qualname__ = owner.__name__, name
    return call


def within(context: Callable[[Any, Any], Any], current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """A method `original` that runs inside of `context(session, owner)` while there is a session."""

    @wraps(original)
    def method(owner: Any, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return original(owner, *args, **kwargs)
        with context(session, owner):
            return original(owner, *args, **kwargs)

    return method


def quietly(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, of whose inside nothing is recorded: what a framework does by itself around a backward."""

    @wraps(original)
    def quietly(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or not session.listens():
            return original(*args, **kwargs)
        session.busy = True
        try:
            return original(*args, **kwargs)
        finally:
            session.busy = False

    return quietly


_OTHERS = sys.stdlib_module_names | {"mindspore", "mindtorch", "msadapter", "msprobe", "numpy", "scipy", "torch"}

_LARGEST = 10_000
"""A list or dict with more members is data, and not looked into."""

_ITSELF = object()
"""The key of a reference that stands in the namespace itself, not in a container there."""


@dataclass(frozen=True)
class Users:
    """Which modules' references are replaced, besides those of the user's code, and the modules of a model.

    `layers` are beginnings of modules' names, `aliases` whole names. A function may be public in two namespaces; what
    begins with `second` belongs to the second one.
    """

    modules_of: Callable[[Any], Iterable[Any]]
    layers: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    second: str = "\0"


class References:
    """The early references to the functions of the patches that it follows."""

    def __init__(self, users: Users) -> None:
        self._of = users
        self._followed: list[Patch] = []
        self._learned: dict[int, Any] = {}
        self._made = -1
        self._known: dict[int, list[_Function]] = {}
        self._imported = 0
        # Not kept alive: at its end a program tears its modules down in an order of its own.
        self._users: dict[str, ref[ModuleType]] = {}
        self._sizes: dict[str, int] = {}
        self._models: list[ref[Any]] = []
        self._found: dict[tuple[int, str, Any], _Reference] = {}
        self._arranged: list[Installable] | None = None

    def follow(self, patch: Patch) -> None:
        """Have the references to what this patch replaces replaced too."""
        self._followed.append(patch)
        self._made = -1

    def forget(self, patch: Patch) -> None:
        """Follow a patch no longer; nothing may be in place now."""
        self._followed.remove(patch)
        self._known = {
            key: [f for f in functions if f.replacement is not patch.replacement]
            for key, functions in self._known.items()
        }
        self._start_over()

    def add(self, roots: list[Any]) -> None:
        """Take in the cells of models, which are not kept alive."""
        known = len(self._models)
        self._models = [each for each in self._models if each() is not None]
        if len(self._models) < known:
            self._found = {
                place: reference for place, reference in self._found.items() if reference.holder() is not None
            }
            self._arranged = None
        for root in roots:
            if not any(each() is root for each in self._models):
                self._models.append(ref(root))
                self._look_into_cells(root)

    def install(self) -> None:
        """Replace every reference; the patches must be in place already."""
        self._learn()
        self._look_into_modules()
        for each in self._together():
            each.install()

    def remove(self) -> None:
        """Put every original back, also into a module that was imported meanwhile and took a replacement."""
        self._look_into_modules()
        for each in reversed(self._together()):
            each.remove()

    def _together(self) -> "list[Installable]":
        """The references, those that are variables of one module together."""
        if self._arranged is None:
            modules: dict[int, PatchGroup] = {}
            self._arranged = []
            for reference in self._found.values():
                holder = reference.module
                if holder is None:
                    self._arranged.append(reference)
                    continue
                if id(holder) not in modules:
                    self._arranged.append(modules.setdefault(id(holder), PatchGroup(holder)))
                modules[id(holder)].add(reference)
        return self._arranged

    def _learn(self) -> None:
        """What the patches replace now: the same as last time, unless somebody else replaced it in between."""
        if self._made == Patch.made:
            return
        self._made = Patch.made
        news = [patch for patch in self._followed if self._learned.get(id(patch)) is not patch.replacement]
        for patch in news:
            self._learned[id(patch)] = patch.replacement
            function = _Function(patch, self._of.second)
            for end in (function.original, function.replacement):
                self._known.setdefault(id(end), []).append(function)
        if news:
            self._start_over()

    def _start_over(self) -> None:
        self._sizes.clear()
        self._found.clear()
        self._arranged = None
        for model in self._models:
            self._look_into_cells(model())

    def _look_into_modules(self) -> None:
        if len(sys.modules) != self._imported:
            self._imported = len(sys.modules)
            for name, module in list(sys.modules.items()):
                known = self._users.get(name)
                if (known is None or known() is None) and isinstance(module, ModuleType) and self._is_users(name):
                    self._users[name] = ref(module)
        for name, known in self._users.items():
            module = known()
            if module is not None and (size := len(vars(module))) != self._sizes.get(name):
                self._sizes[name] = size
                self._look_into(module, name.startswith(self._of.second))

    def _look_into_cells(self, root: Any) -> None:
        for cell in self._of.modules_of(root):
            self._look_into(cell, type(cell).__module__.startswith(self._of.second))

    def _is_users(self, name: str) -> bool:
        is_framework = name in self._of.aliases or name.startswith(self._of.layers)
        return is_framework or name.partition(".")[0] not in _OTHERS

    def _look_into(self, holder: Any, second: bool) -> None:
        """Find what refers to a known function in a module or cell; `second`: the holder belongs to that namespace."""
        for name, value in list(vars(holder).items()):
            for key, member in _members(value):
                pair = self._pair(member, str(name if key is _ITSELF else key), second)
                if pair is not None:
                    self._found[id(holder), name, key] = _Reference(ref(holder), name, key, pair)
                    self._arranged = None

    def _pair(self, value: Any, name: str, second: bool) -> "_Pair | None":
        functions = self._known.get(id(value))
        if functions:
            return min(functions, key=lambda f: f.distance(name, second))
        replacement: Any = None
        if type(value) is partial:
            if inner := self._pair(value.func, name, second):
                replacement = partial(inner.replacement, *value.args, **value.keywords)
        elif type(value) is tuple and len(value) < _LARGEST and any(id(v) in self._known for v in value):
            replacement = tuple(p.replacement if (p := self._pair(v, name, second)) else v for v in value)
        return None if replacement is None else _Pair(value, replacement)


class _Pair:
    """What stands in a place while nothing is collected, and while something is."""

    __slots__ = ("original", "replacement")

    def __init__(self, original: Any, replacement: Any) -> None:
        self.original, self.replacement = original, replacement


class _Function(_Pair):
    """A function under one of its public names: `ops.relu` and `mint.nn.functional.relu` are the same object."""

    __slots__ = ("_name", "_second")

    def __init__(self, patch: Patch, second: str) -> None:
        # a static method's references are to the function inside
        super().__init__(*(getattr(f, "__func__", f) for f in (patch.original, patch.replacement)))
        self._name, self._second = patch.name, patch.owner.__name__.startswith(second)

    def distance(self, name: str, second: bool) -> tuple[bool, bool]:
        """How little a reference looks like one that was made by this public name; a tie goes to the first."""
        return self._name != name, self._second != second


class _Reference(_Pair):
    """A place that holds a known function: a variable, or a member of a container."""

    __slots__ = ("_container", "_key", "holder", "name")

    def __init__(self, holder: "ref[Any]", name: str, key: Any, pair: _Pair) -> None:
        super().__init__(pair.original, pair.replacement)
        self.holder, self.name, self._key = holder, name, key
        self._container: Any = None  # held only while our replacement is in it

    @property
    def module(self) -> ModuleType | None:
        """The module whose variable this is; None for what cells or containers hold."""
        holder = self.holder() if self._key is _ITSELF else None
        return holder if isinstance(holder, ModuleType) else None

    def install(self) -> None:
        """Put the replacement in place."""
        self._take()
        self._put(self.replacement, instead_of=self.original)

    def remove(self) -> None:
        """Put the original back."""
        if self._container is None:  # in a module that was imported after `install`
            self._take()
        self._put(self.original, instead_of=self.replacement)
        self._container = None

    def _take(self) -> None:
        holder = self.holder()
        if holder is not None:
            namespace = vars(holder)  # not setattr: a cell would make something of it
            self._container = namespace if self._key is _ITSELF else namespace.get(self.name)

    def _put(self, value: Any, instead_of: Any) -> None:
        container, key = self._container, self.name if self._key is _ITSELF else self._key
        if isinstance(container, dict):
            if dict.get(container, key) is instead_of:
                dict.__setitem__(container, key, value)
        elif isinstance(container, list):
            for i, member in enumerate(container):  # it may have moved
                if member is instead_of:
                    container[i] = value


def _members(value: Any) -> Iterator[tuple[Any, Any]]:
    """A variable's value, and the members of a list or dict, read past what a subclass makes of reading.

    The type is asked, not the value: `isinstance` would read `__class__`, which with some libraries' objects warns.
    """
    kind = type(value)
    if issubclass(kind, dict):
        if dict.__len__(value) < _LARGEST:
            yield from list(dict.items(value))
    elif issubclass(kind, list):
        if list.__len__(value) < _LARGEST:
            yield from list(enumerate(list.__iter__(value)))
    else:
        yield _ITSELF, value
