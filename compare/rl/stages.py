"""The dumps of each stage, compared step by step and rank by rank like any two runs, in a folder of its own."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from msprobe.base.errors import MsprobeError
from msprobe.base.log import logger
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.plan import side
from msprobe.compare.jobs.run import run_request
from msprobe.compare.jobs.summary import Answer
from msprobe.compare.judge.verdict import Grade
from msprobe.compare.locate.finding import Finding, FindingKind
from msprobe.compare.request import Request
from msprobe.store.folders import printable
from msprobe.store.layout import DEBUG, DUMP
from msprobe.store.rl_roots import FlowRoot
from msprobe.store.saves.single_saves import stem_of

from .order import UNKNOWN, Item, Order, collected_order, part_of_stage, worse
from .roots import ITSELF
from .walk import begins_by_itself

_WORTH_WORKERS = 16 << 20
"""Bytes of dump.json of a stage that are compared before more processes would have started."""

Places = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Stage:
    """What came of one stage: the answer of its dumps, or in a sentence why there is none; what has no partner.

    `held` are the (step, rank) that each side has a dump of, `order` is its place in a step, and `placed_by`
    what told it: the table of parts, the dumps, the lines that call them, or nothing.
    """

    name: str
    part: int
    held: tuple[Places, Places]
    order: Order
    placed_by: Literal["table", "dumps", "lines", ""]
    answer: Answer | None = None
    problem: str = ""
    missing: tuple[str, ...] = ()

    @property
    def is_placed(self) -> bool:
        """Whether its place in a step is known."""
        return bool(self.placed_by)

    @property
    def called(self) -> str:
        """The stage, in a sentence."""
        return called(self.name)

    def has(self, step: int) -> tuple[bool, bool]:
        """Whether target and golden have a dump of a step."""
        return any(at == step for at, _ in self.held[0]), any(at == step for at, _ in self.held[1])


def called(name: str) -> str:
    """A stage, in a sentence."""
    return f"{ITSELF} (outside its stages)" if name == ITSELF else f"stage {name}"


def held_places(root: FlowRoot) -> dict[str, Places]:
    """The (step, rank) of every stage's dumps; a stage that cannot be looked into has none."""
    found: dict[str, Places] = {}
    for name, path in root.stages.items():
        try:
            places = side(path).places
        except MsprobeError:  # whoever compares it says why
            places = {}
        found[name] = frozenset((place.step or 0, place.rank or 0) for place in places)
    return found


def compare_stages(target: FlowRoot, golden: FlowRoot, request: Request, second: str) -> Iterator[Stage]:
    """Compare the dumps of every stage that both roots have, and say which only one of them has.

    `second` stands in the names of the files.
    """
    ours, theirs = held_places(target), held_places(golden)
    nowhere: Places = frozenset()
    names = [name for name in target.stages if name in golden.stages]
    told = None if all(map(_is_known, names)) else collected_order(names, target, golden)
    orders = _orders(told.names if told else ())
    for name in sorted({**ours, **theirs}, key=lambda name: orders.get(name, (part_of_stage(name), 0, 0, 0, name))):
        held = ours.get(name, nowhere), theirs.get(name, nowhere)
        if any(held) and not any(_is_chosen(place, request) for places in held for place in places):
            continue  # nothing of it was asked for
        part = part_of_stage(name)
        order = orders.get(name, (part, 0, 0, 0, name))
        by = "table" if _is_known(name) else told.by if told and name in orders else ""
        made = Stage(printable(name), part, held, order, by)
        if name not in ours or name not in theirs:
            one = "target" if name in ours else "golden"
            yield replace(made, missing=(f"{made.called} has a dump only on the {one} side",))
            continue
        yield _compared(made, target.stages[name], golden.stages[name], request, second)


def _is_known(name: str) -> bool:
    return part_of_stage(name) != UNKNOWN


