"""Each kind of first wrong call, on a small network whose values the tests set."""

import json

import numpy as np
import pytest

from msprobe.compare.core.reason import Cause, Why
from msprobe.compare.core.user_limits import UserLimits
from msprobe.compare.locate import wording
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.finding import Parameters
from msprobe.compare.locate.user_limits import with_user_limits
from msprobe.compare.locate.wording import describe, kind
from msprobe.compare.run import compare
from msprobe.compare.tables.console import harmless_calls, lines
from msprobe.compare.tables.json_file import write_json

USER = "File /home/user/net.py, line 7, in construct, \n return self.fc2(self.act(self.fc1(x)))"
FRAMEWORK = (
    "File /opt/lib/python3.11/site-packages/mindspore/nn/cell.py, line 9, in __call__, \n return self.construct(x)"
)
STACK = (FRAMEWORK, USER, "File /home/user/train.py, line 3, in <module>, \n net(x)")

MODES = ["statistics", "tensor", "digest"]

# One forward and one backward pass: matmul in the cell fc1, relu, mul by a scalar, matmul in the cell fc2.
FORWARD = {"x": 1.0, "w1": 2.0, "h": 3.0, "r": 4.0, "k": 0.5, "m": 5.0, "w2": 6.0, "y": 7.0}
BACKWARD = {"gy": 11.0, "gm": 12.0, "gw2": 13.0, "gr": 14.0, "gh": 15.0, "gw1": 16.0}


class Net:
    """The network as a dump; `traced` writes where inputs come from, as our collector does."""

    def __init__(self, builder, tensor, value, side, mode="statistics", traced=True, backward=True, **changed):
        self.build, self.tensor, self.value, self.traced = builder(side, mode=mode), tensor, value, traced
        v = self.v = {**FORWARD, **BACKWARD, **changed}
        t = self._tensor
        b = self.build
        fc1, fc2 = "Cell.fc1.Dense.forward.0", "Cell.fc2.Dense.forward.0"
        b.call(
            "Mint.matmul.0.forward",
            [t("x", "leaf"), t("w1", "parameter fc1.weight")],
            [t("h")],
            parent=fc1,
            stack=STACK,
        )
        b.call(fc1, [t("x", "leaf")], [t("h")], parameters={"weight": t("w1")}, stack=STACK)
        b.call("Functional.relu.0.forward", [t("h", f"call {fc1}.output.0")], [t("r")], stack=STACK)
        b.call("Mint.mul.0.forward", [t("r", "call Functional.relu.0.forward.output.0"), value(v["k"])], [t("m")])
        inputs = t("m", "call Mint.mul.0.forward.output.0")
        b.call("Mint.matmul.1.forward", [inputs, t("w2", "parameter fc2.weight")], [t("y")], parent=fc2, stack=STACK)
        b.call(fc2, [inputs], [t("y")], parameters={"weight": t("w2")}, stack=STACK)
        if not backward:
            return
        back1, back2 = "Cell.fc1.Dense.backward.0", "Cell.fc2.Dense.backward.0"
        b.call("Mint.matmul.1.backward", [t("gy")], [t("gm"), t("gw2")], parent=back2)
        b.gradients("Cell.fc2.Dense.parameters_grad.0", weight=t("gw2"))
        b.call(back2, [t("gy")], [t("gm")])
        b.call("Mint.mul.0.backward", [t("gm")], [t("gr"), None])
        b.call("Functional.relu.0.backward", [t("gr")], [t("gh")])
        b.call("Mint.matmul.0.backward", [t("gh")], [None, t("gw1")], parent=back1)
        b.gradients("Cell.fc1.Dense.parameters_grad.0", weight=t("gw1"))
        b.call(back1, [t("gh")], [None])

    def _tensor(self, key, source=""):
        inputs = self.v[key]
        return inputs if isinstance(inputs, self.tensor) else self.tensor(inputs, source if self.traced else "")

    def dump(self):
        return self.build.dump()


@pytest.fixture
def net(builder, tensor, value):
    def make(side, **more):
        return Net(builder, tensor, value, side, **more)

    return make


