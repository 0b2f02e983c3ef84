"""Operations whose records say nothing about correctness, as data.

| family | members | why |
|---|---|---|
| uninitialised | `empty` and its kin | the result is whatever the memory held before |
| filling | `uniform_`, `copy_` and their kin | the tensor that is filled may hold whatever the memory held before |
| workspace | MindSpore's `BatchNorm` | outputs behind the first are the kernel's own; a CPU leaves them unwritten |
| placeholder | `irecv`, the base forms of collectives | a tensor handed in to be filled holds whatever it held before |
"""

import re

from msprobe.base import names
from msprobe.compare.core.reason import Reason, Why

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

WORKSPACE = frozenset(("BatchNorm",))
"""Their outputs behind the first are not judged: MindSpore 2.10 leaves them unwritten on a CPU, so that they differ
between two runs of one program."""

_ANY = re.compile(rf"\.(?:{'|'.join(sorted(UNINITIALISED | PLACEHOLDER | FILLING | WORKSPACE))})\.[0-9]")


def has_any(calls: list[str]) -> bool:
    """Whether one of these calls may be of a family here; quick, and wrong only by saying yes."""
    return _ANY.search("\n".join(calls)) is not None


def unjudged_reason(call: str, part: str, place: str) -> Reason | None:
    """Why a record of this call cannot be judged; None where it can. `place` is the first of its path."""
    name = names.parse(call)
    word = name.stem.rsplit(".", 1)[-1]
    if name.kind != "api" or name.direction != "forward":
        return None
    if part == "output" and word in UNINITIALISED:
        return Reason(Why.UNINITIALISED, name=word)
    if part == "output" and place != "0" and word in WORKSPACE:
        return Reason(Why.WORKSPACE, name=word)
    if part == "input" and word in PLACEHOLDER:
        return Reason(Why.PLACEHOLDER, name=word)
    if part == "input" and place == "0" and word in FILLING:
        return Reason(Why.FILLED, name=word)
    return None
