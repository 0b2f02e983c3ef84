"""Attention in the layouts of both frameworks against numpy. Needs torch."""

import numpy as np
import pytest

pytestmark = pytest.mark.torch

CLEAN = 1e-6


def attended(q, k, v, scale, hidden=None):
    """softmax(q k^T scale) v in float64, for [batch, heads, length, size]; `hidden` is true where nothing is seen."""
    scores = np.float64(q) @ np.float64(k).swapaxes(-1, -2) * scale
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.float32(weights / weights.sum(-1, keepdims=True) @ v)


def merged(x):
    """[batch, heads, length, size] as [batch, length, heads * size]."""
    batch, heads, length, size = x.shape
    return np.ascontiguousarray(x.swapaxes(1, 2).reshape(batch, length, heads * size))


@pytest.fixture
def qkv(random):
    return [random(2, 3, 5, 4) for _ in range(3)]


def test_causal_attention_of_pytorch(writer, qkv, best):
    hidden = np.triu(np.ones((5, 5), bool), 1)
    dump = writer("pytorch")
    name = "Functional.scaled_dot_product_attention.0.forward"
    dump.forward(name, qkv, {"is_causal": True}, outputs=[attended(*qkv, 0.5, hidden)])
    result = dump.replayed(name)
    assert result.operation == "attention"
    assert best(result)[0][0].eta < CLEAN


@pytest.mark.parametrize("layout", ["BSH", "BNSD"])
def test_flash_attention_of_mindspore(writer, qkv, best, layout):
    hidden = np.triu(np.ones((2, 1, 5, 5), bool), 1)
    laid = merged if layout == "BSH" else np.asarray
    args = [*map(laid, qkv), 3, None, None, None, hidden]
    dump = writer("mindspore")
    name = "Functional.flash_attention_score.0.forward"
    options = {"scalar_value": 0.5, "input_layout": layout}
    dump.forward(name, args, options, outputs=[laid(attended(*qkv, 0.5, hidden))])
    result = dump.replayed(name)
    assert result.operation == "attention"
    assert best(result)[0][0].eta < CLEAN


def test_fusion_attention_of_torch_npu(writer, qkv, best):
    dump = writer("pytorch")
    name = "NPU.npu_fusion_attention.0.forward"
    outputs = [merged(attended(*qkv, 0.5)), qkv[0]]
    dump.forward(name, [*map(merged, qkv), 3, "BSH"], {"scale": 0.5, "keep_prob": 1.0}, outputs=outputs)
    [found], _ = best(dump.replayed(name))
    assert found.path == ("0",)
    assert found.eta < CLEAN


def test_a_row_that_sees_nothing_attends_to_nothing(writer, qkv, best):
    seen = np.ones((5, 5), bool)
    seen[2] = False
    y = attended(*qkv, 0.5)
    y[..., 2, :] = 0
    dump = writer("pytorch")
    name = "Functional.scaled_dot_product_attention.0.forward"
    dump.forward(name, [*qkv, seen], outputs=[y])
    assert best(dump.replayed(name))[0][0].eta < CLEAN
