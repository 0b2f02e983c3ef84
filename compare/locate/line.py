"""The line of the user's code that made a call: the innermost frame outside the framework and this tool."""

import re
from collections.abc import Iterable

_FRAME = re.compile(r"^File (?P<file>.+?), line (?P<line>\d+), in ", re.DOTALL)

# Installed packages, and the tree of a framework that was built from source.
_NOT_THE_USERS = re.compile(
    r"/(?:site|dist)-packages/(?:mindspore|mindtorch|torch|torch_npu|msprobe)/"
    r"|/mindspore/python/mindspore/|/msprobe_ms/|^<"
)


def user_line(stack: Iterable[str]) -> tuple[str, int] | None:
    """File and line of the innermost frame of the user's; None where the stack has none, or there is no stack."""
    for frame in stack:
        found = _FRAME.match(frame)
        if found and not _NOT_THE_USERS.search(found["file"].replace("\\", "/")):
            return found["file"], int(found["line"])
    return None
