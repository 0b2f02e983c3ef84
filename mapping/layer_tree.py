"""Pair calls by layers: each call has a scope, and the user's rules give its name on the other side.

| call | own name | type | state | scope before its own name |
|---|---|---|---|---|
| `Cell.a.fc.Dense.forward.0` | `fc` | `Dense` | forward | `Cell.a` |
| `Cell.a.fc.Dense.parameters_grad` | `fc` | `Dense` | parameters_grad | `Cell.a` |
| `Mint.add.0.forward` in `Cell.a.fc.Dense.forward.0` | `add` | `add` | forward | `Cell.a.fc`; `TopLayer` at the root |

Calls of one scope and state are distinguished by their order there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from msprobe.base import names

from .user_files import TOP, LayerRules, Place

_STARTS = re.compile(r"construct|in forward,|in backward,")
_FRAMEWORK = re.compile(r"(?:site-packages|package)[/\\](?:torch|mindspore)")
_NOT_NAMED = ("construct", "__call__")
_PIPELINE = "ParallelTransformer"


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """A call's name, the cell around it, and its stack, innermost frame first."""

    name: str
    parent: str | None = None
    stack: tuple[str, ...] = ()


@dataclass(slots=True)
class _Node:
    type_name: str = ""
    children: "dict[str, _Node]" = field(default_factory=dict)
    calls: dict[str, list[int]] = field(default_factory=dict)


def pair_layers(target: Sequence[PlacedCall], golden: Sequence[PlacedCall], rules: LayerRules) -> dict[int, int]:
    """Return the golden call of each target call by the rules, as positions; calls without one are left out."""
    left, right = _scopes(target), _scopes(golden)
    mine, theirs = _tree(target, left), _tree(golden, right)
    found: dict[int, int] = {}
    for at, scope in enumerate(left):
        if scope is None:
            continue
        node, state = _walk(mine, scope), _state(target[at].name)
        other = _walk(theirs, _converted(mine, scope, rules))
        place = node.calls[state].index(at) if node is not None else -1
        if other is not None and 0 <= place < len(other.calls.get(state, ())):
            found[at] = other.calls[state][place]
    return found


def _scopes(calls: Sequence[PlacedCall]) -> list[Place | None]:
    """Return the scope of every call without its first part; None for calls other than those of cells and APIs."""
    at = {call.name: n for n, call in enumerate(calls)}
    found: list[Place | None] = []
    for call in calls:
        name = names.parse(call.name)
        scope: Place | None = tuple(name.path.split(".")) if name.kind in ("cell", "parameters_grad") else None
        if name.kind == "api":
            forward = at.get(names.counterpart(call.name, "forward"))
            same = calls[forward] if forward is not None else call
            parent = names.parse(same.parent) if same.parent else None
            around = tuple(parent.path.split(".")) if parent and parent.path else ()
            is_python = not name.stem.startswith(("Primitive.", "Jit."))
            entry = _framework_function(same.stack) if is_python else ""
            scope = (*around, *((entry,) if entry else ()), _own(name))
        found.append(scope)
    return _renumbered(calls, found)


def _own(name: names.Name) -> str:
    return name.stem.rpartition(".")[2]


def _state(text: str) -> str:
    name = names.parse(text)
    return "parameters_grad" if name.kind == "parameters_grad" else name.direction


def _framework_function(stack: Sequence[str]) -> str:
    """Return the framework's own function in which a call was made, between the collector's frames and the
    network's."""
    start = max((n + 1 for n, line in enumerate(stack) if "Template" in line), default=0)
    found = ""
    for line in stack[start:]:
        file, _, rest = line.partition(",")
        if _STARTS.search(line) or not _FRAMEWORK.search(file):
            break
        function = rest.partition(",")[2].partition(",")[0].strip().removeprefix("in ").strip()
        if function not in _NOT_NAMED and not any(tool in file for tool in ("msprobe", "MindSpeed")):
            found = function
    return found


def _renumbered(calls: Sequence[PlacedCall], scopes: list[Place | None]) -> list[Place | None]:
    """Return scopes in which layers are counted from the first of a pipeline's stage: one side may number them over all
    stages, the other per stage."""
    prefixes = {
        (*scope, "layers")
        for call, scope in zip(calls, scopes, strict=True)
        if scope is not None and (name := names.parse(call.name)).kind == "cell" and _own(name) == _PIPELINE
    }
    found = list(scopes)
    for prefix in sorted(prefixes):
        at = len(prefix)
        inside = [n for n, s in enumerate(found) if s and s[:at] == prefix and len(s) > at and s[at].isdecimal()]
        first = min((int((found[n] or ())[at]) for n in inside), default=0)
        for n in inside if first else ():
            scope = found[n] or ()
            found[n] = (*scope[:at], str(int(scope[at]) - first), *scope[at + 1 :])
    return found


def _tree(calls: Sequence[PlacedCall], scopes: Sequence[Place | None]) -> _Node:
    root = _Node(TOP)
    for at, scope in enumerate(scopes):
        if scope is None:
            continue
        node = root
        for part in scope:
            node = node.children.setdefault(part, _Node())
        name = names.parse(calls[at].name)
        if name.kind != "api" or not node.type_name:
            node.type_name = _own(name)
        node.calls.setdefault(_state(calls[at].name), []).append(at)
    return root


def _walk(node: _Node, scope: Place) -> _Node | None:
    for part in scope:
        if part not in node.children:
            return None
        node = node.children[part]
    return node


def _converted(root: _Node, scope: Place, rules: LayerRules) -> Place:
    """Return the scope in the other side's names; rules are selected by the class at each place."""
    converted: list[str] = []
    node, at = root, 0
    while at < len(scope):
        ours, theirs = next(r for r in rules.of(node.type_name, scope[at]) if scope[at : at + len(r[0])] == r[0])
        converted += theirs
        for part in scope[at : at + len(ours)]:
            node = node.children[part]
        at += len(ours)
    return tuple(converted)
