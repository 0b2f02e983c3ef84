"""Roots of a flow in folders of steps, `root/step_3/{stage}/step0/rank`: how frameworks of reinforcement learning leave
them that give the debugger another dump_path in every stage of every step.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe.base.errors import DumpError, MsprobeError, UsageError
from msprobe.base.log import logger
from msprobe.base.visible import visible
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.locate.finding import FindingKind
from msprobe.compare.request import Request
from msprobe.store.folders import look

from .carry_out import carry_out as compare_root
from .result import FlowResult
from .roots import is_root

_STEP = re.compile(r"(?:global_)?step_?(\d{1,18})")


def roots_by_step(path: Path) -> dict[int, Path]:
    """The roots of a flow in the folders of steps, by number; none where the folder is anything else."""
    try:
        named = {int(m[1]): path / name for name in look(path).folders if (m := _STEP.fullmatch(name))}
    except DumpError:  # whoever compares it says what is wrong with the path
        return {}
    if not named or not is_root(named[min(named)]):
        return {}  # a plain run, perhaps of many steps, without a look into each
    return {step: named[step] for step in sorted(named) if is_root(named[step])}


@dataclass(frozen=True)
class Stepwise:
    """What came of every step that both sides have; `missing` are those of one side alone."""

    results: dict[int, FlowResult]
    missing: tuple[str, ...]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What came of every pair of dumps, step by step."""
        return tuple(outcome for result in self.results.values() for outcome in result.outcomes)

    @property
    def is_clean(self) -> bool:
        """Whether every step is, and both sides have the same steps."""
        return not self.missing and all(result.is_clean for result in self.results.values())

    def lines(self) -> Iterator[str]:
        """One line for each step; then all that is said of the first in which something differs."""
        first = next((step for step, result in self.results.items() if result.first is not None), None)
        for step, result in self.results.items():
            yield f"step {step}: {result.headline}"
        yield from (visible(f"missing: {each}") for each in self.missing)
        if first is not None:
            yield f"the first step in which something differs is {first}:"
            yield from self.results[first].lines()


def carry_out(request: Request, target: dict[int, Path], golden: dict[int, Path]) -> Stepwise:
    """Compare the flows of every step that both sides have; `--step` chooses among these.

    UsageError where a step is asked for that neither side has; DumpError where nothing could be compared.
    """
    wanted = request.steps
    if wanted is not None and (absent := set(wanted) - {*target, *golden}):
        there = ", ".join(map(str, sorted({*target, *golden})[:8]))
        raise UsageError(f"--step {','.join(map(str, sorted(absent)))}: on neither side; there: {there}")
    chosen = [step for step in sorted({*target, *golden}) if wanted is None or step in wanted]
    results: dict[int, FlowResult] = {}
    missing = []
    for step in chosen:
        if step not in target or step not in golden:
            missing.append(f"step {step} is only on the {'target' if step in target else 'golden'} side")
            continue
        logger.info("step %d: %s against %s", step, target[step], golden[step])
        output = request.output / f"step_{step}"
        asked = replace(request, steps=None, target=target[step], golden=golden[step], output=output)
        try:
            results[step] = _behind(results, compare_root(asked))
        except MsprobeError as err:
            missing.append(f"step {step} not compared: {' '.join(str(err).split())}")
    if not results:
        raise DumpError(f"nothing could be compared: {missing[0]}")
    return Stepwise(results, tuple(missing))


def _behind(before: dict[int, FlowResult], result: FlowResult) -> FlowResult:
    """The same result, which knows of no step before it, in the light of those."""
    first = result.first
    if first is None or first.finding is None or first.finding.kind is not FindingKind.PARAMETERS or not before:
        return result
    last = max(before)
    if before[last].first is not None:
        return result
    why = f"the stages of step {last} agree, and the weights differ in the next one"
    then = f"look at: the end of step {last}: the gradients' reduction, the optimizer, the loading of updated weights"
    return replace(result, first=replace(first, why=why, then=then))
