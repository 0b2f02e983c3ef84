"""The backward of a call: which gradients came in, and what the call itself contributes to its inputs' gradients.

A call's incoming gradients are seen by a prehook of the autograd nodes that made its outputs. Its *own contribution*
to an input's gradient is what flows along the edges from nodes of this call to the input's node; the edges are found
by walking the graph from the outputs, never to or below `floor`, the last sequence number before the call, so that a
tensor captured from outside does not count. Nothing is inserted into the graph: accumulation order, and with it every
bit, stays as it was.

Order of several hooks at one node: incoming gradients are told to the outermost call first, contributions to the
innermost first, so that calls begin and end like brackets.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from mindspore import Parameter, Tensor, _c_expression

from msprobe.executors import executor

from .backward import Backward, Memo
from .nested import Leaf
from .tensor import Sources

HAS_NODES = hasattr(Tensor, "_grad_node")
"""MindSpore 2.7.1 and later; before that `tensor_gradient.py` serves."""

Identity = int | str
"""What tells a node from every other that lives: see `_identity`."""

Key = tuple[Identity, int]
"""Which result of which node a tensor is: (identity of the node, index of the output)."""


def _identity(node: Any) -> Identity:
    """Nodes are wrapped anew at each look. MindSpore 2.9 and later tell an identity; before that an operation is known
    by its sequence number, a leaf by its name (leaves of one name count as one tensor, whose parts cannot be told
    apart).
    """
    return node.name() if node.is_leaf() else node._sequence_nr()  # type: ignore[no-any-return]  # no types there


if HAS_NODES and hasattr(_c_expression.BackwardNodePy, "_unique_id"):

    def _identity(node: Any) -> Identity:  # the better way, where there is one
        return node._unique_id()  # type: ignore[no-any-return]  # as above


class Watch:
    """A node that somebody listens to. Holding the node keeps its identity from being given to another one."""

    __slots__ = ("after", "before", "is_leaf", "node", "producers", "sequence")

    def __init__(self, node: Any) -> None:
        self.node: Any = node  # let go as soon as it is not needed: the node's hooks hold this watch
        self.sequence: int = node._sequence_nr()
        self.is_leaf: bool = node.is_leaf()
        self.before: list[tuple[Backward, str, int, list[str], bool]] = []
        self.after: list[tuple[Backward, int, list[str], bool]] = []
        self.producers: dict[int, str] = {}


class NodeGradients:
    """Places gradient hooks on the autograd nodes of one step.

    `hook(work, *args)` makes a hook of a piece of collecting, so that nothing of it reaches the training: no
    exception, no record of our own reading. `flush` is told when a whole backward has run.
    """

    def __init__(self, hook: Callable[..., Callable[..., None]], flush: Callable[[], None]) -> None:
        self._hook = hook
        self._flush = flush
        self._watches: dict[Identity, Watch] = {}
        self._running = False
        self._final = hook(self._ended)  # kept: the framework may drop its last reference without holding the GIL
        self._begun: list[Backward] = []

    def inputs(self, tensors: list[Leaf]) -> tuple[dict[Key, list[str]], int, Sources]:
        """Of the tensors among a call's arguments: those that can have a gradient, the highest sequence number among
        their nodes, and who produced each.
        """
        wanted: dict[Key, list[str]] = {}
        floor = -1
        sources: Sources = {}
        for place, tensor in tensors:
            node = tensor._grad_node
            if node is not None:
                identity, index = _identity(node), tensor._output_index
                wanted.setdefault((identity, index), []).append(place)
                watch = self._watches.get(identity)
                if watch is not None:
                    sources[id(tensor)] = watch.producers.get(index, "code")
                    is_leaf, sequence = watch.is_leaf, watch.sequence
                else:
                    is_leaf = node.is_leaf()
                    sources[id(tensor)] = "leaf" if is_leaf else "code"
                    sequence = -1 if is_leaf else node._sequence_nr()
                if not is_leaf and sequence > floor:
                    floor = sequence
            if type(tensor) is not Tensor and isinstance(tensor, Parameter):
                sources[id(tensor)] = f"parameter {tensor.name}"
        return wanted, floor, sources

    def probe(self, tensors: list[Leaf]) -> int:
        """The last sequence number given so far; -1 where no argument has a gradient.

        A view that nobody uses gets the next number. It costs no kernel and, being no part of the graph of the loss,
        changes nothing there.
        """
        for _, tensor in tensors:
            if tensor._grad_node is not None:
                view = tensor.unsqueeze(0)._grad_node
                return int(view._sequence_nr()) if view is not None else -1
        return -1

    def place(
        self,
        backward: Backward,
        call: str,
        wanted: dict[Key, list[str]],
        outputs: Iterable[tuple[str, Tensor]],
        floor: int,
    ) -> None:
        """Hook the nodes of a finished forward call `call`, whose arguments were `wanted`."""
        results: list[tuple[str, Key, Any]] = []
        for place, tensor in outputs:
            node = tensor._grad_node
            if node is not None:
                results.append((place, (_identity(node), tensor._output_index), node))
        roots = [(key[0], node) for _, key, node in results if key not in wanted]
        edges, inside, backward.lowest = _walk(roots, wanted, floor)
        returned = Counter(key for _, key, _ in results)
        for place, key, node in results:
            watch = self._watch(key[0], node)
            passing = wanted.get(key, [])
            if passing:
                backward.lowest = -1 if node.is_leaf() else min(backward.lowest, watch.sequence)
            else:
                watch.producers.setdefault(key[1], f"call {call}.output.{place}")
            if not watch.before:
                node.register_prehook(self._hook(self._incoming, key[0], watch))
            shared = bool(passing) or key in inside or returned[key] > 1
            watch.before.append((backward, place, key[1], passing, shared))
            backward.expect(passing)
        for identity, node, slot, places, shared, to_leaf in edges:
            watch = self._watch(identity, node)
            if not watch.after:
                node.register_hook(self._hook(self._contributed, identity, watch))
            watch.after.append((backward, slot, places, shared))
            backward.expect(places, to_leaf)

    def forget(self) -> None:
        """Let go of every node; hooks that still fire find nobody to tell."""
        for watch in self._watches.values():
            watch.node = None
            watch.before.clear()
            watch.after.clear()
        self._watches.clear()
        self._begun.clear()
        self._running = False

    def rest(self) -> None:
        """No backward runs any more, also none that an exception ended."""
        self._running = False

    def _watch(self, key: Identity, node: Any) -> Watch:
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = Watch(node)
        return watch

    def _incoming(self, key: Identity, watch: Watch, grad_outputs: tuple[Any, ...]) -> None:
        if not self._running:
            self._running = True
            executor.queue_backward_final_callback(self._final)
        self._finish_above(watch.sequence)
        if not watch.after:
            self._let_go(key, watch)
        memo: Memo = {}
        for backward, place, index, passing, shared in reversed(watch.before):
            gradient = grad_outputs[index]
            if not backward.begun:
                self._begun.append(backward)
            backward.incoming(place, gradient, index, memo, shared)
            for through in passing:
                backward.contribute(through, gradient, index, memo, shared=True)
            backward.arrived()

    def _let_go(self, key: Identity, watch: Watch) -> None:
        watch.node = None
        if self._watches.get(key) is watch:
            del self._watches[key]

    def _finish_above(self, sequence: int) -> None:
        """Finish the calls whose nodes have all had their turn: the engine runs the highest sequence number first.

        Some edges never fire, those to arguments whose gradient nobody wants; their calls would wait for the end.
        """
        waiting = [b for b in self._begun if not b.done]
        for backward in waiting:
            if sequence < backward.lowest:
                backward.finish_all()
        self._begun = [b for b in waiting if not b.done]

    def _contributed(self, key: Identity, watch: Watch, grad_inputs: tuple[Any, ...], _: Any) -> None:
        self._let_go(key, watch)
        memo: Memo = {}
        for backward, slot, places, shared in watch.after:
            for place in places:
                backward.contribute(place, grad_inputs[slot], slot, memo, shared)
            backward.arrived()

    def _ended(self) -> None:
        self._running = False
        self._flush()


Edge = tuple[Identity, Any, int, list[str], bool, bool]
"""Where the gradient of an argument leaves a call: node, slot of its `grad_inputs`, places, shared, to a leaf."""


def _walk(
    roots: list[tuple[Identity, Any]], wanted: dict[Key, list[str]], floor: int
) -> tuple[list[Edge], set[Key], int]:
    """The edges by which a call's contributions leave it, the results that its nodes use, its lowest sequence number.

    A tensor that stands at several places of one call (`x * x`) has one edge for each where the call is one node: the
    slots are in the order of the arguments. Otherwise the contributions cannot be told apart and are marked as shared.
    """
    found: dict[Key, list[tuple[Identity, Any, int, bool]]] = {}
    inside: set[Key] = set()
    lowest = 2**64
    seen: set[Identity] = set()
    todo = list(roots)
    while todo:
        key, node = todo.pop()
        sequence = node._sequence_nr()
        if key in seen or sequence <= floor:
            continue
        seen.add(key)
        lowest = min(lowest, sequence)
        for slot, (below, index) in enumerate(node.next_functions):
            if below is None:
                continue
            under = _identity(below)
            if (under, index) in wanted:
                found.setdefault((under, index), []).append((key, node, slot, below.is_leaf()))
            else:
                inside.add((under, index))
                todo.append((under, below))
    edges: list[Edge] = []
    for target, consumers in found.items():
        places = wanted[target]
        if 1 < len(places) == len(consumers) and len({key for key, *_ in consumers}) == 1:
            edges.extend((k, n, s, [p], False, leaf) for (k, n, s, leaf), p in zip(consumers, places, strict=True))
        else:
            edges.extend((k, n, s, places, len(places) > 1, leaf) for k, n, s, leaf in consumers)
    return edges, inside, lowest
