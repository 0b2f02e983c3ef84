"""The roots of RL flows, and which kind of comparison two paths need."""

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from msprobe.base.errors import DumpError, UsageError
from msprobe.compare.request import Request
from msprobe.store.detect import is_checkpoint, kind_of
from msprobe.store.folders import DUMP_FILES, TREES, look, of_rank, of_run, ranks_in, steps_in, trees_in
from msprobe.store.layout import DATA
from msprobe.store.rl_roots import FlowRoot, flow_in, flow_root

if TYPE_CHECKING:
    from msprobe.compare.jobs.summary import Answer

    from .compare import Stepwise
    from .result import FlowResult

ITSELF = "the debugger itself"
"""The name of what a debugger collected outside its stages."""


def root_of(path: Path) -> FlowRoot:
    """What lies in a folder, with what the debugger itself collected as a stage. DumpError where it cannot be read."""
    found, top = flow_root(path), look(path)
    stages = {name: folder for name, folder in found.stages.items() if name not in TREES}
    if of_run(top) == "dump" or trees_in(top):
        stages[ITSELF] = path
    return replace(found, stages=stages)


def is_root(path: Path) -> bool:
    """Whether a folder is the root of a flow: by its parts, or by dumps in folders of any name."""
    try:
        if not path.is_dir() or path.absolute().name == DATA:
            return False
        top = look(path)
        if not DUMP_FILES.isdisjoint(top.files) or any(of_rank(look(path / rank), "") for rank in ranks_in(top)):
            return False
        if not top.files and {*steps_in(top), *TREES}.issuperset(top.folders):
            return False  # a plain run, perhaps of many steps, without a look into each
        return flow_in(top) is not None or not {ITSELF}.issuperset(root_of(path).stages)
    except (DumpError, OSError, ValueError):  # whoever compares it says what is wrong with the path
        return False


def carry_out(request: Request) -> "Answer | FlowResult | Stepwise":
    """Compare what the request names; every kind of answer has `lines`, `is_clean` and `outcomes`.

    UsageError where only one side is the root of a flow, and for checkpoints. Beside a root, a folder of key data alone
    counts as one, and so does a run of steps, where the debugger of the root collected some outside its stages too.
    """
    paths = request.target, request.golden
    roots = [path for path in paths if not request.read_as and is_root(path)]
    if not roots and not request.read_as:
        from .compare import compare_steps as compare_stepwise
        from .compare import roots_by_step

        target, golden = map(roots_by_step, paths)
        if target and golden:
            _refuse_calibrating(request)
            return compare_stepwise(request, target, golden)
    if not roots:
        from msprobe.compare.jobs.run import run_request as compare_dumps

        try:
            return compare_dumps(request)
        except DumpError:
            _refuse_checkpoints(paths)
            raise
    _refuse_calibrating(request)
    from .compare import compare_flows

    if len(roots) == 1:
        request = _beside(roots[0], request)
    return compare_flows(request)


def _refuse_calibrating(request: Request) -> None:
    if request.calibrate is not None:
        raise UsageError(
            "--calibrate takes runs that are no RL flows: calibrate with the folder of one stage, as in "
            "ROOT/actor_update, and give the noise.json that it writes with --noise"
        )


def _refuse_checkpoints(paths: tuple[Path, Path]) -> None:
    found = [path for path in paths if is_checkpoint(path)]
    if found:
        named = paths if len(found) == 2 else (found[0], Path("OTHER"))
        raise UsageError(
            f"{found[0]}: is a checkpoint, not a dump; compare two of them with: "
            f"msprobe config_check --compare {' '.join(quote(str(path)) for path in named)}"
        )


def _beside(root: Path, request: Request) -> Request:
    """The request with the folder that the other side means, which is no root itself."""
    side = "golden" if request.target == root else "target"
    kind, known = kind_of(getattr(request, side)), root_of(root)
    parts = {"single saves"} | ({"run", "trees"} if ITSELF in known.stages else set())
    if kind.word not in parts:
        stage = next((name for name in known.stages if name != ITSELF), "actor_update")
        raise UsageError(
            f"the sides are of two kinds: {root} is {known.says}, {kind.path} is {kind.says}; give two roots, or of "
            f"both the folder of one stage, as in ROOT/{stage}"
        )
    return replace(request, **{side: kind.path})  # type: ignore[arg-type]  # the side is a path
