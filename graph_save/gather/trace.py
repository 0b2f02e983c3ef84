"""Parser of the graph in a kernel dump (`ms_output_trace_code_graph_{g}.ir`): nodes, their arguments, and their source
lines as frames of a call stack.

```
%para1_fc1.weight: <Ref[Tensor[Float32]], (8, 4), ref_key=fc1.weight, is_parameter, is_inplace>  :  ...  IsWeight: true
  %1(x) = PrimFunc_MatMul(%para2_inputs1, %0, Bool(0), Bool(1)) ... cnode_attrs: {recompute_id: I64(1), ...}
      # Fullname with scope: (Default/net-Net/fc1-Dense/MatMul-op0)
      # Corresponding forward node candidate:                   (gradient kernels: lines of the forward follow)
      # In file /p/net.py:22, 12~20/        h = self.fc1(x)/    (outermost first)
```
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.base.files import open_text
from msprobe.base.log import logger
from msprobe.store.stacks_and_construct import Line, frame

_FRAME = re.compile(
    r"^\s*# In file (?P<file>.+?):(?P<line>\d+)(?P<block>~\d+)?(?:, \d+~\d+)?/(?P<text>.*?)/?(?:<~~.*)?\s*$"
)
_BLOCK = re.compile(r"(?:async |elif |else|for |if |try|while |with |def |class |@)")
_DEFINITION = re.compile(r"\s*(?:async )?def (\w+)")


def stack(lines: Iterable[str]) -> list[str]:
    """Return frames in the form of stack.json, innermost first.

    The framework lists enclosing blocks (`def`, `if`, `for`) in addition to a line, and expressions in addition to
    their statement; the result has one frame for each executed line.
    """
    function: dict[str, str] = {}
    frames: list[str] = []
    for line in lines:
        m = _FRAME.match(line)
        if m is None:
            continue
        text = m["text"].strip()
        if m["block"] and _BLOCK.match(text):
            if definition := _DEFINITION.match(text):
                function[m["file"]] = definition[1]
            continue
        made = frame(Line(m["file"], int(m["line"])), function.get(m["file"], "construct"), text)
        if not frames or frames[-1] != made:
            frames.append(made)
    frames.reverse()
    return frames


_PARAMETER = re.compile(r"^%para(\d+)_(.*?): (<.*)$")
_NODE = re.compile(r"^\s*%(\d+)\(.*?\) = ([^\s(]+(?: @[^\s(]+)?)\(")
_NAME = re.compile(r"^\s*#.*scope.*: \((.*)\)\s*$")
_NEXT_ITEM = re.compile(r"\s*(?:%\d+\(|%para\d|[:#}]|Return\(|subgraph )")  # ends the arguments of a node
_BRACKETS = re.compile(r"[()\[\]{}]")
_SEPARATORS = re.compile(r"[()\[\]{},]")
_MAX_NODE_LINES = 10_000
_RECOMPUTE = re.compile(r"recompute_sub_graph: U64\((\d+)\), recompute_id: I64\((\d+)\)")
_UNIQUE = re.compile(r'\b(forward_)?unique_id: "(\d+)"')


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of the graph. `name` is the name of the parameter if `is_weight`."""

    name: str
    is_weight: bool
    is_written: bool
    is_monad: bool


@dataclass(eq=False, slots=True)
class Node:
    """A node of a graph.

    args : nodes, parameters, or constants as text.
    frames : source lines, innermost first.
    recompute : key that a node shares with the node that it recomputes; empty without.
    is_duplicate : whether the node recomputes another.
    unique_id, forward_id : id of the node, and for a gradient of its forward node; empty if the text has none.
    """

    op: str
    args: "list[Node | Parameter | str]"
    name: str = ""
    frames: list[str] = field(default_factory=list)
    recompute: str = ""
    is_duplicate: bool = False
    unique_id: str = ""
    forward_id: str = ""


@dataclass
class Trace:
    """A graph. `has_flow` is False if the text contains several graphs, whose arguments cannot be distinguished."""

    parameters: list[Parameter] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
    has_flow: bool = True


def read_trace(path: Path) -> Trace:
    """Read a graph; return an empty one, and log it, if the file cannot be read."""
    try:
        with open_text(path) as lines:
            return parse(lines)
    except OSError as err:
        logger.warning("%s: cannot be read (%s); its kernels will have no source lines", path, err)
        return Trace()