def findings(target, golden):
    return locate(compare(target.dump(), golden.dump())).findings


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("traced", [True, False])
class TestEachKind:
    def test_equal_runs_have_no_first_wrong_call(self, net, mode, traced):
        assert findings(net("t", mode=mode, traced=traced), net("g", mode=mode, traced=traced)) == ()

    def test_a_call_with_equal_givens_and_another_result_computes_differently(self, net, mode, traced):
        later = {"m": 5.5, "y": 7.5, "gm": 12.5, "gr": 14.5, "gh": 15.5, "gw1": 16.5, "gw2": 13.5}
        found = findings(net("t", mode=mode, traced=traced, r=4.5, **later), net("g", mode=mode, traced=traced))
        assert [f.name for f in found] == ["Functional.relu.0.forward"]
        assert (found[0].cell, found[0].kind.name) == ("the root", "computes differently")
        assert (found[0].file, found[0].line) == ("/home/user/net.py", 7)
        assert found[0].receivers == 11  # mul, matmul, fc2, and every backward call, whose forward or gradient differs

    def test_the_api_inside_is_named_and_the_cell_is_its_place(self, net, mode, traced):
        later = {"r": 4.5, "m": 5.5, "y": 7.5, "gm": 1.0, "gr": 1.5, "gh": 2.5, "gw1": 3.5, "gw2": 4.5}
        found = findings(net("t", mode=mode, traced=traced, h=3.5, **later), net("g", mode=mode, traced=traced))
        assert [(f.name, f.cell, f.kind.name) for f in found] == [
            ("Mint.matmul.0.forward", "fc1", "computes differently")
        ]

    def test_a_backward_call_computes_differently_and_takes_its_forwards_line(self, net, mode, traced):
        found = findings(net("t", mode=mode, traced=traced, gh=15.5, gw1=16.5), net("g", mode=mode, traced=traced))
        assert [(f.name, f.kind.name) for f in found] == [("Functional.relu.0.backward", "computes differently")]
        assert (found[0].file, found[0].line) == ("/home/user/net.py", 7)

    def test_another_scalar_is_an_argument_that_differs(self, net, mode, traced):
        found = findings(
            net("t", mode=mode, traced=traced, k=1e-3, m=5.5, y=7.5), net("g", mode=mode, traced=traced, k=1e-5)
        )
        assert [(f.name, f.kind.name) for f in found] == [("Mint.mul.0.forward", "argument differs")]
        assert "input.1 is 0.001, golden 1e-05" in wording.reason(found[0])

    def test_another_batch_is_run_inputs(self, net, mode, traced):
        changed = {"x": 1.5, "h": 3.5, "r": 4.5, "m": 5.5, "y": 7.5}
        found = findings(net("t", mode=mode, traced=traced, **changed), net("g", mode=mode, traced=traced))
        assert [(f.name, f.cell, f.kind.name) for f in found] == [("Mint.matmul.0.forward", "fc1", "run inputs differ")]

    def test_other_parameters_are_named(self, net, mode, traced):
        changed = {"w1": 2.5, "h": 3.5, "r": 4.5, "m": 5.5, "y": 7.5}
        found = findings(net("t", mode=mode, traced=traced, **changed), net("g", mode=mode, traced=traced))
        assert [(f.name, f.kind.name) for f in found] == [("Mint.matmul.0.forward", "parameters differ")]
        assert wording.reason(found[0]).startswith("1 parameter differs: fc1.weight")

    def test_all_parameters_of_the_step_are_counted(self, net, mode, traced):
        changed = {"w1": 2.5, "w2": 6.5, "h": 3.5, "r": 4.5, "m": 5.5, "y": 7.5}
        found = findings(net("t", mode=mode, traced=traced, **changed), net("g", mode=mode, traced=traced))
        assert [f.kind.name for f in found] == ["parameters differ"]
        assert "(2 in the whole step)" in wording.reason(found[0])

    def test_the_first_error_is_named_where_an_ulp_differs_before(self, net, mode, traced):
        within = np.float32(4.0) + np.arange(4, dtype=np.float32).reshape(2, 2) / 4
        within[1, 1] = np.nextafter(within[1, 1], np.float32(9))
        found = findings(net("t", mode=mode, traced=traced, r=within, m=5.5, y=7.5), net("g", mode=mode, traced=traced))
        named = "Functional.relu.0.forward" if mode == "digest" else "Mint.mul.0.forward"  # a digest asks for the bits
        assert (found[0].name, found[0].kind.name) == (named, "computes differently")


