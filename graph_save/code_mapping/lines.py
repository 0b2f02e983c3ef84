"""Which lines of source stand for the names of a kernel dump, by the text of one graph."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.files import open_text
from msprobe.base.frames import user_line
from msprobe.graph_save.gather.flow import Flow
from msprobe.graph_save.gather.names import full_names
from msprobe.graph_save.gather.trace import parse
from msprobe.store.kernel_value import key

_FRAME = re.compile(r"File (?P<file>.+?), line (?P<line>\d+), in .+?, \n (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """What a graph says of a kernel: its full name, its lines as text (innermost first), the innermost line of the
    user's, and whose lines they are where the kernel has none of its own. All empty where the graph does not know it.
    """

    scope: str = ""
    stack: str = ""
    user: str = ""
    lines_of: str = ""


class Graph:
    """The kernels of one graph's text (`graph_build_0.ir`, `anf_after_graph_build`, the trace of a kernel dump)."""

    def __init__(self, path: Path) -> None:
        """DumpError where the file cannot be read, or names no kernel."""
        try:
            with open_text(path) as lines:
                self._flow = Flow(parse(lines))
        except OSError as err:
            raise DumpError(
                f"{path}: cannot be read ({err.strerror or err}); give the .ir file of the graph that was dumped"
            ) from err
        if not self._flow.trace.nodes:
            raise DumpError(
                f"{path}: names no kernel (`# Fullname with scope: (...)`); give the text of the graph behind the last "
                "pass, as in graph_build_0_0129.ir or anf_after_graph_build_0.ir"
            )

    def sources(self, spelled: Iterable[str]) -> dict[str, Source]:
        """What is known of each name, as the files of one folder spell it.

        A name is looked up as `msprobe gather` does it. Where that finds none, as with the name of a kernel that was
        fused of several, the longest full name that stands whole in it is taken.
        """
        named = full_names(spelled, self._flow.trace.nodes)
        return {name: self._source(full, name) for name, full in named.items()}

    def _source(self, full: str, name: str) -> Source:
        nodes = self._flow.trace.nodes
        if full not in nodes:
            full = self._longest_in(key(name))
            if not full:
                return Source()
        lines = self._flow.lines(full)
        line = user_line(lines.frames)
        return Source(
            scope=full,
            stack="\n".join(map(_one_line, lines.frames)),
            user=f"{line.file}:{line.number}" if line else "",
            lines_of="" if lines.of == full else lines.of,
        )

    def _longest_in(self, name: str) -> str:
        for spelled, full in self._by_length:
            # `-op1` does not stand in `-op10`; a name that is the whole was looked up, and is not to be trusted.
            at = name.find(spelled)
            if at >= 0 and spelled != name and not name[at + len(spelled) :][:1].isdecimal():
                return full
        return ""

    @cached_property
    def _by_length(self) -> list[tuple[str, str]]:
        """Spelled and full names, longest first."""
        return sorted(((key(full), full) for full in self._flow.trace.nodes), key=lambda pair: -len(pair[0]))


def _one_line(frame: str) -> str:
    """A frame as the graph's text has it: `In file net.py:22/ y = self.fc(x)`."""
    found = _FRAME.fullmatch(frame)
    return f"In file {found['file']}:{found['line']}/ {found['text']}" if found else frame
