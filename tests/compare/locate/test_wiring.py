"""What made a given that differs: another call on each side, a call whose results were not collected, or a save."""

import numpy as np

from msprobe.compare.locate import wording
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.wording import kind
from msprobe.compare.run import compare

ADD, MUL, RELU = (f"Mint.{name}.0.forward" for name in ("add", "mul", "relu"))


def first(target, golden):
    return locate(compare(target.dump(), golden.dump())).first


def test_two_calls_that_changed_places_are_said_with_what_each_was_given(builder, tensor):
    def run(side, order, traced):
        made, inputs, value = builder(side), f"call {ADD}.output.0", 2.0
        made.call(ADD, [1.0], [2.0])
        for name in order:
            result = value * (3.0 if name == MUL else 5.0) + 1.0
            made.call(name, [tensor(value, inputs if traced else "")], [result])
            inputs, value = f"call {name}.output.0", result
        return made

    for traced in (True, False):
        found = first(run(f"t{traced}", (RELU, MUL), traced), run(f"g{traced}", (MUL, RELU), traced))
        assert (found.name, kind(found)) == (RELU, f"code between {ADD} and {RELU} in the root")
        assert f"; it comes from {ADD}, golden from {MUL}; 1 call that was compared before it agrees" in wording.reason(
            found
        )
        assert "not recorded" not in wording.reason(found)


def test_two_calls_that_changed_places_at_the_start(builder):
    target = builder("t").call(RELU, [1.0], [5.0]).call(MUL, [5.0], [16.0])
    golden = builder("g").call(MUL, [1.0], [4.0]).call(RELU, [4.0], [20.0])
    found = first(target, golden)
    assert (found.name, kind(found)) == (RELU, f"code between the start and {RELU} in the root")
    assert f"; it comes from no recorded call, golden from {MUL}; no call before it was compared" in wording.reason(
        found
    )


def test_a_call_whose_results_were_not_collected_is_not_said_to_agree(builder, tensor):
    def run(side, value):  # data_mode ["input"]
        made = builder(side).call(ADD, [1.0], None)
        return made.call(MUL, [tensor(value, f"call {ADD}.output.0")], None)

    found = first(run("t", 3.0), run("g", 2.0))
    assert (found.name, found.kind.name) == (MUL, "cannot tell")
    assert wording.reason(found).endswith(
        f"it is unknown whether it began earlier, because {ADD}.output.0 could not be judged"
    )


def test_the_first_given_of_a_cell_that_was_given_the_same_is_no_input_of_the_run(builder, tensor):
    def run(side, value):
        made = builder(side)
        made.call(ADD, [tensor(value, "code")], [value + 1.0], parent="Cell.net.Net.forward.0")
        return made.call("Cell.net.Net.forward.0", [tensor(1.0, "leaf")], [value + 1.0])

    found = first(run("t", 3.0), run("g", 2.0))
    assert (found.name, kind(found)) == (ADD, f"code between the start and {ADD} in net")


def test_a_save_that_differs_is_said_to_be_one(builder):
    def run(side, value):
        made = builder(side, level="debug")
        made.data["loss.0.debug"] = made._record("loss.0.debug", np.full(2, value, np.float32))
        return made

    found = first(run("t", 3.0), run("g", 2.0))
    assert (found.name, found.kind.name) == ("loss.0.debug", "cannot tell")
    assert wording.reason(found).endswith("because it was saved by name, but its inputs were not")
