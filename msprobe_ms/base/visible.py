"""Text out of a dump on a terminal: a line stays one line and steers nothing."""

_HARMLESS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def visible(text: str) -> str:
    """`text` with its control characters spelled out: an escape becomes the four characters `\\x1b`."""
    return text.translate(_HARMLESS)
