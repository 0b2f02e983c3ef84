"""Draw the graphs of a request: rank after rank into one database, and from it, for msprobe 8.1, into JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import join_names, logger
from msprobe.compare.core.relation import relation_of
from msprobe.compare.jobs.plan import Job, Place, Side, SideSource, plan, side
from msprobe.findings import finding
from msprobe.findings.catalogue import dumps as kinds
from msprobe.findings.finding import Finding
from msprobe.mapping.user_files import NONE, UserMapping
from msprobe.store.folders import NAMED
from msprobe.store.lock import claimed

from .colors import Task, colors, tool_tips
from .communication import Ends, links_of
from .comparison import Comparison, task_of
from .database import Configuration, Database, as_json, created
from .json_file import write_json
from .links import Links, link
from .rank import Rank, read_rank
from .rows import Drawn, Settings
from .values import Style

SUFFIX = ".vis.db"
OLD_SUFFIX = ".vis"


@dataclass(frozen=True)
class Request:
    """The dumps to draw, and the form; without `golden` a single graph.

    `is_old`: as msprobe 8.1 does it, one JSON for each rank, and the number of a node is a distance. `overflow`: nodes
    are marked by values that are not finite. `short_stacks`: of each call stack only the line of the call.
    """

    target: Path
    golden: Path | None
    output: Path
    mapping: UserMapping = NONE
    fuzzy: bool = False
    overflow: bool = False
    short_stacks: bool = False
    is_old: bool = False


@dataclass(frozen=True, slots=True)
class _Job:
    """One rank of one step; `golden` is None without a comparison."""

    step: int | None
    rank: int | None
    target: Path
    golden: Path | None = None

    @property
    def label(self) -> str:
        """Return `step 0, rank 1`."""
        parts = [f"{axis} {n}" for axis, n in (("step", self.step), ("rank", self.rank)) if n is not None]
        return ", ".join(parts) or str(self.target)


@dataclass(frozen=True)
class Drawings:
    """The files that were written. `dumps` is the number of drawn dumps, `empty` of those without calls; `absent` lists
    missing dumps and counterparts, `unreadable` the steps and ranks whose dumps cannot be read or drawn."""

    paths: list[Path]
    dumps: int
    empty: int
    absent: list[str]
    unreadable: list[Finding]


def draw_request(request: Request) -> Drawings:
    """Draw everything; return the files, and the numbers of dumps.

    A dump that cannot be read or drawn is left out, and logged. Raise a UsageError if the request is invalid, a
    DumpError if no dump can be read and drawn.
    """
    undrawn: list[str] = []
    jobs = _jobs(request, undrawn)
    kind = "build" if request.golden is None else "compare"
    several = {axis: len({getattr(job, axis) for job in jobs}) > 1 for axis in ("step", "rank")}

    def named(second: str) -> list[Path]:
        if not request.is_old:
            return [request.output / f"{kind}_{second}{SUFFIX}"]
        return [request.output / f"{kind}{_place(job, several)}_{second}{OLD_SUFFIX}" for job in jobs]

    with claimed(request.output, repr(request), named) as second:
        paths = named(second)
        with _database(request, second, paths) as database:
            drawing = _Drawing(request, database)
            places = drawing.draw(jobs)
            if request.is_old:
                paths = [path for path, place in zip(paths, places, strict=True) if place is not None]
                for (step, rank), path in zip(filter(None, places), paths, strict=True):
                    write_json(path, database, step, rank, drawing.head(), drawing.task)
            else:
                database.finish(drawing.configuration(kind, filter(None, places)))
    drawn = len(jobs) - len(drawing.unreadable)
    return Drawings(paths, drawn, drawing.empty, undrawn, drawing.unreadable)


@contextmanager
def _database(request: Request, second: str, paths: Iterable[Path]) -> Iterator[Database]:
    path = request.output / f"graph_{second}{SUFFIX}" if request.is_old else next(iter(paths))
    with created(path, keeps=not request.is_old) as database:
        yield database


def _place(job: _Job, several: Mapping[str, bool]) -> str:
    """Return `_step0_rank1`, with the parts that distinguish the files."""
    return "".join(f"_{axis}{getattr(job, axis)}" for axis in ("step", "rank") if several[axis])


class _Drawing:
    """Keeps the data of all ranks: the exchanges of a step, the steps and ranks that were drawn."""

    def __init__(self, request: Request, database: Database) -> None:
        self._request, self._database = request, database
        self._micro_steps = 1
        self._ends: dict[tuple[str, int], dict[int, Ends]] = {}
        self.task: Task = ""
        self.empty = 0
        self.unreadable: list[Finding] = []

    def draw(self, jobs: Sequence[_Job]) -> list[tuple[int, int] | None]:
        """Draw every job whose dumps can be read and drawn; return their steps and ranks, None for any other job.

        Raise a DumpError if there is none.
        """
        places: list[tuple[int, int] | None] = []
        for job in jobs:
            try:
                target, golden = read_rank(job.target), None if job.golden is None else read_rank(job.golden)
            except DumpError as err:
                if len(self.unreadable) + 1 == len(jobs):
                    raise
                found = Finding(kinds.UNREADABLE_DUMP, finding.Place(job.label, step=job.step, rank=job.rank), str(err))
                self.unreadable.append(found)
                logger.warning("%s is not drawn: %s", job.label, err)
                places.append(None)
                continue
            step = next((n for n in (job.step, target.dump.step) if n is not None), 0)
            rank = next((n for n in (job.rank, target.dump.rank) if n is not None), 0)
            self.empty += not target.dump.columns.names
            self._draw(target, golden, step, rank)
            places.append((step, rank))
        for (source, step), ends in self._ends.items():
            if len(ends) > 1:
                self._database.link(
                    (as_json(links[0] if len(links) == 1 else links), f"{source}_{step}_{rank}_{node}")
                    for rank, node, links in links_of(ends)
                )
        return places

    def _draw(self, target: Rank, golden: Rank | None, step: int, rank: int) -> None:
        settings = Settings(step, rank, self._request.overflow, self._request.short_stacks)
        links = comparison = None
        if golden is not None:
            task = task_of(target, golden)
            if self.task not in ("", task):
                raise UsageError(
                    f"{target.dump.where}: contains other values than the previous ranks ({task}, not "
                    f"{self.task}); draw only ranks collected with the same task"
                )
            self.task = task
            links = self._link(target, golden)
            comparison = Comparison(target, golden, links.pairs, task, by_verdict=not self._request.is_old)
        style = Style(with_digest=self.task == "md5", is_old=self._request.is_old)
        self._write("NPU", Drawn(target, settings, style, links.golden_of if links else None, golden, comparison))
        if golden is not None and links is not None:
            micro_steps = {theirs: target.graph.nodes[ours].micro_step for theirs, ours in links.target_of.items()}
            self._write("Bench", Drawn(golden, settings, style, links.target_of, target, None, micro_steps))
            self._micro_steps = max(self._micro_steps, golden.graph.micro_steps)
        self._micro_steps = max(self._micro_steps, target.graph.micro_steps)

    def _link(self, target: Rank, golden: Rank) -> Links:
        request = self._request
        if relation_of(target.dump, golden.dump).has_other_kernels and not request.mapping:
            logger.info(
                "%s and %s are of two frameworks and -lm was not given: calls are paired by the built-in table "
                "and by structure",
                target.dump.where,
                golden.dump.where,
            )
        links = link(target, golden, request.mapping, request.fuzzy)
        for sentence in links.unused:
            logger.warning("%s", sentence)
        return links

    def _write(self, source: str, drawn: Drawn) -> None:
        self._database.add_nodes(drawn.nodes(source))
        self._database.add_stacks(drawn.stacks(source))
        self._ends.setdefault((source, drawn.settings.step), {})[drawn.settings.rank] = drawn.ends()

    def configuration(self, kind: str, places: Iterable[tuple[int, int]]) -> Configuration:
        """Return the row of the drawn graphs."""
        steps, ranks = (sorted(set(numbers)) for numbers in zip(*places, strict=True))
        is_compared = kind == "compare"
        shown = {c.code: c.entry(with_level=True) for c in colors(self.task, by_verdict=True)} if is_compared else None
        return Configuration(
            kind,
            self.task,
            as_json(tool_tips(self.task)) if is_compared else None,
            self._micro_steps,
            int(self._request.overflow),
            as_json(shown),
            as_json(ranks),
            as_json(steps),
        )

    def head(self) -> dict[str, object]:
        """Return the members of a `.vis` other than nodes."""
        shown = {c.code: c.entry(with_level=False) for c in colors(self.task, by_verdict=False)} if self.task else {}
        return {
            **({"ToolTip": as_json(tool_tips(self.task)), "Colors": shown} if self.task else {}),
            "MicroSteps": self._micro_steps,
            **({"task": self.task} if self.task else {}),
            "OverflowCheck": self._request.overflow,
        }


def _jobs(request: Request, undrawn: list[str]) -> list[_Job]:
    """Return the jobs by step and rank; raise a UsageError if there is none, or if one of several runs has to be
    selected."""
    if request.golden is None:
        found = side(request.target)
        _check(found, undrawn)
        places = {place: source for place, source in found.places.items() if place.what == "dump"}
        _check_trees(found.path, places)
        jobs = [_Job(place.step, place.rank, source.paths[0]) for place, source in places.items()]
    else:
        made = plan(request.target, request.golden)
        for sentence in made.missing:
            logger.warning("%s; it is not drawn", sentence)
        undrawn += map(str, made.missing)
        pairs = [job for job in made.jobs if job.is_of_calls]
        _check_trees(request.target, {job.place: job.target for job in pairs})
        jobs = [_job(job) for job in pairs]
    if not jobs:
        raise UsageError(f"{request.target}: contains no dump of calls that can be drawn; collect with level L0 or mix")
    return sorted(jobs, key=lambda job: tuple(-1 if n is None else n for n in (job.step, job.rank)))


def _job(job: Job) -> _Job:
    return _Job(job.place.step, job.place.rank, job.target.paths[0], job.golden.paths[0])


def _check(found: Side, undrawn: list[str]) -> None:
    for sentence in found.skipped:
        logger.info("%s", sentence)
    undrawn += map(str, found.empty.values())
    if found.family != "dump":
        raise DumpError(
            f"{found.path}: is {found.text}, not a dump of calls; convert kernel dumps with `msprobe gather`"
        )


def _check_trees(path: Path, places: Mapping[Place, SideSource]) -> None:
    trees = sorted({place.tree or "the steps next to them" for place in places})
    if len(trees) > 1:
        raise UsageError(f"{path}: contains several runs ({join_names(trees, NAMED)}); give the folder of one of them")
