"""Two roots of an RL flow compared as a request asks for it: configurations, key data, stages, walk, answer."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import logger
from msprobe.compare.jobs.places import task
from msprobe.compare.request import Request
from msprobe.compare.workers.cores import cores
from msprobe.store.claim import alone, claimed
from msprobe.store.flow_roots import FlowRoot
from msprobe.store.single_trees import SingleTree

from .answer import first_difference
from .collect import way_of
from .configurations import compare_configurations
from .item import Item
from .keys import KeyData, compare_keys, trees_of
from .result import FlowResult
from .roots import root_of
from .stages import Stage, compare_stages, held_places
from .stages import items as items_of_stage
from .walk import walk
from .write_down import summary, write_down


def carry_out(request: Request) -> FlowResult:
    """Compare everything that both roots hold, and write it down.

    What is wrong with one part does not stop the others. UsageError where a step or rank is asked for that neither side
    has, or the output cannot be written; DumpError where nothing at all could be compared.
    """
    request = _absolute(request)
    target, golden = root_of(request.target), root_of(request.golden)
    logger.info("target: %s; golden: %s", target.says, golden.says)
    trees = trees_of(*(root.path if root.data else None for root in (target, golden)))
    places = [{(spot.step, spot.rank) for spot in tree.spots} for tree in trees]
    places += [set(found) for root in (target, golden) for found in held_places(root).values()]
    for option, at, wanted in (("--step", 0, request.steps), ("--rank", 1, request.ranks)):
        _check_choice(option, wanted, {place[at] for found in places for place in found})
    if request.stack_file is not None:
        logger.warning("%s is the stack of one dump, and a flow has many; it is ignored", request.stack_file)
    with (
        alone(request.output),  # the names of the tables of single keys have no time
        claimed(request.output, task(request), lambda second: [summary(request.output, second)]) as second,
    ):
        return _compare(target, golden, trees, request, second)


def _compare(
    target: FlowRoot, golden: FlowRoot, trees: tuple[SingleTree, SingleTree], request: Request, second: str
) -> FlowResult:
    keys = compare_keys(trees, request.ranks, request.steps, request.workers or cores())
    stages = tuple(compare_stages(target, golden, request, second))
    configurations = compare_configurations(target.configurations, golden.configurations)
    items: list[Item] = [*keys.items, *(item for stage in stages for item in items_of_stage(stage))]
    walked = walk(items)
    missing = tuple(_missing(target, golden, keys, stages))
    first = first_difference(walked, stages, way_of(target, golden))
    result = FlowResult(configurations, keys, stages, walked, first, missing, request.top)
    if not result.judged and not result.unjudged and not configurations.count:
        raise DumpError(f"nothing could be compared: {_why(target, golden, missing)}")
    try:
        write_down(result, request.output, request.format, second)
    except OSError as err:
        raise UsageError(f"{request.output}: cannot be written ({err.strerror}); give another folder with -o") from err
    logger.info("the tables are in %s, all of it is in %s", request.output, summary(request.output, second))
    return result


def _missing(target: FlowRoot, golden: FlowRoot, keys: KeyData, stages: Sequence[Stage]) -> Iterator[str]:
    if keys.problem:
        yield f"key data not compared: {keys.problem}"
    yield from keys.missing
    for stage in stages:
        if stage.problem:
            yield f"{stage.called} not compared: {stage.problem}"
        yield from stage.missing
    for root, side in ((target, "target"), (golden, "golden")):
        for name in root.hollow:
            yield f"stage {name} of the {side} holds no dump"


def _check_choice(option: str, wanted: Sequence[int] | None, held: set[int]) -> None:
    if wanted is not None and (absent := sorted(set(wanted) - held)):
        there = ", ".join(map(str, sorted(held)[:8])) or "none"
        raise UsageError(f"{option} {','.join(map(str, absent))}: on neither side; there: {there}")


def _why(target: FlowRoot, golden: FlowRoot, missing: Sequence[str]) -> str:
    said = "; ".join(missing[:3]) or "neither key data nor dumps are on both sides"
    return f"{target.path} and {golden.path}: {said}; give the roots of two runs that saved key data or dumped stages"


def _absolute(request: Request) -> Request:
    paths: dict[str, Path] = {name: getattr(request, name).absolute() for name in ("target", "golden", "output")}
    return replace(request, **paths)  # type: ignore[arg-type]  # each is a path
