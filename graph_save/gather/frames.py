"""The lines of source that a graph's text names, as the frames of a call stack."""

import re
from collections.abc import Iterable

from msprobe.base.frames import Line, frame

_FRAME = re.compile(
    r"^\s*# In file (?P<file>.+?):(?P<line>\d+)(?P<block>~\d+)?(?:, \d+~\d+)?/(?P<text>.*?)/?(?:<~~.*)?\s*$"
)
_BLOCK = re.compile(r"(?:async |elif |else|for |if |try|while |with |def |class |@)")
_DEF = re.compile(r"\s*(?:async )?def (\w+)")


def stack(lines: Iterable[str]) -> list[str]:
    """Frames as stack.json has them, innermost first.

    The framework names blocks (`def`, `if`, `for`) that enclose a line beside the line itself, and an expression beside
    the statement that holds it; one frame stands for each line that runs.
    """
    function: dict[str, str] = {}
    frames: list[str] = []
    for line in lines:
        m = _FRAME.match(line)
        if m is None:
            continue
        text = m["text"].strip()
        if m["block"] and _BLOCK.match(text):
            if definition := _DEF.match(text):
                function[m["file"]] = definition[1]
            continue
        made = frame(Line(m["file"], int(m["line"])), function.get(m["file"], "construct"), text)
        if not frames or frames[-1] != made:
            frames.append(made)
    frames.reverse()
    return frames
