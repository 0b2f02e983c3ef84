"""Read the hand-written truth of a twin: which call of the MindSpore net belongs to which of the PyTorch net.

A listing (`truth/NET.yaml`) has a row for every call, in the order of execution, as `[MindSpore, PyTorch]`; where the
two sides run in different orders, `order` says so. What this module adds is arithmetic: it writes a row once for each
layer, and numbers the calls of one name.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

SIDES = ("ms", "pt")
FOLDER = Path(__file__).parent / "truth"
VARIANTS = ("scrambled", "reordered", "equal_weights", "extra_layer", "missing_layer", "fused_qkv")
EVERYWHERE = ("scrambled", "equal_weights")  # variants that every net has


@dataclass(frozen=True)
class Row:
    """A pair of calls, or one call alone ("none" for the other). With `may` the pair is right, but nobody needs it."""

    ms: str
    pt: str
    may: bool = False


@dataclass(frozen=True)
class Parameter:
    """A parameter of one side: the weight it holds is `key`'s, of which `rows` is the part along the first axis."""

    name: str
    key: str
    rows: tuple[int, int] | None = None
    transposed: bool = False


@dataclass(frozen=True)
class Truth:
    """What was written down about a twin in one of its variants."""

    rows: tuple[Row, ...]
    parameters: dict[str, tuple[Parameter, ...]]
    patches: dict[str, tuple[dict, ...]]
    scrambled: str = ""

    def pairs(self):
        """Forward and backward pairs: {(MindSpore name, PyTorch name): whether it is needed}."""
        found = {}
        for row in self.rows:
            if "none" not in (row.ms, row.pt):
                found[row.ms, row.pt] = not row.may
                found[backward(row.ms), backward(row.pt)] = not row.may
        return found

    def leaves(self):
        """The MindSpore names of forward calls of paired modules, of which one at least has no modules inside."""
        inner = {side: {path_of(getattr(row, side)) for row in self.rows} - {None} for side in SIDES}
        leaf = {
            side: {p for p in paths if not any(q.startswith(p + ".") for q in paths)} for side, paths in inner.items()
        }
        paired = [row for row in self.rows if path_of(row.ms) and path_of(row.pt) and not row.may]
        return {row.ms for row in paired if path_of(row.ms) in leaf["ms"] or path_of(row.pt) in leaf["pt"]}


def load(net, variant=None):
    """The truth of a net; a variant may be several joined by "+". UnknownVariant for one that the net does not have."""
    written = contents(FOLDER / f"{net}.yaml")
    snippets = contents(FOLDER / "layers.yaml") | written.get("layers", {})
    own, change = written.get("variants", {}), {}
    for name in names_of(variant):
        if name not in (*EVERYWHERE, *own):
            raise UnknownVariant(f"{net} has no variant {name}")
        change |= own.get(name) or {}
    ranges = {
        name: {side: change.get("ranges", {}).get(name, {}).get(side, labels[side]) for side in SIDES}
        for name, labels in written.get("ranges", {}).items()
    }
    order = written.get("order", {}) | change.get("order", {})
    listing = _Listing(ranges, snippets, change.get("parts", {}), order, written.get("primitives", []))
    scrambled = "ms" if "scrambled" in names_of(variant) else ""
    replaced = change.get("parameters", [])
    given_up = {name for row in _flat(replaced) for name in row[:1]}
    parameters = [*_without(written["parameters"], given_up), *replaced]
    return Truth(
        listing.rows(written["program"], scrambled),
        {side: listing.parameters(parameters, side, scrambled == side) for side in SIDES},
        {side: tuple(change.get("patches", {}).get(side, ())) for side in SIDES},
        scrambled,
    )


