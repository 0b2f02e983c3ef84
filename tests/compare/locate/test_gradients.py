"""Which backward calls the gradients of a cell's parameters come from, where there are several in a step."""

import numpy as np
import pytest

from msprobe.compare.core.reason import Cause
from msprobe.compare.dataflow.events import events
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.wording import kind
from msprobe.compare.run import compare

CELL = "Cell.fc.Dense"


def written(build, order, values=None):
    """A dump of one cell in this order: `f0` a call forward, `b0` backward, `g`, `g1` gradients of its parameters.

    `values`: of an entry what it gave, `<b0` what the call was given; else a number that is the same in every dump.
    """
    values = values or {}
    for entry in order.split():
        argument, gave = values.get(f"<{entry}", 2.0), values.get(entry, 3.0)
        if entry[0] == "g":
            build.gradients(f"{CELL}.parameters_grad{'.' * bool(entry[1:])}{entry[1:]}", weight=gave)
        else:
            direction = {"f": "forward", "b": "backward"}[entry[0]]
            build.call(f"{CELL}.{direction}.{entry[1:]}", [argument], [gave])
    return build.dump()


def short(name):
    """`b0` of the name of a backward call."""
    return name.replace(f"{CELL}.backward.", "b")


def owners(builder, order):
    """`g` and its number -> the backward calls that it belongs to; a comparison of a dump with itself says."""
    comparison = compare(written(builder("t"), order), written(builder("g"), order))
    return {
        "g" + event.called.rpartition(".parameters_grad")[2][1:]: " ".join(
            short(comparison.pairs.name(place)) for place in event.owners
        )
        for event in events(comparison.pairs)
        if event.kind == "parameters_grad"
    }


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("f0 g b0", {"g": "b0"}),
        ("f0 b0 g", {"g": "b0"}),
        # two mini-batches, and three; the gradients arrive when the cell's backward is about to end, or when it has
        ("f0 g b0 f1 g1 b1", {"g": "b0", "g1": "b1"}),
        ("f0 b0 g f1 b1 g1", {"g": "b0", "g1": "b1"}),
        ("f0 g b0 f1 g1 b1 f2 g2 b2", {"g": "b0", "g1": "b1", "g2": "b2"}),
        ("f0 b0 g f1 b1 g1 f2 b2 g2", {"g": "b0", "g1": "b1", "g2": "b2"}),
        # several micro-batches whose sum is recorded once
        ("f0 b0 f1 b1 g", {"g": "b0 b1"}),
        ("f0 b0 f1 b1 g f2 b2 f3 b3 g1", {"g": "b0 b1", "g1": "b2 b3"}),
        # the cell is called twice in a forward, and once in one and twice in the next
        ("f0 f1 b1 g b0", {"g": "b1 b0"}),
        ("f0 f1 b1 g b0 f2 f3 b3 g1 b2", {"g": "b1 b0", "g1": "b3 b2"}),
        ("f0 f1 b1 b0 g f2 f3 b3 b2 g1", {"g": "b1 b0", "g1": "b3 b2"}),
        ("f0 g b0 f1 f2 g1 b2 b1", {"g": "b0", "g1": "b2 b1"}),
        # a weight that is used twice in one call has gradients twice
        ("f0 g g1 b0", {"g": "b0", "g1": "b0"}),
        ("f0 b0 g g1 f1 b1 g2 g3", {"g": "b0", "g1": "b0", "g2": "b1", "g3": "b1"}),
        # a pipeline calls ahead: forwards of later batches before the backward of earlier ones
        ("f0 f1 g b0 g1 b1", {"g": "b0", "g1": "b1"}),
        ("f0 f1 b0 g b1 g1", {"g": "b0", "g1": "b1"}),
        ("f0 f1 b0 g f2 b1 g1 b2 g2", {"g": "b0", "g1": "b1", "g2": "b2"}),
        ("f0 f1 g b0 f2 g1 b1 g2 b2", {"g": "b0", "g1": "b1", "g2": "b2"}),
        # recomputation calls the cell forward again, just before its backward
        ("f0 f1 g b0 f2 f3 g1 b2", {"g": "b0", "g1": "b2"}),
        ("f0 f1 b0 g f2 f3 b2 g1", {"g": "b0", "g1": "b2"}),
        ("f0 f1 f2 b1 f3 g b0 f4 f5 f6 b5 f7 g1 b4", {"g": "b1 b0", "g1": "b5 b4"}),
        # the other tool keeps a place behind the first forward, for the gradients of the whole step
        ("f0 g b0 f1 b1", {"g": "b0 b1"}),
        ("f0 g f1 b1 b0", {"g": "b1 b0"}),
        ("f0 g f1 b0 f2 b2", {"g": "b0 b2"}),
        ("f0 g b0 f1 b1 f2 b2", {"g": "b0 b1 b2"}),
        # backward calls that were not recorded: those of another time are not theirs
        ("f0 g", {"g": ""}),
        ("f0 b0 g f1 g1", {"g": "b0", "g1": ""}),
        ("f0 g f1 b1 g1", {"g": "", "g1": "b1"}),
    ],
)
def test_gradients_belong_to_the_backward_calls_of_their_own_time(builder, order, expected):
    assert owners(builder, order) == expected


