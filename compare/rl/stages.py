"""The stages of an RL flow: the folders that are roots, the order in which a step runs the stages, and their
comparison.

The dumps of each stage are compared step by step and rank by rank like any two runs, in a separate folder.

A root is the output of `MsProbe`, or dumps of a debugger's stages in folders of any name; the debugger may also have
collected outside its stages, in `step*` next to them.

A dump has the order of its stage in the step (`run.stage`). Dumps of older versions, or of separate debuggers, do not;
a dump has no clock, and times of files do not survive a copy. Then call stacks give the order: those of two stages
diverge in the code that runs the step, and the earlier line there runs first.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from pathlib import Path
from typing import Literal, TypeVar

from msprobe.base.errors import MsprobeError
from msprobe.base.log import logger
from msprobe.base.phrase import Phrase, phrase
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.plan import Place, SideSource, side
from msprobe.compare.jobs.run import run_request
from msprobe.compare.jobs.summary import RequestResult
from msprobe.compare.judge.verdict import SEVERITY, Grade
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.request import Request
from msprobe.findings.catalogue import comparison as kinds
from msprobe.store.folders import printable
from msprobe.store.layout import DATA_FILES
from msprobe.store.reader import beside, read_head
from msprobe.store.rl_roots import FlowRoot
from msprobe.store.saves.single_saves import stem_of
from msprobe.store.stacks_and_construct import user_line

from .order import UNKNOWN, Item, Order, part_of_stage
from .roots import ITSELF
from .walk import is_origin

_WORTH_WORKERS = 16 << 20
"""Size of dump.json of a stage, in bytes, up to which one process is faster than starting others."""

Places = frozenset[tuple[int, int]]

PlacedBy = Literal["table", "dumps", "lines", ""]


@dataclass(frozen=True)
class Stage:
    """Result of one stage: the answer of its dumps, or the reason why there is none.

    `held` are the (step, rank) of the dumps of each side, `order` is its place in a step, and `placed_by` the source of
    that: the table of parts, the dumps, the lines that call them, or nothing. `only_on` is the only side that has it.
    """

    name: str
    part: int
    held: tuple[Places, Places]
    order: Order
    placed_by: PlacedBy
    result: RequestResult | None = None
    problem: str = ""
    only_on: str = ""

    @property
    def is_placed(self) -> bool:
        """Return whether its place in a step is known."""
        return bool(self.placed_by)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcome of every pair of its dumps."""
        return self.result.outcomes if self.result else ()

    @property
    def is_clean(self) -> bool:
        """Return whether its dumps were compared and all pass."""
        return self.result is not None and self.result.is_clean

    def has(self, step: int) -> tuple[bool, bool]:
        """Return whether target and golden have a dump of a step."""
        return any(at == step for at, _ in self.held[0]), any(at == step for at, _ in self.held[1])


def called(name: str) -> Phrase:
    """Return the name of a stage for a sentence."""
    return phrase("{name} (outside its stages)" if name == ITSELF else "stage {name}", name=name)


T = TypeVar("T")
Frames = Sequence[str]
Dumps = Mapping[tuple[int, int], Path]
"""The dumps of a stage by rank and step."""

_FRAME = re.compile(r"^File (?P<file>.+?), line (?P<line>\d+), in (?P<function>[^\s,]+)", re.DOTALL)
_STEPS = 2  # number of dumps that are read: in its first one a debugger does not know yet that it will have stages


def collected_order(names: Sequence[str], *roots: FlowRoot) -> tuple[Sequence[str], PlacedBy]:
    """Return the order in which a step runs these stages, and its source; empty if no root has it, or two roots
    differ."""
    orders: list[tuple[PlacedBy, tuple[str, ...]]] = []
    for root in roots if len(names) > 1 else ():
        if not all(name in root.stages for name in names):
            continue
        sources = [_sources(root.stages[name]).items() for name in names]
        dumps = [{(at.rank or 0, at.step or 0): one.paths[0] for at, one in of_stage} for of_stage in sources]
        if order := _sorted(names, dumps, _begun_before):
            orders.append(("dumps", order))
        elif order := _sorted(names, [_first_call(each) for each in dumps], _called_before):
            orders.append(("lines", order))
    if len({order for _, order in orders}) != 1:
        return (), ""
    by, order = min(orders)  # dumps before lines
    return order, by


