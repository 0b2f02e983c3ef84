"""The folder that a training will write to."""

import json
import os

import pytest

from msprobe.cli import main
from msprobe.findings.catalogue import readiness as kind
from msprobe.readiness import place


def kinds(path, **options):
    return [each.kind for each in place.examine(place.place_of(path), **options)]


def free_bytes(folder):
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def test_a_folder_that_is_not_there_yet_is_looked_for_above(tmp_path):
    for _ in range(50):  # other processes write to the same disk: compared where it did not change meanwhile
        before, where, after = free_bytes(tmp_path), place.place_of(tmp_path / "a" / "b"), free_bytes(tmp_path)
        if before == after:
            break
    assert before == where.free == after
    assert where.there == tmp_path
    assert kinds(tmp_path / "a" / "b") == []
    assert list(tmp_path.iterdir()) == []


def test_the_trial_leaves_nothing(tmp_path):
    (tmp_path / "mine").write_text("x")
    assert kinds(tmp_path) == []
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_file_on_the_way(tmp_path):
    (tmp_path / "file").write_text("")
    assert kinds(tmp_path / "file" / "dump") == [kind.NOT_A_FOLDER]


def test_a_place_that_takes_no_files():
    assert kinds(place.Path("/proc/1/dump"))[0] is kind.NOT_WRITABLE


def test_a_budget_above_what_is_free(tmp_path):
    assert kinds(tmp_path, budget=place.place_of(tmp_path).free * 2) == [kind.BUDGET]


def test_little_space_and_few_files(tmp_path):
    full = place.Place(tmp_path, tmp_path, 5, 3)
    assert [each.kind for each in place.examine(full)] == [kind.LITTLE_SPACE, kind.FEW_FILES]
    uncounted = place.Place(tmp_path, tmp_path, 2**40, -1)
    assert list(place.examine(uncounted)) == []


def test_a_folder_of_another_run_is_noted(tmp_path):
    (tmp_path / "step0" / "rank0").mkdir(parents=True)
    assert kinds(tmp_path) == [kind.OTHER_RUN]


@pytest.mark.parametrize("words", ["doctor . --config c.json", "doctor --config nowhere.json", "doctor --ranks 0"])
def test_a_wrong_command_is_exit_code_2(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(words.split())
    except SystemExit as err:
        code = err.code
    assert code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_exit_code_and_the_last_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text(json.dumps({"level": "L0", "statistics": {"list": ["Mint.add"]}}))
    assert main(["doctor", "--config", "c.json"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 found; the first: c.json, dump_path")
    assert main(["doctor", "--config", "c.json", "--dump-path", "d"]) == 1
    assert (
        capsys.readouterr().out.splitlines()[-1].startswith('1 found; the first: c.json, statistics.list: "Mint.add"')
    )
    (tmp_path / "c.json").write_text(json.dumps({"level": "L0"}))
    assert main(["doctor", "--config", "c.json", "--dump-path", "d"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing is wrong"


def test_the_framework_that_is_named_is_examined(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text(json.dumps({"level": "mix", "dump_path": "d", "jit_cells": "split"}))
    for words in (["doctor", "--framework", "pytorch"], ["-f", "pytorch", "doctor"]):
        assert main([*words, "--config", "c.json", "--format", "json"]) == 1
        kinds = {each["kind"] for each in json.loads(capsys.readouterr().out)["findings"]}
        assert "refused" in kinds
