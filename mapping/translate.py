"""The arguments of a MindSpore call as arguments of the corresponding PyTorch call."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msprobe.base.errors import MappingError

if TYPE_CHECKING:
    from .correspondence import Correspondence, Signature


def translated(
    pair: "Correspondence", args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`Correspondence.translate`, see there."""
    given = _bound(pair, args, kwargs)
    placed = set(list(given)[: len(args)])
    for name, value in pair.ms_defaults.items():
        given.setdefault(name, value)
    made: dict[str, Any] = {}
    by_position = set()
    for name, value in given.items():
        if name in pair.dropped:
            _agreed(pair, name, value)
            continue
        for target, part in _targets(pair, name, _spelled(pair, name, value)):
            _put(made, target.split("."), part)
            if name in placed:
                by_position.add(target.split(".")[0])
    for name, value in pair.inserted.items():
        made.setdefault(name, value)
    if pair.pt.startswith("Tensor.") and pair.pt_signature.names:
        by_position.add(pair.pt_signature.names[0])  # whose method it is
    return _passed(pair.pt_signature, {name: _listed(value) for name, value in made.items()}, by_position)


def _bound(pair: "Correspondence", args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter to value, positional arguments first."""
    known = pair.ms_signature
    if len(args) > len(known.names) and not known.rest:
        raise MappingError(
            f"{pair.ms}: {len(args)} arguments by position, the table knows {len(known.names)}; correct its ms_args"
        )
    given = dict(zip(known.names, args, strict=False))
    if len(args) > len(known.names):
        rest = list(args[len(known.names) :])
        is_one_list = len(rest) == 1 and isinstance(rest[0], list | tuple)
        given[known.rest] = list(rest[0]) if is_one_list else rest
    return {**given, **kwargs}


def _agreed(pair: "Correspondence", name: str, value: Any) -> None:
    wanted = pair.dropped[name]
    if wanted is not None and value is not None and value != (tuple(wanted) if isinstance(wanted, list) else wanted):
        raise MappingError(f"{pair.ms}: {pair.pt} has no {name!r}, and can only do what {wanted!r} does, not {value!r}")


def _spelled(pair: "Correspondence", name: str, value: Any) -> Any:
    words = pair.values.get(name)
    if words is not None and isinstance(value, str | int | float | bool | None) and value in words:
        value = words[value]
    return pair.transforms[name](value) if name in pair.transforms and value is not None else value


def _targets(pair: "Correspondence", name: str, value: Any) -> list[tuple[str, Any]]:
    """(parameter of PyTorch, value) for one of MindSpore; several where the elements of a list are parameters there."""
    names = {**pair.renamed, **pair.attributes}
    found = []
    for of, to in names.items():
        top, _, inner = of.partition(".")
        if top == name and inner:
            part = value
            for index in inner.split("."):
                if int(index) >= len(part):
                    break
                part = part[int(index)]
            else:
                found.append((to, part))
    return found or [(names.get(name, name), value)]


def _put(made: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        made = made.setdefault(part, _Elements())
    made[path[-1]] = value


class _Elements(dict[str, Any]):
    """A list of PyTorch whose elements come one by one."""


def _listed(value: Any) -> Any:
    if not isinstance(value, _Elements):
        return value
    return tuple(_listed(value[index]) for index in sorted(value, key=int))


def _passed(known: "Signature", made: dict[str, Any], by_position: set[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """By position as many as came so, without a gap; all that stand before `*rest`, where that is given."""
    args = []
    for name in known.names:
        if name not in made or not (name in by_position or known.rest in made):
            break
        args.append(made.pop(name))
    if known.rest in made:
        rest = made.pop(known.rest)
        args += list(rest) if isinstance(rest, list | tuple) else [rest]
    return tuple(args), made
