"""How kernels are named in `list` at level L2: the grammar of the framework's own dump settings.

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
from difflib import get_close_matches

from .checks import shown

_REGEX = re.compile(r"name-regex\((.*)\)", re.DOTALL)
_NUMBER = re.compile(r"-op\d+$")
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
    return _NUMBER.sub("", kernel.rpartition("/")[2])


def wrong_kernel(name: str) -> str:
    """What is wrong with a name of `list`, empty where nothing is. Whether such a kernel exists shows in the run."""
    if not name.strip() or name != name.strip() or _CONTROL.search(name):
        return f"{shown(name)} is no kernel's name; write it without blanks around it and without control characters"
    if not name.startswith("name-regex"):
        return ""
    pattern = expression(name)
    if not pattern:
        return f'{shown(name)} has no expression between its parentheses; write "name-regex(.*MatMul.*)"'
    if foreign := _ONLY_PYTHON.search(pattern):
        return f"{shown(name)}: the framework's expressions (ECMAScript) do not know {shown(foreign[0])}; do without it"
    try:
        re.compile(pattern)
    except re.error as err:
        return f"{shown(name)} is no regular expression: {err}; mend it"
    return ""


def matches(name: str, kernel: str) -> bool:
    """Whether a name of `list` means the kernel with this full scope name."""
    pattern = expression(name)
    if pattern is not None:
        return re.fullmatch(pattern, kernel) is not None
    return name == kernel or name.lower() in type_of(kernel).lower()


def hangs_on_number(name: str, kernel: str) -> bool:
    """Whether a name means this kernel, and would not under another number."""
    return matches(name, kernel) and not matches(name, _NUMBER.sub("-op987654321", kernel))


def of_any_number(kernel: str) -> str:
    """The name that means a kernel whatever its number."""
    stem = _SPECIAL.sub(r"\\\g<0>", _NUMBER.sub("", kernel))
    return f"name-regex({stem}-op[0-9]+)"


def unmatched(names: Iterable[str], kernels: Iterable[str]) -> dict[str, str]:
    """The names that mean none of the kernels, each with the nearest name that would have; empty where none is near."""
    there = tuple(dict.fromkeys(kernels))
    types = tuple(dict.fromkeys(map(type_of, there)))
    return {name: _nearest(name, there, types) for name in names if not any(matches(name, each) for each in there)}


def _nearest(name: str, kernels: tuple[str, ...], types: tuple[str, ...]) -> str:
    known = kernels if "/" in name else types
    if expression(name) is not None:
        return ""
    spelled = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), list(spelled), 1)
    return spelled[near[0]] if near else ""
