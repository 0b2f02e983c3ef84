"""What the running framework says: the rank, the device, and when it has nothing in hand any more."""

import os

import mindspore as ms
from mindspore.communication import GlobalComm, get_rank

from msprobe.executors import executor, tracer

_DEVICE = "Ascend"


def has_tensor_dump() -> bool:
    """Whether a graph on this device cannot call Python, but has an operator of its own that writes tensors."""
    return bool(ms.get_context("device_target") == _DEVICE)


def rank() -> int:
    """The rank of this process; 0 where there is none."""
    return int(get_rank() if GlobalComm.INITED else os.environ.get("RANK_ID") or 0)


def is_traced() -> bool:
    """Whether Python runs to be captured as a graph, and will not run again (`capture_mode="trace"`)."""
    return bool(getattr(tracer, "_using_trace", False))


def synchronize() -> None:
    """Wait until everything that was given to the framework has run."""
    executor.sync()
    if ms.get_context("device_target") != "CPU":
        ms.runtime.synchronize()
