"""MindSpore: how a forward of a cell is seen, its parameters, its random functions, and what its context says."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import mindspore
from mindspore import nn
from mindspore._c_expression import RuntimeConf

from msprobe.base.errors import UsageError
from msprobe.base.patches import Patches
from msprobe.config_check.random_calls import RandomFunction, functions

PUBLIC = "mindspore.nn.Cell"

_DRAWN = (
    *("rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "uniform", "normal"),
    *("standard_normal", "multinomial", "bernoulli", "gamma", "laplace", "random_poisson", "shuffle", "dropout"),
)

RANDOM: tuple[RandomFunction, ...] = (
    *functions("mindspore", ("set_seed", "manual_seed", "seed")),
    *functions("mindspore.ops", _DRAWN),
    *functions("mindspore.mint", _DRAWN),
    *functions("mindspore.mint.nn.functional", ("dropout",)),
    *functions(
        "mindspore:Tensor", ("uniform_", "normal_", "exponential_", "random_", "bernoulli_", "multinomial"),
        "mindspore.Tensor",
    ),
)  # fmt: skip

passes = None
"""The graph compiler reads the function behind a wrapper (its `__wrapped__`) and runs no Python."""


def is_model(value: object) -> bool:
    """Whether this is a network of MindSpore."""
    return isinstance(value, nn.Cell)


def watch(model: nn.Cell, before: Callable[[Sequence[Any], Mapping[str, Any]], None]) -> Callable[[], None]:
    """Have `before` called before every call of a cell; gives what ends it.

    By its class's `__call__`, not by the framework's hook: of a cell that is compiled the hooks are compiled too.
    """
    owner = next(each for each in type(model).__mro__ if "__call__" in vars(each))

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def __call__(self: nn.Cell, *args: Any, **kwargs: Any) -> Any:
            if self is model:
                before(args, kwargs)
            return original(self, *args, **kwargs)

        return __call__

    patches = Patches()
    patches.add(owner, "__call__", wrapped)
    patches.install()
    return patches.remove


def parameters(model: nn.Cell) -> Iterator[tuple[str, Any]]:
    """The parameters by name, each once."""
    seen: set[int] = set()
    for name, parameter in model.parameters_and_names():
        if id(parameter) not in seen:
            seen.add(id(parameter))
            yield parameter.name or name, parameter


_EVERYWHERE = (
    *("mode", "device_target", "deterministic", "jit_level", "pynative_synchronize", "memory_optimize_level"),
    *("enable_graph_kernel", "precision_mode", "infer_boost", "runtime_num_threads", "jit_syntax_level"),
)
_OF_TARGET: dict[str, tuple[str, ...]] = {
    "Ascend": ("ascend_config", "max_device_memory"),
    "GPU": ("gpu_config", "conv_allow_tf32", "matmul_allow_tf32", "max_device_memory"),
    "CPU": (),
}
"""The context complains of a question that is none of its device's."""

_OP_PRECISION = ("precision_mode", "op_precision_mode", "matmul_allow_hf32", "conv_allow_hf32")


def context() -> dict[str, Any]:
    """What MindSpore is set to, as far as this version says."""
    found: dict[str, Any] = {"framework": "mindspore", "version": mindspore.__version__}
    target = _asked(mindspore.get_context, "device_target")
    for name in (*_EVERYWHERE, *_OF_TARGET.get(str(target), ())):
        found |= _flat(name, _asked(mindspore.get_context, name))
    is_graph = found.get("mode") == mindspore.GRAPH_MODE and os.environ.get("MS_JIT") != "0"
    found["mode"] = "GRAPH" if is_graph else "PYNATIVE"
    for name in _OP_PRECISION:
        value = _asked(_of_ascend, name)
        if value != "":
            found[name if name == "precision_mode" else f"op_precision.{name}"] = value
    found["launch_blocking"] = _asked(lambda: RuntimeConf.get_instance().is_launch_blocking())
    for name in _PARALLEL:
        found[f"parallel.{name}"] = _asked(mindspore.get_auto_parallel_context, name)
    return {name: value for name, value in found.items() if value is not None}


_PARALLEL = ("parallel_mode", "gradients_mean", "gradient_fp32_sync", "loss_repeated_mean", "enable_parallel_optimizer")


def _of_ascend(name: str) -> Any:
    """A setting of `device_context.ascend.op_precision`; AttributeError where this build has none for Ascend."""
    return getattr(sys.modules["mindspore._c_expression"].AscendOpPrecisionConf.get_instance(), name)()


def _flat(name: str, value: Any) -> dict[str, Any]:
    """A setting that has settings, one by one; an empty one has none."""
    return {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}


def _asked(ask: Callable[..., Any], *name: str) -> Any:
    """An answer of the framework; None where this version or this device has none."""
    try:
        return ask(*name)
    except Exception:  # we never stop the training because of ourselves
        return None


def check(model: object) -> None:
    """UsageError for what is no network."""
    if not is_model(model):
        raise UsageError(f"ConfigChecker: the model must be a {PUBLIC}, not {type(model).__name__}; pass the network")
