"""Key data in graphs: the functions that `in_graph` names, and the keeper of the tensors that arrive from a graph.

The settings when a graph is compiled decide whether operators are planted, those when it runs decide where their
tensors go. On a device that writes the files itself (Ascend) the settings when it is compiled decide both.
"""

from typing import Any

from msprobe.at_compile import AtCompile
from msprobe.base.statistic import Array
from msprobe.graph_save import save as _saves
from msprobe.graph_save.operators import synchronize
from msprobe.graph_save.planted_save import KEEPERS, plant

from .key_data import KeyData, left_out
from .probe import MsProbe

__all__ = ["is_wanted", "leave_texts_out", "plant", "synchronize"]


def _taking() -> KeyData | None:
    """Where key data go now; None where nothing is collected."""
    return MsProbe._data_for("key_data_dump")


class _Kept:
    """What `MsProbe.save_data` is given in a graph becomes key data; `where` is the name that it was given under."""

    def folder(self, where: str) -> str:
        data = _taking()
        return data.folder(where) if data is not None else ""

    def keep(self, where: str, name: str, array: Array, dtype: str) -> None:
        data = _taking()
        if data is not None:
            data.save_arrived(where, name, array, dtype)

    def note_unknown_shape(self, name: str) -> bool:
        what = f"save_data: the shape of {name} is unknown when the graph is compiled"
        left_out(what, f"{what}; use inputs of fixed shapes, or run this part in PyNative mode")
        return False  # the framework may refuse the graph that Python would have to be called from

    def refuse(self, name: str) -> None:
        left_out(f"{name} in a graph", f"save_data: {name} is neither a tensor nor a container of tensors")


KEEPERS["MsProbe"] = _Kept()


def _is_wanted(name: Any) -> bool:
    """Whether operators are to be planted for a call that the compiler reads."""
    if _taking() is None:
        return False
    if not isinstance(name, str) or not name:
        left_out("call in a graph", "save_data in a graph takes a name and its data: save_data('loss', loss)")
        return False
    _saves.tree.expect()  # type: ignore[attr-defined]  # its import; the module itself must be there at the end
    return True


def _leave_texts_out(_: Any) -> None:
    if _taking() is not None:
        left_out("texts in a graph", "save_string_list: strings are constants in a graph; call it outside the graph")


is_wanted = AtCompile(_is_wanted)
leave_texts_out = AtCompile(_leave_texts_out)
