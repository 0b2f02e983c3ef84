"""What graph mode cannot collect. No framework is imported here: `msprobe doctor` asks too."""


def wrong_in_graphs(level: str, device: str) -> str:
    """Why a level is not collected in graph mode on a device; empty where it is. Not for kernels, level L2."""
    if level not in ("L0", "mix"):
        return (
            f'level "{level}" sees the calls that Python makes, and in graph mode it makes none; use '
            'level "L0" for cells, "L2" for kernels, or mindspore.set_context(mode=mindspore.PYNATIVE_MODE)'
        )
    if device not in ("CPU", "Ascend"):
        return (
            f"cells in graphs are collected on a CPU and on Ascend, and the device is {device}; use "
            "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
        )
    return ""
