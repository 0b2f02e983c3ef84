"""What graph mode cannot collect. No framework is imported here: `msprobe doctor` asks too."""


def wrong_in_graphs(level: str, task: str, device: str) -> str:
    """Why graph mode cannot collect this on a device; empty where it can. Not for kernels, level L2."""
    if level not in ("L0", "mix"):
        return (
            f'level "{level}" sees the calls that Python makes, and in graph mode it makes none; use '
            'level "L0" for cells, "L2" for kernels, or mindspore.set_context(mode=mindspore.PYNATIVE_MODE)'
        )
    if task == "acc_check":
        return (
            'task "acc_check" checks calls that Python makes, and in graph mode it makes none; use '
            "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
        )
    if task == "exception_dump":
        return (
            'task "exception_dump" sees exceptions that pass through calls of Python, and in graph mode there are '
            'none; use mindspore.set_context(mode=mindspore.PYNATIVE_MODE), or on Ascend level "L2"'
        )
    if device not in ("CPU", "Ascend"):
        return (
            f"cells in graphs are collected on a CPU and on Ascend, and the device is {device}; use "
            "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
        )
    return ""
