"""Names of `list`, `scope` and `tensor_list` that no call can have, by the grammar of names.

Only what is certain: whether a network has a layer of a name shows in its run.
"""

import re
from collections.abc import Iterator

from msprobe.base.checks import quoted
from msprobe.base.framework import TITLES
from msprobe.base.names import API_PREFIXES, parse
from msprobe.base.sections import CollectSettings
from msprobe.base.settings import Origin, Settings
from msprobe.findings.catalogue import readiness as kinds
from msprobe.frameworks.limits import CALL_PREFIXES, COMPILES_GRAPHS

from .finding import Obstacle
from .target import Target

_WILD = re.compile(r"\.\*|[*?^$\\|()\[\]{}]")
_CELLS = tuple(prefixes[0] for prefixes in CALL_PREFIXES.values())
"""The beginnings of names of modules."""


def unmatched_patterns(settings: Settings, target: Target, origin: Origin) -> Iterator[Obstacle]:
    """A finding for each name that matches no call at the level and with the framework of this collection."""
    section = settings.section
    if not isinstance(section, CollectSettings):
        return
    where = origin.inside(settings.task)
    named = {"list": section.patterns, "scope": section.scope, "tensor_list": section.tensor_list}
    for key, names in named.items():
        if settings.level == "debug" and names:
            reason = 'level "debug" saves what save() is given'
            yield Obstacle(kinds.WITHOUT_EFFECT, where(key), reason=reason)
            continue
        for name in names:
            if reason := _why_unmatched(name, settings, section, target):
                yield Obstacle(kinds.PATTERN, where(key), quoted(name), reason=reason)
    if section.scope and (reason := _never_ends(*section.scope)):
        yield Obstacle(kinds.PATTERN, where("scope"), quoted(list(section.scope)), reason=reason)


def _why_unmatched(name: str, settings: Settings, section: CollectSettings, target: Target) -> str:
    prefix = name.partition(".")[0] if "." in name else ""
    level, call = settings.level, parse(name)
    if level == "L2":
        return _why_no_kernel(prefix)
    if name != name.strip():
        return "it begins or ends with a blank, and no name does"
    if found := _WILD.search(name):
        return f"a call is meant by a part of its name, and {quoted(found[0])} is in no name; write a part without it"
    if level == "L0" and prefix in API_PREFIXES:
        return 'it is the name of an API, and level "L0" records cells; use level "L1" or "mix"'
    if level == "L1" and prefix in _CELLS:
        return 'it is the name of a cell, and level "L1" records APIs; use level "L0" or "mix"'
    if reason := _why_other_framework(prefix, target):
        return reason
    mode = section.data_mode
    if (call.direction == "backward" and not mode.backward) or (call.direction == "forward" and not mode.forward):
        return f"it is a {call.direction} call, and data_mode leaves those out"
    return ""


def _why_no_kernel(prefix: str) -> str:
    if prefix in _CELLS:
        return (
            'level "L2" collects kernels, which have other names; write a type such as "MatMul", or a full scope name'
        )
    return ""


def _why_other_framework(prefix: str, target: Target) -> str:
    if target.has_layer and target.framework in COMPILES_GRAPHS:
        return ""  # modules of PyTorch's API and cells of MindSpore may both be there
    others = [each for each, prefixes in CALL_PREFIXES.items() if prefix in prefixes]
    if target.framework in others or not others:
        return ""
    module = CALL_PREFIXES[target.framework][0]
    return f'names of {TITLES[target.framework]} do not begin like this; {module.lower()}s begin with "{module}."'


def _never_ends(first: str, last: str) -> str:
    begin, end = parse(first), parse(last)
    if (begin.stem, begin.direction) == (end.stem, end.direction) and begin.number > end.number:
        return "the last call is made before the first one, so that all that follows is collected; exchange them"
    return ""