def test_a_later_argument_that_no_call_produced_differs(net, builder, tensor):
    def run(side, label):
        n = net(side, backward=False)
        inputs = [tensor(7.0, "call Cell.fc2.Dense.forward.0.output.0"), tensor(label, "leaf")]
        n.build.call("Tensor.__sub__.0.forward", inputs, [label])
        return n

    found = findings(run("t", 9.0), run("g", 8.0))
    assert [(f.name, f.kind.name) for f in found] == [("Tensor.__sub__.0.forward", "argument differs")]
    assert "input.1" in wording.reason(found[0])
    assert "no recorded call returned it" in wording.reason(found[0])


def test_code_between_two_calls_is_said_with_both_names(net, tensor):
    def run(side, value, source):
        n = net(side, backward=False)
        n.build.call("Mint.exp.0.forward", [tensor(value, source)], [value], parent="Cell.head.Head.forward.0")
        n.build.call("Cell.head.Head.forward.0", [tensor(value, source)], [value])
        return n

    for source in ("code", "call Cell.fc2.Dense.forward.0.output.0"):
        found = findings(run("t" + source[:4], 9.0, source), run("g" + source[:4], 7.0, source))
        assert [f.name for f in found] == ["Mint.exp.0.forward"]
        assert kind(found[0]) == "code between Cell.fc2.Dense.forward.0 and Mint.exp.0.forward in head"


def test_swapped_arguments_are_recognized(net, tensor):
    def run(side, first, second):
        n = net(side, backward=False)
        n.build.call("Mint.sub.0.forward", [first, second], [first.value - second.value])
        return n

    h = tensor(3.0, "call Cell.fc1.Dense.forward.0.output.0")
    y = tensor(7.0, "call Cell.fc2.Dense.forward.0.output.0")
    found = findings(run("t", y, h), run("g", h, y))
    assert kind(found[0]) == "code between Cell.fc2.Dense.forward.0 and Mint.sub.0.forward in the root"
    assert "the arguments input.0 and input.1 are swapped" in wording.reason(found[0])


def test_an_incoming_gradient_that_differs_first_is_code_between(net):
    found = findings(net("t", gy=22.0, gm=24.0, gr=28.0, gh=30.0), net("g"))
    assert found[0].name == "Mint.matmul.1.backward"
    assert kind(found[0]) == "code between Cell.fc2.Dense.forward.0 and Mint.matmul.1.backward in fc2"
    assert "the incoming gradient input.0 differs" in wording.reason(found[0])
    assert len(found) == 1


def with_extra(net, side, extra, result=4.0, **more):
    """The network with one more call behind the relu, which shifts no other name, and whose result is multiplied."""
    n = net(side, backward=False, **more)
    if extra:
        data = n.build.data
        rest = {k: data.pop(k) for k in list(data)[3:]}
        n.build.call(extra, [n.tensor(4.0, "call Functional.relu.0.forward.output.0")], [result])
        data.update(rest)
        source = f"call {extra}.output.0"
        b = n.build
        b.call("Mint.mul.0.forward", [n.tensor(result, source), n.value(n.v["k"])], [n.tensor(n.v["m"])])
    return n


def scaled(**more):
    """What the calls behind the extra one give where it changes what it is given, by name."""
    return {"m": 5.5, "y": 7.5, **more}


@pytest.mark.parametrize("side", ["target", "golden"])
def test_a_call_on_one_side_only_that_changes_values_is_a_structure_that_differs(net, side):
    sides = [with_extra(net, "t", "", r=4.0), with_extra(net, "g", "", r=4.0)]
    at = ("target", "golden").index(side)
    sides[at] = with_extra(net, "x", "Functional.dropout.0.forward", result=4.5, **scaled())
    other = ("golden", "target")[at]
    found = findings(*sides)
    assert [(f.name, f.kind.name) for f in found] == [("Functional.dropout.0.forward", "structure differs")]
    assert wording.reason(found[0]) == (
        f"only the {side} makes this call; the {other} continues with Mint.mul.0.forward"
    )


