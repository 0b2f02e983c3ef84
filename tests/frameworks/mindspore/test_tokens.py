"""`token_range`: only some runs of the model since `start` are collected, as one token after another is generated."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.base.errors import UsageError

pytestmark = pytest.mark.mindspore


class Show(nn.Cell):
    def construct(self, x):
        return ops.neg(x)


class Model(nn.Cell):
    def __init__(self):
        super().__init__()
        self.show = Show()

    def construct(self, x):
        return self.show(x)


def run(net, values):
    for value in values:
        net(Tensor(np.array([value], np.float32)))


def seen(dump, stem="Cell.show.Show.forward."):
    """The inputs of the collected calls, in their order."""
    return [entry["input_args"][0]["Max"] for name, entry in dump.data.items() if name.startswith(stem)]


def finish(debugger):
    debugger.stop()
    debugger.step()


@pytest.mark.parametrize(
    ("chosen", "expected"), [((0, 0), [0]), ((1, 3), [1, 2, 3]), ([2, 2], [2]), ((3, 9), [3, 4]), ((5, 9), [])]
)
def test_runs_of_the_range_are_collected_both_ends_included(chosen, expected, collecting, dumped):
    debugger, net = collecting(level="L0"), Model()
    debugger.start(net, token_range=chosen)
    run(net, range(5))
    finish(debugger)
    dump = dumped(debugger)
    assert seen(dump) == expected
    assert list(dump.data) == [f"Cell.show.Show.forward.{n}" for n in range(len(expected))]


def test_the_entries_say_which_run_of_the_model_they_are_of(collecting, dumped):
    debugger, net = collecting(level="L0"), Model()
    debugger.start(net, token_range=[1, 2])
    run(net, range(4))
    finish(debugger)
    assert [e["at"] for e in dumped(debugger).data.values()] == [{"micro_step": 1}, {"micro_step": 2}]


def test_each_start_counts_anew(collecting, dumped):
    debugger, net = collecting(level="L0"), Model()
    debugger.start(net, token_range=[1, 1])
    run(net, [0, 1, 2])
    debugger.stop()
    run(net, [3])
    debugger.start(net, token_range=[1, 1])
    run(net, [4, 5, 6])
    finish(debugger)
    assert seen(dumped(debugger)) == [1, 5]
    debugger.start(net, token_range=[0, 0])
    run(net, [7, 8])
    finish(debugger)
    assert seen(dumped(debugger, 1)) == [7]


def test_a_start_without_a_range_after_one_with_it_collects_everything(collecting, dumped):
    debugger, net = collecting(level="L0"), Model()
    debugger.start(net, token_range=[2, 2])
    run(net, range(2))
    debugger.stop()
    debugger.start(net)
    run(net, [10, 11, 12])
    finish(debugger)
    assert seen(dumped(debugger)) == [10, 11, 12]


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_apis_are_collected_from_the_first_run_of_the_range_until_the_one_after_it(level, collecting, dumped):
    debugger, net = collecting(level=level), Model()
    debugger.start(net, token_range=[1, 1])
    for value in (0, 1, 2):
        ops.exp(net(Tensor(np.array([value], np.float32))))
    finish(debugger)
    dump = dumped(debugger)
    assert seen(dump, "Functional.neg.") == [1]
    # what is done with a run's result belongs to the run: collection ends where the next run begins
    assert seen(dump, "Functional.exp.") == [-1]
    assert ("Cell.show.Show.forward.0" in dump.data) == (level == "mix")


def test_of_several_models_the_runs_of_the_first_are_counted(collecting, dumped):
    debugger, first, second = collecting(level="L0"), Model(), Model()
    debugger.start([first, second], token_range=[1, 1])
    for value in range(3):
        run(second, [10 + value])
        run(first, [value])
    finish(debugger)
    dump = dumped(debugger)
    assert seen(dump, "Cell.0.show") == [1]
    assert seen(dump, "Cell.1.show") == [12], "what runs between the first's runs 1 and 2"


@pytest.mark.parametrize(
    "wrong", [[3, 1], [-1, 2], [1], [1, 2, 3], "12", 5, [True, 2], [0, 1.0], [None, 1], {0: 1}, range(2), [0, "1"]]
)
def test_what_is_no_range_is_refused(wrong, collecting):
    with pytest.raises(UsageError, match="token_range"):
        collecting(level="L0").start(Model(), token_range=wrong)


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_range_needs_a_model(level, collecting):
    with pytest.raises(UsageError, match="model"):
        collecting(level=level).start(token_range=[0, 1])


def test_a_range_needs_the_model_also_after_an_earlier_start_with_it(collecting, caplog):
    """It is said: a training that has begun is not stopped for it."""
    debugger, net = collecting(level="L0"), Model()
    debugger.start(net)
    finish(debugger)
    debugger.start(token_range=[0, 1])
    assert "'model' parameter must be provided" in caplog.text
    assert not debugger._collectors.is_open


class Language(nn.Cell):
    """The smallest of language models: the mean of the embedded tokens, projected."""

    def __init__(self, words):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, 6), nn.Dense(6, words)

    def construct(self, ids):
        return self.head(ops.mean(self.embed(ids), 1))


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_generation_with_sampling_gives_the_tokens_that_it_gives_without_us(level, collecting, dumped):
    words, net = 11, Language(11)

    def generate(tokens):
        rng = np.random.default_rng(0)
        ids = Tensor(np.array([[1, 2]], np.int32))
        for _ in range(tokens):
            chances = ops.softmax(net(ids), -1).asnumpy()[0].astype(np.float64)
            chosen = rng.choice(words, p=chances / chances.sum())
            ids = ops.concat((ids, Tensor(np.array([[chosen]], np.int32))), 1)
        return ids.asnumpy().tolist()

    plain = generate(5)
    debugger = collecting(level=level)
    debugger.start(net, token_range=[1, 2])
    collected = generate(5)
    finish(debugger)
    assert collected == plain
    data = dumped(debugger).data
    if level == "L1":
        means = [e["input_args"][0]["shape"] for n, e in data.items() if n.startswith("Functional.mean.")]
        assert means == [[1, 3, 6], [1, 4, 6]]
        assert sum(n.startswith("Functional.softmax.") for n in data) == 2
    else:
        ids = [e["input_args"][0] for n, e in data.items() if n.startswith("Cell.embed.Embedding.forward.")]
        assert [i["shape"] for i in ids] == [[1, 3], [1, 4]]
        assert [i["Max"] for i in ids] == [max(plain[0][:3]), max(plain[0][:4])]


def test_a_run_that_raises_counts_as_a_run(collecting, dumped):
    class Fragile(Model):
        def construct(self, x):
            if x.shape == (2,):
                raise ValueError("two")
            return super().construct(x)

    debugger, net = collecting(level="L0"), Fragile()
    debugger.start(net, token_range=[1, 1])
    with pytest.raises(ValueError, match="two"):
        net(Tensor(np.zeros(2, np.float32)))
    run(net, [5, 6])
    finish(debugger)
    assert seen(dumped(debugger)) == [5]


def test_gradients_of_collected_runs_arrive(collecting, dumped):
    debugger, net = collecting(level="L0"), Model()
    debugger.start(net, token_range=[1, 1])
    for value in (1.0, 2.0, 3.0):
        ms.grad(lambda x: ops.sum(net(x)))(Tensor(np.array([value], np.float32)))
    finish(debugger)
    assert list(dumped(debugger).data) == ["Cell.show.Show.forward.0", "Cell.show.Show.backward.0"]
