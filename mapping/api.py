"""The table of functions: the counterpart in PyTorch of each function of MindSpore, argument by argument.

`tables/ms_to_pt_api.yaml` has one entry per stem of MindSpore's names (primitives as `Primitive.<Class>`, without the
attribute), a list of entries if a function has overloads or several counterparts with different arguments, best first.
`tables/no_counterpart.yaml` has the other names with the reason why PyTorch has no counterpart.

```
pt           stem of PyTorch's name, or a list, best first
ms_args      parameters in positional order, as Python writes them: "*operands", and "*" before keyword-only ones
pt_args      the same of PyTorch. One of both left out is derived from the other by args, dropped and inserted;
             both left out: places are equal
args         MindSpore's name: PyTorch's name, if they differ; either may be dotted (hx.0: element 0)
attributes   the same for the attributes of a primitive, which are not recorded
dropped      MindSpore's parameter, or attribute of a primitive: the value at which both sides agree, null
             for any
inserted     PyTorch's parameter: the value that means the same
values       MindSpore's parameter: {its value: PyTorch's value}
transforms   MindSpore's parameter, or output.0: a text of transform.py
output       list: result i of MindSpore is result output[i] of PyTorch, null for none; or {path: path}
defaults     {ms: {...}, pt: {...}}: defaults that differ
required     minimum number of ms_args of a call, if that distinguishes overloads
unverified   why this could not be executed
```
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path as File
from typing import Any

from msprobe.base.errors import MappingError

from .correspondence import Correspondence, Path, Place, Signature
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
_AS_WRITTEN = ("attributes", "dropped", "inserted", "values", "required", "unverified")
"""Keys of an entry that are fields of a `Correspondence` unchanged."""

_NEIGHBOR = {"Mint": "MintFunctional", "MintFunctional": "Mint"}
_OLD = {"bce_with_logits": "binary_cross_entropy_with_logits", "dense": "linear"}
"""Names of MindSpore before 2.7, and the current ones."""


@dataclass(frozen=True)
class ApiTable:
    """Every known name: `entries` with their correspondences, best first, and `without` with the reason."""

    entries: Mapping[str, tuple[Correspondence, ...]] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)

    def counterparts(self, ms_stem: str) -> tuple[Correspondence, ...]:
        """Return the counterparts of a stem of MindSpore (`Primitive.matmul.MatMul`); empty if unknown.

        Names of MindSpore before 2.7 are looked up by their current names: `mint.gelu` was `mint.nn.functional.gelu`
        too, and some functions had a suffix.
        """
        key = key_of(ms_stem)
        prefix, _, name = key.partition(".")
        new = _OLD.get(name, name.removesuffix("_ext").removesuffix("_ex"))
        since = (f"{prefix}.{new}", f"{_NEIGHBOR[prefix]}.{new}") if prefix in _NEIGHBOR else ()
        return next((found for known in (key, *since) if (found := self.entries.get(known))), ())

    def between(
        self, ms_stem: str, pt_stem: str, ms_tops: Sequence[str], pt_tops: Sequence[str] = ()
    ) -> Correspondence | None:
        """Return the correspondence of a call of each side with these arguments (`("0", "axis")`); None if there is
        none.

        Of overloads that accept MindSpore's arguments, it is the first that accepts PyTorch's too, otherwise the first.
        """
        fitting = [pair for pair in self.counterparts(ms_stem) if pair.pt == pt_stem and pair.fits(ms_tops)]
        return next((pair for pair in fitting if pair.fits_pt(pt_tops)), fitting[0] if fitting else None)

    def reason_without(self, ms_stem: str) -> str:
        """Return why PyTorch has no counterpart of this stem; empty if unknown, or if it has one."""
        return self.without.get(key_of(ms_stem), "")


def key_of(ms_stem: str) -> str:
    """Return the table's key: that of a primitive without the attribute that contained it."""
    first, _, rest = ms_stem.partition(".")
    return f"Primitive.{rest.rpartition('.')[2]}" if first == "Primitive" else ms_stem


@lru_cache(maxsize=1)
def load_table() -> ApiTable:
    """Return the table that comes with the package, read once."""
    import yaml  # type: ignore[import-untyped]  # ships without types; and only who reads the tables needs it

    # The loader in C is ten times as fast; both give the same result.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    files = (TABLES / name for name in ("ms_to_pt_api.yaml", "no_counterpart.yaml"))
    return read_table(*(yaml.load(file.read_text(encoding="utf-8"), loader) for file in files))


