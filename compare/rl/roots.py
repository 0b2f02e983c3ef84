"""Detect the roots of an RL flow. This runs before every comparison, so it does not import what comparing needs."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.base.errors import DumpError
from msprobe.store.folders import DUMP_FILES, TREES, look, of_rank, of_run, ranks_in, steps_in, trees_in
from msprobe.store.layout import DATA

if TYPE_CHECKING:
    from msprobe.store.rl_roots import FlowRoot

ITSELF = "the debugger itself"
"""The name of the dumps that a debugger collected outside its stages."""

_STEP = re.compile(r"(?:global_)?step_?(\d{1,18})")


def root_of(path: Path) -> "FlowRoot":
    """Return the content of a folder, with the debugger's own dumps as a stage. Raise a DumpError if it cannot be
    read."""
    from msprobe.store.rl_roots import flow_root  # here: most paths are not roots

    found, top = flow_root(path), look(path)
    stages = {name: folder for name, folder in found.stages.items() if name not in TREES}
    if of_run(top) == "dump" or trees_in(top):
        stages[ITSELF] = path
    return replace(found, stages=stages)


def is_root(path: Path) -> bool:
    """Return whether a folder is the root of a flow: by its parts, or by dumps in folders of any name."""
    try:
        if not path.is_dir() or path.absolute().name == DATA:
            return False
        top = look(path)
        if not DUMP_FILES.isdisjoint(top.files) or any(of_rank(look(path / rank), "") for rank in ranks_in(top)):
            return False
        if not top.files and {*steps_in(top), *TREES}.issuperset(top.folders):
            return False  # a plain run, perhaps of many steps, whose folders are not opened
        from msprobe.store.rl_roots import flow_in  # here: as above

        return flow_in(top) is not None or not {ITSELF}.issuperset(root_of(path).stages)
    except (DumpError, OSError, ValueError):  # reported when the path is compared
        return False


def roots_by_step(path: Path) -> dict[int, Path]:
    """Return the roots of a flow in the folders of steps, by number; empty for any other folder."""
    try:
        named = {int(m[1]): path / name for name in look(path).folders if (m := _STEP.fullmatch(name))}
    except DumpError:  # reported when the path is compared
        return {}
    if not named or not is_root(named[min(named)]):
        return {}  # a plain run, perhaps of many steps, whose folders are not opened
    return {step: named[step] for step in sorted(named) if is_root(named[step])}
