"""The summary of a rank as JSON holds it; numbers that JSON lacks are texts, `"inf"`."""

from math import isfinite

from .finding import Sensitivity, Summary

FORMAT = 1


def described(summary: Summary, tool: str, framework: str) -> dict[str, object]:
    """Return the contents of `free_benchmark_summary.json`; `reference/format.md` has the keys."""
    return {
        "format": FORMAT,
        "tool": tool,
        "framework": framework,
        "rank": summary.rank,
        "pert_mode": summary.mode.value,
        "fuzz_stage": summary.stage.value,
        "steps": list(summary.steps),
        "compared": summary.compared,
        "inconsistent": summary.inconsistent,
        "fixed": summary.fixed,
        "skipped": {cause.value: count for cause, count in summary.skipped},
        "lines": [_line(each) for each in summary.sensitivities],
    }


def _line(each: Sensitivity) -> dict[str, object]:
    return {
        "api": each.stem,
        "file": each.place.file,
        "line": each.place.line,
        "function": each.place.function,
        "source": each.place.source,
        "calls": each.calls,
        "worst": each.worst,
        "step": each.step,
        "condition": _number(each.condition),
        "typical": _number(each.typical),
        "usual": None if each.usual is None else _number(each.usual),
        "usual_of": None if each.usual is None else "api" if each.of_kind else "run",
        "excess": _number(each.excess),
        "ill_conditioned": each.is_ill_conditioned,
        "inconsistent": each.inconsistent,
        "max_rel": _number(each.max_rel),
        "non_finite": each.non_finite,
    }


def _number(value: float) -> float | str:
    return value if isfinite(value) else str(value)
