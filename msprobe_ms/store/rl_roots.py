"""The root folder of an RL flow (page compare-flow): configurations, key data by name, a run of dumps per stage.

```
root/configurations.json
root/data/{key}/step{n}/rank{r}/...         single saves
root/{stage}/step{n}/rank{r}/dump.json
```
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msprobe.base import redaction
from msprobe.base.errors import DumpError
from msprobe.base.files import make_folder, replace_atomically
from msprobe.base.log import logger
from msprobe.base.object_text import object_text, without_addresses

from .folders import Folder, look, of_run, trees_in
from .layout import DATA, run_number
from .saves.single_saves import single_dumps

NAME = "configurations.json"

_DEPTH = 50
_SCALARS = (bool, int, float, str, type(None))


def write_configurations(root: Path, data: object) -> None:
    """Write `root/configurations.json` without secrets, in place of the one that is there.

    OSError if writing fails.

    Every rank of a run may write the same root at the same time: the file is always that of one of them.
    """
    text = json.dumps(redaction.setting("", plain(data)), indent=4)
    make_folder(root)
    with replace_atomically(root / NAME) as file:
        file.write(text.encode())


def plain(value: object, depth: int = 0) -> object:
    """Return a value in the types of JSON: what JSON has no type for, and what is nested deeper than 50, becomes its
    text, without the addresses of objects."""
    if isinstance(value, str):
        return without_addresses(value)
    if isinstance(value, _SCALARS):
        return value
    if depth < _DEPTH:
        if isinstance(value, Mapping):
            items = value.items()
            return {key if isinstance(key, _SCALARS) else object_text(key): plain(v, depth + 1) for key, v in items}
        if isinstance(value, list | tuple):
            return [plain(inner, depth + 1) for inner in value]
    return object_text(value)


STAGES = (
    *("actor_generate_sequences", "reference_compute_log_prob", "critic_compute_values", "actor_compute_log_prob"),
    *("actor_update", "critic_update"),
)
"""The stages as RL code calls them. Other folders are stages too, if they lie beside what makes a folder a flow."""


@dataclass(frozen=True)
class FlowRoot:
    """What a root holds; a part that is not there is None or empty.

    `stages` are the folders of stages that hold dumps, by name; `hollow` are those with a stage's name and no dump.
    """

    path: Path
    configurations: Path | None
    data: Path | None
    stages: dict[str, Path]
    hollow: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return a phrase for the log."""
        parts = ["configurations"] * (self.configurations is not None) + ["key data"] * (self.data is not None)
        if self.stages:
            parts.append(f"dumps of {', '.join(self.stages)}")
        return f"an RL flow with {' and '.join(parts)}" if parts else "the folder of an RL flow without data"


def flow_root(root: Path) -> FlowRoot:
    """Return the content of a root; DumpError if it cannot be read. Links are not followed, which is logged."""
    return _found(look(root))


def flow_in(top: Folder) -> FlowRoot | None:
    """Return a folder as the root of a flow, if it holds two of the three parts, or a stage by its name.

    Key data alone are single saves. Configurations alone make a flow if there are no other folders.
    """
    if NAME not in top.files and DATA not in top.folders and set(STAGES).isdisjoint(top.folders):
        return None  # without a look into each of many folders
    found = _found(top)
    parts = (found.configurations is not None) + (found.data is not None) + bool(found.stages)
    if parts > 1 or any(stage in STAGES for stage in found.stages):
        return found
    is_flow = found.configurations is not None and {DATA, *STAGES}.issuperset(
        name for name in top.folders if run_number(name) is None
    )
    return found if is_flow else None


def _found(top: Folder) -> FlowRoot:
    stages: dict[str, Path] = {}
    hollow: list[str] = []
    for name in top.folders:
        if name == DATA or run_number(name) is not None:
            continue
        holds_dumps = False
        try:
            inner = look(top.path / name)
            holds_dumps = of_run(inner) == "dump" or bool(trees_in(inner))
        except DumpError as err:
            logger.warning("%s; it is skipped", err)
        if holds_dumps:
            stages[name] = top.path / name
        elif name in STAGES:
            hollow.append(name)
    known = sorted(stages, key=lambda name: (STAGES.index(name) if name in STAGES else len(STAGES), name))
    has_data = DATA in top.folders and bool(single_dumps(top.path))
    return FlowRoot(
        top.path,
        top.path / NAME if NAME in top.files else None,
        top.path / DATA if has_data else None,
        {name: stages[name] for name in known},
        tuple(hollow),
    )