@pytest.mark.parametrize("side", ["target", "golden"])
def test_a_call_on_one_side_only_is_no_finding_where_what_is_computed_from_it_agrees(net, side):
    sides = [net("t", backward=False), net("g", backward=False)]
    sides[("target", "golden").index(side)] = with_extra(net, "x", "Functional.dropout.0.forward")
    comparison = compare(*(one.dump() for one in sides))
    assert locate(comparison).findings == ()
    assert comparison.is_clean
    assert comparison.unjudged == {Cause.REWRITTEN: 2}
    assert list(harmless_calls(comparison)) == list(comparison.explained)


def listed_structure(comparison, folder):
    """The line about calls of one side without consequence, if it is printed, and the names in the JSON file."""
    located = locate(comparison)
    printed = [line for line in lines(comparison, located, 3) if "structure differs without" in line]
    write_json(folder / "found.json", comparison, located, (), ())
    return printed, [one["name"] for one in json.loads((folder / "found.json").read_text())["harmless_structure"]]


@pytest.mark.parametrize("golden", ["mindspore", "pytorch"])
@pytest.mark.parametrize("whole", ["target", "golden"])
def test_calls_that_the_other_level_leaves_out_are_not_listed_as_structure(builder, tensor, tmp_path, whole, golden):
    """Nothing was found about them; a cell of one side without consequence is."""

    def side(name, framework, level, *, rewritten):
        build = builder(f"{name}{level}{rewritten}", level=level, framework=framework)
        prefix = "Cell" if framework == "mindspore" else "Module"
        source = "leaf"
        for n, cell in enumerate(("first.Dense", "second.Dense")):
            around = f"{prefix}.{cell}.forward.0"
            if level == "mix":
                build.call(f"Mint.exp.{n}.forward", [tensor(n + 1.0, source)], [tensor(n + 2.0)], parent=around)
            build.call(around, [tensor(n + 1.0, source)], [tensor(n + 2.0)])
            source = f"call {around}.output.0"
        if rewritten:
            build.call(f"{prefix}.same.Identity.forward.0", [tensor(3.0, source)], [tensor(3.0)])
            source = f"call {prefix}.same.Identity.forward.0.output.0"
        build.call(f"{prefix}.last.Dense.forward.0", [tensor(3.0, source)], [tensor(4.0)])
        return build.dump()

    for rewritten in (False, True):
        target = side("t", "mindspore", "mix" if whole == "target" else "L0", rewritten=rewritten)
        other = side("g", golden, "mix" if whole == "golden" else "L0", rewritten=False)
        comparison = compare(target, other)
        assert comparison.is_clean
        assert comparison.unjudged[Cause.OTHER_LEVEL] == 4  # two calls of one input and one output
        printed, named = listed_structure(comparison, tmp_path)
        assert named == ["Cell.same.Identity.forward.0"] * rewritten
        assert len(printed) == rewritten


def test_an_ignored_call_on_one_side_only_is_not_listed_as_structure(net, tmp_path):
    target = with_extra(net, "t", "Functional.dropout.0.forward", result=4.5, **scaled())
    comparison = compare(target.dump(), with_extra(net, "g", "", r=4.0).dump())
    ignored = with_user_limits(comparison, UserLimits(("Functional.dropout",)))
    assert [reason.why for reason in ignored.explained.values()] == [Why.IGNORED]
    assert listed_structure(ignored, tmp_path) == ([], [])


def test_another_call_in_its_place_is_said_where_it_gives_something_else(net):
    target = with_extra(net, "t", "Functional.silu.0.forward", result=4.5, **scaled())
    golden = with_extra(net, "g", "Functional.gelu.0.forward", result=4.25)
    found = findings(target, golden)
    assert [(f.name, f.kind.name) for f in found] == [("Functional.silu.0.forward", "structure differs")]
    message = "only the target makes this call; the golden calls Functional.gelu.0.forward instead"
    assert wording.reason(found[0]) == message


def test_another_call_in_its_place_that_gives_the_same_is_no_finding(net):
    target = with_extra(net, "t", "Functional.silu.0.forward", result=4.5)
    golden = with_extra(net, "g", "Functional.gelu.0.forward", result=4.5)
    assert findings(target, golden) == ()


