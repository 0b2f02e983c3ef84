"""The grammar of names of calls, such as `Cell.a.fc.Dense.forward.0`, and of kernels at level L2.

```
api         Prefix "." name "." N "." direction            Functional.relu.0.forward
primitive   "Primitive." attribute "." Class "." N "." d   Primitive.matmul.MatMul.0.forward
jit         "Jit." name "." N "." direction                Jit.train_step.0.forward
cell        ("Cell"|"Module") "." path "." Class "." direction "." N
paramgrad   ("Cell"|"Module") "." path "." Class ".parameters_grad" ["." K]
debug       name "." N ".debug"
```

For a cell the direction is before the number, for other calls after it.

Kernels in `list` at level L2, in the grammar of the framework's dump settings:

| written | means |
|---|---|
| `Default/network-Net/fc-Dense/MatMul-op0` | this kernel, by its full scope name |
| `MatMul` | every kernel whose type contains this, also `BatchMatMul`, forward and gradient, in any letter case |
| `name-regex(.+/fc-Dense/.+)` | every kernel whose *whole* full scope name the expression matches |

In the texts of graphs the number after `-op` is counted per graph, but at run time, when names are matched, it is
counted over all graphs of the process. The two agree only for the first graph.
"""

import re
from collections.abc import Collection, Container, Iterable
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from .checks import nearest, quoted
from .language import translated
from .log import join_names, shortened

Direction = Literal["forward", "backward", ""]
Kind = Literal["cell", "api", "parameters_grad", "debug", "other"]

API_PREFIXES = (
    *("Tensor", "Functional", "Mint", "MintFunctional", "MintDistributed", "Distributed", "Primitive", "Jit"),
    *("Dispatch", "Torch", "NPU", "Aten", "VF"),
)
"""Prefixes of the names of functions; functions registered by the user may have other prefixes."""

KERNEL = "Kernel"
"""Prefix of the names of kernels of a graph."""

PARAMETER = "Parameter"
"""Prefix of the names of parameters and arguments of a graph: their op type in the framework's dump."""

# A number has at most 18 digits: Python cannot parse numbers of thousands of digits in broken dumps.
_NUMBER = r"([0-9]{1,18})"
_CELL = re.compile(rf"((?:Cell|Module)\..+)\.(forward|backward)\.{_NUMBER}", re.DOTALL)
_API = re.compile(rf"(.+)\.{_NUMBER}\.(forward|backward)", re.DOTALL)
_PARAMETERS_GRAD = re.compile(rf"((?:Cell|Module)\..+)\.parameters_grad(?:\.{_NUMBER})?", re.DOTALL)
_DEBUG = re.compile(rf"(.+)\.{_NUMBER}\.debug", re.DOTALL)


class Name(NamedTuple):
    """The parsed name of a call.

    text : the whole name.
    kind : kind of call.
    stem : part before direction and number: `Cell.a.fc.Dense`, `Functional.relu`.
    direction : "forward", "backward", or empty.
    number : number of the call; -1 if the name has none.
    """

    text: str
    kind: Kind
    stem: str
    direction: Direction
    number: int

    @property
    def path(self) -> str:
        """Return the dotted path of a cell without prefix and class (`a.fc`); empty for other calls."""
        if self.kind not in ("cell", "parameters_grad"):
            return ""
        return ".".join(self.stem.split(".")[1:-1])


# Shared strings, to save memory.
_DIRECTIONS: dict[str, Direction] = {"forward": "forward", "backward": "backward"}


@lru_cache(maxsize=1 << 12)
def _stem(text: str) -> str:
    return text


# The names of two large dumps are read repeatedly in the same order, where a smaller LRU cache would never hit.
@lru_cache(maxsize=1 << 18)
def parse(text: str) -> Name:
    """Parse the name of a call; a text that matches no rule has kind "other" and is its own stem."""
    if m := _CELL.fullmatch(text):
        return Name(text, "cell", m[1], _DIRECTIONS[m[2]], int(m[3]))
    if m := _API.fullmatch(text):
        return Name(text, "api", _stem(m[1]), _DIRECTIONS[m[3]], int(m[2]))
    if m := _PARAMETERS_GRAD.fullmatch(text):
        return Name(text, "parameters_grad", m[1], "backward", int(m[2]) if m[2] else -1)
    if m := _DEBUG.fullmatch(text):
        return Name(text, "debug", m[1], "", int(m[2]))
    return Name(text, "other", text, "", -1)


def api_call(stem: str, number: int, direction: str) -> str:
    """Return the name of an API, primitive or jit call: `Functional.relu.0.forward`."""
    return f"{stem}.{number}.{direction}"


def cell_call(stem: str, number: int, direction: str) -> str:
    """Return the name of a cell call: `Cell.fc.Dense.forward.0`."""
    return f"{stem}.{direction}.{number}"


def api_calls(stem: str, number: int) -> tuple[str, str]:
    """Return the forward and backward name of an API call."""
    return f"{stem}.{number}.forward", f"{stem}.{number}.backward"


def cell_calls(stem: str, number: int) -> tuple[str, str]:
    """Return the forward and backward name of a cell call."""
    return f"{stem}.forward.{number}", f"{stem}.backward.{number}"


