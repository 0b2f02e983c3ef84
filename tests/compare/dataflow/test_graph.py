"""The dataflow graph of a dump: what made an input, what uses an output, which gradients add up to which."""

import numpy as np
import pytest
from three_calls import EXP, SIN, TAN

from msprobe.compare.dataflow.graph import Graph

CELL = "Cell.net.Net.forward.0"
OF_EXP, OF_SIN = f"call {EXP}.output.0", f"call {SIN}.output.0"


def backward(name):
    return name.replace("forward", "backward")


@pytest.fixture
def rows(builder):
    """`rows(fill)`: the graph of the dump that `fill(dump)` writes, and a look-up of its rows."""

    def make(fill, **settings):
        build = builder("target", level="L1", **settings)
        fill(build)
        graph = Graph(build.dump())
        return graph, lambda call, part, at=0: list(getattr(graph, part)(graph.dump.place[call]))[at]

    return make


def test_a_dump_says_what_made_an_input(rows, tensor):
    def fill(dump):
        dump.call(EXP, [tensor(1.0, "leaf"), tensor(5.0, "parameter net.weight"), tensor(6.0, "code")], [2.0])
        dump.call(SIN, [tensor(2.0, OF_EXP)], [3.0])

    graph, row = rows(fill)
    assert [graph.origin(row(EXP, "inputs", n))[0] for n in range(3)] == ["leaf", "parameter", "code"]
    assert graph.origin(row(SIN, "inputs")) == ("call", row(EXP, "outputs"))
    assert graph.columns.call_of(row(SIN, "inputs")) == graph.dump.place[SIN]


def test_content_tells_what_made_an_input_where_the_dump_does_not(rows):
    graph, row = rows(lambda dump: dump.call(EXP, [1.0], [2.0]).call(SIN, [2.0], [3.0]).call(TAN, [9.0], [4.0]))
    assert graph.origin(row(SIN, "inputs")) == ("call", row(EXP, "outputs"))
    assert graph.origin(row(TAN, "inputs"))[1] == -1
    assert dict(graph.users) == {row(EXP, "outputs"): [row(SIN, "inputs")]}


def test_a_buffer_of_zeros_is_not_the_parameter_that_has_zeros(rows, tensor):
    """Content does not identify it where the dump has the sources of parameters; without these it may be the bias."""

    zeros = np.zeros(4, np.float32)

    def fill(source):
        def filled(dump):
            dump.call(EXP, [tensor(1.0, "leaf"), tensor(zeros), tensor(zeros, source)], [2.0], parent=CELL)
            dump.call(CELL, [tensor(1.0, "leaf")], [2.0], parameters={"bias": tensor(zeros)})

        return filled

    for source, origin in (("parameter net.bias", "unknown"), ("", "parameter")):
        graph, row = rows(fill(source))
        assert graph.origin(row(EXP, "inputs", 1))[0] == origin


def test_what_a_call_wrote_to_in_place_came_from_code(rows, tensor):
    def fill(dump):
        dump.call(EXP, [tensor(1.0, "leaf")], [2.0])
        dump.call(SIN, [tensor(7.0, f"call {EXP}.input.0")], [3.0])

    graph, row = rows(fill)
    assert graph.origin(row(SIN, "inputs")) == ("code", -1)


def test_a_call_that_was_not_recorded_is_code(rows, tensor):
    graph, row = rows(lambda dump: dump.call(SIN, [tensor(1.0, OF_EXP)], [3.0]))
    assert graph.origin(row(SIN, "inputs")) == ("code", -1)


def test_what_a_cell_returns_is_the_output_of_the_call_inside(rows, tensor):
    def fill(dump):
        dump.call(EXP, [tensor(1.0, "leaf")], [2.0], parent=CELL)
        dump.call(CELL, [tensor(1.0, "leaf")], [2.0])
        dump.call(SIN, [tensor(2.0, f"call {CELL}.output.0")], [3.0])

    graph, row = rows(fill)
    made = row(EXP, "outputs")
    assert graph.alias(row(CELL, "outputs")) == made
    assert graph.alias(made) == made
    assert graph.origin(row(SIN, "inputs")) == ("call", made)
    assert graph.users == {made: [row(SIN, "inputs")]}
    assert list(graph.around(graph.dump.place[EXP])) == [graph.dump.place[CELL]]
    assert graph.inside == {graph.dump.place[CELL]: [graph.dump.place[EXP]]}