def test_another_parameter_in_its_place_is_no_parameter_that_differs(builder, tensor):
    def made(side, *order):
        weights = {"fc.a": 2.0, "fc.b": 6.0}
        build = builder(side)
        for number, name in enumerate(order):
            inputs = [tensor(1.0, "leaf"), tensor(weights[name], f"parameter {name}")]
            build.call(f"Mint.matmul.{number}.forward", inputs, [weights[name]])
        return build.dump()

    found = locate(compare(made("t", "fc.b", "fc.a"), made("g", "fc.a", "fc.b"))).findings
    assert [(f.kind.name, wording.reason(f)) for f in found] == [
        ("argument differs", "input.1 is the parameter fc.b, golden fc.a"),
        ("argument differs", "input.1 is the parameter fc.a, golden fc.b"),
    ]


def test_a_renamed_parameter_that_differs_is_a_parameter_that_differs(builder, tensor):
    sides = [
        builder(side).call("Mint.exp.0.forward", [tensor(value, f"parameter {name}")], [value]).dump()
        for side, name, value in (("t", "fc.weight", 2.0), ("g", "dense.weight", 3.0))
    ]
    (found,) = locate(compare(*sides)).findings
    assert (found.kind.name, wording.reason(found)) == ("parameters differ", "1 parameter differs: fc.weight")


def test_a_cell_and_the_gradients_of_its_parameters_are_named_once(builder):
    sides = []
    for side, cell in (("t", "Cell.fc.Wide"), ("g", "Cell.fc.Deep")):
        made = builder(side)
        made.call("Mint.exp.0.forward", [1.0], [2.0])
        made.gradients(f"{cell}.parameters_grad.0", weight=[5.0])
        made.call(f"{cell}.backward.0", [3.0], [4.0])
        sides.append(made.dump())
    reason = wording.reason(locate(compare(*sides)).first)
    assert reason == (
        "only the target makes this call; the golden calls Cell.fc.Deep.backward.0 instead; "
        "1 call before it could not be judged in full: Cell.fc.Wide.backward.0"
    )


def test_a_call_that_was_not_collected_on_one_side_is_no_different_call(net):
    target, golden = with_extra(net, "t", "Functional.dropout.0.forward"), net("g", backward=False)
    golden.build.construct["Functional.dropout.0.forward"] = None
    assert findings(target, golden) == ()


def test_a_level_without_apis_makes_no_different_calls(net):
    target, golden = net("t", backward=False), net("g", backward=False)
    golden.build.data = {k: v for k, v in golden.build.data.items() if k.startswith("Cell")}
    assert findings(target, golden) == ()


def test_a_cell_whose_inner_calls_agree_computes_differently_itself(net):
    target = net("t", backward=False)
    target.build.call(
        "Cell.fc2.Dense.forward.0", [target._tensor("m")], [8.0], parameters={"weight": target._tensor("w2")}
    )
    found = findings(target, net("g", backward=False))
    assert [(f.name, f.cell, f.kind.name) for f in found] == [
        ("Cell.fc2.Dense.forward.0", "the root", "computes differently")
    ]


def test_parameter_gradients_are_results_of_their_cells_backward(builder):
    def run(side, gradient, form):
        b = builder(side, level="L0").call("Cell.fc.Dense.forward.0", [1.0], [2.0], parameters={"weight": 3.0})
        if form == "placeholder":  # the other tool's 8.1 writes it where the forward ends
            b.gradients("Cell.fc.Dense.parameters_grad", weight=gradient)
        b.call("Cell.head.Head.forward.0", [2.0], [4.0]).call("Cell.head.Head.backward.0", [5.0], [6.0])
        if form == "numbered":
            b.gradients("Cell.fc.Dense.parameters_grad.0", weight=gradient)
        return b.call("Cell.fc.Dense.backward.0", [6.0], [None])

    for n, (t, g) in enumerate([("placeholder", "placeholder"), ("numbered", "numbered"), ("placeholder", "numbered")]):
        found = findings(run(f"t{n}", 9.0, t), run(f"g{n}", 8.0, g))
        assert [(f.name, f.kind.name) for f in found] == [("Cell.fc.Dense.backward.0", "computes differently")]
        assert "gradients of its parameters" in wording.reason(found[0])


