"""Second runs of PyTorch's functions: what they compare, and that the training never feels them."""

import gc
import warnings
import weakref
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from msprobe.base.errors import SettingsError, UsageError

pytestmark = pytest.mark.torch

FRAMEWORK = "pytorch"


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads that wait for each other cost more than these small tensors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def digest():
    return torch.get_rng_state().numpy().tobytes()


# ---- what is compared ------------------------------------------------------------------------------------------------


def test_bit_noise_and_its_condition_are_those_of_numpy(perturb):
    x = torch.tensor([[1.5, -2.0], [3.0, 0.25]])
    y = torch.tensor([[1.4999, -2.0], [3.0, 0.25]])
    with perturb("bit_noise") as run:
        torch.sub(x, y)
    flipped = (x.numpy().view(np.uint32) ^ 1).view(np.float32)
    before, after = x.numpy() - y.numpy(), flipped - y.numpy()
    input_change = np.linalg.norm((flipped - x.numpy()).astype(np.float64)) / np.linalg.norm(x.numpy())
    change = np.linalg.norm((after - before).astype(np.float64)) / np.linalg.norm(before.astype(np.float64))
    assert run.conditions["Torch.sub"] == pytest.approx(change / input_change, rel=1e-6)
    # |y| > 1e-4: one element, 1e-4 as the difference of two numbers near 1.5
    first, second = float(before[0, 0]), float(after[0, 0])
    expected = max(first / second if abs(second) > 1e-4 else 1, second / first if abs(first) > 1e-4 else 1)
    row = run.rows["Torch.sub.0", None]
    assert row.max_rel == pytest.approx(expected - 1, rel=1e-9)
    assert (row.mode, row.stage, row.step, row.rank, row.dtype, row.shape) == (
        *("bit_noise", "forward", 0, None, "torch.float32", (2, 2)),
    )


def test_improve_precision_finds_what_float16_lost(perturb):
    x = np.array([0.1, -0.2, 0.3], np.float16)
    given = torch.from_numpy(x)
    with perturb("improve_precision") as run:
        F.tanhshrink(given)  # x - tanh(x), each rounded to float16
        torch.mul(given, given)
    ours = (x - np.tanh(x.astype(np.float32)).astype(np.float16)).astype(np.float64)
    wide = x.astype(np.float32) - np.tanh(x.astype(np.float32))
    ratio = max((ours / wide).max(), (wide / ours).max())
    assert ratio > 1.002
    assert set(run.rows) == {("Functional.tanhshrink.0", None)}, "one rounding is within the tolerance of float16"
    row = run.rows["Functional.tanhshrink.0", None]
    assert row.max_rel == pytest.approx(ratio - 1, rel=1e-3)
    assert (row.dtype, row.shape) == ("torch.float16", (3,))
    change = np.linalg.norm(ours - wide) / np.linalg.norm(ours)
    assert run.conditions["Functional.tanhshrink"] == pytest.approx(change / 2**-11, rel=1e-2), "in units of rounding"


def test_improve_precision_measures_in_units_of_the_coarsest_input(perturb):
    x, y = torch.full((3,), 1 + 2**-10, dtype=torch.float16), torch.full((3,), 1 + 2**-7, dtype=torch.bfloat16)
    with perturb("improve_precision", "torch.Tensor.mul_") as run:
        ours = x.clone().mul_(y)
    assert run.summary["compared"] == 1
    wide = (1 + 2**-10) * (1 + 2**-7)
    assert ours.dtype == torch.float16
    change = abs(float(ours[0]) - wide) / wide
    assert change > 0
    assert run.conditions["Tensor.mul_"] == pytest.approx(change / 2**-8, rel=1e-2), "bfloat16 is coarser"


def test_add_noise_change_value_and_no_change(perturb):
    x = torch.arange(1.0, 7.0).reshape(2, 3)
    with perturb("change_value", "torch.mul", "torch.max") as run:
        torch.mul(x, 2.0)
        torch.max(x, 1)
    assert run.rows["Torch.mul.0", None].max_rel == 5.0
    values = run.rows["Torch.max.0", 0]
    assert values.max_rel == pytest.approx(1.0), "the largest of the first row becomes 6 instead of 3"
    assert ("Torch.max.0", 1) not in run.rows, "indices are whole numbers"
    run.debugger.step()
    noisy = perturb("add_noise", "torch.mul")
    with noisy:
        torch.mul(torch.full((2,), 2e-4), 1.0)
    assert noisy.summary["compared"] == 1
    assert noisy.rows == {}, "1e-8 / 2e-4 is below the tolerance"


