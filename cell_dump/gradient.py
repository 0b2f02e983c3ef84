"""The backward of a call: which gradients came in, and what the call itself contributes to its inputs' gradients.

A call's incoming gradients are seen by a prehook of the autograd nodes that made its outputs. Its *own contribution*
to an input's gradient is what flows along the edges from nodes of this call to the input's node; the edges are found
by walking the graph from the outputs, never to or below `floor`, the last sequence number before the call, so that a
tensor captured from outside does not count. Nothing is inserted into the graph: accumulation order, and with it every
bit, stays as it was.

Order of several hooks at one node: incoming gradients are passed to the outermost call first, contributions to the
innermost first, so that calls begin and end like brackets.

On request (`gradients: "hooks"`) a module's backward is seen by the framework's own backward hooks instead. They insert
a node on the module's inputs and one on its outputs, so the order of accumulation, and with it the last bits of the
training, may change. Their gradients are the framework's: of the tensors among the positional arguments and of a
tensor, or a tuple's tensors, as the result; nothing for results of another shape. With MindSpore a cell whose inputs
need no gradient reports them as null, at the end of the whole backward.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quote
from typing import Any, Protocol

from msprobe.base.framework import AnyModule
from msprobe.base.nested import Leaf, tree_of
from msprobe.base.patches import Handle

from .backward import Backward, Memo, extension
from .describer import Sources
from .forward import Forward

Identity = Hashable
"""Distinguishes a node from every other that lives; it may be the node itself, and is held no longer than the node."""

Key = tuple[Identity, int]
"""Which result of which node a tensor is: (identity of the node, index of the output)."""


class Node(Protocol):
    """Describe a node of an autograd graph, in either framework."""

    @property
    def next_functions(self) -> Iterable[tuple["Node | None", int]]: ...

    def _sequence_nr(self) -> int: ...

    def register_prehook(self, hook: Callable[..., Any], /) -> object: ...

    def register_hook(self, hook: Callable[..., Any], /) -> object: ...


@dataclass(frozen=True)
class Graph:
    """How a framework's autograd graph is read.

    The functions are asked for every tensor of every call, so they are to be fast: of C, where that can be.
    """

    tensor: type
    """The framework's plain tensors; what is of another type may have a name."""
    name_of: Callable[[Any], str]
    """The name of a parameter; empty for another tensor."""
    node_of: Callable[[Any], Node | None]
    """The node that made a tensor, or that its gradient ends in; None for a tensor without a gradient."""
    index_of: Callable[[Any], int]
    """Which of its node's results a tensor is."""
    identity: Callable[[Any], Identity]
    is_leaf: Callable[[Any], bool]
    """Whether gradients end in this node."""
    probe: Callable[[list[Leaf]], int]
    """The last sequence number used so far; -1 where no tensor has a gradient."""
    when_backward_ends: Callable[[Callable[[], None]], Any]
    """From inside a backward: register a callback for when it has run as a whole."""


_LEAF, _CODE = '"leaf"', '"code"'
"""What a tensor comes from that no recorded call produced, as JSON: gradients end there, or other code made it."""


class Watch:
    """A node with hooks of ours. Holding the node keeps its identity from being used for another one."""

    __slots__ = ("after", "before", "is_hooked", "is_leaf", "key", "node", "producers", "sequence")

    def __init__(self, key: Identity, node: Node, is_leaf: bool) -> None:
        # Both are let go as soon as they are not needed: the node's hooks hold this watch.
        self.key: Identity = key
        self.node: Node | None = node
        self.sequence: int = node._sequence_nr()
        self.is_leaf = is_leaf
        self.is_hooked = False
        self.before: list[tuple[Backward, str, int, list[str], bool]] = []
        self.after: list[tuple[Backward, int, list[str], bool]] = []
        self.producers: dict[int, str] = {}

    def release(self) -> None:
        """Hold the node no longer."""
        self.key = self.node = None


