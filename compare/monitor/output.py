"""What the comparison of two monitors writes: JSON, a page, pictures, and the configuration of the next dump."""

import json
from collections.abc import Mapping
from pathlib import Path

from msprobe.base.files import make_folder, refuse_existing, replacing, writing
from msprobe.base.log import logger
from msprobe.findings.data import as_data
from msprobe.findings.document import Document, as_object
from msprobe.store.lock import exclusive

from .finding import Result
from .next_dump import next_dump
from .page import page
from .pictures import draw
from .report import answer_of, report_of

SUMMARY = "monitor_compare.json"
CONFIGURATION = "next_dump.json"
PAGE = "monitor_compare.html"
REPORT = "monitor_report.html"
PICTURE = "monitor_compare.png"


def write(result: Result, folder: Path) -> dict[str, Path]:
    """Write everything, and return the paths; UsageError where that fails, or where an answer exists already."""
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
                if draw(result, folder / PICTURE):
                    written["picture"] = folder / PICTURE
                else:
                    logger.info("no picture: matplotlib is not installed; run `pip install 'msprobe-ms[monitor]'`")
            texts[folder / SUMMARY] = _json(as_object(document_of(result, files=written)))
            for path, text in texts.items():  # the document last: all others exist where it does
                with replacing(path) as file:
                    file.write(text)
    return written


def write_report(result: Result, folder: Path, command: str) -> Path:
    """Write the page that shows everything; gives its path."""
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
