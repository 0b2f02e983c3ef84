"""What ranks do, for tests of the first differing call among several: calls that communicate, and who is named."""

from msprobe.compare.ranks.collectives import Node
from msprobe.compare.ranks.search import first_over_ranks

WRONG = (5.0, 1.0)
"""A tensor that differs: of 5 in the target, of 1 in the golden."""


def named(stories):
    """Rank and name of what differs first."""
    return [(first.rank, first.node.name) for first in first_over_ranks(stories)]


def node(name):
    return Node(name, {}, (name,), ())


def reduce(number, inputs, gives=WRONG, **keywords):
    return f"Distributed.all_reduce.{number}.forward", [inputs], [gives], keywords


def api(word, inputs, gives, *others, number=0, **keywords):
    """A call of a function that communicates: its tensor, then further arguments."""
    return f"MintDistributed.{word}.{number}.forward", [inputs, *others], [gives], keywords