def test_no_change_finds_nothing_in_a_deterministic_network(perturb):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(288, 7)
    )
    x = torch.randn(4, 3, 8, 8)
    with perturb("no_change") as run:
        y = net(x)
        F.softmax(y[:, 1:].t() @ y.t()[1:].t(), -1).sum().backward()
        torch.sum(torch.randn(1001, 3)[1:, 1])
        F.dropout(y, 0.5)
        net[4].weight.expand(2, 7, 288).sum()
    assert run.rows == {}
    assert run.summary["compared"] > 10
    assert "failed" not in run.summary["skipped"]


def test_gradients_are_compared_at_ones(perturb):
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    with perturb("change_value", "torch.square", "torch.add", "torch.argmax", stage="backward") as run:
        torch.square(x)
        torch.add(x, 1.0)
        torch.argmax(x)
    row = run.rows["Torch.square.0", None]
    # gradients 2x: 6, 2, 4 and 4, 2, 6
    assert (row.max_rel, row.stage, row.shape) == (pytest.approx(0.5), "backward", (3,))
    assert ("Torch.add.0", None) not in run.rows
    assert run.summary["skipped"] == {"no gradient": 1}
    assert run.conditions["Torch.square"] == pytest.approx(1.0)


def test_gradients_of_several_inputs_have_their_places(perturb):
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 7.0])
    with perturb("change_value", "torch.mul", stage="backward") as run:
        torch.mul(x, y)
    assert set(run.rows) == {("Torch.mul.0", 1)}, "the gradient of y is x, that of x is y"


# ---- the training does not feel it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["forward", "backward"])
@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", ["improve_precision", "add_noise", "bit_noise", "change_value", "no_change"])
def test_a_training_keeps_its_bits(mode, stage, perturb):
    def train(run):
        torch.manual_seed(3)
        net = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(inplace=True), torch.nn.Dropout(0.3)
        )
        head = torch.nn.Linear(8, 2)
        optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], 1e-2)
        for _ in range(3):
            if run is not None:
                run.debugger.start()
            x = torch.randn(5, 6)
            x.add_(1.0)
            x[0] = 2.0
            h = checkpoint(net, x, use_reentrant=False)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = head(h).float().square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if run is not None:
                run.debugger.stop()
                run.debugger.step()
        state = [*net.state_dict().values(), *head.state_dict().values(), loss.detach()]
        return b"".join(t.float().numpy().tobytes() for t in state) + digest()

    plain = train(None)
    run = perturb(mode, stage=stage)
    assert train(run) == plain
    assert run.summary["compared"] > 0
    assert "failed" not in run.summary["skipped"]


def test_a_function_in_place_is_applied_once(perturb):
    x, out, running = torch.ones(3), torch.empty(3), torch.zeros(2)
    with perturb("bit_noise") as run:
        x.add_(1.0)
        torch.mul(x, 2.0, out=out)
        x[0] = 7.0
        x *= 2
        F.relu(x, inplace=True)
        F.batch_norm(torch.ones(4, 2), running, torch.ones(2), training=True, momentum=0.5)
        F.embedding(torch.tensor([0]), weight := torch.full((2, 2), 3.0), max_norm=1.0)
    assert x.tolist() == [14, 4, 4]
    assert out.tolist() == [4, 4, 4]
    assert running.tolist() == [0.5, 0.5]
    assert weight[1].tolist() == [3, 3]
    assert run.summary["compared"] == 7
    assert "failed" not in run.summary["skipped"]


