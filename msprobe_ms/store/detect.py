"""What a path holds: a dump, a run of many, or files that something else wrote. Only names are looked at."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.language import translated
from msprobe.base.log import join_names, log_once
from msprobe.options.declaration import OptionGroup

from . import layout
from .folders import (
    DUMP_FILES,
    NAMED,
    Folder,
    further_runs,
    is_file,
    is_golden,
    look,
    of_rank,
    of_run,
    of_step,
    ranks_in,
    steps_in,
    trees_in,
    walk,
)

# What knows kernel dumps, saves and flows is imported where a path may be one: most are dumps.

Word = Literal["dump", "step", "run", "trees", "kernels", "saves", "single saves", "flow", "npy"]

_GIVE = (
    "give a dump.json, the folder of a rank, a step or a run, a golden file, a kernel dump, the folder of single or "
    "graph saves, the root of an RL flow, or a folder of npy files"
)
_GIVE_ZH = (
    "请给出 dump.json，某个 rank、step 或整次运行的文件夹，golden 文件，kernel dump，单独保存或图模式保存的文件夹，"
    "强化学习流程的根目录，或存放 npy 文件的文件夹"
)
_Options = TypeVar("_Options", bound=OptionGroup)

_RUN_ABOVE = 5  # folders: {stage}/graph/step0/rank/dump.json in that of a run


@dataclass(frozen=True, slots=True)
class Kind:
    """What a path is, and what its reader takes: `path`. `text` is a phrase for the log.

    | word | `path` | reader |
    |---|---|---|
    | `dump` | a dump.json, debug.json, or the folder that holds one | `read` |
    | `step` | a folder of ranks | `read` of each |
    | `run` | a folder of steps, also that of a golden file, unpacked | `read` of each rank of each |
    | `trees` | a folder with the runs `graph` and `pynative`, or one of the two | as `run` |
    | `kernels` | the framework's own kernel dump | `kernel_dumps`, `read_kernels` |
    | `saves` | a tree of graph saves | `saved_dumps`, `read_saves` |
    | `single saves` | a folder that holds `data` | `single_dumps`, `read_single` |
    | `flow` | the root of an RL flow: key data, configurations, a run of dumps per stage | `flow_root` |
    | `npy` | any other tree of npy files | `npy_dumps`, `read_npys` |
    """

    word: Word
    path: Path
    text: str


def kind_of(path: str | Path) -> Kind:
    """Return the kind of data in `path`. DumpError, with the content found and what to pass instead, if it is of no
    supported kind.

    Links to folders below `path` are not followed, which is logged. No file is opened. It is logged if other runs
    followed this one in the same folder.
    """
    root = Path(path)
    try:
        is_folder, exists = root.is_dir(), root.exists()
    except (OSError, ValueError) as err:  # ValueError: a path that no file can have
        raise DumpError(
            translated(
                f"{root}: cannot be opened ({err}); check the path and its permissions",
                f"{root}：无法打开（{err}）；请检查路径和权限",
            )
        ) from err
    if not exists:
        raise DumpError(
            translated(f"{root}: no such file or folder; {_GIVE}", f"{root}：没有该文件或文件夹；{_GIVE_ZH}")
        )
    _log_further_runs(root)
    if is_golden(root):
        from .golden import dump_of

        return replace(kind_of(dump_of(root)), text="a golden file")
    if not is_folder:
        return _of_file(root)
    top = look(root)
    if not DUMP_FILES.isdisjoint(top.files):
        return Kind("dump", root, "a dump of one step and rank")
    return _in_layout(top) or _flow_or_single_saves(top) or _somewhere_below(top)


def bundle_of(paths: Sequence[str | Path | None]) -> Path | None:
    """Return the bundle among the paths of a command line; None if there is none.

    UsageError if there is another path: a bundle has both sides.
    """
    given = [str(path) for path in paths if path]
    found = [path for path in given if path.lower().endswith(".zip")]
    if found:
        from .bundle import has_manifest

        found = [path for path in found if has_manifest(Path(path))]
    if found and len(given) > 1:
        raise UsageError(
            translated(
                f"{found[0]}: is a bundle, which contains both sides; give only the bundle: msprobe compare {found[0]}",
                f"{found[0]}：是 bundle，已包含两侧；请单独给出：msprobe compare {found[0]}",
            )
        )
    return Path(found[0]) if found else None


@contextmanager
def unbundled(bundle: Path | None, options: _Options) -> Iterator[_Options]:
    """Unpack a bundle for the block, and give the options of a command with its sides and what is stored in it.

    Without a bundle the options are given as they are.
    """
    if bundle is None:
        yield options
        return
    from .bundle import unpacked

    with unpacked(bundle) as found:
        sides: dict[str, Any] = {"target": found.target, "golden": found.golden}
        yield found.filled(replace(options, **sides))


_CHECKPOINTS = (".ckpt", ".safetensors", ".pt", ".pth", ".bin", ".safetensors.index.json", ".bin.index.json")


def is_checkpoint(path: Path) -> bool:
    """Return whether a path, which is nothing that is read here, is a file of parameters or a folder of such files."""
    from .kernel_dump.values import is_kernel_file

    try:
        if path.is_file():
            return path.name.endswith(_CHECKPOINTS) and not is_kernel_file(path.name)
        kind_of(path)
    except DumpError:
        names = (name for folder in walk(path, {layout.TENSORS}) for name in folder.files) if path.is_dir() else ()
        return any(name.endswith(_CHECKPOINTS) and not is_kernel_file(name) for name in names)
    except (OSError, ValueError):  # a path that no file can have
        pass
    return False


def _log_further_runs(path: Path) -> None:
    """Log that there are later runs in folders of their own, one of which may be meant."""
    below = path.absolute()
    root = next((above for above in (below, *below.parents[:_RUN_ABOVE]) if _has_register(above)), None)
    if root is None:
        return
    from .run_folder import newest

    with suppress(DumpError, OSError):
        further = [name for name in further_runs(look(root).folders) if _has_register(root / name)]
        last, later = newest(root, further)
        if not later:
            return
        same = last / below.relative_to(root)
        runs = ", ".join(later) if len(later) <= NAMED else f"{later[0]} to {later[-1]}"
        hint = f"give {same} for the last run" if same.exists() else f"the last run, {last}, does not contain this name"
        message = f"{path}: is from an earlier run; later runs are in {runs} in {root}; {hint}"
        log_once(f"runs in {root}", message, logging.WARNING)


def _has_register(folder: Path) -> bool:
    return any(map(is_file, layout.registers(folder)))


def _of_file(file: Path) -> Kind:
    if file.suffix == ".json" or file.name == layout.JOURNAL or file.name in layout.TABLES:
        return Kind("dump", file, "a dump of one step and rank")
    from .kernel_dump.values import STATISTIC

    if file.suffix == ".npy" or file.name in (STATISTIC, layout.SAVES):
        raise DumpError(
            translated(
                f"{file}: is one of several files; give the folder that contains them",
                f"{file}：是多个文件中的一个；请给出包含它们的文件夹",
            )
        )
    raise DumpError(translated(f"{file}: is not a dump.json; {_GIVE}", f"{file}：不是 dump.json；{_GIVE_ZH}"))


def _in_layout(top: Folder) -> Kind | None:
    """Return a folder of ranks or of steps, or of the two trees; None for everything else."""
    name = top.path.absolute().name
    if layout.rank_number(name) is not None and of_rank(top, top.path.absolute().parent.name) == "saves":
        return Kind("saves", top.path, "graph saves of 1 step, 1 rank")
    ranks = ranks_in(top)
    if ranks and (found := of_step(top)):
        if found == "saves":
            return Kind("saves", top.path, f"graph saves of {_count(step=1, rank=len(ranks))}")
        return Kind("step", top.path, f"a step with {_count(rank=len(ranks))}")
    steps = steps_in(top)
    if steps and (found := of_run(top)):
        word: Word = "saves" if found == "saves" else "run"
        what = "graph saves of" if word == "saves" else "a run with"
        return Kind(word, top.path, f"{what} {_size(top, steps)}")
    trees = trees_in(top)
    if trees:
        sizes = []
        for tree in trees:
            inner = look(top.path / tree)
            sizes.append(f"{tree} ({_size(inner, steps_in(inner))})")
        return Kind("trees", top.path, f"the runs {' and '.join(sizes)}" if trees[1:] else f"the run {sizes[0]}")
    return None


def _flow_or_single_saves(top: Folder) -> Kind | None:
    """Return the root of an RL flow, or single saves; the folder `data` itself means its single saves alone."""
    from .rl_roots import flow_in
    from .saves.single_saves import single_dumps

    is_data = top.path.absolute().name == layout.DATA
    if not is_data and (flow := flow_in(top)):
        return Kind("flow", top.path, flow.text)
    if not is_data and layout.DATA not in top.folders:
        return None
    root = top.path.absolute().parent if is_data else top.path
    if not (found := single_dumps(root)):
        return None
    steps, ranks = {step for step, _ in found}, {rank for _, rank in found}
    keys = {folder.parents[1] for folders in found.values() for folder in folders}
    return Kind("single saves", root, f"single saves of {_count(key=len(keys), step=len(steps), rank=len(ranks))}")


def _somewhere_below(top: Folder) -> Kind:
    """Return a kernel dump, or npy files of another tool: the first folder that holds either decides."""
    from .kernel_dump.files import MAPPING, WITHOUT_KERNELS, kernel_dumps, place_of
    from .kernel_dump.values import STATISTIC, from_file, is_kernel_file

    stray: Path | None = None
    for folder in walk(top.path, WITHOUT_KERNELS - {layout.TENSORS}):
        if not DUMP_FILES.isdisjoint(folder.files):
            raise DumpError(
                f"{top.path}: its dumps are deeper than those of a run (step0/rank0), the first in {folder.path}; "
                "give the folder of a rank, of a step, or of all steps"
            )
        is_table = STATISTIC in folder.files or MAPPING in folder.files
        if is_table or any(is_kernel_file(name) and from_file(Path(name), name, 0) for name in folder.files):
            if place_of(folder.path.absolute()) is not None:
                found = kernel_dumps(top.path)
                ranks, iterations = {rank for rank, _ in found}, {iteration for _, iteration in found}
                size = _count(rank=len(ranks), iteration=len(iterations))
                return Kind("kernels", top.path, f"a kernel dump of the framework, of {size}")
            stray = stray or folder.path
        elif any(name.endswith(".npy") for name in folder.files):
            where = "" if folder.path == top.path else f", the first in {folder.path.relative_to(top.path)}"
            return Kind("npy", top.path, f"a tree of npy files{where}")
    if stray:
        raise DumpError(
            f"{stray}: contains files of a kernel dump, but its path does not contain the rank and iteration; "
            "rename it to rank_0/Net/0/0 (rank, network, graph, iteration), or give the complete dump_path"
        )
    raise DumpError(
        translated(
            f"{top.path}: contains nothing that can be compared{_contents(top)}; {_GIVE}",
            f"{top.path}：其中没有可以比对的内容{_contents(top)}；{_GIVE_ZH}",
        )
    )


def _size(run: Folder, steps: list[str]) -> str:
    ranks = {layout.rank_number(rank) for step in steps for rank in ranks_in(look(run.path / step))}
    return _count(step=len(steps), rank=len(ranks))


def _count(**numbers: int) -> str:
    """Return a count with its noun: `2 steps, 1 rank`."""
    return ", ".join(f"{number} {noun}{'s' * (number != 1)}" for noun, number in numbers.items())


def _contents(top: Folder) -> str:
    if not top.folders and not top.files:
        return "; it is empty"
    return f"; it contains {join_names([*(f'{name}/' for name in top.folders), *top.files], NAMED)}"
