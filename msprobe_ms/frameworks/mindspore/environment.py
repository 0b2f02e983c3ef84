"""Settings of MindSpore."""

import os
import sys
from collections.abc import Callable
from typing import Any

import mindspore
from mindspore._c_expression import RuntimeConf


class Environment:
    """Settings of MindSpore."""

    def settings(self) -> dict[str, Any]:
        return _settings()


CAPABILITY = Environment()

_EVERYWHERE = (
    *("mode", "device_target", "deterministic", "jit_level", "pynative_synchronize", "memory_optimize_level"),
    *("enable_graph_kernel", "precision_mode", "infer_boost", "runtime_num_threads", "jit_syntax_level"),
)
_OF_TARGET: dict[str, tuple[str, ...]] = {
    "Ascend": ("ascend_config", "max_device_memory"),
    "GPU": ("gpu_config", "conv_allow_tf32", "matmul_allow_tf32", "max_device_memory"),
    "CPU": (),
}
"""The context logs a warning when it is queried for a setting of another device."""

_OP_PRECISION = ("precision_mode", "op_precision_mode", "matmul_allow_hf32", "conv_allow_hf32")


def _settings() -> dict[str, Any]:
    found: dict[str, Any] = {"framework": "mindspore", "version": mindspore.__version__}
    target = _query(mindspore.get_context, "device_target")
    for name in (*_EVERYWHERE, *_OF_TARGET.get(str(target), ())):
        found |= _flat(name, _query(mindspore.get_context, name))
    is_graph = found.get("mode") == mindspore.GRAPH_MODE and os.environ.get("MS_JIT") != "0"
    found["mode"] = "GRAPH" if is_graph else "PYNATIVE"
    for name in _OP_PRECISION:
        value = _query(_of_ascend, name)
        if value != "":
            found[name if name == "precision_mode" else f"op_precision.{name}"] = value
    found["launch_blocking"] = _query(lambda: RuntimeConf.get_instance().is_launch_blocking())
    for name in _PARALLEL:
        found[f"parallel.{name}"] = _query(mindspore.get_auto_parallel_context, name)
    return {name: value for name, value in found.items() if value is not None}


_PARALLEL = ("parallel_mode", "gradients_mean", "gradient_fp32_sync", "loss_repeated_mean", "enable_parallel_optimizer")


def _of_ascend(name: str) -> Any:
    """Return a setting of `device_context.ascend.op_precision`; AttributeError for builds without Ascend."""
    return getattr(sys.modules["mindspore._c_expression"].AscendOpPrecisionConf.get_instance(), name)()


def _flat(name: str, value: Any) -> dict[str, Any]:
    """Return a setting, or its members if it is a dict."""
    return {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}


def _query(ask: Callable[..., Any], *name: str) -> Any:
    """Return a setting of the framework; None if this version or device does not have it."""
    try:
        return ask(*name)
    except Exception:  # the debugger does not stop the training
        return None
