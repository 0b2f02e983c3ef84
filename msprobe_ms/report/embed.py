"""Insert chunks of a document into the built page: `page.html` is read, and the data are written at its mark."""

import base64
import json
import math
import zlib
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any

from msprobe.base.phrase import Phrase
from msprobe.findings.kind import Kind

MARK = "<!-- msprobe report data -->"
"""Occurs once in the built page, inside its body, before the scripts."""


def plain(value: Any) -> Any:
    """Return an object of `document` as JSON types: non-finite numbers become texts, a kind of finding its name.

    Members that have their default, unless declared with `always`, and members declared with `page` False are omitted.
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, Phrase):
        return value.plain()
    if isinstance(value, Kind):
        return value.name
    if is_dataclass(value):
        kind: Any = type(value)
        held = ((name, getattr(value, name), default) for name, default in _members(kind))
        return {name: plain(one) for name, one, default in held if one != default}
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


@cache
def _members(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Return the members of a class with their defaults; `MISSING` if they are always written."""

    def default_of(each: "Field[Any]") -> Any:
        if each.metadata.get("always"):
            return MISSING
        return each.default if each.default_factory is MISSING else each.default_factory()

    return tuple((each.name, default_of(each)) for each in fields(kind) if each.metadata.get("page", True))


def text_of(value: Any) -> bytes:
    """Return an object of `document` as JSON in UTF-8; a lone surrogate, which UTF-8 cannot represent, is escaped as in
    JSON."""
    made = plain(value)
    text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(made, separators=(",", ":")).encode()


def packed(text: bytes) -> bytes:
    """Return a JSON text as a chunk: compressed by zlib, in base64; ASCII without `<`, so it can be part of a page."""
    return base64.b64encode(zlib.compress(text, 6))


def encoded(value: Any) -> bytes:
    """Return a chunk with an object of `document`."""
    return packed(text_of(value))


def element(number: int, chunk: bytes) -> bytes:
    """Return the element of the page with a chunk; a browser does not execute its content."""
    return b'<script type="text/plain" id="chunk-%d">%b</script>\n' % (number, chunk)


def unpacked(chunk: bytes) -> Any:
    """Return the content of a chunk, as JSON types."""
    return json.loads(zlib.decompress(base64.b64decode(chunk)))
