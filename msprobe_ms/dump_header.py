"""What a dump says above its data: how it was made (`docs/format.md`, page 2)."""

import platform
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.settings import Settings, wishes_of
from msprobe.store.layout import TENSORS


def header_of(
    settings: Settings,
    folder: Path,
    framework: str,
    made_with: str,
    step: int,
    rank: int | None,
    stage: int | None = None,
    run: str = "",
    device: str = "",
) -> dict[str, Any]:
    """The header of a step's dump; `made_with` is the framework with its version.

    `stage` is as which of the step's stages this one began; None for a debugger that has no stages and is none. `run`
    tells the dumps of one run from those of another. `device` is what computes, where the framework has one for all.
    """
    return {
        "task": settings.task,
        "level": settings.level,
        "framework": framework,
        "dump_data_dir": str(folder / TENSORS) if wishes_of(settings).any_file else None,
        "run": {
            "tool": f"msprobe-ms {_ours()}",
            **({"id": run} if run else {}),
            "framework": made_with,
            **({"device": device} if device else {}),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "step": step,
            "rank": rank or 0,
            **({} if stage is None else {"stage": stage}),
            "settings": settings.described(),
        },
    }


@lru_cache(1)
def _ours() -> str:
    """Of this distribution; reading its metadata takes as long as some steps of a small training."""
    return version("msprobe-ms")
