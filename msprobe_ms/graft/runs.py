"""A run and the golden run, compared step by step by the judgement of `msprobe compare`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.compare.dataflow.events import Event, events
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.jobs.outcome import Compared, compared, read_of, tasks_of
from msprobe.compare.jobs.plan import plan
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.match.user_mapping import user_pairs
from msprobe.compare.request import Request


@dataclass(frozen=True)
class Step:
    """One step of one rank of both runs."""

    step: int
    rank: int
    result: Compared

    @property
    def comparison(self) -> Comparison:
        """Return the judged pairs of records."""
        return self.result.comparison

    @property
    def findings(self) -> tuple[Divergence, ...]:
        """Return the divergences in execution order."""
        return self.result.located.findings

    @cached_property
    def events(self) -> list[Event]:
        """Return the calls of both runs in execution order."""
        return events(self.comparison.pairs)

    @cached_property
    def graphs(self) -> dict[str, Graph]:
        """Return the dataflow of both sides."""
        return {name: Graph(side.dump) for name, side in self.comparison.sides.items()}


@dataclass(frozen=True)
class Study:
    """A run with the golden run, by step and rank, in execution order."""

    target: Path
    golden: Path
    steps: tuple[Step, ...]

    @property
    def findings(self) -> Iterator[tuple[Step, Divergence]]:
        """Return all divergences with their steps, the first of them first."""
        for step in self.steps:
            for finding in step.findings:
                yield step, finding


def studied(target: Path, golden: Path, request: Request | None = None) -> Study:
    """Compare two runs.

    `request` has the user's mappings; None has none. Raise a DumpError if a side cannot be read, a UsageError if the
    two have nothing in common or a side has no tensors.
    """
    request = replace(request or Request(target, golden), resume=False, tables=False)
    jobs = [job for job in plan(target, golden).jobs if job.is_of_calls]
    found = []
    for task in tasks_of(jobs, request, [Path()] * len(jobs), 1):
        ours, theirs = read_of(task)
        for dump in (ours, theirs):
            if dump.task != "tensor":
                raise UsageError(
                    translated(
                        f"{dump.where}: was collected with task {dump.task!r}, and a graft needs the elements of all "
                        'tensors; collect both runs with task "tensor"',
                        f"{dump.where}：以任务 {dump.task!r} 采集，而嫁接需要所有张量的元素；请以 tensor 任务采集两侧",
                    )
                )
        by_user = user_pairs(request.mapping, ours, theirs)
        result = compared(task, ours, theirs, by_user, task.effort)
        place = task.job.place
        step, rank = (
            own if known is None else known for own, known in zip((ours.step, ours.rank), place[1:3], strict=True)
        )
        found.append(Step(step or 0, rank or 0, result))
    return Study(target, golden, tuple(sorted(found, key=lambda one: (one.step, one.rank))))
