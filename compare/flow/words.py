"""How an answer says a place, a key, a call, and what agrees."""

from collections.abc import Sequence

from .item import Item


def place_said(item: Item) -> str:
    return f"step {item.step}, rank {item.rank}"


def key_said(item: Item) -> str:
    """`key ref_log_prob (error: ... first at [0, 3])`."""
    at = f"first at {item.first}" if item.first else ""
    said = "; ".join(word for word in (item.reason.rstrip("."), at) if word)
    return f"key {item.name} ({item.grade}{': ' * bool(said)}{said})"


def agree(noun: str, found: Sequence[str], which: str) -> str:
    """`the key prompts before it agrees`, `the keys prompts and responses before it agree`."""
    names = list(dict.fromkeys(found))
    one = len(names) == 1
    return f"the {noun}{'s' * (not one)} {listed(names)}{which} agree{'s' * one}"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
