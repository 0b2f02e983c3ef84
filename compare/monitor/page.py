"""The answer as one page without server and scripts: text, tables, curves as SVG. All names are escaped."""

import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import numpy as np

from .finding import Curve, Result
from .next_dump import next_dump
from .report import answer, lines

Array = np.ndarray[Any, Any]

_WIDTH, _HEIGHT, _EDGE = 460, 150, 8
_MAX_LINES = 200  # rows of unmatched names

_STYLE = """body{font:14px/1.45 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.25em}h2{font-size:1.05em;margin-top:1.6em}table{border-collapse:collapse}
td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}pre{background:#f4f4f4;padding:.8em;overflow:auto}
svg{background:#fafafa;border:1px solid #ddd;margin:.2em}figure{margin:1em 0}.out{color:#b00020}
@media (prefers-color-scheme:dark){body{background:#16181c;color:#ddd}pre,svg{background:#1f2228}}"""


def page(result: Result) -> str:
    """Return the whole page."""
    return "\n".join(_parts(result)) + "\n"


def _parts(result: Result) -> Iterator[str]:
    yield '<!doctype html><html lang="en"><meta charset="utf-8"><title>msprobe monitor compare</title>'
    yield f"<style>{_STYLE}</style>"
    yield f"<h1>{escape(str(answer(result)))}</h1>"
    yield f"<p>A: {escape(result.target)}<br>B: {escape(result.golden)}</p>"
    yield "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in list(lines(result))[:_MAX_LINES]) + "</ul>"
    if result.curves:
        yield "<h2>What left first</h2>"
        yield from (_figure(curve, result) for curve in result.curves)
    yield "<h2>Stages, in the order of a step</h2><table>"
    yield "<tr><th>kind<th>stage<th>left at the step<th>targets<th>leaves first at"
    for stage in result.stages:
        first = "" if stage.first_step is None else stage.first_step
        mark = ' class="out"' if stage.left else ""
        cells = (stage.kind, stage.stage.name, stage.left, stage.targets, first)
        yield f"<tr{mark}>" + "".join(f"<td>{escape(str(cell))}" for cell in cells)
    yield "</table>"
    if result.finding is not None:
        configuration = json.dumps(next_dump(result.finding, result.ranks), ensure_ascii=False, indent=1)
        yield f"<h2>What to dump next, on both sides</h2><pre>{escape(configuration)}</pre>"
        yield "<p>Then: <code>msprobe compare A_DUMP B_DUMP</code></p>"
    yield "</html>"


def _figure(curve: Curve, result: Result) -> str:
    step = result.finding.step if result.finding is not None else None
    both = _svg(curve.step, [(curve.b, "#1f77b4"), (curve.a, "#d62728")], None, step)
    apart = _svg(curve.step, [(curve.value, "#333333")], curve.limit, step)
    caption = f"{curve.kind} {curve.statistic} of {curve.name}, rank {curve.rank}"
    text = f"{escape(caption)}. Left: B blue, A red. Right: the deviation and its band."
    return f"<figure>{both}{apart}<figcaption>{text}</figcaption></figure>"


def _svg(steps: Array, series: Iterable[tuple[Array, str]], band: Array | None, mark: int | None) -> str:
    """Return lines over steps; values that are not finite are omitted. The maximum and the minimum are at the edge."""
    drawn = list(series)
    values = np.concatenate([value[np.isfinite(value)] for value, _ in drawn] or [np.zeros(0)])
    if band is not None:
        width = band[np.isfinite(band)]
        values = np.concatenate([values, width, -width])
    if not len(values):
        return ""
    low, high = float(values.min()), float(values.max())
    low, high = (low, high) if high > low else (low - 1.0, high + 1.0)
    first, last = float(steps[0]), float(steps[-1])

    def x(step: Array) -> Array:
        return np.asarray(_EDGE + (step - first) / max(last - first, 1.0) * (_WIDTH - 2 * _EDGE))

    def y(value: Array) -> Array:
        return np.asarray(_HEIGHT - _EDGE - (value - low) / (high - low) * (_HEIGHT - 2 * _EDGE))

    parts = [f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img">']
    if band is not None and (known := np.isfinite(band)).any():
        over, under = _points(x(steps[known]), y(band[known])), _points(x(steps[known]), y(-band[known]))
        parts.append(f'<polygon points="{" ".join([*over, *reversed(under)])}" fill="#2ca02c" fill-opacity=".25"/>')
    if mark is not None:
        at = float(x(np.array(mark)))
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{_HEIGHT}" stroke="#b00020" stroke-width=".7"/>')
    for value, color in drawn:
        known = np.isfinite(value)
        points = " ".join(_points(x(steps[known]), y(value[known])))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.2"/>')
    for text, at in ((f"{high:.6g}", 12), (f"{low:.6g}", _HEIGHT - 3)):
        parts.append(f'<text x="3" y="{at}" font-size="10" fill="#888">{text}</text>')
    parts.append(f'<text x="{_WIDTH - 3}" y="{_HEIGHT - 3}" font-size="10" fill="#888" text-anchor="end">')
    parts.append(f"{int(first)} to {int(last)}</text></svg>")
    return "".join(parts)


def _points(x: Array, y: Array) -> list[str]:
    return [f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
