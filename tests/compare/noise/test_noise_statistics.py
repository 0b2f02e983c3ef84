"""Judging under noise by statistics alone: identities against numpy, amplification by hand, pairs of small dumps."""

import math

import numpy as np
import pytest
from test_noise import LAYERS, Network, bf16, other_order, row_times

from msprobe.base.names import parse
from msprobe.compare.core.noise import Sign, State, Unseen
from msprobe.compare.core.reason import Cause, Why
from msprobe.compare.judge.wording import unseen_phrase
from msprobe.compare.locate.find import locate
from msprobe.compare.noise import statistics
from msprobe.compare.noise.deviations import (
    ACROSS,
    LIMIT,
    OutputChanges,
    OutputIdentities,
    amplifications,
    judge_laws,
    own_error,
)
from msprobe.compare.noise.identities import CallSummary, Law, identities, identities_of_many, sum_identities
from msprobe.compare.noise.operation import operation_of
from msprobe.compare.noise.summary import Deviation, DeviationColumns, Summary, SummaryColumns, deviation
from msprobe.compare.run import compare
from msprobe.compare.tables.console import lines, notes

UNIT = 2.0**-23


def summed(array):
    """The summary of an array."""
    wide = np.asarray(array, np.float64)
    norm = math.sqrt(float((wide * wide).sum()))
    return Summary(float(wide.max()), float(wide.min()), float(wide.mean()), norm, wide.size, UNIT, wide.shape)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


X, Y, BIAS, G = normal(6, 8), normal(6, 8, seed=1), normal(8, seed=2), normal(6, 8, seed=3)
POSITIVE = np.abs(X) + 0.1
SHARES = softmax(X)

