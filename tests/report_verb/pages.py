"""Reads a page back, as a browser does: elements by their number, base64, zlib, JSON."""

import base64
import json
import re
import zlib

ELEMENT = re.compile(rb'<script type="text/plain" id="chunk-(\d+)">([A-Za-z0-9+/=]*)</script>')


def said(words):
    """A text, or a phrase in English: its template with the values of its placeholders, in their order."""
    if isinstance(words, str):
        return words
    template, *values = words
    names = list(dict.fromkeys(PLACEHOLDER.findall(template)))
    assert len(names) == len(values)
    return PLACEHOLDER.sub(lambda found: said(values[names.index(found[1])]), template)


PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

_OF_WORDS = ("reason", "text", "line", "title", "merged", "evidence", "reasons", "notes")
_ONE = ("reason", "text", "line", "title", "merged")


def _in_english(value):
    """What a chunk holds, with texts for phrases."""
    if isinstance(value, list):
        return [_in_english(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, one in value.items():
        if key not in _OF_WORDS or isinstance(one, int):  # the line of a file is a number
            found[key] = _in_english(one)
        else:
            found[key] = said(one) if key in _ONE else [said(each) for each in one]
    return found


def untranslated(value):
    """Sentences of a chunk that are texts and no phrases: three English words."""
    if isinstance(value, list):
        return [found for one in value for found in untranslated(one)]
    if not isinstance(value, dict):
        return []
    words = [value[key] for key in _ONE if key in value]
    words += [one for key in _OF_WORDS if key not in _ONE for one in value.get(key, ())]
    texts = [one for one in words if isinstance(one, str) and re.search(r"(?:[a-z]+ ){2}[a-z]+", one)]
    return texts + untranslated([one for key, one in value.items() if key not in _OF_WORDS])


class Page:
    """A written page: its head, and its chunks by number."""

    def __init__(self, path):
        self.raw = path.read_bytes()
        self.packed = {int(found[1]): found[2] for found in ELEMENT.finditer(self.raw)}
        self.head = self.chunk(0)
        assert not untranslated(self._plain(0)), "a sentence that the page cannot say in Chinese is no phrase"

    def _plain(self, number):
        return json.loads(zlib.decompress(base64.b64decode(self.packed[number])))

    def chunk(self, number):
        return _in_english(self._plain(number))

    def unit(self, number=0):
        """The head's entry of a unit, its layout, its state, and its calls in detail by number."""
        held = self.head["units"][number]
        calls = {}
        for first, chunk in held.get("details", ()):
            for call in self.chunk(chunk)["calls"]:
                assert call["call"] >= first, "a chunk contains calls from its first one on"
                calls[call["call"]] = call
        return held, self.chunk(held["layout"]), self.chunk(held["state"]), calls

    def table(self, title):
        """A table's rows by heading, and its letters."""
        entry = next(table for table in self.head["tables"] if table["title"].startswith(title))
        made = self.chunk(entry["chunk"])
        assert len(made["rows"]) == entry["rows"]
        return [dict(zip(made["columns"], row, strict=True)) for row in made["rows"]], made.get("verdicts", "")
