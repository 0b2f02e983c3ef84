"""Which comparison two paths ask for: of RL flows, where both are roots of one, else of dumps and saves."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.base.errors import UsageError
from msprobe.store.kinds import kind_of

from .flow.roots import ITSELF, is_root, root_of
from .request import Request

if TYPE_CHECKING:
    from .flow.result import FlowResult
    from .jobs.answer import Answer


def carry_out(request: Request) -> "Answer | FlowResult":
    """Compare what the request names; both kinds of answer have `lines`, `is_clean` and `outcomes`.

    UsageError where only one side is the root of a flow. Beside a root, a folder of key data alone counts as one, and
    so does a run of steps, where the debugger of the root collected some outside its stages too.
    """
    paths = request.target, request.golden
    roots = [path for path in paths if not request.read_as and is_root(path)]
    if not roots:
        from .jobs.carry_out import carry_out as compare_dumps

        return compare_dumps(request)
    from .flow.carry_out import carry_out as compare_flows

    if len(roots) == 1:
        request = _beside(roots[0], request)
    return compare_flows(request)


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