def _sorted(names: Sequence[str], known: Sequence[T], before: Callable[[T, T], int]) -> tuple[str, ...]:
    """Return the names by their order; empty if it does not order every two of them."""
    after = dict.fromkeys(names, 0)
    for (one, of_one), (other, of_other) in combinations(zip(names, known, strict=True), 2):
        sign = before(of_one, of_other)
        if not sign:
            return ()
        after[other if sign < 0 else one] += 1
    if len(set(after.values())) < len(names):  # a cycle
        return ()
    return tuple(sorted(names, key=after.__getitem__))


def _begun_before(one: Dumps, other: Dumps) -> int:
    """Return -1 or 1 for the stage that starts first in a step with both; 0 if their dumps do not show it."""
    for place in islice(sorted(one.keys() & other.keys()), _STEPS):
        ours, theirs = (read_head(dumps[place]).run.get("stage") for dumps in (one, other))
        if type(ours) is int and type(theirs) is int:
            return (ours > theirs) - (ours < theirs)
    return 0


def _called_before(one: Frames, other: Frames) -> int:
    """Return -1 or 1 for the call that is made first; 0 if their stacks do not show it. Frames are innermost first."""
    above: tuple[str, ...] = ()
    for ours, theirs in zip(reversed(one), reversed(other), strict=False):
        if ours == theirs:
            above = (ours,)
            continue
        places = [_FRAME.match(frame) for frame in (ours, theirs)]
        # There may be two functions of one name in a file; called from one line of the framework's, they are two
        # models.
        if None in places or not user_line((ours,)) or (above and not user_line(above)):
            return 0
        (file, line, function), (that_file, that_line, that_function) = (p.groups() for p in places if p)
        if (file, function) != (that_file, that_function) or line == that_line:
            return 0
        return -1 if int(line) < int(that_line) else 1
    return 0


def _first_call(dumps: Dumps) -> Frames:
    """Return the stack of the first call of a stage's first step; empty without one."""
    if not dumps:
        return ()
    try:
        found = beside(dumps[min(dumps)])[1]
    except (MsprobeError, OSError, ValueError):  # reported when it is compared
        return ()
    return next((frames for frames in found.values() if frames), ())


def held_places(root: FlowRoot) -> dict[str, Places]:
    """Return the (step, rank) of the dumps of each stage; a stage that cannot be read has none."""
    return {
        name: frozenset((place.step or 0, place.rank or 0) for place in _sources(path))
        for name, path in root.stages.items()
    }


def _sources(stage: Path) -> Mapping[Place, SideSource]:
    """Return the dumps of a stage; empty if it cannot be read."""
    try:
        return side(stage).places
    except MsprobeError:  # reported when it is compared
        return {}


def compare_stages(target: FlowRoot, golden: FlowRoot, request: Request, second: str) -> Iterator[Stage]:
    """Compare the dumps of every stage that both roots have, and report those of one root only.

    `second` is part of the file names.
    """
    ours, theirs = held_places(target), held_places(golden)
    nowhere: Places = frozenset()
    names = [name for name in target.stages if name in golden.stages]
    is_known = all(part_of_stage(name) != UNKNOWN for name in names)
    in_order, by = collected_order([] if is_known else names, target, golden)
    orders = _orders(in_order)
    for name in sorted({**ours, **theirs}, key=lambda name: orders.get(name, (part_of_stage(name), 0, 0, 0, name))):
        held = ours.get(name, nowhere), theirs.get(name, nowhere)
        if any(held) and not any(_is_chosen(place, request) for places in held for place in places):
            continue  # not selected
        part = part_of_stage(name)
        order = orders.get(name, (part, 0, 0, 0, name))
        made = Stage(printable(name), part, held, order, "table" if part != UNKNOWN else by if name in orders else "")
        if name in ours and name in theirs:
            yield _compared(made, target.stages[name], golden.stages[name], request, second)
        else:
            yield replace(made, only_on="target" if name in ours else "golden")