class NodeGradients:
    """Places gradient hooks on the autograd nodes of one step.

    `hook(work, *args)` makes a hook of a piece of collecting, so that nothing of it reaches the training: no
    exception, no record of our own reading. `flush` is called when a whole backward has run.
    """

    def __init__(self, graph: Graph, hook: Callable[..., Callable[..., None]], flush: Callable[[], None]) -> None:
        self._graph = graph
        self._hook = hook
        self._flush = flush
        self._watches: dict[Identity, Watch] = {}
        self.running = False
        self._final = hook(self._ended)  # kept: the framework may drop its last reference without holding the GIL
        self._begun: list[Backward] = []

    def inputs(self, tensors: list[Leaf]) -> tuple[dict[Key, list[str]], int, Sources]:
        """Return, of the tensors among a call's arguments, those that can have a gradient, the highest sequence number
        among their nodes, and the producer of each.
        """
        graph = self._graph
        node_of, identity_of, index_of, plain = graph.node_of, graph.identity, graph.index_of, graph.tensor
        wanted: dict[Key, list[str]] = {}
        floor = -1
        sources: Sources = {}
        for place, tensor in tensors:
            try:
                node = node_of(tensor)
            except AttributeError:  # a tensor of another framework, of which to ask each time would cost too much
                continue
            if node is not None:
                identity, index = identity_of(node), index_of(tensor)
                wanted.setdefault((identity, index), []).append(place)
                watch = self._watches.get(identity)
                if watch is not None:
                    sources[id(tensor)] = watch.producers.get(index, _CODE)
                    is_leaf, sequence = watch.is_leaf, watch.sequence
                else:
                    is_leaf = graph.is_leaf(node)
                    sources[id(tensor)] = _LEAF if is_leaf else _CODE
                    sequence = -1 if is_leaf else node._sequence_nr()
                if not is_leaf and sequence > floor:
                    floor = sequence
            if type(tensor) is not plain and (name := graph.name_of(tensor)):
                sources[id(tensor)] = quote(f"parameter {name}")
        return wanted, floor, sources

    def probe(self, tensors: list[Leaf]) -> int:
        """Return the last sequence number used so far; -1 where no argument has a gradient."""
        try:
            return self._graph.probe(tensors)
        except AttributeError:  # as above
            return self._graph.probe(self._ours(tensors))

    def place(
        self,
        backward: Backward,
        call: str,
        wanted: dict[Key, list[str]],
        outputs: list[Leaf],
        floor: int,
    ) -> None:
        """Hook the nodes of a finished forward call `call`, whose arguments were `wanted`."""
        graph = self._graph
        try:
            results = self._results(outputs)
        except AttributeError:  # as above
            results = self._results(self._ours(outputs))
        edges, inside, backward.lowest = _walk(graph, results, wanted, floor)
        # the gradient of one tensor at several places of the results comes once, for all of them
        places_of = Counter([key for _, key, _ in results]) if len(results) > 1 else {}
        passed: set[Key] = set()
        for place, key, node in results:
            watch = self._watch(key[0], node)
            passing: list[str] = []
            if key in wanted and key not in passed:
                passed.add(key)
                passing = wanted[key]
                backward.lowest = -1 if watch.is_leaf else min(backward.lowest, watch.sequence)
            else:
                watch.producers.setdefault(key[1], quote(f"call {call}.output.{place}"))
            self._listen(watch, node)
            shared = bool(passing) or key in inside or places_of.get(key, 1) > 1
            watch.before.append((backward, place, key[1], passing, shared))
            backward.expect(passing)
        for identity, node, slot, places, shared, to_leaf in edges:
            watch = self._watch(identity, node)
            if not watch.after:
                node.register_hook(self._hook(self._contributed, watch))
            watch.after.append((backward, slot, places, shared))
            backward.expect(places, to_leaf)

    def notice(self, outputs: list[Leaf]) -> None:
        """Have `running` say when a backward passes a call's outputs, of which nothing else is wanted."""
        for _, key, node in self._results(self._ours(outputs)):
            self._listen(self._watch(key[0], node), node)

    def _listen(self, watch: Watch, node: Node) -> None:
        if not watch.is_hooked:
            watch.is_hooked = True
            node.register_prehook(self._hook(self._incoming, watch))

    def _results(self, outputs: list[Leaf]) -> list[tuple[str, Key, Node]]:
        graph = self._graph
        results: list[tuple[str, Key, Node]] = []
        for place, tensor in outputs:
            node = graph.node_of(tensor)
            if node is not None:
                results.append((place, (graph.identity(node), graph.index_of(tensor)), node))
        return results

    def _ours(self, tensors: list[Leaf]) -> list[Leaf]:
        return [leaf for leaf in tensors if isinstance(leaf[1], self._graph.tensor)]

    def forget(self) -> None:
        """Let go of every node; hooks that still fire do nothing."""
        for watch in self._watches.values():
            watch.release()
            watch.before.clear()
            watch.after.clear()
        self._watches.clear()
        self._begun.clear()
        self.running = False

    def rest(self) -> None:
        """Note that no backward is running, also if an exception ended it."""
        self.running = False

    def _watch(self, key: Identity, node: Node) -> Watch:
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = Watch(key, node, self._graph.is_leaf(node))
        return watch

    def _incoming(self, watch: Watch, grad_outputs: tuple[Any, ...]) -> None:
        if not self.running:
            self.running = True
            self._graph.when_backward_ends(self._final)
        self._finish_above(watch.sequence)
        if not watch.after:
            self._let_go(watch)
        memo: Memo = {}
        for backward, place, index, passing, shared in reversed(watch.before):
            gradient = grad_outputs[index]
            if not backward.begun:
                self._begun.append(backward)
            backward.incoming(place, gradient, index, memo, shared)
            for through in passing:
                backward.contribute(through, gradient, index, memo, shared=True)
            backward.arrived()

    def _let_go(self, watch: Watch) -> None:
        if self._watches.get(watch.key) is watch:
            del self._watches[watch.key]
        watch.release()

    def _finish_above(self, sequence: int) -> None:
        """Finish the calls whose nodes have all had their turn: the engine runs the highest sequence number first.

        Some edges never fire, those to arguments whose gradient is not wanted; their calls would wait for the end.
        """
        is_any_done = False
        for backward in self._begun:
            if not backward.done and sequence < backward.lowest:
                backward.finish_all()
            is_any_done = is_any_done or backward.done
        if is_any_done:
            self._begun = [b for b in self._begun if not b.done]

    def _contributed(self, watch: Watch, grad_inputs: tuple[Any, ...], _: Any) -> None:
        self._let_go(watch)
        memo: Memo = {}
        for backward, slot, places, shared in watch.after:
            for place in places:
                backward.contribute(place, grad_inputs[slot], slot, memo, shared)
            backward.arrived()

    def _ended(self) -> None:
        self.running = False
        self._flush()


