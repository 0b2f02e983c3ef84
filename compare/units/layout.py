"""The layout of a unit: the names and types of its calls, and their nesting."""

from collections.abc import Sequence

from msprobe.base import names
from msprobe.compare.core.exchanges import word_of
from msprobe.report.document import Layout

from .calls import UnitCalls

_OF_FAMILY = {"kernels": "k", "saves": "s", "single saves": "s", "npy": "s"}

_OPTIMIZER = ("optimizer", "clip_grad")


def layout_of(calls: UnitCalls) -> Layout:
    """Return the layout of all calls of a unit."""
    parsed, parents = calls.parsed, calls.parents
    kinds = "".join(_kind(name, calls.family) for name in parsed)
    return Layout(
        tuple(calls.names),
        tuple(parents),
        kinds,
        "".join(name.direction[:1] or "." for name in parsed),
        _classes(parsed),
        micro_steps(parsed, parents, kinds),
        _golden_names(calls),
    )


def _kind(name: names.Name, family: str) -> str:
    """Return the letter of a call, as `Layout.kinds` has it."""
    if family in _OF_FAMILY:
        return _OF_FAMILY[family]
    if name.kind == "parameters_grad":
        return "g"
    if name.kind == "debug":
        return "s"
    head, _, rest = name.stem.partition(".")
    if head.lower().startswith(_OPTIMIZER) or (name.kind == "cell" and rest.lower().startswith(_OPTIMIZER)):
        return "o"
    if name.kind == "cell":
        return "m"
    if word_of(name.text) or head in ("Distributed", "MintDistributed"):
        return "c"
    return {"Primitive": "p", "Jit": "j"}.get(head, "a")


def _classes(parsed: Sequence[names.Name]) -> tuple[str, ...]:
    """Return the classes of cells, empty for all other calls; nothing at all if there are no cells."""
    found = tuple(name.stem.rsplit(".", 1)[-1] if name.kind in ("cell", "parameters_grad") else "" for name in parsed)
    return found if any(found) else ()


def micro_steps(parsed: Sequence[names.Name], parents: Sequence[int], kinds: str) -> tuple[int, ...]:
    """Return the micro step of each call; empty if there is one.

    At the top level, a module that is called forward after one that was called backward begins a new one (calls inside
    belong to the call around them).
    """
    number, is_behind_backward = 0, False
    found = [-1] * len(parsed)
    for at, parent in enumerate(parents):
        if parent >= 0:
            continue
        if kinds[at] == "m":
            if parsed[at].direction == "backward":
                is_behind_backward = True
            elif is_behind_backward:
                number, is_behind_backward = number + 1, False
        found[at] = number
    if not number:
        return ()
    for at in range(len(parsed)):
        way: list[int] = []
        while found[at] < 0 and len(way) <= len(parsed):
            way.append(at)
            at = parents[at]
        for each in way:
            found[each] = found[at]
    return tuple(found)


def _golden_names(calls: UnitCalls) -> tuple[str, ...]:
    """Return the golden's names if they differ from the target's, otherwise empty texts; nothing if all are equal."""
    golden = calls.golden
    if golden is None:
        return ()
    theirs = golden.dump.columns.names
    both = ((calls.target.calls >= 0) & (golden.calls >= 0)).tolist()
    pairs = zip(calls.names, golden.calls.tolist(), both, strict=True)
    found = tuple(theirs[at] if is_both and theirs[at] != name else "" for name, at, is_both in pairs)
    return found if any(found) else ()
