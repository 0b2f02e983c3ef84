"""The grammar of names: those of calls, such as `Cell.a.fc.Dense.forward.0`, and the kernel names of level L2.

```
api         Prefix "." name "." N "." direction            Functional.relu.0.forward
primitive   "Primitive." attribute "." Class "." N "." d   Primitive.matmul.MatMul.0.forward
jit         "Jit." name "." N "." direction                Jit.train_step.0.forward
cell        ("Cell"|"Module") "." path "." Class "." direction "." N
paramgrad   ("Cell"|"Module") "." path "." Class ".parameters_grad" ["." K]
debug       name "." N ".debug"
```

For a cell the direction comes before the number, for everything else after it.

Kernels in `list` at level L2, by the grammar of the framework's own dump settings:

| written | means |
|---|---|
| `Default/network-Net/fc-Dense/MatMul-op0` | this kernel, by its full scope name |
| `MatMul` | every kernel whose type contains this, also `BatchMatMul`, forward and gradient, in any letter case |
| `name-regex(.+/fc-Dense/.+)` | every kernel whose *whole* full scope name the expression matches |

The number behind `-op` is counted per graph in what the framework writes about its graphs, and through all graphs of
the process when a kernel runs, which is when names are held against it. So only in the first graph the two agree.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

from .checks import shown

Direction = Literal["forward", "backward", ""]
Kind = Literal["cell", "api", "parameters_grad", "debug", "other"]

API_PREFIXES = (
    *("Tensor", "Functional", "Mint", "MintFunctional", "MintDistributed", "Distributed", "Primitive", "Jit"),
    *("Dispatch", "Torch", "NPU", "Aten", "VF"),
)
"""What collectors put before the name of a function; one that the user registered himself may have any other."""

KERNEL = "Kernel"
"""What the names of the kernels of a graph begin with."""

PARAMETER = "Parameter"
"""What the names of a graph's parameters and arguments begin with: the op type under which the framework writes them,
after the graph has run."""

# A number has at most 18 digits: a name in a broken dump must not become a number that Python refuses to read.
_NUMBER = r"([0-9]{1,18})"
_CELL = re.compile(rf"((?:Cell|Module)\..+)\.(forward|backward)\.{_NUMBER}", re.DOTALL)
_API = re.compile(rf"(.+)\.{_NUMBER}\.(forward|backward)", re.DOTALL)
_PARAMETERS_GRAD = re.compile(rf"((?:Cell|Module)\..+)\.parameters_grad(?:\.{_NUMBER})?", re.DOTALL)
_DEBUG = re.compile(rf"(.+)\.{_NUMBER}\.debug", re.DOTALL)


class Name(NamedTuple):
    """A call's name, taken apart.

    `stem` is everything before direction and number: `Cell.a.fc.Dense`, `Functional.relu`.
    `number` is -1 where the name carries none.
    """

    text: str
    kind: Kind
    stem: str
    direction: Direction
    number: int

    @property
    def path(self) -> str:
        """The dotted path of a cell without prefix and class (`a.fc`); empty for everything else."""
        if self.kind not in ("cell", "parameters_grad"):
            return ""
        return ".".join(self.stem.split(".")[1:-1])


# One text for all names that share it.
_DIRECTIONS: dict[str, Direction] = {"forward": "forward", "backward": "backward"}


@lru_cache(maxsize=1 << 12)
def _stem(text: str) -> str:
    return text


# The names of two large dumps are gone through again and again, in one order: of a cache that is too small for them,
# each name is dropped just before it is asked for again.
@lru_cache(maxsize=1 << 18)
def parse(text: str) -> Name:
    """Take a call's name apart; a text that fits no rule is of kind `other` and its own stem."""
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
    """The name of an API, primitive or jit call: `Functional.relu.0.forward`."""
    return f"{stem}.{number}.{direction}"


def cell_call(stem: str, number: int, direction: str) -> str:
    """The name of a cell call: `Cell.fc.Dense.forward.0`."""
    return f"{stem}.{direction}.{number}"


def api_calls(stem: str, number: int) -> tuple[str, str]:
    """Both names of such a call, forward and backward, as `api_call` makes them."""
    return f"{stem}.{number}.forward", f"{stem}.{number}.backward"


def cell_calls(stem: str, number: int) -> tuple[str, str]:
    """Both names of a cell's call, forward and backward, as `cell_call` makes them."""
    return f"{stem}.forward.{number}", f"{stem}.backward.{number}"


def counterpart(text: str, direction: Literal["forward", "backward"]) -> str:
    """The name of the same call in the other direction; the text itself where it has none."""
    name = parse(text)
    made = {"cell": cell_call, "api": api_call}.get(name.kind)
    return made(name.stem, name.number, direction) if made else text


_REGEX = re.compile(r"name-regex\((.*)\)", re.DOTALL)
_KERNEL_NUMBER = re.compile(r"-op\d+$")
_SPECIAL = re.compile(r"[.^$*+?()\[\]{}|\\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ONLY_PYTHON = re.compile(r"\(\?(?![:=!])|(?<!\\)\\[AZ]|[+*?}]\+")
"""What Python's `re` knows and the framework's ECMAScript expressions do not: `(?i)`, `(?<=`, `(?P<`, `\\A`, `a++`."""


def expression(name: str) -> str | None:
    """The expression of a `name-regex(...)`, None for every other name."""
    found = _REGEX.fullmatch(name)
    return found[1] if found else None


def type_of(kernel: str) -> str:
    """The operator's type in a full scope name: the last part without its number."""
    return _KERNEL_NUMBER.sub("", kernel.rpartition("/")[2])


def wrong_kernel(name: str) -> str:
    """What is wrong with a name of `list`, empty where nothing is. Whether such a kernel exists shows in the run."""
    if not name.strip() or name != name.strip() or _CONTROL.search(name):
        return f"{shown(name)} is not a kernel name; write it without surrounding spaces and without control characters"
    if not name.startswith("name-regex"):
        return ""
    pattern = expression(name)
    if not pattern:
        return f'{shown(name)} has no expression in its parentheses; write "name-regex(.*MatMul.*)"'
    if foreign := _ONLY_PYTHON.search(pattern):
        return (
            f"{shown(name)}: the framework's regular expressions (ECMAScript) do not support {shown(foreign[0])}; "
            "remove it"
        )
    try:
        re.compile(pattern)
    except re.error as err:
        return f"{shown(name)} is not a valid regular expression: {err}; correct it"
    return ""


def matches(name: str, kernel: str) -> bool:
    """Whether a name of `list` means the kernel with this full scope name."""
    pattern = expression(name)
    if pattern is not None:
        return re.fullmatch(pattern, kernel) is not None
    return name == kernel or name.lower() in type_of(kernel).lower()


def hangs_on_number(name: str, kernel: str) -> bool:
    """Whether a name means this kernel, and would not under another number."""
    return matches(name, kernel) and not matches(name, _KERNEL_NUMBER.sub("-op987654321", kernel))


def of_any_number(kernel: str) -> str:
    """The name that means a kernel whatever its number."""
    stem = _SPECIAL.sub(r"\\\g<0>", _KERNEL_NUMBER.sub("", kernel))
    return f"name-regex({stem}-op[0-9]+)"


def unmatched(names: Iterable[str], kernels: Iterable[str]) -> dict[str, str]:
    """The names that mean none of the kernels, each with the nearest name that would have; empty where none is near."""
    from difflib import get_close_matches  # here: most commands know no kernels

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
