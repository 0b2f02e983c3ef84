"""Which calls exchange tensors between ranks."""

from msprobe.base import names

from .buffers import function_of

_WORDS = ("send", "recv", "broadcast", "reduce", "gather", "scatter", "all_to_all")
"""Parts of the names of functions that communicate: `all_reduce`, `isend`, `_all_gather_base`..."""

_PRIMITIVES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AlltoAll": "all_to_all",
    "AlltoAllV": "all_to_all",
}
"""The primitives that are known without their attributes: dumps do not contain the root or the other rank."""


def word_of(call: str) -> str:
    """Return the operation of a call, such as `all_reduce`, if it communicates; otherwise an empty string."""
    if call.startswith("Primitive.") and (name := names.parse(call)).kind == "api":
        return _PRIMITIVES.get(name.stem.rsplit(".", 1)[-1], "")
    function = function_of(call)
    return function if any(word in function for word in _WORDS) else ""