def test_nothing_of_a_second_run_is_left(perturb):
    """No graph, no tensor, no version: the second run is gone before the next call."""
    seen = []

    def watched(x):
        y = original(x)
        seen.append(weakref.ref(y))
        return y

    original, module = torch.nn.functional.silu, torch.nn.functional
    x = torch.ones(1000, requires_grad=True)
    module.silu = watched
    try:
        with perturb("bit_noise", "torch.nn.functional.silu") as run:
            y = F.silu(x)
            gc.collect()
            alive = [ref() is not None for ref in seen]
    finally:
        module.silu = original
    assert alive == [False, True], "the second run came first; only the training's own result lives"
    assert y.requires_grad
    assert x._version == 0
    assert x.grad is None
    assert run.summary["compared"] == 1


def test_the_most_memory_is_that_of_one_call_more(perturb):
    """Storages that live at once, counted while twenty calls follow each other."""
    size = 250_000
    x = torch.ones(size)
    alive, peak = set(), [0]

    def watch(tensor):
        if tensor.numel() >= size:
            storage = tensor.untyped_storage()
            alive.add(storage.data_ptr())
            weakref.finalize(tensor, alive.discard, storage.data_ptr())
            peak[0] = max(peak[0], len(alive))
        return tensor

    original = torch.exp
    torch.exp = lambda *args, **kwargs: watch(original(*(watch(a) for a in args), **kwargs))
    try:
        with perturb("bit_noise", "torch.exp") as run:
            for _ in range(20):
                torch.exp(x)
    finally:
        torch.exp = original
    assert run.summary["compared"] == 20
    assert peak[0] <= 2 + 2, "input and output of the training, and of one second run"


def test_random_numbers_stay_as_they_are(perturb):
    torch.manual_seed(5)
    expected = [F.dropout(torch.ones(100), 0.5), torch.rand(3), torch.bernoulli(torch.full((9,), 0.5))]
    torch.manual_seed(5)
    with perturb("no_change") as run:
        found = [F.dropout(torch.ones(100), 0.5), torch.rand(3), torch.bernoulli(torch.full((9,), 0.5))]
    for x, y in zip(expected, found, strict=True):
        assert x.tolist() == y.tolist()
    assert run.rows == {}, "the second run drew the same numbers"
    assert run.summary["compared"] == 2


def test_inner_functions_and_second_runs_are_not_perturbed_again(perturb):
    with perturb("bit_noise") as run:
        F.multi_head_attention_forward(
            *(torch.randn(3, 1, 4) for _ in range(3)),
            *(4, 2, torch.randn(12, 4), torch.randn(12), None, None, False, 0.0, torch.randn(4, 4), torch.randn(4)),
        )
    assert run.summary["compared"] == 1


def test_hooks_of_the_user_see_the_training_alone(perturb):
    packed = []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor

    x = torch.ones(3, requires_grad=True)
    for stage in ("forward", "backward"):
        packed.clear()
        with (
            perturb("bit_noise", "torch.exp", stage=stage),
            torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
        ):
            torch.exp(x)
        assert packed == [(3,)]


def test_modes_of_the_user_see_the_training_alone(perturb):
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", ""))
            return func(*args, **(kwargs or {}))

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def run():
        seen.clear()
        with Functions():
            torch.exp(torch.ones(3))
        with Operations():
            torch.exp(torch.ones(3))
        return [name for name in seen if "exp" in name or "clone" in name or "bit" in name]

    plain = run()
    with perturb("bit_noise", "torch.exp") as run_:
        assert run() == plain
    assert run_.summary["compared"] == 2


@pytest.mark.parametrize("stage", ["forward", "backward"])
def test_modes_of_the_user_see_no_attribute_that_a_second_run_reads(stage, perturb):
    from torch.overrides import TorchFunctionMode

    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(3, requires_grad=True)
    with perturb("improve_precision", "torch.exp", stage=stage), Functions():
        torch.exp(x)
    assert seen == [torch.exp]


def test_an_exception_of_the_training_passes_once_and_untouched(perturb):
    with perturb("bit_noise", "torch.matmul") as run, pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.matmul(torch.ones(2, 3), torch.ones(2, 3))
    with run:
        torch.matmul(torch.ones(2, 2), torch.ones(2, 2))
    assert run.summary["compared"] == 1


