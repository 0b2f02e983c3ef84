"""Mixtures of experts against numpy, and the example of MindSpore's page. Needs torch."""

import numpy as np
import pytest

from msprobe.replay.recorded import Cause, NotReplayed

pytestmark = pytest.mark.torch

CLEAN = 1e-6
TOKENS, TOPK, EXPERTS, SIZE = 6, 2, 4, 5
CHOSEN = np.array([[1, 0], [3, 1], [1, 2], [0, 3], [2, 0], [3, 2]], np.int32)


def permuted(x):
    """Rows of tokens by experts, one expert after the other, and the new row of each (token, choice)."""
    pairs = sorted((CHOSEN[i, j], i * TOPK + j) for i in range(TOKENS) for j in range(TOPK))
    places = np.zeros(TOKENS * TOPK, np.int32)
    for row, (_, place) in enumerate(pairs):
        places[place] = row
    return np.stack([x[place // TOPK] for _, place in pairs]), places


@pytest.mark.parametrize(
    ("framework", "name", "more"),
    [
        ("mindspore", "Functional.moe_token_permute.0", []),
        ("pytorch", "NPU.npu_moe_token_permute.0", []),
        ("mindspore", "Functional.moe_init_routing_v2.0", [0, 0, EXPERTS, 0, 0, False]),
    ],
)
def test_tokens_are_sorted_by_expert(writer, random, best, framework, name, more):
    dump, x = writer(framework), random(TOKENS, SIZE)
    rows, places = permuted(x)
    dirty = [np.zeros(EXPERTS, np.int32)] * (2 if "init" in name else 0)
    dump.forward(f"{name}.forward", [x, CHOSEN, *more], outputs=[rows, places, *dirty])
    gradient = random(TOKENS * TOPK, SIZE)
    summed = np.zeros((TOKENS, SIZE))
    for place, row in enumerate(places):
        summed[place // TOPK] += gradient[row]
    dump.backward(f"{name}.backward", [gradient], [summed.astype(np.float32)])
    found, _ = best(dump.replayed(f"{name}.forward"))
    assert [(each.path, each.eta) for each in found] == [(("0",), 0), (("1",), 0)]
    assert best(dump.replayed(f"{name}.backward"))[0][0].eta < CLEAN


def test_the_example_of_the_page(writer, best):
    dump = writer("mindspore")
    x = np.float32([[1] * 3, [7] * 3, [2] * 3, [1] * 3, [2] * 3, [3] * 3])
    indices = np.int32([5, 0, 3, 1, 2, 4])
    y = np.float32([[7] * 3, [1] * 3, [2] * 3, [2] * 3, [3] * 3, [1] * 3])
    dump.forward("Functional.moe_token_permute.0.forward", [x, indices], outputs=[y, indices])
    assert [each.eta for each in best(dump.replayed("Functional.moe_token_permute.0.forward"))[0]] == [0, 0]


def test_tokens_come_back_weighted(writer, random, best):
    dump, x, p = writer("mindspore"), random(TOKENS * TOPK, SIZE), random(TOKENS, TOPK)
    _, places = permuted(random(TOKENS, SIZE))
    wide = np.zeros((TOKENS, SIZE))
    for place, row in enumerate(places):
        wide[place // TOPK] += np.float64(p[place // TOPK, place % TOPK]) * x[row]
    name = "Functional.moe_token_unpermute.0.forward"
    dump.forward(name, [x, places, p], outputs=[wide.astype(np.float32)])
    dump.forward("Functional.moe_token_unpermute.1.forward", [x, places], outputs=[x[places]])
    assert best(dump.replayed(name))[0][0].eta < CLEAN
    assert best(dump.replayed("Functional.moe_token_unpermute.1.forward"))[0][0].eta == 0


def test_routing_is_finalised(writer, random, best):
    dump = writer("mindspore")
    x, x1, x2, bias, scales = (random(*s) for s in ((12, SIZE), (6, SIZE), (6, SIZE), (EXPERTS, SIZE), (6, TOPK)))
    rows = np.random.default_rng(3).permutation(12).astype(np.int32)
    y = x1.astype(np.float64) + x2
    for i in range(TOKENS):
        for k in range(TOPK):
            y[i] += np.float64(scales[i, k]) * (x[rows[i + k * TOKENS]].astype(np.float64) + bias[CHOSEN[i, k]])
    name = "Primitive.routing.MoeFinalizeRouting.0.forward"
    dump.forward(name, [x, x1, x2, bias, scales, rows, CHOSEN], outputs=[y.astype(np.float32)])
    assert best(dump.replayed(name))[0][0].eta < CLEAN


def test_gates_are_the_greatest_probabilities(writer, random, best):
    dump, x = writer("mindspore"), random(TOKENS, EXPERTS)
    e = np.exp(x.astype(np.float64))
    p = np.sort(e / e.sum(-1, keepdims=True))[:, ::-1][:, :TOPK]
    name = "Primitive.gate.MoeGatingTopKSoftmax.0.forward"
    dump.forward(name, [x, None, TOPK], outputs=[p.astype(np.float32), CHOSEN, CHOSEN])
    found, _ = best(dump.replayed(name))
    assert [each.path for each in found] == [("0",)]
    assert found[0].eta < CLEAN


@pytest.mark.parametrize("kind", ["ends", "counts", "transposed", "npu"])
def test_groups_of_rows_have_their_own_weights(writer, random, best, kind):
    x, w = random(10, 3), random(3, 3, 4)
    counts = np.array([4, 0, 6])
    parts = np.split(x.astype(np.float64), np.cumsum(counts)[:-1])
    y = np.concatenate([part @ weight for part, weight in zip(parts, w, strict=True)]).astype(np.float32)
    ends = np.cumsum(counts)
    framework, args, options = "mindspore", [[x], [w], *[None] * 5, ends], {}
    name = "Primitive.mm.GroupedMatmul.0.forward"
    if kind == "transposed":
        args[1] = [np.ascontiguousarray(w.swapaxes(1, 2))]
    if kind == "counts":
        name = "Primitive.mm.GroupedMatmulV4.0.forward"
        args = [[x], [w], *[None] * 6, counts, None, None, None, 3, 0, 1]
    if kind == "npu":
        framework, name, args = "pytorch", "NPU.npu_grouped_matmul.0.forward", [[x], [w]]
        options = {"group_list": ends, "split_item": 2, "group_type": 0}
    dump = writer(framework)
    dump.forward(name, args, options, outputs=[y])
    found, label = best(dump.replayed(name))
    assert found[0].eta < CLEAN
    assert ("True" in label) == (kind == "transposed")


def test_what_has_no_reference_says_so(writer, random):
    dump, x, w = writer("mindspore"), random(4, 3), random(1, 3, 2)
    scaled = [[x], [w], None, [random(1, 2)], None, None, None, np.array([4])]
    dump.forward("Primitive.mm.GroupedMatmul.0.forward", scaled, outputs=[random(4, 2)])
    dump.forward("Primitive.mm.GroupedMatmul.1.forward", [[x], [w], *[None] * 5, np.array([3])], outputs=[random(4, 2)])
    with_capacity = [x, np.zeros((4, 1), np.int32), 0, 2, 3, 1, 0, False]
    dump.forward("Functional.moe_init_routing_v2.0.forward", with_capacity, outputs=[random(3, 2, 3)])
    causes = {
        "Primitive.mm.GroupedMatmul.0.forward": Cause.UNSUPPORTED_ARGUMENT,
        "Primitive.mm.GroupedMatmul.1.forward": Cause.FAILED,
        "Functional.moe_init_routing_v2.0.forward": Cause.UNSUPPORTED_ARGUMENT,
    }
    for name, cause in causes.items():
        result = dump.replayed(name)
        assert isinstance(result, NotReplayed)
        assert result.cause is cause
