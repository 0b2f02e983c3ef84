"""Which lines stand out, in what order, and in what words."""

import pytest

from msprobe.perturb.finding import Place
from msprobe.perturb.ranking import Line, logged, ranked


def line(stem, number, *conditions):
    made = Line(stem, Place("train.py", number, "loss", f"y = {stem}"))
    for step, condition in enumerate(conditions):
        made.calls += 1
        made.add(f"{stem}.{number}", step, condition)
    return made


def test_the_usual_is_that_of_the_api_where_three_lines_have_it_and_of_the_run_elsewhere():
    lines = [line("F.sub", 1, 1e5, 3e5), line("F.sub", 2, 2.0), line("F.sub", 3, 4.0), line("F.mul", 4, 1.0)]
    first, *others = ranked(lines)
    assert (first.stem, first.place.line, first.worst, first.step) == ("F.sub", 1, "F.sub.1", 1)
    assert (first.condition, first.typical, first.usual, first.of_kind) == (3e5, 2e5, 3.0, True)
    assert first.excess == pytest.approx(1e5)
    assert first.is_ill_conditioned
    mul = next(each for each in others if each.stem == "F.mul")
    assert (mul.usual, mul.of_kind, mul.excess) == (4.0, False, 0.25)
    assert not any(each.is_ill_conditioned for each in others)


def test_a_large_condition_that_all_lines_have_does_not_stand_out():
    found = ranked([line("F.det", n, 500.0 + n) for n in range(4)])
    assert [each.is_ill_conditioned for each in found] == [False] * 4


def test_a_line_that_amplifies_less_than_a_digit_does_not_stand_out():
    found = ranked([line("F.exp", 1, 9.0), line("F.relu", 2, 0.01), line("F.relu", 3, 0.01)])
    assert found[0].stem == "F.exp"
    assert found[0].excess > 100
    assert not found[0].is_ill_conditioned


def test_lines_that_no_change_reaches_are_not_what_is_usual():
    found = ranked([line("F.sub", 1, 40.0), *(line("F.eq", n, 0.0) for n in range(2, 9)), line("F.mul", 20, 2.0)])
    assert (found[0].stem, found[0].usual) == ("F.sub", 2.0)


def test_calls_whose_input_did_not_change_are_not_ranked():
    assert ranked([line("F.mul", 1, None, float("nan"))]) == ()


def test_a_single_line_has_nothing_beside_it():
    (only,) = ranked([line("F.sub", 1, 50.0)])
    assert (only.usual, only.excess, only.is_ill_conditioned) == (None, 50.0, True)


def test_the_log_names_the_first_three_with_their_lines():
    lines = [line("F.sub", n, 10.0 ** (n + 2)) for n in range(1, 6)] + [line("F.sub", n, 1.0) for n in range(10, 20)]
    words = logged(ranked(lines))
    assert len(words) == 3
    assert [word.split(": ")[1][:10] for word in words] == ["1. F.sub.5", "2. F.sub.4", "3. F.sub.3"]
    assert "train.py:5, in loss: y = F.sub" in words[0]


def test_where_nothing_stands_out_the_log_says_so_in_one_line():
    assert logged(ranked([line("F.mul", 1, 1.5), line("F.add", 2, 1.0)])) == [
        "free_benchmark: no call is an outlier; a relative change of an input is amplified at most 1.5 times"
    ]
