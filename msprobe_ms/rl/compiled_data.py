"""Key data in graphs: the functions that `in_graph` calls, and the sink of the tensors that arrive from a graph.

The settings when a graph is compiled decide whether operators are inserted, those when it runs decide where their
tensors go. On a device that writes the files itself (Ascend) the settings when it is compiled decide both.
"""

from typing import Any

from msprobe.base.statistic import Array
from msprobe.frameworks.mindspore.at_compile import AtCompile
from msprobe.graph_save import save as _saves
from msprobe.graph_save.compiled_save import SINKS, insert_save
from msprobe.graph_save.operators import synchronize
from msprobe.graph_save.tree import TENSOR_TYPE

from .key_data import KeyData, log_skipped
from .probe import MsProbe

__all__ = ["insert_save", "is_wanted", "skip_strings", "synchronize"]


def _receiver() -> KeyData | None:
    """Return the receiver of key data; None if key data are not collected."""
    return MsProbe._data_for("key_data_dump")


class _KeyDataSink:
    """The sink of `MsProbe.save_data` in graphs; `destination` is the name of the data."""

    def folder(self, destination: str) -> str:
        data = _receiver()
        return data.folder(destination) if data is not None else ""

    def write(self, destination: str, name: str, array: Array, dtype: str) -> None:
        data = _receiver()
        if data is not None:
            data.save_from_graph(destination, name, array, dtype, TENSOR_TYPE)

    def note_unknown_shape(self, name: str) -> bool:
        what = f"save_data: the shape of {name} is unknown when the graph is compiled"
        log_skipped(what, f"{what}; use inputs of fixed shapes, or run this part in PyNative mode")
        return False  # the framework may reject a graph that calls Python

    def refuse(self, name: str) -> None:
        log_skipped(f"{name} in a graph", f"save_data: {name} is neither a tensor nor a container of tensors")


SINKS["MsProbe"] = _KeyDataSink()


def _is_wanted(name: Any) -> bool:
    """Return whether operators are inserted for a call in compiled code."""
    if _receiver() is None:
        return False
    if not isinstance(name, str) or not name:
        log_skipped("call in a graph", "save_data in a graph takes a name and its data: save_data('loss', loss)")
        return False
    _saves.tree.mark_pending()  # type: ignore[attr-defined]  # its import; the module itself must be there at the end
    return True


def _skip_strings(_: Any) -> None:
    if _receiver() is not None:
        log_skipped("texts in a graph", "save_string_list: strings are constants in a graph; call it outside the graph")


is_wanted = AtCompile(_is_wanted)
skip_strings = AtCompile(_skip_strings)
