"""What to dump next: a configuration of PrecisionDebugger around the step that was found."""

from collections.abc import Mapping, Sequence

from msprobe.base.scope import compact
from msprobe.store.monitor.layout import Stage

from .finding import Cause, Finding
from .pairing import form_free

DUMP_PATH = "./next_dump"

_WHOLE_STEP = (Cause.DATA, Cause.LOSS, Cause.LOSS_SCALE, Cause.LOSS_GRADIENT, Cause.WEIGHTS)
_OF_THE_UPDATE = (Stage.MOMENT, Stage.AFTER_UPDATE, Stage.BEFORE_UPDATE)


PREFIXES = {"mindspore": ("Cell",), "pytorch": ("Module",), "": ("Cell", "Module")}
"""What names of modules begin with in a dump, by framework; both where the framework is not known."""


def next_dump(finding: Finding, ranks: int, prefixes: Sequence[str] = PREFIXES["mindspore"]) -> Mapping[str, object]:
    """A whole configuration. The step before is dumped too where its update may be the cause.

    `ranks`: how many ranks were compared; of one rank alone, no number is written. `prefixes` as in `PREFIXES`.
    """
    module = "" if finding.cause in _WHOLE_STEP or _is_of_update(finding) else _module(finding)
    chosen = [f"{prefix}.{module}." for prefix in prefixes] if module else []
    return {
        "task": "tensor" if chosen else "statistics",
        "dump_path": DUMP_PATH,
        "rank": compact(finding.ranks) if ranks > 1 else [],
        "step": compact(steps_around(finding)),
        "level": "mix",
        ("tensor" if chosen else "statistics"): {
            "scope": [],
            "list": chosen,
            "data_mode": ["all"],
            "summary_mode": "statistics",
        },
    }


def steps_around(finding: Finding) -> tuple[int, ...]:
    """The steps in whose dumps a finding shows: what an update changed is seen in the next step."""
    step = finding.step
    if finding.stage is Stage.BEFORE_UPDATE and step:
        return step - 1, step
    return (step, step + 1) if finding.stage in _OF_THE_UPDATE else (step,)


def _is_of_update(finding: Finding) -> bool:
    return finding.stage in (*_OF_THE_UPDATE, Stage.REDUCED, Stage.COLLECTIVE)


def _module(finding: Finding) -> str:
    """The module whose call is to be seen: that of the gradient that agrees last, else of what leaves.

    An input is made outside its module, and its gradient is handed on there: then the module around it. Empty for the
    whole network.
    """
    kind, name = ("actv_grad", finding.agreeing) if finding.agreeing else (finding.kind, finding.target)
    found = form_free(kind, name)
    if isinstance(found, tuple):
        module, tensor, _ = found
        return str(module).rpartition(".")[0] if tensor == "input" else str(module)
    return name.rpartition(".")[0]