def nets():
    """The twins by name, each with its variants."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        written = contents(path)
        if "program" in written:
            found[path.stem] = [v for v in VARIANTS if v in EVERYWHERE or v in written.get("variants", {})]
    return found


@cache
def contents(path):
    """What a YAML file says; nobody changes it."""
    return yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def names_of(variant):
    """The variants that are joined in one."""
    return variant.split("+") if variant else []


class UnknownVariant(Exception):
    """A net was asked for a variant that it does not have."""


def backward(name):
    """The backward call of a forward call."""
    return name.replace(".forward", ".backward")


def path_of(name):
    """`blocks.0.norm` of `Cell.blocks.0.norm.LayerNorm.forward.0`, None for what is no module."""
    parts = name.split(".")
    return ".".join(parts[1:-3]) if parts[0] in ("Cell", "Module") else None


def scrambled_name(name):
    """A name that says nothing, the same in every run."""
    return "n" + hashlib.sha256(name.encode()).hexdigest()[:6]


def scrambled_parameter(name):
    """A parameter's name with the attributes that the net's author named scrambled."""
    *path, last = name.split(".")
    of_layer = (path and last in PARAMETERS) or LSTM_WEIGHT.match(last)
    last = last if of_layer else scrambled_name(last)
    return ".".join([*(p if p.isdigit() else scrambled_name(p) for p in path), last])


class _Listing:
    """Writes a listing out, once for each element of its ranges."""

    def __init__(self, ranges, snippets, parts, order, primitives):
        self.ranges, self.snippets, self.parts, self.order = ranges, snippets, parts, order
        self.primitives = primitives  # those that the net's author named

    def rows(self, program, scrambled):
        calls = {side: list(self._calls(program, side)) for side in SIDES}
        named = {side: _numbered(calls[side], self.primitives if side == scrambled else None) for side in SIDES}
        partners = {key: name for (key, _), name in zip(calls["pt"], named["pt"], strict=True)}
        rows, taken = [], set()
        for (key, options), name in zip(calls["ms"], named["ms"], strict=True):
            partner = _nearest(options["with"], partners) if "with" in options else key
            other = partners.get(partner, "none")
            taken.add(partner)
            rows.append(Row(name, other, options.get("may", False)))
        return (*rows, *(Row("none", name) for key, name in partners.items() if key not in taken))

    def _calls(self, rows, side, key=(), values=None, scope=()):
        """The calls of one side in its order of execution: key (equal keys make a pair), stem and options."""
        values = values or {}
        for index, row in self._in_order(rows, side):
            if isinstance(row, list):
                stem, options = row[SIDES.index(side)], dict(row[2]) if len(row) > 2 else {}
                if stem != "none":
                    options["stem"] = stem.format(**values)
                    if "with" in options:
                        options["with"] = [(*scope[:n], "as", options["with"]) for n in range(len(scope), -1, -1)]
                    yield (*scope, "as", options["as"]) if "as" in options else (*key, index), options
            elif "each" in row:
                name = row["each"]
                for position, label in enumerate(self.ranges[name][side]):
                    inner = {**values, name: position}
                    yield from self._calls(row["rows"], side, (*key, index, label), inner, (*scope, index, label))
            elif "part" in row:
                inner = self.parts.get(row["part"], row["rows"])
                yield from self._calls(inner, side, (*key, row["part"]), values, scope)
            else:
                yield from self._calls(self.snippets[row["use"]], side, (*key, f"use {index}"), values, scope)

    def _in_order(self, rows, side):
        numbered = list(enumerate(rows))
        wanted = self.order.get(side, [])
        places = [i for i, row in numbered if isinstance(row, dict) and row.get("part") in wanted]
        moved = sorted(places, key=lambda i: wanted.index(rows[i]["part"]))
        for place, source in zip(places, moved, strict=True):
            numbered[place] = (source, rows[source])
        return numbered

    def parameters(self, rows, side, scrambled, key="", values=None):
        found, values = [], values or {}
        for index, row in enumerate(rows):
            if isinstance(row, list):
                options = dict(row[2]) if len(row) > 2 else {}
                name = row[SIDES.index(side)]
                if name != "none":
                    name = name.format(**values)
                    name = scrambled_parameter(name) if scrambled else name
                    label = f"{key}{row[0]}"
                    part = tuple(options["rows"]) if side == "pt" and "rows" in options else None
                    found.append(Parameter(name, label, part, side == "ms" and options.get("transposed", False)))
            else:
                for position, label in enumerate(self.ranges[row["each"]][side]):
                    inner = {**values, row["each"]: position}
                    found.extend(self.parameters(row["rows"], side, scrambled, f"{key}{index} {label} ", inner))
        return tuple(found)


# Names that the framework gave: scrambling reaches only what the net's author named.
PARAMETERS = frozenset(["weight", "bias", "gamma", "beta", "embedding_table", "moving_mean", "moving_variance"])
LSTM_WEIGHT = re.compile(r"(weight|bias)_[ih]h_l\d")
LAYERS = frozenset(
    [
        *("BatchNorm2d", "Conv2d", "Dense", "Dropout", "Embedding", "GELU", "LSTM", "LayerNorm", "MaxPool2d", "ReLU"),
        *("SequentialCell", "Softmax", "_DynamicLSTMCPUGPU"),
    ]
)
INNER = frozenset(["rnn"])  # nn.LSTM's


def _nearest(labels, partners):
    """The innermost of the places where a label may stand that has it; KeyError where none does."""
    found = [label for label in labels if label in partners]
    if not found:
        raise KeyError(f"no call of the other side is labelled {labels[0][-1]}")
    return found[0]


def _numbered(calls, scrambled):
    """Names of calls in order: each stem counts its own. With a list of primitives to scramble names are scrambled."""
    counts, names = {}, []
    for _, options in calls:
        stem = options["stem"]
        number = counts[stem] = counts.get(stem, -1) + 1
        names.append(_name(stem if scrambled is None else _scrambled_stem(stem, scrambled), number))
    return names


def _name(stem, number):
    ending = f"forward.{number}" if stem.startswith(("Cell.", "Module.")) else f"{number}.forward"
    return f"{stem}.{ending}"


def _scrambled_stem(stem, primitives):
    """The stem with what the net's author named scrambled: a cell's path, its class, the attribute of a primitive."""
    kind, *path, last = stem.split(".")
    if kind != "Cell" and stem not in primitives:
        return stem
    last = last if kind == "Primitive" or last in LAYERS else scrambled_name(last)
    return ".".join([kind, *(p if p.isdigit() or p in INNER else scrambled_name(p) for p in path), last])


def _flat(rows):
    for row in rows:
        yield from [row] if isinstance(row, list) else _flat(row["rows"])


def _without(rows, names):
    kept = []
    for row in rows:
        if isinstance(row, list):
            kept += [row] if row[0] not in names else []
        else:
            kept.append({**row, "rows": _without(row["rows"], names)})
    return kept
