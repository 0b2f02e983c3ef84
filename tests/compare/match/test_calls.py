"""Which call belongs to which, and what made it so: one example per stage, and patterns that mislead a counter."""

import time
from dataclasses import replace
from itertools import permutations

import pytest

from msprobe.compare.match.call_keys import Side
from msprobe.compare.match.calls import Match, Pairing, match_calls
from msprobe.compare.match.dumps import match
from msprobe.store.record import Call, Dump, Record


def record(name, part, place, argument):
    if isinstance(argument, tuple):
        return Record(f"{name}.{part}.{place}", part, (place,), "tensor", "mindspore.Tensor", "Float32", argument)
    return Record(f"{name}.{part}.{place}", part, (place,), "value", type(argument).__name__, value=argument)


def call(name, *inputs, parent=None, output=(2, 2), again=False):
    """A call whose inputs are shapes (tensors) or anything else (values)."""
    records = [record(name, "input", str(n), arguments) for n, arguments in enumerate(inputs or ((2, 2),))]
    return Call(name, (*records, record(name, "output", "0", output)), parent, is_recompute=again)


def apis(text, parent=None, offset=0, direction="forward"):
    """`relu exp:4,4 relu@Cell.a.A.forward.0`: API calls with shape and parent, numbers counted as a collector does."""
    counts, calls = {}, []
    for word in text.split():
        stem, _, around = word.partition("@")
        stem, _, shape = stem.partition(":")
        number = counts[stem] = counts.get(stem, offset - 1) + 1
        size = tuple(map(int, shape.split(","))) if shape else (2, 2)
        calls.append(call(f"Mint.{stem}.{number}.{direction}", size, parent=around or parent, output=size))
    return calls


def cell(path, number=0, parent=None, direction="forward", shape=(2, 2), again=False):
    return call(f"Cell.{path}.{direction}.{number}", shape, parent=parent, output=shape, again=again)


def dump_of(calls):
    return Dump("", "", "statistics", "mix", "mindspore", calls)


def matches(target, golden, **options):
    return match_calls(dump_of(target), dump_of(golden), **options)


def found(target, golden, **options):
    return [(target[m.target].name, golden[m.golden].name, m.by) for m in matches(target, golden, **options)]


def short(target, golden, **options):
    """Numbers of API calls, as `relu 1-0 renumbered`."""
    pairs = [(a.split("."), b.split("."), by) for a, b, by in found(target, golden, **options)]
    return [f"{a[1]} {a[2]}-{b[2]} {by}" for a, b, by in pairs]


def kernel(stem, number, *sources):
    """A kernel whose inputs come from `call X` or `parameter p`."""
    name = f"Kernel.Default.{stem}.{number}.forward"
    inputs = (replace(record(name, "input", str(n), (2, 2)), source=source) for n, source in enumerate(sources))
    return Call(name, (*inputs, record(name, "output", "0", (2, 2))))


def made_by(stem, number):
    return f"call Kernel.Default.{stem}.{number}.forward.output.0"


