"""How a call may treat its inputs, as far as its name says: change them, write into them, or only move them."""

from msprobe.base.names import parse

_EXCHANGES = ("Distributed.", "MintDistributed.")
_PRIMITIVE_EXCHANGES = ("AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "AlltoAllV")

_PURE = ("Tensor", "Functional", "Mint", "MintFunctional", "Torch", "Primitive", "NPU", "Aten", "VF", "Dispatch")
"""Prefixes of functions that change no input, but for those below."""

_IN_PLACE = frozenset(("__setitem__", "assign", "assign_add", "assign_sub", "set_data"))
_WITH_BUFFERS = ("batchnorm", "instancenorm")
"""In the names of functions that also keep running statistics up to date, in lower case without underscores."""

_PRIMITIVES_IN_PLACE = ("Apply", "Assign", "Scatter", "SparseApply", "Adam", "Momentum")

_MOVES = frozenset(
    str.split("""
    __getitem__ broadcast_to chunk clone concat cat contiguous detach expand expand_as expand_dims flatten flip gather
    index_select movedim moveaxis narrow permute ravel repeat reshape reshape_as roll select split squeeze stack
    stop_gradient swapaxes swapdims t tile transpose unbind unflatten unsqueeze unstack view view_as
    """)
)
"""Functions that move elements and compute nothing: what they return is finite if what they received is."""


def is_exchange(name: str) -> bool:
    """Return whether a call exchanges tensors between ranks."""
    if name.startswith(_EXCHANGES):
        return True
    return name.startswith("Primitive.") and parse(name).stem.rsplit(".", 1)[-1] in _PRIMITIVE_EXCHANGES


class Manner:
    """How a call may treat its inputs, by its stem: `copies`, they are written into; `looks`, they may be."""

    __slots__ = ("copies", "is_backward", "looks", "moves")

    def __init__(self, name: str) -> None:
        parsed = parse(name)
        prefix, _, rest = parsed.stem.partition(".")
        word = rest.rsplit(".", 1)[-1]
        in_place = word in _IN_PLACE or (word.startswith("__i") and word not in ("__invert__",))
        in_place |= word.endswith("_") and not word.endswith("__")
        in_place |= prefix == "Primitive" and word.startswith(_PRIMITIVES_IN_PLACE)
        is_forward, self.is_backward = parsed.direction == "forward", parsed.direction == "backward"
        self.copies = is_forward and (in_place or is_exchange(name))
        may_change = prefix not in _PURE or any(each in word.lower().replace("_", "") for each in _WITH_BUFFERS)
        self.looks = not self.copies and (parsed.kind == "cell" or (is_forward and may_change))
        self.moves = is_forward and parsed.kind == "api" and word in _MOVES
