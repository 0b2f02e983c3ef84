"""Layers of MindSpore and PyTorch: the corresponding classes, and the names of their parameters on each side.

For a cell of a dump, whose class is known: `counterpart_classes("LayerNorm")` is ("LayerNorm",), and
`parameter_name("LayerNorm", "gamma")` is ("weight", ""). For a parameter of a checkpoint, of which only the whole name
is known: `parameter_candidates("layers.0.norm.gamma")`, best first. Transforms are texts of `transform.py`, returned if
the shape is passed: some layers of one name have two layouts of weights. The facts are in tables/nn_layers.yaml.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parent / "tables"


@dataclass(frozen=True)
class Layer:
    """One layer of MindSpore and its counterpart; tables/nn_layers.yaml explains the fields.

    `ms` is the public name (`mint.nn.Embedding`), `ms_class` the class name in dumps (`EmbeddingExt`).
    """

    ms: str
    ms_class: str
    pt: tuple[str, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    transforms: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    children: Mapping[str, str] = field(default_factory=dict)
    inner: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    complements: tuple[str, ...] = ()
    values: Mapping[str, Mapping[object, object]] = field(default_factory=dict)
    requires: Mapping[str, object] = field(default_factory=dict)
    inserted: Mapping[str, object] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    note: str = ""
    unverified: str = ""

    def parameter(self, name: str, shape: Sequence[int] = ()) -> tuple[str, str]:
        """Return PyTorch's name of an own parameter and the transform of its layout; a name that is not listed is the
        same."""
        return self.parameters.get(name, name), self.transforms.get(name, {}).get(len(shape), "")

    def arguments(self, passed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor arguments of the counterpart that mean the same as those `passed` to MindSpore's
        layer."""
        merged = {**self.defaults.get("ms", {}), **passed}
        return dict(self.inserted) | {
            self.attributes.get(name, name): self._value(name, value)
            for name, value in merged.items()
            if name not in self.requires
        }

    def _value(self, name: str, value: Any) -> Any:
        if name in self.complements:
            return 1 - value
        words = self.values.get(name, {})
        return words[value] if words and value in words else value


@cache
def layers() -> tuple[Layer, ...]:
    """Return every layer of the table."""
    made = []
    for ms, entry in _table()["layers"].items():
        lists: dict[str, Any] = {key: tuple(entry.get(key, ())) for key in ("inner", "complements")}
        pt = (entry["pt"],) if isinstance(entry["pt"], str) else tuple(entry["pt"])
        rest = {key: value for key, value in entry.items() if key not in ("pt", "class", *lists)}
        made.append(Layer(ms, entry.get("class", ms.rpartition(".")[2]), pt, **lists, **rest))
    return tuple(made)


def reason_without(ms_class: str) -> str:
    """Return why torch.nn has no counterpart of a class of MindSpore; empty if it has, and for classes of the user."""
    return str(_table()["without"].get(f"nn.{ms_class}", ""))


def layers_of(ms_class: str) -> tuple[Layer, ...]:
    """Return the layers with this class name in dumps: one of mindspore.nn and one of mindspore.mint.nn may share
    it."""
    return _by_class().get(ms_class, ())


def counterpart_classes(ms_class: str) -> tuple[str, ...]:
    """Return the classes of torch.nn that correspond to a class of MindSpore, best first; none for a class of the
    user."""
    return _unique(pt for layer in layers_of(ms_class) for pt in layer.pt)


def parameter_name(ms_class: str, name: str, shape: Sequence[int] = ()) -> tuple[str, str]:
    """Return PyTorch's name of a parameter that a cell of this class owns, and the transform of its layout ("" for
    none).

    A parameter that is not in the table has the same name on both sides, also in classes of the user. `shape` is
    MindSpore's; without it there is no transform.
    """
    for layer in layers_of(ms_class):
        if name in layer.parameters or name in layer.transforms:
            return layer.parameter(name, shape)
    return name, ""


def parameter_candidates(name: str, shape: Sequence[int] = ()) -> tuple[tuple[str, str], ...]:
    """Return the possible names in PyTorch of a whole parameter name, `layers.0.norm.gamma`, each with its transform,
    best first.

    The class of the owner is unknown, so every layer with such a parameter counts. Parameters in the same layout come
    before transformed ones, then renamed parameters before the same name, then inner layers of the same name before
    renamed ones. Use the first whose name the other side has, with the same shape after the transform.
    """
    found: list[tuple[str, str]] = []
    parts = tuple(name.split("."))
    for length in range(len(parts), 0, -1):
        owner, own = parts[: len(parts) - length], ".".join(parts[len(parts) - length :])
        for layer in _by_parameter().get(own, ()):
            pt_name, transform = layer.parameter(own, shape)
            found += [(".".join((*path, pt_name)), transform) for path in _paths(owner)]
    found += [(".".join((*path, parts[-1])), "") for path in _paths(parts[:-1])]
    return _unique(sorted(found, key=lambda candidate: candidate[1] != ""))


def _paths(parts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return a path of inner layers unchanged, then with PyTorch's names of inner layers."""
    return _unique((parts, tuple(_children().get(part, part) for part in parts)))


@cache
def _table() -> dict[str, dict[str, Any]]:
    import yaml  # type: ignore[import-untyped]  # ships without types; and only who reads the tables needs it

    # The loader in C is ten times as fast; both give the same result.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    held: dict[str, dict[str, Any]] = yaml.load((TABLES / "nn_layers.yaml").read_text(encoding="utf-8"), loader)
    return held


@cache
def _by_class() -> dict[str, tuple[Layer, ...]]:
    return _grouped((layer.ms_class, layer) for layer in layers())


@cache
def _by_parameter() -> dict[str, tuple[Layer, ...]]:
    """Return the layers by the name of a parameter in their entries."""
    return _grouped((name, layer) for layer in layers() for name in _unique((*layer.parameters, *layer.transforms)))


def _grouped(pairs: Iterable[tuple[str, Layer]]) -> dict[str, tuple[Layer, ...]]:
    found: dict[str, tuple[Layer, ...]] = {}
    for name, layer in pairs:
        found[name] = (*found.get(name, ()), layer)
    return found


@cache
def _children() -> dict[str, str]:
    return {ms: pt for layer in layers() for ms, pt in layer.children.items()}


def _unique(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))
