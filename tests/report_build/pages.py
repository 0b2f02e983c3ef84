"""Reads a page back, as a browser does: elements by their number, base64, zlib, JSON."""

import base64
import json
import re
import zlib

ELEMENT = re.compile(rb'<script type="text/plain" id="chunk-(\d+)">([A-Za-z0-9+/=]*)</script>')


class Page:
    """A written page: its head, and its chunks by number."""

    def __init__(self, path):
        self.raw = path.read_bytes()
        self.packed = {int(found[1]): found[2] for found in ELEMENT.finditer(self.raw)}
        self.head = self.chunk(0)

    def chunk(self, number):
        return json.loads(zlib.decompress(base64.b64decode(self.packed[number])))

    def unit(self, number=0):
        """The head's entry of a unit, its layout, its state, and its calls in detail by number."""
        held = self.head["units"][number]
        calls = {}
        for first, chunk in held.get("details", ()):
            for call in self.chunk(chunk)["calls"]:
                assert call["call"] >= first, "a chunk holds calls from its first one on"
                calls[call["call"]] = call
        return held, self.chunk(held["layout"]), self.chunk(held["state"]), calls

    def table(self, title):
        """A table's rows by heading, and its letters."""
        entry = next(table for table in self.head["tables"] if table["title"].startswith(title))
        made = self.chunk(entry["chunk"])
        assert len(made["rows"]) == entry["rows"]
        return [dict(zip(made["columns"], row, strict=True)) for row in made["rows"]], made.get("verdicts", "")
