"""`msprobe compare --json`: the document, by two dumps that are made by hand."""

import json

import jsonschema
import pytest

from msprobe.cli import main
from msprobe.findings.document import SCHEMA_FILE

SCHEMA = json.loads(SCHEMA_FILE.read_text("utf-8"))

EXP, SIN = "Mint.exp.0.forward", "Mint.sin.0.forward"


@pytest.fixture
def document(tmp_path, capsys):
    """The document that a comparison prints, with the exit code."""

    def print_it(*words):
        capsys.readouterr()
        code = main(["compare", *map(str, words), "-o", str(tmp_path / "out"), "--json"])
        made = json.loads(capsys.readouterr().out)
        jsonschema.Draft202012Validator(SCHEMA).validate(made)
        assert (made["command"], made["exit_code"]) == ("compare", code)
        return made

    return print_it


def side(builder, name, result):
    return builder(name).call(EXP, [1.0], [2.0]).call(SIN, [2.0], [result]).write()


def test_a_difference_is_a_finding_with_its_code_place_and_numbers(builder, document):
    made = document(side(builder, "target", 9.0), side(builder, "golden", 3.0))
    assert (made["exit_code"], made["state"], made["first_is_cause"]) == (1, "differs", True)
    (found,) = made["findings"]
    assert (found["code"], found["kind"], found["severity"]) == ("MSP101", "computes differently", "error")
    assert (found["grade"], found["certainty"], found["later_calls"]) == ("error", "certain", 0)
    place = found["place"]
    assert (place["name"], place["record"], place["step"], place["rank"]) == (SIN, "output.0", 0, 0)
    assert found["fields"]["type"] == "Computed"
    assert found["fields"]["difference"]["place"] == "output.0"
    assert made["judged"] == {"fine": 3, "wrong": 1, "unjudged": 0}
    assert made["counts"] == {"pass": 3, "warning": 0, "error": 1, "unjudged": 0}
    assert made["answer"].startswith(f"first wrong call: {SIN} in the root: computes differently: ")
    (table,) = made["files"]["tables"]
    assert table.endswith(".xlsx")
    assert any("msprobe diagnose" in (one["command"] or "") for one in made["suggestions"])


def test_equal_dumps_are_clean(builder, document):
    made = document(side(builder, "target", 3.0), side(builder, "golden", 3.0))
    assert (made["exit_code"], made["state"], made["findings"]) == (0, "clean", [])
    assert made["answer"] == "no difference: 4 pairs judged, 0 unjudged"


def test_of_several_ranks_the_first_finding_is_that_of_all(builder, document, tmp_path):
    for name in ("t", "g"):
        for rank in (0, 1):
            made = builder(name).call(EXP, [1.0], [2.0])
            made.folder = tmp_path / name / "step0" / f"rank{rank}"
            made.call(SIN, [2.0], [9.0 if (name, rank) == ("t", 1) else 3.0]).write()
    made = document(tmp_path / "t", tmp_path / "g")
    (found,) = made["findings"]
    assert (found["place"]["rank"], found["place"]["name"]) == (1, SIN)
    assert len(made["files"]["tables"]) == 2


def test_exit_zero_is_the_exit_code_of_the_document(builder, document):
    made = document(side(builder, "target", 9.0), side(builder, "golden", 3.0), "--exit-zero")
    assert (made["exit_code"], made["state"]) == (0, "differs")


def test_a_command_that_fails_prints_a_document_too(tmp_path, document, capsys):
    made = document(tmp_path / "nowhere", tmp_path / "nothing")
    assert (made["state"], made["exit_code"], made["findings"]) == ("failed", 2, [])
    assert str(tmp_path / "nowhere") in made["answer"]
