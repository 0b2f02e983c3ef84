"""The graph of one side as rows of the database."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from msprobe.compare.judge.overflow import OF_ARGUMENTS, levels

from .communication import UNKNOWN, Ends, communicates, ends_of
from .comparison import Comparison, NodeResult
from .database import NodeRow, as_json
from .graph import Node, NodeType
from .rank import Rank, stack_of
from .values import Item, Style, is_output, items

Stack = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """Rank and step, and the options for its nodes."""

    step: int
    rank: int
    overflow: bool = False
    short_stacks: bool = False


@dataclass
class Drawn:
    """One side of one rank. `links` are the nodes of the `other` side by this side's; both are missing for a single
    graph. `micro_steps` are those of the other side's linked nodes."""

    rank: Rank
    settings: Settings
    style: Style
    links: Mapping[str, str] | None = None
    other: Rank | None = None
    comparison: Comparison | None = None
    micro_steps: Mapping[str, int] = field(default_factory=dict)
    _stacks: dict[Stack, int] = field(default_factory=dict)
    _indexes: dict[str, float] = field(default_factory=dict)

    def nodes(self, source: str) -> Iterator[NodeRow]:
        """Yield the rows, children before their parents."""
        for order, node in enumerate(self.rank.graph.nodes.values()):
            yield self._row(source, order, node)

    def stacks(self, source: str) -> Iterator[tuple[str, str]]:
        """Yield the stacks of the nodes that were drawn so far."""
        for stack, number in self._stacks.items():
            yield f"{self._graph_id(source)}_{number}", as_json(stack)

    def ends(self) -> Ends:
        """Return the exchanges of the rank, once all its nodes are drawn."""
        states = {name: str(round(index, 6)).removesuffix(".0") for name, index in self._indexes.items()}
        if self.settings.overflow:
            states = {name: level or UNKNOWN for name, level in self._levels.items()}
        return ends_of(self.rank.dump, states)

    def _graph_id(self, source: str) -> str:
        return f"{source}_{self.settings.step}_{self.settings.rank}"

    @cached_property
    def _levels(self) -> Mapping[str, str]:
        columns = self.rank.dump.columns
        return dict(zip(columns.names, levels(columns, OF_ARGUMENTS), strict=True)) if self.settings.overflow else {}

    def _row(self, source: str, order: int, node: Node) -> NodeRow:
        call = self.rank.dump.place.get(node.name, -1)
        linked = self.links.get(node.name) if self.links is not None else None
        result = self.comparison.of_call(call) if self.comparison is not None and linked and call >= 0 else None
        inputs, outputs = self._items(call, result)
        index = self._index(node, result)
        graph_id = self._graph_id(source)
        return NodeRow(
            id=f"{graph_id}_{node.name}",
            graph_id=graph_id,
            node_order=order,
            node_name=node.name,
            node_type=str(int(node.type)),
            up_node=node.parent,
            sub_nodes=as_json(node.children) if node.children else "",
            precision_index=index,
            overflow_level=self._levels.get(node.name) or None,
            micro_step_id=self.micro_steps.get(node.name, node.micro_step),
            matched_node_link=as_json(self.other.graph.path(linked) if self.other and linked else []),
            stack_id=f"{graph_id}_{self._stack(node)}",
            parallel_merge_info="",
            matched_distributed="{}",
            modified=0,
            input_data=as_json(inputs),
            output_data=as_json(outputs),
            data_source=source,
            dump_data_dir=self.rank.tensors,
            step=self.settings.step,
            rank=self.settings.rank,
            is_distributed=int(communicates(node.name)),
        )

    def _items(self, call: int, result: NodeResult | None) -> tuple[dict[str, Item], dict[str, Item]]:
        """Return the records of a call: inputs with parameters, and outputs."""
        inputs: dict[str, Item] = {}
        outputs: dict[str, Item] = {}
        columns = self.rank.dump.columns
        entry = self.rank.entries.get(columns.names[call]) if call >= 0 else None
        if entry is not None:
            for row, name, shown in items(columns, call, entry, self.style):
                if result is not None and "group_ranks" not in shown:
                    shown.update(result.members.get(row, {}))
                (outputs if is_output(columns.part[row]) else inputs)[name] = shown
        return inputs, outputs

    def _index(self, node: Node, result: NodeResult | None) -> float | None:
        """Return the number of a node; for a collection the worst of its members."""
        if result is not None:
            self._indexes[node.name] = result.index
        elif node.type is NodeType.COLLECTION and self.comparison is not None:
            known = [self._indexes[child] for child in node.children if child in self._indexes]
            if known:
                self._indexes[node.name] = self.comparison.worst(known)
        index = self._indexes.get(node.name)
        return int(index) if index is not None and index.is_integer() else index

    def _stack(self, node: Node) -> int:
        stack = stack_of(self.rank.dump, node.name, self.settings.short_stacks)
        return self._stacks.setdefault(stack, len(self._stacks))
