"""The kernels that the dump settings ask for: what is not there is said, with the nearest name that is."""

from collections.abc import Iterable, Sequence

from msprobe.base.kernel_names import hangs_on_number, matches, of_any_number, type_of, unmatched, wrong_kernel

_SHOWN = 8  # types in a line


def lacking(asked: Iterable[str], dumped: Sequence[str], known: Sequence[str]) -> list[str]:
    """A sentence for each element of `kernels` of which nothing was dumped. `dumped` and `known` are full names: of
    what there is, and of all kernels of the graphs."""
    faults = {name: wrong_kernel(name) for name in asked}
    says = [f"kernels: {wrong}" for wrong in faults.values() if wrong]
    names = [name for name, wrong in faults.items() if not wrong]
    for name, near in unmatched(names, dumped).items():
        idle = [kernel for kernel in known if matches(name, kernel)]
        if idle and hangs_on_number(name, idle[0]):
            what = (
                f"is {idle[0]}, of which nothing was dumped: it did not run, or ran under another number, as in graphs "
                f"after the first; {of_any_number(idle[0])!r} asks for all numbers"
            )
        elif idle:
            what = f"is {idle[0]}, which did not run in what was dumped"
        else:
            near = unmatched([name], known).get(name) or near
            what = f"matches no kernel; {f'did you mean {near}?' if near else _there(known or dumped)}"
        says.append(f"kernels: {name!r} {what}")
    return says


def _there(known: Sequence[str]) -> str:
    types = sorted({type_of(name) for name in known})
    if not types:
        return "no kernel ran at all"
    return f"there are {', '.join(types[:_SHOWN])}{' and others' if len(types) > _SHOWN else ''}"
