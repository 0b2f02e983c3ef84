"""Second runs of MindSpore's functions: what they compare, and that the training never feels them."""

import gc
import inspect
import weakref
from pathlib import Path
from types import FunctionType

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops

from msprobe.base.errors import SettingsError, UsageError
from msprobe.store.free_benchmark import read_table

pytestmark = [pytest.mark.mindspore, pytest.mark.part(2)]

FRAMEWORK = "mindspore"


@pytest.fixture(autouse=True)
def _pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def tensor(values, dtype=np.float32):
    return Tensor(np.array(values, dtype))


def test_to_cpu_is_for_pytorch_only(perturb):
    with pytest.raises(SettingsError, match='"to_cpu" is not available with mindspore'):
        perturb("to_cpu", section={"fuzz_device": "cpu"})


def test_bit_noise_and_its_condition_are_those_of_numpy(perturb):
    x, y = np.array([[1.5, -2.0], [3.0, 0.25]], np.float32), np.array([[1.4999, -2.0], [3.0, 0.25]], np.float32)
    with perturb("bit_noise", "mindspore.ops.sub") as run:
        ops.sub(Tensor(x), Tensor(y))
    flipped = (x.view(np.uint32) ^ 1).view(np.float32)
    before, after = x - y, flipped - y
    change = np.linalg.norm((after - before).astype(np.float64)) / np.linalg.norm(before.astype(np.float64))
    input_change = np.linalg.norm((flipped - x).astype(np.float64)) / np.linalg.norm(x.astype(np.float64))
    assert run.conditions["Functional.sub"] == pytest.approx(change / input_change, rel=1e-6)
    first, second = float(before[0, 0]), float(after[0, 0])
    expected = max(first / second if abs(second) > 1e-4 else 1, second / first if abs(first) > 1e-4 else 1)
    row = run.rows["Functional.sub.0", None]
    assert row.max_rel == pytest.approx(expected - 1, rel=1e-9)
    assert (row.mode, row.stage, row.step, row.rank, row.dtype, row.shape) == (
        *("bit_noise", "forward", 0, None, "Float32", (2, 2)),
    )


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_improve_precision_finds_what_half_precision_lost(dtype, perturb):
    x = ops.cast(tensor([0.1, -0.2, 0.3]), dtype)
    values = ops.cast(x, ms.float32).asnumpy()
    with perturb("improve_precision", "mindspore.ops.cumsum", "mindspore.Tensor.__mul__") as run:
        y = ops.cumsum(x, 0) if dtype == ms.float16 else x * 3.0
    assert run.summary["compared"] == 1
    name = "Functional.cumsum" if dtype == ms.float16 else "Tensor.__mul__"
    wide = np.cumsum(values) if dtype == ms.float16 else values * 3
    ours = ops.cast(y, ms.float32).asnumpy().astype(np.float64)
    change = np.linalg.norm(ours - wide) / np.linalg.norm(ours)
    roundoff = 2**-11 if dtype == ms.float16 else 2**-8
    assert run.conditions[name] == pytest.approx(change / roundoff, rel=1e-2, abs=1e-6)


def test_change_value_and_no_change(perturb):
    x = tensor(np.arange(1, 7).reshape(2, 3))
    with perturb("change_value", "mindspore.ops.mul", "mindspore.ops.max") as run:
        ops.mul(x, 2.0)
        ops.max(x, 1)
    assert run.rows["Functional.mul.0", None].max_rel == 5.0
    assert run.rows["Functional.max.0", 0].max_rel == pytest.approx(1.0)
    assert ("Functional.max.0", 1) not in run.rows
    run.debugger.step()
    same = perturb("no_change")
    net = nn.SequentialCell(nn.Dense(6, 8), nn.ReLU(), mint.nn.Linear(8, 3), nn.LayerNorm((3,)))
    with same:
        y = ms.value_and_grad(lambda x: ops.softmax(net(x), -1).sum(), None, net.trainable_params())(
            tensor(np.random.default_rng(0).standard_normal((5, 6)))
        )
        ops.matmul(y[1][0], y[1][0].T)
    assert same.rows == {}
    assert same.summary["compared"] > 3
    assert "failed" not in same.summary["skipped"]


def test_gradients_are_compared_at_ones(perturb):
    x = tensor([3.0, 1.0, 2.0])
    with perturb("change_value", "mindspore.ops.square", "mindspore.ops.add", stage="backward") as run:
        ops.square(x)
        ops.add(x, 1.0)
        ms.grad(lambda x: ops.square(x).sum())(x)
    row = run.rows["Functional.square.0", None]
    assert (row.max_rel, row.stage, row.shape) == (pytest.approx(0.5), "backward", (3,))
    assert ("Functional.square.1", None) in run.rows, "inside of a differentiated function too"
    assert ("Functional.add.0", None) not in run.rows


