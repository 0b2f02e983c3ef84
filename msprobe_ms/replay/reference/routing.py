"""References for mixtures of experts: routing of tokens, and products by groups.

The formulas are those of the pages of MindSpore 2.10 (`ops.moe_token_permute`, `ops.moe_token_unpermute`,
`ops.moe_init_routing_v2`, `MoeFinalizeRouting`, `MoeGatingTopKSoftmax`, `GroupedMatmul`, `grouped_matmul_v4`);
torch_npu has the same functions. Tokens of one expert keep their order.
"""

from collections.abc import Sequence
from typing import Any

import torch

Tensor = Any


def moe_token_permute(tokens: Tensor, indices: Tensor, num_out_tokens: Any = None, *_: Any) -> tuple[Tensor, Tensor]:
    """Tokens, [count, size], sorted by their experts, [count, topk] or [count]; and for each of these its new row."""
    topk = indices.shape[1] if indices.dim() == 2 else 1
    order = torch.argsort(indices.reshape(-1), stable=True)
    permuted = tokens[order // topk]
    return permuted[:num_out_tokens] if num_out_tokens else permuted, torch.argsort(order)


def moe_token_unpermute(permuted_tokens: Tensor, sorted_indices: Tensor, probs: Tensor = None, *_: Any) -> Tensor:
    """Return the rows of each token, times their probabilities, [count, topk], and summed up; dropped rows are zero."""
    kept = sorted_indices < permuted_tokens.shape[0]
    rows = permuted_tokens[sorted_indices.where(kept, 0)] * kept.unsqueeze(-1)
    if probs is None:
        return rows
    return (rows.reshape(*probs.shape, -1) * probs.unsqueeze(-1)).sum(1)


def moe_init_routing(x: Tensor, expert_idx: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """The same without capacity (`active_num` and `drop_pad_mode` are 0), for experts of [count, topk]."""
    return moe_token_permute(x, expert_idx)


def moe_gating_top_k_softmax(x: Tensor, finished: Tensor = None, k: int = 1) -> Tensor:
    """Return the k greatest values of softmax(x). The experts are left open, for ties may be broken either way."""
    return torch.softmax(x, -1).topk(k, -1).values


def moe_finalize_routing(
    expanded_x: Tensor,
    x1: Tensor = None,
    x2: Tensor = None,
    bias: Tensor = None,
    scales: Tensor = None,
    expanded_row_idx: Tensor = None,
    expanded_expert_idx: Tensor = None,
) -> Tensor:
    """out_i = x1_i + x2_i + sum_k scales_ik (expanded_x[row_idx[i + k count]] + bias[expert_ik])."""
    count = x1.shape[0] if x1 is not None else scales.shape[0]
    rows = expanded_x[expanded_row_idx.reshape(-1, count)]  # [topk, count, size]
    if bias is not None:
        rows = rows + bias[expanded_expert_idx.T]
    if scales is not None:
        rows = rows * scales.T.unsqueeze(-1)
    out = rows.sum(0)
    for more in (x1, x2):
        out = out if more is None else out + more
    return out


def grouped_matmul(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    bias: Any = None,
    group_list: Any = None,
    split_item: int = 0,
    group_type: int = -1,
    group_list_type: int = 0,
    transpose_b: bool = False,
) -> tuple[Tensor, ...]:
    """y_i = x_i w_i + b_i; with a `group_list` the rows of one x by groups, each by one weight of many.

    `group_list` has where each group ends (type 0), or how many rows it has (type 1). ValueError where another axis
    than the rows is grouped, or rows are in no group.
    """
    biases = list(bias) if bias else [None] * len(weight)
    if group_list is None or (isinstance(group_list, (tuple, list)) and not group_list):
        return tuple(_product(a, w, b, transpose_b) for a, w, b in zip(x, weight, biases, strict=True))
    if group_type not in (0, -1) or len(x) != 1:
        raise ValueError("groups along an axis other than the rows")
    ends = torch.as_tensor(group_list).to(torch.int64)
    counts = ends if group_list_type == 1 else torch.diff(ends, prepend=ends.new_zeros(1))
    if int(counts.sum()) != x[0].shape[0]:
        raise ValueError("rows without a group")
    weights = list(weight[0]) if len(weight) == 1 else list(weight)
    per_group = list(biases[0]) if len(weight) == 1 and biases[0] is not None else [None] * len(weights)
    per_group = per_group if len(weight) == 1 else biases
    parts = torch.split(x[0], counts.tolist())
    found = [_product(a, w, b, transpose_b) for a, w, b in zip(parts, weights, per_group, strict=True)]
    return (torch.cat(found),) if split_item in (2, 3) or len(weight) == 1 else tuple(found)


def _product(a: Tensor, weight: Tensor, bias: Tensor, transpose_b: bool) -> Tensor:
    y = a @ (weight.mT if transpose_b else weight)
    return y if bias is None else y + bias


def npu_grouped_matmul(x: Sequence[Tensor], weight: Sequence[Tensor], *, act_type: int = 0, **options: Any) -> Any:
    """`grouped_matmul` with the arguments of torch_npu, without quantisation and activation. ValueError with them."""
    known = ("bias", "group_list", "split_item", "group_type", "group_list_type", "output_dtype")
    if act_type or any(value is not None for key, value in options.items() if key not in known):
        raise ValueError("quantized, or with an activation")
    options = {key: value for key, value in options.items() if key in known[:-1] and value is not None}
    return grouped_matmul(x, weight, **options)
