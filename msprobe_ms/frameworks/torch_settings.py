"""Settings and random functions of PyTorch and its API on MindSpore; imports neither."""

from collections.abc import Callable
from typing import Any

from .interface import random_functions

RANDOM_FUNCTIONS = (
    *random_functions("torch", ("manual_seed", "seed")),
    *random_functions(
        "torch",
        (
            *("rand", "randint", "randn", "rand_like", "randint_like", "randn_like", "randperm", "normal"),
            *("bernoulli", "multinomial", "poisson"),
        ),
    ),
    *random_functions("torch.nn.functional", ("dropout",)),
    *random_functions(
        "torch:Tensor",
        (
            *("exponential_", "geometric_", "log_normal_", "cauchy_", "normal_", "uniform_", "random_"),
            *("bernoulli_", "multinomial"),
        ),
    ),
    *random_functions("torch.cuda", ("manual_seed", "manual_seed_all")),
)


def torch_settings(torch: Any) -> dict[str, Any]:
    """Return the settings of a module `torch`, as far as this version has them."""
    queries: dict[str, Callable[[], Any]] = {
        "version": lambda: torch.__version__,
        "deterministic_algorithms": lambda: torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": lambda: torch.is_deterministic_algorithms_warn_only_enabled(),
        "float32_matmul_precision": lambda: torch.get_float32_matmul_precision(),
        "cuda.matmul.allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
        "cuda.matmul.allow_fp16_reduced_precision_reduction": (
            lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
        ),
        "cuda.matmul.allow_bf16_reduced_precision_reduction": (
            lambda: torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
        ),
        "cuda.flash_sdp": lambda: torch.backends.cuda.flash_sdp_enabled(),
        "cuda.mem_efficient_sdp": lambda: torch.backends.cuda.mem_efficient_sdp_enabled(),
        "cuda.math_sdp": lambda: torch.backends.cuda.math_sdp_enabled(),
        "cudnn.enabled": lambda: torch.backends.cudnn.enabled,
        "cudnn.benchmark": lambda: torch.backends.cudnn.benchmark,
        "cudnn.deterministic": lambda: torch.backends.cudnn.deterministic,
        "cudnn.allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
        "mkldnn.enabled": lambda: torch.backends.mkldnn.is_available(),
        "default_dtype": lambda: str(torch.get_default_dtype()),
        "num_threads": lambda: torch.get_num_threads(),
        "num_interop_threads": lambda: torch.get_num_interop_threads(),
        "anomaly_mode": lambda: torch.is_anomaly_enabled(),
        "autocast": lambda: torch.is_autocast_enabled(),
        "npu.matmul.allow_hf32": lambda: torch.npu.matmul.allow_hf32,
        "npu.conv.allow_hf32": lambda: torch.npu.conv.allow_hf32,
    }
    found: dict[str, Any] = {"framework": "pytorch"}
    for name, query in queries.items():
        try:
            found[name] = query()
        except Exception:  # this version or device does not have the setting
            continue
    return found
