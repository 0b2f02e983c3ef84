"""Write a comparison as JSON: counts, the first wrong call, all divergences, rows."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from msprobe.base.files import replace_atomically
from msprobe.compare.core.noise import Noise
from msprobe.compare.core.reason import CAUSES, Cause
from msprobe.compare.core.user_limits import Excused, ExcusedCounts
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.find import Located
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.locate.wording import kind, reason

from .columns import Column
from .console import BLIND, harmless_calls, hint_of_located
from .rows import Row


def write_json(
    path: Path, comparison: Comparison, located: Located, columns: tuple[Column, ...], rows: Iterable[Row]
) -> None:
    """Write one object; each row is an object by heading, written as it is created."""
    known = hint_of_located(comparison, located)
    found = [as_object(finding, comparison.target.step, comparison.target.rank) for finding in located.findings]
    head = {
        "target": comparison.target.where,
        "golden": comparison.golden.where,
        "mode": comparison.mode,
        "cannot_see": BLIND.get(comparison.mode),
        "counts": {grade: comparison.counts[grade] for grade in GRADES},
        "unjudged": causes(comparison.unjudged),
        "noise": None if comparison.noise_of_tensors is None else _noise_limits(comparison.noise_of_tensors),
        **({} if comparison.excused is None else {"user_limits": _user_limits(comparison.excused)}),
        "try": None if known is None else known.as_object(),
        "first_wrong": found[:1],
        "next_beginnings": found[1:],
        "harmless_structure": [_one_sided(comparison, place) for place in harmless_calls(comparison)],
        "harmless": [as_object(one, comparison.target.step, comparison.target.rank) for one in located.harmless],
    }
    titles = [c.title for c in columns]
    with replace_atomically(path) as file:
        file.write(json.dumps(head, ensure_ascii=False, indent=1)[:-2].encode("utf-8", "replace"))
        file.write(b',\n "rows": [')
        for at, row in enumerate(rows):
            text = json.dumps(dict(zip(titles, row, strict=True)), ensure_ascii=False)
            file.write((",\n  " if at else "\n  ").encode() + text.encode("utf-8", "replace"))
        file.write(b"\n ]\n}\n")


def _one_sided(comparison: Comparison, place: int) -> dict[str, object]:
    """Return a call that only one side makes without consequence."""
    side = "target" if comparison.pairs.target_calls[place] >= 0 else "golden"
    return {"name": comparison.pairs.name(place), "side": side, "why": comparison.explained[place].why.name.lower()}


def _noise_limits(noise: Noise) -> dict[str, object]:
    """Return the limits of noise, and the number of outputs that each source of limits decided."""
    limits = noise.limits
    decided = Counter(found.source.value for found in noise.evidence.values())
    return {
        "limits": limits.source.value,
        "file": limits.file or None,
        "calibrated_on_wrong": list(limits.first_wrong),
        "decided": dict(sorted(decided.items())),
    }


def _user_limits(excused: Excused) -> dict[str, object]:
    """Return the limits of the user, and the numbers of differences within them."""
    limits = excused.limits
    return {
        "ignore": list(limits.ignore),
        "atol": [{"name": one.name, "value": one.value} for one in limits.atol],
        "rtol": [{"name": one.name, "value": one.value} for one in limits.rtol],
        **counts_of_excused(excused.counts),
        "unused": list(excused.unused),
    }


def counts_of_excused(counts: ExcusedCounts) -> dict[str, object]:
    """Return the numbers of differences within the limits of the user."""
    return {"ignored": counts.ignored, "tolerated": counts.tolerated, "ignored_calls": counts.calls}


def causes(unjudged: Mapping[Cause, int]) -> list[dict[str, object]]:
    """Return the causes of missing verdicts, for the JSON file and other tools."""
    found = [(cause, unjudged[cause]) for cause in CAUSES if unjudged.get(cause)]
    return [{"cause": c.name.lower(), "pairs": n, "is_exempt": c.is_exempt, "means": c.value} for c, n in found]


def as_object(finding: Divergence, step: int | None, rank: int | None) -> dict[str, object]:
    """Return a divergence for the JSON file and other tools."""
    return {
        "name": finding.name,
        "cell": finding.cell,
        "kind": kind(finding),
        "reason": reason(finding),
        "file": finding.file or None,
        "line": finding.line,
        "step": step,
        "rank": rank,
        "evidence": finding.facts,
    }
