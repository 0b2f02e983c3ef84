"""What to dump next: a configuration of PrecisionDebugger around the step that was found."""

from collections.abc import Mapping

from msprobe.base.scope import compact
from msprobe.store.monitor.layout import Stage

from .finding import Cause, Finding

DUMP_PATH = "./next_dump"

_WHOLE_STEP = (Cause.DATA, Cause.LOSS, Cause.LOSS_SCALE, Cause.LOSS_GRADIENT, Cause.WEIGHTS)
_OF_THE_UPDATE = (Stage.MOMENT, Stage.AFTER_UPDATE, Stage.BEFORE_UPDATE)


def next_dump(finding: Finding, ranks: int) -> Mapping[str, object]:
    """A whole configuration. The step before is dumped too where its update may be the cause.

    `ranks`: how many ranks were compared; of one rank alone, no number is written.
    """
    step = finding.step
    steps = (step, step + 1) if finding.stage in _OF_THE_UPDATE else (step,)
    if finding.stage is Stage.BEFORE_UPDATE and step:
        steps = (step - 1, step)
    module = _module(finding)
    chosen = [f"{module}."] if module and finding.cause not in _WHOLE_STEP and not _is_of_update(finding) else []
    return {
        "task": "tensor" if chosen else "statistics",
        "dump_path": DUMP_PATH,
        "rank": compact(finding.ranks) if ranks > 1 else [],
        "step": compact(steps),
        "level": "mix",
        ("tensor" if chosen else "statistics"): {
            "scope": [],
            "list": chosen,
            "data_mode": ["all"],
            "summary_mode": "statistics",
        },
    }


def _is_of_update(finding: Finding) -> bool:
    return finding.stage in (*_OF_THE_UPDATE, Stage.REDUCED, Stage.COLLECTIVE)


def _module(finding: Finding) -> str:
    """The module whose call is to be seen: that of the gradient that agrees last, else of what leaves."""
    name = finding.agreeing or finding.target
    return f"Cell.{head}" if (head := name.rpartition(".")[0]) else ""