def _orders(told: Sequence[str]) -> dict[str, Order]:
    """The places of stages that the table of parts does not have, as the dumps tell: behind the known one before."""
    known = [(at, part_of_stage(name)) for at, name in enumerate(told) if _is_known(name)]
    orders: dict[str, Order] = {}
    for at, name in enumerate(told):
        if not _is_known(name):
            before = [part for place, part in known if place < at]
            behind = (before[-1], 2) if before else (known[0][1], -1) if known else (UNKNOWN, 0)
            orders[name] = (*behind, at, 0, name)
    return orders


def _is_chosen(place: tuple[int, int], request: Request) -> bool:
    """Whether a step and rank are asked for."""
    chosen = zip(place, (request.steps, request.ranks), strict=True)
    return all(wanted is None or number in wanted for number, wanted in chosen)


def _compared(stage: Stage, target: Path, golden: Path, request: Request, second: str) -> Stage:
    held = stage.held[0] | stage.held[1]
    chosen = {
        axis: None if wanted is None else tuple(n for n in wanted if n in {place[at] for place in held})
        for axis, wanted, at in (("steps", request.steps, 0), ("ranks", request.ranks, 1))
    }
    asked = replace(
        request,
        target=target,
        golden=golden,
        output=request.output / stem_of("debugger_itself" if stage.name == ITSELF else stage.name),
        steps=chosen["steps"],
        ranks=chosen["ranks"],
        workers=_workers(request, (target, golden)),
        stack_file=None,
    )
    try:
        answer = run_request(asked, logging.DEBUG, second)  # a line for each of many stages is enough
    except MsprobeError as err:
        return replace(stage, problem=" ".join(str(err).split()))
    compared = len(answer.outcomes)
    logger.info("%s: %d %s, in %s", stage.called, compared, "dumps" if compared > 1 else "dump", asked.output)
    return replace(stage, answer=answer, missing=tuple(f"{stage.called}: {each}" for each in answer.missing))


def _workers(request: Request, roots: Sequence[Path]) -> int | None:
    """As many as were asked for; one for little, which is done before another has started."""
    if request.workers is not None or request.scheduler:
        return request.workers
    size = 0
    for root in roots:
        for file in (file for name in (DUMP, DEBUG) for file in root.glob(f"step*/*/{name}")):
            size += file.stat().st_size
            if size > _WORTH_WORKERS:
                return None
    return 1


def items(stage: Stage) -> Iterator[Item]:
    """One item for each step and rank that was compared."""
    by_place: dict[tuple[int, int], list[Outcome]] = {}
    for outcome in stage.answer.outcomes if stage.answer else ():
        by_place.setdefault((outcome.step or 0, outcome.rank or 0), []).append(outcome)
    for (step, rank), outcomes in by_place.items():
        first = next((outcome.first for outcome in outcomes if outcome.first), None)
        failed = next((outcome.failed for outcome in outcomes if outcome.failed), "")
        grade = max((_grade(outcome) for outcome in outcomes), key=worse)
        reason = f"not compared: {failed}" if failed else ""
        yield Item(
            "stage",
            stage.name,
            step,
            rank,
            stage.part,
            _order(stage, first),
            first is not None,
            grade,
            reason,
            finding=first,
            weights_differ=any(f.kind is FindingKind.PARAMETERS for outcome in outcomes for f in outcome.findings),
            is_placed=stage.is_placed,
            mode=next((outcome.mode for outcome in outcomes if outcome.mode), ""),
        )


def _order(stage: Stage, first: Finding | None) -> Order:
    """The place of a dump; where it is not known, one that may have been given what differs comes behind the others."""
    if stage.is_placed or first is None or first.kind is FindingKind.PARAMETERS or begins_by_itself(first):
        return stage.order
    part, _, among, saved, name = stage.order
    return part, 1, among, saved, name


def _grade(outcome: Outcome) -> Grade:
    """The worst verdict of one comparison; `unjudged` where nothing was judged or something has no partner."""
    for grade in ("error", "warning"):
        if outcome.counts.get(grade):
            return grade
    return "pass" if outcome.is_clean and not outcome.failed else "unjudged"
