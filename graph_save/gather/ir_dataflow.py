"""Dataflow of the kernels in a graph's text: the origin of inputs, and source lines."""

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from msprobe.store.stacks_and_construct import user_line

from .trace import Node, Parameter, Trace

# Indices of written arguments, for kernels that receive more parameters than they write.
_WRITES = {"Assign": (0,), "AssignAdd": (0,), "AssignSub": (0,), "BatchNorm": (3, 4)}
_MAX_OUTPUTS = 1000
_MAX_NODES_SEARCHED = 64  # nodes that are searched for source lines


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an argument: output `index` of the kernel `text`, a parameter, an argument of the graph, or a
    constant."""

    kind: Literal["kernel", "parameter", "argument", "constant"]
    text: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a kernel. `is_written`: a parameter that it may write. `is_empty`: an empty tuple."""

    origin: Origin | None
    is_written: bool = False
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Frames of a call stack, innermost first, and the kernel that they belong to."""

    frames: tuple[str, ...] = ()
    of: str = ""

    @property
    def are_framework_only(self) -> bool:
        """Return whether all frames are of the framework, as for an optimizer in the framework's training cell."""
        return bool(self.frames) and user_line(self.frames) is None


@dataclass
class GraphDataflow:
    """The dataflow of one graph, by full names of kernels."""

    trace: Trace
    _users: dict[int, list[Node]] = field(default_factory=dict)
    _originals: dict[str, Node] = field(default_factory=dict)
    _forwards: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.trace.nodes.values():
            for arg in node.args:
                if isinstance(arg, Node):
                    self._users.setdefault(id(arg), []).append(node)
            if node.recompute and not node.is_duplicate:
                self._originals.setdefault(node.recompute, node)
            if node.unique_id and node.frames:
                self._forwards.setdefault(node.unique_id, node)

    def arguments(self, name: str) -> tuple[Argument, ...]:
        """Return the arguments of a kernel by slot; empty if the graph does not contain it or has no dataflow."""
        node = self.trace.nodes.get(name)
        if node is None or not self.trace.has_flow:
            return ()
        written = _written_arguments(node)
        return tuple(_argument(arg, n in written) for n, arg in enumerate(node.args) if not _is_monad(arg))

    def unread(self, name: str) -> frozenset[int]:
        """Return the outputs of an in-place kernel that no node of the graph reads.

        The results of such a kernel are in its arguments. MindSpore's optimizers on CPU leave these outputs
        uninitialized, so they differ in every run.
        """
        node = self.trace.nodes.get(name)
        if node is None or not self.trace.has_flow or not _written_arguments(node):
            return frozenset()
        read: set[int] = set()
        for user in self._users.get(id(node), ()):
            if user.op == "TupleGetItem":
                if any(_reads(each, user) for each in self._users.get(id(user), ())):
                    read.add(_index(user))
            elif _reads(user, node):
                return frozenset()
        return frozenset(range(_MAX_OUTPUTS)) - read

    def is_recompute(self, name: str) -> bool:
        """Return whether a kernel recomputes one of the forward, to save memory."""
        node = self.trace.nodes.get(name)
        return node is not None and node.is_duplicate

    def lines(self, name: str) -> Lines:
        """Return the lines of a kernel, else of its forward, the kernel it recomputes, a producer or a consumer."""
        node = self.trace.nodes.get(name)
        if node is None:
            return Lines()
        original = self._originals.get(node.recompute) if node.is_duplicate else None
        users = self._users
        for found in (
            node if node.frames else None,
            self._forwards.get(node.forward_id),
            original if original is not None and original.frames else None,
            _nearest(node, lambda n: (arg for arg in n.args if isinstance(arg, Node))),
            _nearest(node, lambda n: users.get(id(n), ())),
        ):
            if found is not None:
                return Lines(tuple(found.frames), found.name)
        return Lines()


def _reads(user: Node, node: Node) -> bool:
    """Return whether a user of a node reads its data, and does not only depend on its execution."""
    return user.op != "UpdateState" and not (user.op == "Depend" and user.args[0] is not node)


def _nearest(start: Node, neighbours: Callable[[Node], Iterable[Node]]) -> Node | None:
    """Return the first node with source lines in a breadth-first search."""
    queue = deque(neighbours(start))
    seen = {id(start)}
    while queue and len(seen) < _MAX_NODES_SEARCHED:
        node = queue.popleft()
        if id(node) in seen or node.op == "UpdateState":  # orders side effects, without data
            continue
        if node.frames:
            return node
        seen.add(id(node))
        queue.extend(neighbours(node))
    return None


def _is_monad(arg: Node | Parameter | str) -> bool:
    """Return whether an argument only orders side effects and is not data."""
    if isinstance(arg, Node):
        return arg.op == "UpdateState"
    if isinstance(arg, Parameter):
        return arg.is_monad
    return arg.startswith(("UMonad", "IOMonad"))


def _written_arguments(node: Node) -> list[int]:
    """Return the indices of the parameters that a kernel may write.

    These are parameters that the kernel receives without a Load, if it also receives a monad. If the framework marks
    some of them as written, only those.
    """
    if not any(map(_is_monad, node.args)):
        return []
    weights = [n for n, arg in enumerate(node.args) if isinstance(arg, Parameter) and arg.is_weight]
    if node.op in _WRITES:
        return [n for n in weights if n in _WRITES[node.op]]
    marked = [n for n in weights if (arg := node.args[n]) and isinstance(arg, Parameter) and arg.is_written]
    return marked or weights


def _argument(arg: Node | Parameter | str, is_written: bool) -> Argument:
    if isinstance(arg, str):
        return Argument(None if arg.startswith("%") else Origin("constant"), is_empty=arg == "()")
    return Argument(_parameter_origin(arg) if isinstance(arg, Parameter) else _origin(arg), is_written)


def _parameter_origin(parameter: Parameter) -> Origin:
    return Origin("parameter" if parameter.is_weight else "argument", parameter.name)


def _index(node: Node) -> int:
    """Return the index of a TupleGetItem; -1 if it is not a number."""
    m = re.fullmatch(r"I64\((\d{1,9})\)", str(node.args[1])) if len(node.args) == 2 else None
    return int(m[1]) if m else -1


def _origin(node: Node) -> Origin | None:
    """Follow no-op nodes (Load, Depend, MakeTuple and TupleGetItem) to a kernel or a parameter."""
    arg: Node | Parameter | str = node
    indices: list[int] = []  # pending indices of TupleGetItem
    while isinstance(arg, Node):
        if arg.op in ("Load", "Depend") and arg.args:
            arg = arg.args[0]
        elif arg.op == "TupleGetItem" and len(arg.args) == 2:
            index = _index(arg)
            if index < 0:
                return None
            indices.append(index)
            arg = arg.args[0]
        elif arg.op == "MakeTuple":
            if not indices or indices[-1] >= len(arg.args):
                return None
            arg = arg.args[indices.pop()]
        else:
            if len(indices) > 1:
                return None
            return Origin("kernel", arg.name, indices[0] if indices else 0) if arg.name else None
    return _parameter_origin(arg) if isinstance(arg, Parameter) and not indices else None