class TestNodesOfGraphs:
    def test_kernels_that_do_not_depend_on_each_other_run_in_any_order(self):
        adams = [kernel("Adam", n, f"parameter p{n}", made_by("Mul", 0)) for n in range(4)]
        kernels = [kernel("Mul", 0, "parameter beta"), *adams, call("Parameter.p0.0.forward")]
        for order in permutations(range(6)):
            target = [kernels[n] for n in order]
            assert [(m.golden, m.by) for m in matches(target, kernels)] == [(n, "name") for n in order]

    def test_what_a_kernel_is_given_says_which_it_is_where_numbers_have_shifted(self):
        def chain(*weights):
            products = [kernel("MatMul", n, f"parameter {w}") for n, w in enumerate(weights)]
            sums = [kernel("BiasAdd", n, made_by("MatMul", n), f"parameter {w}.b") for n, w in enumerate(weights)]
            return [node for pair in zip(products, sums, strict=True) for node in pair]

        found = matches(chain("first", "other", "second", "third"), chain("first", "second", "third"))
        assert [(m.target, m.golden, m.by) for m in found] == [
            *((n, n, "name") for n in (0, 1)),
            *((n, n - 2, "renumbered") for n in (4, 5, 6, 7)),
        ]

    def test_behind_a_kernel_that_was_put_in_the_names_say_which_is_which(self):
        golden = [kernel("Dense", 0, "parameter w"), kernel("Relu", 0, made_by("Dense", 0))]
        golden += [kernel("Sum", n, made_by("Relu", 0), f"parameter p{n}") for n in (0, 1)]
        put_in = [golden[0], kernel("Neg", 0, made_by("Dense", 0)), kernel("Relu", 0, made_by("Neg", 0))]
        for sums in ((0, 1), (1, 0)):
            target = [*put_in, *(golden[2 + n] for n in sums)]
            assert [(m.target, m.golden) for m in matches(target, golden)] == [
                (0, 0),
                (2, 1),
                *((3 + at, 2 + n) for at, n in enumerate(sums)),
            ]

    def test_kernels_that_cannot_be_told_apart_are_paired_by_name(self):
        twice = [kernel("Mul", n, "parameter w") for n in (0, 1)]
        assert [(m.target, m.golden) for m in matches(twice[::-1], twice)] == [(0, 1), (1, 0)]
        assert [(m.target, m.golden) for m in matches(twice[1:], twice)] == [(0, 1)]

    def test_the_order_of_calls_in_python_says_which_is_which(self):
        target, golden = apis("exp sin exp:4,4"), apis("exp:4,4 exp sin")
        assert short(target, golden) == ["exp 0-1 renumbered", "sin 0-0 name"]


class TestName:
    def test_equal_dumps(self):
        assert matches(apis("exp sin"), apis("exp sin")) == [Match(0, 0, "name"), Match(1, 1, "name")]

    def test_empty_sides(self):
        assert matches([], []) == []
        assert matches(apis("exp"), []) == []
        assert matches([], apis("exp")) == []

    def test_a_changed_shape_is_a_pair_that_differs(self):
        target, golden = apis("exp relu:4,4 sin"), apis("exp relu:2,4 sin")
        assert short(target, golden) == ["exp 0-0 name", "relu 0-0 name", "sin 0-0 name"]

    def test_a_changed_rank_is_a_pair_that_differs(self):
        target, golden = apis("exp relu:4 relu:2,4 sin"), apis("exp relu:4,1 relu:2,4 sin")
        assert short(target, golden) == ["exp 0-0 name", "relu 0-0 name", "relu 1-1 name", "sin 0-0 name"]

    def test_another_batch_size_everywhere_changes_no_pair(self):
        target, golden = apis("relu:8,4 exp:8,4 relu:8,2"), apis("relu:2,4 exp:2,4 relu:2,2")
        assert short(target, golden) == ["relu 0-0 name", "exp 0-0 name", "relu 1-1 name"]

    def test_a_counter_among_the_arguments_shifts_nothing(self):
        target = [call(f"Mint.add.{n}.forward", (2, 2), n + 1) for n in range(5)]
        golden = [call(f"Mint.add.{n}.forward", (2, 2), n) for n in range(5)]
        pairs = match(dump_of(target), dump_of(golden))
        assert pairs.target_calls.tolist() == pairs.golden_calls.tolist() == list(range(5))

    def test_a_call_that_runs_earlier_is_still_the_same(self):
        assert short(apis("exp sin"), apis("sin exp")) == ["exp 0-0 name", "sin 0-0 name"]

    def test_both_forms_of_parameter_gradients_are_one_wherever_they_stand(self):
        gradients = [call("Cell.fc.Dense.parameters_grad"), call("Cell.ln.Norm.parameters_grad.1")]
        others = [call("Cell.ln.Norm.parameters_grad.1"), call("Cell.fc.Dense.parameters_grad.0")]
        assert found(gradients + apis("exp"), apis("exp") + others) == [
            ("Cell.fc.Dense.parameters_grad", "Cell.fc.Dense.parameters_grad.0", "name"),
            ("Cell.ln.Norm.parameters_grad.1", "Cell.ln.Norm.parameters_grad.1", "name"),
            ("Mint.exp.0.forward", "Mint.exp.0.forward", "name"),
        ]

    def test_saves_are_pairs_by_name(self):
        target, golden = ([call(f"{n}.0.debug") for n in names] for names in (("loss", "hidden"), ("hidden", "loss")))
        assert found(target, golden) == [
            ("loss.0.debug", "loss.0.debug", "name"),
            ("hidden.0.debug", "hidden.0.debug", "name"),
        ]

    def test_neighbors_that_both_changed_are_no_other_calls(self):
        """The first has another argument, and so has the second; of the four no more than two look alike, crosswise."""
        target = [call("Mint.mul.0.forward", (2, 2), 7), call("Mint.mul.1.forward", (2, 2), 3), *apis("exp")]
        golden = [call("Mint.mul.0.forward", (2, 2), 3), call("Mint.mul.1.forward", (2, 2), 4), *apis("exp:4,4")]
        assert short(target, golden) == ["mul 0-0 name", "mul 1-1 name", "exp 0-0 name"]