def test_an_exception_of_a_second_run_is_logged_once(perturb, notes):
    calls = []

    def odd(x):
        calls.append(x)
        if len(calls) % 2:
            raise ValueError("odd")
        return original(x)

    original = torch.exp
    torch.exp = odd
    try:
        with perturb("bit_noise", "torch.exp") as run:
            for _ in range(3):
                assert torch.exp(torch.zeros(2) + 1e-3).shape == (2,)
    finally:
        torch.exp = original
    assert run.summary["skipped"] == {"failed": 3}
    assert len([line for line in notes() if "ValueError: odd" in line]) == 1


# ---- odd arguments ---------------------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        (lambda: torch.exp(torch.empty(0)), "empty"),
        (lambda: torch.exp(torch.full((3,), 1e-9)), "too small"),
        (lambda: torch.exp(torch.ones(3, dtype=torch.bfloat16)), "format"),
        (lambda: torch.add(torch.ones(3, dtype=torch.int64), 1), "no input"),
        (lambda: torch.zeros((3, 2)), "no tensor"),
        (lambda: torch.exp(torch.ones(2, device="meta")), "no data"),
        (lambda: torch.func.vmap(torch.exp)(torch.ones(2, 2)), "transform"),
        (lambda: torch.exp(torch.ones(2, dtype=torch.complex64)), "no input"),
        (lambda: torch.exp(torch.ones(2).to(torch.float8_e5m2).float()), None),
        (lambda: torch.exp(torch.ones(())), None),
        (lambda: torch.cat([torch.ones(2), torch.ones(2)]), None),
        (lambda: torch.cat((torch.ones(2, dtype=torch.int32), torch.ones(2))), None),
        (lambda: torch.nn.functional.linear(input=torch.ones(2, 2), weight=torch.ones(2, 2)), None),
        (lambda: torch.exp(torch.ones(2, requires_grad=True)), None),
        (lambda: torch.stack(list(torch.ones(4).chunk(2))), None),
        (lambda: torch.nn.functional.triplet_margin_with_distance_loss(
            *(torch.ones(2, 2) for _ in range(3)), distance_function=lambda a, b: (a - b).norm()), "code"),
        (lambda: torch.isnan(torch.ones(2)), None),
        (lambda: torch.mm(torch.eye(2).to_sparse(), torch.ones(2, 2)), None),
    ],
)  # fmt: skip
def test_odd_arguments_are_compared_or_say_why_not(call, cause, perturb):
    x = call()
    with perturb("bit_noise") as run:
        y = call()
    summary = run.summary
    assert "failed" not in summary["skipped"]
    if cause is None:
        assert summary["compared"] >= 1
    else:
        assert cause in summary["skipped"]
    if not x.is_meta:
        assert torch.equal(x, y)


def test_containers_of_all_kinds_are_taken_apart(perturb):
    from msprobe.perturb.arguments import Arguments

    x, y, z = (torch.full((1,), float(n)) for n in range(3))
    given = Arguments(([x, (y, 1)], Pair("a", z)), {"more": OrderedDict(k={"x": x})})
    assert given.tensors() == [x, y, z, x]
    assert given.target(lambda t: float(t) == 2) == range(2, 3)
    made = given.replaced([10, 11, 12, 13])
    assert made.positional == ([10, (11, 1)], Pair("a", 12))
    assert made.keywords == {"more": OrderedDict(k={"x": 13})}
    assert type(made.positional[1]) is Pair
    assert given.positional[0][0] is x


def test_memory_that_nothing_has_written_does_not_stop_the_training(perturb):
    with perturb("bit_noise") as run:
        made = torch.empty(2, 3).copy_(torch.ones(2, 3))
        freed = torch.ones(4).untyped_storage()
        freed.resize_(0)
        freed.resize_(16)
        torch.add(made, torch.empty_like(made).zero_())
    assert "Torch.add" in run.conditions


def test_compiled_code_is_not_touched(perturb):
    with perturb("bit_noise", "torch.exp") as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions discourage it
        traced = torch.jit.trace(lambda x: torch.exp(x) + 1, torch.ones(2))
        traced(torch.ones(2))
    assert run.summary["compared"] == 0


def test_autocast_is_what_improve_precision_takes_away(perturb):
    torch.manual_seed(1)
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    with perturb("improve_precision", "torch.matmul", "torch.mul") as run, torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.matmul(x, w)
    wide = x.double() @ w.double()
    change = torch.linalg.norm(y.double() - wide) / torch.linalg.norm(wide)
    assert run.conditions["Torch.matmul"] == pytest.approx(float(change) / 2**-8, rel=1e-2)
    with run:
        torch.matmul(x, w)
    assert run.summary["skipped"] == {"nothing to raise": 1}


