"""What is collected besides cells: functions, primitives, `@jit` code, and what the user registers (L1 and mix)."""

from collections.abc import Iterator
from typing import Any

from msprobe.base.patches import Patch, Patches
from msprobe.cell_dump.function_calls import FunctionCalls
from msprobe.cell_dump.recorded import Current

from . import api, jit
from .primitive import PrimitiveCalls
from .users import USERS


class Sources(FunctionCalls):
    """The sources of one collector. Their places are taken and given back with its patches."""

    users = USERS
    other_stems = ("Primitive.", "Jit.")
    golden = "MindSpore"

    def __init__(self, current: Current, patches: Patches) -> None:
        super().__init__(current, patches)
        self._primitives = PrimitiveCalls(current)

    def _functions(self) -> Iterator[Patch]:
        yield from api.plan(self._current, self._patches, self._wanted)
        jit.plan_calls(self._current, self._patches, self._wanted)

    def _stems(self) -> Iterator[str]:
        return (stem for *_, stem in api.functions())

    def _take_in(self, roots: list[Any]) -> None:
        self._primitives.add(roots, self._patches, self._wanted)
        super()._take_in(roots)
