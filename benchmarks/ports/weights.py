"""Which parameter of a port holds which weight of the original."""

import re

STATISTICS = {"moving_mean": "running_mean", "moving_variance": "running_var"}
KINDS = {"gamma": "weight", "beta": "bias", "embedding_table": "weight", **STATISTICS}


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
    """Both sides declare their layers in one order; running statistics may stand elsewhere."""
    found = {}
    own = {name: shape for name, shape in own.items() if not _is_index(name)}
    for is_statistic in (False, True):
        ours = [name for name in own if (_kind(name) in STATISTICS.values()) is is_statistic]
        theirs = [name for name in values if (_kind(name) in STATISTICS.values()) is is_statistic]
        if is_statistic:  # mean, variance, mean, ... on both sides
            ours, theirs = sorted(ours, key=_kind), sorted(theirs, key=_kind)
        if len(ours) != len(theirs):
            raise NoCounterpart(f"{len(ours)} parameters, the original has {len(theirs)}: {ours} {theirs}")
        found |= dict(zip(ours, theirs, strict=True))
    return _fitting(found, own, values)


def _fitting(found, own, values):
    for name, source in found.items():
        if [n for n in own[name] if n != 1] != [n for n in values[source] if n != 1]:
            raise NoCounterpart(f"{name} {own[name]} stands where the original has {source} {values[source]}")
    return found


def _kind(name):
    last = name.rpartition(".")[2]
    return KINDS.get(last, last)


def _is_index(name):
    """Whether it is a constant that the port keeps as a parameter."""
    return bool(re.search(r"relative_position_index|attn_mask|inv_freq", name))


RULES = {"same": same, "in order": in_order}
