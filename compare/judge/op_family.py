"""Operations whose records say nothing about correctness, as data.

| family | members | why |
|---|---|---|
| uninitialised | `empty` and its kin | the result is whatever the memory held before |
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

_ANY = re.compile(rf"\.(?:{'|'.join(sorted(UNINITIALISED | PLACEHOLDER))})\.[0-9]")


def has_any(calls: list[str]) -> bool:
    """Whether one of these calls may be of a family here; quick, and wrong only by saying yes."""
    return _ANY.search("\n".join(calls)) is not None


def unjudged_reason(call: str, part: str) -> str:
    """Why a record of this call cannot be judged; empty where it can."""
    name = names.parse(call)
    word = name.stem.rsplit(".", 1)[-1]
    if name.kind != "api" or name.direction != "forward":
        return ""
    if part == "output" and word in UNINITIALISED:
        return f"{word} gives uninitialised memory, which is never the same twice; what fills it is judged."
    if part == "input" and word in PLACEHOLDER:
        return f"{word} is handed tensors to be filled; what they held before says nothing."
    return ""