def test_to_cpu_repeats_calls_of_the_cpu_and_says_so_once(perturb, notes):
    """The settings of a configuration that runs on a device, on a machine without one."""
    x = torch.tensor([[0.1, -2.0], [3.0, 0.25]], requires_grad=True)
    F.gelu(x).sum().backward()
    expected = x.grad.numpy().tobytes()
    x.grad = None
    for stage in ("forward", "backward"):
        with perturb("to_cpu", stage=stage, section={"fuzz_device": "cpu"}) as run:
            F.gelu(x).sum().backward()
        assert x.grad.numpy().tobytes() == expected
        x.grad = None
        assert (run.summary["compared"], run.summary["inconsistent"]) == (2, 0)
        assert run.rows == {}
        assert set(run.conditions.values()) == {0.0}
    (line,) = [line for line in notes() if 'pert_mode "to_cpu"' in line]
    assert line.startswith("msprobe WARNING: ")


def test_a_fix_by_to_cpu_replaces_nothing_that_the_cpu_made(perturb):
    x = torch.tensor([0.1, -2.0], dtype=torch.float16)
    expected = F.tanhshrink(x).numpy().tobytes()
    with perturb("to_cpu", handler="fix", section={"fuzz_device": "cpu"}) as run:
        assert F.tanhshrink(x).numpy().tobytes() == expected
    assert run.summary["fixed"] == 0


WITHOUT_EFFECT = [
    ({"fuzz_device": "cpu"}, "fuzz_device"),
    ({"if_preheat": True, "preheat_step": 3, "max_sample": 2}, "if_preheat"),
    ({"handler_type": "preheat"}, "handler_type"),
]


@pytest.mark.parametrize(("section", "key"), WITHOUT_EFFECT)
def test_settings_of_other_machines_are_accepted_and_one_line_says_that_they_do_nothing(section, key, perturb, notes):
    x = torch.tensor([[1.5, -2.0], [3.0, 0.25]])
    with perturb("bit_noise", section=section) as run:
        torch.sub(x, 1.0)
    (line,) = [line for line in notes() if "no effect" in line]
    assert f"free_benchmark.{key}: the setting has no effect here" in line
    assert (run.summary["compared"], run.summary["fixed"]) == (1, 0)


# ---- fix -------------------------------------------------------------------------------------------------------------


def test_a_fix_gives_the_result_of_float32_in_the_dtype_of_the_training(perturb):
    values = np.array([[0.1, -0.2], [0.3, 0.4]], np.float16)
    x = torch.from_numpy(values).requires_grad_()
    with perturb("improve_precision", handler="fix") as run:
        y = F.tanhshrink(x)
        largest, indices = torch.max(x, 1)
        torch.reshape(x, (4,))
    wide = values.astype(np.float32)
    assert y.detach().numpy().tobytes() == (wide - np.tanh(wide)).astype(np.float16).tobytes()
    assert (y.dtype, largest.dtype, indices.dtype) == (torch.float16, torch.float16, torch.int64)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.float().numpy(), np.tanh(wide) ** 2, rtol=2e-3)
    assert run.summary["fixed"] == 2, "reshape gives a view, which stays one"


def test_a_fix_leaves_alone_what_is_random_or_in_place(perturb):
    x = torch.ones(50, dtype=torch.float16)
    torch.manual_seed(2)
    expected = F.dropout(x, 0.5), torch.rand(1)
    torch.manual_seed(2)
    with perturb("improve_precision", handler="fix") as run:
        found = F.dropout(x, 0.5), torch.rand(1)
        y = x[:2]
        y.add_(1.0)
    assert [t.tolist() for t in expected] == [t.tolist() for t in found]
    assert x.tolist() == [2, 2, *[1] * 48]
    assert run.summary["fixed"] == 0
    assert (
        run.summary["skipped"] == {"in place": 2, "random": 1, "no tensor": 0} or "in place" in run.summary["skipped"]
    )


