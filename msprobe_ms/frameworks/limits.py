"""Settings that only one framework supports. Imports no framework, because `msprobe doctor` uses this module too."""

from msprobe.base.framework import TITLES
from msprobe.base.settings import Settings

COMPILES_GRAPHS = frozenset({"mindspore"})
"""Frameworks of which calls in compiled graphs, and kernels, are collected."""

DISPATCHES_SINCE: dict[str, tuple[int, ...]] = {"mindspore": (2, 9), "pytorch": ()}
"""The first versions that can record operations as they are dispatched; () for all versions."""

CALL_PREFIXES = {
    "mindspore": ("Cell", "Mint", "MintFunctional", "MintDistributed", "Primitive", "Jit", "Dispatch"),
    "pytorch": ("Module", "Torch", "NPU", "Aten", "VF"),
}
"""Beginnings of names of calls that only one framework has; the first is that of its modules."""


def can_dispatch(framework: str, version: tuple[int, ...]) -> bool:
    """Return whether a version of a framework can record operations as they are dispatched."""
    return framework in DISPATCHES_SINCE and version >= DISPATCHES_SINCE[framework]


def dispatch_requirement(framework: str) -> str:
    """Return the name and the first version of a framework that can record operations as they are dispatched."""
    return f"{TITLES[framework]} {'.'.join(map(str, DISPATCHES_SINCE[framework]))}"


def unsupported(framework: str, settings: Settings) -> str:
    """Return why these settings cannot be used with a framework; empty if they can."""
    return unsupported_by_pytorch(settings) if framework == "pytorch" else unsupported_by_mindspore(settings)


def unsupported_by_pytorch(settings: Settings) -> str:
    """Return why these settings cannot be used with PyTorch; empty if they can."""
    if settings.level == "L2":
        return (
            'level: "L2" dumps kernels of MindSpore and is not available with PyTorch; use "L0", "L1", "mix" or "debug"'
        )
    if settings.jit_cells != "joined" and settings.task != "grad_probe":
        return (
            f'jit_cells: "{settings.jit_cells}" applies to graphs of MindSpore and is not available with PyTorch; '
            "omit it"
        )
    return ""


def unsupported_by_mindspore(settings: Settings) -> str:
    """Return why these settings cannot be used with MindSpore, or PyTorch's API on it; empty if they can."""
    if settings.saves_pt:
        return (
            f'{settings.task}.file_format: "pt" writes tensors of PyTorch; tensors of MindSpore are written as '
            '"npy"; omit the setting'
        )
    return ""
