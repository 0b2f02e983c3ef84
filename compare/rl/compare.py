"""Compare two roots of an RL flow: configurations, key data, stages, their order, answer.

Reinforcement-learning frameworks that give the debugger a different dump_path in every stage of every step leave roots
in folders of steps, `root/step_3/{stage}/step0/rank`; those are compared step by step.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msprobe.base.errors import DumpError, MsprobeError, UsageError
from msprobe.base.files import writing
from msprobe.base.log import logger
from msprobe.base.phrase import Words, phrase
from msprobe.compare.jobs.run import absolute
from msprobe.compare.key_data.pairs import find
from msprobe.compare.request import Request, identity_of
from msprobe.compare.workers.run import cores
from msprobe.findings.catalogue import comparison as kinds
from msprobe.store.lock import claimed, exclusive
from msprobe.store.rl_roots import FlowRoot
from msprobe.store.saves.single_saves import SingleTree

from . import wording
from .configurations import compare_configurations
from .key_data import compare_keys
from .order import Item
from .origin import Origin, collection_style, first_difference
from .result import FlowResult, Stepwise, summary, write_down
from .roots import root_of
from .stages import compare_stages, held_places
from .stages import items as items_of_stage
from .walk import walk


def compare_flows(request: Request) -> FlowResult:
    """Compare all contents of both roots, and write the results.

    A failure in one part does not stop the others. Raise a UsageError if a selected step or rank is on neither side, or
    the output cannot be written; a DumpError if nothing could be compared.
    """
    request = absolute(request)
    target, golden = root_of(request.target), root_of(request.golden)
    logger.info("target: %s; golden: %s", target.text, golden.text)
    no_data = SingleTree(Path("data"), (), ())
    trees = (find(target.path) if target.data else no_data, find(golden.path) if golden.data else no_data)
    places = [{(spot.step, spot.rank) for spot in tree.spots} for tree in trees]
    places += [set(found) for root in (target, golden) for found in held_places(root).values()]
    for option, at, wanted in (("--steps", 0, request.steps), ("--ranks", 1, request.ranks)):
        _refuse_absent(option, wanted, {place[at] for found in places for place in found})
    if request.stack_file is not None:
        logger.warning("%s is the stack of one dump, but a flow has several; it is ignored", request.stack_file)
    with (
        exclusive(request.output),  # the names of the tables of single keys have no time
        claimed(request.output, identity_of(request), lambda second: [summary(request.output, second)]) as second,
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
    missing = tuple(wording.missing(target, golden, keys, stages))
    first = first_difference(walked, stages, collection_style(target, golden))
    result = FlowResult(configurations, keys, stages, walked, first, missing, request.listed, request.user_limits)
    if not result.judged and not result.unjudged and not configurations.count:
        text = "; ".join(map(str, missing[:3])) or "neither key data nor dumps exist on both sides"
        hint = "give the root folders of two runs with key data or dumps of stages"
        raise DumpError(f"nothing could be compared: {target.path} and {golden.path}: {text}; {hint}")
    with writing(request.output):
        write_down(result, request.output, request.format, second)
    logger.info("the tables are in %s, the complete result is in %s", request.output, summary(request.output, second))
    return result


def _refuse_absent(option: str, wanted: Sequence[int] | None, held: set[int]) -> None:
    if wanted is not None and (absent := sorted(set(wanted) - held)):
        there = ", ".join(map(str, sorted(held)[:8])) or "none"
        raise UsageError(f"{option} {','.join(map(str, absent))}: on neither side; available: {there}")


def compare_steps(request: Request, target: dict[int, Path], golden: dict[int, Path]) -> Stepwise:
    """Compare the flows of every step that both sides have; `--steps` selects some of them.

    Raise a UsageError if a selected step is on neither side; a DumpError if nothing could be compared.
    """
    held = {*target, *golden}
    _refuse_absent("--steps", request.steps, held)
    chosen = [step for step in sorted(held) if request.steps is None or step in request.steps]
    results: dict[int, FlowResult] = {}
    missing: list[Words] = []
    for step in chosen:
        if step not in target or step not in golden:
            side = "target" if step in target else "golden"
            missing.append(phrase("{what} is only on the {side} side", what=f"step {step}", side=side))
            continue
        logger.info("step %d: %s against %s", step, target[step], golden[step])
        output = request.output / f"step_{step}"
        requested = replace(request, steps=None, target=target[step], golden=golden[step], output=output)
        try:
            results[step] = _after_earlier_steps(results, compare_flows(requested))
        except MsprobeError as err:
            missing.append(phrase("step {step} not compared: {cause}", step=step, cause=" ".join(str(err).split())))
    if not results:
        raise DumpError(f"nothing could be compared: {missing[0]}")
    return Stepwise(results, tuple(missing))


def _after_earlier_steps(before: dict[int, FlowResult], result: FlowResult) -> FlowResult:
    """Return the result of one step in view of the results of earlier steps."""
    first = result.first
    if first is None or first.finding is None or first.finding.kind is not kinds.PARAMETERS or not before:
        return result
    last = max(before)
    if before[last].first is not None:
        return result
    return replace(
        result,
        first=replace(
            first, origin=Origin.STEP_AGREES, names=(str(last),), is_hidden=False, also=(), is_update_left_out=False
        ),
    )