def test_a_fix_updates_running_statistics_once(perturb):
    mean, var = torch.zeros(2), torch.ones(2)
    with perturb("improve_precision", "torch.nn.functional.batch_norm", handler="fix") as run:
        F.batch_norm(torch.ones(4, 2, dtype=torch.bfloat16), mean, var, training=True, momentum=0.5)
    assert mean.tolist() == [0.5, 0.5]
    assert run.summary["fixed"] == 1


# ---- what is chosen --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("torch.nn.functional.softmx", 'did you mean "torch.nn.functional.softmax"'),
        ("torch.softplus", 'did you mean "torch.nn.functional.softplus"'),
        ("mindspore.ops.bmm", 'did you mean "torch.bmm"'),
        ("torch.distributed.all_reduce", "exchanges tensors between ranks"),
        ("relu", "is not a collected API"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, words, perturb):
    with pytest.raises(SettingsError) as caught:
        perturb("bit_noise", "torch.exp", name)
    assert f'"{name}"' in str(caught.value)
    assert words in str(caught.value)


def test_only_listed_functions_are_run_again(perturb):
    with perturb("bit_noise", "torch.Tensor.__add__", "Torch.exp") as run:
        x = torch.ones(2)
        torch.exp(x + x) * x
    assert set(run.conditions) == {"Torch.exp", "Tensor.__add__"}


def test_steps_ranks_and_numbers_are_those_of_a_dump(perturb):
    run = perturb("change_value", "torch.mul", step=[1], rank=[0])
    for _ in range(3):
        with run:
            torch.mul(torch.ones(3, dtype=torch.int64), 2)
            torch.mul(torch.tensor([1.0, 2.0]), 2.0)
        torch.mul(torch.tensor([1.0, 2.0]), 2.0)
        with run:
            torch.mul(torch.tensor([1.0, 2.0]), 2.0)
        run.debugger.step()
    assert {(row.step, row.api) for row in run.rows.values()} == {(1, "Torch.mul.1"), (1, "Torch.mul.2")}
    assert run.summary["steps"] == [1]


def test_the_log_names_the_worst_line(perturb, notes):
    x = torch.linspace(1, 2, 50)
    with perturb("bit_noise") as run:
        y = torch.mul(x, 1.0001)
        for _ in range(4):
            torch.exp(x)
            torch.relu(x)
        torch.sub(y, x)  # cancellation
    lines = run.summary["lines"]
    assert (lines[0]["api"], lines[0]["ill_conditioned"]) == ("Torch.sub", True)
    assert lines[0]["condition"] == pytest.approx(1e4, rel=0.5), "1 / 0.0001"
    assert lines[0]["source"] == "torch.sub(y, x)  # cancellation"
    assert lines[0]["file"] == __file__
    assert [line["ill_conditioned"] for line in lines[1:]] == [False] * (len(lines) - 1)
    told = [line for line in notes() if "amplifies" in line]
    assert len(told) == 1
    assert "torch.sub(y, x)" in told[0]


def test_a_disk_that_refuses_is_logged_and_the_training_goes_on(perturb, notes, monkeypatch):
    from msprobe.perturb import perturber, session

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(session, "append", full)
    monkeypatch.setattr(perturber, "write_summary", full)
    with perturb("change_value", "torch.mul"):
        for _ in range(3):
            torch.mul(torch.tensor([1.0, 2.0]), 2.0)
    assert len([line for line in notes() if "No space left" in line]) == 1


def test_what_cannot_be_meant_is_refused_at_start(perturb):
    run = perturb("bit_noise")
    with pytest.raises(UsageError, match="token_range"):
        run.debugger.start(torch.nn.Linear(2, 2), token_range=[0, 1])
    with pytest.raises(UsageError, match="model must be"):
        run.debugger.start("net")


def test_nothing_of_ours_is_left_after_stop(perturb):
    before = {name: vars(torch)[name] for name in ("exp", "mul", "matmul")}, torch.Tensor.add, F.relu.__code__
    with perturb("bit_noise"):
        assert torch.exp is before[0]["exp"]
        assert F.relu.__code__ is not before[2]
    assert ({name: vars(torch)[name] for name in before[0]}, torch.Tensor.add, F.relu.__code__) == before
