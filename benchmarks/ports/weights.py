"""Which parameter of a port holds which weight of the original."""

import re

import numpy as np

KINDS = {
    **{"gamma": "weight", "beta": "bias", "embedding_table": "weight", "gamma_": "gamma"},
    **{"moving_mean": "running_mean", "moving_variance": "running_var"},
}
"""Last names of MindSpore's parameters, and what PyTorch calls them; `gamma_` is mindcv's scale of a layer."""


class NoCounterpart(Exception):
    """The parameters of the two sides do not correspond."""


def sources(own, values, rule):
    """The original's name for each of the port's: `own` and `values` are shapes by name."""
    return RULES[rule](own, values)


def same(own, values):
    """Names are the same, but for the layers of MindSpore that call theirs otherwise."""
    found = {}
    for name in own:
        path, _, last = name.rpartition(".")
        source = name if name in values else f"{path}.{KINDS.get(last, last)}"
        if source in values:
            found[name] = source
    return _fitting(found, own, values)


def in_order(own, values):
    """Both sides declare parameters of one kind and shape in one order."""
    if any(name.endswith(".q.weight") for name in own):
        values = dict(_split(values))
    ours = _groups({name: shape for name, shape in own.items() if not _is_index(name)}, KINDS)
    theirs = _groups(values, {})
    found = {}
    for group, names in ours.items():
        if len(names) != len(theirs.get(group, ())):
            raise NoCounterpart(f"{names} stand where the original has {theirs.get(group)}")
        found |= dict(zip(names, theirs[group], strict=True))
    return _fitting(found, own, values)


def _groups(shapes, kinds):
    """Names by kind and shape, in order; `kinds` says what a last name is called in the original."""
    found = {}
    for name, shape in shapes.items():
        last = name.rpartition(".")[2].partition("#")[0]
        found.setdefault((kinds.get(last, last), tuple(n for n in shape if n != 1)), []).append(name)
    return found


def taken(values, source):
    """The array of a name that `sources` gave: `qkv.weight#1` is the second third of `qkv.weight`."""
    name, _, part = source.partition("#")
    return np.split(values[name], 3)[int(part)] if part else values[name]


def _split(values):
    """Names and shapes, with a fused projection as three, each its weight and its bias."""
    for name, shape in values.items():
        if ".qkv." not in name:
            yield name, shape
        elif name.endswith("weight"):
            bias = name.replace("weight", "bias")
            for part in range(3):
                yield f"{name}#{part}", (shape[0] // 3, *shape[1:])
                yield f"{bias}#{part}", (shape[0] // 3,)


def _fitting(found, own, values):
    for name, source in found.items():
        if [n for n in own[name] if n != 1] != [n for n in values[source] if n != 1]:
            raise NoCounterpart(f"{name} {own[name]} stands where the original has {source} {values[source]}")
    return found


def _is_index(name):
    """Whether it is a constant that the port keeps as a parameter."""
    return bool(re.search(r"relative_position_index|relative_bias.index|attn_mask|inv_freq", name))


RULES = {"same": same, "in order": in_order}