class TestRenumbered:
    def test_an_extra_call_early_and_a_missing_one_late(self):
        """The names are equal on both sides, and each means another call."""
        around = cell("a.A")
        target = [*apis("relu exp relu:4,4 sin relu:8 cos", parent=around.name), around]
        golden = [*apis("exp relu:4,4 sin relu:8 cos relu", parent=around.name), around]
        assert sorted(c.name for c in target) == sorted(c.name for c in golden)
        assert [(m.target, m.golden) for m in matches(target, golden)] == [
            *((n, n - 1) for n in range(1, 6)),
            (6, 6),
        ]

    def test_the_shapes_alone_tell_that_the_numbers_mean_other_calls(self):
        """The same names in the same order: an extra call at the beginning, one less at the end."""
        target, golden = apis("relu:9 relu:1 relu:2 relu:3 relu:4"), apis("relu:1 relu:2 relu:3 relu:4 relu:5")
        assert short(target, golden) == [f"relu {n + 1}-{n} renumbered" for n in range(4)]

    def test_the_cells_alone_tell_that_the_numbers_mean_other_calls(self):
        a, b, c = (f"Cell.{x}.X.forward.0" for x in "abc")
        target, golden = apis(f"relu@{a} relu@{b}"), apis(f"relu@{b} relu@{c}")
        assert short(target, golden) == ["relu 1-0 renumbered"]

    def test_a_missing_parent_column_is_no_difference(self):
        """One side has no construct.json."""
        assert short(apis("relu exp relu", parent="Cell.a.A.forward.0"), apis("exp relu")) == [
            "exp 0-0 name",
            "relu 1-0 renumbered",
        ]

    def test_arguments_tell_calls_apart_where_numbers_do_not(self):
        target = [call(f"Mint.sum.{n}.forward", (2, 2), dim) for n, dim in enumerate((9, 0, 1))]
        golden = [call(f"Mint.sum.{n}.forward", (2, 2), dim) for n, dim in enumerate((0, 1))]
        assert short(target, golden) == ["sum 1-0 renumbered", "sum 2-1 renumbered"]

    def test_two_layers_that_swapped_places_keep_their_insides(self):
        def layer(name, number):
            around = f"Cell.{name}.X.forward.0"
            return [call(f"Mint.relu.{number}.forward", parent=around), cell(f"{name}.X")]

        target = [*layer("b", 0), *layer("a", 1), *layer("c", 2)]
        golden = [*layer("a", 0), *layer("b", 1), *layer("c", 2)]
        assert set(found(target, golden)) == {
            ("Mint.relu.0.forward", "Mint.relu.1.forward", "renumbered"),
            ("Cell.b.X.forward.0", "Cell.b.X.forward.0", "name"),
            ("Mint.relu.1.forward", "Mint.relu.0.forward", "renumbered"),
            ("Cell.a.X.forward.0", "Cell.a.X.forward.0", "name"),
            ("Mint.relu.2.forward", "Mint.relu.2.forward", "name"),
            ("Cell.c.X.forward.0", "Cell.c.X.forward.0", "name"),
        }

    def test_a_cell_called_once_more_at_the_beginning(self):
        target = [cell("fc.Dense", n, shape=s) for n, s in enumerate([(9,), (1,), (2,)])]
        golden = [cell("fc.Dense", n, shape=s) for n, s in enumerate([(1,), (2,)])]
        assert found(target, golden) == [
            ("Cell.fc.Dense.forward.1", "Cell.fc.Dense.forward.0", "renumbered"),
            ("Cell.fc.Dense.forward.2", "Cell.fc.Dense.forward.1", "renumbered"),
        ]


