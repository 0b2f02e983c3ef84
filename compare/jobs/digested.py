"""The outcome of comparing a dump with an equal one, and its digests: computed once where the dump is, and stored in
its folder as digest.json.

A rank with equal digests on both sides has the outcome that is stored there: that of the dump compared with itself.
Digests alone are not sufficient: a dump may contain values that cannot be judged although they are equal.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from msprobe.base.errors import DumpError
from msprobe.base.files import MAX_CONFIGURATION_BYTES, read_input, replace_atomically
from msprobe.base.memory import without_gc
from msprobe.base.version import installed
from msprobe.compare.core.reason import Cause
from msprobe.compare.judge.verdict import GRADES, Grade
from msprobe.compare.judge.wording import limits_phrase
from msprobe.compare.match.user_mapping import NOTHING
from msprobe.compare.measure.files import Effort
from msprobe.compare.ranks.collectives import Exchange, RankSummary, Traffic
from msprobe.compare.ranks.search import summarize
from msprobe.compare.ranks.stretches import stretches
from msprobe.compare.request import Request
from msprobe.compare.tables.console import described, lines, notes
from msprobe.store import layout
from msprobe.store.digests import call_digests, dump_digest, files_state, structure_digest
from msprobe.store.reader import find, read

from .outcome import Outcome, Task, compared
from .plan import Job, Place, SideSource

VERSION = 1
"""Version of the form of digest.json; others are not read."""


@dataclass(frozen=True, slots=True)
class Digested:
    """The digests of one dump: of all of it, of its list of calls, and of each stretch between its exchanges.

    `alone` is the outcome of the dump compared with itself; None if that found a difference.
    """

    root: str
    structure: str
    stretches: tuple[str, ...]
    exchanges: tuple[Exchange, ...]
    described: str
    run: str
    alone: Outcome | None

    @property
    def summary(self) -> RankSummary:
        """Return the summary, for the search over ranks, of a rank without differences."""
        return RankSummary(self.exchanges, ("",) * (len(self.exchanges) + 1))


@without_gc()
def digested(file: Path) -> Digested:
    """Read a dump, digest it, and compare it with itself; raise a DumpError if it cannot be read."""
    dump = read(file)
    source = SideSource("dump", (file,))
    task = Task(Job(source, source, Place()), Request(file, file, tables=False, resume=False), file, 1)
    found = compared(task, dump, dump, NOTHING, Effort(1))
    comparison, located = found.comparison, found.located
    calls, structure = call_digests(dump), structure_digest(dump)
    summary = summarize(comparison, located)
    noise = comparison.noise_of_tensors
    outcome = Outcome(
        mode=comparison.mode,
        counts={grade: comparison.counts[grade] for grade in GRADES},
        all_pass=comparison.is_clean,
        lines=tuple(lines(comparison, located, 0)),
        step=dump.step,
        rank=dump.rank,
        unjudged=dict(comparison.unjudged),
        limits="" if noise is None else limits_phrase(noise.limits),
        notes=tuple(notes(comparison)),
    )
    differs = bool(located.findings or located.roles or outcome.counts["error"] or outcome.counts["warning"])
    return Digested(
        dump_digest(structure, calls).hex(),
        structure.hex(),
        stretches(comparison, calls),
        summary.exchanges,
        described(dump),
        dump.run,
        None if differs else outcome,
    )


def outcome_of_equal(task: Task, target: Digested, golden: Digested) -> Outcome | None:
    """Return the outcome of a job whose two dumps are equal by their digests; None if they differ, or it is unknown."""
    if target.root != golden.root or target.alone is None or golden.alone is None:
        return None
    place, alone = task.job.place, target.alone
    return replace(
        alone,
        label=task.job.label,
        step=alone.step if place.step is None else place.step,
        rank=alone.rank if place.rank is None else place.rank,
        what=place.what,
        host=platform.node(),
        sides=f"target: {target.described}; golden: {golden.described}",
        rank_summary=target.summary,
        runs=(target.run, golden.run),
    )


def is_up_to_date(file: Path) -> bool:
    """Return whether the folder of a dump.json has digests, and of the files as they are now."""
    return read_digests(file) is not None


def write_digests(file: Path) -> None:
    """Compute the digests of a dump.json and write them into its folder.

    Raise a DumpError if it cannot be read, or is being written; an OSError if writing fails.
    """
    try:
        before = files_state(file)
        made = digested(file)
        is_still = files_state(file) == before
    except OSError as err:
        raise DumpError(f"{file}: cannot be read ({err.strerror or err}); check the path and its permissions") from err
    if not is_still:
        raise DumpError(f"{file}: was written while it was read; run again when its training has ended")
    with replace_atomically(file.with_name(layout.DIGEST)) as opened:
        opened.write(json.dumps(_as_object(made, before), separators=(",", ":")).encode() + b"\n")


def read_digests(path: Path) -> Digested | None:
    """Return the digests in the folder of a dump.json, or in the folder of a rank; None if there are none of the
    current files and this version's verdicts."""
    try:
        file = find(path)
        text = json.loads(read_input(file.with_name(layout.DIGEST), MAX_CONFIGURATION_BYTES))
        if text["digests"] != VERSION or text["msprobe"] != installed() or text["state"] != files_state(file):
            return None
        return _from_object(text)
    # A damaged file is treated as missing: the dump is read then.
    except (DumpError, OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _as_object(made: Digested, state: str) -> dict[str, Any]:
    return {
        "digests": VERSION,
        "msprobe": installed(),
        "state": state,
        "root": made.root,
        "structure": made.structure,
        "described": made.described,
        "run": made.run,
        "alone": None if made.alone is None else _outcome_as_object(made.alone),
        "stretches": list(made.stretches),
        "exchanges": [[e.name, e.traffic, e.word, e.group, e.peer] for e in made.exchanges],
    }


def _outcome_as_object(outcome: Outcome) -> dict[str, Any]:
    return {
        "mode": outcome.mode,
        "counts": dict(outcome.counts),
        "is_clean": outcome.is_clean,
        "lines": [str(line) for line in outcome.lines],
        "step": outcome.step,
        "rank": outcome.rank,
        "unjudged": {cause.name: number for cause, number in outcome.unjudged.items()},
        "limits": str(outcome.limits),
        "notes": [str(note) for note in outcome.notes],
    }


def _from_object(text: Mapping[str, Any]) -> Digested:
    exchanges = tuple(_exchange(*of) for of in text["exchanges"])
    stretches = tuple(text["stretches"])
    if len(stretches) != len(exchanges) + 1:
        raise ValueError("a stretch stands before each exchange and behind the last")
    alone = None if text["alone"] is None else _outcome_from_object(text["alone"])
    words = text["root"], text["structure"], text["described"], text["run"]
    if not all(isinstance(word, str) for word in (*words, *stretches)):
        raise TypeError("digests are texts")
    root, structure, described, run = words
    return Digested(root, structure, stretches, exchanges, described, run, alone)


def _exchange(name: str, traffic: Traffic, word: str, group: Any, peer: int) -> Exchange:
    group = tuple(group) if isinstance(group, list) else group
    is_group = group is None or isinstance(group, str) or all(type(rank) is int for rank in group)
    if not (isinstance(name, str) and isinstance(word, str) and traffic in get_args(Traffic) and is_group):
        raise TypeError("this is no exchange")
    return Exchange(name, traffic, word, group, int(peer))


def _outcome_from_object(text: Mapping[str, Any]) -> Outcome:
    counts: dict[Grade, int] = {grade: int(text["counts"][grade]) for grade in GRADES}
    return Outcome(
        mode=text["mode"],
        counts=counts,
        all_pass=text["is_clean"] is True,
        lines=tuple(text["lines"]),
        step=text["step"],
        rank=text["rank"],
        unjudged={Cause[name]: int(number) for name, number in text["unjudged"].items()},
        limits=text["limits"],
        notes=tuple(text["notes"]),
    )