def _orders(in_order: Sequence[str]) -> dict[str, Order]:
    """Return the places of stages that are not in the table of parts: after the known stage before them."""
    known = [part for name in in_order if (part := part_of_stage(name)) != UNKNOWN]
    after = (known[0], -1) if known else (UNKNOWN, 0)
    orders: dict[str, Order] = {}
    for at, name in enumerate(in_order):
        part = part_of_stage(name)
        if part == UNKNOWN:
            orders[name] = (*after, at, 0, name)
        else:
            after = part, 2
    return orders


def _is_chosen(place: tuple[int, int], request: Request) -> bool:
    """Return whether a step and rank are selected."""
    chosen = zip(place, (request.steps, request.ranks), strict=True)
    return all(wanted is None or number in wanted for number, wanted in chosen)


def _compared(stage: Stage, target: Path, golden: Path, request: Request, second: str) -> Stage:
    held = stage.held[0] | stage.held[1]
    steps, ranks = (
        None if wanted is None else tuple(n for n in wanted if n in {place[at] for place in held})
        for at, wanted in enumerate((request.steps, request.ranks))
    )
    requested = replace(
        request,
        target=target,
        golden=golden,
        output=request.output / stem_of("debugger_itself" if stage.name == ITSELF else stage.name),
        steps=steps,
        ranks=ranks,
        workers=_workers(request, (target, golden)),
        stack_file=None,
    )
    try:
        result = run_request(requested, logging.DEBUG, second)  # a line for each of many stages is sufficient
    except MsprobeError as err:
        return replace(stage, problem=" ".join(str(err).split()))
    compared = len(result.outcomes)
    logger.info("%s: %d %s, in %s", called(stage.name), compared, "dumps" if compared > 1 else "dump", requested.output)
    return replace(stage, result=result)


def _workers(request: Request, roots: Sequence[Path]) -> int | None:
    """Return the number of processes; one for small dumps, which is faster than starting a second one."""
    if request.workers is not None or request.scheduler:
        return request.workers
    size = 0
    for root in roots:
        for file in (file for name in DATA_FILES for file in root.glob(f"step*/*/{name}")):
            size += file.stat().st_size
            if size > _WORTH_WORKERS:
                return None
    return 1


def items(stage: Stage) -> Iterator[Item]:
    """Return one item for each step and rank that was compared."""
    by_place: dict[tuple[int, int], list[Outcome]] = {}
    for outcome in stage.outcomes:
        by_place.setdefault((outcome.step or 0, outcome.rank or 0), []).append(outcome)
    for (step, rank), outcomes in by_place.items():
        first, hint = next(((outcome.first, outcome.hint) for outcome in outcomes if outcome.first), (None, None))
        failed = next((outcome.failed for outcome in outcomes if outcome.failed), "")
        grade = max((_grade(outcome) for outcome in outcomes), key=SEVERITY.index)
        yield Item(
            "stage",
            stage.name,
            step,
            rank,
            stage.part,
            _order(stage, first),
            first is not None,
            grade,
            failed=failed,
            finding=first,
            hint=hint,
            weights_differ=any(f.kind is kinds.PARAMETERS for outcome in outcomes for f in outcome.findings),
            is_placed=stage.is_placed,
            mode=next((outcome.mode for outcome in outcomes if outcome.mode), ""),
        )


def _order(stage: Stage, first: Divergence | None) -> Order:
    """Return the place of a dump; if it is unknown, a dump whose inputs may differ comes after the others."""
    if stage.is_placed or first is None or first.kind is kinds.PARAMETERS or is_origin(first):
        return stage.order
    part, _, among, saved, name = stage.order
    return part, 1, among, saved, name


def _grade(outcome: Outcome) -> Grade:
    """Return the worst verdict of one comparison: a warning for a difference that begins within tolerance; `unjudged`
    if nothing was judged or something has no counterpart."""
    for grade in ("error", "warning"):
        if outcome.counts.get(grade):
            return grade
    if outcome.findings:
        return "warning"
    return "pass" if outcome.is_clean and not outcome.failed else "unjudged"
