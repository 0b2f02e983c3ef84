"""What the comparison of two monitors writes: JSON, a page, pictures, and the configuration of the next dump."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from msprobe.base.files import make_folder, refuse_existing, replacing, writing
from msprobe.base.log import logger
from msprobe.base.phrase import Phrase
from msprobe.store.lock import exclusive

from .finding import Result
from .next_dump import next_dump
from .page import page
from .pictures import draw
from .report import report_of
from .wording import answer

SUMMARY = "monitor_compare.json"
CONFIGURATION = "next_dump.json"
PAGE = "monitor_compare.html"
REPORT = "monitor_report.html"
PICTURE = "monitor_compare.png"


def write(result: Result, folder: Path) -> list[Path]:
    """Write everything; UsageError where that cannot be done, or where an answer is there already."""
    written = [folder / SUMMARY, folder / PAGE]
    texts = {folder / SUMMARY: _json(as_object(result)), folder / PAGE: page(result).encode("utf-8", "replace")}
    if result.finding is not None:
        texts[folder / CONFIGURATION] = _json(next_dump(result.finding, result.ranks))
        written.append(folder / CONFIGURATION)
    with writing(folder):
        make_folder(folder)
    with exclusive(folder):
        refuse_existing(folder / SUMMARY, "give another folder with -o")
        with writing(folder):
            if result.curves:
                if draw(result, folder / PICTURE):
                    written.append(folder / PICTURE)
                else:
                    logger.info("no picture: matplotlib is not installed; run `pip install 'msprobe-ms[monitor]'`")
            for path, text in reversed(texts.items()):  # the summary last: who sees it, sees all
                with replacing(path) as file:
                    file.write(text)
    return written


def write_report(result: Result, folder: Path, command: str) -> Path:
    """Write the page that shows everything; gives its path."""
    path = folder / REPORT
    report_of(result, command).write(path)
    return path


def as_object(result: Result) -> dict[str, object]:
    """All fields of the answer but its curves; what is no number is null."""
    shown = (field.name for field in fields(result) if field.name not in ("curves", "further"))
    found = {name: _plain(getattr(result, name)) for name in shown}
    steps = result.steps
    found["steps"] = {"first": steps[0], "last": steps[-1], "count": len(steps)}
    configuration = None if result.finding is None else next_dump(result.finding, result.ranks)
    return {
        "is_clean": result.is_clean,
        "exit_code": result.exit_code,
        "answer": str(answer(result)),
        **found,
        "next_dump": configuration,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8", "replace") + b"\n"


def _plain(value: object) -> object:
    if isinstance(value, Phrase):
        return str(value)
    if isinstance(value, Enum):
        return value.name.lower()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