class TestBackward:
    def test_backward_follows_its_forward_in_whatever_order_it_ran(self):
        target = apis("relu relu relu") + [call(f"Mint.relu.{n}.backward") for n in (2, 1, 0)]
        golden = apis("relu relu relu") + [call(f"Mint.relu.{n}.backward") for n in (1, 2, 0)]
        assert {(a, b) for a, b, _ in found(target, golden)} == {(c.name, c.name) for c in target}

    def test_backward_follows_a_renumbered_forward(self):
        target = apis("relu:4 relu:2 exp relu:2") + [call(f"Mint.relu.{n}.backward") for n in (1, 2)]
        golden = apis("relu:2 exp relu:2") + [call(f"Mint.relu.{n}.backward") for n in (1, 0)]
        assert [p for p in found(target, golden) if "backward" in p[0]] == [
            ("Mint.relu.1.backward", "Mint.relu.0.backward", "renumbered"),
            ("Mint.relu.2.backward", "Mint.relu.1.backward", "renumbered"),
        ]

    def test_numbers_by_order_of_appearance_find_the_numbers_of_a_recomputation(self):
        """Backward carries the number of the recomputed forward on one side, of the first on the other."""
        forward = apis("relu relu")
        again = [call("Mint.relu.2.forward"), call("Mint.relu.2.backward")]
        target = [*forward, *again, call("Mint.relu.3.forward"), call("Mint.relu.3.backward")]
        golden = [*forward, call("Mint.relu.1.backward"), call("Mint.relu.0.backward")]
        assert found(target, golden) == [
            ("Mint.relu.0.forward", "Mint.relu.0.forward", "name"),
            ("Mint.relu.1.forward", "Mint.relu.1.forward", "name"),
            ("Mint.relu.2.backward", "Mint.relu.1.backward", "renumbered"),
            ("Mint.relu.3.backward", "Mint.relu.0.backward", "renumbered"),
        ]

    def test_backward_alone_pairs_by_order_of_appearance(self):
        target = [call(f"Mint.relu.{n}.backward") for n in (7, 5, 2)]
        golden = [call(f"Mint.relu.{n}.backward") for n in (2, 1, 0)]
        assert [(m.target, m.golden) for m in matches(target, golden)] == [(0, 0), (1, 1), (2, 2)]


def recomputing(*, marked, recomputes=True, steps=2):
    """Micro steps of a cell of two calls, forward and backward, perhaps recomputed in backward; and who is who."""
    calls, who, number = [], [], 0
    for step in range(steps):
        run = number
        number += 1
        calls += [*layer(run, False)]
        who += [f"{step} {x} first" for x in ("exp", "relu", "cell")]
        calls += [call(f"Mint.loss.{step}.forward"), call(f"Mint.loss.{step}.backward")]
        who += [f"{step} loss", f"{step} loss backward"]
        if recomputes:
            run = number
            number += 1
            calls += layer(run, marked)
            who += [f"{step} {x} again" for x in ("exp", "relu", "cell")]
        around = f"Cell.a.A.backward.{run}"
        calls += [call(f"Mint.relu.{run}.backward", parent=around), call(f"Mint.exp.{run}.backward", parent=around)]
        calls.append(cell("a.A", run, direction="backward"))
        who += [f"{step} {x} backward" for x in ("relu", "exp", "cell")]
    return calls, who


def layer(run, again):
    around = f"Cell.a.A.forward.{run}"
    inside = [call(f"Mint.{x}.{run}.forward", parent=around, again=again) for x in ("exp", "relu")]
    return [*inside, cell("a.A", run, again=again)]


