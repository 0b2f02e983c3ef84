"""Sampled elements as evidence next to statistics, with goldens of the trainings in tests/gate/runs."""

from pathlib import Path

import numpy as np
import pytest

from msprobe.compare.judge.judged import DIFFERENT, EQUAL
from msprobe.compare.run import compare
from msprobe.gate.golden import Wanted, write
from msprobe.gate.recording import Collection
from msprobe.store.golden import dump_of
from msprobe.store.reader import load_tensor, read

SAMPLES = Path(__file__).parents[2] / "gate" / "runs"


@pytest.fixture
def golden(tmp_path):
    """The first step of a golden of the base training."""
    path = tmp_path / "base.golden"
    write(path, SAMPLES / "base", Wanted(Collection()))
    return read(dump_of(path) / "step0/rank")


def row_of(comparison, name):
    """The place of the pair of records whose target has a name."""
    rows = range(len(comparison.grades))
    return next(row for row in rows if (pair := comparison.pairs.pair(row)).target and pair.target.name == name)


def test_equal_elements_have_no_error(golden):
    found = compare(read(SAMPLES / "base/step0/rank"), golden)
    assert found.mode == "statistics"
    assert len(found.samples) > 30
    assert set(found.samples.values()) == {0.0}


def test_permuted_elements_differ_by_the_norm_of_their_difference(golden):
    """Two columns of the first input are exchanged: its statistics are equal, and all its 96 elements are more than
    the 64 that are sampled."""
    target = read(SAMPLES / "permuted/step0/rank")
    found = compare(target, golden)
    name = "Functional.linear.0.forward.input.0"
    row = row_of(found, name)
    assert found.equal[row] == DIFFERENT
    sides = [read(SAMPLES / f"{variant}/step0/rank") for variant in ("permuted", "base")]
    mine, theirs = (
        load_tensor(dump, next(r for call in dump.calls for r in call.records if r.name == name)).astype(np.float64)
        for dump in sides
    )
    assert sorted(mine.reshape(-1)) == sorted(theirs.reshape(-1))
    from msprobe.store.samples import read_samples

    at = read_samples(Path(golden.folder))[name].positions
    difference = (mine - theirs).reshape(-1)[at]
    expected = np.sqrt(np.mean(difference**2)) / np.sqrt(np.mean(theirs**2))
    assert found.samples[row] == pytest.approx(expected, rel=1e-12)


def test_a_dump_without_elements_is_judged_by_statistics_alone(golden, tmp_path):
    path = tmp_path / "other.golden"
    write(path, SAMPLES / "wide", Wanted(Collection()))
    wide = read(dump_of(path) / "step0/rank")
    found = compare(read(SAMPLES / "wide-1/step0/rank"), wide)
    assert found.samples == {}
    assert EQUAL in found.equal
