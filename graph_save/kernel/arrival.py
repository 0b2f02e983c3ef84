"""Whether what was asked for has come: read from the folders that the framework wrote.

The framework says of a name that matches nothing, or of settings that came too late, little or nothing. So, at the end
of the process, what was asked for is held against the kernels that its graphs have.
"""

from collections.abc import Iterator
from pathlib import Path

from msprobe.base.checks import shown
from msprobe.base.files import TABLE, read_input
from msprobe.base.kernel_names import hangs_on_number, of_any_number, unmatched

from .dump_settings import NET


def rank_root(dump_path: Path, rank: int | None) -> Path:
    """Where the framework writes for a rank; a single process is its rank 0."""
    return dump_path / f"rank_{rank or 0}"


def was_written(root: Path) -> bool:
    """Whether the framework has written to a rank's folder, in this run or an earlier one."""
    return holds_kernels(root) or (root / "execution_order").is_dir()


def holds_kernels(root: Path) -> bool:
    """Whether a rank's folder has kernels, and not only what the framework writes when it compiles a graph."""
    return (root / NET).is_dir()


def kernels_of(root: Path) -> list[str]:
    """The full scope names of all kernels of all graphs that were compiled, in the order of execution."""
    names: list[str] = []
    for file in sorted((root / "execution_order").glob("ms_execution_order_graph_*.csv")):
        names += [line for line in read_input(file, TABLE).decode("utf-8", "replace").splitlines()[1:] if line]
    return names


def complaints(root: Path, asked: tuple[str, ...], steps: set[int]) -> Iterator[str]:
    """What did not come, in sentences: kernels that were named, or everything of the steps that were collected."""
    if not steps:
        return
    kernels = kernels_of(root)
    if not kernels:
        yield (
            f"level L2: the framework has dumped no kernel to {root}: since the debugger was made it has compiled no "
            "graph. Kernels of PyNative operations are not dumped: use GRAPH_MODE or @jit. And settings that come "
            "after the first graph of a process are not read: construct the debugger at the top of the script"
        )
        return
    missed = unmatched(asked, kernels)
    for name, near in missed.items():
        hint = f"did you mean {shown(near)}?" if near else f"the names are in {root / 'execution_order'}"
        yield f"level L2: {shown(name)} of list has matched no kernel; {hint}"
    if len(missed) < len(asked) or not asked:
        written = {each.name for each in (root / NET).glob("*/*")}
        if empty := sorted(step for step in steps if str(step) not in written):
            numbered = next((kernel for name in asked for kernel in kernels if hangs_on_number(name, kernel)), "")
            other = (
                f", or with other numbers; {shown(of_any_number(numbered))} asks for all of them" if numbered else ""
            )
            yield (
                f"level L2: nothing was dumped of step {', '.join(map(str, empty))}: no graph with the kernels asked "
                f"for ran between start() and stop(){other}"
            )
