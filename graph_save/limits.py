"""Limits of collecting in graph mode. Imports no framework, because `msprobe doctor` uses this module too."""


def unsupported_in_graphs(level: str, task: str, device: str) -> str:
    """Return why graph mode cannot collect this level and task on a device; an empty string if it can.

    Not for kernels (level L2).
    """
    if level not in ("L0", "mix"):
        return (
            f'level "{level}" collects calls from Python, and there are none in graph mode; use level "L0" for '
            'cells, "L2" for kernels, or mindspore.set_context(mode=mindspore.PYNATIVE_MODE)'
        )
    if task == "acc_check":
        return (
            'task "acc_check" checks calls from Python, and there are none in graph mode; use '
            "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
        )
    if task == "graft":
        return (
            'task "graft" replaces values of calls from Python, and there are none in graph mode; use '
            "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
        )
    if task == "exception_dump":
        return (
            'task "exception_dump" collects exceptions raised in calls from Python, and there are none in graph '
            'mode; use mindspore.set_context(mode=mindspore.PYNATIVE_MODE), or on Ascend level "L2"'
        )
    if device not in ("CPU", "Ascend"):
        return (
            f"cells in graphs are collected only on CPU and Ascend, but the device is {device}; use "
            "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)"
        )
    return ""
