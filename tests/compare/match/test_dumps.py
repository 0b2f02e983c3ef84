"""Pairs: which target record belongs to which golden one."""

import numpy as np

from msprobe.compare.match.dumps import match


def names(pairs):
    return [(p.target.name if p.target else None, p.golden.name if p.golden else None, p.matched_by) for p in pairs]


def test_equal_names_are_pairs_by_name(builder):
    target = builder("t").call("Mint.exp.0.forward", [1.0], [2.0]).call("Mint.sin.0.forward", [2.0], [3.0]).dump()
    golden = builder("g").call("Mint.exp.0.forward", [1.0], [2.0]).call("Mint.sin.0.forward", [2.0], [3.0]).dump()
    found = match(target, golden)
    assert [(t, g) for t, g, _ in names(found)] == [("Mint.exp.0.forward",) * 2, ("Mint.sin.0.forward",) * 2]
    assert {by for _, _, by in names(found)} == {"name"}
    assert [(p.target.path, p.golden.path) for p in found[0].pairs] == [(("0",), ("0",)), (("0",), ("0",))]


def test_the_same_calls_in_another_order_are_pairs_by_name_in_the_targets_order(builder):
    target = builder("t").call("Mint.exp.0.forward", [1.0]).call("Mint.sin.0.forward", [1.0]).dump()
    golden = builder("g").call("Mint.sin.0.forward", [1.0]).call("Mint.exp.0.forward", [1.0]).dump()
    assert names(match(target, golden)) == [
        ("Mint.exp.0.forward", "Mint.exp.0.forward", "name"),
        ("Mint.sin.0.forward", "Mint.sin.0.forward", "name"),
    ]


def chain(build, calls, cell="Cell.a.A.forward.0"):
    counts = {}
    for word in calls:
        stem, _, inside = word.partition("@")
        number = counts[stem] = counts.get(stem, -1) + 1
        build.call(f"Mint.{stem}.{number}.forward", [1.0], [2.0], parent=inside or cell)
    return build.dump()


def test_an_inserted_call_does_not_shift_the_numbers_behind_it(builder):
    target = chain(builder("t"), ["exp", "sin", "exp", "exp", "cos", "exp"])
    golden = chain(builder("g"), ["exp", "sin", "exp", "cos", "exp"])
    assert names(match(target, golden)) == [
        ("Mint.exp.0.forward", "Mint.exp.0.forward", "name"),
        ("Mint.sin.0.forward", "Mint.sin.0.forward", "name"),
        ("Mint.exp.1.forward", "Mint.exp.1.forward", "name"),
        ("Mint.exp.2.forward", None, ""),
        ("Mint.cos.0.forward", "Mint.cos.0.forward", "name"),
        ("Mint.exp.3.forward", "Mint.exp.2.forward", "renumbered"),
    ]


def test_the_cell_around_a_call_tells_which_of_many_was_inserted(builder):
    target = chain(builder("t"), ["exp@Cell.a.A.forward.0", "exp@Cell.b.B.forward.0", "exp@Cell.c.C.forward.0"])
    golden = chain(builder("g"), ["exp@Cell.a.A.forward.0", "exp@Cell.c.C.forward.0"])
    assert [(t, g) for t, g, _ in names(match(target, golden))] == [
        ("Mint.exp.0.forward", "Mint.exp.0.forward"),
        ("Mint.exp.1.forward", None),
        ("Mint.exp.2.forward", "Mint.exp.1.forward"),
    ]


def test_a_golden_only_call_stands_where_it_belongs(builder):
    target = chain(builder("t"), ["exp", "cos"])
    golden = chain(builder("g"), ["sin", "exp", "tan", "cos", "abs"])
    assert [t or g for t, g, _ in names(match(target, golden))] == [
        "Mint.sin.0.forward",
        "Mint.exp.0.forward",
        "Mint.tan.0.forward",
        "Mint.cos.0.forward",
        "Mint.abs.0.forward",
    ]


def test_both_forms_of_parameter_gradients_are_one(builder):
    target = builder("t").gradients("Cell.fc.Dense.parameters_grad", weight=1.0).dump()
    golden = builder("g").gradients("Cell.fc.Dense.parameters_grad.0", weight=1.0).dump()
    assert names(match(target, golden)) == [
        ("Cell.fc.Dense.parameters_grad", "Cell.fc.Dense.parameters_grad.0", "name")
    ]


def test_every_call_of_both_sides_appears_once(builder):
    target = chain(builder("t"), ["exp", "sin", "exp", "cos", "exp", "tan", "sin"])
    golden = chain(builder("g"), ["sin", "exp", "exp", "abs", "tan", "tan", "exp"])
    found = match(target, golden)
    assert sorted(p.target.name for p in found if p.target) == sorted(c.name for c in target.calls)
    assert sorted(p.golden.name for p in found if p.golden) == sorted(c.name for c in golden.calls)
    assert [p.target.name for p in found if p.target] == [c.name for c in target.calls]


def test_records_are_pairs_by_part_and_path_with_golden_only_ones_in_place(builder, value):
    target = builder("t").call("Mint.sum.0.forward", [1.0], [2.0], kwargs={"dim": value(1)}).dump()
    golden = builder("g").call("Mint.sum.0.forward", [1.0, 5.0], [2.0], kwargs={"keepdim": value(True)}).dump()
    found = [(p.target and p.target.path, p.golden and p.golden.path) for p in match(target, golden)[0].pairs]
    assert found == [
        (("0",), ("0",)),
        (None, ("1",)),
        (None, ("keepdim",)),
        (("dim",), None),
        (("0",), ("0",)),
    ]


VECTOR, ROWS = np.array([1.0, 2.0, 3.0], np.float32), np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], np.float32)


def operands(build, first, second, name="Tensor.__mul__.0"):
    return build.call(f"{name}.forward", [first, second], [first * second]).dump()


def test_operands_in_the_other_order_are_paired_by_what_they_look_like(builder):
    target = operands(builder("t"), VECTOR, ROWS)
    golden = operands(builder("g"), ROWS, VECTOR)
    pairs = [(p.target.path, p.golden.path) for p in match(target, golden)[0].pairs if p.target.part == "input"]
    assert pairs == [(("0",), ("1",)), (("1",), ("0",))]


def test_operands_that_may_not_change_places_are_paired_by_their_places(builder):
    target = operands(builder("t"), VECTOR, ROWS, "Tensor.__sub__.0")
    golden = operands(builder("g"), ROWS, VECTOR, "Tensor.__sub__.0")
    pairs = [(p.target.path, p.golden.path) for p in match(target, golden)[0].pairs if p.target.part == "input"]
    assert pairs == [(("0",), ("0",)), (("1",), ("1",))]