class TestRecomputation:
    @pytest.mark.parametrize("marked", [True, False])
    def test_on_one_side_it_has_no_partner_and_shifts_nothing(self, marked):
        target, who = recomputing(marked=marked, steps=1)
        golden, owners = recomputing(marked=False, recomputes=False, steps=1)
        assert {who[m.target]: owners[m.golden] for m in matches(target, golden)} == {x: x for x in owners}

    def test_over_micro_steps_marks_tell_it_from_the_next_step(self):
        target, who = recomputing(marked=True)
        golden, owners = recomputing(marked=False, recomputes=False)
        assert {who[m.target]: owners[m.golden] for m in matches(target, golden)} == {x: x for x in owners}

    @pytest.mark.parametrize("marks", [(True, True), (True, False), (False, True), (False, False)])
    def test_recomputed_calls_pair_with_recomputed_calls_marked_or_not(self, marks):
        target, who = recomputing(marked=marks[0], steps=3)
        golden, owners = recomputing(marked=marks[1], steps=3)
        golden = [call("Mint.exp.9.forward", (5, 5)), *golden]
        pairs = {who[m.target]: ["", *owners][m.golden] for m in matches(target, golden)}
        assert pairs == {x: x for x in who}

    def test_without_backward_marks_alone_tell(self):
        target = [*layer(0, False), *layer(1, True), *layer(2, False)]
        golden = [*layer(0, False), *layer(1, False)]
        partner = {m.target: m.golden for m in matches(target, golden)}
        assert partner == {0: 0, 1: 1, 2: 2, 6: 3, 7: 4, 8: 5}


