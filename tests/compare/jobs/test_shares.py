"""Large dumps are read, and large tables written, by several processes; what comes out is the same."""

import pytest

from msprobe.cli import main
from msprobe.compare.jobs import outcome
from msprobe.compare.tables import csv_file


@pytest.fixture
def dumps(builder, value):
    """Sixty calls; from the twentieth on their results differ, and the target has one call more."""
    for side in ("t", "g"):
        made = builder(side)
        for n in range(60):
            off = 0.5 * (side == "t" and n >= 20)
            made.call(f"Mint.exp.{n}.forward", [1.0, value(n)], [2.0 + off], stack=["File a.py, line 1, in f, \n x"])
        if side == "t":
            made.call("Mint.tan.0.forward", [1.0], [2.0])
        made.write()


def table(tmp_path, name, *more):
    sides = ["-tp", str(tmp_path / "t" / "step0" / "rank"), "-gp", str(tmp_path / "g" / "step0" / "rank")]
    assert main(["compare", *sides, "-o", str(tmp_path / name), "--format", "csv", "-s", *more]) == 1
    (file,) = (tmp_path / name).iterdir()
    return file.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["2", "3"])
def test_a_table_written_in_shares_is_that_of_one_process(workers, dumps, tmp_path, monkeypatch):
    alone = table(tmp_path, "alone", "--workers", "1")
    monkeypatch.setattr(csv_file, "WORTH_SHARES", 0)
    monkeypatch.setattr(outcome, "_WORTH_WORKERS", 0)
    assert table(tmp_path, "shared", "--workers", workers) == alone
    assert alone.count(b"\r\n") == 1 + 60 * 3 + 2


def test_a_dump_that_cannot_be_read_is_said_as_by_one_process(dumps, tmp_path, monkeypatch, capfd):
    (tmp_path / "g" / "step0" / "rank" / "dump.json").write_text('{"task": "statistics", "data": {')
    monkeypatch.setattr(outcome, "_WORTH_WORKERS", 0)
    sides = ["-tp", str(tmp_path / "t" / "step0" / "rank"), "-gp", str(tmp_path / "g" / "step0" / "rank")]
    received = []
    for workers in ("1", "2"):
        assert main(["compare", *sides, "-o", str(tmp_path / "o"), "--workers", workers]) == 2
        received.append(capfd.readouterr().err.splitlines()[-1])
    assert received[0] == received[1]
    assert "dump.json: is not valid JSON at line 1" in received[0]
