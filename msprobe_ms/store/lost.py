"""Tensors that never came to be whole: no record may name their files, and the dump says why they are missing."""

import json
import re
from collections.abc import Callable
from typing import Any

from .journal import Journal, encode

# In the text of an entry. A text value that looks like this has backslashes before its quotes.
_FILE = re.compile(r'"data_name"\s*:\s*("(?:[^"\\]|\\.)*")')


def leave_out(journal: Journal, why: Callable[[str], str]) -> None:
    """Take every file of which `why` gives a cause out of the entries, and note it under `missing`.

    Entries without such a file stay as text, unparsed.
    """
    causes: dict[str, str] = {}
    for call, texts in journal.entries.items():
        lost: dict[str, None] = {}
        for place, text in enumerate(texts):
            named = [json.loads(quoted) for quoted in _FILE.findall(text)]
            causes.update((file, why(file)) for file in named if file not in causes)
            if gone := [file for file in named if causes[file]]:
                texts[place] = _without(text, gone)
                lost.update(dict.fromkeys(gone))
        for file in lost:
            journal.missing.append(encode({"name": call, "part": _part(file, call), "cause": causes[file]}))


def _without(text: str, files: list[str]) -> str:
    entry = json.loads(text)
    # Not by recursion: a damaged journal may nest deeper than Python calls.
    nodes: list[Any] = [entry]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if isinstance(name := node.get("data_name"), str) and name in files:
                del node["data_name"]
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
    return encode(entry)


def _part(file: str, call: str) -> str:
    """`output.0` of `{call}.output.0.npy`; the whole name where it was cut to fit."""
    name = file.removesuffix(".npy")
    return name[len(call) + 1 :] if name.startswith(f"{call}.") else "" if name == call else name
