"""Output of a comparison of two monitors: JSON, a page, a picture, and the configuration of the next dump."""

import json
from collections.abc import Mapping
from pathlib import Path

from msprobe.base.files import make_folder, refuse_existing, replace_atomically, writing
from msprobe.base.log import logger
from msprobe.findings.data import as_data
from msprobe.findings.document import Document, as_object
from msprobe.store.lock import exclusive

from .finding import Result
from .next_dump import next_dump
from .page import page
from .report import answer_of, report_of

SUMMARY = "monitor_compare.json"
CONFIGURATION = "next_dump.json"
PAGE = "monitor_compare.html"
REPORT = "monitor_report.html"
PICTURE = "monitor_compare.png"


def write(result: Result, folder: Path) -> dict[str, Path]:
    """Write everything, and return the paths; raise a UsageError if that fails, or if an answer exists already."""
    written = {"document": folder / SUMMARY, "page": folder / PAGE}
    texts = {folder / PAGE: page(result).encode("utf-8", "replace")}
    if result.finding is not None:
        written["configuration"] = folder / CONFIGURATION
        texts[folder / CONFIGURATION] = _json(next_dump(result.finding, result.ranks))
    with writing(folder):
        make_folder(folder)
    with exclusive(folder):
        refuse_existing(folder / SUMMARY, "give another folder with -o")
        with writing(folder):
            if result.curves:
                if _draw(result, folder / PICTURE):
                    written["picture"] = folder / PICTURE
                else:
                    logger.info("no picture: matplotlib is not installed; run `pip install 'msprobe-ms[monitor]'`")
            texts[folder / SUMMARY] = _json(as_object(document_of(result, files=written)))
            for path, text in texts.items():  # the document last: if it exists, all others do
                with replace_atomically(path) as file:
                    file.write(text)
    return written


def _draw(result: Result, path: Path) -> bool:
    """Draw both sides and the deviation with its band, a row for each series; False without matplotlib."""
    try:
        from matplotlib.figure import Figure  # an extra that takes a second to load
    except ImportError:
        return False
    rows = len(result.curves)
    figure = Figure(figsize=(11, 2.4 * rows), layout="constrained")
    step = result.finding.step if result.finding is not None else None
    for row, curve in enumerate(result.curves):
        both, apart = (figure.add_subplot(rows, 2, 2 * row + at) for at in (1, 2))
        both.plot(curve.step, curve.b, label="B")
        both.plot(curve.step, curve.a, label="A", linestyle="--")
        title = f"{curve.kind} {curve.statistic} of {curve.name}, rank {curve.rank}"
        both.set_title(title.replace("$", r"\$"), fontsize=8)  # names are not formulas
        both.legend(fontsize=7)
        apart.fill_between(curve.step, -curve.limit, curve.limit, alpha=0.25, label="band")
        apart.plot(curve.step, curve.value, label="deviation")
        apart.legend(fontsize=7)
        for axes in (both, apart):
            axes.tick_params(labelsize=7)
            if step is not None:
                axes.axvline(step, color="crimson", linewidth=0.8)
    with replace_atomically(path) as file:
        figure.savefig(file, format="png", dpi=110)
    return True


def write_report(result: Result, folder: Path, command: str) -> Path:
    """Write the page with all curves, and return its path."""
    path = folder / REPORT
    report_of(result, command).write(path)
    return path


def document_of(result: Result, exit_code: int | None = None, files: Mapping[str, Path] | None = None) -> Document:
    """Return the document of a comparison; the exit code is that of the result unless given."""
    code = result.exit_code if exit_code is None else exit_code
    return Document(
        "monitor compare", answer_of(result), result.verdicts, code, files=files or {}, details=details(result)
    )


def details(result: Result) -> dict[str, object]:
    """Return the facts of a comparison that its findings do not have; curves are left out."""
    names = ("target", "golden", "stages", "judged_from", "passed", "compared", "ranks", "unmatched", "uncommon")
    steps = result.steps
    return {
        **{name: as_data(getattr(result, name)) for name in (*names, "lost_ranks")},
        "basis": result.basis.name.lower(),
        "steps": {"first": steps[0], "last": steps[-1], "count": len(steps)},
        "next_dump": None if result.finding is None else next_dump(result.finding, result.ranks),
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8", "replace") + b"\n"
