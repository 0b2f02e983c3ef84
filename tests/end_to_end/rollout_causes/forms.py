"""The forms in which two engines hand over what they recorded: keywords of compare_rollout."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from plants import Pair

Request = dict[str, Any]


def _matrix(rows: Sequence[np.ndarray], starts: Sequence[int], width: int, filler: float) -> np.ndarray:
    out = np.full((len(rows), width), filler, rows[0].dtype)
    for line, row, start in zip(out, rows, starts, strict=True):
        line[start : start + len(row)] = row
    return out


def _side(name: str, pair: Pair, place: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, int]]) -> Request:
    """One side as a matrix with its mask; `place` says where rows begin and how wide the matrix is."""
    rows, tokens = getattr(pair, name), getattr(pair, f"{name}_tokens")
    starts, width = place(pair.prompt_lengths, np.array([len(row) for row in rows]))
    request = {
        name: _matrix(rows, starts, width, 0.0),
        f"{name}_mask": _matrix([np.ones(len(row), np.int32) for row in rows], starts, width, 0),
    }
    if pair.tokens_given:
        request[f"{name}_tokens"] = _matrix(tokens, starts, width, 0)
    return request


def _responses_only(prompts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    return 0 * prompts, lengths.max()


def _padded_left(prompts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    return 0 * prompts + prompts.max(), prompts.max() + lengths.max()


def _padded_right(prompts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, int]:
    return prompts, (prompts + lengths).max() + 3


def lists(pair: Pair) -> Request:
    """Row by row."""
    request: Request = {"generated": pair.generated, "recomputed": pair.recomputed}
    if pair.tokens_given:
        request |= {"generated_tokens": pair.generated_tokens, "recomputed_tokens": pair.recomputed_tokens}
    return request


def responses(pair: Pair) -> Request:
    """Both sides are matrices of responses, with masks."""
    return _side("generated", pair, _responses_only) | _side("recomputed", pair, _responses_only)


def sequences(pair: Pair) -> Request:
    """Whole sequences: generation padded on the left, training on the right, each with its mask."""
    return _side("generated", pair, _padded_left) | _side("recomputed", pair, _padded_right)


def packed(pair: Pair) -> Request:
    """Generation as a matrix of responses, training as one long row and the lengths of its pieces."""
    lengths = np.array([len(row) for row in pair.recomputed])
    request = _side("generated", pair, _responses_only)
    request |= {"recomputed": np.concatenate(pair.recomputed), "recomputed_lengths": lengths}
    if pair.tokens_given:
        request["recomputed_tokens"] = np.concatenate(pair.recomputed_tokens)
    return request


FORMS = (lists, responses, sequences, packed)


def request_of(pair: Pair, form: Callable[[Pair], Request]) -> Request:
    """All that is known of a pair, in this form."""
    more = {} if pair.steps is None else {"steps": pair.steps}
    return form(pair) | {"prompt_lengths": pair.prompt_lengths} | more


def in_another_order(pair: Pair) -> Request:
    """Row by row, and the training kept its order of lengths; the tokens tell which is which."""
    order = np.argsort([len(row) for row in pair.recomputed], kind="stable")
    inputs = request_of(pair, lists)
    for name in ("recomputed", "recomputed_tokens"):
        inputs[name] = [inputs[name][i] for i in order]
    return inputs
