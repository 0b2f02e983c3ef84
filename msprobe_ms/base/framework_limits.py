"""Settings that one framework alone has. No framework is imported here: `msprobe doctor` asks too."""

from .settings import Settings


def wrong_with_pytorch(settings: Settings) -> str:
    """Why PyTorch cannot be collected by these settings; empty where it can."""
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


def wrong_with_mindspore(settings: Settings) -> str:
    """Why MindSpore, or PyTorch's API on it, cannot be collected by these settings; empty where it can."""
    if settings.saves_pt:
        return (
            f'{settings.task}.file_format: "pt" writes tensors of PyTorch; tensors of MindSpore are written as '
            '"npy"; omit the setting'
        )
    return ""
