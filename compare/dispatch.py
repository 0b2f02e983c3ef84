"""Select the comparison by the content of both paths: RL flows, if both are roots of one, otherwise dumps and saves.

Another command compares checkpoints.
"""

import logging
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import strftime
from typing import TYPE_CHECKING

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import logger
from msprobe.base.verdicts import Gap, Verdicts
from msprobe.store.detect import is_checkpoint, kind_of

from .core.layouts import Layouts
from .jobs.plan import side
from .jobs.run import absolute, run_request
from .jobs.summary import RequestResult
from .judge.verdict import GRADES
from .request import Request
from .rl.roots import ITSELF, is_root, root_of, roots_by_step

# Modules that compare flows, merge ranks and write reports are imported on use: they are a third of all modules.
if TYPE_CHECKING:
    from msprobe.findings.finding import Answer
    from msprobe.report.file import Report

    from .rl.result import FlowResult, Stepwise


_MAX_SUSPECTS = 5
"""Number of shards that are listed; one that is wrong usually makes later ones wrong."""


def compare_paths(request: Request, log_level: int = logging.INFO) -> "RequestResult | FlowResult | Stepwise":
    """Run the comparison of a request; every kind of result has `lines`, `is_clean` and `outcomes`. `log_level` is the
    level of progress messages.

    Raise a UsageError if only one side is the root of a flow, and for checkpoints. If the other side is a root, a
    folder with key data alone counts as one, and so does a run of steps, if the debugger of the root also collected
    some outside its stages. Model-parallel ranks are merged first, into the folder `merged` of the output: those of the
    layouts of the request, and those with shards of distributed tensors, unless both sides have the same ones.
    """
    if request.layouts is not None:
        return _compare_merged(request, request.layouts, log_level)
    paths = request.target, request.golden
    roots = [path for path in paths if not request.read_as and is_root(path)]
    if not roots and not request.read_as:
        target, golden = map(roots_by_step, paths)
        if target and golden:
            from .rl.compare import compare_steps

            _refuse_calibrating(request)
            return compare_steps(request, target, golden)
    if not roots:
        try:
            return _compare_dumps(absolute(request), log_level)
        except DumpError:
            _refuse_checkpoints(paths)
            raise
    from .rl.compare import compare_flows

    _refuse_calibrating(request)
    return compare_flows(_neighbor(roots[0], request) if len(roots) == 1 else request)


def _compare_dumps(request: Request, log_level: int) -> RequestResult:
    """Compare dumps or saves; ranks that have shards of distributed tensors are merged first."""
    sides = side(request.target, request.read_as), side(request.golden, request.read_as)
    found = None
    if not request.read_as and request.calibrate is None:
        from .jobs.shard_layouts import layouts_of_shards

        found = layouts_of_shards(*sides)
    if isinstance(found, Layouts):
        logger.log(log_level, "the runs distribute their tensors differently; the ranks of each are merged first")
        return _compare_merged(request, found, log_level)
    result = run_request(request, log_level, sides=sides)
    return result if found is None else replace(result, merging=(found,))


def verdicts_of(result: "RequestResult | FlowResult | Stepwise") -> Verdicts:
    """Return the pairs that were judged, and whether something differs or is open."""
    is_open = not (result.is_clean or result.differs)
    return Verdicts(result.judged, int(result.differs), {Gap.NO_PARTNER: int(is_open)})


def _compare_merged(request: Request, layouts: Layouts, log_level: int) -> RequestResult:
    if request.calibrate is not None or request.read_as:
        other = "--calibrate" if request.calibrate is not None else "rank_id or common of a compare.json"
        raise UsageError(f"--rank-size and {other} cannot be combined: omit one of them")
    from .parallel.merge import merge_sides

    merged = merge_sides(request.target, request.golden, layouts, request.output / "merged")
    for path in dict.fromkeys((merged.target, merged.golden)):
        if path is not None and path not in (request.target, request.golden):
            logger.log(log_level, "the merged dumps are in %s", path)
    golden = merged.golden or request.golden
    result = run_request(
        replace(request, target=merged.target, golden=golden, stack_file=None, layouts=None), log_level
    )
    suspects = merged.suspects if result.differs else ()
    listed = suspects[:_MAX_SUSPECTS]
    return replace(result, merging=(*listed, *merged.findings), omitted=len(suspects) - len(listed))


def report_of(result: "RequestResult | FlowResult | Stepwise", request: Request) -> "Report":
    """Return the report of a result whose request has `html`."""
    if isinstance(result, RequestResult):
        from .jobs.report import report_of as report_of_dumps

        return report_of_dumps(result, request)
    from .rl.report import report_of_flows

    return report_of_flows(result, request)


def answer_of(result: "RequestResult | FlowResult | Stepwise", request: Request) -> "Answer":
    """Return the findings of a comparison."""
    if isinstance(result, RequestResult):
        from .jobs.answer import answer_of as answer_of_dumps

        return answer_of_dumps(result, request)
    from .rl.report import answer_of_flows

    return answer_of_flows(result, request)


def pairs_of(result: "RequestResult | FlowResult | Stepwise") -> Verdicts:
    """Return the numbers of pairs of records that pass, that differ, and that have no verdict, by cause."""
    return Verdicts(result.judged - result.differing, result.differing, result.unjudged)


def counts_of(result: "RequestResult | FlowResult | Stepwise") -> dict[str, int]:
    """Return the numbers of records by grade."""
    return {grade: sum(outcome.counts.get(grade, 0) for outcome in result.outcomes) for grade in GRADES}


def write_report(result: "RequestResult | FlowResult | Stepwise", request: Request) -> Path:
    """Write the report into the folder of the tables, as `compare_report_{time}.html`; return its path."""
    stem = f"compare_report_{strftime('%Y%m%d%H%M%S')}"
    paths = (request.output / f"{stem}{f'_{number}' if number > 1 else ''}.html" for number in count(1))
    path = next(path for path in paths if not path.exists())
    report_of(result, request).write(path)
    logger.info("the report is in %s", path)
    return path


def _refuse_calibrating(request: Request) -> None:
    if request.calibrate is not None:
        raise UsageError(
            "--calibrate does not support RL flows: calibrate with the folder of one stage, such as "
            "ROOT/actor_update, and pass the resulting noise.json with --noise"
        )


def _refuse_checkpoints(paths: tuple[Path, Path]) -> None:
    found = [path for path in paths if is_checkpoint(path)]
    if found:
        from shlex import quote

        named = paths if len(found) == 2 else (found[0], Path("OTHER"))
        raise UsageError(
            f"{found[0]}: is a checkpoint, not a dump; compare two checkpoints with: msprobe config-check "
            f"--compare {' '.join(quote(str(path)) for path in named)}"
        )


def _neighbor(root: Path, request: Request) -> Request:
    """Return the request with the corresponding folder of the side that is not a root itself."""
    side = "golden" if request.target == root else "target"
    kind, known = kind_of(getattr(request, side)), root_of(root)
    parts = {"single saves"} | ({"run", "trees"} if ITSELF in known.stages else set())
    if kind.word not in parts:
        stage = next((name for name in known.stages if name != ITSELF), "actor_update")
        raise UsageError(
            f"the inputs are of different kinds: {root} is {known.text}, {kind.path} is {kind.text}; give two "
            f"root folders, or the folder of one stage of each side, such as ROOT/{stage}"
        )
    return replace(request, **{side: kind.path})  # type: ignore[arg-type]  # the side is a path