node_gradients: type[NodeGradients] = NodeGradients if extension is None else extension.Nodes
"""What places the hooks of a step."""

Edge = tuple[Identity, Node, int, list[str], bool, bool]
"""Where the gradient of an argument leaves a call: node, slot of its `grad_inputs`, places, shared, to a leaf."""


def _walk(
    graph: Graph, results: list[tuple[str, Key, Node]], wanted: dict[Key, list[str]], floor: int
) -> tuple[list[Edge], set[Key], int]:
    """Return the edges by which a call's contributions leave it, the results that its nodes use, its lowest sequence
    number.

    A tensor at several places of one call (`x * x`) has one edge for each if the call is one node: the
    slots are in the order of the arguments. Otherwise the contributions cannot be separated and are marked as shared.
    """
    identity_of, is_leaf = graph.identity, graph.is_leaf
    edges: list[Edge] = []
    several: dict[Key, list[tuple[Identity, Node, int, bool]]] = {}
    inside: set[Key] = set()
    lowest = 2**64
    seen: set[Identity] = set()
    todo = [(key[0], node) for _, key, node in results if key not in wanted]
    while todo:
        key, node = todo.pop()
        if key in seen or (sequence := node._sequence_nr()) <= floor:
            continue
        seen.add(key)
        if sequence < lowest:
            lowest = sequence
        for slot, (below, index) in enumerate(node.next_functions):
            if below is None:
                continue
            end = (identity_of(below), index)
            places = wanted.get(end)
            if places is None:
                inside.add(end)
                todo.append((end[0], below))
            elif len(places) == 1:
                edges.append((key, node, slot, places, False, is_leaf(below)))
            else:
                several.setdefault(end, []).append((key, node, slot, is_leaf(below)))
    for target, consumers in several.items():
        places = wanted[target]
        if len(places) == len(consumers) and len({key for key, *_ in consumers}) == 1:
            edges.extend((k, n, s, [p], False, leaf) for (k, n, s, leaf), p in zip(consumers, places, strict=True))
        else:
            edges.extend((k, n, s, places, True, leaf) for k, n, s, leaf in consumers)
    return edges, inside, lowest


