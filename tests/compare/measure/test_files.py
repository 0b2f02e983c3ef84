"""Tensors measured by several processes, again after an interruption, and from files of every kind."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from msprobe.compare.locate.find import locate
from msprobe.compare.measure import files as measure_files
from msprobe.compare.measure.files import Effort, Files, measure_all, measure_bundle
from msprobe.compare.measure.tensors import side_statistics
from msprobe.compare.run import compare
from msprobe.compare.tables.columns import columns_of
from msprobe.compare.tables.csv_file import write_csv
from msprobe.compare.tables.json_file import write_json
from msprobe.compare.tables.rows import rows
from msprobe.store.npy import open_npy

pytestmark = pytest.mark.everywhere


@pytest.fixture
def always_worth_it(monkeypatch):
    """Workers and the journal, however small the tensors are."""
    monkeypatch.setattr(measure_files, "_WORTH_WORKERS", 0)
    monkeypatch.setattr(measure_files, "_AT_ONCE", 200)


@pytest.fixture
def dumps(builder):
    """Forty calls with tensors; the results of every fifth differ, one file is broken."""
    made = []
    for side in ("target", "golden"):
        build = builder(side, mode="tensor")
        draw = np.random.default_rng(7)
        for n in range(40):
            array = draw.standard_normal((8, 4)).astype(np.float32)
            off = np.float32(0.01) * (side == "target" and n % 5 == 0)
            build.call(f"Mint.exp.{n}.forward", [array], [array + off])
        made.append(build.dump())
    (Path(made[0].folder) / "dump_tensor_data" / "Mint.exp.1.forward.output.0.npy").write_bytes(b"broken")
    return made


def files_of(target, golden):
    folders = [Path(dump.folder) / "dump_tensor_data" for dump in (target, golden)]
    return [
        Files(*(str(f / name) for f in folders), "Float32") for name in sorted(p.name for p in folders[1].iterdir())
    ]


@pytest.mark.parametrize("workers", [2, 4])
def test_the_table_is_the_same_however_many_processes_measure(workers, dumps, tmp_path, always_worth_it):
    written = []
    for number in (1, workers):
        comparison = compare(*dumps, effort=Effort(number))
        located = locate(comparison)
        shown = columns_of(comparison, False)
        write_csv(tmp_path / f"{number}.csv", shown, rows(comparison, located, False))
        write_json(tmp_path / f"{number}.json", comparison, located, shown, rows(comparison, located, False))
        written.append([(tmp_path / f"{number}.{form}").read_bytes() for form in ("csv", "json")])
    assert written[0] == written[1]
    with open(tmp_path / "1.csv", newline="", encoding="utf-8") as file:
        verdicts = [row["Verdict"] for row in csv.DictReader(file)]
    assert verdicts.count("error") == 8
    assert verdicts.count("unjudged") == 1
    assert len(verdicts) == 80


def test_what_was_measured_before_an_interruption_is_not_measured_again(dumps, tmp_path, always_worth_it, monkeypatch):
    files = files_of(*dumps)
    sizes = [128] * len(files)
    seen = []

    def interrupted(bundle):
        if len(seen) == 50:
            raise KeyboardInterrupt
        seen.extend(bundle)
        return measure_bundle(bundle)

    monkeypatch.setattr(measure_files, "measure_bundle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure_all(files, sizes, Effort(1, "", tmp_path))
    assert len(list(tmp_path.glob(".compare-*.jsonl"))) == 1
    again = []
    monkeypatch.setattr(measure_files, "measure_bundle", lambda bundle: again.extend(bundle) or measure_bundle(bundle))
    found = measure_all(files, sizes, Effort(1, "", tmp_path))
    broken = [f for f in seen if "exp.1.forward.output" in f.target]
    assert len(broken) == 1, "what failed is tried again"
    assert sorted(f.target for f in (*seen, *again)) == sorted(f.target for f in (*files, *broken))
    assert found == [measure_files.measure_files(f) for f in files]
    assert not list(tmp_path.glob(".compare-*")), "a finished comparison leaves no journal"


def test_one_pair_of_files_that_is_held_to_two_standards_is_measured_for_each(
    dumps, tmp_path, always_worth_it, monkeypatch
):
    first = next(f for f in files_of(*dumps) if "exp.0.forward.output" in f.target)
    files = [first, replace(first, dtype="Float16"), replace(first, describe=True)]

    def interrupted(bundle):
        if bundle[0] is not first:
            raise KeyboardInterrupt
        return measure_bundle(bundle)

    with monkeypatch.context() as patched:
        patched.setattr(measure_files, "measure_bundle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure_all(files, [128] * 3, Effort(1, "", tmp_path))
    found = measure_all(files, [128] * 3, Effort(1, "", tmp_path))
    assert found == [measure_files.measure_files(f) for f in files]
    assert found[0].measures.excess > found[1].measures.excess
    assert found[0].statistics is None
    assert found[2].statistics is not None


def test_a_file_that_changed_is_measured_again(dumps, tmp_path, always_worth_it, monkeypatch):
    files = files_of(*dumps)[:4]

    def interrupted(bundle):
        raise KeyboardInterrupt

    measure_all(files[:1], [128], Effort(1, "", tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(measure_files, "measure_bundle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure_all(files, [128] * 4, Effort(1, "", tmp_path))
    array = np.load(files[0].golden)
    np.save(files[0].golden, array + 1)
    found = measure_all(files, [128] * 4, Effort(1, "", tmp_path))
    assert found[0].measures.max_absolute == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    "array",
    [
        np.linspace(-3, 5, 3_000_001, dtype=np.float64),
        np.arange(-5, 2_500_000, dtype=np.int64),
        (np.arange(2_200_000) % 3 == 0),
        np.array([], np.float32),
        np.float32(2.5).reshape(()),
        (np.linspace(0, 1, 2_200_000) * (1 + 1j)).astype(np.complex64),
    ],
    ids=["float64", "int64", "bool", "empty", "0-d", "complex"],
)
def test_statistics_piece_by_piece_are_those_of_the_whole(array, tmp_path):
    np.save(tmp_path / "a.npy", array)
    found = side_statistics(open_npy(tmp_path / "a.npy"))
    if array.size == 0:
        assert (found.max, found.min, found.mean, found.norm) == (None,) * 4
        return
    if array.dtype == np.bool_:
        assert (found.max, found.min, found.true_count) == (True, False, int(array.sum()))
        return
    wide = np.abs(array) if array.dtype.kind == "c" else array
    assert (found.max, found.min) == (wide.max(), wide.min())
    assert found.mean == pytest.approx(float(wide.astype(np.float64).mean()), rel=1e-7)
    assert found.norm == pytest.approx(float(np.linalg.norm(wide.astype(np.float64))), rel=1e-7)


def test_one_nan_makes_all_statistics_nan(tmp_path):
    array = np.ones(2_500_000, np.float32)
    array[2_400_000] = np.nan
    np.save(tmp_path / "a.npy", array)
    found = side_statistics(open_npy(tmp_path / "a.npy"))
    assert all(value != value for value in (found.max, found.min, found.mean, found.norm))
