"""The frames of a call stack, as stack.json has them: `File net.py, line 22, in construct, \\n h = self.fc(x)`.

Innermost first. The line that made a call is the innermost one of the user's: outside the framework and this tool.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

_FRAME = re.compile(r"^File (?P<file>.+?), line (?P<line>\d+), in ", re.DOTALL)

# Installed packages, and the tree of a framework that was built from source.
_NOT_THE_USERS = re.compile(
    r"/(?:site|dist)-packages/(?:mindspore|mindtorch|torch|torch_npu|msprobe)/"
    r"|/mindspore/python/mindspore/|/msprobe_ms/|^<"
)


class Line(NamedTuple):
    """A line of source."""

    file: str
    number: int


def frame(line: Line, function: str, source: str) -> str:
    """The text of a frame: the line, the function that it stands in, and what it says."""
    return f"File {line.file}, line {line.number}, in {function}, \n {source}"


def user_line(stack: Iterable[str]) -> Line | None:
    """The innermost line of the user's; None where the stack has none, or there is no stack."""
    for text in stack:
        found = _FRAME.match(text)
        if found and not _NOT_THE_USERS.search(found["file"].replace("\\", "/")):
            return Line(found["file"], int(found["line"]))
    return None
