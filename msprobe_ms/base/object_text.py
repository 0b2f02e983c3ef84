"""Texts of objects in configurations, without the addresses at which a process happens to have them."""

import re

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{4,16}\b")


def without_addresses(text: str) -> str:
    """Return a text without the addresses of Python's default texts: `<function f at 0x7f01>` becomes `<function f>`.

    Only what is between the first `<` and the last `>` is looked at.
    """
    first, last = text.find("<"), text.rfind(">") + 1
    if first < 0 or last <= first:
        return text
    return text[:first] + _ADDRESS.sub("", text[first:last]) + text[last:]


def object_text(value: object) -> str:
    """Return the text of any object without addresses; the name of its class where it gives none."""
    try:
        return without_addresses(str(value))
    except Exception:  # foreign code
        return f"<{type(value).__name__}>"
