"""The corresponding nodes of target and golden.

Calls are linked as in a comparison (`compare.match`): by name and place, also if numbers differ; with `fuzzy` also by
operation; by the user's rules of layers; across frameworks by counterparts. The remaining nodes, which have no records,
are linked to the node of the same name below the same parents, and a collection to the one that contains the
counterparts of its calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from msprobe.compare.match.dumps import match
from msprobe.compare.match.pairs import Pairs
from msprobe.compare.match.user_mapping import user_pairs
from msprobe.mapping.user_files import UserMapping

from .graph import ROOT, Graph, NodeType
from .rank import Rank


@dataclass(frozen=True)
class Links:
    """Golden nodes by those of the target and vice versa; the pairs of calls and records; and sentences about the
    user's rules that matched nothing."""

    golden_of: Mapping[str, str]
    target_of: Mapping[str, str]
    pairs: Pairs
    unused: tuple[str, ...] = ()


def link(target: Rank, golden: Rank, mapping: UserMapping, fuzzy: bool) -> Links:
    """Link the nodes of two graphs."""
    by_user = user_pairs(mapping, target.dump, golden.dump)
    pairs = match(target.dump, golden.dump, fuzzy=fuzzy, by_user=by_user)
    found = _Found(target.graph, golden.graph)
    ours, theirs = target.dump.columns.names, golden.dump.columns.names
    for i, j in zip(pairs.target_calls.tolist(), pairs.golden_calls.tolist(), strict=True):
        if i >= 0 and j >= 0:
            found.join(ours[i], theirs[j])
    found.join(ROOT, ROOT)
    found.join_collections()
    found.join_by_name()
    return Links(found.golden_of, found.target_of, pairs, by_user.unused)


class _Found:
    def __init__(self, target: Graph, golden: Graph) -> None:
        self._target, self._golden = target, golden
        self.golden_of: dict[str, str] = {}
        self.target_of: dict[str, str] = {}

    def join(self, ours: str, theirs: str) -> None:
        """Link two nodes, if both are drawn and neither is linked yet."""
        are_drawn = ours in self._target.nodes and theirs in self._golden.nodes
        if are_drawn and ours not in self.golden_of and theirs not in self.target_of:
            self.golden_of[ours], self.target_of[theirs] = theirs, ours

    def join_collections(self) -> None:
        for node in self._target.nodes.values():
            if node.type is NodeType.COLLECTION:
                for child in node.children:
                    parent = self._golden.nodes[self.golden_of[child]].parent if child in self.golden_of else ""
                    if parent and self._golden.nodes[parent].type is NodeType.COLLECTION:
                        self.join(node.name, parent)

    def join_by_name(self) -> None:
        """Link nodes of one name with the same path of names, parents first."""
        for name, node in reversed(list(self._target.nodes.items())):
            other = self._golden.nodes.get(name)
            if other is not None and node.type is other.type and self._target.path(name) == self._golden.path(name):
                self.join(name, name)
