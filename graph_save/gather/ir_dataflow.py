"""The dataflow of kernels by a graph's text: the origin of their inputs, and their source lines."""

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from msprobe.store.stacks_and_construct import user_line

from .trace import Node, Parameter, Trace

# Kernels that receive more parameters than they write.
_WRITES = {"Assign": (0,), "AssignAdd": (0,), "AssignSub": (0,), "BatchNorm": (3, 4)}
_MOST_OUTPUTS = 1000
_NEAR = 64  # nodes looked at for a neighbour with lines


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one argument comes from: output `index` of the kernel `text`, a parameter, an argument of the graph, or the
    program's text."""

    kind: Literal["kernel", "parameter", "argument", "constant"]
    text: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel. `is_written`: it is the parameter itself, which the kernel may write."""

    origin: Origin | None
    is_written: bool = False
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Frames, innermost first, and the kernel whose they are."""

    frames: tuple[str, ...] = ()
    of: str = ""

    @property
    def are_the_frameworks(self) -> bool:
        """Whether no frame is the user's: an optimizer that the framework's own training cell calls."""
        return bool(self.frames) and user_line(self.frames) is None


@dataclass
class Flow:
    """Answers about the kernels of one graph, by full name."""

    trace: Trace
    _users: dict[int, list[Node]] = field(default_factory=dict)
    _twins: dict[str, Node] = field(default_factory=dict)
    _forwards: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.trace.nodes.values():
            for arg in node.args:
                if isinstance(arg, Node):
                    self._users.setdefault(id(arg), []).append(node)
            if node.recompute and not node.is_duplicate:
                self._twins.setdefault(node.recompute, node)
            if node.unique_id and node.frames:
                self._forwards.setdefault(node.unique_id, node)

    def arguments(self, name: str) -> tuple[Argument, ...]:
        """The arguments of a kernel by slot; none where the graph does not know it, or not what feeds what."""
        node = self.trace.nodes.get(name)
        if node is None or not self.trace.has_flow:
            return ()
        written = _written(node)
        return tuple(_argument(arg, n in written) for n, arg in enumerate(node.args) if not _is_monad(arg))

    def unread(self, name: str) -> frozenset[int]:
        """The outputs of a kernel that works in place which nothing in the graph reads.

        What such a kernel is for is in its arguments. MindSpore's optimizers on CPU leave these outputs as they found
        the memory, which is different in every run.
        """
        node = self.trace.nodes.get(name)
        if node is None or not self.trace.has_flow or not _written(node):
            return frozenset()
        read: set[int] = set()
        for user in self._users.get(id(node), ()):
            if user.op == "TupleGetItem":
                if any(_reads(each, user) for each in self._users.get(id(user), ())):
                    read.add(_index(user))
            elif _reads(user, node):
                return frozenset()
        return frozenset(range(_MOST_OUTPUTS)) - read

    def is_recompute(self, name: str) -> bool:
        """Whether a kernel repeats one of the forward, to save memory."""
        node = self.trace.nodes.get(name)
        return node is not None and node.is_duplicate

    def lines(self, name: str) -> Lines:
        """The lines of a kernel; else of its forward, of what it repeats, of what feeds it or of what it feeds."""
        node = self.trace.nodes.get(name)
        if node is None:
            return Lines()
        twin = self._twins.get(node.recompute) if node.is_duplicate else None
        users = self._users
        for found in (
            node if node.frames else None,
            self._forwards.get(node.forward_id),
            twin if twin is not None and twin.frames else None,
            _nearest(node, lambda n: (arg for arg in n.args if isinstance(arg, Node))),
            _nearest(node, lambda n: users.get(id(n), ())),
        ):
            if found is not None:
                return Lines(tuple(found.frames), found.name)
        return Lines()


def _reads(user: Node, node: Node) -> bool:
    """Whether a user takes a node as data, and not only to come after it."""
    return user.op != "UpdateState" and not (user.op == "Depend" and user.args[0] is not node)


def _nearest(start: Node, neighbours: Callable[[Node], Iterable[Node]]) -> Node | None:
    """The first node with lines in a breadth-first walk."""
    waiting = deque(neighbours(start))
    seen = {id(start)}
    while waiting and len(seen) < _NEAR:
        node = waiting.popleft()
        if id(node) in seen or node.op == "UpdateState":  # which orders effects and carries no data
            continue
        if node.frames:
            return node
        seen.add(id(node))
        waiting.extend(neighbours(node))
    return None


def _is_monad(arg: Node | Parameter | str) -> bool:
    """Whether an argument orders effects and is no data."""
    if isinstance(arg, Node):
        return arg.op == "UpdateState"
    if isinstance(arg, Parameter):
        return arg.is_monad
    return arg.startswith(("UMonad", "IOMonad"))


def _written(node: Node) -> list[int]:
    """The places of the parameters that a kernel may write: it receives them themselves, not what was loaded from them,
    and a place among other effects. Where the framework marks some parameters as written, only those."""
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
    return Argument(_of_parameter(arg) if isinstance(arg, Parameter) else _origin(arg), is_written)


def _of_parameter(parameter: Parameter) -> Origin:
    return Origin("parameter" if parameter.is_weight else "argument", parameter.name)


def _index(node: Node) -> int:
    """The place that a TupleGetItem takes; -1 where it is not a number."""
    m = re.fullmatch(r"I64\((\d{1,9})\)", str(node.args[1])) if len(node.args) == 2 else None
    return int(m[1]) if m else -1


def _origin(node: Node) -> Origin | None:
    """Follow no-op nodes (Load, Depend, tuples made and taken apart) to a kernel or a parameter."""
    arg: Node | Parameter | str = node
    taken: list[int] = []  # what is still to be taken out of a tuple
    while isinstance(arg, Node):
        if arg.op in ("Load", "Depend") and arg.args:
            arg = arg.args[0]
        elif arg.op == "TupleGetItem" and len(arg.args) == 2:
            index = _index(arg)
            if index < 0:
                return None
            taken.append(index)
            arg = arg.args[0]
        elif arg.op == "MakeTuple":
            if not taken or taken[-1] >= len(arg.args):
                return None
            arg = arg.args[taken.pop()]
        else:
            if len(taken) > 1:
                return None
            return Origin("kernel", arg.name, taken[0] if taken else 0) if arg.name else None
    return _of_parameter(arg) if isinstance(arg, Parameter) and not taken else None