def in_place():
    """What functions that change their arguments leave."""
    x, kept = tensor([1.0, 1.0, 1.0]), Parameter(tensor([1.0, 2.0]), name="kept")
    mean, variance = Parameter(tensor([0.0, 0.0]), name="mean"), Parameter(tensor([1.0, 1.0]), name="variance")
    x.add_(tensor([1.0, 1.0, 1.0]))
    x[0] = 7.0
    x *= 2
    ops.assign(kept, tensor([5.0, 6.0]))
    ops.assign_add(kept, tensor([1.0, 1.0]))
    ops.batch_norm(ops.ones((4, 2)), mean, variance, tensor([1.0, 1.0]), tensor([0.0, 0.0]), True, 0.5)
    return [each.asnumpy().tolist() for each in (x, kept, mean, variance)]


@pytest.mark.pipeline
@pytest.mark.parametrize("stage", ["forward", "backward"])
def test_a_function_in_place_is_applied_once(stage, perturb):
    plain = in_place()
    with perturb("bit_noise", stage=stage) as run:
        found = in_place()
    assert found == plain
    assert plain[1] == [6, 7]
    assert run.summary["compared"] > 0
    assert stage == "backward" or "failed" not in run.summary["skipped"]


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        (lambda: ops.exp(tensor([1e-9])), "too small"),
        (lambda: ops.add(tensor([1], np.int32), 1), "no input"),
        (lambda: ops.zeros((3, 2)), "no tensor"),
        (lambda: ops.exp(tensor(1.0)), None),
        (lambda: ops.exp(tensor([1.0], np.float16)), None),
        (lambda: ops.cat([tensor([1.0]), tensor([2.0])]), None),
        (lambda: mint.cat((tensor([1.0]), tensor([2.0]))), None),
        (lambda: ops.relu(input=tensor([1.0])), None),
        (lambda: tensor([[1.0, 2.0]]).T.sum(), None),
        (lambda: tensor([[1.0, 2.0]])[0] + 1, None),
        (lambda: ops.split(tensor([1.0, 2.0]), 1), None),
        (lambda: mint.nn.functional.silu(tensor([1.0])), None),
        (lambda: ops.topk(tensor([1.0, 2.0]), 1), None),
        (lambda: ops.isnan(tensor([1.0])), None),
    ],
)
def test_odd_arguments_are_compared_or_say_why_not(call, cause, perturb):
    call()
    with perturb("bit_noise") as run:
        call()
    summary = run.summary
    assert "failed" not in summary["skipped"]
    if cause is None:
        assert summary["compared"] >= 1
    else:
        assert cause in summary["skipped"]


def test_bfloat16_is_skipped_by_bit_noise_and_copied_by_others(perturb):
    x = ops.cast(tensor([1.0, 2.0]), ms.bfloat16)
    with perturb("bit_noise", "mindspore.Tensor.__mul__") as run:
        x * 2.0
    assert run.summary["skipped"] == {"format": 1}
    run.debugger.step()
    noisy = perturb("change_value", "mindspore.Tensor.__mul__")
    with noisy:
        x * 2.0
    assert noisy.rows["Tensor.__mul__.0", None].max_rel == 1.0
    assert noisy.rows["Tensor.__mul__.0", None].dtype == "BFloat16"


@pytest.mark.pipeline
def test_an_error_of_the_training_passes(perturb):
    with perturb("bit_noise", "mindspore.ops.matmul") as run, pytest.raises((ValueError, RuntimeError)):
        ops.matmul(tensor([[1.0, 2.0]]), tensor([[1.0, 2.0]])).asnumpy()
    with run:
        assert ops.matmul(tensor([[2.0]]), tensor([[3.0]])).asnumpy().tolist() == [[6]]
    assert run.summary["compared"] == 1


def test_random_functions_are_left_out_by_name():
    """Whatever reads a seed or the generator, at most three calls deep, is among them."""
    from msprobe.frameworks.registry import framework
    from msprobe.perturb.apis import chosen

    seeds = {"_get_seed", "default_generator"}

    def draws(function, depth, seen):
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is None or code in seen:
            return False
        seen.add(code)
        if seeds & {*code.co_names}:
            return True
        inner = (inspect.unwrap(function).__globals__.get(name) for name in code.co_names)
        return depth > 0 and any(
            draws(f, depth - 1, seen) for f in inner if isinstance(f, FunctionType) and "mindspore" in f.__module__
        )

    kept = [(owner, name) for owner, name, _ in chosen(framework("mindspore"), [])]
    drawing = [
        name
        for owner, name in kept
        if isinstance(f := inspect.getattr_static(owner, name), FunctionType) and draws(f, 3, set())
    ]
    assert drawing == ["speed_fusion_attention"], "the generator's state is restored, and its dropout may be off"
    assert len(kept) > 1000


def test_nothing_of_a_second_run_is_left(perturb):
    """Each call's copies and second outputs are gone before the next call; the graph of the training is its own."""
    seen, original = [], ops.exp

    def watched(x):
        y = original(x)
        seen.append((weakref.ref(x), weakref.ref(y)))
        return y

    x = tensor(np.ones(1000))
    ops.exp = watched
    try:
        with perturb("bit_noise", "mindspore.ops.exp") as run:
            for _ in range(3):
                y = ops.exp(x)
                gc.collect()
                assert sum(ref() is not None for _, ref in seen) == 1, "the result of the training's last call"
    finally:
        ops.exp = original
    assert [ref() is x for ref, _ in seen] == [False, True] * 3, "the second run came first, and its copy is gone"
    assert y.shape == (1000,)
    assert run.summary["compared"] == 3


