"""A small synthetic language: what the model learns, and what its prompts are made of.

A text is BEGIN, a style token, and a walk in which the style says how one token follows another. After some tokens END
becomes likely. So a next token is neither certain nor anything at all, and the style, the oldest token, always counts.
"""

from collections.abc import Sequence

import numpy as np

PAD, BEGIN, END = 0, 1, 2
STYLES = range(3, 6)
WORDS = range(6, 50)
VOCABULARY = 50
LONGEST = 36
"""Tokens of a prompt and its response together."""

_FOLLOWERS = 5
_END = 0.08


def _table() -> np.ndarray:
    """P(next word | style, word), of shape (styles, words, words); the language itself never changes with a seed."""
    rng = np.random.default_rng(20240607)
    table = np.zeros((len(STYLES), len(WORDS), len(WORDS)))
    for style in range(len(STYLES)):
        for word in range(len(WORDS)):
            follow = rng.choice(len(WORDS), _FOLLOWERS, replace=False, p=_popularity())
            table[style, word, follow] = rng.dirichlet(np.full(_FOLLOWERS, 1.2))
    return table


def _popularity() -> np.ndarray:
    """Some words are frequent and most are rare, as in every language."""
    weight = 1 / np.arange(2, len(WORDS) + 2)
    return weight / weight.sum()


_TABLE = _table()


def texts(rng: np.random.Generator, rows: int, longest: int = LONGEST) -> np.ndarray:
    """Whole texts, filled up with PAD on the right: int32 of shape (rows, longest)."""
    tokens = np.full((rows, longest), PAD, np.int32)
    for row in tokens:
        style, word = rng.integers(len(STYLES)), rng.integers(len(WORDS))
        row[:3] = BEGIN, STYLES[style], WORDS[word]
        for place in range(3, longest):
            if place > 5 and rng.random() < _END:
                row[place] = END
                break
            word = rng.choice(len(WORDS), p=_TABLE[style, word])
            row[place] = WORDS[word]
    return tokens


def prompts(rng: np.random.Generator, rows: int, shortest: int = 3, longest: int = 12) -> list[np.ndarray]:
    """Beginnings of texts of different lengths, none of which has ended."""
    found: list[np.ndarray] = []
    for length in rng.integers(shortest, longest + 1, rows):
        style, word = rng.integers(len(STYLES)), rng.integers(len(WORDS))
        row = [BEGIN, STYLES[style], WORDS[word]]
        while len(row) < length:
            word = rng.choice(len(WORDS), p=_TABLE[style, word])
            row.append(WORDS[word])
        found.append(np.array(row[:length], np.int32))
    return found


def lengths(rows: Sequence[np.ndarray]) -> np.ndarray:
    """How long each of the rows is."""
    return np.array([len(row) for row in rows])
