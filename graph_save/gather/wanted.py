"""The kernels that the dump settings ask for: what is not there is said, with the nearest name that is."""

from collections.abc import Iterable, Sequence

from msprobe.base.kernel_names import matches, type_of, unmatched, wrong_kernel

_SHOWN = 8  # types in a line


def lacking(asked: Iterable[object], dumped: Sequence[str], known: Sequence[str]) -> list[str]:
    """A sentence for each element of `kernels` of which nothing was dumped. `dumped` and `known` are full names: of
    what there is, and of all kernels of the graphs."""
    names = [name for name in asked if isinstance(name, str)]
    says = [f"kernels: {wrong}" for name in names if (wrong := wrong_kernel(name))]
    names = [name for name in names if not wrong_kernel(name)]
    for name, near in unmatched(names, dumped).items():
        idle = [kernel for kernel in known if matches(name, kernel)]
        if idle:
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
