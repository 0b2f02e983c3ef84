"""Structure of the model and stacks of the module calls, which a monitor writes in the first step."""

import csv
import io
import json
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msprobe.base import redaction
from msprobe.base.files import make_folder, replace_atomically
from msprobe.base.framework import AnyModule
from msprobe.base.patches import Handle
from msprobe.store.monitor.writer import Row

from .backend import Backend
from .names import Choice

STRUCTURE = ("module_struct", "module_struct.json")
STACKS = "stack_info.csv"
FINISHED = "exit after first monitor step when print model struct"

_SIDES = {("actv", "input"): "input", ("actv", "output"): "output"}
_SIDES |= {("actv_grad", "input"): "input_grad", ("actv_grad", "output"): "output_grad"}
_ROW = re.compile(r"^(.*)\.(input|output)(?:_(\d+))?$")
_OURS = re.compile(r"[/\\](msprobe|mindspore|torch)[/\\]")


def structure(rows: Mapping[str, Iterable[Row]]) -> dict[str, dict[str, dict[str, str]]]:
    """Return the shapes and dtypes of the inputs, outputs and their gradients of each module, from a step's rows."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for kind in ("actv", "actv_grad"):
        for row in rows.get(kind, ()):
            name = _ROW.match(row.name)
            if name is None:
                continue
            sides = found.setdefault(f"{row.vpp_stage}:{name[1]}", {})
            side = sides.setdefault(_SIDES[kind, name[2]], {})
            place = name[3] or ("tensor" if (kind, name[2]) == ("actv", "output") else "0")
            side[place] = f"size={row.shape}, dtype={row.dtype}"
    return {name: {side: _with_config(tensors) for side, tensors in sides.items()} for name, sides in found.items()}


def _with_config(tensors: dict[str, str]) -> dict[str, str]:
    return {"config": "tensor" if "tensor" in tensors else f"tuple[{len(tensors)}]", **tensors}


def write_structure(root: Path, rank: int, rows: Mapping[str, Iterable[Row]]) -> Path:
    """Write `module_struct/rank{R}/module_struct.json`; OSError where that cannot be."""
    path = root / STRUCTURE[0] / f"rank{rank}" / STRUCTURE[1]
    make_folder(path.parent)
    with replace_atomically(path) as file:
        file.write(json.dumps(structure(rows), indent=2).encode())
    return path


class Stacks:
    """Notes from where each module is called the first time, while installed."""

    def __init__(self, backend: Backend, hook: Callable[[str, Callable[..., Any]], Callable[..., None]]) -> None:
        self._backend, self._hook = backend, hook
        self._found: dict[str, str] = {}
        self._handles: list[Handle] = []

    def install(self, models: list[AnyModule], choice: Choice) -> None:
        """Hook the chosen modules."""
        for vpp_stage, model in enumerate(models):
            for name, module in self._backend.modules.inside(model):
                if choice.has_module(vpp_stage, name):
                    before = self._hook("a stack", self._noting(f"{vpp_stage}:{name}"))
                    self._handles += self._backend.modules.hook(module, before, self._hook("a stack", _nothing))

    def _noting(self, name: str) -> Callable[..., None]:
        def note(*_: Any) -> None:
            if name not in self._found:
                self._found[name] = _stack()

        return note

    def write(self, folder: Path) -> None:
        """Write `stack_info.csv` and take the hooks off."""
        while self._handles:
            self._handles.pop().remove()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["module_name", "stack_info"])
        writer.writerows(self._found.items())
        with replace_atomically(folder / STACKS) as file:
            file.write(text.getvalue().encode("utf-8", "replace"))

    def remove(self) -> None:
        """Take the hooks off."""
        while self._handles:
            self._handles.pop().remove()


def _nothing(*_: Any) -> None:
    """Do nothing after a call."""


def _stack() -> str:
    """Return the frames of the user's code, the innermost first."""
    frames = [frame for frame in traceback.extract_stack() if not _OURS.search(frame.filename)]
    return "\n".join(
        f"File {frame.filename}, line {frame.lineno}, in {frame.name}, \n {redaction.source(frame.line or '')}"
        for frame in reversed(frames)
    )