FORWARD = [
    ("reshape", [X], [X.reshape(8, 6)], Law.SAME),
    ("transpose", [X], [X.T], Law.SAME),
    ("neg", [X], [-X], Law.LINEAR),
    ("add", [X, 0.25], [X + 0.25], Law.LINEAR),
    ("sub", [1.0, X], [1.0 - X], Law.LINEAR),
    ("mul", [X, -3.0], [X * -3.0], Law.LINEAR),
    ("div", [X, 4.0], [X / 4.0], Law.LINEAR),
    ("add", [X, Y], [X + Y], Law.SUM),
    ("add", [X, BIAS], [X + BIAS], Law.SUM),
    ("sub", [X, Y], [X - Y], Law.SUM),
    ("sum", [X, -1.0], [X.sum(-1)], Law.SUM),
    ("mean", [X, 0.0], [X.mean(0)], Law.SUM),
    ("cat", [X, Y], [np.concatenate([X, Y])], Law.PARTS),
    ("split", [X, 4.0], [X[:, :4], X[:, 4:]], Law.PARTS),
    ("expand", [X[None]], [np.broadcast_to(X, (3, 6, 8))], Law.COPIES),
    ("narrow", [X, 0.0, 0.0, 4.0], [X[X.argmax() // 8 : X.argmax() // 8 + 1]], Law.PICKED),
    ("exp", [X], [np.exp(X)], Law.MONOTONE),
    ("tanh", [X], [np.tanh(X)], Law.MONOTONE),
    ("relu", [X], [np.maximum(X, 0)], Law.MONOTONE),
    ("sigmoid", [X], [1 / (1 + np.exp(-X))], Law.MONOTONE),
    ("gelu", [X], [gelu(X)], Law.MONOTONE),
    ("rsqrt", [POSITIVE], [POSITIVE**-0.5], Law.MONOTONE),
    ("sqrt", [POSITIVE], [POSITIVE**0.5], Law.SQUARES),
    ("square", [X], [X * X], Law.SQUARES),
    ("softmax", [X, -1.0], [SHARES], Law.SHARES),
    ("batch_norm", [X, BIAS, BIAS], [(X - X.mean(0)) / X.std(0) * BIAS + BIAS], Law.CENTRED),
]

BACKWARD = [
    ("reshape", [X], [G.reshape(8, 6)], [G], Law.SAME),
    ("add", [X, BIAS], [G, G.sum(0)], [G], Law.SUM),
    ("sub", [X, Y], [G, -G], [G], Law.LINEAR),
    ("mul", [X, 3.0], [G * 3.0], [G], Law.LINEAR),
    ("div", [X, 4.0], [G / 4.0], [G], Law.LINEAR),
    ("sum", [X], [np.broadcast_to(G[0], (6, 8))], [G[0]], Law.COPIES),
    ("mean", [X], [np.broadcast_to(G[0] / 6, (6, 8))], [G[0]], Law.COPIES),
    ("cat", [X, Y], [G[:3], G[3:]], [G], Law.PARTS),
    ("split", [X], [G], [G[:2], G[2:]], Law.PARTS),
    ("index_select", [X], [np.vstack([np.zeros((4, 8)), G[:2]])], [G[:2]], Law.SUM),
    ("where", [X, X, Y], [np.zeros(1), np.where(X > 0, G, 0), np.where(X > 0, 0, G)], [G], Law.SUM),
    ("softmax", [X], [SHARES * (G - (SHARES * G).sum(-1, keepdims=True))], [G], Law.CENTRED),
    ("layer_norm", [X, BIAS, BIAS], [G - G.mean(), G.sum(0) * BIAS, G.sum(0)], [G], Law.CENTRED),
]


def seen(operation, arguments, outputs, incoming=(), is_backward=False):
    inputs = [summed(one) if isinstance(one, np.ndarray) else one for one in arguments]
    return CallSummary(
        operation, is_backward, inputs, [summed(one) for one in outputs], [summed(one) for one in incoming]
    )


def offs(call, at=0):
    found = identities(call, at)
    assert found
    return {one.law for one in found}, max(one.off for one in found)


def enlarged(array):
    """Its greatest element is larger by a hundredth."""
    changed = np.array(array, np.float64)
    changed[np.unravel_index(changed.argmax(), changed.shape)] *= 1.01
    return changed


@pytest.mark.parametrize(("operation", "arguments", "outputs", "law"), FORWARD)
def test_a_law_holds_forward_and_shows_an_element_that_is_wrong(operation, arguments, outputs, law):
    laws, off = offs(seen(operation, arguments, outputs))
    assert law in laws
    assert off < 1e-12
    _, off = offs(seen(operation, arguments, [enlarged(outputs[0]), *outputs[1:]]))
    assert off > 1e-4


@pytest.mark.parametrize(("operation", "arguments", "outputs", "incoming", "law"), BACKWARD)
def test_a_law_holds_backward_and_shows_an_element_that_is_wrong(operation, arguments, outputs, incoming, law):
    found = [identities(seen(operation, arguments, outputs, incoming, True), at) for at in range(len(outputs))]
    assert law in {one.law for ones in found for one in ones}
    assert max(one.off for ones in found for one in ones) < 1e-12
    at = next(n for n, ones in enumerate(found) if any(one.law is law for one in ones))
    changed = [enlarged(one) if n == at else one for n, one in enumerate(outputs)]
    _, off = offs(seen(operation, arguments, changed, incoming, True), at)
    assert off > 1e-4


ONE_BY_ONE = {"gelu", "sqrt"}
"""Operations whose rules decide by the numbers of each call."""


def stacked(alike):
    """The summaries of one record of several calls as columns; a number is that of all calls."""
    if not isinstance(alike[0], Summary):
        return alike[0]
    assert len({one[4:] for one in alike}) == 1
    return SummaryColumns(*map(np.array, zip(*(one[:4] for one in alike), strict=True)), *alike[0][4:])


@pytest.mark.parametrize(
    ("operation", "arguments", "outputs", "incoming", "is_backward"),
    [(name, arguments, outputs, [], False) for name, arguments, outputs, _ in FORWARD]
    + [(name, arguments, outputs, incoming, True) for name, arguments, outputs, incoming, _ in BACKWARD],
)
def test_laws_of_many_calls_are_to_the_bit_those_of_each(operation, arguments, outputs, incoming, is_backward):
    def scaled(arrays, by):
        return [one * by if isinstance(one, np.ndarray) else one for one in arrays]

    calls = [
        seen(operation, scaled(arguments, 1 + n / 7), scaled(outputs, 1 + n / 3), scaled(incoming, 1 + n), is_backward)
        for n in range(4)
    ]
    columns = [[stacked(alike) for alike in zip(*(call[place] for call in calls), strict=True)] for place in (2, 3, 4)]
    many = CallSummary(operation, is_backward, *columns)
    for at in range(len(outputs)):
        found = identities_of_many(many, at, len(calls))
        assert (found is None) == (operation in ONE_BY_ONE)
        for n, call in enumerate(calls) if found is not None else ():
            known = [(one.law, one.statistic, one.off[n]) for one in found if not math.isnan(one.off[n])]
            assert known == list(map(tuple, identities(call, at)))


def test_a_number_that_no_float_holds_is_looked_for_in_each_call():
    great = SummaryColumns(np.array([1e200, 1.0]), np.zeros(2), np.zeros(2), np.array([1e200, 1.0]), 48, UNIT, (6, 8))
    assert identities_of_many(CallSummary("square", False, [great], [great]), 0, 2) is None


def test_how_far_a_law_is_off_by_hand():
    """Ones plus twos are threes. 3.5 in their place is half a unit off, as a share of 3.5."""
    ones, twos = np.ones((2, 4)), np.full((2, 4), 2.0)
    twos[0, 0], twos[0, 1] = 1.0, 3.0  # no constant: else it would be a number that is added
    ones[0, 0], ones[0, 1] = 0.5, 1.5
    wrong = summed(np.full((2, 4), 3.5))
    (found,) = identities(CallSummary("add", False, [summed(ones), summed(twos)], [wrong]), 0)
    assert (found.law, found.statistic) == (Law.SUM, "mean")
    assert found.off == pytest.approx(0.5 / 3.5)


def test_an_operation_without_a_law_says_nothing():
    assert identities(seen("matmul", [X, Y.T], [X @ Y.T]), 0) == []
    assert identities(seen("add", [X, 1.0], [X + 1]), 3) == []
    assert identities(seen("add", [X, math.nan], [X + 1]), 0) == []  # an argument that no record tells


def test_numbers_that_no_float_holds_say_nothing(builder, value, tensor):
    assert identities(seen("mul", [X, 1e300], [X]), 0) == []  # a square of it is no float
    assert [one.statistic for one in identities(seen("exp", [X * 1e4], [X]), 0)] == ["min"]  # that of the max is none

    def run(side, shift):
        inputs = [tensor(1.0), value(10**400)]
        return builder(side).call("Mint.add.0.forward", inputs, [2.0 + shift]).dump()

    assert locate(compare(run("t", 1.0), run("g", 0.0))).first.name == "Mint.add.0.forward"


def test_an_incoming_gradient_is_the_sum_of_contributions():
    assert {one.law for one in sum_identities(summed(X), [summed(X)])} == {Law.SAME}
    (found,) = sum_identities(summed(X + Y), [summed(X), summed(Y)])
    assert found.off < 1e-12
    (found,) = sum_identities(summed(X - Y), [summed(X), summed(Y)])
    scale = max(math.hypot(summed(X).rms, summed(Y).rms), summed(X - Y).rms)
    assert found.off == pytest.approx(2 * abs(Y.mean()) / scale)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("Primitive.matmul.MatMul.0.forward", "matmul"),
        ("Primitive.bias_add.BiasAdd.0.forward", "add"),
        ("Tensor.__rsub__.0.forward", "sub"),
        ("Tensor.astype.0.forward", "cast"),
        ("Functional.unbind.0.backward", "split"),
        ("Torch.cat.0.forward", "cat"),
        ("Cell.enter.Dense.forward.0", "matmul"),
    ],
)
def test_the_operation_is_known_by_its_name(call, name):
    assert operation_of(parse(call)).name == name


def test_no_operation_is_guessed():
    assert operation_of(parse("Mint.my_own_function.0.forward")) is None


# Amplification, by hand.


def test_how_far_two_summaries_are_apart():
    golden = Summary(4.0, -2.0, 0.5, 20.0, 100, UNIT)  # root mean square 2
    found = deviation(golden._replace(max=4.04, mean=0.52, norm=20.1), golden)
    assert found == pytest.approx(Deviation(0.005, 0.01, 0.01, 0.0, 100))
    assert found.moments == pytest.approx(0.01)
    assert found.spread == pytest.approx(0.1)  # 0.01 over all of 100 elements is as much as 0.1 of each
    zero = Summary(0.0, 0.0, 0.0, 0.0, 4, UNIT)
    assert deviation(zero, zero).spread == 0
    assert deviation(golden, zero).spread == math.inf


def kind_of(changes, **more):
    """Outputs of 100 elements of one kind, each as the deviation of its norm, and those of its inputs: `change`."""
    norm, inputs, spread = (np.array(column) for column in zip(*changes, strict=True))
    none, size = np.zeros(len(norm)), np.full(len(norm), 100)
    output = DeviationColumns(norm, none, none, none, size)
    return OutputChanges(range(len(norm)), output, inputs, spread, none + UNIT, none > 0, **more)


def change(norm, inputs=1e-4, spread=1e-2):
    return norm, inputs, spread


def amplified(changes):
    return list(amplifications({"kind": kind_of(changes)}).values())


def test_what_the_inputs_explain_is_their_difference_and_their_element_error():
    # 1e-4 + (1e-2 + 2 * 2**-23) / sqrt(100) = 1.1e-3 of the norm.
    (noise,) = amplified([change(5.5e-3)])
    assert (noise.ratio, noise.is_wrong) == (pytest.approx(5, rel=1e-3), False)
    assert noise.explained == pytest.approx(1.1e-3, rel=1e-3)
    (wrong,) = amplified([change(1.65e-2)])
    assert (wrong.ratio, wrong.is_wrong) == (pytest.approx(15, rel=1e-3), True)


def test_the_limit_is_higher_for_a_kind_that_amplifies():
    found = amplified([change(8.8e-3) for _ in range(3)] + [change(2.2e-2)])  # 8, 8, 8 and 20 times
    assert [one.is_wrong for one in found] == [False] * 4
    assert found[-1].limit == pytest.approx(4 * 8, rel=1e-3)
    others = amplified([change(1.1e-3) for _ in range(3)] + [change(2.2e-2)])
    assert [one.is_wrong for one in others] == [False] * 3 + [True]
    assert others[-1].limit == LIMIT


def test_what_a_product_adds_itself_is_the_least_that_its_kin_show():
    def own(changes):
        return own_error(kind_of(changes, rounds_inside=True))

    products = [change(s / 10, 0.0, 0.0) for s in (0.0, 2e-3, 3e-3, 4e-3, 9e-3, 2e-2)]
    assert own(products[1:]) == pytest.approx(2e-3)
    assert own([products[0], *products]) == 2 * UNIT  # two of seven are exact
    assert own(products[-1:]) == pytest.approx(6e-3)  # no kernel is coarser
    assert own_error(kind_of([change(1e-3)])) == 2 * UNIT  # a tanh rounds to its output's dtype


def test_what_a_product_adds_shows_where_its_inputs_hardly_differ():
    def own(changes):
        return own_error(kind_of(changes, rounds_inside=True))

    fine, after_a_fault = [change(1e-8, 1e-7, 1e-7)] * 3, [change(1e-3, 1e-3, 1e-3)] * 20
    assert own([*fine, *after_a_fault]) == 2 * UNIT
    assert own([*fine[1:], *after_a_fault]) == pytest.approx(6e-3)  # two show nothing, as all may differ by chance
    coarse = [change(2e-4, 0.0, 0.0)] * 3
    assert own([*coarse, *after_a_fault]) == pytest.approx(2e-3)


@pytest.mark.parametrize("is_backward", [False, True])
def test_no_other_call_of_two_frameworks_adds_more_than_products_and_approximations_do(is_backward):
    products = kind_of([change(1e-8, 0.0, 0.0)] * 3, rounds_inside=True, is_product=True, function="matmul")
    other = kind_of([change(1e-3, 0.0, 0.0)], rounds_inside=True, is_backward=is_backward, function="rotary")
    kinds = {"product": products, "other": other._replace(rows=[3])}
    found = amplifications(kinds, has_other_kernels=True)
    assert found[3].own == ACROSS
    assert found[3].is_wrong


# Dumps without tensors.


@pytest.fixture
def judged(builder, tensor, value):
    """`judged(product=bf16)`: statistics of a target against those of the plain network."""

    def make(mode="statistics", golden=None, **target):
        sides = []
        for side, settings in (("target", target), ("golden", golden or {})):
            build = builder(side, mode=mode, level="L1")
            Network(build, tensor, value, **settings)
            sides.append(build.dump())
        comparison = compare(*sides)
        return comparison, locate(comparison)

    return make


def times(factor, called):
    """A whole result is wrong by a factor."""
    return lambda name, result: result * np.float32(factor) if name == called else result


@pytest.mark.parametrize("product", [other_order, bf16])
def test_noise_is_no_difference(judged, product):
    comparison, located = judged("statistics", product=product)
    assert (comparison.equal == 0).sum() > 3 * LAYERS
    assert comparison.is_clean
    assert located.first is None
    assert not comparison.noise.differs().any()


def test_digests_are_held_to_the_bit(judged):
    comparison, located = judged("digest", product=other_order)
    assert comparison.noise is None
    assert located.first.name == "Mint.matmul.0.forward"


@pytest.mark.parametrize("product", [other_order, bf16])
@pytest.mark.parametrize(
    ("wrong", "sign"),
    [("matmul.2", Sign.AMPLIFIED), ("add.2", Sign.LAW), ("tanh.1", Sign.LAW), ("softmax.0", Sign.LAW)],
)
def test_a_fault_among_noise_is_named(judged, product, wrong, sign):
    comparison, located = judged(product=product, change=times(1.05, wrong))
    assert located.first.name == f"Mint.{wrong}.forward"
    assert located.first.kind.name == "computes differently"
    row = next(row for row in comparison.noise.evidence if comparison.noise.states[row] == State.DIVERGENT)
    found = comparison.noise.evidence[row]
    assert (found.sign, found.is_by_statistics) == (sign, True)
    why = Why.LAW_BROKEN if sign is Sign.LAW else Why.BEYOND_STATISTICS
    assert comparison.reasons_at(row)[-1].why is why


def test_a_row_among_another_order_of_sums_is_named(judged):
    _, located = judged(product=other_order, change=row_times(1.001))
    assert located.first.name == "Mint.matmul.2.forward"


def test_what_only_elements_show_is_not_seen(judged):
    """Rows that changed places: every statistic behind them is that of the same numbers."""

    def turned(name, result):
        return result[::-1] if name == "matmul.2" else result

    comparison, _ = judged(change=turned)
    row = next(
        r
        for r in range(len(comparison.equal))
        if comparison.pairs.pair(r).record.name.endswith("matmul.2.forward.output.0")
    )
    assert comparison.noise.states[row] == State.EQUAL


def test_where_all_is_equal_to_the_bit_a_small_difference_is_named(judged):
    comparison, located = judged(change=row_times(1.0001, "tanh.2"))
    assert comparison.noise.is_exact
    assert located.first.name == "Mint.tanh.2.forward"
    assert len(located.findings) == 1


def test_an_argument_that_differs_explains_what_the_call_gives(judged):
    _, located = judged(golden={"swapped": 2}, product=other_order)
    assert located.first.name == "Mint.sub.2.forward"


def test_a_mask_of_another_form_is_harmless_and_a_weak_one_is_not(judged):
    comparison, located = judged(golden={"mask": -1e9}, product=other_order, mask=-65504.0)
    assert located.first is None
    assert comparison.unjudged[Cause.HARMLESS]
    _, located = judged(golden={"mask": -1e9}, product=other_order, mask=-3.0)
    assert located.first.name == f"Mint.add.{LAYERS}.forward"


def test_what_noise_hides_is_told(judged):
    comparison, located = judged(product=bf16)
    found = comparison.noise.unseen
    assert found.outputs + found.by_identity == sum(state == State.NOISE for state in _of_outputs(comparison))
    assert 1e-4 < found.share < 1e-2
    message = str(unseen_phrase(found))
    assert message in map(str, notes(comparison))
    assert any(message in line for line in lines(comparison, located))
    assert str(unseen_phrase(Unseen(2e-3, 1, 0))).endswith("for 1 output differences below 0.002 of the norm (median)")
    assert str(unseen_phrase(Unseen(math.nan, 0, 3))).endswith("single elements")
    exact, located = judged(change=times(1.05, "matmul.2"))
    assert not any(line.startswith("noise hides") for line in lines(exact, located, 3))


@pytest.mark.parametrize("wrong", [None, "tanh.2", "add.1"])
def test_calls_of_one_form_are_judged_as_each_by_itself(judged, monkeypatch, wrong):
    asked = {"product": other_order, **({"change": row_times(1.01, wrong)} if wrong else {})}
    together, _ = judged(**asked)
    monkeypatch.setattr(statistics, "_SEVERAL", 10**6)
    alone, _ = judged(**asked)
    assert {row: one for row, one in together.noise.evidence.items() if one.law}
    assert repr(together.noise.evidence) == repr(alone.noise.evidence)
    assert together.noise.states.tolist() == alone.noise.states.tolist()


def _of_outputs(comparison):
    rows = np.flatnonzero((comparison.equal == 0) & ~comparison.is_input).tolist()
    return [int(comparison.noise.states[row]) for row in rows]


def test_digests_alone_decide_by_the_bits(judged, builder, tensor):
    def run(side, shift):
        build = builder(side, mode="digest").call("Mint.exp.0.forward", [1.0], [2.0 + shift])
        for record in build.data["Mint.exp.0.forward"]["output"]:
            for name in ("Max", "Min", "Mean", "Norm"):
                del record[name]
        return build.dump()

    comparison = compare(run("t", 1e-6), run("g", 0.0))
    assert comparison.noise is None
    assert locate(comparison).first.name == "Mint.exp.0.forward"


# Laws among their kin.


def law_error(off, golden=1e-8, size=100, law=Law.SUM, statistic="mean"):
    of = Summary(1.0, -1.0, 0.0, math.sqrt(size), size, UNIT)
    return OutputIdentities("sum", [0], [(law, statistic)], np.array([[off]]), np.array([[golden]]), of, of, True)


def broken(*found):
    numbered = [one._replace(rows=[row]) for row, one in enumerate(found)]
    return [law.is_broken for law in judge_laws(numbered).values()]


def test_a_law_is_kept_up_to_what_its_kin_are_off_on_the_golden_side():
    assert broken(law_error(3e-6)) == [True]  # beyond 1e-6
    assert broken(law_error(3e-6, golden=9e-7)) == [False]  # below 8 * 9e-7
    assert broken(law_error(3e-6), law_error(1e-8, golden=9e-7)) == [False, False]  # as far as another call of the kind
    assert judge_laws([law_error(0.5, golden=0.4)]) == {}  # no law of this call


def test_a_kernel_that_is_coarser_throughout_breaks_no_law():
    # Errors of 1e-3 of each of 100 elements are 1e-4 of the mean; 4e-4 is still noise of that kind.
    assert broken(*[law_error(1e-4)] * 3, law_error(3e-4)) == [False] * 4
    assert broken(*[law_error(1e-4)] * 3, law_error(9e-4)) == [False] * 3 + [True]
    assert broken(*[law_error(1e-2)] * 4) == [True] * 4  # a wrong constant does not average out
    assert broken(law_error(1e-4), law_error(1e-4)) == [True, True]  # two are no kind


def test_a_sum_explains_what_does_not_differ_grossly():
    (law,) = judge_laws([law_error(1e-8)]).values()
    assert not law.is_broken
    assert judge_laws([law_error(0.0, law=Law.MONOTONE, statistic="max")]) == {}  # holds, and says too little


def test_a_backward_product_is_no_coarser_than_forward_ones_that_are_equal():
    """All backward products differ by what one fault has left there; no kernel rounds so, as those forward show."""
    products = kind_of([change(0.3, 0.1, 0.1)] * 5, rounds_inside=True, is_backward=True)
    assert amplifications({"kind": products})[0].own == pytest.approx(6e-3)
    found = amplifications({"kind": products}, are_products_equal=True)
    assert found[0].own == 2 * UNIT


def test_a_wrong_gradient_of_a_parameter_that_is_written_before_its_call_is_named(builder, tensor):
    """A hook on the parameter may run before the backward call that made its gradient is recorded."""
    cell, call = "Cell.fc.Dense", "Mint.matmul.0"
    x, w, g = (np.random.default_rng(seed).normal(size=(8, 8)).astype(np.float32) for seed in (1, 2, 3))
    noise = np.random.default_rng(4).normal(size=(8, 8)).astype(np.float32) * np.float32(1e-7)

    def run(side):
        is_target = side == "t"
        made = x @ w * (1 + noise * is_target)
        of_weight = (x.T @ g) * np.float32(1.03 if is_target else 1)
        build, inner = builder(side), f"{cell}.forward.0"
        inputs, weight = [tensor(x, "leaf")], tensor(w, "parameter fc.weight")
        build.call(f"{call}.forward", [*inputs, weight], [tensor(made)], parent=inner)
        build.call(inner, inputs, [tensor(made)], parameters={"weight": weight})
        bent = [tensor(made, f"call {inner}.output.0")]
        build.call("Mint.tanh.0.forward", bent, [tensor(np.tanh(made))])
        build.call("Mint.tanh.0.backward", [tensor(g, "leaf")], [tensor(g)])
        build.gradients(f"{cell}.parameters_grad", weight=tensor(of_weight))
        build.call(f"{call}.backward", [tensor(g)], [tensor(g @ w.T), tensor(of_weight)], parent=f"{cell}.backward.0")
        build.call(f"{cell}.backward.0", [tensor(g)], [tensor(g @ w.T)])
        return build.dump()

    assert [found.name for found in locate(compare(run("t"), run("g"))).findings] == [f"{call}.backward"]
