"""References for attention, in the layouts of both frameworks, and for rotary positions."""

import math
from typing import Any

import torch

Tensor = Any


def rotary(x: Tensor, cos: Tensor, sin: Tensor, mode: Any = 0) -> Tensor:
    """x * cos + rotated(x) * sin: mode 0 (`half`) rotates halves of the last axis, mode 1 (`interleave`) neighbours."""
    if mode in (1, "interleave"):
        rotated = torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)
    else:
        a, b = x.chunk(2, -1)
        rotated = torch.cat((-b, a), -1)
    return x * cos + rotated * sin


def rotary_pair(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, *_: Any, mode: Any = 0) -> tuple[Tensor, Tensor]:
    """`rotary` of queries and keys."""
    return rotary(query, cos, sin, mode), rotary(key, cos, sin, mode)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
    shift: Tensor = None,
) -> Tensor:
    """softmax((q k^T + shift) scale + mask) v, written out: in float64, and differentiable twice.

    Arrays are [..., heads, length, size]. A boolean mask is true where something is attended to; a query to which
    everything is masked attends to nothing.
    """
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    scores = query @ key.mT
    scores = (scores if shift is None else scores + shift) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    if attn_mask is not None:
        hides = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if hides else scores + attn_mask
    is_empty = (scores == -math.inf).all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(is_empty, 0.0), -1).masked_fill(is_empty, 0.0)
    return weights @ value


def npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor = None,
    padding_mask: Tensor = None,
    atten_mask: Tensor = None,
    scale: float = 1.0,
    *_: Any,
    sparse_mode: int = 0,
    **__: Any,
) -> Tensor:
    """`flash_attention` with the arguments of torch_npu; of the compressed masks those that mean causal."""
    if sparse_mode not in (0, 1, 2):
        raise ValueError("a band of the scores")
    mask = None if sparse_mode == 2 else atten_mask
    return flash_attention(query, key, value, head_num, pse, mask, scale, input_layout, sparse_mode == 2)


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int,
    real_shift: Tensor = None,
    mask: Tensor = None,
    scale: float = 1.0,
    layout: str = "BNSD",
    is_causal: bool = False,
) -> Tensor:
    """`attention` in the layouts BSH, SBH, BNSD and BSND; the mask is true where nothing is attended to."""
    is_merged = layout in ("BSH", "SBH")
    of_keys = key.shape[2] // (query.shape[2] // heads) if is_merged else heads

    def split(x: Tensor, count: int) -> Tensor:
        if is_merged:
            x = x.transpose(0, 1) if layout == "SBH" else x
            return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)
        return x.transpose(1, 2) if layout == "BSND" else x

    q, k, v = split(query, heads), split(key, of_keys), split(value, of_keys)
    seen = None if mask is None else ~mask.bool()
    out = attention(q, k, v, seen, is_causal=is_causal, scale=scale, enable_gqa=True, shift=real_shift)
    if is_merged:
        out = out.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)
        return out.transpose(0, 1) if layout == "SBH" else out
    return out.transpose(1, 2) if layout == "BSND" else out
