"""What is collected besides modules: functions, `@jit` code, and what the user registers (L1 and mix)."""

from collections.abc import Iterator
from typing import Any

import torch

from msprobe.base.errors import SettingsError
from msprobe.base.patches import Patches
from msprobe.cell_dump.custom import CustomCalls
from msprobe.cell_dump.golden import stems_of
from msprobe.cell_dump.mindspore_side import jit
from msprobe.cell_dump.recorded import Current, Stems
from msprobe.cell_dump.references import References, Users

from . import api, collective


def _modules(root: Any) -> Iterator[Any]:
    if isinstance(root, torch.nn.Module):
        yield from root.modules()


USERS = Users(modules_of=_modules, layers=("msadapter.nn.modules.", "mindtorch.nn.modules.", "torch.nn.modules."))
"""Whose modules refer to the layer's functions."""


class Sources:
    """The sources of one collector. Their places are taken and given back with its patches."""

    def __init__(self, current: Current, patches: Patches) -> None:
        self._current, self._patches = current, patches
        self._references = References(USERS)
        self._customs = CustomCalls(current, patches, self._references)
        self._wanted: Stems = None
        self._planned = False

    def plan(self, roots: list[Any], names_from: str = "", rank: str = "") -> None:
        """Plan patches for what is there now, before each `start`, while nothing is installed.

        `roots` are modules whose references are taken in, besides those known already. With `names_from`, the path of a
        golden dump, of this layer or of PyTorch, only what that one names is collected, its rank `rank` if it has
        several.
        """
        if not self._planned:
            self._wanted = self._named(names_from, rank) if names_from else None
            self._planned = True
            collective.plan(self._current, self._patches)
            for patch in api.plan(self._current, self._patches, self._wanted):
                self._references.follow(patch)
            jit.plan_calls(self._current, self._patches, self._wanted)
            self._patches.join(self._references)
        if roots:
            self._references.add(roots)
        self._customs.update(self._wanted)

    @staticmethod
    def _named(path: str, rank: str) -> frozenset[str]:
        stems = stems_of(path, rank)
        ours = {stem for *_, stem in api.functions()}
        if not any(stem in ours or stem.startswith("Jit.") for stem in stems):
            raise SettingsError(
                f"names_from: {path}: none of its {len(stems)} functions is known here; give a dump of PyTorch, or of "
                "its API on MindSpore"
            )
        return stems
