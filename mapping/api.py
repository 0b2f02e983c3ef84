"""The table of functions: which function of PyTorch stands for a function of MindSpore, argument by argument.

`tables/ms_to_pt_api.yaml` holds one entry per stem of MindSpore's names (primitives as `Primitive.<Class>`, without the
attribute), a list of entries where a function has overloads or several counterparts that take their arguments
differently, best first. `tables/no_counterpart.yaml` says of the other names why PyTorch has nothing for them.

```
pt           stem of PyTorch's name, or a list, best first
ms_args      parameters in positional order, as Python writes them: "*operands", and "*" before keyword-only ones
pt_args      the same of PyTorch. One of both left out is derived from the other by args, dropped and inserted;
             both left out: places stay as they are
args         MindSpore's name: PyTorch's name, where they differ; either may be dotted (hx.0: element 0)
attributes   the same for what a primitive is constructed with, which no record shows
dropped      MindSpore's parameter, or what a primitive is constructed with: the value at which both sides agree, null
             for any
inserted     PyTorch's parameter: the value that means the same
values       MindSpore's parameter: {its value: PyTorch's value}
transforms   MindSpore's parameter, or output.0: a text of transform.py
output       list: result i of MindSpore is result output[i] of PyTorch, null for none; or {path: path}
defaults     {ms: {...}, pt: {...}}: defaults that differ
required     how many of ms_args a call must have, where that tells overloads apart
unverified   why this could not be executed
```
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path as File
from typing import Any

import yaml  # type: ignore[import-untyped]  # ships without types

from msprobe.base.errors import MappingError

from .correspondence import Correspondence, Path, Place, Signature, signature_of
from .transform import parse

__all__ = ["ApiTable", "Correspondence", "Place", "load_table", "read_table"]

TABLES = File(__file__).parent / "tables"

_KEYS = {
    "pt": (str, list),
    "ms_args": (list,),
    "pt_args": (list,),
    "args": (dict,),
    "attributes": (dict,),
    "dropped": (dict,),
    "inserted": (dict,),
    "values": (dict,),
    "transforms": (dict,),
    "output": (list, dict),
    "defaults": (dict,),
    "required": (int,),
    "unverified": (str,),
}


_NEIGHBOUR = {"Mint": "MintFunctional", "MintFunctional": "Mint"}
_OLD = {"bce_with_logits": "binary_cross_entropy_with_logits", "dense": "linear"}
"""Names of MindSpore before 2.7, and where they stand since."""


@dataclass(frozen=True)
class ApiTable:
    """Every known name: `entries` with their correspondences, best first, and `without` with the reason."""

    entries: Mapping[str, tuple[Correspondence, ...]] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)

    def counterparts(self, ms_stem: str) -> tuple[Correspondence, ...]:
        """What stands for a stem of MindSpore (`Primitive.matmul.MatMul`); empty where that is not known."""
        return next((found for key in _keys(ms_stem) if (found := self.entries.get(key))), ())

    def between(
        self, ms_stem: str, pt_stem: str, ms_tops: Sequence[str], pt_tops: Sequence[str] = ()
    ) -> Correspondence | None:
        """What joins a call of each side that have these arguments (`("0", "axis")`); None where nothing does.

        Of overloads that take MindSpore's arguments the first that takes PyTorch's too, or else the first.
        """
        fitting = [pair for pair in self.counterparts(ms_stem) if pair.pt == pt_stem and pair.fits(ms_tops)]
        return next((pair for pair in fitting if pair.fits_pt(pt_tops)), fitting[0] if fitting else None)

    def reason_without(self, ms_stem: str) -> str:
        """Why PyTorch has nothing for this stem; empty where that is not known, or where it has something."""
        return self.without.get(key_of(ms_stem), "")


def key_of(ms_stem: str) -> str:
    """The table's key: a primitive's without the attribute that held it."""
    first, _, rest = ms_stem.partition(".")
    return f"Primitive.{rest.rpartition('.')[2]}" if first == "Primitive" else ms_stem


def _keys(ms_stem: str) -> Iterator[str]:
    """Where a stem may stand in the table: under its key, or under what older names are called since MindSpore 2.7.

    Then `mint.gelu` was `mint.nn.functional.gelu` too, and some functions had a suffix.
    """
    key = key_of(ms_stem)
    yield key
    prefix, _, name = key.partition(".")
    if prefix in _NEIGHBOUR:
        name = _OLD.get(name, name.removesuffix("_ext").removesuffix("_ex"))
        yield f"{prefix}.{name}"
        yield f"{_NEIGHBOUR[prefix]}.{name}"


@lru_cache(maxsize=1)
def load_table() -> ApiTable:
    """The table that comes with the package, read once."""
    return read_table(_held("ms_to_pt_api.yaml"), _held("no_counterpart.yaml"))


def read_table(entries: Mapping[str, Any], without: Mapping[str, Any]) -> ApiTable:
    """A table from what its files hold; MappingError where an entry contradicts itself, or a name stands in both."""
    if both := sorted(set(entries) & set(without)):
        raise MappingError(f"{both[0]}: stands in the table and among the names without counterpart; remove one")
    made = {stem: tuple(_correspondences(stem, entry)) for stem, entry in entries.items()}
    return ApiTable(made, {stem: str(reason) for stem, reason in without.items()})


def _held(name: str) -> dict[str, Any]:
    """What a file of the package holds."""
    # The loader in C is ten times as fast; both read the same.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    held: dict[str, Any] = yaml.load((TABLES / name).read_text(encoding="utf-8"), loader)
    return held


def _correspondences(stem: str, entry: Any) -> Iterable[Correspondence]:
    overloads = entry if isinstance(entry, list) else [entry]
    for overload in overloads:
        _checked(stem, overload)
        pt = overload["pt"]
        for name in [pt] if isinstance(pt, str) else pt:
            yield _correspondence(stem, name, overload)


def _checked(stem: str, entry: Any) -> None:
    if not isinstance(entry, dict) or "pt" not in entry:
        raise MappingError(f"{stem}: an entry of the table is a map with the key 'pt', or a list of such maps")
    for key, value in entry.items():
        if key not in _KEYS:
            raise MappingError(f"{stem}: unknown key {key!r}; known: {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            wanted = " or a ".join(kind.__name__ for kind in _KEYS[key])
            raise MappingError(f"{stem}: {key} is {value!r}; make it a {wanted}")
    _no_number_as_text(stem, entry)


def _no_number_as_text(stem: str, value: Any) -> None:
    """Yaml takes 1e-05 for a text."""
    if isinstance(value, str) and value[:1].isdigit() and "e" in value:
        try:
            float(value)
        except ValueError:
            return
        raise MappingError(f"{stem}: {value} is a text in yaml; write {float(value):.1e} with a dot, as in 1.0e-05")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _no_number_as_text(stem, inner)


def _correspondence(stem: str, pt: str, entry: Mapping[str, Any]) -> Correspondence:
    defaults = entry.get("defaults", {})
    ms_signature, pt_signature = _signatures(stem, entry)
    made = Correspondence(
        ms=stem,
        pt=pt,
        ms_signature=ms_signature,
        pt_signature=pt_signature,
        renamed=entry.get("args", {}),
        attributes=entry.get("attributes", {}),
        dropped=entry.get("dropped", {}),
        inserted=entry.get("inserted", {}),
        values=entry.get("values", {}),
        transforms={name: parse(text) for name, text in entry.get("transforms", {}).items()},
        output=_output(entry.get("output", [])),
        ms_defaults=defaults.get("ms", {}),
        pt_defaults=defaults.get("pt", {}),
        required=entry.get("required", 0),
        unverified=entry.get("unverified", ""),
    )
    _consistent(made)
    return made


def _signatures(stem: str, entry: Mapping[str, Any]) -> tuple[Signature, Signature]:
    ms, pt, renamed = entry.get("ms_args"), entry.get("pt_args"), entry.get("args", {})
    if ms is None and pt is not None:
        back = {to: of for of, to in renamed.items() if "." not in of + to}
        ms = [_starred(back, name) for name in pt if name not in entry.get("inserted", {})]
    if pt is None and ms is not None:
        pt = [_starred(renamed, name) for name in ms if name not in entry.get("dropped", {})]
    return signature_of(ms or [], stem), signature_of(pt or [], stem)


def _starred(names: Mapping[str, str], name: str) -> str:
    stars = "*" if name.startswith("*") else ""
    return stars + names.get(name[len(stars) :], name[len(stars) :])


def _output(listed: Any) -> dict[Path, Path | None]:
    pairs = listed.items() if isinstance(listed, dict) else enumerate(listed)
    return {_path(of): None if to is None else _path(to) for of, to in pairs}


def _path(dotted: Any) -> Path:
    return tuple(str(dotted).split("."))


def _consistent(pair: Correspondence) -> None:
    """MappingError where a key speaks of a parameter that its side does not have."""
    known = set(pair.ms_signature.every) | set(pair.attributes)
    known |= set(pair.dropped) if pair.ms.startswith("Primitive.") else set()  # what it is constructed with
    words = {
        "args": pair.renamed,
        "dropped": pair.dropped,
        "values": pair.values,
        "transforms": pair.transforms,
        "defaults: ms": pair.ms_defaults,
    }
    for key, names in words.items():
        for name in names:
            top = name.split(".")[0]
            if known and top not in known and top != "output":
                raise MappingError(f"{pair.ms}: {key} speaks of {top!r}, which ms_args does not list; add it there")
    pt_names = set(pair.pt_signature.every)
    for key, found in {"args": pair.renamed.values(), "attributes": pair.attributes.values()}.items():
        for name in found:
            if pt_names and name.split(".")[0] not in pt_names:
                raise MappingError(f"{pair.ms}: {key} leads to {name!r}, which pt_args does not list; add it there")
    if lost := sorted(set(pair.dropped) & {name.split(".")[0] for name in pair.renamed}):
        raise MappingError(f"{pair.ms}: {lost[0]!r} is in args and in dropped; remove one")
