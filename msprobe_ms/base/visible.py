"""Text out of a dump on a terminal: a line stays one line and steers nothing."""

_HARMLESS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
# Line and paragraph separators, and what turns the direction of writing around.
_HARMLESS |= {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def visible(text: str) -> str:
    """`text` with its control characters spelled out: an escape becomes the four characters `\\x1b`."""
    return text.translate(_HARMLESS)