def test_gradients_of_several_cells_do_not_touch_one_another(builder):
    def run(side):
        made = builder(side)
        for n in range(2):
            made.call(f"Cell.a.Dense.forward.{n}", [1.0], [2.0]).call(f"Cell.b.Dense.forward.{n}", [2.0], [3.0])
            number = f".{n}" * bool(n)
            made.gradients(f"Cell.b.Dense.parameters_grad{number}", weight=4.0)
            made.call(f"Cell.b.Dense.backward.{n}", [5.0], [6.0]).call(f"Cell.a.Dense.backward.{n}", [6.0], [7.0])
            made.gradients(f"Cell.a.Dense.parameters_grad{number}", weight=8.0)
        return made.dump()

    found = events(compare(run("t"), run("g")).pairs)
    assert [event.name for event in found if event.kind == "parameters_grad"] == [
        "Cell.b.Dense.backward.0",
        "Cell.a.Dense.backward.0",
        "Cell.b.Dense.backward.1",
        "Cell.a.Dense.backward.1",
    ]


MINI_BATCHES = "f0 g b0 f1 g1 b1"


def first(builder, order, **values):
    """The first wrong call where the target's entries gave other values than the golden's."""
    values = {name.replace("given_", "<"): value for name, value in values.items()}
    found = locate(compare(written(builder("t"), order, values), written(builder("g"), order))).findings
    return [(short(f.name), kind(f), f.receivers) for f in found]


def test_gradients_of_the_first_mini_batch_begin_in_its_backward_call(builder):
    assert first(builder, MINI_BATCHES, g=9.0) == [("b0", "computes differently", 0)]


def test_what_differs_in_the_second_mini_batch_is_not_received_by_the_gradients_of_the_first(builder):
    """Were the first gradients held against all backward calls of the step, they would have received a difference
    that came later, and the fault in the first mini-batch would not be seen."""
    found = first(builder, MINI_BATCHES, g=9.0, g1=9.0, b1=9.0, given_b1=9.0)
    assert found == [("b0", "computes differently", 2)]


def test_gradients_of_the_second_mini_batch_receive_what_came_into_its_backward_call(builder):
    (found,) = first(builder, MINI_BATCHES, g1=9.0, b1=9.0, given_b1=9.0)
    assert found[0] == "b1"
    assert found[1].startswith("code between Cell.fc.Dense.forward.1 and Cell.fc.Dense.backward.1")


def test_gradients_without_backward_calls_of_their_own_begin_nothing(builder):
    ((_, kind, _),) = first(builder, "f0 b0 g f1 g1", g1=9.0)
    assert kind == "cannot tell"


# What a first layer is given, where its gradient is None on one side, and whether somebody needs that gradient.
HALF_NULL = {
    "a leaf": ("leaf", 2.0, "unjudged"),
    "a parameter": ("parameter table", 2.0, "error"),
    "what a layer with parameters gave": ("call Cell.below.Dense.forward.0.output.0", 2.0, "error"),
    "operations that were not recorded, behind a layer with parameters": ("code", 2.0, "error"),
    "the same, of zeros": ("code", np.zeros((2, 2), np.float32), "unjudged"),
}


@pytest.mark.parametrize(("source", "gradient", "grade"), HALF_NULL.values(), ids=HALF_NULL)
@pytest.mark.parametrize("null", ["target", "golden"])
def test_a_gradient_on_one_side_is_exempt_where_nobody_needs_it(source, gradient, grade, null, builder, tensor):
    """As a graph and PyNative leave out others; only one of the two tells where a tensor came from."""
    dumps = []
    for side in ("target", "golden"):
        made = builder(side)
        made.call("Cell.below.Dense.forward.0", [tensor(0.0, "leaf")], [tensor(1.0)], parameters={"weight": 1.0})
        inputs = tensor(1.0, "" if side == null else source)
        made.call("Cell.norm.LayerNorm.forward.0", [inputs], [tensor(3.0)], parameters={"gamma": 1.0})
        given_back = None if side == null else tensor(gradient)
        made.call("Cell.norm.LayerNorm.backward.0", [tensor(4.0)], [given_back])
        made.gradients("Cell.norm.LayerNorm.parameters_grad", gamma=5.0)
        made.gradients("Cell.below.Dense.parameters_grad", weight=6.0)
        dumps.append(made.dump())
    comparison = compare(*dumps)
    name = "Cell.norm.LayerNorm.backward.0.output.0"
    (judged,) = (j for c in comparison.calls for j in c.judged if j.pair.record.name == name)
    assert judged.grade == grade
    is_exempt = grade == "unjudged"
    assert (judged.verdict.cause is Cause.UNNEEDED_GRADIENT, comparison.is_clean) == (is_exempt, is_exempt)
    first = locate(comparison).first
    assert (first.name if first else None) == (None if is_exempt else "Cell.norm.LayerNorm.backward.0")
