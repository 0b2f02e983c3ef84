"""The next dump: a configuration of PrecisionDebugger around the step of the finding.

The names of the monitor become patterns that match on both sides: names of MindSpore start with `Cell.`, those of
PyTorch with `Module.`; a monitor may have shortened names at their start, and one of the trainings may be wrapped.
"""

import re
from collections.abc import Iterator, Mapping

from msprobe.base.scope import compact_ranges
from msprobe.findings.catalogue import monitor as stages

from .finding import Cause, MonitorDivergence

DUMP_PATH = "./next_dump"

_REPLICATED = "module"
"""The prefix of the names of a model in DistributedDataParallel."""

_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
"""Modules that PyTorch puts around others: the dumped model may have them at other places than the monitored one."""

_CUT = re.compile(r"layers?\.|embeddings?\.|final|output|norm")
"""Starts of names that a monitor has shortened, possibly within a word: `norm.` of `prenorm.`."""

_WHOLE_STEP = (
    Cause.DATA,
    Cause.LOSS,
    Cause.LOSS_SCALE,
    Cause.LOSS_GRADIENT,
    Cause.ANYTHING_BEFORE,
    Cause.WEIGHTS,
)
_OF_THE_UPDATE = (stages.MOMENT, stages.AFTER_UPDATE, stages.BEFORE_UPDATE)


def next_dump(finding: MonitorDivergence, ranks: int) -> Mapping[str, object]:
    """Return a complete configuration. The previous step is also dumped if its update may be the cause.

    `ranks`: number of compared ranks; for a single one, no rank is written.
    """
    is_of_step = finding.cause in _WHOLE_STEP or _is_of_update(finding)
    modules = () if is_of_step else finding.modules
    chosen = list(dict.fromkeys(pattern for module in modules for pattern in _patterns(module)))
    return {
        "task": "tensor" if chosen else "statistics",
        "dump_path": DUMP_PATH,
        "rank": compact_ranges(finding.ranks) if ranks > 1 else [],
        "step": compact_ranges(steps_around(finding)),
        "level": "mix",
        ("tensor" if chosen else "statistics"): {
            "scope": [],
            "list": chosen,
            "data_mode": ["all"],
            "summary_mode": "statistics",
        },
    }


def steps_around(finding: MonitorDivergence) -> tuple[int, ...]:
    """Return the steps whose dumps show a finding: changes by an update are visible in the next step."""
    step = finding.step
    if finding.stage is stages.BEFORE_UPDATE and step:
        return step - 1, step
    return (step, step + 1) if finding.stage in _OF_THE_UPDATE else (step,)


def _is_of_update(finding: MonitorDivergence) -> bool:
    return finding.stage in (*_OF_THE_UPDATE, stages.REDUCED, stages.COLLECTIVE)


def _patterns(module: str) -> Iterator[str]:
    """Yield parts of names that the calls of a module have on either side; none for the network itself."""
    path = [part for part in module.split(".") if part]
    while path and (path[0] == _REPLICATED or path[0] in _WRAPPERS):
        del path[0]
    while path and path[-1] in _WRAPPERS:
        del path[-1]
    plain = [part for part in path if part not in _WRAPPERS]
    for names in (path, plain) if path else ():
        name = ".".join(names) + "."
        yield name if _CUT.match(name) else f".{name}"