def read_table(entries: Mapping[str, Any], without: Mapping[str, Any]) -> ApiTable:
    """Return a table from the contents of its files; raise a MappingError if an entry is contradictory, or a name is in
    both."""
    if both := sorted(set(entries) & set(without)):
        raise MappingError(f"{both[0]}: is both in the table and in the list of names without counterpart; remove one")
    made: dict[str, list[Correspondence]] = {stem: [] for stem in entries}
    for stem, entry in entries.items():
        for overload in entry if isinstance(entry, list) else [entry]:
            _check(stem, overload)
            pt = overload["pt"]
            made[stem] += [_correspondence(stem, name, overload) for name in ([pt] if isinstance(pt, str) else pt)]
    found = {stem: tuple(pairs) for stem, pairs in made.items()}
    return ApiTable(found, {stem: str(reason) for stem, reason in without.items()})


def _check(stem: str, entry: Any) -> None:
    if not isinstance(entry, dict) or "pt" not in entry:
        raise MappingError(f"{stem}: an entry of the table must be a map with the key 'pt', or a list of such maps")
    for key, value in entry.items():
        if key not in _KEYS:
            raise MappingError(f"{stem}: unknown key {key!r}; choose from {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            wanted = " or a ".join(kind.__name__ for kind in _KEYS[key])
            raise MappingError(f"{stem}: {key} is {value!r}; write a {wanted}")
    _check_numbers(stem, entry)


def _check_numbers(stem: str, value: Any) -> None:
    """Raise a MappingError for a number without a dot, 1e-05, which YAML reads as text."""
    if isinstance(value, str) and value[:1].isdigit() and "e" in value:
        try:
            float(value)
        except ValueError:
            return
        raise MappingError(
            f"{stem}: {value} is a string in YAML; write {float(value):.1e} with a decimal point, as in 1.0e-05"
        )
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_numbers(stem, inner)


def _correspondence(stem: str, pt: str, entry: Mapping[str, Any]) -> Correspondence:
    ms_args, pt_args, renamed = entry.get("ms_args"), entry.get("pt_args"), entry.get("args", {})
    if ms_args is None and pt_args is not None:
        back = {to: of for of, to in renamed.items() if "." not in of + to}
        ms_args = [_renamed(back, name) for name in pt_args if name not in entry.get("inserted", {})]
    if pt_args is None and ms_args is not None:
        pt_args = [_renamed(renamed, name) for name in ms_args if name not in entry.get("dropped", {})]
    output, defaults = entry.get("output", []), entry.get("defaults", {})
    results = output.items() if isinstance(output, dict) else enumerate(output)
    made = Correspondence(
        ms=stem,
        pt=pt,
        ms_signature=Signature.of(ms_args or [], stem),
        pt_signature=Signature.of(pt_args or [], stem),
        renamed=renamed,
        transforms={name: parse(text) for name, text in entry.get("transforms", {}).items()},
        output={_path(of): None if to is None else _path(to) for of, to in results},
        ms_defaults=defaults.get("ms", {}),
        pt_defaults=defaults.get("pt", {}),
        **{key: entry[key] for key in _AS_WRITTEN if key in entry},
    )
    _check_consistency(made)
    return made


def _renamed(names: Mapping[str, str], name: str) -> str:
    bare = name.removeprefix("*")
    return name.removesuffix(bare) + names.get(bare, bare)


def _path(dotted: Any) -> Path:
    return tuple(str(dotted).split("."))


def _check_consistency(pair: Correspondence) -> None:
    """Raise a MappingError if a key has a parameter that its side does not have."""
    known = set(pair.ms_signature.every) | set(pair.attributes)
    known |= set(pair.dropped) if pair.ms.startswith("Primitive.") else set()  # attributes of a primitive
    words: dict[str, Iterable[str]] = {
        "args": pair.renamed,
        "dropped": pair.dropped,
        "values": pair.values,
        "transforms": pair.transforms,
        "defaults: ms": pair.ms_defaults,
    }
    for key, names in words.items():
        for top in (name.split(".")[0] for name in names):
            if known and top not in known and top != "output":
                raise MappingError(f"{pair.ms}: {key} refers to {top!r}, which is not in ms_args; add it there")
    for key, found in {"args": pair.renamed, "attributes": pair.attributes}.items():
        for name in found.values():
            if pair.pt_signature and name.split(".")[0] not in pair.pt_signature:
                raise MappingError(f"{pair.ms}: {key} refers to {name!r}, which is not in pt_args; add it there")
    if lost := sorted(set(pair.dropped) & {name.split(".")[0] for name in pair.renamed}):
        raise MappingError(f"{pair.ms}: {lost[0]!r} is in args and in dropped; remove one")
