"""Which comparison two paths ask for: of RL flows, where both are roots of one, else of dumps and saves."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.base.errors import DumpError, UsageError
from msprobe.store.flow_roots import flow_in
from msprobe.store.folders import look
from msprobe.store.kinds import kind_of

from .request import Request

if TYPE_CHECKING:
    from .flow.result import FlowResult
    from .jobs.answer import Answer


def carry_out(request: Request) -> "Answer | FlowResult":
    """Compare what the request names; both kinds of answer have `lines`, `is_clean` and `outcomes`.

    UsageError where only one side is the root of a flow; a folder of key data alone counts as one beside a root.
    """
    paths = request.target, request.golden
    may_be = not request.read_as and any(_may_be_flow(path) for path in paths)
    kinds = [kind_of(path) for path in paths] if may_be else []
    words = [kind.word for kind in kinds]
    if "flow" not in words:
        from .jobs.carry_out import carry_out as compare_dumps

        return compare_dumps(request)
    if not {"flow", "single saves"}.issuperset(words):
        said = ", ".join(f"{kind.path} is {kind.says}" for kind in kinds)
        raise UsageError(
            f"the sides are of two kinds: {said}; give two roots, or of both the folder of one stage, as in "
            "ROOT/actor_update"
        )
    from .flow.carry_out import carry_out as compare_flows

    return compare_flows(replace(request, target=kinds[0].path, golden=kinds[1].path))


def _may_be_flow(path: Path) -> bool:
    """Whether a folder could be the root of a flow, at a glance: what it really is takes a look through all of it."""
    try:
        return path.is_dir() and flow_in(look(path)) is not None
    except (DumpError, OSError, ValueError):  # whoever compares it says what is wrong with the path
        return False
