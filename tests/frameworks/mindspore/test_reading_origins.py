"""Tensors of every origin are read as `asnumpy` gives them: parameters, memory of numpy, results, freed memory."""

import threading

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.common.initializer import Normal, One, initializer
from shown_tensors import RANDOM, Root, check

pytestmark = [pytest.mark.mindspore, pytest.mark.pipeline]


def test_parameters_of_every_origin(collecting, dumped):
    stays = Parameter(initializer(Normal(), [5, 3], ms.float32), name="stays")
    changed = Parameter(Tensor(np.zeros((2, 3), np.float32)), name="changed")
    changed.set_data(Tensor(np.full((2, 3), 7, np.float32)))
    reshaped = Parameter(Tensor(np.zeros((2, 3), np.float32)), name="reshaped")
    reshaped.set_data(Tensor(np.arange(20, dtype=np.float32).reshape(4, 5)), slice_shape=True)
    assigned = Parameter(Tensor(np.zeros((2, 3), np.float32)), name="assigned")
    made = initializer(One(), [3, 4], ms.float32)
    makers = {
        "by an initializer": lambda: stays,
        "view": lambda: stays[2],
        "changed": lambda: changed,
        "of another shape": lambda: reshaped,
        "assigned": lambda: (ops.assign(assigned, Tensor(np.full((2, 3), 4, np.float32))), assigned)[1],
        "tensor by an initializer": lambda: made.init_data(),
    }

    def shown(maker):
        tensor = maker()
        return (tensor, None)

    check(collecting(level="L0"), dumped, {name: (lambda m=m: shown(m)) for name, m in makers.items()})


def test_a_tensor_that_has_no_data_yet_is_told_and_not_read(collecting, dumped):
    """Reading it must neither crash nor make the initializer draw its numbers before the training does."""
    later, net, debugger = initializer(Normal(), [3, 4], ms.float32), Root(), collecting(level="L0")
    assert later.has_init
    debugger.start(net)
    net([lambda: later])
    debugger.stop()
    debugger.step()
    assert later.has_init
    dump = dumped(debugger)
    assert dump.data["Cell.same.Same.forward.0"]["input_args"] == [None]
    assert {m["part"]: m["cause"] for m in dump.dump["missing"]} == dict.fromkeys(
        ("input.0", "output.0"), "the tensor has no data yet, only an initializer"
    )


def test_parameters_that_are_initialised_late_get_the_numbers_that_they_get_without_us(collecting, dumped):
    def weights(run):
        ms.set_seed(5)
        with nn.no_init_parameters():
            net = nn.SequentialCell(nn.Dense(3, 4), nn.Dense(4, 2))
        run(net)
        return [p.asnumpy() for p in net.trainable_params()]

    def collected(net):
        debugger.start(net)
        net(Tensor(np.ones((2, 3), np.float32)))
        debugger.stop()
        debugger.step()

    debugger = collecting(level="L0")
    plain = weights(lambda net: net(Tensor(np.ones((2, 3), np.float32))))
    ours = weights(collected)
    for a, b in zip(plain, ours, strict=True):
        np.testing.assert_array_equal(a, b)
    recorded = dumped(debugger).data["Cell.1.Dense.forward.0"]["parameters"]
    assert recorded["weight"]["Max"] == float(plain[2].max())


def test_memory_shared_with_numpy(collecting, dumped):
    owner = np.arange(24, dtype=np.float32).reshape(4, 6)
    turned = np.arange(24, dtype=np.float32).reshape(4, 6)
    makers = {
        "from_numpy": lambda: Tensor.from_numpy(owner),
        "row from_numpy": lambda: Tensor.from_numpy(owner[2]),
        "turned": lambda: Tensor(turned.T),
        "cut": lambda: Tensor(turned[:, 2:5]),
        "backwards": lambda: Tensor(turned[::-1].copy()),
        "read only": lambda: Tensor(np.broadcast_to(np.float32(3), (2, 3))),
        "whose array is gone": lambda: Tensor.from_numpy(np.full(1000, 5, np.float32)),
    }
    check(collecting(level="L0"), dumped, makers)


def test_results_of_jit_mint_and_legacy_primitives(collecting, dumped):
    base = Tensor(RANDOM)

    @ms.jit
    def several(x):
        return x * 2.0, x[1], ops.transpose(x, (1, 0)), x

    results = several(base)
    makers = {f"jit {n}": (lambda n=n: results[n]) for n in range(4)}
    makers["jit at once"] = lambda: several(base)[2]
    makers["primitive"] = lambda: ops.operations.MatMul()(base, base.T)
    makers["mint"] = lambda: mint.matmul(base, base.T)
    makers["topk"] = lambda: ops.topk(base, 2)[1]
    makers["where"] = lambda: mint.where(base > 0, base, -base)
    check(collecting(level="L0"), dumped, makers)


def test_a_tensor_that_another_thread_made_and_let_go(collecting, dumped):
    made = []

    def work():
        x = Tensor(np.full((300, 300), 3, np.float32))
        made.append((x * 2.0)[7])

    def maker():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return made.pop()

    check(collecting(level="L0"), dumped, {"row": maker}, [np.full(300, 6, np.float32)])


def test_memory_that_is_given_to_one_tensor_after_another(collecting, dumped):
    """Views outlive what they were cut from, while the framework hands freed memory out again."""
    makers = {str(n): (lambda n=n: (Tensor(np.full((64, 64), n, np.float32)) * 1.0)[5]) for n in range(40)}
    check(collecting(level="L0"), dumped, makers, [np.full(64, n, np.float32) for n in range(40)])