def parse(lines: Iterable[str]) -> Trace:
    """Parse the text of a graph. Unknown lines are ignored, because the grammar changes with the framework."""
    trace = Trace()
    parameters: dict[str, Parameter] = {}
    nodes: dict[str, Node] = {}
    node: Node | None = None
    frames: list[str] = []
    graphs = 0
    for line in _joined_lines(lines):
        text = line.lstrip()
        if text.startswith("# In file"):
            if node is not None:
                frames.append(line)
        elif text.startswith("#"):
            if node is not None and (m := _NAME.match(line)):
                node.name = m[1]
                trace.nodes.setdefault(node.name, node)
        elif m := _NODE.match(line):
            _set_frames(node, frames)
            node, frames = _node(line, m, nodes, parameters), []
            nodes[m[1]] = node
        elif m := _PARAMETER.match(line):
            made = _parameter(m)
            parameters[m[1]] = made
            trace.parameters.append(made)
        elif not text.startswith(":"):
            _set_frames(node, frames)
            node, frames = None, []
            if text.startswith("subgraph @"):
                graphs += 1
                nodes = {}
    _set_frames(node, frames)
    trace.has_flow = graphs <= 1
    return trace


def _joined_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, with the lines of a node joined: a constant tensor may be printed on several lines."""
    pending: list[str] = []
    depth = 0
    for line in lines:
        if pending and (_NEXT_ITEM.match(line) or len(pending) == _MAX_NODE_LINES):
            yield "".join(pending)
            pending, depth = [], 0
        if pending:
            depth = _depth(line, 0, depth)
        elif m := _NODE.match(line):
            depth = _depth(line, m.end(), 1)
        pending.append(line)
        if depth == 0:
            yield "".join(pending)
            pending = []
    if pending:
        yield "".join(pending)


def _depth(text: str, start: int, depth: int) -> int:
    """Return the number of open brackets after `text`; 0 as soon as all are closed."""
    for m in _BRACKETS.finditer(text, start):
        depth += 1 if m[0] in "([{" else -1
        if depth == 0:
            break
    return depth


def _set_frames(node: Node | None, frames: list[str]) -> None:
    if node is not None and frames:
        node.frames = stack(frames)


def _parameter(m: "re.Match[str]") -> Parameter:
    reference = re.search(r"ref_key=([^,>]+)", m[3])
    return Parameter(
        reference[1] if reference else m[2],
        reference is not None or "IsWeight: true" in m[3],
        "is_inplace" in m[3],
        "Monad" in m[3].split(",")[0],
    )


def _node(line: str, m: "re.Match[str]", nodes: dict[str, Node], parameters: dict[str, Parameter]) -> Node:
    args, rest = _arguments(line, m.end())
    arguments: list[Node | Parameter | str] = []
    for arg in args:
        if number := re.match(r"%para(\d+)_", arg):
            arguments.append(parameters.get(number[1], arg))
        elif number := re.fullmatch(r"%(\d+)", arg):
            arguments.append(nodes.get(number[1], arg))
        else:
            arguments.append(arg)
    recompute = _RECOMPUTE.search(line, rest)
    ids = {m[1] or "": m[2] for m in _UNIQUE.finditer(line, rest)}
    return Node(
        m[2].removeprefix("PrimFunc_"),
        arguments,
        recompute=recompute[0] if recompute else "",
        is_duplicate="duplicated: Bool(1)" in line[rest:],
        unique_id=ids.get("", ""),
        forward_id=ids.get("forward_", ""),
    )


def _arguments(line: str, start: int) -> tuple[list[str], int]:
    """Return the comma-separated texts in the brackets that open before `start`, and the position where they close.

    The position is the length of the line if they do not close.
    """
    depth, begin = 1, start
    found: list[str] = []
    for m in _SEPARATORS.finditer(line, start):
        at = m.start()
        if m[0] in "([{":
            depth += 1
        elif m[0] != ",":
            depth -= 1
        if depth == 0 or (m[0] == "," and depth == 1):
            if piece := line[begin:at].strip():
                found.append(piece)
            begin = at + 1
        if depth == 0:
            return found, at
    return found, len(line)
