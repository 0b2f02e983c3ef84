"""The kernels of one API in PyNative mode, which the Ascend runtime itself can dump around a call.

What the runtime is told is made here, once a step. To tell it, a native module is needed that this version does not
have, so the capture ends at that door: the file is written, and a warning says so.
"""

import json
from pathlib import Path
from typing import Any

from msprobe.base.names import parse
from msprobe.base.sections import CollectSettings
from msprobe.base.settings import Settings
from msprobe.store.layout import step_folder

from .machine import Machine


def asked_api(settings: Settings) -> str:
    """The API's call that `list` names, in the words of level L1; empty where it names kernels."""
    section = settings.section
    if isinstance(section, CollectSettings):
        return next((name for name in section.patterns if parse(name).kind == "api"), "")
    return ""


def serves(settings: Settings, machine: Machine) -> bool:
    """Whether this is the way: task `tensor`, a list of exactly one API's call, PyNative mode, Ascend."""
    section = settings.section
    one = isinstance(section, CollectSettings) and len(section.patterns) == 1 and not section.scope
    fits = settings.task == "tensor" and machine.device == "Ascend" and not machine.graph
    return one and fits and bool(asked_api(settings))


def write(root: Path, step: int, rank: int | None) -> Path:
    """Write what the runtime is to be told at this step."""
    folder = step_folder(root, step)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ("kernel_config.json" if rank is None else f"kernel_config_{rank}.json")
    file.write_text(json.dumps(told(folder)))
    return file


def told(folder: Path) -> dict[str, Any]:
    """All kernels between switching on and off, into this folder."""
    return {"dump": {"dump_list": [], "dump_path": str(folder), "dump_mode": "all", "dump_op_switch": "on"}}
