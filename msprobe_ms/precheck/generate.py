"""Scripts that reproduce one call of a dump: found, rebuilt, and written with what its outputs should be."""

import platform
from dataclasses import replace
from pathlib import Path

import numpy as np

from msprobe.base.checks import nearest
from msprobe.base.errors import UsageError
from msprobe.replay.operations import Operation
from msprobe.replay.plan import plan_of
from msprobe.replay.recorded import CannotReplay, NotReplayed, RecordedCall, call_of
from msprobe.replay.references import References, given, with_outputs
from msprobe.replay.replay import references
from msprobe.store.record import Dump

from .check import WHOLE
from .executor import Executor
from .inputs import with_inputs
from .judge import Status, judged
from .reduce import executed_alone, reduced
from .script import Draw, Story, write_script


def place_of(dump: Dump, call: str) -> int:
    """Return the place of a call in a dump; the name of one of its outputs will do. UsageError where there is none."""
    names = dump.columns.names
    for name in (call, call.rpartition(".output.")[0]):
        if name in dump.place:
            return dump.place[name]
    near = nearest(call, names)
    raise UsageError(f"{dump.where}: there is no call {call!r}" + (f"; did you mean {near}?" if near else ""))


def write(
    dump: Dump,
    at: int,
    folder: Path,
    *,
    name: str,
    seeds: tuple[int | None, ...] = (None,),
    executor: Executor | None = None,
    is_reduced: bool = False,
) -> tuple[Path, Path, str]:
    """Write the script of a call and its data; return their paths, and the finding about the call.

    A seed draws the inputs, None uses the recorded ones. With an executor the call is executed and, with `is_reduced`,
    made smaller as long as it is wrong. UsageError if the call cannot be rebuilt, or is to be reduced and is not wrong.
    """
    api = dump.columns.names[at].rpartition(".")[0]
    draws, finding = [], ""
    for seed in seeds:
        try:
            call = call_of(dump, at)
            operation = plan_of(call).operation
            call = call if seed is None else with_inputs(call, operation, seed, api)
            if executor is not None:
                call = _executed(call, operation, executor, is_reduced=is_reduced)
            elif seed is not None:
                call = _without_outputs(call)
            of = _best(call)
        except CannotReplay as err:
            raise UsageError(_refusal(dump, at, err.outcome)) from err
        finding = finding or _finding(of)
        draws.append(Draw(call, of))
    script, data = write_script(folder, name, draws, _story(dump, draws[0].call, finding))
    return script, data, finding


def _executed(call: RecordedCall, operation: Operation, executor: Executor, *, is_reduced: bool) -> RecordedCall:
    if is_reduced:
        call = reduced(call, operation, executor)
    found = executed_alone(call, executor)
    if found is None:
        raise UsageError(f"{call.name}: the framework cannot execute the call here; omit --run and --reduce")
    if is_reduced and found[1].status is not Status.ERROR:
        raise UsageError(f"{call.name}: is correct on this device, so it cannot be reduced; omit --reduce")
    return found[0]


def _without_outputs(call: RecordedCall) -> RecordedCall:
    """Return a call with zeros for outputs that were not recorded: only their shapes and dtypes count."""
    outputs = {path: given(leaf, np.zeros(leaf.shape)) for path, leaf in call.outputs.items()}
    gradients = [given(leaf, np.zeros(leaf.shape)) for _, leaf in call.gradients]
    made = with_outputs(call, outputs, gradients)
    return replace(made, outputs=outputs)


def _best(call: RecordedCall) -> References:
    """Return the references of the candidate that explains the outputs best."""
    refused: NotReplayed | None = None
    best: tuple[int, References] | None = None
    for found in references(call, WHOLE):
        if isinstance(found, NotReplayed):
            refused = refused or found
            continue
        errors = sum(judged(found, each)[0].status is Status.ERROR for each in found.outputs)
        if best is None or errors < best[0]:
            best = errors, found
    if best is None:
        assert refused is not None
        raise CannotReplay(refused.cause, refused.detail)
    return best[1]


def _finding(of: References) -> str:
    for reference in of.outputs:
        judgement, _ = judged(of, reference)
        if judgement.status is Status.ERROR:
            return f"{reference.record.record.name}: {judgement.reason.value} ({judgement.value:.3g})."
    return ""


def _story(dump: Dump, call: RecordedCall, finding: str) -> Story:
    made = dump.made_with
    known = [made.get("framework") or dump.framework, made.get("device", ""), made.get("tool", "")]
    versions = [*known, f"Python {made.get('python') or platform.python_version()}"]
    return Story(f"{call.name}, and its expected outputs in float64.", finding, ", ".join(filter(None, versions)))


def _refusal(dump: Dump, at: int, outcome: NotReplayed) -> str:
    detail = f" ({outcome.detail})" if outcome.detail else ""
    return (
        f"{dump.columns.names[at]}: {outcome.cause.value}{detail}, so the expected outputs are unknown and no script "
        "is written"
    )