class TestStructure:
    def test_a_renamed_cell(self):
        a, b = ([cell("in.Dense"), cell(f"{name}.Dense"), cell("act.ReLU")] for name in ("fc", "linear"))
        assert found(a, b)[1] == ("Cell.fc.Dense.forward.0", "Cell.linear.Dense.forward.0", "structure")

    def test_what_runs_inside_a_renamed_cell_keeps_its_partner(self):
        def net(name):
            top = f"Cell.{name}.Net.forward.0"
            inner = [cell(f"{name}.{x}.Dense", parent=top) for x in ("fc1", "fc2", "fc3")]
            return [*apis("relu", parent=inner[0].name), *inner, cell(f"{name}.Net")]

        expected = [(n, n, "name" if n == 0 else "structure") for n in range(5)]
        assert [(m.target, m.golden, m.by) for m in matches(net("model"), net("network"))] == expected

    def test_several_candidates_stay_unmatched(self):
        target = [cell("fc1.Dense"), cell("fc2.Dense"), *apis("exp")]
        golden = [cell("lin1.Dense"), cell("lin2.Dense"), *apis("exp")]
        assert found(target, golden) == [("Mint.exp.0.forward", "Mint.exp.0.forward", "name")]

    def test_a_cell_whose_name_the_other_side_has_too_was_not_renamed(self):
        target = [cell("a.Dense"), *apis("exp"), cell("b.Dense")]
        golden = [cell("b.Dense"), *apis("exp"), cell("c.Dense")]
        assert [p for p in found(target, golden) if "Cell.a" in p[0] or "Cell.c" in p[1]] == []

    def test_the_same_operation_of_another_api(self):
        target = [call("Mint.exp.0.forward"), call("Mint.add.0.forward"), call("Mint.sin.0.forward")]
        golden = [call("Mint.exp.0.forward"), call("Functional.add.0.forward"), call("Mint.sin.0.forward")]
        assert found(target, golden)[1] == ("Mint.add.0.forward", "Functional.add.0.forward", "structure")

    def test_a_primitive_is_told_by_its_class(self):
        target = [call("Primitive.my_op.MatMul.3.forward", parent="Cell.a.A.forward.0")]
        golden = [call("Functional.matmul.0.forward", parent="Cell.a.A.forward.0")]
        assert found(target, golden) == [
            ("Primitive.my_op.MatMul.3.forward", "Functional.matmul.0.forward", "structure")
        ]

    def test_a_kernels_round_is_not_its_operation(self):
        target = [call("Kernel.Default.a.MatMul.round1.0.forward")]
        golden = [[call(f"Kernel.Default.b.{kernel}.round1.0.forward")] for kernel in ("Add", "MatMul")]
        assert [[m.by for m in matches(target, one)] for one in golden] == [[], ["structure"]]

    def test_another_operation_or_another_shape_is_no_candidate(self):
        assert found([call("Mint.add.0.forward")], [call("Mint.sub.0.forward")]) == []
        assert found([call("Mint.add.0.forward")], [call("Functional.add.0.forward", (9,), (9,))]) == []
        assert found([call("Mint.add.0.forward")], [call("Functional.add.0.backward")]) == []

    def test_a_wrapper_around_the_network(self):
        def inside(path):
            top = f"Cell.{path}.Net.forward.0"
            fcs = [cell(f"{path}.fc{n}.Dense", parent=top) for n in range(3)]
            return [*fcs, call("Mint.relu.0.forward", parent=top), cell(f"{path}.Net")]

        golden = inside("net")
        target = [*inside("wrap.net"), cell("wrap.Wrapper")]
        assert [(m.target, m.golden, m.by) for m in matches(target, golden)] == [
            (0, 0, "structure"),
            (1, 1, "structure"),
            (2, 2, "structure"),
            (3, 3, "name"),
            (4, 4, "structure"),
        ]

    def test_gradients_of_a_renamed_cells_parameters(self):
        target = [cell("fc.Dense"), call("Cell.fc.Dense.parameters_grad")]
        golden = [cell("linear.Dense"), call("Cell.linear.Dense.parameters_grad.0")]
        assert [(m.target, m.golden, m.by) for m in matches(target, golden)] == [
            (0, 0, "structure"),
            (1, 1, "structure"),
        ]

    def test_cells_around_paired_calls_where_no_outer_cell_was_collected(self):
        def blocks(root):
            calls = []
            for n in range(3):
                around = f"Cell.{root}.{n}.Block.forward.0"
                calls += [call(f"Mint.relu.{n}.forward", (n + 1, 3), parent=around)]
                calls.append(cell(f"{root}.{n}.Block", parent=f"Cell.{root}.Net.forward.0"))
            return calls

        assert [(m.target, m.golden) for m in matches(blocks("a"), blocks("b"))] == [(n, n) for n in range(6)]

    def test_parents_in_a_circle_end(self):
        target = [cell("a.A", parent="Cell.b.B.forward.0"), cell("b.B", parent="Cell.a.A.forward.0")]
        golden = [cell("c.A", parent="Cell.d.B.forward.0"), cell("d.B", parent="Cell.c.A.forward.0")]
        assert found(target, golden) == [
            ("Cell.a.A.forward.0", "Cell.c.A.forward.0", "structure"),
            ("Cell.b.B.forward.0", "Cell.d.B.forward.0", "structure"),
        ]


class TestFuzzy:
    def test_what_is_left_pairs_in_order_without_shapes(self):
        target = [*apis("exp"), call("Mint.add.0.forward", (3,)), call("Mint.add.1.forward", (4,)), *apis("sin")]
        golden = [*apis("exp"), call("Functional.add.0.forward", (9, 9)), *apis("sin")]
        assert len(found(target, golden)) == 2
        assert found(target, golden, fuzzy=True)[1] == ("Mint.add.0.forward", "Functional.add.0.forward", "fuzzy")

    def test_what_has_a_partner_keeps_it(self):
        target, golden = apis("relu exp relu sin"), apis("exp relu sin cos")
        assert found(target, golden, fuzzy=True) == found(target, golden)

    def test_a_stem_goes_before_an_operation(self):
        target = [call("Functional.add.0.forward", (3,)), call("Mint.add.7.forward", (4,)), call("Mint.add.8.forward")]
        golden = [call("Mint.add.0.forward", (5, 5), 1, 1)]
        assert found(target, golden) == []
        assert found(target, golden, fuzzy=True) == [("Mint.add.7.forward", "Mint.add.0.forward", "fuzzy")]

    def test_a_cell_of_another_class_with_its_gradients(self):
        """`nn.Dense` here, `nn.Linear` there, at the same attributes."""

        def net(kind):
            forward = [cell(f"fc{n}.{kind}") for n in (1, 2)]
            backward = [cell(f"fc{n}.{kind}", direction="backward") for n in (2, 1)]
            gradients = [call(f"Cell.fc{n}.{kind}.parameters_grad") for n in (1, 2)]
            return [*forward, *backward, *gradients]

        pairs = found(net("Dense"), net("Linear"), fuzzy=True)
        assert [golden for _, golden, _ in pairs] == [c.name for c in net("Linear")]
        assert found(net("Dense"), net("Linear")) == []