def test_the_input_of_a_cell_is_used_by_the_call_inside(rows, tensor):
    def fill(dump):
        dump.call(EXP, [tensor(1.0, "leaf")], [2.0])
        dump.call(SIN, [tensor(2.0, OF_EXP)], [3.0], parent=CELL)
        dump.call(CELL, [tensor(2.0, OF_EXP)], [3.0])

    graph, row = rows(fill)
    assert graph.users == {row(EXP, "outputs"): [row(SIN, "inputs")]}


def test_a_call_that_returns_its_input_is_passed_by(rows, tensor):
    """A dropout that is off: the tensor that it returned is said to be of the call that made it."""
    off = "Mint.dropout.0.forward"

    def fill(dump):
        dump.call(EXP, [tensor(1.0, "leaf")], [2.0])
        dump.call(off, [tensor(2.0, OF_EXP)], [2.0])
        dump.call(SIN, [tensor(2.0, OF_EXP)], [3.0])

    graph, row = rows(fill)
    assert graph.users == {row(EXP, "outputs"): [row(SIN, "inputs")]}


def test_a_dropout_that_drops_is_a_user(rows, tensor):
    on = "Mint.dropout.0.forward"

    def fill(dump):
        dump.call(EXP, [tensor(1.0, "leaf")], [2.0])
        dump.call(on, [tensor(2.0, OF_EXP)], [5.0])
        dump.call(SIN, [tensor(2.0, OF_EXP)], [3.0])

    graph, row = rows(fill)
    assert graph.users == {row(EXP, "outputs"): [row(on, "inputs"), row(SIN, "inputs")]}


def test_gradients_stand_in_the_order_of_the_arguments_positional_ones_first(rows, value):
    def fill(dump):
        dump.call(EXP, [1.0, value(3), 2.0], [4.0], kwargs={"other": 3.0})
        dump.call(backward(EXP), [8.0], [5.0, None, 6.0, 7.0])

    graph, row = rows(fill)
    gradients = [row(backward(EXP), "outputs", n) for n in range(3)]
    assert [graph.gradient(row(EXP, "inputs", n)) for n in range(3)] == gradients
    assert [graph.argument(at) for at in gradients] == [row(EXP, "inputs", n) for n in range(3)]
    assert list(graph.values(graph.dump.place[backward(EXP)])) == [3]


def test_without_a_backward_call_there_is_no_gradient(rows):
    graph, row = rows(lambda dump: dump.call(EXP, [1.0], [2.0]))
    assert graph.gradient(row(EXP, "inputs")) == -1
    assert graph.argument(row(EXP, "inputs")) == -1


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_incoming_gradient_is_the_sum_over_the_users(rows, tensor, is_whole):
    def fill(dump):
        dump.call(EXP, [tensor(1.0, "leaf")], [2.0])
        dump.call(SIN, [tensor(2.0, OF_EXP)], [3.0]).call(TAN, [tensor(2.0, OF_EXP)], [4.0])
        if is_whole:
            dump.call(backward(TAN), [11.0], [12.0])
        dump.call(backward(SIN), [13.0], [14.0])
        dump.call(backward(EXP), [26.0], [15.0])

    graph, row = rows(fill)
    expected = [row(backward(name), "outputs") for name in (SIN, TAN)[: 1 + is_whole]]
    assert graph.contributions(row(backward(EXP), "inputs")) == (expected, is_whole)


def test_nothing_is_known_of_the_gradient_of_what_no_recorded_call_uses(rows, tensor):
    graph, row = rows(lambda dump: dump.call(EXP, [tensor(1.0, "leaf")], [2.0]).call(backward(EXP), [1.0], [2.0]))
    assert graph.contributions(row(backward(EXP), "inputs")) == ([], False)