def test_an_accumulated_gradient_is_no_evidence_that_its_call_begins(builder, tensor):
    def run(side, gradient, kind):
        b = builder(side).call("Mint.exp.0.forward", [1.0], [2.0]).call("Mint.exp.0.backward", [3.0], [])
        return b.call("Mint.exp.0.backward", [3.0], [tensor(gradient, gradient=kind)])

    own = findings(run("t", 4.0, "own"), run("g", 5.0, "own"))
    assert [(f.name, f.kind.name) for f in own] == [("Mint.exp.0.backward", "computes differently")]
    summed = findings(run("t2", 4.0, "accumulated"), run("g2", 5.0, "accumulated"))
    assert [(f.name, f.kind.name) for f in summed] == [("Mint.exp.0.backward", "cannot tell")]


def test_without_inputs_it_cannot_be_told_where_a_difference_begins(builder):
    def run(side, result):
        return builder(side).call("Mint.exp.0.forward", None, [1.0]).call("Mint.sin.0.forward", None, [result])

    found = findings(run("t", 2.0), run("g", 3.0))
    assert [(f.name, f.kind.name) for f in found] == [("Mint.sin.0.forward", "cannot tell")]
    assert "the inputs of calls were not collected" in wording.reason(found[0])


def test_without_its_forward_a_backward_call_cannot_be_told_to_begin(builder):
    def run(side, result):
        return builder(side).call("Mint.exp.0.backward", [1.0], [result])

    found = findings(run("t", 2.0), run("g", 3.0))
    assert [(f.name, f.kind.name) for f in found] == [("Mint.exp.0.backward", "cannot tell")]
    assert "its forward call was not collected" in wording.reason(found[0])


def test_a_missing_file_before_the_difference_is_named(net):
    target, golden = net("t", mode="tensor", backward=False, m=5.5, y=7.5), net("g", mode="tensor", backward=False)
    dump = target.dump()
    (target.build.folder / "dump_tensor_data" / "Mint.mul.0.forward.input.0.npy").unlink()
    found = locate(compare(dump, golden.dump())).findings
    assert [(f.name, f.kind.name) for f in found] == [("Mint.mul.0.forward", "cannot tell")]
    assert "Mint.mul.0.forward.input.0" in wording.reason(found[0])


def test_an_unreadable_result_whose_user_differs_is_named(net):
    target = net("t", mode="tensor", backward=False, r=4.5, m=5.5, y=7.5)
    dump = target.dump()
    (target.build.folder / "dump_tensor_data" / "Functional.relu.0.forward.output.0.npy").write_bytes(b"broken")
    found = locate(compare(dump, net("g", mode="tensor", backward=False).dump())).findings
    assert [(f.name, f.kind.name) for f in found] == [("Mint.mul.0.forward", "cannot tell")]
    assert "Functional.relu.0.forward.output.0 could not be judged" in wording.reason(found[0])


def test_a_call_that_could_not_be_judged_before_is_mentioned(net):
    target, golden = net("t", mode="tensor", backward=False, y=7.5), net("g", mode="tensor", backward=False)
    dump = target.dump()
    (target.build.folder / "dump_tensor_data" / "Functional.relu.0.forward.output.0.npy").unlink()
    found = locate(compare(dump, golden.dump())).findings
    assert [(f.name, f.kind.name) for f in found] == [("Mint.matmul.1.forward", "computes differently")]
    assert "could not be judged in full: Functional.relu.0.forward" in wording.reason(found[0])


def test_an_argument_on_one_side_only_differs_where_the_results_do(builder, value):
    target = builder("t").call("Mint.sum.0.forward", [1.0], [2.5], kwargs={"keepdim": value(True)})
    golden = builder("g").call("Mint.sum.0.forward", [1.0], [2.0])
    found = findings(target, golden)
    assert [(f.name, f.kind.name) for f in found] == [("Mint.sum.0.forward", "argument differs")]
    assert wording.reason(found[0]) == "input.keepdim is passed on the target side only"


