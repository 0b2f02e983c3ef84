"""How much is done for a comparison, counted: what is equal costs no walk, and no record is made of a row."""

import math
import random

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.compare.core import tensor
from msprobe.compare.core.tensor import exact_numbers, tensor_of
from msprobe.compare.dataflow import graph
from msprobe.compare.noise import outputs
from msprobe.compare.noise.summary import Summaries, deviation, deviations
from msprobe.compare.run import compare
from msprobe.store.flatten import ColumnsBuilder
from msprobe.store.reader import read
from msprobe.store.record import Record

CALLS = 200
FIRST = 190


@pytest.fixture
def sides(builder):
    """A chain of calls; from call `FIRST` on the target's results are a little off."""
    for side in ("target", "golden"):
        made = builder(side)
        for n in range(CALLS):
            off = [0.5 * (n >= at) * (side == "target") for at in (FIRST + 1, FIRST)]
            made.call(f"Mint.exp.{n}.forward", [n + off[0]], [n + 1 + off[1]])
        made.write()
    return [builder(side).folder for side in ("target", "golden")]


@pytest.fixture
def counted(monkeypatch):
    """`counted(owner, name)`: a list that grows by the arguments of each call of a function."""

    def count(owner, name):
        found, function = [], getattr(owner, name)

        def counting(*args, **more):
            found.append(args)
            return function(*args, **more)

        monkeypatch.setattr(owner, name, counting)
        return found

    return count


def test_only_what_differs_is_walked_along_the_dataflow(sides, counted):
    walked, marked = counted(outputs, "judge_inputs"), counted(graph, "tensor_of")
    of_a_row = counted(tensor, "tensor_of")
    found = compare(*map(read, sides))
    assert [event.place for _, event in walked] == list(range(FIRST, CALLS))
    assert len(of_a_row) == len(marked) == 0
    assert (found.equal == 0).sum() + (found.equal == 1).sum() == 2 * CALLS


def test_no_record_is_made_of_a_row_that_passes(sides, counted, tmp_path):
    made = counted(Record, "__init__")
    written = ["compare", *map(str, sides), "-o", str(tmp_path / "o"), "--format", "csv", "--workers", "1"]
    assert main(written) == 1
    assert len(made) <= 20 * (CALLS - FIRST), "some for what differs, which is 10 of 200 calls"
    assert len(next((tmp_path / "o").iterdir()).read_bytes().splitlines()) == 1 + 2 * CALLS


def leaf(draw):
    """A tensor's record of few different values, so that many are equal."""
    numbers = [draw.choice([0.0, -0.0, 1.0, 2.5, math.inf, math.nan, 1, 2**63 + 1, None, True]) for _ in range(4)]
    if draw.random() < 0.6:
        numbers = [draw.choice([0.0, -0.0, 1.0]) for _ in range(4)]
    node = dict(zip(("Max", "Min", "Mean", "Norm"), numbers, strict=True))
    node |= {"type": "mindspore.Tensor", "dtype": draw.choice(["Float32", "torch.float32", "Int64"])}
    node["shape"] = draw.choice([[], [2], [2, 3]])
    if draw.random() < 0.2:
        node["md5"] = draw.choice(["0a", "0b"])
    return draw.choice([node, node, node, None, 3])


@pytest.mark.parametrize("seed", range(5))
def test_numbers_are_equal_where_the_identities_of_two_tensors_are(seed):
    draw, made = random.Random(seed), ColumnsBuilder()
    for n in range(60):
        made.add(f"Mint.exp.{n}.forward", {"input_args": [leaf(draw), leaf(draw)], "output": [leaf(draw)]})
    columns = made.columns()
    numbers = exact_numbers(columns).tolist()
    tensors = [tensor_of(columns, row) for row in range(len(columns))]
    marks = [None if tensor is None else tensor.exact for tensor in tensors]
    assert all(number < 0 for number, mark in zip(numbers, marks, strict=True) if mark is None)
    alike = 0
    for one in range(len(columns)):
        for other in range(one):
            if marks[one] is not None and marks[other] is not None:
                is_equal = marks[one] == marks[other]
                assert (numbers[one] == numbers[other] >= 0) == is_equal, (marks[one], marks[other])
                alike += is_equal
    assert alike > 30


def test_deviations_of_columns_are_those_of_single_pairs():
    draw = random.Random(7)
    numbers = [0.0, 1.0, -1.0, 1e-300, 1e300, 3.14, 2.71]
    sides = []
    for _ in range(2):
        made = ColumnsBuilder()
        for n in range(400):
            four = [draw.choice(numbers) * draw.choice([1, 1 + 1e-9]) for _ in range(4)]
            node = dict(zip(("Max", "Min", "Mean", "Norm"), four, strict=True))
            node |= {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [[], [0], [5, 7]][n % 3]}
            made.add(f"Mint.exp.{n}.forward", {"output": [node]})
        sides.append(Summaries(made.columns()))
    known = np.flatnonzero(sides[0].are_known & sides[1].are_known)
    assert known.tolist() == [row for row in range(400) if sides[0].of(row) and sides[1].of(row)]
    found = np.transpose(deviations(*sides, known, known)).tolist()
    assert found == [list(deviation(sides[0].of(row), sides[1].of(row))[:4]) for row in known.tolist()]
