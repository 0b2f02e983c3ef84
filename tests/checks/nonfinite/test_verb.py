"""The command `overflow_check`: its last line, its file, its exit codes."""

import json

import pytest
from story import Rank, tensor, value, write

from msprobe.cli import main

EXP = "Torch.exp.0.forward"


@pytest.fixture
def bad(tmp_path):
    rank = Rank().call(EXP, [1, value(2)], ["3 inf"], parent="Module.a.A.forward.0", line=4)
    rank.call("Module.a.A.forward.0", [1], ["3 inf"])
    return write(tmp_path / "run", {0: Rank().call(EXP, [1], [2]), 1: rank}, framework="pytorch")


@pytest.mark.parametrize("verb", ["overflow_check", "nan_analyze"])
def test_the_last_line_and_the_file(verb, bad, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([verb, "-i", str(bad / "step0"), "-o", str(out)]) == 1
    expected = f"first non-finite: {EXP} in a on rank 1: inputs finite, output.0 has 3 inf (/train/net.py:4)"
    assert capsys.readouterr().out.splitlines()[-1] == expected
    (file,) = out.iterdir()
    assert file.name.startswith("anomaly_analyze_")
    assert file.suffix == ".json"
    found = json.loads(file.read_text())
    assert list(found) == ["rank_1"]
    (entry,) = found["rank_1"]
    assert entry["op_name"] == EXP
    assert entry["construct_info"] == ["Module.a.A.forward.0", EXP]
    assert len(entry["stack_info"]) == 1
    assert set(entry["data_info"]) == {"input_args", "input_kwargs", "output"}
    assert entry["data_info"]["output"][0]["positive_inf_count"] == 3
    assert entry["non_finite_outputs"] == [
        {"place": "output.0", "nan": 0, "inf": 3, "minus_inf": 0, "is_counted": True}
    ]


def test_json_holds_the_evidence_as_fields(bad, tmp_path, capsys):
    assert main(["overflow_check", str(bad), "-o", str(tmp_path / "out"), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    details = found["details"]
    assert (found["state"], details["step"], details["ranks"], details["independent"]) == ("differs", 0, [0, 1], 1)
    places = [
        (one["place"]["rank"], one["place"]["name"], one["kind"], one["place"]["line"]) for one in found["findings"]
    ]
    assert places[0] == (1, EXP, "made", 4)


def test_a_clean_dump_writes_nothing_and_ends_with_0(tmp_path, capsys):
    write(tmp_path / "run", {0: Rank().call(EXP, [1], [2])})
    assert main(["overflow_check", str(tmp_path / "run"), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.startswith("first non-finite: none")
    assert not (tmp_path / "out").exists()


def test_only_the_ranks_that_were_asked_for(bad, capsys):
    assert main(["overflow_check", str(bad), "--rank", "0"]) == 0
    assert main(["overflow_check", str(bad), "--rank", "7"]) == 2
    assert "asked for" in capsys.readouterr().err


def test_exit_zero(bad, tmp_path):
    assert main(["overflow_check", str(bad), "-o", str(tmp_path / "out"), "--exit-zero"]) == 0


@pytest.mark.parametrize("words", [[], ["a", "-i", "b"], ["/no/such/dump"]])
def test_a_wrong_command_ends_with_2(words, capsys):
    assert main(["overflow_check", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_digests_alone_end_with_2(tmp_path, capsys):
    record = tensor(1)
    for key in ("Max", "Min", "Mean", "Norm"):
        del record[key]
    write(tmp_path, {0: Rank().call(EXP, [record | {"md5": "00000000"}], [record])})
    assert main(["overflow_check", str(tmp_path)]) == 2
    assert "summary_mode" in capsys.readouterr().err


def test_the_folder_of_a_run_of_one_rank(tmp_path, capsys):
    Rank().call(EXP, [1], ["nan"]).write(tmp_path / "step5" / "rank")
    assert main(["overflow_check", str(tmp_path / "step5" / "rank" / "dump.json"), "-o", str(tmp_path / "o")]) == 1
    assert " on rank 0: " in capsys.readouterr().out