@pytest.mark.parametrize("mode", MODES)
def test_an_argument_on_one_side_only_is_no_finding_where_both_return_the_same(builder, value, mode):
    target = builder("t", mode=mode).call("Mint.sum.0.forward", [1.0], [2.0], kwargs={"keepdim": value(False)})
    golden = builder("g", mode=mode).call("Mint.sum.0.forward", [1.0], [2.0])
    comparison = compare(target.dump(), golden.dump())
    assert locate(comparison).findings == ()
    assert (comparison.is_clean, comparison.unjudged) == (True, {Cause.REWRITTEN: 1})


def test_an_argument_by_position_is_the_one_by_keyword(builder, value):
    target = builder("t").call("Mint.norm.0.forward", [1.0, [value(4)], 2.0, 3.0, value(1e-3)], [5.0])
    names = {"shape": [value(4)], "weight": 2.0, "bias": 3.0, "eps": value(1e-5)}
    golden = builder("g").call("Mint.norm.0.forward", [1.0], [5.5], kwargs=names)
    comparison = compare(target.dump(), golden.dump())
    assert (comparison.pairs.target_rows >= 0).all()
    assert (comparison.pairs.golden_rows >= 0).all()
    (found,) = locate(comparison).findings
    assert (found.kind.name, wording.reason(found)) == ("argument differs", "input.4 is 0.001, golden 1e-05")


def test_later_beginnings_are_listed_in_execution_order_with_their_receivers(net):
    found = findings(net("t", backward=False, r=4.5, m=5.5, w2=6.5, y=7.5), net("g", backward=False))
    assert [(f.name, f.kind.name) for f in found] == [
        ("Functional.relu.0.forward", "computes differently"),
        ("Mint.matmul.1.forward", "parameters differ"),
    ]


def roles(comparison, located):
    """Name of the target's record, or `golden` and the golden's -> its role."""
    found = {}
    for row, role in located.roles.items():
        pair = comparison.judged(row).pair
        found[pair.target.name if pair.target else f"golden {pair.golden.name}"] = role
    return found


def test_rows_say_which_difference_begins_and_which_was_received(net):
    comparison = compare(net("t", backward=False, r=4.5, m=5.5, y=7.5).dump(), net("g", backward=False).dump())
    by_row = roles(comparison, locate(comparison))
    assert by_row["Functional.relu.0.forward.output.0"] == "begins"
    assert by_row["Mint.mul.0.forward.input.0"] == "received"
    assert by_row["Mint.mul.0.forward.output.0"] == "received"
    assert "Functional.relu.0.forward.input.0" not in by_row


def test_parameters_at_a_later_step_point_to_the_update_before(net):
    target = net("t", backward=False, w1=2.5, h=3.5, r=4.5, m=5.5, y=7.5)
    target.build.extra["run"] = {"step": 3}
    reason = wording.reason(findings(target, net("g", backward=False))[0])
    assert "an earlier update already differed (look at the optimizer" in reason
    assert "or weights were not transferred" in reason


def test_a_golden_only_call_is_not_taken_for_the_targets_of_the_same_name(builder):
    """The golden's first exp is extra, so its exp.1 is the target's exp.0, which then computes differently."""
    golden = builder("g").call("Mint.exp.0.forward", [1.0], [2.5]).call("Mint.sin.0.forward", [2.5], [3.5])
    golden.call("Mint.exp.1.forward", [3.25], [4.0])
    golden.call("Mint.sin.0.backward", [7.0], [8.0]).call("Mint.exp.0.backward", [5.0], [6.0])
    target = builder("t").call("Mint.sin.0.forward", [2.0], [3.0]).call("Mint.exp.0.forward", [3.25], [9.0])
    target.call("Mint.sin.0.backward", [7.0], [8.0])
    comparison = compare(target.dump(), golden.dump())
    located = locate(comparison)
    assert [(f.name, f.kind.name) for f in located.findings] == [
        ("Mint.exp.0.forward", "structure differs"),
        ("Mint.exp.0.forward", "computes differently"),
    ]
    assert located.findings[0].receivers == 3  # its own backward, what uses its result, and the backward of that
    by_row = roles(comparison, located)
    assert by_row["golden Mint.exp.0.forward.output.0"] == "begins"
    assert by_row["Mint.exp.0.forward.output.0"] == "begins"


