"""Functions of mindspore.ops that have no kernel on the CPU: PyTorch takes their translated calls."""

from dataclasses import replace

import numpy as np
from executed import bools, ex, floats, ints

X = floats(2, 3, 4)
SQUARE = floats(3, 3)
IMAGE = floats(2, 4, 7, 9)
LOGITS = floats(4, 5)
SIGNS = np.sign(floats(4, 5, seed=1))
BATCH_A, BATCH_B, BATCH_C = floats(2, 3, 4), floats(2, 4, 5, seed=1), floats(2, 3, 5, seed=2)


def call(name, *args, **kwargs):
    return ex(f"Functional.{name}", *args, **kwargs)


def nth(overloads, example, **inserted):
    return [replace(example, overload=n, inserted=inserted) for n in overloads]


def attention(name, *args, **kwargs):
    heads = (floats(1, 2, 4, 8, seed=n) for n in range(3))
    return replace(call(name, *heads, *args, input_layout="BNSD", **kwargs), keywords=False)


EXAMPLES = [
    *(call(name, X) for name in ("tanh_", "inplace_sigmoid", "erfinv_", "zero_")),
    call("clamp_", X, -0.5, 0.7),
    call("type_as", X, ints(2)),
    call("fmin", X, floats(4)),
    call("accumulate_n", [X, X]),
    call("fills", X, 1.5),
    *(call(name, X, 0.3, 1, True) for name in ("quantile", "nanquantile")),
    call("matrix_exp", SQUARE),
    call("ormqr", SQUARE, floats(3), floats(3, 2), True, True),
    call("einsum", "ij,jk->ki", SQUARE, floats(3, 2)),
    call("einsum_ext", "ij,jk->ki", SQUARE, floats(3, 2)),
    call("baddbmm_ext", BATCH_C, BATCH_A, BATCH_B, beta=0.5, alpha=2.0),
    call("roll", X, (1, 2), (0, 2)),
    call("take", X, np.array([5, 0, 23])),
    call("put_", X, np.array([5, 0]), floats(2, seed=1), True),
    call("conv_transpose2d", IMAGE, floats(4, 3, 3, 2), floats(6), 2, 1, 1, 2),
    call("embedding", ints(4, low=0, high=5), floats(5, 3), 1, 1.5, 1.0, True),
    call("layer_norm", LOGITS, (5,), floats(5), floats(5, seed=1), 1e-2),
    *nth((0, 1), call("rms_norm", LOGITS, floats(5), 1e-2), normalized_shape=(5,)),
    call("adaptive_avg_pool2d_ext", IMAGE, (3, 4)),
    call("mse_loss_ext", LOGITS, SIGNS, "sum"),
    call("multilabel_margin_loss", floats(2, 4), np.array([[3, 0, -1, 1], [1, -1, 0, 0]]), "sum"),
    call("soft_margin_loss", LOGITS, SIGNS, "sum"),
    call("triplet_margin_loss", LOGITS, SIGNS, LOGITS + 1, 0.7, 2, 1e-3, True, "sum"),
    *nth((1,), attention("flash_attention_score", 2, attn_mask=bools(4, 4), keep_prob=0.9, scalar_value=0.3)),
    *nth((1,), attention("prompt_flash_attention", attn_mask=bools(4, 4), scale_value=0.3, num_heads=2)),
    call("bernoulli_", X, 0.3),
    call("bernoulli_ext", np.abs(X) / 3),
    call("normal_", X, 1, 2),
    call("uniform_", X, 1, 2),
    call("random_", X, 1, 5),
    call("exponential_", X, 2),
]
