"""From the entry of one call to its records: the nested lists and objects of a dump become rows.

What has a wrong type inside a record counts as absent; it is a foreign file, and one bad number must not cost the
other ten thousand records.
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from msprobe.base.errors import DumpError
from msprobe.base.names import parse

from .record import Gradient, Number, Part, Record, Statistics

# Collectors cut at 50. Whatever nests much deeper is no dump, and would exhaust the stack of whoever walks it.
_DEEPEST = 100

# In row order. An entry of a backward call has `input` where a forward call has its arguments.
_PARTS: tuple[tuple[str, Part], ...] = (
    ("input_args", "input"),
    ("input_kwargs", "input"),
    ("input", "input"),
    ("parameters", "parameters"),
    ("output", "output"),
)
_STATISTICS = ("Max", "Min", "Mean", "Norm")
# Placeholders of the other tool, left over where it died before it resolved them.
_UNRESOLVED = "tensor_stat_index"
_GRADIENTS = get_args(Gradient)
_TENSOR_SUFFIXES = (".npy", ".pt")


def records(call: str, entry: Any) -> tuple[Record, ...]:
    """The records of a call in row order; DumpError where the entry is no object or is nested without end."""
    found: list[Record] = []
    kind = parse(call).kind
    if kind == "debug":
        _walk(entry, call, "debug", (), found)
        return tuple(found)
    if type(entry) is not dict:
        raise DumpError(f"{call}: its entry is no object; the file is damaged or no dump")
    if kind == "parameters_grad" or ".parameters_grad" in call:
        for name, leaves in _gradients(entry):
            _walk(leaves, f"{call}.{name}", "parameters_grad", (name,), found)
        return tuple(found)
    for key, part in _PARTS:
        tree = entry.get(key)
        if tree is not None:
            _walk(tree, f"{call}.{part}", part, (), found)
    return tuple(found)


def _gradients(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Parameter and record: the list around a single record is not part of the name, flags of the entry are none."""
    for name, value in entry.items():
        if type(value) is list:
            if name == "missing" and value and all(type(item) is str for item in value):
                continue
            if len(value) == 1:
                yield name, value[0]
                continue
        if type(value) in (list, dict):
            yield name, value


def _walk(node: Any, name: str, part: Part, path: tuple[str, ...], found: list[Record]) -> None:
    kind = type(node)
    if kind is dict:
        if type(node.get("type")) is str:
            found.append(_leaf(node, name, part, path))
            return
        children = node.items()
    elif kind is list:
        children = enumerate(node)
    elif node is None:
        found.append(Record(name, part, path, "null", ""))
        return
    else:
        found.append(Record(name, part, path, "value", kind.__name__, value=node))
        return
    if len(path) >= _DEEPEST:
        raise DumpError(f"{name[:200]}...: is nested deeper than {_DEEPEST} levels; no collector writes that")
    for key, child in children:
        _walk(child, f"{name}.{key}", part, (*path, str(key)), found)


def _leaf(node: dict[str, Any], name: str, part: Part, path: tuple[str, ...]) -> Record:
    kind: str = node["type"]
    digest = node.get("md5")
    file = node.get("data_name")
    if type(digest) is not str:
        digest = ""
    if type(file) is not str:
        file = ""
    elif file.endswith(_TENSOR_SUFFIXES):
        name = file[: file.rindex(".")]
    if "value" in node or not ("shape" in node or "dtype" in node):
        return Record(name, part, path, "value", kind, value=_value(node), digest=digest, file=file)
    dtype = node.get("dtype")
    gradient = node.get("gradient", "own")
    source = node.get("from", "")
    return Record(
        name,
        part,
        path,
        "tensor",
        kind,
        dtype if type(dtype) is str else "",
        _shape(node.get("shape")),
        _statistics(node),
        None,
        digest,
        file,
        gradient if gradient in _GRADIENTS else "own",
        source if type(source) is str else "",
    )


def _value(node: dict[str, Any]) -> Any:
    """The value of a leaf that is no tensor; some types name theirs differently (`format`, `group_ranks`)."""
    if "value" in node:
        return node["value"]
    rest = {key: value for key, value in node.items() if key != "type"}
    for key in ("group_ranks", "format"):
        if key in rest:
            return rest[key]
    return rest or None


def _shape(shape: Any) -> tuple[int, ...] | None:
    if type(shape) is not list:
        return None
    for n in shape:
        if type(n) is not int or n < 0:
            return None
    return tuple(shape)


def _statistics(node: dict[str, Any]) -> Statistics | None:
    if _UNRESOLVED in node:
        return None
    top, bottom, mean, norm = node.get("Max"), node.get("Min"), node.get("Mean"), node.get("Norm")
    if type(top) is type(bottom) is type(mean) is type(norm) is float:
        return Statistics(top, bottom, mean, norm)
    if not any(key in node for key in _STATISTICS):
        return None
    return Statistics(_number(top), _number(bottom), _number(mean), _number(norm), _number(node.get("true_count")))


def _number(value: Any) -> Number:
    if type(value) is int:
        # No dtype holds more; a float could not take it and would fail far from here.
        return value if -(1 << 63) <= value < 1 << 64 else None
    return value if type(value) in (float, bool) else None
