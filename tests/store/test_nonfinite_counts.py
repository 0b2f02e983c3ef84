"""How many elements of a tensor are NaN or infinite, from the entry of a dump to the record."""

import dataclasses
import json
import math

import numpy as np
import pytest

from msprobe.store.describe import statistics
from msprobe.store.reader import read
from msprobe.store.record import Call, NonFinite, Record, Statistics, columns_of

CALL = "Functional.relu.0.forward"
NAN, INF = math.nan, math.inf


def tensor(four, **more):
    node = {"type": "T", "dtype": "Float32", "shape": [6]} | more
    return node | dict(zip(("Max", "Min", "Mean", "Norm"), four, strict=True))


@pytest.fixture
def read_back(write):
    """The only record of a dump that holds one node."""
    return lambda node: read(write({CALL: {"output": [node]}})).calls[0].records[0]


NANS = (NAN,) * 4


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"nan_count": 3}, NonFinite(3, 0, 0)),
        ({"positive_inf_count": 1, "negative_inf_count": 2}, NonFinite(0, 1, 2)),
        ({"nan_count": 1, "positive_inf_count": 1, "negative_inf_count": 2, "from": "leaf"}, NonFinite(1, 1, 2)),
        ({}, None),
        ({"from": "leaf"}, None),
        ({"nan_count": 0}, None),
        *[({"nan_count": wrong}, None) for wrong in ("1", 1.0, True, -1, [1], None, 1 << 63)],
    ],
)
def test_counts_are_read_where_they_are_told(read_back, counts, expected):
    record = read_back(tensor(NANS, **counts))
    assert record.statistics.non_finite == expected
    assert repr(dataclasses.replace(record.statistics, non_finite=None)) == repr(Statistics(*NANS))


def test_what_has_counts_stays_a_row_like_most(write):
    nodes = [tensor(NANS, nan_count=2), tensor((1.0, 0.0, 0.5, 1.0)), tensor((INF, 0.0, INF, INF), nan_count=0)]
    columns = read(write({CALL: {"output": nodes}})).columns
    assert columns.odd == {}
    assert columns.non_finite == {0: NonFinite(2, 0, 0)}


def test_a_tensor_with_an_odd_statistic_keeps_its_counts(read_back):
    record = read_back(tensor((NAN, NAN, None, NAN), nan_count=2, shape=None))
    assert record.statistics.non_finite == NonFinite(2, 0, 0)


def test_equal_counts_are_kept_once(write):
    columns = read(write({CALL: {"output": [tensor(NANS, nan_count=70_000) for _ in range(3)]}})).columns
    assert len(columns.non_finite) == 3
    assert len({id(counts) for counts in columns.non_finite.values()}) == 1


def test_records_made_by_hand_keep_their_counts():
    for four in (NANS, (NAN, NAN, None, NAN)):
        made = Statistics(*four, non_finite=NonFinite(1, 0, 0))
        record = Record(f"{CALL}.output.0", "output", ("0",), "tensor", "T", "Float32", (6,), made)
        found = columns_of([Call(CALL, (record,))]).records(0)
        assert repr(found) == repr((record,))


@pytest.mark.parametrize("values", [[NAN, NAN, 1, 2, INF, -INF], [INF, INF, -INF, 0, 1, 2], [INF, 1, 2, 3, 4, NAN]])
def test_what_a_dump_records_is_what_numpy_counts(read_back, values):
    """With a NaN the norm is NaN, with an infinity it is infinite: a finite norm says that there are no counts."""
    array = np.array(values, np.float32)
    node = json.loads(f"{{{statistics(array)}}}")
    counts = int(np.isnan(array).sum()), int(np.isposinf(array).sum()), int(np.isneginf(array).sum())
    assert not math.isfinite(node["Norm"])
    node |= {"type": "T", "dtype": "Float32", "shape": [6]}
    assert read_back(node).statistics.non_finite == NonFinite(*counts)