def test_a_tensor_that_is_given_to_many_calls_is_one_beginning(builder, tensor):
    def run(side, mask, result):
        b = builder(side).call("Mint.exp.0.forward", [tensor(1.0, "leaf")], [2.0])
        for n in range(3):
            inputs = [tensor(2.0, "call Mint.exp.0.forward.output.0"), tensor(mask, "leaf")]
            b.call(f"Mint.mul.{n}.forward", inputs, [result])
        return b

    found = findings(run("t", 7.0, 9.0), run("g", 8.0, 10.0))
    assert [(f.name, f.kind.name, f.receivers) for f in found] == [("Mint.mul.0.forward", "argument differs", 2)]


def test_a_given_from_a_call_that_was_not_collected_on_the_other_side_cannot_be_told(builder, tensor):
    target = builder("t").call("Mint.exp.0.forward", [1.0], [2.0])
    target.call("Mint.sin.0.forward", [tensor(2.0, "call Mint.exp.0.forward.output.0")], [4.0])
    golden = builder("g").call("Mint.sin.0.forward", [3.0], [5.0])
    golden.construct["Mint.exp.0.forward"] = None
    found = findings(target, golden)
    assert [(f.name, f.kind.name) for f in found] == [("Mint.sin.0.forward", "cannot tell")]
    assert "Mint.exp.0.forward.output.0 could not be judged" in wording.reason(found[0])


@pytest.mark.parametrize("names", [("bn.moving_mean", "bn.moving_variance"), ("norm.running_var",)])
def test_running_statistics_are_not_the_optimizers(names):
    text = str(describe(Parameters(names, len(names), step=1)))
    assert "momentum" in text
    assert "optimizer" not in text
    assert "handed over" not in text
    assert "momentum" not in str(describe(Parameters(names, len(names), step=0)))


def test_other_parameters_of_a_later_step_are_the_optimizers():
    assert "optimizer" in str(describe(Parameters(("bn.moving_mean", "bn.gamma"), 2, step=1)))


def test_parameters_of_the_first_step_have_no_update_before_them():
    assert str(describe(Parameters(("fc.weight",), 1, step=0))) == "1 parameter differs: fc.weight"


@pytest.mark.parametrize("side", ["target", "golden"])
def test_a_missing_term_of_the_loss_and_not_the_gradient_that_it_causes(side, builder, tensor):
    """Both sides compute a mean, which one side alone adds to its loss; only there the mean has a gradient."""

    def written(name, has_term):
        made = builder(name, mode="tensor", level="L1")
        x = np.array([[0.5, -1.0], [2.0, 1.0]], np.float32)
        w = np.array([[1.0, 0.5], [-0.5, 2.0]], np.float32)
        h, hidden = x * w, "call Mint.mul.0.forward.output.0"
        mean, loss = h.mean(keepdims=True), np.sin(h).sum(keepdims=True)
        made.call("Mint.mul.0.forward", [tensor(x, "leaf"), tensor(w, "parameter w")], [h])
        made.call("Mint.mean.0.forward", [tensor(h, hidden)], [mean])
        made.call("Mint.sin.0.forward", [tensor(h, hidden)], [np.sin(h)])
        made.call("Mint.sum.0.forward", [tensor(np.sin(h), "call Mint.sin.0.forward.output.0")], [loss])
        one, ones, total = np.ones((1, 1), np.float32), np.ones_like(h), np.cos(h)
        if has_term:
            term = tensor(mean, "call Mint.mean.0.forward.output.0")
            made.call("Mint.add.0.forward", [tensor(loss, "call Mint.sum.0.forward.output.0"), term], [loss + mean])
            made.call("Mint.add.0.backward", [one], [one, one])
        made.call("Mint.sum.0.backward", [one], [ones])
        made.call("Mint.sin.0.backward", [ones], [np.cos(h)])
        if has_term:
            made.call("Mint.mean.0.backward", [one], [ones / 4])
            total = np.cos(h) + ones / 4
        made.call("Mint.mul.0.backward", [total], [None, total * x])
        return made.dump()

    found = locate(compare(*(written(name, name == side) for name in ("target", "golden")))).findings
    assert [(one.name, one.kind.name) for one in found] == [("Mint.add.0.forward", "structure differs")]
    assert found[0].receivers == 3  # both backward calls of that side, and the gradient that both sides compute