def counterpart(text: str, direction: Literal["forward", "backward"]) -> str:
    """Return the name of the same call in another direction; the text itself if it has no direction."""
    name = parse(text)
    made = {"cell": cell_call, "api": api_call}.get(name.kind)
    return made(name.stem, name.number, direction) if made else text


_REGEX = re.compile(r"name-regex\((.*)\)", re.DOTALL)
_KERNEL_NUMBER = re.compile(r"-op\d+$")
_SPECIAL = re.compile(r"[.^$*+?()\[\]{}|\\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ONLY_PYTHON = re.compile(r"\(\?(?![:=!])|(?<!\\)\\[AZ]|[+*?}]\+")
"""Syntax of Python's `re` that ECMAScript expressions do not support: `(?i)`, `(?<=`, `(?P<`, `\\A`, `a++`."""


def expression(name: str) -> str | None:
    """Return the expression in `name-regex(...)`; None for other names."""
    found = _REGEX.fullmatch(name)
    return found[1] if found else None


def type_of(kernel: str) -> str:
    """Return the operator type of a full scope name: the last part without its number."""
    return _KERNEL_NUMBER.sub("", kernel.rpartition("/")[2])


def kernel_name_problem(name: str) -> str:
    """Return why a name in `list` is invalid; empty if it is valid. Does not check whether such a kernel exists."""
    if not name.strip() or name != name.strip() or _CONTROL.search(name):
        return (
            f"{quoted(name)} is not a kernel name; write it without surrounding spaces and without control characters"
        )
    if not name.startswith("name-regex"):
        return ""
    pattern = expression(name)
    if not pattern:
        return f'{quoted(name)} has no expression in its parentheses; write "name-regex(.*MatMul.*)"'
    if foreign := _ONLY_PYTHON.search(pattern):
        return (
            f"{quoted(name)}: the framework's regular expressions (ECMAScript) do not support {quoted(foreign[0])}; "
            "remove it"
        )
    try:
        re.compile(pattern)
    except re.error as err:
        return f"{quoted(name)} is not a valid regular expression: {err}; correct it"
    return ""


_MOST_SEARCHED = 20_000
"""Names among which a similar one is searched."""


def call_of(name: str, calls: Container[str]) -> str | None:
    """Return the call with this name, or the call whose record has this name; None if there is no such call."""
    while name and name not in calls:
        name = name.rpartition(".")[0]
    return name or None


_RUNNING = frozenset(["moving_mean", "moving_variance", "running_mean", "running_var", "num_batches_tracked"])


def is_running_statistic(parameter: str) -> bool:
    """Return whether a parameter is, by its name, a running statistic of a normalization layer, which no optimizer
    updates."""
    return parameter.rpartition(".")[2] in _RUNNING


def similar_calls(name: str, calls: Collection[str]) -> list[str]:
    """Return the calls whose names contain this text in any letter case; if there are none, the most similar one."""
    found = [call for call in calls if name and name.lower() in call.lower()]
    if not found and (near := nearest(name, islice(calls, _MOST_SEARCHED))):
        found = [near]
    return found


def unknown_call(name: str, calls: Collection[str]) -> str:
    """Return the message for a name that no call has, with the calls that it may mean."""
    alike = similar_calls(name, calls)
    listed, word = join_names(alike or calls, _MAX_LISTED), shortened(name, _MAX_TEXT)
    if alike:
        return translated(
            f"no call is named {word!r}; did you mean: {listed}", f"没有名为 {word!r} 的调用；是否指：{listed}"
        )
    return translated(f"no call is named {word!r}; there are: {listed}", f"没有名为 {word!r} 的调用；已有：{listed}")


_MAX_LISTED, _MAX_TEXT = 8, 200
"""Names in a message, and characters of one, at most."""


def matches(name: str, kernel: str) -> bool:
    """Return whether a name in `list` selects the kernel with this full scope name."""
    pattern = expression(name)
    if pattern is not None:
        return re.fullmatch(pattern, kernel) is not None
    return name == kernel or name.lower() in type_of(kernel).lower()


def depends_on_number(name: str, kernel: str) -> bool:
    """Return whether a name selects this kernel, but not the same kernel with another number."""
    return matches(name, kernel) and not matches(name, _KERNEL_NUMBER.sub("-op987654321", kernel))


def with_any_number(kernel: str) -> str:
    """Return a name that selects a kernel with any number."""
    stem = _SPECIAL.sub(r"\\\g<0>", _KERNEL_NUMBER.sub("", kernel))
    return f"name-regex({stem}-op[0-9]+)"


def unmatched(names: Iterable[str], kernels: Iterable[str]) -> dict[str, str]:
    """Return the names that select no kernel, each with the closest valid name or an empty string."""
    from difflib import get_close_matches  # lazy: rarely needed

    known = tuple(dict.fromkeys(kernels))
    by_type = {kind.lower(): kind for kind in map(type_of, known)}
    by_name = {each.lower(): each for each in known}
    found = {}
    for name in names:
        if not any(matches(name, each) for each in known):
            spelled = by_name if "/" in name else by_type
            near = [] if expression(name) is not None else get_close_matches(name.lower(), list(spelled), 1)
            found[name] = spelled[near[0]] if near else ""
    return found
