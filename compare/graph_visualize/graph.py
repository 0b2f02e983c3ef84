"""The graph of one rank's step: the calls of construct.json as a tree below one root, in execution order.

| node | place |
|---|---|
| a call | below its cell in construct.json |
| a backward call without one there | below the backward call of the cell around its forward call, if any |
| gradients of parameters | below the last backward call of their cell |
| two or more functions in a row at the root | together in a collection, `Apis_Between_Modules.0` |

A micro step begins with the first forward call of a cell at the root after a backward call.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from msprobe.base import names

ROOT = "DefaultModel"
_COLLECTION = "Apis_Between_Modules"


class NodeType(IntEnum):
    """The type of a node, as the plugin's numbers."""

    MODULE = 0
    API = 1
    COLLECTION = 9


@dataclass(slots=True)
class Node:
    """One node; `parent` is empty for the root, `children` are in execution order."""

    name: str
    type: NodeType
    parent: str = ""
    children: list[str] = field(default_factory=list)
    micro_step: int = 0


@dataclass(frozen=True)
class Graph:
    """The nodes by name, children before their parents, the root last."""

    nodes: Mapping[str, Node]
    micro_steps: int = 1

    def path(self, name: str) -> list[str]:
        """Return the names from the root to a node, both included."""
        found = [name]
        while parent := self.nodes[found[-1]].parent:
            found.append(parent)
        return found[::-1]


_API_PREFIXES = frozenset(names.API_PREFIXES)


def type_of(name: str) -> NodeType:
    """Return the type of a call; anything except a function of a collector counts as a module, as in msprobe."""
    return NodeType.API if name.partition(".")[0] in _API_PREFIXES else NodeType.MODULE


def build(construct: Mapping[str, str | None], recorded: Iterable[str]) -> Graph:
    """Return the graph of construct.json and, of the `recorded` calls, the gradients of parameters.

    A call whose parent never ran is at the root.
    """
    nodes = {name: Node(name, type_of(name)) for name in construct}
    last: dict[tuple[str, str], names.Name] = {}
    for parsed in map(names.parse, construct):
        if parsed.kind == "cell":
            key = parsed.stem, parsed.direction
            last[key] = max(last.get(key, parsed), parsed, key=lambda name: name.number)
    parents = {name: _parent(name, construct) for name in construct}
    for parsed in map(names.parse, recorded):
        if parsed.kind == "parameters_grad" and parsed.text not in nodes:
            cell = last.get((parsed.stem, "backward")) or last.get((parsed.stem, "forward"))
            nodes[parsed.text] = Node(parsed.text, NodeType.MODULE)
            parents[parsed.text] = cell.text if cell else ROOT
    nodes[ROOT] = Node(ROOT, NodeType.MODULE)
    for name, parent in parents.items():
        nodes[name].parent = parent
        nodes[parent].children.append(name)
    _collect(nodes)
    micro_steps = _count_micro_steps(nodes)
    return Graph({name: nodes[name] for name in _children_first(nodes)}, micro_steps)


def _parent(name: str, construct: Mapping[str, str | None]) -> str:
    parent = construct[name]
    if parent is None and (forward := names.counterpart(name, "forward")) != name and (cell := construct.get(forward)):
        parent = names.counterpart(cell, "backward")
        above: str | None = parent
        while above is not None:
            if above == name:  # the other call is already inside this one
                return ROOT
            above = construct.get(above)
    return parent if parent is not None and parent in construct else ROOT


def _collect(nodes: dict[str, Node]) -> None:
    """Put consecutive functions at the root into collections."""
    kept: list[str] = []
    run: list[str] = []
    made = 0
    for name in [*nodes[ROOT].children, ""]:
        if name and nodes[name].type is NodeType.API:
            run.append(name)
            continue
        if len(run) > 1:
            collection = Node(f"{_COLLECTION}.{made}", NodeType.COLLECTION, ROOT, run)
            made += 1
            nodes[collection.name] = collection
            for member in run:
                nodes[member].parent = collection.name
            run = [collection.name]
        kept += [*run, name] if name else run
        run = []
    nodes[ROOT].children = kept


def _count_micro_steps(nodes: Mapping[str, Node]) -> int:
    """Number the micro steps of all nodes, from 0; return their number."""
    step, is_behind_backward = 0, False
    for child in nodes[ROOT].children:
        name = names.parse(child)
        if name.kind == "cell":
            if name.direction == "forward" and is_behind_backward:
                step += 1
            is_behind_backward = name.direction == "backward"
        waiting = [child]
        while waiting:
            node = nodes[waiting.pop()]
            node.micro_step = step
            waiting += node.children
    return step + 1


def _children_first(nodes: Mapping[str, Node]) -> Iterator[str]:
    waiting = [(ROOT, False)]
    while waiting:
        name, is_done = waiting.pop()
        if is_done:
            yield name
        else:
            waiting.append((name, True))
            waiting += ((child, False) for child in reversed(nodes[name].children))
