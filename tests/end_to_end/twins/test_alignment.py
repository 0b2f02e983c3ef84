"""Without any yaml the calls of a twin find each other: measured against the hand-written truth."""

import make
import pytest
import truth

from msprobe.compare.counterparts.search import find_counterparts
from msprobe.store.reader import read

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(12)]

CASES = [(net, variant) for net, variants in truth.nets().items() for variant in (None, *variants)]
TOGETHER = "scrambled+reordered+equal_weights"
# Bugs that leave the calls, and what each is for, as they are.
HARMLESS = [
    *(
        "layer-norm-eps",
        "gelu-erf",
        "scale-of-the-whole-width",
        "softmax-axis",
        "transposed-weight",
        "weight-not-loaded",
    ),
    *("mask-off-by-one", "position-offset", "loss-summed", "rms-norm-eps", "rope-base", "batch-norm-momentum"),
    *(
        "stride-at-the-second",
        "padding",
        "labels-not-smoothed",
        "scale-of-all-heads",
        "class-token-last",
        "bias-doubled",
    ),
    *("time-first", "gate-order"),
]
LEAVES, CALLS = 0.98, 0.95  # right pairs of the truth's
ASTRAY = 0.55  # the same where a bug changed values or shapes of most calls: what is not sure stays without partner


def hold(truths, target, golden, about, leaves=LEAVES, calls=CALLS):
    """Assert that the calls of two dumps find each other as the truth says: none wrong, and these shares of it."""
    target, golden = (read(folder / "step0" / "rank", structure=True) for folder in (target, golden))
    found = find_counterparts(target, golden)
    pairs = {(target.calls[pair.target].name, golden.calls[pair.golden].name) for pair in found.calls}
    score = Score(truths, pairs, {call.name for call in target.calls}, {call.name for call in golden.calls})
    print(f"{about}: {score}")
    assert score.wrong == set()
    assert score.share(score.leaves) >= leaves, sorted(score.leaves - pairs)
    assert score.share(score.containers) >= calls, sorted(score.containers - pairs)
    assert score.share(score.calls) >= calls, sorted(score.calls - pairs)


@pytest.mark.sample(8)
@pytest.mark.parametrize(("net", "variant"), CASES, ids=[f"{n}-{v or 'clean'}" for n, v in CASES])
def test_calls_find_each_other(net, variant, twins):
    hold(truth.load(net, variant), *twins.pair(net, variant), f"{net} {variant or 'clean'}")


@pytest.mark.parametrize("net", truth.nets())
def test_neither_names_nor_order_nor_weights_carry_it(net, twins):
    hold(truth.load(net, TOGETHER), *twins.pair(net, TOGETHER), f"{net} {TOGETHER}")


@pytest.mark.parametrize(
    "settings", [{"level": "L0"}, {"level": "L1"}, {"summary": "md5"}, {"task": "tensor"}], ids=str
)
@pytest.mark.parametrize("net", ["gpt", "resnet"])
def test_calls_find_each_other_at_every_level_and_task(net, settings, twins):
    hold(truth.load(net), *twins.pair(net, **settings), f"{net} {settings}")


@pytest.mark.sample(5)
@pytest.mark.parametrize("bug", HARMLESS)
def test_a_bug_leads_no_pair_astray(bug, twins):
    net = make.bugs()[bug]["net"]
    truths, target = truth.load(net), twins.dump(net, "mindspore", bug=bug)
    hold(truths, target, twins.dump(net, "pytorch"), f"{net} with {bug}", ASTRAY, ASTRAY)


class Score:
    """Found pairs against the truth, of calls that stand in the dumps."""

    def __init__(self, truths, pairs, target, golden):
        truly = {pair: needed for pair, needed in truths.pairs().items() if pair[0] in target and pair[1] in golden}
        self.pairs = pairs
        self.wrong = {pair for pair in pairs if (_owner(pair[0]), _owner(pair[1])) not in truths.pairs()}
        needed = {pair for pair, needed in truly.items() if needed}
        leaves = truths.leaves() | {truth.backward(name) for name in truths.leaves()}
        self.leaves = {pair for pair in needed if pair[0] in leaves}
        self.containers = {pair for pair in needed - self.leaves if truth.path_of(pair[0])}
        self.calls = needed - self.leaves - self.containers

    def share(self, wanted):
        """Which part of the wanted pairs was found."""
        return len(wanted & self.pairs) / len(wanted) if wanted else 1.0

    def __str__(self):
        parts = {"leaves": self.leaves, "containers": self.containers, "calls": self.calls}
        texts = [f"{name} {len(wanted & self.pairs)}/{len(wanted)}" for name, wanted in parts.items()]
        return ", ".join([*texts, f"wrong {len(self.wrong)}"])


def _owner(name):
    """The forward call of the module that gradients of parameters belong to; any other name as it is."""
    module, found, number = name.partition(".parameters_grad")
    return f"{module}.forward{number or '.0'}" if found else name
