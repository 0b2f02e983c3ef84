"""Compares the collected cases by the product's own command, and holds each answer to the case's truth."""

import contextlib
import io
import json
import os
import re
import tempfile
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import baseline

FAILED = -1
"""The exit code of a comparison that raised."""

Truth = dict[str, Any]
Score = dict[str, Any]


def score(folder: Path, wanted: Iterable[Path], processes: int = 1, tables: bool = True) -> list[Score]:
    """Score the cases whose folders are `wanted`; with `tables` also the plain tolerances, on our own tables."""
    tasks = [(str(case), tables) for case in wanted]
    if processes == 1:
        return [_scored(*one) for one in tasks]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(_scored, *zip(*tasks, strict=True), chunksize=4))


def _scored(case: str, tables: bool) -> Score:
    folder = Path(case)
    truth = json.loads((folder / "truth.json").read_text())
    began = time.perf_counter()
    code, last, reports = compare(folder)
    seconds = time.perf_counter() - began
    found = [call for report in reports for call in (*report["first_wrong"], *report["next_beginnings"])]
    same = ("case", "regime", "task", "level", "net", "variant", "clean")
    scores = {key: truth[key] for key in same} | {"fault": truth.get("fault")}
    scores |= {
        key: truth.get(key)
        for key in ("class", "small", "harmless", "unseen", "effect", "noise", "kinds", "names", "steps_shown")
    }
    scores |= {
        "code": code,
        "last": last,
        "seconds": round(seconds, 3),
        "found": found[:3],
        "ours": judged(truth, code, last, found),
    }
    if tables:
        rows = [row for report in reports for row in report["rows"]]
        scores["baseline"] = {str(limit): baseline.result(truth, rows, limit) for limit in baseline.LIMITS}
    return scores


def judged(truth: Truth, code: int, last: str, found: list[dict[str, Any]]) -> dict[str, bool]:
    """What is right of an answer: `alarm`, and of a fault `first`, `three` (among the first three), `kind`.

    `undecided`: the exit code is 1 although no call is named. Of a clean pair that is no alarm.
    """
    undecided = code == 1 and last.startswith("no difference in what could be judged")
    if truth["clean"]:
        return {"alarm": code != 0 and not undecided, "undecided": undecided}
    right = [is_right(truth, call) for call in found[:3]]
    first = bool(right) and right[0]
    kinds = [*truth["kinds"], *(["parameters differ"] if truth.get("parameters") else [])]
    kind = first and any(found[0]["kind"].startswith(kind) for kind in kinds)
    return {"alarm": code != 0, "undecided": undecided, "first": first, "three": any(right), "kind": kind}


def is_right(truth: Truth, call: dict[str, Any]) -> bool:
    """Whether a call that is named is one that may be; where any may, the kind must be right too. Where a later step
    alone was collected, `parameters` that differ are as right as the call: the fault changed them before."""
    if call["step"] is not None and call["step"] not in truth["steps_shown"]:
        return False
    if truth.get("parameters") and call["kind"].startswith("parameters differ"):
        return True
    if truth["names"] == ["*"]:
        return any(call["kind"].startswith(kind) for kind in truth["kinds"])
    return call["name"] in truth["names"]


def compare(folder: Path) -> tuple[int, str, list[dict[str, Any]]]:
    """Exit code, answer, and the tables of a case's steps in their order; a line `Try:` may follow the answer."""
    from msprobe.cli import main

    os.environ.setdefault("MSPROBE_LOG_LEVEL", "3")
    with tempfile.TemporaryDirectory() as out:
        output = io.StringIO()
        sides = ["-tp", str(folder / "target"), "-gp", str(folder / "golden")]
        try:
            with contextlib.redirect_stdout(output):
                code = main(["compare", *sides, "-o", out, "--format", "json", "--workers", "1"])
        except Exception:  # a method under development may fail on one case; the others are scored all the same
            return FAILED, traceback.format_exc(), []
        reports = sorted(Path(out).rglob("compare_result*.json"), key=_step)
        lines = [line for line in output.getvalue().splitlines() if line.strip() and not line.startswith("Try: ")]
        return code, lines[-1] if lines else "", [json.loads(file.read_text()) for file in reports]


def _step(file: Path) -> int:
    found = re.search(r"step(\d+)", str(file))
    return int(found[1]) if found else 0