class TestLarge:
    def test_nothing_in_common(self):
        target = [call(f"Mint.a{n % 7}.{n // 7}.forward") for n in range(5000)]
        golden = [call(f"Mint.b{n % 7}.{n // 7}.forward") for n in range(5000)]
        assert matches(target, golden) == []

    def test_ten_thousand_equal_calls(self):
        calls = apis("exp " * 10_000)
        start = time.process_time()
        assert matches(calls, calls) == [Match(n, n, "name") for n in range(10_000)]
        assert matches(calls[:9_000], calls) == [Match(n, n, "name") for n in range(9_000)]
        assert len(matches(calls[500:], calls)) == 9_500
        assert time.process_time() - start < 10

    def test_twenty_thousand_calls_with_a_hundred_insertions_take_seconds(self):
        words = [
            f"{stem}@Cell.layers.{n}.Block.forward.0" for n in range(4000) for stem in ("mm", "add", "relu", "add")
        ]
        golden = apis(" ".join(words))
        more = [word for n, word in enumerate(words) for word in [word, *(["relu:7,7"] if n % 160 == 80 else [])]]
        target = apis(" ".join(more))
        start = time.process_time()
        pairs = matches(target, golden)
        assert time.process_time() - start < 10
        survived = [n for n, word in enumerate(more) if word != "relu:7,7"]
        assert [(m.target, m.golden) for m in pairs] == [(n, j) for j, n in enumerate(survived)]


def test_a_partner_that_does_not_exist_cannot_be_parted():
    pairing = Pairing(Side(dump_of(apis("exp sin"))), Side(dump_of(apis("exp sin"))))
    pairing.join_anywhere(1, 1)
    pairing.undo(-1)  # "no call": not the last one
    assert list(pairing.golden_of) == [-1, 1]
    pairing.undo(1)
    assert list(pairing.golden_of) == [-1, -1]


def sourced(name, shape, *made):
    """A forward call that takes a tensor of one shape from each of some calls."""
    records = [
        replace(record(name, "input", str(n), shape), source=f"call {one}.output.0") for n, one in enumerate(made)
    ]
    return Call(name, (*records, record(name, "output", "0", shape)))


def test_calls_of_one_name_that_take_other_tensors_of_other_shapes_are_no_pair():
    """Positions are added before the tokens are joined, or after: `add` of a part here, and of the whole there."""
    target = [call("Mint.exp.0.forward", (4, 2)), call("Mint.getitem.0.forward", (4, 2), output=(1, 2))]
    target += [sourced("Mint.add.0.forward", (1, 2), "Mint.getitem.0.forward"), call("Mint.cat.0.forward", (4, 2))]
    golden = [call("Mint.exp.0.forward", (4, 2)), call("Mint.cat.0.forward", (4, 2))]
    golden += [sourced("Mint.add.0.forward", (4, 2), "Mint.cat.0.forward")]
    assert [name for name, _, _ in found(target, golden)] == ["Mint.exp.0.forward", "Mint.cat.0.forward"]


def test_calls_that_take_what_a_pair_of_calls_made_stay_a_pair_whatever_the_shapes():
    target = [call("Mint.exp.0.forward", (4, 2)), sourced("Mint.add.0.forward", (3, 2), "Mint.exp.0.forward")]
    golden = [call("Mint.exp.0.forward", (4, 2)), sourced("Mint.add.0.forward", (4, 2), "Mint.exp.0.forward")]
    assert [name for name, _, _ in found(target, golden)] == ["Mint.exp.0.forward", "Mint.add.0.forward"]
