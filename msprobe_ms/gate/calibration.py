"""The limits of a golden by several correct runs: by how much each kind of call amplifies differences between them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import logger
from msprobe.compare.core.limits import KindAmplification, Limits, LimitSource
from msprobe.compare.jobs.outcome import compared, read_of, tasks_of
from msprobe.compare.jobs.plan import plan
from msprobe.compare.locate.find import Located
from msprobe.compare.match.user_mapping import NOTHING
from msprobe.compare.request import Request
from msprobe.findings.catalogue import comparison as kinds
from msprobe.verify_collection import ADVICE

from .golden import Golden

_NOT_REPRODUCIBLE = (kinds.RUN_INPUTS, kinds.RANDOM, kinds.ARGUMENT, kinds.STRUCTURE)
"""Findings that rounding does not cause: two runs of one command differ by them if they are not seeded."""


def calibrated(golden: Golden, runs: Sequence[Path]) -> Limits:
    """Return the limits by further runs of a golden's training.

    UsageError if one is not the same training: it has other inputs, parameters, arguments or calls.
    """
    found: dict[Any, KindAmplification] = {}
    wrong: list[str] = []
    sides: tuple[dict[str, str], ...] = ({"framework": ""}, {"framework": ""})
    for number, run in enumerate(runs, 2):
        request = Request(run, golden.path, output=run.parent, tables=False, resume=False)
        jobs = plan(request.target, request.golden).jobs
        for task in tasks_of(jobs, request, [run.parent / "none"] * len(jobs), 1):
            target, trusted = read_of(task)
            both = compared(task, target, trusted, NOTHING, task.effort)
            _refuse_other_runs(both.located, number, is_first=task.job is jobs[0])
            wrong += [first.name for first in [both.located.first] if first is not None]
            noise = both.comparison.noise
            for one in noise.evidence.values() if noise is not None else ():
                if one.kind is not None and one.amplification > 0:
                    known = found.get(one.kind)
                    most = max(one.amplification, known.amplification if known else 0.0)
                    found[one.kind] = KindAmplification(one.kind, most, 1 + (known.outputs if known else 0))
            sides = ({"framework": target.framework}, {"framework": trusted.framework})
    for name in dict.fromkeys(wrong):
        logger.warning("%s differs between two runs by more than the built-in limits; it is calibrated", name)
    rows = tuple(found[kind] for kind in sorted(found))
    return replace(
        Limits(),
        source=LimitSource.CALIBRATED,
        amplifications=rows,
        first_wrong=tuple(dict.fromkeys(wrong)),
        sides=sides,
    )


def _refuse_other_runs(located: Located, number: int, *, is_first: bool) -> None:
    """Raise UsageError if a run is another training; parameters may differ after the first step, by noise."""
    first = located.first
    if first is not None and (first.kind in _NOT_REPRODUCIBLE or (is_first and first.kind is kinds.PARAMETERS)):
        raise UsageError(
            translated(
                f"run {number} is not the same training as run 1: {first.name}: {first.kind.name}; {ADVICE}",
                f"第 {number} 次运行与第 1 次不是同一训练：{first.name}：{first.kind.name}；请先固定所有随机种子",
            )
        )
