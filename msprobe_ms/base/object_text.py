"""Texts of objects in configurations, without memory addresses."""

import re

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{4,16}\b")


def without_addresses(text: str) -> str:
    """Return a text without memory addresses: `<function f at 0x7f01>` becomes `<function f>`.

    Only the part between the first `<` and the last `>` is changed.
    """
    first, last = text.find("<"), text.rfind(">") + 1
    if first < 0 or last <= first:
        return text
    return text[:first] + _ADDRESS.sub("", text[first:last]) + text[last:]


def object_text(value: object) -> str:
    """Return the text of any object without addresses; the name of its class if `str` fails."""
    try:
        return without_addresses(str(value))
    except Exception:  # code of the object
        return f"<{type(value).__name__}>"