FULL_HOOKS = ("register_full_backward_pre_hook", "register_full_backward_hook")
"""The methods of `torch.nn.Module` that take such hooks."""


class ModuleHooks:
    """Places the framework's backward hooks on modules, and passes the gradients to the calls' backwards.

    `before` and `after` are the methods of a module that take a hook for before and after its backward; `has_backward`
    says whether what runs now will have one.
    """

    def __init__(
        self, hook: Callable[..., Callable[..., None]], before: str, after: str, has_backward: Callable[[], bool]
    ) -> None:
        self._make = hook
        self._places = {before: self._before, after: self._after}
        self._has_backward = has_backward
        self._handles: list[Handle] = []
        self._attached: set[int] = set()
        self._called: dict[int, list[tuple[Backward, list[str]]]] = {}
        self._begun: dict[int, list[tuple[Backward, list[str]]]] = {}

    def attach(self, modules: Iterable[AnyModule]) -> None:
        """Hook modules; `detach` takes the hooks off again."""
        self.detach()
        for module in modules:
            self._attached.add(id(module))
            for place, arrived in self._places.items():
                self._handles.append(getattr(module, place)(self._make(arrived)))

    def detach(self) -> None:
        """Take every hook off."""
        self._attached.clear()
        while self._handles:
            self._handles.pop().remove()

    def are_on(self, module: AnyModule) -> bool:
        """Return whether a module is hooked."""
        return id(module) in self._attached

    def expect(self, call: Forward, backward: Backward) -> None:
        """Expect the hooks of a module whose call has ended to fire twice, before and after its backward."""
        if self._has_backward():
            places = [place for place, _ in call.tensors]
            backward.expect([])
            backward.expect(places)
            self._called.setdefault(id(call.cell), []).append((backward, places))

    def _before(self, module: AnyModule, grad_output: Any) -> None:
        called = self._called.get(id(module))
        if not called:
            return
        backward, places = called.pop()  # of several calls of one module the last comes back first
        self._begun.setdefault(id(module), []).append((backward, places))
        for place, gradient in tree_of(_listed(grad_output)).tensors:
            backward.incoming(place, gradient, 0, {}, shared=False)
        backward.arrived()

    def _after(self, module: AnyModule, grad_input: Any, _: Any) -> None:
        begun = self._begun.get(id(module))
        if not begun:
            return
        backward, places = begun.pop(0)
        for place, gradient in zip(places, _listed(grad_input), strict=False):
            backward.contribute(place, gradient, 0, {}, shared=False)
        backward.arrived()


def _listed(gradients: Any) -> list[Any]:
    return list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]
