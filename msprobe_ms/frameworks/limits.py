"""Settings that only one framework supports. Imports no framework, because `msprobe doctor` uses this module too."""

from msprobe.base.settings import Settings


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
