"""What stands in a dump.json above its data, which may be as large as a disk and are not read: how it was made."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.base.files import open_input

_MOST = 1 << 18
"""Bytes that are read; what stands above the data is small."""

_WORDS = ("task", "level", "framework")


@dataclass(frozen=True)
class Head:
    """The header of a dump; empty where it does not say. `run` has tool, framework, python, numpy, step and rank;
    `settings` are those of the collection, in the words of the configuration file."""

    task: str = ""
    level: str = ""
    framework: str = ""
    run: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def read_head(file: Path) -> Head:
    """The header of a dump.json; an empty one of a file that cannot be read, which its reader will say."""
    try:
        with open_input(file) as opened:
            members = _members(opened.read(_MOST).decode("utf-8-sig", "replace"))
    except (OSError, ValueError, RecursionError):
        return Head()
    run = members.get("run")
    run = run if isinstance(run, dict) else {}
    settings = run.get("settings")
    task, level, framework = (text if isinstance(text := members.get(key), str) else "" for key in _WORDS)
    return Head(task, level, framework, run, settings if isinstance(settings, dict) else {})


def _members(text: str) -> dict[str, Any]:
    """The members of an object before its `data`."""
    found: dict[str, Any] = {}
    decoder, at = json.JSONDecoder(), _behind(text, 0, "{")
    while at < len(text) and text[at] == '"':
        key, at = decoder.raw_decode(text, at)
        at = _behind(text, at, ":")
        if key == "data":
            break
        found[key], at = decoder.raw_decode(text, at)
        at = _behind(text, at, ",")
    return found


def _behind(text: str, at: int, sign: str) -> int:
    """The place behind a sign and the space around it; behind the space alone where the sign is not there."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    if text[at : at + 1] != sign:
        return at
    at += 1
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
