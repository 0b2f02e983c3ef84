"""The root that an RL flow leaves (`docs/compare-flow.md`): configurations, key data by name, a run of dumps per stage.

```
root/configurations.json
root/data/{key}/step{n}/rank{r}/...         `single_trees.py`
root/{stage}/step{n}/rank{r}/dump.json      `read`
```
"""

from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.log import logger

from .configurations import NAME
from .folders import Folder, look
from .layout import DATA, run_number
from .runs import of_run, trees_in
from .single_trees import single_dumps

STAGES = (
    "actor_generate_sequences",
    "reference_compute_log_prob",
    "critic_compute_values",
    "actor_compute_log_prob",
    "actor_update",
    "critic_update",
)
"""The stages as RL code calls them. Others are stages too, where they stand beside something that tells a flow."""


@dataclass(frozen=True)
class FlowRoot:
    """What a root holds; each part is None, or empty, where it does not stand there.

    `stages` are the folders of stages that hold dumps, by name; `hollow` are those with a stage's name and no dump.
    """

    path: Path
    configurations: Path | None
    data: Path | None
    stages: dict[str, Path]
    hollow: tuple[str, ...]

    @property
    def says(self) -> str:
        """A phrase for the log."""
        parts = ["configurations"] * (self.configurations is not None) + ["key data"] * (self.data is not None)
        if self.stages:
            parts.append(f"dumps of {', '.join(self.stages)}")
        return f"an RL flow with {' and '.join(parts)}" if parts else "the folder of an RL flow, without data in it"


def flow_root(root: Path) -> FlowRoot:
    """What lies in a root; DumpError where it cannot be read. Links are not followed, which is said."""
    return _found(look(root))


def flow_in(top: Folder) -> FlowRoot | None:
    """A folder as the root of a flow, if what lies in it tells one: two of the three parts, or a stage by its name.

    Key data alone are single saves. Configurations alone tell a flow where no other folders stand beside them.
    """
    if NAME not in top.files and DATA not in top.folders and set(STAGES).isdisjoint(top.folders):
        return None  # without a look into each of many folders
    found = _found(top)
    parts = (found.configurations is not None) + (found.data is not None) + bool(found.stages)
    if parts > 1 or any(stage in STAGES for stage in found.stages):
        return found
    is_alone = found.configurations is not None and {DATA, *STAGES}.issuperset(
        name for name in top.folders if run_number(name) is None
    )
    return found if is_alone else None


def _found(top: Folder) -> FlowRoot:
    stages: dict[str, Path] = {}
    hollow: list[str] = []
    for name in top.folders:
        if name == DATA or run_number(name) is not None:
            continue
        if _holds_dumps(top.path / name):
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


def _holds_dumps(folder: Path) -> bool:
    try:
        inner = look(folder)
        return of_run(inner) == "dump" or bool(trees_in(inner))
    except DumpError as err:
        logger.warning("%s; it is left out", err)
        return False
