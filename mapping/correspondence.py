"""One function of MindSpore and one of PyTorch that compute the same: the corresponding arguments and results.

Both sides are converted to canonical places, named after PyTorch's parameters. Two records correspond if their places
are equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from msprobe.base.errors import MappingError

from .transform import IDENTITY, Transform

Direction = Literal["forward", "backward"]
Path = tuple[str, ...]

NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
"""Names of numpy that PyTorch's functions accept instead of their own: torch.sum(x, axis=1)."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value in a call, in PyTorch's terms: `part` of the record, and the path to it.

    The path of an argument begins with its parameter's name, that of a result with its number.
    """

    part: str
    path: Path


@dataclass(frozen=True)
class Signature:
    """The parameters of one side, in positional order: `names` may be passed by position, `keywords` may not.

    `rest` is the parameter for all further positions (`*operands`), empty without one. An unknown function has no
    names: its places are unchanged.
    """

    names: tuple[str, ...] = ()
    rest: str = ""
    keywords: tuple[str, ...] = ()

    @classmethod
    def of(cls, listed: Sequence[str], where: str) -> "Signature":
        """Return the signature in the table's list, written as in Python: `[equation, "*operands"]`, `[input, "*",
        dtype]`.

        Raise a MappingError for a duplicate name.
        """
        if len(set(listed)) < len(listed):
            raise MappingError(f"{where}: duplicate parameter in {listed}; remove one")
        star = next((n for n, name in enumerate(listed) if name.startswith("*")), len(listed))
        rest = [name[1:] for name in listed if name.startswith("*")]
        keywords = (name for name in listed[star:] if not name.startswith("*"))
        return cls(tuple(listed[:star]), rest[-1] if rest else "", tuple(keywords))

    def __contains__(self, name: str) -> bool:
        return name in self.every

    def __bool__(self) -> bool:
        return bool(self.every)

    def accepts(self, top: str) -> bool:
        """Return whether a call may have this argument, a position or a keyword."""
        return (bool(self.rest) or int(top) < len(self.names)) if top.isdigit() else top in self

    @cached_property
    def every(self) -> tuple[str, ...]:
        """Return the names of all parameters."""
        return (*self.names, *((self.rest,) if self.rest else ()), *self.keywords)

    def named(self, path: Path) -> Path:
        """Return the path with the parameter's name for its position; for `*rest`, a list counts as its elements."""
        if not path[0].isdigit():
            return path
        position = int(path[0])
        if position < len(self.names):
            return (self.names[position], *path[1:])
        if self.rest:
            return (self.rest, *(path[1:] or (str(position - len(self.names)),)))
        return path


@dataclass(frozen=True)
class Correspondence:
    """A pair of functions, `ms` and `pt` (stems of names), and the correspondence of their arguments.

    `renamed` maps MindSpore's parameters to PyTorch's if they differ; both may be dotted (`hx.0`: element 0).
    `attributes` does the same for attributes of a primitive, which are arguments of PyTorch's function, but not
    recorded. `dropped` are MindSpore's parameters that PyTorch does not have, with the value at which both agree (None:
    any); `inserted` the opposite, with the equivalent value. `values` translates values of arguments that are not
    tensors. `transforms` convert an argument (or `output.0`) to PyTorch's layout. `output` maps the paths of results,
    None for no counterpart; empty if they are equal. `ms_defaults` and `pt_defaults` have the defaults that differ.
    `required` is the number of MindSpore's parameters, from the first on, that a call must have for this
    correspondence. `unverified` is why this was not executed; empty if it was.
    """

    ms: str
    pt: str
    ms_signature: Signature = Signature()
    pt_signature: Signature = Signature()
    renamed: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, object] = field(default_factory=dict)
    inserted: Mapping[str, object] = field(default_factory=dict)
    values: Mapping[str, Mapping[object, object]] = field(default_factory=dict)
    transforms: Mapping[str, Transform] = field(default_factory=dict)
    output: Mapping[Path, Path | None] = field(default_factory=dict)
    ms_defaults: Mapping[str, object] = field(default_factory=dict)
    pt_defaults: Mapping[str, object] = field(default_factory=dict)
    required: int = 0
    unverified: str = ""

    def ms_place(
        self, part: str, path: Path, direction: Direction = "forward", arguments: Sequence[str] = ()
    ) -> Place | None:
        """Return the canonical place of a record of MindSpore's call; None if PyTorch's deliberately has no
        counterpart.

        The `output` of a backward call contains the gradients of the arguments by number, keyword arguments after the
        positional ones: `arguments` are those of the forward call, in order (`("0", "1", "axis")`).
        """
        if part == _ARGUMENTS[direction]:
            name = self.ms_signature.named(_forward_path(path, direction, arguments))
            return None if name[0] in self.dropped else Place(part, _replaced(name, self._targets) or name)
        if part == _RESULTS[direction] and self.output:
            to = _replaced(path, self.output)
            return None if to is None else Place(part, to)
        return Place(part, path)

    def pt_place(
        self, part: str, path: Path, direction: Direction = "forward", arguments: Sequence[str] = ()
    ) -> Place | None:
        """Return the canonical place of a record of PyTorch's call; None if MindSpore's deliberately has no
        counterpart."""
        if part == _ARGUMENTS[direction]:
            name = self._own_name(self.pt_signature.named(_forward_path(path, direction, arguments)))
            return None if name[0] in self._only_in_pt else Place(part, name)
        if part == _RESULTS[direction] and self.output:
            is_taken = any(to is not None and path[: len(to)] == to for to in self.output.values())
            return Place(part, path) if is_taken else None
        return Place(part, path)

    def ms_transform(
        self, part: str, path: Path, direction: Direction = "forward", arguments: Sequence[str] = ()
    ) -> Transform:
        """Return the transform of a record of MindSpore's call to PyTorch's layout; the identity if they agree."""
        if not self.transforms or part not in (_ARGUMENTS[direction], _RESULTS[direction]):
            return IDENTITY
        name = ("output", *path)
        if part == _ARGUMENTS[direction]:
            name = self.ms_signature.named(_forward_path(path, direction, arguments))
        found = self.transforms.get(".".join(name), self.transforms.get(name[0], IDENTITY))
        return found if direction == "forward" or found.is_layout else IDENTITY

    def fits(self, tops: Iterable[str]) -> bool:
        """Return whether a call of MindSpore may have these arguments (`"0"`, `"1"`, `"axis"`): one of several
        correspondences of a name is selected by this."""
        known, passed = self.ms_signature, set(tops)
        if not known:
            return True
        has_enough = all(str(i) in passed or name in passed for i, name in enumerate(known.names[: self.required]))
        return has_enough and all(known.accepts(top) or top in self.attributes for top in passed)

    def fits_pt(self, tops: Iterable[str]) -> bool:
        """Return whether PyTorch's call may have these arguments."""
        known = self.pt_signature
        return not known or all(known.accepts(self._own_name((top,))[0]) for top in tops)

    def translate(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of PyTorch's call for those of MindSpore's; tensors are numpy arrays, or nested lists of
        them.

        Positional arguments remain positional, as far as PyTorch allows. Attributes of a primitive are passed as
        keyword arguments. A default that differs is passed. Raise a MappingError if an argument has no counterpart and
        its value is not the one at which both sides agree, and if there are more arguments than parameters.
        """
        passed = self._by_parameter(args, kwargs)
        placed = set(list(passed)[: len(args)])
        made: dict[str, Any] = {}
        by_position = set()
        for name, value in {**passed, **{n: v for n, v in self.ms_defaults.items() if n not in passed}}.items():
            if name in self.dropped:
                self._check_dropped(name, value)
                continue
            for target, part in self._translated(name, value):
                _put(made, target.split("."), part)
                if name in placed:
                    by_position.add(target.split(".")[0])
        for name, value in self.inserted.items():
            made.setdefault(name, value)
        if self.pt.startswith("Tensor.") and self.pt_signature.names:
            by_position.add(self.pt_signature.names[0])  # the tensor whose method it is
        made = {name: _listed(value) for name, value in made.items()}
        return self._passed(made, by_position), made

    def _by_parameter(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of MindSpore's arguments by parameter, positional arguments first."""
        names, rest = self.ms_signature.names, list(args[len(self.ms_signature.names) :])
        passed = dict(zip(names, args, strict=False))
        if rest and not self.ms_signature.rest:
            raise MappingError(
                f"{self.ms}: {len(args)} positional arguments, but the table lists {len(names)}; correct its ms_args"
            )
        if rest:
            is_one_list = len(rest) == 1 and isinstance(rest[0], list | tuple)
            passed[self.ms_signature.rest] = list(rest[0]) if is_one_list else rest
        return {**passed, **kwargs}

    def _check_dropped(self, name: str, value: Any) -> None:
        wanted = self.dropped[name]
        agreed = tuple(wanted) if isinstance(wanted, list) else wanted
        if wanted is not None and value is not None and value != agreed:
            raise MappingError(
                f"{self.ms}: {self.pt} has no {name!r} and corresponds only to {wanted!r}, not to {value!r}"
            )

    def _translated(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Return PyTorch's parameters and values for an argument; several if elements of a list are parameters
        there."""
        words = self.values.get(name, {})
        if isinstance(value, str | int | float | bool | None) and value in words:
            value = words[value]
        if name in self.transforms and value is not None:
            value = self.transforms[name](value)
        names = {**self.renamed, **self.attributes}
        found = []
        for of, to in names.items():
            top, _, inner = of.partition(".")
            if top == name and inner:
                part = value
                for index in map(int, inner.split(".")):
                    if index >= len(part):
                        break
                    part = part[index]
                else:
                    found.append((to, part))
        return found or [(names.get(name, name), value)]

    def _passed(self, made: dict[str, Any], by_position: set[str]) -> tuple[Any, ...]:
        """Return the positional arguments, removed from `made`: those that were passed so, without a gap; all before
        `*rest`, if given."""
        known, args = self.pt_signature, []
        for name in known.names:
            if name not in made or not (name in by_position or known.rest in made):
                break
            args.append(made.pop(name))
        rest = made.pop(known.rest, ())
        return (*args, *(rest if isinstance(rest, list | tuple) else [rest]))

    def _own_name(self, path: Path) -> Path:
        own = NUMPY_NAMES.get(path[0], "")
        return (own, *path[1:]) if own in self.pt_signature and path[0] not in self.pt_signature else path

    @cached_property
    def _only_in_pt(self) -> frozenset[str]:
        """Return PyTorch's parameters without a counterpart among MindSpore's recorded arguments."""
        attributes = {name.split(".")[0] for name in self.attributes.values()}
        taken = {
            self.renamed.get(name, name).split(".")[0] for name in self.ms_signature.every if name not in self.dropped
        }
        taken |= {to.split(".")[0] for of, to in self.renamed.items() if of not in self.dropped}
        return (frozenset(self.pt_signature.every) | attributes | frozenset(self.inserted)) - taken

    @cached_property
    def _targets(self) -> dict[Path, Path | None]:
        return {tuple(of.split(".")): tuple(to.split(".")) for of, to in self.renamed.items()}


_ARGUMENTS: Mapping[Direction, str] = {"forward": "input", "backward": "output"}
"""By direction: the part of a call that contains its arguments, or their gradients."""

_RESULTS: Mapping[Direction, str] = {"forward": "output", "backward": "input"}


def _forward_path(path: Path, direction: Direction, arguments: Sequence[str]) -> Path:
    """Return the path of the argument whose gradient a backward call has at `path`."""
    if direction == "backward" and path[0].isdigit() and int(path[0]) < len(arguments):
        return (arguments[int(path[0])], *path[1:])
    return path


def _replaced(path: Path, by: Mapping[Path, Path | None]) -> Path | None:
    """Return the path with its longest listed prefix replaced; None without one, or if that has no counterpart."""
    for length in range(len(path), 0, -1):
        if path[:length] in by:
            to = by[path[:length]]
            return None if to is None else to + path[length:]
    return None


def _put(made: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        made = made.setdefault(part, _Elements())
    made[path[-1]] = value


class _Elements(dict[str, Any]):
    """A list of PyTorch whose elements are found individually."""


def _listed(value: Any) -> Any:
    if not isinstance(value, _Elements):
        return value
    return tuple(_listed(value[index]) for index in sorted(value, key=int))