@pytest.mark.parametrize("stage", ["forward", "backward"])
def test_a_second_run_that_fails_ends_no_recording_of_gradients(stage, perturb, notes):
    calls, original = [], ops.exp

    def odd(x):
        calls.append(x)
        if len(calls) % 2:
            ops.matmul(tensor([[1.0, 2.0]]), tensor([[1.0, 2.0]])).asnumpy()
        return original(x)

    x = tensor([0.5, 0.6])
    plain = ms.grad(lambda x: original(ops.square(x)).sum())(x).asnumpy().tolist()
    ops.exp = odd
    try:
        with perturb("bit_noise", "mindspore.ops.exp", stage=stage) as run:
            for _ in range(2):
                assert ms.grad(lambda x: ops.exp(ops.square(x)).sum())(x).asnumpy().tolist() == plain
    finally:
        ops.exp = original
    assert run.summary["skipped"] == {"failed": 2}
    assert len([line for line in notes() if "failed" in line]) == 1


def test_recomputed_calls_have_second_gradients_too(perturb):
    class Block(nn.Cell):
        def construct(self, x):
            return ops.exp(ops.mul(x, x))

    block = Block()
    block.recompute(use_reentrant=False)
    x = tensor([0.5, 1.0])
    plain = ms.grad(lambda x: block(x).sum())(x).asnumpy().tolist()
    with perturb("bit_noise", "mindspore.ops.mul", "mindspore.ops.exp", stage="backward") as run:
        assert ms.grad(lambda x: block(x).sum())(x).asnumpy().tolist() == plain
    assert run.summary["skipped"] == {}
    assert run.summary["compared"] == 3, "the last run ends by the exception that ends a recomputation"


def test_dropout_draws_the_same_numbers(perturb):
    """A network with Dropout, one of whose functions is run again; the kernel's own state is not moved."""

    def train(run):
        ms.set_seed(3)
        ms.manual_seed(3)
        drop = nn.Dropout(p=0.5)
        drop.set_train()
        found = []
        for _ in range(4):
            if run is not None:
                run.debugger.start()
            found += ops.exp(drop(tensor(np.ones(50)))).asnumpy().tolist()
            if run is not None:
                run.debugger.stop()
        return found

    plain = train(None)
    assert train(None) == plain
    assert train(perturb("bit_noise")) == plain


@pytest.mark.pipeline
def test_a_fix_gives_the_result_of_float32_in_the_dtype_of_the_training(perturb):
    x = tensor([0.3] * 4, np.float16)
    wide = x.asnumpy().astype(np.float32)

    def loss(x):
        y = ops.tanhshrink(x)
        return y.sum(), y

    with perturb("improve_precision", "mindspore.ops.tanhshrink", handler="fix") as run:
        (_, y), gradient = ms.value_and_grad(loss, has_aux=True)(x)
    assert y.dtype == ms.float16
    np.testing.assert_allclose(y.asnumpy(), (wide - np.tanh(wide)).astype(np.float16), rtol=2**-9)
    np.testing.assert_allclose(gradient.asnumpy(), np.tanh(wide) ** 2, rtol=4e-3)
    assert run.summary["fixed"] == 1


def test_compiled_code_is_not_touched(perturb):
    @ms.jit
    def compiled(x):
        return ops.exp(x) + 1

    with perturb("bit_noise", "mindspore.ops.exp") as run:
        assert compiled(tensor([0.0])).asnumpy().tolist() == [2]
        ops.exp(tensor([1.0]))
    assert run.summary["compared"] == 1
    assert compiled(tensor([0.0])).asnumpy().tolist() == [2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mindspore.ops.matmull", 'did you mean "mindspore.ops.matmul"'),
        ("mindspore.ops.dropout", "draws random numbers"),
        ("mindspore.Tensor.ad", 'did you mean "mindspore.Tensor.add"'),
        ("torch.nn.functional.silu", 'did you mean "mindspore.'),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, words, perturb):
    with pytest.raises(SettingsError) as caught:
        perturb("bit_noise", "mindspore.ops.exp", name)
    assert f'"{name}"' in str(caught.value)
    assert words in str(caught.value)


def test_graph_mode_is_refused(perturb):
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(UsageError, match="PYNATIVE_MODE"):
        perturb("bit_noise").debugger.start()


@pytest.mark.turns("ranks", 2)
def test_each_rank_writes_to_the_one_table(tmp_path, msrun):
    msrun(Path(__file__).with_name("ranks.py"), str(tmp_path / "dump"), folder=tmp_path, count=2)
    rows = read_table(tmp_path / "dump" / "free_benchmark.csv")
    assert {(row.rank, row.step, row.api) for row in rows} == {
        (rank, step, "Functional.mul.0") for rank in range(2) for step in range(2)
    }
    assert {path.name for path in (tmp_path / "dump").glob("*.json")} == {
        *("free_benchmark_summary_rank0.json", "free_benchmark_summary_rank1.json"),
    }
