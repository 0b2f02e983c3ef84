"""HTML for notebooks: an answer with its facts and a table, in the style of a report.

Text from dumps is escaped, and control characters and changes of direction are replaced by their names. Colors are also
given as words.
"""

from collections.abc import Iterable, Sequence

from msprobe.base.log import terminal_line

from .finding import Finding

_COLOURS = {"differs": "#b3261e", "clean": "#1b6e3c", "unjudged": "#6b6b6b", "shown": "#3457a6"}
_MARKS = {"differs": "&#10007;", "clean": "&#10003;", "unjudged": "?", "shown": "&#9432;"}

_MAX_ROWS = 20
"""Rows of a table."""

_CELL = 'style="border:1px solid #8886;padding:.15em .5em;text-align:left;vertical-align:top"'


def text(value: object) -> str:
    """Return a value as inert HTML."""
    from html import escape  # here: only notebooks need it, and it has a table of entities

    return escape(terminal_line(" ".join(str(value).split())))


def fragment(
    state: str,
    line: str,
    facts: Iterable[tuple[str, object]] = (),
    titles: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
) -> str:
    """Return an answer as HTML: `state` as of `finding.Answer`, its line, facts by name, and a table."""
    colour = _COLOURS[state]
    parts = [
        f'<div style="font:14px/1.45 system-ui,sans-serif;border-left:4px solid {colour};padding:.2em .8em">',
        f'<div><b style="color:{colour}">{_MARKS[state]} {text(state)}</b> {text(line)}</div>',
    ]
    held = [(name, value) for name, value in facts if value not in ("", None)]
    if held:
        cells = "".join(f"<tr><th {_CELL}>{text(name)}</th><td {_CELL}>{text(value)}</td></tr>" for name, value in held)
        parts.append(f'<table style="border-collapse:collapse;margin:.4em 0">{cells}</table>')
    if rows:
        head = "".join(f"<th {_CELL}>{text(title)}</th>" for title in titles)
        body = "".join(
            f"<tr>{''.join(f'<td {_CELL}>{text(cell)}</td>' for cell in row)}</tr>" for row in rows[:_MAX_ROWS]
        )
        parts.append(f'<table style="border-collapse:collapse;margin:.4em 0"><tr>{head}</tr>{body}</table>')
    if len(rows) > _MAX_ROWS:
        parts.append(f"<div>and {len(rows) - _MAX_ROWS} more</div>")
    return "".join((*parts, "</div>"))


def html_of(finding: Finding) -> str:
    """Return a finding as HTML: its place, severity, reason and evidence."""
    place, source = finding.place, finding.place.source
    facts: list[tuple[str, object]] = [("cell", place.cell), ("record", place.record)]
    facts += [("step", place.step), ("rank", place.rank)]
    if source is not None:
        facts += [("line", f"{source.file}:{source.line}"), ("code", source.text)]
    facts += [("verdict", finding.grade), ("certainty", finding.certainty), ("because", finding.reason)]
    facts += [("evidence", one) for one in finding.evidence]
    facts.append(("later calls that received it", finding.later_calls or ""))
    facts.append(("explained by", f"msprobe explain {finding.kind.code}"))
    return fragment("differs", f"{place.name}: {finding.kind.name}", facts)
