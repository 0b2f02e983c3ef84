"""PyTorch: how a forward of a module is seen, its parameters, its random functions, and what it is set to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from msprobe.base.errors import UsageError
from msprobe.config_check.random_calls import RandomFunction, functions

PUBLIC = "torch.nn.Module"

RANDOM: tuple[RandomFunction, ...] = (
    *functions("torch", ("manual_seed", "seed")),
    *functions(
        "torch",
        (
            *("rand", "randint", "randn", "rand_like", "randint_like", "randn_like", "randperm", "normal", "bernoulli"),
            *("multinomial", "poisson"),
        ),
    ),
    *functions("torch.nn.functional", ("dropout",)),
    *functions(
        "torch:Tensor",
        (
            *("exponential_", "geometric_", "log_normal_", "cauchy_", "normal_", "uniform_", "random_", "bernoulli_"),
            "multinomial",
        ),
    ),
    *functions("torch.cuda", ("manual_seed", "manual_seed_all")),
)


def passes() -> bool:
    """Whether a compiler is reading the call, which must then see the function alone."""
    return bool(torch.compiler.is_compiling())


def is_model(value: object) -> bool:
    """Whether this is a network of PyTorch."""
    return isinstance(value, torch.nn.Module)


def watch(model: torch.nn.Module, before: Callable[[Sequence[Any], Mapping[str, Any]], None]) -> Callable[[], None]:
    """Have `before` called before every call of a module; gives what ends it."""

    def hook(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():
            before(args, kwargs)

    handle = model.register_forward_pre_hook(hook, with_kwargs=True)
    remove: Callable[[], None] = handle.remove
    return remove


def parameters(model: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """The parameters by name, each once."""
    yield from model.named_parameters()


def context() -> dict[str, Any]:
    """What PyTorch is set to, as far as this version says."""
    asked: dict[str, Callable[[], Any]] = {
        "version": lambda: torch.__version__,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled,
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "cuda.matmul.allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
        "cuda.matmul.allow_fp16_reduced_precision_reduction": (
            lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
        ),
        "cuda.matmul.allow_bf16_reduced_precision_reduction": (
            lambda: torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
        ),
        "cuda.flash_sdp": torch.backends.cuda.flash_sdp_enabled,
        "cuda.mem_efficient_sdp": torch.backends.cuda.mem_efficient_sdp_enabled,
        "cuda.math_sdp": torch.backends.cuda.math_sdp_enabled,
        "cudnn.enabled": lambda: torch.backends.cudnn.enabled,
        "cudnn.benchmark": lambda: torch.backends.cudnn.benchmark,
        "cudnn.deterministic": lambda: torch.backends.cudnn.deterministic,
        "cudnn.allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
        "mkldnn.enabled": torch.backends.mkldnn.is_available,
        "default_dtype": lambda: str(torch.get_default_dtype()),
        "num_threads": torch.get_num_threads,
        "num_interop_threads": torch.get_num_interop_threads,
        "anomaly_mode": torch.is_anomaly_enabled,
        "autocast": torch.is_autocast_enabled,
        "npu.matmul.allow_hf32": lambda: torch.npu.matmul.allow_hf32,  # type: ignore[attr-defined]  # torch_npu adds it
        "npu.conv.allow_hf32": lambda: torch.npu.conv.allow_hf32,  # type: ignore[attr-defined]  # as above
    }
    found: dict[str, Any] = {"framework": "pytorch"}
    for name, ask in asked.items():
        try:
            found[name] = ask()
        except Exception:  # we never stop the training because of ourselves; this version or device has no answer
            continue
    return found


def check(model: object) -> None:
    """UsageError for what is no network."""
    if not is_model(model):
        raise UsageError(f"ConfigChecker: the model must be a {PUBLIC}, not {type(model).__name__}; pass the network")
