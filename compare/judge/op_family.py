"""Operations whose records say nothing about correctness, as data.

| family | members | why |
|---|---|---|
| uninitialised | `empty` and its kin | the result is whatever the memory held before |
| filling | `uniform_`, `copy_` and their kin | the tensor that is filled may hold whatever the memory held before |
| placeholder | `irecv`, the base forms of collectives | a tensor handed in to be filled holds whatever it held before |
"""

import re

from msprobe.base import names

UNINITIALISED = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_with_format", "new_empty", "new_empty_strided")
)
"""Their outputs are not judged: mindspore.mint.empty, "the data is uninitialized"; torch.empty likewise."""

PLACEHOLDER = frozenset(
    ("irecv", "recv", "_reduce_scatter_base", "_all_gather_base", "all_to_all_single", "batch_isend_irecv")
)
"""Their inputs are not judged: buffers for the result stand among them (torch.distributed, mint.distributed)."""

FILLING = frozenset(
    (
        *("bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_", "random_"),
        *("uniform_", "zero_"),
    )
)
"""Their first input is not judged: every element of it is written, none is read."""

_ANY = re.compile(rf"\.(?:{'|'.join(sorted(UNINITIALISED | PLACEHOLDER | FILLING))})\.[0-9]")


def has_any(calls: list[str]) -> bool:
    """Whether one of these calls may be of a family here; quick, and wrong only by saying yes."""
    return _ANY.search("\n".join(calls)) is not None


def unjudged_reason(call: str, part: str, place: str) -> str:
    """Why a record of this call cannot be judged; empty where it can. `place` is the first of its path."""
    name = names.parse(call)
    word = name.stem.rsplit(".", 1)[-1]
    if name.kind != "api" or name.direction != "forward":
        return ""
    if part == "output" and word in UNINITIALISED:
        return f"{word} gives uninitialised memory, which is never the same twice; what fills it is judged."
    if part == "input" and word in PLACEHOLDER:
        return f"{word} is handed tensors to be filled; what they held before says nothing."
    if part == "input" and place == "0" and word in FILLING:
        return f"{word} writes every element of this tensor; what it held before says nothing."
    return ""
