"""The forms in which two engines hand over what they recorded: keywords of compare_rollout."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from plants import Pair

Asked = dict[str, Any]


def _matrix(rows: Sequence[np.ndarray], starts: Sequence[int], width: int, filler: float) -> np.ndarray:
    out = np.full((len(rows), width), filler, rows[0].dtype)
    for line, row, start in zip(out, rows, starts, strict=True):
        line[start : start + len(row)] = row
    return out


def _side(name: str, pair: Pair, place: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, int]]) -> Asked:
    """One side as a matrix with its mask; `place` says where rows begin and how wide the matrix is."""
    rows, tokens = getattr(pair, name), getattr(pair, f"{name}_tokens")
    starts, width = place(pair.prompt_lengths, np.array([len(row) for row in rows]))
    asked = {
        name: _matrix(rows, starts, width, 0.0),
        f"{name}_mask": _matrix([np.ones(len(row), np.int32) for row in rows], starts, width, 0),
    }
    if pair.tokens_given:
        asked[f"{name}_tokens"] = _matrix(tokens, starts, width, 0)
    return asked


def _responses_only(prompts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    return 0 * prompts, lengths.max()


def _padded_left(prompts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    return 0 * prompts + prompts.max(), prompts.max() + lengths.max()


def _padded_right(prompts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    return prompts, (prompts + lengths).max() + 3


def lists(pair: Pair) -> Asked:
    """Row by row."""
    asked: Asked = {"generated": pair.generated, "recomputed": pair.recomputed}
    if pair.tokens_given:
        asked |= {"generated_tokens": pair.generated_tokens, "recomputed_tokens": pair.recomputed_tokens}
    return asked


def responses(pair: Pair) -> Asked:
    """Both sides are matrices of responses, with masks."""
    return _side("generated", pair, _responses_only) | _side("recomputed", pair, _responses_only)


def sequences(pair: Pair) -> Asked:
    """Whole sequences: generation padded on the left, training on the right, each with its mask."""
    return _side("generated", pair, _padded_left) | _side("recomputed", pair, _padded_right)


def packed(pair: Pair) -> Asked:
    """Generation as a matrix of responses, training as one long row and the lengths of its pieces."""
    lengths = np.array([len(row) for row in pair.recomputed])
    asked = _side("generated", pair, _responses_only)
    asked |= {"recomputed": np.concatenate(pair.recomputed), "recomputed_lengths": lengths}
    if pair.tokens_given:
        asked["recomputed_tokens"] = np.concatenate(pair.recomputed_tokens)
    return asked


FORMS = (lists, responses, sequences, packed)


def asked(pair: Pair, form: Callable[[Pair], Asked]) -> Asked:
    """All that is known of a pair, in this form."""
    more = {} if pair.steps is None else {"steps": pair.steps}
    return form(pair) | {"prompt_lengths": pair.prompt_lengths} | more


def in_another_order(pair: Pair) -> Asked:
    """Row by row, and the training kept its order of lengths; the tokens tell which is which."""
    order = np.argsort([len(row) for row in pair.recomputed], kind="stable")
    given = asked(pair, lists)
    for name in ("recomputed", "recomputed_tokens"):
        given[name] = [given[name][i] for i in order]
    return given
